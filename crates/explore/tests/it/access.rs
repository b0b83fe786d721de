//! Who may ask the explorer, the page itself, and how the server ends.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::encrypted::{ask, certificate};
use crate::explorer::{Explorer, fail};
use crate::programs::{end_of, until};
use crate::served::lake;

#[test]
fn the_page_is_part_of_the_program() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    let page = server.ask("/");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-type: text/html; charset=utf-8"), "{}", page.head);
    assert!(page.head.contains("content-security-policy: default-src 'self'"), "{}", page.head);
    assert!(page.head.contains("cache-control: no-cache"), "{}", page.head);
    assert!(page.body.starts_with("<!doctype html>"), "{}", page.body);
    assert_eq!(server.ask("/nothing.js").status, 404);
    assert_eq!(server.ask("/../Cargo.toml").status, 404);
    let call = server.ask("/api/describe");
    assert!(call.head.contains("cache-control: no-store"), "{}", call.head);
    assert!(call.head.contains("x-content-type-options: nosniff"), "{}", call.head);
}

#[test]
fn a_call_with_another_method_is_refused_and_its_methods_are_named() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    for (request, allowed) in [
        ("POST /", "get,head"),
        ("GET /api/v4/step", "post"),
        ("HEAD /api/v4/step", "post"),
        ("GET /api/sessions", "post"),
        ("GET /api/sessions/x/fork", "post"),
        ("GET /api/sessions/x/nodes", "post"),
        ("GET /api/sessions/x/nodes/0", "delete"),
        ("GET /api/lake/query", "post"),
        ("POST /api/describe", "get,head"),
        ("PUT /api/sessions/x", "get,head,delete"),
    ] {
        let answer = server.send(request, &[], "");
        assert_eq!(answer.status, 405, "{request}: {}", answer.body);
        let line = format!("\r\nallow: {allowed}\r\n");
        assert!(answer.head.contains(&line), "{request}: {}", answer.head);
    }
    let told = server.ask("/api/v4/step?benchmark=generator://toy-v0/1").problem(405);
    assert!(told.contains("/api/v4/step is no GET call: the header `Allow`"), "{told}");
}

#[test]
fn pages_of_others_are_refused() {
    let (_folder, lake) = lake();
    let server = Explorer::toy(&lake, &[]);
    let own = format!("Origin: http://{}", server.address);
    for (request, head, status) in [
        ("GET /api/describe", vec!["Host: evil.test"], 403),
        ("GET /", vec!["Host: evil.test"], 403),
        ("GET /api/describe", vec!["Host: localhost:1"], 200),
        ("GET /api/describe", vec!["Sec-Fetch-Site: cross-site"], 403),
        ("GET /api/describe", vec!["Sec-Fetch-Site: same-site"], 403),
        ("GET /api/describe", vec!["Sec-Fetch-Site: same-origin"], 200),
        ("GET /api/describe", vec!["Sec-Fetch-Site: none"], 200),
        ("GET /api/describe", vec!["Origin: http://localhost:1"], 403),
        // A link from elsewhere to the page itself is followed.
        ("GET /", vec!["Sec-Fetch-Site: same-site"], 200),
        ("POST /api/v4/step", vec!["Sec-Fetch-Site: same-site"], 403),
        ("POST /api/v4/step", vec!["Origin: http://localhost:1"], 403),
        ("POST /api/sessions/x/fork", vec!["Content-Type: text/plain"], 415),
        ("DELETE /api/sessions/x", vec!["Origin: http://evil.test"], 403),
        ("DELETE /api/sessions/x", vec!["Origin: null"], 403),
        ("DELETE /api/sessions/x", vec![own.as_str()], 200),
        (
            "POST /api/sessions",
            vec!["Origin: http://localhost:1", "Content-Type: application/json"],
            403,
        ),
        ("POST /api/sessions", vec!["Content-Type: text/plain"], 415),
        ("POST /api/sessions", vec![], 415),
    ] {
        let answer = server.send(request, &head, "");
        assert_eq!(answer.status, status, "{request} {head:?}: {}", answer.body);
    }
    let large = json!({ "source": { "name": "a.c", "text": "x".repeat(9 << 20) } });
    assert_eq!(server.try_post("/api/sessions", &large).status, 413);
}

#[test]
fn a_token_opens_every_call() {
    let (folder, lake) = lake();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cret/+\n").unwrap();
    let server = Explorer::toy(&lake, &["--token-file", file.to_str().unwrap()]);
    assert!(server.said.ends_with("/#token=s3cret%2F%2B"), "{}", server.said);
    // The page has no secrets, and asks with the token of its link.
    assert_eq!(server.ask("/").status, 200);
    let told = server.ask("/api/describe").problem(401);
    assert!(told.contains("requires a token"), "{told}");
    for (header, status) in [
        ("Authorization: Bearer s3cret/+", 200),
        ("Authorization: Bearer s3cret", 401),
        ("Authorization: Basic s3cret/+", 401),
    ] {
        assert_eq!(server.send("GET /api/describe", &[header], "").status, status, "{header}");
    }
    let foreign = ["Authorization: Bearer s3cret/+", "Origin: http://evil.test"];
    assert_eq!(server.send("DELETE /api/sessions/x", &foreign, "").status, 403);
    let named = ["Authorization: Bearer s3cret/+", "Host: lakes.example"];
    assert_eq!(server.send("GET /api/v4/describe", &named, "").status, 200);
}

