//! Who may run the compiler and record, and how that travels.

use std::path::Path;
use std::process::Output;

use steplake::env::toy;
use tonic::Code;

use crate::cache_server::of;
use crate::client::{command, file};
use crate::encrypted::{ask, certificate};
use crate::gym_server::proto::{
    Benchmark, File, GetVersionRequest, StartSessionRequest, file::Data,
};
use crate::gym_server::{Server, sent};
use crate::programs::InTime as _;
use crate::served::record;

/// Plays two episodes in a service, with a token.
fn play(lake: &Path, address: &str, token: Option<&str>, roots: Option<&Path>) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let program = file(folder.path(), "toy", &toy::benchmark(0).program);
    let run = ["generate", "--env", address, "--episodes", "2", "--episode-length", "4"];
    let mut command = command(lake, &[&run[..], &["--benchmark", &program]].concat());
    command.envs(token.map(|token| ("STEPLAKE_SERVICE_TOKEN", token)));
    command.envs(roots.map(|roots| ("SSL_CERT_FILE", roots)));
    command.output_in_time()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn sessions_are_for_holders_of_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "alice read one\nbob step two\ncarol record three\n").unwrap();
    let server = Server::start(&["--token-file", tokens.to_str().unwrap()]);
    let mut stranger = server.client().await;
    let refused = stranger.get_version(GetVersionRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let benchmark = Some(sent(&toy::benchmark(0)));
    let start = StartSessionRequest { benchmark, ..StartSessionRequest::default() };
    assert_eq!(stranger.start_session(start).await.unwrap_err().code(), Code::Unauthenticated);

    let lake = folder.path().join("lake");
    let address = format!("grpc://{}/counter-v0", server.address);
    let none = play(&lake, &address, None, None);
    assert!(!none.status.success() && said(&none).contains("requires a token"), "{}", said(&none));
    let reader = play(&lake, &address, Some("one"), None);
    assert!(said(&reader).contains("of `alice` may not run the compiler"), "{}", said(&reader));
    assert!(!lake.exists());
    // Over the network, a token is sent encrypted or not at all.
    let open = play(&lake, "grpc://192.0.2.1:1/counter-v0", Some("two"), None);
    assert!(said(&open).contains("is not sent to 192.0.2.1:1"), "{}", said(&open));
    // The files of the server are none of theirs, the tokens least of all.
    let uri = format!("file://{}", tokens.display());
    let program = Some(File { data: Some(Data::Uri(uri.clone())) });
    let benchmark = Some(Benchmark { uri, program, dynamic_config: None });
    let start = StartSessionRequest { benchmark, ..StartSessionRequest::default() };
    let mut request = tonic::Request::new(start);
    request.metadata_mut().insert("authorization", "Bearer two".parse().unwrap());
    let refused = stranger.start_session(request).await.unwrap_err();
    assert!(refused.message().contains("this service reads no files"), "{}", refused.message());
    for token in ["two", "three"] {
        let played = play(&lake, &address, Some(token), None);
        assert!(played.status.success(), "{}", said(&played));
    }
}

#[test]
fn who_may_not_record_takes_no_steps_that_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (cached, lake) = (folder.path().join("cached"), folder.path().join("lake"));
    record(&cached, 7);
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "bob read,step two\ncarol record three\n").unwrap();
    let (chain, key) = certificate(folder.path());
    let mut arguments = vec!["--token-file", tokens.to_str().unwrap()];
    arguments.extend(["--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    let cache = of("toy-v0", &cached, &arguments);

    let address = format!("grpc+tls://{}/cached-v0", cache.address);
    let refused = play(&lake, &address, Some("two"), Some(&chain));
    assert!(said(&refused).contains("of `bob` may not record steps"), "{}", said(&refused));
    let played = play(&lake, &address, Some("three"), Some(&chain));
    assert!(played.status.success(), "{}", said(&played));
    // Certificates of others are not trusted, and nobody talks in the open.
    let distrusted = play(&lake, &address, Some("three"), None);
    assert!(
        said(&distrusted).contains("with a certificate that is trusted here"),
        "{}",
        said(&distrusted)
    );
    let open = play(&lake, &address.replace("grpc+tls", "grpc"), Some("three"), None);
    assert!(!open.status.success(), "{}", said(&open));

    let http = cache.http.as_deref().unwrap();
    let url = |call: &str| format!("https://{http}/{call}");
    let step = |token: &str| {
        let request = r#"{"benchmark":"generator://toy-v0/1","action":"increment"}"#;
        let token = format!("Authorization: Bearer {token}");
        let head = ["-H", &token, "-H", "Content-Type: application/json"];
        ask(&chain, &url("step"), &[&head[..], &["-d", request]].concat())
    };
    assert_eq!(step("one").0, 401);
    let (status, refused) = step("two");
    assert!(status == 403 && refused.contains("may not record steps"), "{status} {refused}");
    assert_eq!(step("three").0, 200);
    for call in ["health", "metrics"] {
        assert_eq!(ask(&chain, &url(call), &[]).0, 200, "{call}");
    }
}
