//! Sessions of `CompilerGym`'s clients: statuses, forks, ends, a client that goes away.

use steplake::env::toy::{self, Harm, Only, Plant};
use tonic::Code;

use crate::gym_server::proto::{
    self, AddBenchmarkRequest, Benchmark, BenchmarkDynamicConfig, CommandlineSpace,
    EndSessionRequest, Event, File, ForkSessionRequest, GetSpacesRequest, Opaque,
    SendSessionParameterRequest, SessionParameter, StartSessionRequest, StepReply, StepRequest,
    event, file, space,
};
use crate::gym_server::{Client, Server, bitcode, line, main_program, observed, play, sent};

fn start(benchmark: Benchmark) -> StartSessionRequest {
    StartSessionRequest { benchmark: Some(benchmark), action_space: 0, observation_space: vec![2] }
}

/// Applies actions and looks at the state.
fn step(session_id: i64, actions: &[i64]) -> StepRequest {
    StepRequest { observation_space: vec![2], ..play(session_id, actions) }
}

/// The number of the state after a step.
fn number(reply: &StepReply) -> i64 {
    let Some(event::Value::ByteTensor(state)) = &reply.observation[0].value else {
        panic!("{reply:?}");
    };
    let (_, number) = std::str::from_utf8(&state.value).unwrap().rsplit_once(' ').unwrap();
    number.parse().unwrap()
}

/// Starts a session of a program that begins at 7.
async fn begin(client: &mut Client) -> i64 {
    let program = toy::program("benchmark://user-v0/seven", 1 << 16, 7);
    client.start_session(start(sent(&program))).await.unwrap().into_inner().session_id
}

#[tokio::test]
async fn a_program_is_sent_only_if_it_is_not_known() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let program = sent(&toy::program("benchmark://user-v0/a", 100, 7));
    let named = Benchmark { program: None, ..program.clone() };
    let unknown = client.start_session(start(named.clone())).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let added = AddBenchmarkRequest { benchmark: vec![program] };
    client.add_benchmark(added).await.unwrap();
    let started = client.start_session(start(named)).await.unwrap().into_inner();
    assert_eq!(started.observation.len(), 1);
}

#[tokio::test]
async fn actions_come_before_observations_and_tell_whether_they_changed_anything() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let id = begin(&mut client).await;
    // increment, double, align
    let reply = client.step(step(id, &[0, 1, 3])).await.unwrap().into_inner();
    assert_eq!((number(&reply), reply.action_had_no_effect), (16, false));
    let reply = client.step(step(id, &[3, 3])).await.unwrap().into_inner();
    assert_eq!((number(&reply), reply.action_had_no_effect), (16, true));
    let reply = client.step(step(id, &[])).await.unwrap().into_inner();
    assert_eq!((number(&reply), reply.action_had_no_effect), (16, true));
    let reply = client.step(step(id, &[3, 0])).await.unwrap().into_inner();
    assert_eq!((number(&reply), reply.action_had_no_effect), (17, false));
}

#[tokio::test]
async fn a_wrong_request_leaves_the_session_as_it_was() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let id = begin(&mut client).await;
    let text = Event { value: Some(event::Value::StringValue("x".into())), ..Event::default() };
    let not_a_place = StepRequest { action: vec![text], ..step(id, &[]) };
    let no_space = StepRequest { observation_space: vec![99], ..step(id, &[0]) };
    for wrong in [step(id, &[0, 8]), step(id, &[-1]), not_a_place, no_space] {
        let refused = client.step(wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    }
    let program = sent(&toy::program("benchmark://user-v0/a", 100, 7));
    let no_space = StartSessionRequest { action_space: 1, ..start(program) };
    assert_eq!(client.start_session(no_space).await.unwrap_err().code(), Code::InvalidArgument);
    let reply = client.step(step(id, &[])).await.unwrap().into_inner();
    assert_eq!(number(&reply), 7);
}

#[tokio::test]
async fn what_is_no_program_is_refused() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let mut program = sent(&toy::program("benchmark://user-v0/a", 100, 7));
    program.program = Some(File { data: Some(file::Data::Contents(b"no program".to_vec())) });
    let refused = client.start_session(start(program)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("benchmark://user-v0/a"), "{refused:?}");
}

