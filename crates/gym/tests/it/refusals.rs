//! What `CompilerGym`'s own services refuse, with which code and in which words: its clients raise
//! by the code, and know some of the words.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Stdio};

use steplake::lake::{Lake, Table};
use tonic::{Code, Status};

use crate::gym_server::proto::{
    self, AddBenchmarkRequest, Benchmark, BenchmarkDynamicConfig, Event, File, StartSessionRequest,
    StepRequest, event, file,
};
use crate::gym_server::{Client, Server, bitcode, line, main_program, observed, play};
use crate::programs::{self, InTime as _, end, until};

fn begun(benchmark: Benchmark) -> StartSessionRequest {
    StartSessionRequest { benchmark: Some(benchmark), ..StartSessionRequest::default() }
}

/// Starts a session as the Python client does: first by name, then with the program.
async fn start(client: &mut Client, benchmark: Benchmark) -> Result<i64, Status> {
    client.add_benchmark(AddBenchmarkRequest { benchmark: vec![benchmark.clone()] }).await?;
    let named = Benchmark { program: None, dynamic_config: None, ..benchmark };
    Ok(client.start_session(begun(named)).await?.into_inner().session_id)
}

fn demand(refused: &Status, code: Code, text: &str) {
    assert_eq!(refused.code(), code, "{refused:?}");
    assert!(refused.message().starts_with(text), "{} is no {text}", refused.message());
    assert!(!refused.message().contains('\n'), "{}", refused.message());
}

#[tokio::test]
async fn what_is_no_program() {
    let server = Server::of("llvm-v0", &[]);
    let mut client = server.client().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("empty.bc"), "").unwrap();
    fs::write(path("text.bc"), "no bitcode").unwrap();
    let contents = |bytes: &[u8]| Some(file::Data::Contents(bytes.to_vec()));
    let at = |uri: &str| Some(file::Data::Uri(uri.to_owned()));
    // The names are no URIs of steplake.
    let unread = |name: &str| format!("Failed to parse LLVM bitcode: \"benchmark://{name}\": ");
    let no_scheme = "Invalid benchmark data URI. Only the file:/// scheme is supported: ";
    let cut = &bitcode("define void @f() {\n  ret void\n}\n")[..100];
    for (name, data, code, text) in [
        ("text", contents(b"no bitcode"), Code::InvalidArgument, unread("text")),
        ("cut", contents(cut), Code::InvalidArgument, unread("cut")),
        ("empty", contents(b""), Code::InvalidArgument, unread("empty")),
        ("none", None, Code::InvalidArgument, "No program set in Benchmark".to_owned()),
        ("a", at("b://c"), Code::InvalidArgument, format!("{no_scheme}\"b://c\"")),
        ("b", at("file://c"), Code::InvalidArgument, format!("{no_scheme}\"file://c\"")),
        ("c", at("file:///no/such"), Code::NotFound, "File not found: \"/no/such\"".to_owned()),
        (
            "d",
            at(&format!("file://{}", path("empty.bc"))),
            Code::InvalidArgument,
            format!("File is empty: \"{}\"", path("empty.bc")),
        ),
        ("e", at(&format!("file://{}", path("text.bc"))), Code::InvalidArgument, unread("e")),
    ] {
        let uri = format!("benchmark://{name}");
        let program = Some(File { data });
        let refused = start(&mut client, Benchmark { uri, program, dynamic_config: None }).await;
        demand(&refused.unwrap_err(), code, &text);
    }
    let nameless = client.start_session(begun(Benchmark::default())).await.unwrap_err();
    demand(&nameless, Code::InvalidArgument, "No benchmark URI set for StartSession()");
    let unknown = Benchmark { uri: "benchmark://unknown".into(), ..Benchmark::default() };
    let unknown = client.start_session(begun(unknown)).await.unwrap_err();
    demand(&unknown, Code::NotFound, "Benchmark not found");
    let id = start(&mut client, main_program("benchmark://main", None)).await.unwrap();
    let text = Event { value: Some(event::Value::StringValue("-gvn".into())), ..Event::default() };
    let no_place = StepRequest { action: vec![text], ..play(id, &[]) };
    let refused = client.step(no_place).await.unwrap_err();
    demand(&refused, Code::InvalidArgument, "Invalid action, int64_value expected");
    let refused = client.step(play(id, &[124])).await.unwrap_err();
    demand(&refused, Code::InvalidArgument, "Out-of-range: action 124 is not in range [0, 124)");
}

/// A command that makes these files within some seconds.
fn making(words: &str, files: &[&str], timeout_seconds: i32) -> proto::Command {
    let outfile = files.iter().map(|&name| name.to_owned()).collect();
    proto::Command { outfile, timeout_seconds, ..line(words) }
}

fn built(build: proto::Command) -> BenchmarkDynamicConfig {
    let build_cmd = Some(build);
    let run_cmd = Some(line("./a.out"));
    BenchmarkDynamicConfig { build_cmd, run_cmd, ..BenchmarkDynamicConfig::default() }
}

