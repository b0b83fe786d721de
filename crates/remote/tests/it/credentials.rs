//! An S3 store without the variables that give credentials.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use crate::programs::{InTime as _, program};
use crate::support::{lake, record};

/// Starts a server that stands for a machine without credentials of its own; returns its address.
fn without_credentials() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = BufReader::new(&stream).lines().map_while(Result::ok);
            request.take_while(|line| !line.is_empty()).for_each(drop);
            let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// Publishes with only these variables set. Returns the exit code and the message.
fn publish(lake: &Path, variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = program(env!("CARGO_BIN_EXE_steplake-remote"));
    command.env_clear().envs(variables.iter().copied()).env("STEPLAKE_LAKE", lake);
    // Nothing listens there: without credentials, no request is sent.
    command.args(["publish", "s3://bucket/lake", "--endpoint", "http://127.0.0.1:9"]);
    let output = command.arg("--allow-http").output_in_time();
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    (output.status.code().unwrap(), said)
}

#[test]
fn a_publisher_without_credentials_is_told_which_variables_to_set() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(&folder.path().join("lake"));
    record(&lake, 7, 2);
    let nowhere = format!("http://{}", without_credentials());
    let cases = [
        (&[("AWS_METADATA_ENDPOINT", nowhere.as_str())][..], 5, "there are no credentials"),
        (&[("AWS_ACCESS_KEY_ID", "somebody")], 2, "s3://bucket/lake cannot be used"),
    ];
    for (variables, wanted, says) in cases {
        let (code, said) = publish(lake.path(), variables);
        let line = said.lines().last().unwrap();
        assert!(code == wanted && line.contains(says), "{code}: {said}");
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"]
        {
            assert!(line.contains(name), "{name}: {said}");
        }
        assert!(!line.contains("http://"), "{said}");
    }
}
