//! A server of sessions for clients of `CompilerGym`, and programs for it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tonic::transport::Channel;

use self::proto::compiler_gym_service_client::CompilerGymServiceClient;
use self::proto::{Benchmark, BenchmarkDynamicConfig, Event, File, StepRequest, event, file};
use crate::programs::{PATIENCE, end, end_of, line_of, output_of, program};

#[expect(
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::pedantic,
    reason = "generated code knows neither the lints nor where it is included"
)]
pub(crate) mod proto {
    tonic::include_proto!("compiler_gym");
}

pub(crate) type Client = CompilerGymServiceClient<Channel>;

/// A server of sessions, of the toy environment if not said otherwise, ended on drop.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// Where it answers over HTTP, if it does.
    pub(crate) http: Option<String>,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of("toy-v0", arguments)
    }

    pub(crate) fn of(environment: &str, arguments: &[&str]) -> Self {
        let command = program(env!("CARGO_BIN_EXE_steplake-gym"));
        Self::run(command, environment, arguments)
    }

    /// Starts a server by a command that is told the environment and further arguments.
    pub(crate) fn run(mut command: Command, environment: &str, arguments: &[&str]) -> Self {
        command.args(["serve", "--compiler-gym", "--listen", "127.0.0.1:0", "--env", environment]);
        for variable in ["STEPLAKE_LAKE", "STEPLAKE_LOG", "STEPLAKE_TOKEN"] {
            command.env_remove(variable);
        }
        let mut child = command.args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (said, rest) = line_of(errors, "a server that says where it is");
        std::thread::spawn(move || rest.lines().map_while(Result::ok).for_each(drop));
        let said = said.trim_end();
        let (_, address) = said.split_once(" at ").unwrap_or_else(|| panic!("{said}"));
        let (_, address) = address.split_once("://").unwrap_or_else(|| panic!("{said}"));
        let address = address.split(',').next().unwrap_or_default().to_owned();
        let http = said.split_once(", http").and_then(|(_, rest)| rest.split_once("://"));
        let http = http.and_then(|(_, rest)| rest.split_once('/'));
        let http = http.map(|(http, _)| http.to_owned());
        Self { child, address, http }
    }

    pub(crate) async fn client(&self) -> Client {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).unwrap();
        Client::new(endpoint.timeout(PATIENCE).connect().await.unwrap())
    }

    /// Ends the server, and returns its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        end_of(&mut self.child, "a server of sessions").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Returns a benchmark as clients send it.
pub(crate) fn sent(benchmark: &steplake::model::Benchmark) -> Benchmark {
    let contents = file::Data::Contents(benchmark.program.to_vec());
    let program = Some(File { data: Some(contents) });
    Benchmark { uri: benchmark.uri.to_string(), program, dynamic_config: None }
}

/// Applies actions, without a look at the state.
pub(crate) fn play(session_id: i64, actions: &[i64]) -> StepRequest {
    let event = |&action: &i64| Event {
        optional_type_id: None,
        value: Some(event::Value::Int64Value(action)),
    };
    let action = actions.iter().map(event).collect();
    StepRequest { session_id, action, observation_space: Vec::new() }
}

/// Returns a program as bitcode.
pub(crate) fn bitcode(text: &str) -> Vec<u8> {
    let mut assembler = program("llvm-as-22");
    let mut assembler = assembler
        .args(["-", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assembler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let made = output_of(assembler, "the assembler");
    assert!(made.status.success());
    made.stdout
}

/// What a space shows after no step.
pub(crate) async fn observed(
    client: &mut Client,
    session_id: i64,
    place: i32,
) -> Option<event::Value> {
    let request = StepRequest { session_id, action: Vec::new(), observation_space: vec![place] };
    let reply = client.step(request).await.unwrap().into_inner();
    reply.observation[0].value.clone()
}

/// A program with a `main`, and how it is built and run.
pub(crate) fn main_program(uri: &str, dynamic_config: Option<BenchmarkDynamicConfig>) -> Benchmark {
    let contents = bitcode("define i32 @main() {\n  %y = add i32 0, 0\n  ret i32 %y\n}\n");
    let program = Some(File { data: Some(file::Data::Contents(contents)) });
    Benchmark { uri: uri.into(), program, dynamic_config }
}

/// A command of these words.
pub(crate) fn line(words: &str) -> proto::Command {
    let argument = words.split(' ').map(str::to_owned).collect();
    proto::Command { argument, timeout_seconds: 60, ..proto::Command::default() }
}
