//! Sessions of a service that misbehaves as a test says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use steplake::env::{Environment, Session, SessionError, Start, Watch};
use steplake::model::{ActionIndex, Benchmark, FailureKind, ObservationIndex, Outcome, Value};
use tonic::{Code, Request, Response, Status};

use super::environment::open;
use crate::proto::compiler_gym_service_server::{CompilerGymService, CompilerGymServiceServer};
use crate::proto::{
    ActionSpace, AddBenchmarkReply, AddBenchmarkRequest, EndSessionReply, EndSessionRequest, Event,
    ForkSessionReply, ForkSessionRequest, GetSpacesReply, GetSpacesRequest, GetVersionReply,
    GetVersionRequest, Int64Range, NamedDiscreteSpace, ObservationSpace, SendSessionParameterReply,
    SendSessionParameterRequest, Space, StartSessionReply, StartSessionRequest, StepReply,
    StepRequest, StringSpace, event, file, space,
};

/// What the service does wrong.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a service may do wrong")]
struct Script {
    /// The numbers of the actions that fail, counted from 1 over all sessions, with the code.
    fails: &'static [(u64, Code)],
    /// The numbers of the actions before which all sessions are forgotten.
    forgets: &'static [u64],
    /// Whether actions after the third add more the second time that they are played.
    drifts: bool,
    /// The numbers of the starts that fail, counted from 1, with the code.
    starts_fail: &'static [(u64, Code)],
    /// Whether it does not take programs.
    is_full: bool,
    /// Whether it is another build after it has forgotten its sessions.
    is_replaced: bool,
    /// What a fork is: nothing, a session in the same state, or one in another.
    fork: Option<i64>,
    /// A program that it loads when it is told its name.
    knows: Option<(&'static str, i64)>,
    /// Whether a third action has the name of the first.
    repeats: bool,
}

/// A service whose sessions hold a number, from which actions take or to which they add.
#[derive(Debug, Default)]
struct Scripted {
    script: Script,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    programs: HashMap<String, i64>,
    sessions: HashMap<i64, i64>,
    begun: i64,
    actions: u64,
    starts: u64,
    builds: u64,
}

type RpcResult<T> = Result<Response<T>, Status>;

fn observed(number: i64, spaces: &[i32]) -> Vec<Event> {
    let event = |&space: &i32| Event {
        optional_type_id: None,
        value: Some(match space {
            0 => event::Value::StringValue(number.to_string()),
            _ => event::Value::Int64Value(number),
        }),
    };
    spaces.iter().map(event).collect()
}

impl Scripted {
    fn with<T>(&self, work: impl FnOnce(&mut Held) -> Result<T, Status>) -> RpcResult<T> {
        let mut held = self.held.lock();
        work(&mut held).map(Response::new)
    }
}

#[tonic::async_trait]
impl CompilerGymService for Arc<Scripted> {
    async fn get_version(&self, _: Request<GetVersionRequest>) -> RpcResult<GetVersionReply> {
        self.with(|held| {
            let builds = if self.script.is_replaced { held.builds } else { 0 };
            let compiler_version = format!("scripted {}", 1 + builds);
            Ok(GetVersionReply { service_version: "1".to_owned(), compiler_version })
        })
    }

    async fn get_spaces(&self, _: Request<GetSpacesRequest>) -> RpcResult<GetSpacesReply> {
        let space = |value| Some(Space { optional_type_id: None, value: Some(value) });
        let observation = |name: &str, value, deterministic| ObservationSpace {
            name: name.to_owned(),
            space: space(value),
            deterministic,
            platform_dependent: false,
            default_observation: None,
        };
        let number = space::Value::Int64Value(Int64Range::default());
        let mut names = ["add", "double"].map(str::to_owned).to_vec();
        if self.script.repeats {
            names.push("add".to_owned());
        }
        Ok(Response::new(GetSpacesReply {
            action_space_list: vec![ActionSpace {
                name: "arithmetic-v0".into(),
                space: space(space::Value::NamedDiscrete(NamedDiscreteSpace { name: names })),
            }],
            observation_space_list: vec![
                observation("Text", space::Value::StringValue(StringSpace::default()), true),
                observation("Number", number.clone(), true),
                observation("Time", number, false),
            ],
        }))
    }

