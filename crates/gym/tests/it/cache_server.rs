//! A server that answers from a lake, asked over HTTP and gRPC.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use steplake::model::StateId;

use crate::gym_server::Server;
use crate::programs::PATIENCE;

/// Starts a cache of a lake, of the toy environment.
pub(crate) fn start(lake: &Path) -> Server {
    of("toy-v0", lake, &[])
}

/// Starts a cache of a lake.
pub(crate) fn of(environment: &str, lake: &Path, more: &[&str]) -> Server {
    let lake = lake.to_str().unwrap();
    let cache = ["--cache", "--http", "127.0.0.1:0", "--lake", lake];
    Server::of(environment, &[&cache[..], more].concat())
}

/// An answer over HTTP: the status and the body. None if the server is gone.
pub(crate) fn try_http(address: &str, head: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    // Of an answer that was cut off, the client knows nothing.
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    (length.parse() == Ok(body.len())).then(|| (status, body.to_owned()))
}

impl Server {
    fn http(&self) -> &str {
        self.http.as_deref().expect("a cache answers over HTTP")
    }

    /// Asks for a step.
    pub(crate) fn ask(&self, request: &Value) -> (u16, Value) {
        let (status, body) = try_http(self.http(), "POST /step", &request.to_string()).unwrap();
        (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }

    /// Asks for a step that has to be answered.
    pub(crate) fn step(&self, benchmark: &str, state: Option<StateId>, action: &str) -> Value {
        let state = state.map(|state| state.to_string());
        let request = json!({ "benchmark": benchmark, "state": state, "action": action });
        let (status, answer) = self.ask(&request);
        assert_eq!(status, 200, "{request}: {answer}");
        answer
    }

    /// Returns a counter of the cache.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let (status, text) = try_http(self.http(), "GET /metrics", "").unwrap();
        assert_eq!(status, 200);
        let value =
            text.lines().find_map(|line| line.strip_prefix(&format!("steplake_cache_{name} ")));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }
}

/// The state in an answer.
pub(crate) fn state(answer: &Value) -> StateId {
    answer["state"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}