#[tokio::test]
async fn forks_go_on_alone_and_ended_sessions_are_gone() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let id = begin(&mut client).await;
    let fork = client.fork_session(ForkSessionRequest { session_id: id }).await.unwrap();
    let fork = fork.into_inner().session_id;
    assert_eq!(number(&client.step(step(fork, &[0])).await.unwrap().into_inner()), 8);
    assert_eq!(number(&client.step(step(id, &[1])).await.unwrap().into_inner()), 14);
    let end = |session_id| EndSessionRequest { session_id };
    let mut remaining = Vec::new();
    for id in [id, id, 1000, fork] {
        let ended = client.end_session(end(id)).await.unwrap().into_inner();
        remaining.push(ended.remaining_sessions);
    }
    assert_eq!(remaining, [1, 1, 1, 0]);
    let gone = client.step(step(id, &[0])).await.unwrap_err();
    let said = format!("Session not found: {id}");
    assert_eq!((gone.code(), gone.message()), (Code::NotFound, said.as_str()));
    let gone = client.fork_session(ForkSessionRequest { session_id: id }).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}

#[tokio::test]
async fn a_failure_of_the_compiler_ends_its_session_alone() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let other = begin(&mut client).await;
    let plant = Plant { harm: Harm::Breaks, action: "double".into(), every: 1, only: Only::Ever };
    let program = toy::planted("benchmark://user-v0/broken", 100, 7, plant);
    let started = client.start_session(start(sent(&program))).await.unwrap();
    let id = started.into_inner().session_id;
    let failed = client.step(step(id, &[0, 1, 0])).await.unwrap_err();
    assert_eq!(failed.code(), Code::DataLoss);
    assert!(failed.message().contains("failed on double"), "{failed:?}");
    let gone = client.step(step(id, &[0])).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    assert_eq!(number(&client.step(step(other, &[0])).await.unwrap().into_inner()), 8);
}

#[tokio::test]
async fn parameters_of_the_cache_belong_to_the_service() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let id = begin(&mut client).await;
    let keys = ["set_max_size_in_bytes", "get_max_size_in_bytes", "get_nothing"];
    let [set, get, unknown] = keys.map(|key| SessionParameter {
        key: format!("service.benchmark_cache.{key}"),
        value: "1000".into(),
    });
    let send = |parameter| SendSessionParameterRequest { session_id: id, parameter };
    let answers = client.send_session_parameter(send(vec![set, get])).await.unwrap();
    assert_eq!(answers.into_inner().reply, ["1000", "1000"]);
    let refused = client.send_session_parameter(send(vec![unknown])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let without = SendSessionParameterRequest { session_id: 99, parameter: Vec::new() };
    let gone = client.send_session_parameter(without).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}

#[tokio::test]
async fn a_client_that_goes_away_disturbs_nobody() {
    let mut server = Server::start(&["--live-sessions", "4"]);
    let mut client = server.client().await;
    let mine = begin(&mut client).await;
    let actions: Vec<i64> = (0..10_000).map(|place| place % 4).collect();
    for _ in 0..20 {
        let mut other = server.client().await;
        let id = begin(&mut other).await;
        let request = step(id, &actions);
        let left = tokio::spawn(async move { other.step(request).await });
        left.abort();
    }
    assert_eq!(number(&client.step(step(mine, &[0])).await.unwrap().into_inner()), 8);
    assert_eq!(
        client.get_spaces(GetSpacesRequest {}).await.unwrap().into_inner().action_space_list.len(),
        1
    );
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test]
async fn a_thousand_sessions_are_open_at_once() {
    let server = Server::start(&["--live-sessions", "8"]);
    let mut client = server.client().await;
    let mut ids = Vec::new();
    for _ in 0..1000 {
        ids.push(begin(&mut client).await);
    }
    for id in ids {
        assert_eq!(number(&client.step(step(id, &[0])).await.unwrap().into_inner()), 8);
    }
}

/// Returns what an `Any` holds.
fn unpacked<M: prost::Message + Default>(any: &prost_types::Any, name: &str) -> M {
    assert_eq!(any.type_url, format!("type.googleapis.com/compiler_gym.{name}"));
    M::decode(&*any.value).unwrap()
}