    async fn start_session(
        &self,
        request: Request<StartSessionRequest>,
    ) -> RpcResult<StartSessionReply> {
        let request = request.into_inner();
        self.with(|held| {
            let uri = request.benchmark.unwrap_or_default().uri;
            let first = held.programs.get(&uri).copied();
            let first = first.ok_or_else(|| Status::not_found("Benchmark not found"))?;
            held.starts += 1;
            let fails = self.script.starts_fail.iter().find(|(at, _)| *at == held.starts);
            if let Some((_, code)) = fails {
                return Err(Status::new(*code, "it does not start"));
            }
            held.begun += 1;
            held.sessions.insert(held.begun, first);
            let observation = observed(first, &request.observation_space);
            Ok(StartSessionReply { session_id: held.begun, new_action_space: None, observation })
        })
    }

    async fn fork_session(
        &self,
        request: Request<ForkSessionRequest>,
    ) -> RpcResult<ForkSessionReply> {
        let id = request.into_inner().session_id;
        let more = self.script.fork.ok_or_else(|| Status::unimplemented("no forks"))?;
        self.with(|held| {
            let number = *held.sessions.get(&id).ok_or_else(|| lost(id))?;
            held.begun += 1;
            held.sessions.insert(held.begun, number + more);
            Ok(ForkSessionReply { session_id: held.begun })
        })
    }

    async fn end_session(&self, request: Request<EndSessionRequest>) -> RpcResult<EndSessionReply> {
        self.with(|held| {
            held.sessions.remove(&request.into_inner().session_id);
            let remaining_sessions = held.sessions.len().try_into().unwrap();
            Ok(EndSessionReply { remaining_sessions })
        })
    }

    async fn step(&self, request: Request<StepRequest>) -> RpcResult<StepReply> {
        let request = request.into_inner();
        self.with(|held| {
            for action in &request.action {
                held.actions += 1;
                if self.script.forgets.contains(&held.actions) {
                    held.sessions.clear();
                    held.builds += 1;
                }
                let fails = self.script.fails.iter().find(|(at, _)| *at == held.actions);
                if let Some((_, code)) = fails {
                    return Err(Status::new(*code, "the compiler is broken"));
                }
                let more = i64::from(self.script.drifts && held.actions > 3);
                let id = request.session_id;
                let number = held.sessions.get_mut(&id).ok_or_else(|| lost(id))?;
                match action.value {
                    Some(event::Value::Int64Value(0)) => *number += 1 + more,
                    Some(event::Value::Int64Value(1)) => *number *= 2,
                    Some(event::Value::Int64Value(2)) if self.script.repeats => *number += 10,
                    _ => return Err(Status::invalid_argument("there is no such action")),
                }
            }
            let id = request.session_id;
            let number = *held.sessions.get(&id).ok_or_else(|| lost(id))?;
            let observation = observed(number, &request.observation_space);
            Ok(StepReply { observation, ..StepReply::default() })
        })
    }

    async fn add_benchmark(
        &self,
        request: Request<AddBenchmarkRequest>,
    ) -> RpcResult<AddBenchmarkReply> {
        if self.script.is_full {
            return Err(Status::resource_exhausted("Received message larger than max"));
        }
        self.with(|held| {
            for benchmark in request.into_inner().benchmark {
                let data = benchmark.program.and_then(|program| program.data);
                let Some(file::Data::Contents(contents)) = data else {
                    let known = self.script.knows.filter(|(uri, _)| *uri == benchmark.uri);
                    let (uri, number) =
                        known.ok_or_else(|| Status::invalid_argument("No program set"))?;
                    held.programs.insert(uri.to_owned(), number);
                    continue;
                };
                let text = String::from_utf8_lossy(&contents).into_owned();
                let number = text.parse();
                let number = number.map_err(|_not| {
                    Status::invalid_argument(format!("{} is no number", benchmark.uri))
                })?;
                held.programs.insert(benchmark.uri, number);
            }
            Ok(AddBenchmarkReply {})
        })
    }