#[tokio::test]
async fn a_command_that_does_not_build() {
    let server = Server::of("llvm-v0", &[]);
    let mut client = server.client().await;
    let missing = proto::Command { infile: vec!["none.h".into()], ..line("$CC $IN") };
    for (number, (build, text)) in [
        (line("$CC $IN -no-such-flag"), "clang: error: unknown argument: '-no-such-flag'"),
        (line("$CC $IN -lno-such-library"), "clang: error: linker command failed"),
        (line("exit 3"), "exit code 3"),
        (making("true", &["b.out"], 60), "it made no file `b.out`"),
        (making("sleep 1000;", &["a.out"], 1), "stopped after 1 s"),
        (making("$CC $IN", &["a.out", "../b"], 60), "`../b` does not name a file"),
        (missing, "none.h"),
    ]
    .into_iter()
    .enumerate()
    {
        let uri = format!("benchmark://user-v0/{number}");
        let program = main_program(&uri, Some(built(build)));
        let refused = start(&mut client, program).await.unwrap_err();
        demand(&refused, Code::InvalidArgument, "Failed to compute .text size cost: ");
        assert!(refused.message().contains(text), "{} lacks {text}", refused.message());
    }
}

#[tokio::test]
async fn a_refused_program_leaves_nothing_in_the_lake() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let mut server = Server::of("llvm-v0", &["--lake", lake.to_str().unwrap()]);
    let mut client = server.client().await;
    let program = |name: &str, line| main_program(&format!("benchmark://user-v0/{name}"), line);
    let unbuilt = program("unbuilt", Some(built(line("false"))));
    start(&mut client, unbuilt.clone()).await.unwrap_err();
    let contents = file::Data::Contents(b"no bitcode".to_vec());
    let unread = Benchmark { program: Some(File { data: Some(contents) }), ..unbuilt };
    let refused = start(&mut client, unread).await.unwrap_err();
    demand(&refused, Code::InvalidArgument, "Failed to parse LLVM bitcode: ");
    let id = start(&mut client, program("good", Some(built(line("$CC $IN"))))).await.unwrap();
    client.step(play(id, &[0])).await.unwrap();
    assert_eq!(server.stop(), Some(0));
    let lake = Lake::open(&lake).unwrap();
    lake.writer().unwrap().seal().unwrap();
    assert_eq!(lake.snapshot().unwrap().rows(Table::Episodes), 1);
}

#[tokio::test]
async fn a_run_that_fails_is_one_of_the_service_and_leaves_the_session() {
    let server = Server::of("llvm-v0", &[]);
    let mut client = server.client().await;
    let config = |run: proto::Command| BenchmarkDynamicConfig {
        run_cmd: Some(run),
        ..built(line("$CC $IN"))
    };
    let missing = proto::Command { infile: vec!["none.txt".into()], ..line("./a.out") };
    let before =
        BenchmarkDynamicConfig { pre_run_cmd: vec![line("exit 4")], ..built(line("$CC $IN")) };
    for (number, (config, code, text)) in [
        (config(line("echo some words >&2; kill $$")), Code::Internal, "some words"),
        (config(missing), Code::Internal, "none.txt"),
        (config(making("sleep 1000;", &[], 1)), Code::DeadlineExceeded, "1 s"),
        (before, Code::Internal, "exit code 4"),
    ]
    .into_iter()
    .enumerate()
    {
        let uri = format!("benchmark://user-v0/{number}");
        let id = start(&mut client, main_program(&uri, Some(config))).await.unwrap();
        let request = StepRequest { observation_space: vec![23], ..play(id, &[]) };
        let refused = client.step(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused:?}");
        assert!(refused.message().contains(text), "{} lacks {text}", refused.message());
        let count = observed(&mut client, id, 9).await;
        assert_eq!(count, Some(event::Value::Int64Value(2)));
    }
}

/// A service as a client starts it, ended on drop.
struct Managed(Child);