#[test]
fn a_token_that_reads_starts_no_session() {
    let (folder, lake) = lake();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "alice admin a\nbob read b\ncarol step c\n").unwrap();
    let server = Explorer::toy(&lake, &["--token-file", file.to_str().unwrap()]);
    assert!(server.said.ends_with('/'), "{}", server.said);
    let question = r#"{"sql":"SELECT 1"}"#;
    let start = r#"{"benchmark":"generator://toy-v0/1"}"#;
    for (token, statuses) in [("a", [200; 3]), ("b", [200, 200, 403]), ("c", [200, 403, 200])] {
        let token = format!("Authorization: Bearer {token}");
        let head = [token.as_str(), "Content-Type: application/json"];
        let asked = [
            server.send("GET /api/describe", &head, ""),
            server.send("POST /api/lake/query", &head, question),
            server.send("POST /api/sessions", &head, start),
        ];
        assert_eq!(asked.map(|answer| answer.status), statuses, "{token}");
    }
    let head = ["Authorization: Bearer b"];
    let told = server.send("POST /api/v4/step", &head, "").problem(403);
    assert!(told.contains("of `bob` may not run the compiler"), "{told}");
}

#[test]
fn the_page_is_encrypted_where_there_is_a_certificate() {
    let (folder, lake) = lake();
    let (chain, key) = certificate(folder.path());
    let arguments = ["--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let server = Explorer::toy(&lake, &arguments);
    let url = format!("https://{}/api/describe", server.address);
    assert!(server.said.ends_with(&format!("https://{}/", server.address)), "{}", server.said);
    // Whoever only opens a connection holds up nobody: that would take ten seconds.
    let silent = || std::net::TcpStream::connect(server.address).unwrap();
    let _silent = std::array::from_fn::<_, 40, _>(|_| silent());
    let (status, body) = ask(&chain, &url, &["--max-time", "8"]);
    assert!(status == 200 && body.contains("\"lake\""), "{status} {body}");
    let open = url.replace("https", "http");
    assert_eq!(ask(&chain, &open, &[]).0, 0);
}

#[test]
fn what_cannot_be_served_is_said_at_the_start() {
    let (folder, lake) = lake();
    for (arguments, code, told) in [
        (vec!["--listen", "0.0.0.0:0"], 2, "lacks a token (--token-file)"),
        (vec!["--listen", "0.0.0.0:0", "--insecure"], 2, "lacks a token (--token-file)"),
        (vec!["--env", "nothing-v0"], 2, "there is no environment `nothing-v0`"),
        (vec!["--snapshot", "99"], 2, "no snapshot 99"),
    ] {
        let (found, said) = fail(&lake, &arguments);
        assert!(found == Some(code) && said.contains(told), "{found:?} {said}");
    }
    let (found, said) = fail(folder.path(), &[]);
    assert!(found == Some(3) && said.contains("has no lake.json"), "{found:?} {said}");
    let server = Explorer::toy(&lake, &[]);
    let (found, said) = fail(&lake, &["--listen", &server.address.to_string()]);
    assert!(found == Some(2) && said.contains("cannot listen on"), "{found:?} {said}");
}

#[test]
fn a_signal_ends_it_well() {
    let (_folder, lake) = lake();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Explorer::toy(&lake, &[]);
        server.post("/api/sessions", &json!({ "benchmark": "generator://toy-v0/1" }));
        server.signal(signal);
        assert_eq!(end_of(&mut server.child, "the server").code(), Some(0), "{signal}");
    }
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_nothing_behind() {
    let (_folder, lake) = lake();
    // Its states depend on the process, so its sessions live in workers.
    let mut server = Explorer::start(&lake, &["--env", "toy-unsure-v0"]);
    let sent = json!({ "benchmark": "generator://toy-v0/1", "actions": [0, 1] });
    let session = server.post("/api/sessions", &sent);
    let workers = server.children();
    assert!(!workers.is_empty());
    server.signal(Signal::SIGKILL);
    end_of(&mut server.child, "a server that was killed");
    let is_there = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    until("the workers are gone", || !workers.iter().any(is_there));
    let server = Explorer::toy(&lake, &[]);
    let path = format!("/api/sessions/{}", session["id"].as_str().unwrap());
    assert!(server.ask(&path).problem(404).contains("there is no session"));
    assert!(server.get("/api/describe")["lake"]["states"].as_u64() > Some(0));
}