    async fn send_session_parameter(
        &self,
        _: Request<SendSessionParameterRequest>,
    ) -> RpcResult<SendSessionParameterReply> {
        Err(Status::unimplemented("there are no parameters"))
    }
}

fn lost(id: i64) -> Status {
    Status::not_found(format!("Session not found: {id}"))
}

/// A running service, and its environment.
struct Running {
    environment: Box<dyn Environment>,
    service: Arc<Scripted>,
    /// Ends the service when it is dropped.
    _runtime: tokio::runtime::Runtime,
}

fn running(script: Script) -> Running {
    let service = Arc::new(Scripted { script, held: Mutex::default() });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let none = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = runtime.block_on(tokio::net::TcpListener::bind(none)).unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let served = CompilerGymServiceServer::new(Arc::clone(&service));
    runtime.spawn(
        tonic::transport::Server::builder().add_service(served).serve_with_incoming(incoming),
    );
    let environment = open(&format!("grpc://{address}/arithmetic-v0")).unwrap();
    Running { environment, service, _runtime: runtime }
}

impl Running {
    fn begun(&self, program: &str) -> Result<Box<dyn Session>, SessionError> {
        self.begun_as("file:///a/number", program)
    }

    fn begun_as(&self, uri: &str, program: &str) -> Result<Box<dyn Session>, SessionError> {
        let mut session = self.environment.session()?;
        let benchmark = Benchmark {
            uri: uri.parse().unwrap(),
            program: program.as_bytes().into(),
            provenance: steplake::model::Provenance::default(),
            execution: None,
        };
        session.start(&Start {
            benchmark: &benchmark,
            action_space: "arithmetic-v0",
            baselines: None,
            watch: &Watch::default(),
        })?;
        Ok(session)
    }