#[tokio::test]
async fn llvm_has_the_spaces_of_compiler_gym() {
    let server = Server::of("llvm-v0", &[]);
    let mut client = server.client().await;
    let spaces = client.get_spaces(GetSpacesRequest {}).await.unwrap().into_inner();
    let flags = spaces.action_space_list[0].space.clone().unwrap().value;
    let Some(space::Value::AnyValue(flags)) = flags else { panic!("{flags:?}") };
    let flags: CommandlineSpace = unpacked(&flags, "CommandlineSpace");
    assert_eq!((flags.name.len(), spaces.observation_space_list.len()), (124, 26));

    let contents = file::Data::Contents(bitcode(PROGRAM));
    let program = Some(File { data: Some(contents) });
    let benchmark = Benchmark { uri: "any name".into(), program, dynamic_config: None };
    let every = StartSessionRequest { observation_space: (0..26).collect(), ..start(benchmark) };
    let started = client.start_session(every).await.unwrap().into_inner();
    let observed = |place: usize| started.observation[place].value.clone();
    assert_eq!(observed(9), Some(event::Value::Int64Value(2)));
    let Some(event::Value::AnyValue(cpu)) = observed(8) else { panic!("{started:?}") };
    let cpu: Opaque = unpacked(&cpu, "Opaque");
    assert_eq!(cpu.format, "json://");
    // What is not run has no time.
    assert_eq!([observed(23), observed(24)], [None, None]);

    let optimise =
        SessionParameter { key: "llvm.apply_baseline_optimizations".into(), value: "-Oz".into() };
    let session_id = started.session_id;
    let send =
        SendSessionParameterRequest { session_id, parameter: vec![optimise.clone(), optimise] };
    let changed = client.send_session_parameter(send).await.unwrap().into_inner().reply;
    assert_eq!(changed, ["1", "0"]);
    let count = StepRequest { session_id, action: Vec::new(), observation_space: vec![9, 10] };
    let counts = client.step(count).await.unwrap().into_inner().observation;
    let counts: Vec<_> = counts.into_iter().map(|count| count.value).collect();
    assert_eq!(counts, [1, 2].map(|count| Some(event::Value::Int64Value(count))));
}

/// The spaces of linked programs: `TextSizeBytes` to `Buildtime`.
const LINKED: std::ops::RangeInclusive<i32> = 17..=24;

#[tokio::test]
async fn programs_are_linked_and_run() {
    let server = Server::of("llvm-v0", &[]);
    let mut client = server.client().await;
    let client = &mut client;
    // A program of this project under the name of the default dataset, without commands.
    let own = main_program("benchmark://cbench-v1/huffman", None);
    // One that brings its commands, as the original dataset's programs do.
    let finfo = vec!["a.out".to_owned(), "_finfo_dataset".to_owned()];
    let config = BenchmarkDynamicConfig {
        build_cmd: Some(proto::Command { outfile: vec!["a.out".into()], ..line("$CC $IN") }),
        run_cmd: Some(proto::Command { infile: finfo, ..line("./a.out 1") }),
        pre_run_cmd: vec![line("echo 1 >_finfo_dataset")],
        post_run_cmd: Vec::new(),
    };
    let commanded = main_program("benchmark://user-v0/commanded", Some(config.clone()));
    for program in [own, commanded] {
        let id = client.start_session(start(program)).await.unwrap().into_inner().session_id;
        let key = "llvm.set_runtimes_per_observation_count".to_owned();
        let parameter = vec![SessionParameter { key, value: "3".into() }];
        let send = SendSessionParameterRequest { session_id: id, parameter };
        client.send_session_parameter(send).await.unwrap();
        let mut values = Vec::new();
        for place in LINKED {
            values.push(observed(client, id, place).await);
        }
        let sizes = values[..4].iter().map(|size| match size {
            Some(event::Value::Int64Value(size)) => *size,
            other => panic!("{other:?}"),
        });
        // What the system links to every program is there as well.
        assert!(sizes.into_iter().all(|size| size > 500), "{values:?}");
        assert_eq!(values[4..6], [true, true].map(|can| Some(event::Value::BooleanValue(can))));
        for (value, count) in [(&values[6], 3), (&values[7], 1)] {
            let Some(event::Value::DoubleTensor(times)) = value else { panic!("{value:?}") };
            assert_eq!((times.shape.as_slice(), times.value.len() as u64), (&[count][..], count));
            assert!(times.value.iter().all(|&seconds| seconds > 0.0), "{times:?}");
        }
    }
}

/// A program of two instructions, of which one is not needed.
const PROGRAM: &str = "
define i32 @f(i32 %x) {
  %y = add i32 %x, 0
  ret i32 %y
}
";

#[tokio::test]
async fn large_programs_pass() {
    let server = Server::start(&[]);
    let mut client = server.client().await;
    let mut program = sent(&toy::program("benchmark://user-v0/large", 100, 7));
    program.program = Some(File { data: Some(file::Data::Contents(vec![b'x'; 20 << 20])) });
    client.add_benchmark(AddBenchmarkRequest { benchmark: vec![program] }).await.unwrap();
}
