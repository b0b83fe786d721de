//! A server of the explorer, and a small client of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::programs::{InTime as _, PATIENCE, end, program};
use crate::served::said_first;

/// An answer: the status, the head, and the body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON, of an answer that must be one.
    pub(crate) fn json(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }

    /// The problem, of an answer with this status.
    pub(crate) fn problem(self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        let body: Value = serde_json::from_str(&self.body).unwrap();
        body["error"].as_str().unwrap().to_owned()
    }
}

/// A running server, ended on drop.
pub(crate) struct Explorer {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// What it said first.
    pub(crate) said: String,
}

/// Returns the command line of a server that opens no browser, on a free port.
fn command(lake: &Path, arguments: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_steplake-explore"));
    command.env_remove("STEPLAKE_TOKEN").env_remove("STEPLAKE_LOG").env("STEPLAKE_LAKE", lake);
    command.arg("--no-open").args(arguments);
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Runs a server that cannot start.
pub(crate) fn fail(lake: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command(lake, arguments).output_in_time();
    (status.code(), String::from_utf8(stderr).unwrap())
}

impl Explorer {
    /// Starts a server of the toy environment, which needs no compiler.
    pub(crate) fn toy(lake: &Path, arguments: &[&str]) -> Self {
        Self::start(lake, &[&["--env", "toy-v0"], arguments].concat())
    }

    pub(crate) fn start(lake: &Path, arguments: &[&str]) -> Self {
        let mut child = command(lake, arguments).spawn().unwrap();
        let said = said_first(&mut child);
        let (_, link) = said.split_once("://").unwrap_or_else(|| panic!("{said}"));
        let address = link.split('/').next().unwrap().parse().unwrap();
        Self { child, address, said }
    }

    /// Sends a request, with further lines of its head.
    pub(crate) fn send(&self, request: &str, head: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = format!("Host: {}", self.address);
        let has_host = head.iter().any(|line| line.starts_with("Host:"));
        let length = format!("Content-Length: {}", body.len());
        let request = format!("{request} HTTP/1.1");
        let mut lines = vec![request.as_str(), "Connection: close", &length];
        lines.extend((!has_host).then_some(host.as_str()));
        lines.extend(head);
        let text = format!("{}\r\n\r\n{body}", lines.join("\r\n"));
        // A server that refuses a body need not read it.
        let _ = stream.write_all(text.as_bytes());
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn ask(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[], "")
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.ask(path).json()
    }

    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Answer {
        let kind = ["Content-Type: application/json"];
        self.send(&format!("POST {path}"), &kind, &body.to_string())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body).json()
    }

    pub(crate) fn delete(&self, path: &str) -> Value {
        self.send(&format!("DELETE {path}"), &[], "").json()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// The processes that the server has started.
    pub(crate) fn children(&self) -> Vec<u32> {
        let pid = self.child.id();
        let mut children = Vec::new();
        // Any of its threads may have started one.
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let list = task.unwrap().path().join("children");
            let list = std::fs::read_to_string(list).unwrap_or_default();
            children.extend(list.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
        }
        children
    }
}

impl Drop for Explorer {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