impl Managed {
    /// Starts a service in a folder, and returns it with a client.
    async fn start(folder: &Path) -> (Self, Client) {
        let mut command = programs::program(env!("CARGO_BIN_EXE_steplake-gym"));
        command.arg("compiler-gym-service").arg(format!("--working_dir={}", folder.display()));
        command.env_remove("STEPLAKE_LAKE").env_remove("COMPILER_GYM_SERVICE_ARGS");
        let mut service = Self(command.stderr(Stdio::null()).spawn().unwrap());
        let port = folder.join("port.txt");
        until("the service has begun", || {
            assert!(service.0.try_wait().unwrap().is_none(), "the service has ended");
            port.exists()
        });
        let port = fs::read_to_string(port).unwrap();
        let address = format!("http://127.0.0.1:{}", port.trim());
        (service, Client::connect(address).await.unwrap())
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// A program that is made at a path, and run by it.
fn made_at(made: &Path) -> BenchmarkDynamicConfig {
    let name = made.to_str().unwrap();
    let run_cmd = Some(line(name));
    BenchmarkDynamicConfig {
        run_cmd,
        ..built(making(&format!("$CC -xir $IN -o {name}"), &[name], 60))
    }
}

#[tokio::test]
async fn the_executable_is_made_where_the_client_that_started_the_service_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_service, mut client) = Managed::start(folder.path()).await;
    let made = folder.path().join("made");
    let program = main_program("benchmark://user-v0/made", Some(made_at(&made)));
    let id = start(&mut client, program.clone()).await.unwrap();
    let about = fs::metadata(&made).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o755);
    let run = programs::program(&made).status_in_time();
    assert_eq!(run.code(), Some(0));
    // A run is one of the state, and not of the file.
    fs::write(&made, "#!/bin/sh\nexit 1\n").unwrap();
    let times = observed(&mut client, id, 23).await;
    assert!(matches!(times, Some(event::Value::DoubleTensor(_))), "{times:?}");
    // It is known, so it is not built again.
    fs::remove_file(&made).unwrap();
    start(&mut client, program).await.unwrap();
    assert!(!made.exists());
    let nowhere = folder.path().join("no/such/made");
    let program = main_program("benchmark://user-v0/nowhere", Some(made_at(&nowhere)));
    let refused = start(&mut client, program).await.unwrap_err();
    demand(&refused, Code::InvalidArgument, "Failed to compute .text size cost: ");
    let text = format!("cannot be written to {}", nowhere.display());
    assert!(refused.message().contains(&text), "{refused:?}");

    // Whoever reaches a service that runs already has it write nothing.
    let server = Server::of("llvm-v0", &[]);
    let mut client = server.client().await;
    let program = main_program("benchmark://user-v0/made", Some(made_at(&made)));
    let id = start(&mut client, program).await.unwrap();
    let times = observed(&mut client, id, 23).await;
    assert!(matches!(times, Some(event::Value::DoubleTensor(_))), "{times:?}");
    assert!(!made.exists());
}

#[tokio::test]
async fn only_a_program_is_made_and_only_a_program_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (_service, mut client) = Managed::start(folder.path()).await;
    let [kept, link, nowhere] = ["kept", "link", "nowhere"].map(|name| folder.path().join(name));
    let program = |name: &str, made: BenchmarkDynamicConfig| {
        main_program(&format!("benchmark://user-v0/{name}"), Some(made))
    };
    let name = kept.to_str().unwrap();
    let copy = built(making(&format!("cp $IN {name}"), &[name], 60));
    fs::write(&kept, "mine").unwrap();
    symlink(&nowhere, &link).unwrap();
    for (made, path, why) in [
        (made_at(&kept), &kept, "what is there is no program: remove it"),
        (made_at(&link), &link, "what is there is no program: remove it"),
        (copy, &kept, "the build command made no program"),
    ] {
        let refused = start(&mut client, program("kept", made)).await.unwrap_err();
        demand(&refused, Code::InvalidArgument, "Failed to compute .text size cost: ");
        assert!(refused.message().contains(&format!("{}: {why}", path.display())), "{refused:?}");
    }
    assert_eq!(fs::read_to_string(&kept).unwrap(), "mine");
    assert!(!nowhere.exists());
    // A program is made again, also by a service that is started again.
    fs::remove_file(&kept).unwrap();
    for service in ["first", "second"] {
        let service = folder.path().join(service);
        fs::create_dir(&service).unwrap();
        let (_service, mut client) = Managed::start(&service).await;
        start(&mut client, program("kept", made_at(&kept))).await.unwrap();
        assert_eq!(programs::program(&kept).status_in_time().code(), Some(0));
    }
}

/// Runs a tool of the overlay in an environment that has no folder of the user.
fn tool(arguments: &[&str], folder: &Path) -> std::process::Output {
    let mut command = programs::program(env!("CARGO_BIN_EXE_steplake-gym"));
    command.arg("compiler-gym-tool").args(arguments).current_dir(folder);
    // An empty variable keeps the folder of the system's own list out as well.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", "");
    command.output_in_time()
}

#[test]
fn the_tools_need_no_folder_of_the_user_and_name_what_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    let mut input = fs::File::create(folder.path().join("in.bc")).unwrap();
    input.write_all(&bitcode("define i32 @f() {\n  %y = add i32 1, 2\n  ret i32 %y\n}\n")).unwrap();
    let made =
        tool(&["opt", "/no/such/opt", "-instcombine", "in.bc", "-o", "out.bc"], folder.path());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(fs::read(folder.path().join("out.bc")).unwrap().starts_with(b"BC\xC0\xDE"));
    let count = tool(&["compute_observation", "IR_INSTRUCTION_COUNT", "out.bc"], folder.path());
    assert_eq!(String::from_utf8_lossy(&count.stdout), "int64_value: 1 ");
    fs::write(folder.path().join("text.bc"), "no bitcode").unwrap();
    let no_program = "Failed to compute observation: Failed to parse LLVM bitcode: \"text.bc\": ";
    for (space, program, text) in [
        ("NOT_A_SPACE", "in.bc", "Invalid observation space name: NOT_A_SPACE"),
        ("NOT_A_SPACE", "no.bc", "Invalid observation space name: NOT_A_SPACE"),
        ("IR", "no.bc", "no.bc cannot be read: "),
        ("IR", "text.bc", no_program),
    ] {
        let refused = tool(&["compute_observation", space, program], folder.path());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(text), "{said}");
    }
}