    fn open_sessions(&self) -> usize {
        self.service.held.lock().sessions.len()
    }
}

fn number(session: &mut dyn Session) -> Value {
    session.observe(ObservationIndex(1)).unwrap()
}

fn failure(outcome: &Outcome) -> Option<FailureKind> {
    match outcome {
        Outcome::Crashed(failure) => Some(failure.kind),
        Outcome::State { .. } => None,
    }
}

#[test]
fn the_spaces_are_those_of_the_service_without_what_no_lake_can_hold() {
    let running = running(Script::default());
    let spec = running.environment.spec();
    let names = spec.observation_spaces.iter().map(|space| space.name.as_ref());
    assert_eq!(names.collect::<Vec<_>>(), ["Text", "Number"]);
    assert_eq!((spec.state_space.as_ref(), spec.reward_spaces.len()), ("Text", 1));
    assert_eq!(spec.compiler, "scripted 1 (service 1)");
    let served = running.environment.served().unwrap();
    let (name, reason) = &served.left_out()[0];
    assert!(name == "Time" && reason.contains("not deterministic"), "{reason}");
}

#[test]
fn steps_have_states_rewards_and_an_end() {
    let running = running(Script::default());
    let mut session = running.begun("3").unwrap();
    let step = session.apply(ActionIndex(1)).unwrap();
    assert_eq!(*step.rewards, [-3.0]);
    assert_eq!(number(session.as_mut()), Value::Int(6));
    let wrong = session.apply(ActionIndex(2)).unwrap_err();
    assert!(matches!(wrong, SessionError::InvalidAction { index: 2, len: 2, .. }), "{wrong}");
    assert_eq!(number(session.as_mut()), Value::Int(6));
    assert_eq!(running.open_sessions(), 1);
    drop(session);
    assert_eq!(running.open_sessions(), 0);
}

#[test]
fn a_failure_counts_if_a_fresh_session_fails_too() {
    let fails = &[(2, Code::DataLoss), (4, Code::DataLoss)];
    let running = running(Script { fails, ..Script::default() });
    let mut session = running.begun("3").unwrap();
    session.apply(ActionIndex(0)).unwrap();
    // The second action; the first and the second again in a fresh session.
    let step = session.apply(ActionIndex(0)).unwrap();
    assert_eq!(failure(&step.outcome), Some(FailureKind::Verifier));
    let over = session.apply(ActionIndex(0)).unwrap_err();
    assert!(matches!(over, SessionError::NoEpisode), "{over}");
    assert_eq!((running.open_sessions(), running.environment.repeated_windows()), (0, 0));
}

#[test]
fn a_failure_that_a_fresh_session_does_not_have_is_not_recorded() {
    let running = running(Script { fails: &[(2, Code::Internal)], ..Script::default() });
    let mut session = running.begun("3").unwrap();
    session.apply(ActionIndex(0)).unwrap();
    assert_eq!(failure(&session.apply(ActionIndex(0)).unwrap().outcome), None);
    assert_eq!(number(session.as_mut()), Value::Int(5));
    assert_eq!((running.open_sessions(), running.environment.repeated_windows()), (1, 1));
}

#[test]
fn a_lost_session_comes_back_to_its_state() {
    let running = running(Script { forgets: &[3], ..Script::default() });
    let mut session = running.begun("3").unwrap();
    for _ in 0..4 {
        session.apply(ActionIndex(0)).unwrap();
    }
    assert_eq!(number(session.as_mut()), Value::Int(7));
}

#[test]
fn a_machine_that_loses_sessions_again_and_again_is_no_failure_of_the_compiler() {
    let fails = &[(1, Code::Unavailable), (2, Code::Unavailable), (3, Code::Unavailable)];
    let again = |more: &'static [(u64, Code)]| {
        let running = running(Script { fails: more, ..Script::default() });
        running.begun("3").unwrap().apply(ActionIndex(0))
    };
    assert!(again(fails).is_ok());
    let more = &[
        (1, Code::Unavailable),
        (2, Code::Unavailable),
        (3, Code::Unavailable),
        (4, Code::Unavailable),
    ];
    let lost = again(more).unwrap_err();
    assert!(matches!(lost, SessionError::Machine(_)), "{lost}");
}

#[test]
fn a_session_that_comes_back_elsewhere_is_an_error() {
    let running = running(Script { forgets: &[3], drifts: true, ..Script::default() });
    let mut session = running.begun("3").unwrap();
    for _ in 0..2 {
        session.apply(ActionIndex(0)).unwrap();
    }
    let elsewhere = session.apply(ActionIndex(0)).unwrap_err();
    assert!(
        matches!(elsewhere, SessionError::Unrepeatable { is_failure: false, .. }),
        "{elsewhere}"
    );
    assert_eq!(running.open_sessions(), 0);
}

#[test]
fn a_start_that_fails_on_the_way_back_is_no_failure_of_the_action() {
    // The action loses the session, and then both starts fail that would bring it back.
    let fails = &[(2, Code::Unavailable)];
    let starts_fail = &[(2, Code::Internal), (3, Code::DataLoss)];
    let running = running(Script { fails, starts_fail, ..Script::default() });
    let mut session = running.begun("3").unwrap();
    session.apply(ActionIndex(0)).unwrap();
    assert_eq!(failure(&session.apply(ActionIndex(0)).unwrap().outcome), None);
    assert_eq!(number(session.as_mut()), Value::Int(5));
}

#[test]
fn a_session_whose_starts_fail_again_and_again_cannot_be_brought_back() {
    let fails = &[(2, Code::Unavailable)];
    let starts_fail =
        &[(2, Code::Internal), (3, Code::Internal), (4, Code::Internal), (5, Code::Internal)];
    let running = running(Script { fails, starts_fail, ..Script::default() });
    let mut session = running.begun("3").unwrap();
    session.apply(ActionIndex(0)).unwrap();
    let lost = session.apply(ActionIndex(0)).unwrap_err();
    assert!(matches!(lost, SessionError::Unrepeatable { is_failure: true, .. }), "{lost}");
}

