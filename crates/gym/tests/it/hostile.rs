//! Programs that are none, and a lake that cannot be written: other sessions do not notice, and
//! nothing recorded is lost.

use std::path::Path;

use steplake::env::toy;
use steplake::lake::{Lake, Table};
use tonic::Code;

use crate::gym_server::proto::{
    Benchmark, File, GetSpacesRequest, StartSessionRequest, StepRequest, event, file,
};
use crate::gym_server::{Client, Server, bitcode, play, sent};
use crate::programs::{InTime as _, program};

/// A program that every compiler of LLVM knows.
const PROGRAM: &str = "
define i32 @f(i32 %x) {
  %y = add i32 %x, 0
  ret i32 %y
}
";

const LARGE: usize = 100 << 20;

async fn start(client: &mut Client, name: &str, program: Vec<u8>) -> Result<i64, tonic::Status> {
    let program = Some(File { data: Some(file::Data::Contents(program)) });
    let uri = format!("benchmark://user-v0/{name}");
    let benchmark = Some(Benchmark { uri, program, dynamic_config: None });
    let started = StartSessionRequest { benchmark, ..StartSessionRequest::default() };
    Ok(client.start_session(started).await?.into_inner().session_id)
}

#[tokio::test]
async fn a_hundred_megabytes_of_no_program_disturb_nobody() {
    let server = Server::of("llvm-v0", &[]);
    let mut client = server.client().await;
    let other = start(&mut client, "small", bitcode(PROGRAM)).await.unwrap();
    let magic = b"BC\xC0\xDE";
    let noise = |first: u32| {
        let mut state = first;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
    };
    let mut cut = bitcode(PROGRAM);
    cut.truncate(cut.len() / 2);
    let programs = [
        ("text", vec![b'x'; LARGE]),
        ("zeros", magic.iter().copied().chain(std::iter::repeat_n(0, LARGE)).collect()),
        ("noise", magic.iter().copied().chain(noise(1).take(LARGE)).collect()),
        ("cut", cut.into_iter().chain(noise(2).take(LARGE)).collect::<Vec<_>>()),
    ];
    for (name, program) in programs {
        let refused = start(&mut client, name, program).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{name}: {refused:?}");
        assert!(refused.message().contains(name), "{refused:?}");
        assert!(refused.message().len() < 1000 && !refused.message().contains('\n'));
        client.step(play(other, &[0])).await.unwrap();
    }
    let counted = StepRequest { observation_space: vec![9], ..play(other, &[]) };
    let counted = client.step(counted).await.unwrap().into_inner().observation;
    assert_eq!(counted[0].value, Some(event::Value::Int64Value(2)));
}

/// Starts a server that can write no file larger than `bytes`.
fn limited(lake: &Path, bytes: usize) -> Server {
    let mut shell = program("bash");
    // A disk that is full is an error of a call; without the trap, this limit is a signal.
    let limited = r#"trap "" XFSZ; ulimit -f "$1"; shift; exec "$@""#;
    let served = env!("CARGO_BIN_EXE_steplake-gym");
    shell.args(["-c", limited, "bash", &(bytes >> 10).to_string(), served]);
    Server::run(shell, "toy-v0", &["--lake", &lake.display().to_string()])
}

#[tokio::test]
async fn a_lake_that_cannot_be_written_is_said_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let mut server = limited(&lake, 1 << 20);
    let mut client = server.client().await;
    let mut taken = 0;
    // The disk takes no more after some of these steps.
    let failed = 'filled: loop {
        let program = sent(&toy::program(&format!("benchmark://user-v0/{taken}"), 1 << 20, 7));
        let request = StartSessionRequest { benchmark: Some(program), ..Default::default() };
        let session = match client.start_session(request).await {
            Ok(started) => started.into_inner().session_id,
            Err(failed) => break failed,
        };
        for _ in 0..50 {
            let actions: Vec<i64> = (0..20).map(|place| (place * 7 + taken) % 8).collect();
            match client.step(play(session, &actions)).await {
                Ok(_) => taken += 20,
                Err(failed) => break 'filled failed,
            }
        }
        assert!(taken < 1_000_000, "the limit on the size of files has no effect");
    };
    assert_eq!(failed.code(), Code::FailedPrecondition, "{failed:?}");
    assert!(!failed.message().contains('\n') && failed.message().contains("lake"), "{failed:?}");
    // The service still answers, and refuses what it could not record.
    client.get_spaces(GetSpacesRequest {}).await.unwrap();
    let program = sent(&toy::program("benchmark://user-v0/more", 100, 7));
    let request = StartSessionRequest { benchmark: Some(program), ..Default::default() };
    let again = client.start_session(request).await.unwrap_err();
    assert_eq!(again.code(), Code::FailedPrecondition, "{again:?}");
    // The disk is at fault.
    assert_eq!(server.stop(), Some(3));
    let lake = Lake::open(&lake).unwrap();
    lake.writer().unwrap().seal().unwrap();
    let rows = lake.snapshot().unwrap().rows(Table::Steps);
    assert!(rows > 0, "of {taken} steps");
}

#[test]
fn a_lake_in_a_place_where_none_can_be_is_refused_at_the_start() {
    let mut command = program(env!("CARGO_BIN_EXE_steplake-gym"));
    command.args(["serve", "--compiler-gym", "--listen", "127.0.0.1:0", "--env", "toy-v0"]);
    let output = command.args(["--lake", "/dev/null/lake"]).output_in_time();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("/dev/null/lake"), "{said}");
}
