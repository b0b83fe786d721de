//! Access: addresses, tokens, TLS.

use std::ffi::OsStr;
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow_flight::sql::client::FlightSqlServiceClient;
use tonic::Code;
use tonic::transport::{Certificate, Channel, ClientTlsConfig};

use crate::encrypted::certificate;
use crate::programs::{InTime as _, PATIENCE};
use crate::served::lake;
use crate::support::{Server, command, number, refusal, status};

/// Runs a server that must not start: returns its exit code and its message.
fn fail(lake: &Path, arguments: &[&str]) -> (i32, String) {
    let output = command(lake, arguments).output_in_time();
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    (output.status.code().unwrap_or(-1), said)
}

#[tokio::test]
async fn a_token_opens_and_nothing_else_does() {
    let (folder, lake) = lake();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let server = Server::start(&lake, &["--token-file", file.to_str().unwrap()]);
    let mut client = server.client().await;
    for token in [None, Some("s3cre"), Some("S3CRET"), Some("")] {
        if let Some(token) = token {
            client.set_token(token.to_owned());
        }
        let refused = refusal(&mut client, "SELECT 1").await;
        assert_eq!(refused.code(), Code::Unauthenticated, "{token:?}");
        assert!(refused.message().contains("authorization: Bearer"), "{}", refused.message());
        assert!(client.get_catalogs().await.is_err());
        assert!(client.prepare("SELECT 1".to_owned(), None).await.is_err());
    }
    client.set_token("s3cret".to_owned());
    assert_eq!(number(&mut client, "SELECT 1").await, 1);
    // Without the token, a ticket opens nothing.
    let info = client.execute("SELECT 1".to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    client.clear_token();
    let refused = status(client.do_get(ticket).await.map(|_| ()).unwrap_err());
    assert_eq!(refused.code(), Code::Unauthenticated);
    // Health is not secret.
    assert!(server.get("/health").0.contains("200"));
}

#[test]
fn a_lake_is_not_shown_to_the_network_by_accident() {
    let (folder, lake) = lake();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cret").unwrap();
    let file = file.to_str().unwrap();
    let (code, said) = fail(&lake, &["--listen", "0.0.0.0:0"]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("a token (--token-file) and TLS") && said.contains("--insecure"),
        "{said}"
    );
    let (code, said) = fail(&lake, &["--listen", "0.0.0.0:0", "--token-file", file]);
    assert!(code == 2 && said.contains("lacks TLS"), "{code} {said}");
    let server = Server::start(&lake, &["--listen", "0.0.0.0:0", "--insecure"]);
    assert!(server.address.ip().is_unspecified());
}

#[test]
fn what_cannot_be_served_is_said_at_the_start() {
    let (folder, lake) = lake();
    let none = folder.path().join("none");
    let (code, said) = fail(&none, &[]);
    assert!(code == 3 && said.contains("there is no lake at"), "{code} {said}");
    let (code, said) = fail(&lake, &["--snapshot", "99"]);
    assert!(code == 2 && said.contains("no snapshot 99"), "{code} {said}");
    let server = Server::start(&lake, &[]);
    let (code, said) = fail(&lake, &["--listen", &server.address.to_string()]);
    assert!(code == 2 && said.contains("cannot listen on"), "{code} {said}");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    let (code, said) = fail(&lake, &["--token-file", empty.to_str().unwrap()]);
    assert!(code == 2 && said.contains("has no valid token"), "{code} {said}");
    let empty = empty.to_str().unwrap();
    let (code, said) = fail(&lake, &["--tls-cert", empty, "--tls-key", empty]);
    assert!(code == 2 && said.contains("are not a certificate and its key"), "{code} {said}");
    let (code, _) = fail(&lake, &["--tls-cert", empty]);
    assert_eq!(code, 2);
}

#[tokio::test]
async fn tokens_have_rights_and_are_read_again() {
    let (folder, lake) = lake();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "# name rights token\nalice read one\nbob step two\n").unwrap();
    let server = Server::start(&lake, &["--token-file", file.to_str().unwrap()]);
    let mut client = server.client().await;
    client.set_token("one".to_owned());
    assert_eq!(number(&mut client, "SELECT 1").await, 1);
    client.set_token("two".to_owned());
    let refused = refusal(&mut client, "SELECT 1").await;
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("of `bob` may not read the lake"), "{}", refused.message());
    // The server looks at the file once a second.
    std::fs::write(&file, "bob read,step two\n").unwrap();
    let deadline = Instant::now() + PATIENCE;
    while client.execute("SELECT 1".to_owned(), None).await.is_err() {
        assert!(Instant::now() < deadline, "the tokens are not read again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.set_token("one".to_owned());
    assert_eq!(refusal(&mut client, "SELECT 1").await.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn tls_is_spoken_where_there_is_a_certificate() {
    let (folder, lake) = lake();
    let (certificate, key) = certificate(folder.path());
    let arguments =
        ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let server = Server::start(&lake, &arguments);
    let authority = Certificate::from_pem(std::fs::read(&certificate).unwrap());
    let tls = ClientTlsConfig::new().ca_certificate(authority);
    let endpoint = Channel::from_shared(format!("https://{}", server.address)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    let mut client = FlightSqlServiceClient::new(channel);
    assert_eq!(number(&mut client, "SELECT 1").await, 1);
    // Clients that do not trust the certificate, or do not encrypt, are refused.
    let stranger = Channel::from_shared(format!("https://{}", server.address)).unwrap();
    let stranger = stranger.tls_config(ClientTlsConfig::new()).unwrap();
    assert!(stranger.connect().await.is_err());
    let open = Channel::from_shared(format!("http://{}", server.address)).unwrap();
    // The refusal may come on connecting or on asking: no query has run.
    if let Ok(channel) = open.connect().await {
        let mut client = FlightSqlServiceClient::new(channel);
        assert!(client.execute("SELECT 1".to_owned(), None).await.is_err());
    }
    assert_eq!(server.metric("steplake_queries_total"), 1);
}

#[test]
fn a_token_that_is_no_text_is_not_no_token() {
    let (_folder, lake) = lake();
    let mut command = command(&lake, &[]);
    command.env("STEPLAKE_TOKEN", OsStr::from_bytes(b"s3cret\xff"));
    let output = command.output_in_time();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("STEPLAKE_TOKEN is not text"), "{said}");
}

#[test]
fn a_client_that_says_nothing_is_let_go() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let silent = TcpStream::connect(server.address).unwrap();
    let mut slow = TcpStream::connect(server.address).unwrap();
    slow.write_all(b"PRI * HTTP/2.0").unwrap();
    for mut stream in [silent, slow] {
        // Whatever the server sends first, the connection ends.
        let ended = std::io::copy(&mut stream, &mut std::io::sink());
        assert!(ended.is_ok() || ended.unwrap_err().kind() == ErrorKind::ConnectionReset);
    }
}