#[test]
fn a_service_without_room_is_no_compiler_without_memory() {
    let full = [1, 2, 3, 4].map(|at| (at, Code::ResourceExhausted));
    let starts_fail: &'static [(u64, Code)] = Box::leak(Box::new(full));
    for script in
        [Script { starts_fail, ..Script::default() }, Script { is_full: true, ..Script::default() }]
    {
        let Err(full) = running(script).begun("3") else { panic!("no room") };
        assert!(matches!(full, SessionError::Machine(_)), "{full}");
    }
    let waits = Script { starts_fail: &starts_fail[..3], ..Script::default() };
    assert!(running(waits).begun("3").is_ok());
}

#[test]
fn another_service_at_the_same_address_is_noticed() {
    let running = running(Script { forgets: &[2], is_replaced: true, ..Script::default() });
    let mut session = running.begun("3").unwrap();
    session.apply(ActionIndex(0)).unwrap();
    let replaced = session.apply(ActionIndex(0)).unwrap_err();
    assert!(replaced.to_string().contains("another service than at first"), "{replaced}");
    let Err(replaced) = running.begun("3") else { panic!("another service") };
    assert!(replaced.to_string().contains("another service than at first"), "{replaced}");
}

#[test]
fn forks_go_on_alone_whether_the_service_has_them_or_not() {
    for fork in [None, Some(0)] {
        let running = running(Script { fork, ..Script::default() });
        let mut session = running.begun("3").unwrap();
        session.apply(ActionIndex(1)).unwrap();
        let mut other = session.fork().unwrap();
        other.apply(ActionIndex(0)).unwrap();
        assert_eq!(number(session.as_mut()), Value::Int(6));
        assert_eq!(number(other.as_mut()), Value::Int(7));
    }
    let running = running(Script { fork: Some(5), ..Script::default() });
    let Err(wrong) = running.begun("3").unwrap().fork() else { panic!("a fork elsewhere") };
    assert!(wrong.to_string().contains("a fork at the service is in state"), "{wrong}");
}

#[test]
fn actions_of_one_name_are_two_actions() {
    let running = running(Script { repeats: true, ..Script::default() });
    let actions = &running.environment.spec().action_spaces[0].actions;
    let names: Vec<&str> = actions.iter().map(|action| action.name.as_str()).collect();
    assert_eq!(names, ["add", "double", "add#2"]);
    let mut session = running.begun("3").unwrap();
    session.apply(ActionIndex(2)).unwrap();
    assert_eq!(number(session.as_mut()), Value::Int(13));
}

#[test]
fn a_program_may_be_loaded_by_its_name() {
    let knows = Some(("benchmark://own-v0/seven", 7));
    let running = running(Script { knows, ..Script::default() });
    let mut session = running.begun_as("benchmark://own-v0/seven", "").unwrap();
    assert_eq!(number(session.as_mut()), Value::Int(7));
    let Err(other) = running.begun_as("benchmark://own-v0/eight", "") else { panic!("unknown") };
    let said = other.to_string();
    assert!(said.contains("benchmark://own-v0/eight") && said.contains("not found"), "{said}");
}

#[test]
fn what_is_no_program_is_said() {
    let running = running(Script::default());
    let Err(wrong) = running.begun("x") else { panic!("no number") };
    assert!(matches!(wrong, SessionError::BadProgram { .. }), "{wrong}");
    let said = wrong.to_string();
    assert!(
        said.contains("file:///a/number is no number") && !said.contains("steplake-"),
        "{said}"
    );
    let unknown = running.begun_as("benchmark://own-v0/any", "");
    let Err(unknown) = unknown else { panic!("an unknown program") };
    assert!(unknown.to_string().contains("the service has to know it"), "{unknown}");
    let Err(empty) = running.begun("") else { panic!("an empty file") };
    assert!(empty.to_string().contains("the file is empty"), "{empty}");
}
