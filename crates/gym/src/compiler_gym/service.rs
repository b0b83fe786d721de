//! The eight requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use steplake::Error;
use steplake::env::{Start, Watch, llvm};
use steplake::environments::catalogue::inputs_folder;
use steplake::execution::RunSettings;
use steplake::model::{ActionIndex, EnvironmentSpec, MachineSpace, ObservationIndex, Value};
use steplake::program_under_test::{MachineSpaceError, ProgramUnderTest};
use steplake::sandbox::Interrupt;
use tokio::runtime::Handle;
use tonic::{Request, Response, Status};

use super::benchmarks::{Benchmarks, ClientProgram};
use super::made_files;
use super::recording::RecordedEnvironment;
use super::session::{ActionsResult, ClientSession};
use super::sessions::Sessions;
use super::spaces::{Spaces, ValueSource};
use super::status::Starting;
use super::{events, parameters, status};
use crate::cache::Cache;
use crate::proto::compiler_gym_service_server::CompilerGymService;
use crate::proto::{
    AddBenchmarkReply, AddBenchmarkRequest, EndSessionReply, EndSessionRequest, Event,
    ForkSessionReply, ForkSessionRequest, GetSpacesReply, GetSpacesRequest, GetVersionReply,
    GetVersionRequest, SendSessionParameterReply, SendSessionParameterRequest, StartSessionReply,
    StartSessionRequest, StepReply, StepRequest,
};

/// The version of `CompilerGym` whose clients the service answers.
const VERSION: &str = "0.2.5";

/// The most actions of a request that is answered on a thread that talks to clients.
const AT_ONCE_MAX: usize = 64;

/// What all requests share.
#[derive(Debug)]
pub(super) struct Service {
    environment: RecordedEnvironment,
    spaces: Spaces,
    benchmarks: Benchmarks,
    sessions: Sessions,
    /// What programs of clients may use.
    settings: RunSettings,
    /// Whether the service stops.
    interrupt: Interrupt,
    /// The folder of files for clients, who delete them.
    folder: PathBuf,
    files: FileAccess,
}

/// What clients may do with the files of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileAccess {
    /// Name programs by their paths, and files that commands read.
    pub(super) reads: bool,
    /// Have the executable of a build command made where they want it.
    pub(super) writes: bool,
}

impl Service {
    /// Serves the sessions of an environment. Files for clients go into `folder`. `interrupt` says
    /// when to stop.
    pub(super) fn new(
        environment: RecordedEnvironment,
        folder: PathBuf,
        files: FileAccess,
        interrupt: Interrupt,
    ) -> Self {
        Self {
            interrupt,
            spaces: Spaces::of(
                environment.unrecorded().spec(),
                environment.cache().map(|cache| cache.action_space()),
            ),
            environment,
            benchmarks: Benchmarks::new(files.reads),
            sessions: Sessions::default(),
            settings: RunSettings {
                reads_named_files: files.reads,
                inputs: inputs_folder(),
                ..RunSettings::default()
            },
            folder,
            files,
        }
    }

    /// Ends all sessions, and the recording. Sessions at work get `patience` to come to an end: one
    /// that runs a program ends between two runs. The steps of one that takes longer are taken
    /// back.
    ///
    /// # Errors
    ///
    /// If the recording has failed, or the disk does.
    pub(super) fn finish(&self, patience: Duration) -> Result<(), Error> {
        self.sessions.end_all(patience);
        self.environment.finish()
    }

    /// The name of the environment.
    pub(super) fn name(&self) -> &str {
        &self.environment.unrecorded().spec().name
    }

    /// The cache that answers, if one does.
    pub(super) fn cache(&self) -> Option<Arc<Cache>> {
        self.environment.cache().cloned()
    }

    fn version(&self) -> GetVersionReply {
        let spec = self.environment.unrecorded().spec();
        // Clients take LLVM's for a number: `LLVM 22.1.8 (…)` is 22.1.8.
        let llvm = spec.compiler.strip_prefix("LLVM ");
        let llvm = llvm.map(|version| version.split(' ').next().unwrap_or_default());
        let compiler = llvm.unwrap_or(&spec.compiler);
        GetVersionReply {
            service_version: VERSION.to_owned(),
            compiler_version: match spec.state_scheme {
                1 => format!("{compiler} {}", spec.target),
                // Lakes of this service are of it.
                later => format!("{compiler} {} scheme {later}", spec.target),
            },
        }
    }

    /// The spaces that clients see.
    pub(super) fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Starts a session.
    ///
    /// # Errors
    ///
    /// If the request is wrong, or the program cannot be started or built.
    pub(super) fn start(&self, request: StartSessionRequest) -> Result<StartSessionReply, Status> {
        self.sessions.demand_room()?;
        let sent = request.benchmark.unwrap_or_default();
        let uri = sent.uri.clone();
        let program = self.benchmarks.of_request(sent)?;
        let place = request.action_space;
        let action_space = self.spaces.action_space(place).ok_or_else(|| {
            Status::invalid_argument(format!("Action space index out of range: {place}"))
        })?;
        let sources = self.sources(&request.observation_space)?;
        let starting = Starting { uri: &uri, is_llvm: self.name() == llvm::NAME };
        if program.benchmark.program.is_empty() {
            return Err(starting.bad("it is empty"));
        }
        let benchmark = self.environment.as_clients(program.benchmark.clone());
        let watched = watched(self.environment.unrecorded().spec(), &sources);
        let mut under_test = ProgramUnderTest::new(
            Arc::clone(self.environment.unrecorded()),
            benchmark.clone(),
            self.settings.clone(),
            self.folder.clone(),
        );
        under_test.interrupt = self.interrupt.clone();
        if starting.is_llvm && program.is_unbuilt() {
            self.build(&program, &under_test, action_space.0, starting)?;
        }
        let mut session =
            ClientSession::start(&self.environment, benchmark, under_test, action_space, watched)
                .map_err(|error| starting.error(&error))?;
        let observation = observe(&mut session, &sources);
        // The episode has begun: a client that tried again would begin another one.
        let observation = observation.map_err(|error| status::after(1, error))?;
        let session_id = self.sessions.add(session);
        Ok(StartSessionReply { session_id, new_action_space: None, observation })
    }

    /// Has the command of a program build it before it is started for the first time, so that a
    /// client hears of a command that fails before it plays, and has the executable.
    fn build(
        &self,
        program: &ClientProgram,
        under_test: &ProgramUnderTest,
        action_space: &str,
        starting: Starting<'_>,
    ) -> Result<(), Status> {
        let refused = match under_test.build_as_it_came() {
            Ok(executable) => {
                let wanted = program.made_at.as_deref().filter(|_| self.files.writes);
                if let Some(path) = wanted {
                    let saved = made_files::save(&executable, path);
                    saved.map_err(|error| status::not_written(path, &error))?;
                }
                program.set_built();
                return Ok(());
            }
            // It is this machine that does not build programs, so the session goes on without.
            Err(MachineSpaceError::Execution(error)) if !status::is_of_program(&error) => {
                tracing::warn!(uri = %program.benchmark.uri, %error, "nothing is built");
                return Ok(());
            }
            Err(error) => status::of_text_size(&error),
        };
        // It may be no program at all, which only the compiler knows.
        let mut session =
            self.environment.unrecorded().session().map_err(|error| starting.error(&error))?;
        let (baselines, watch) = (None, &Watch::default());
        let start = Start { benchmark: &program.benchmark, action_space, baselines, watch };
        session.start(&start).map_err(|error| starting.error(&error))?;
        Err(refused)
    }

    /// Ends a session, if it is there.
    pub(super) fn end(&self, request: EndSessionRequest) -> EndSessionReply {
        let remaining = self.sessions.end(request.session_id);
        EndSessionReply { remaining_sessions: i32::try_from(remaining).unwrap_or(i32::MAX) }
    }

    /// Applies actions, then observes.
    ///
    /// # Errors
    ///
    /// If the request is wrong, or the compiler fails, which ends the session.
    pub(super) fn step(&self, request: &StepRequest) -> Result<StepReply, Status> {
        self.sessions.with(request.session_id, |session| {
            // A wrong request leaves the session as it was.
            let (actions, sources) = self.asked(session, request)?;
            self.play(session, &actions, &sources)
        })
    }

    /// Applies actions, then observes, if a cache answers a few actions without waiting.
    fn step_at_once(&self, request: &StepRequest) -> Option<Result<StepReply, Status>> {
        let cache = self.environment.cache()?;
        if request.action.len() > AT_ONCE_MAX {
            return None;
        }
        self.sessions.try_with(request.session_id, |session| {
            let (actions, sources) = self.asked(session, request).ok()?;
            let space = |source: &ValueSource| match source {
                ValueSource::Environment(space) | ValueSource::Opaque(space, _) => Some(*space),
                ValueSource::Machine(_) => None,
            };
            let spaces = sources.iter().map(space).collect::<Option<Vec<_>>>()?;
            let is_at_hand = cache.is_at_hand(session.state_of_cache()?, &actions, &spaces);
            is_at_hand.then(|| self.play(session, &actions, &sources))
        })
    }

    /// Returns the actions and the spaces of a request.
    fn asked(
        &self,
        session: &ClientSession,
        request: &StepRequest,
    ) -> Result<(Vec<ActionIndex>, Vec<ValueSource>), Status> {
        let sources = self.sources(&request.observation_space)?;
        let actions = request.action.iter();
        let actions = actions.map(|action| events::action(action, session.actions()));
        Ok((actions.collect::<Result<_, _>>()?, sources))
    }

    fn play(
        &self,
        session: &mut ClientSession,
        actions: &[ActionIndex],
        sources: &[ValueSource],
    ) -> Result<StepReply, Status> {
        let spec = self.environment.unrecorded().spec();
        let ActionsResult { has_ended, has_changed } = session.play(spec, actions)?;
        let observation = observe(session, sources);
        let observation = observation.map_err(|error| status::after(actions.len(), error))?;
        Ok(StepReply {
            end_of_session: has_ended,
            action_had_no_effect: !has_changed,
            new_action_space: None,
            observation,
        })
    }

    fn send_parameters(
        &self,
        request: &SendSessionParameterRequest,
    ) -> Result<SendSessionParameterReply, Status> {
        self.sessions.with(request.session_id, |session| {
            let answers = request.parameter.iter().map(|parameter| {
                parameters::answer(parameter, session, &self.environment, &self.benchmarks)
            });
            Ok(SendSessionParameterReply { reply: answers.collect::<Result<_, _>>()? })
        })
    }

    fn sources(&self, places: &[i32]) -> Result<Vec<ValueSource>, Status> {
        let source = |&place: &i32| {
            self.spaces.source(place).ok_or_else(|| {
                Status::invalid_argument(format!("Observation space index out of range: {place}"))
            })
        };
        places.iter().map(source).collect()
    }
}

fn observe(session: &mut ClientSession, sources: &[ValueSource]) -> Result<Vec<Event>, Status> {
    let observed = sources.iter().map(|source| match *source {
        ValueSource::Environment(space) => session.observe(space).map(events::of_value),
        ValueSource::Opaque(space, format) => match session.observe(space)? {
            Value::Text(text) => Ok(events::opaque(format, text)),
            other => Ok(events::of_value(other)),
        },
        ValueSource::Machine(space) => on_machine(space, session.observe_on_machine(space)),
    });
    observed.collect()
}

/// The event of a space of this machine: unset for the times of a program that nobody says how to
/// build or run.
fn on_machine(
    space: MachineSpace,
    observed: Result<Value, MachineSpaceError>,
) -> Result<Event, Status> {
    match (space, observed) {
        (MachineSpace::IsBuildable | MachineSpace::IsRunnable, Ok(Value::Int(is_so))) => {
            Ok(events::flag(is_so != 0))
        }
        (MachineSpace::CpuInfo, Ok(Value::Text(json))) => Ok(events::opaque("json://", json)),
        (_, Ok(value)) => Ok(events::of_value(value)),
        (_, Err(MachineSpaceError::NotBuildable(_) | MachineSpaceError::NotRunnable(_))) => {
            Ok(events::UNSET)
        }
        (
            MachineSpace::TextSizeBytes
            | MachineSpace::TextSizeO0
            | MachineSpace::TextSizeO3
            | MachineSpace::TextSizeOz,
            Err(error),
        ) => Err(status::of_text_size(&error)),
        (_, Err(error)) => Err(status::of_machine(&error)),
    }
}

/// The spaces whose values come along with each step: those that a client asks for at the start,
/// and the costs of the rewards. Most clients ask for none at the start, and for a cost with each
/// step.
fn watched(spec: &EnvironmentSpec, sources: &[ValueSource]) -> Vec<ObservationIndex> {
    let asked = sources.iter().filter_map(|source| match source {
        ValueSource::Environment(space) => Some(*space),
        _ => None,
    });
    let usual = spec.reward_spaces.iter().filter(|space| !spec.is_on_request(space));
    let costs = usual.filter_map(|space| spec.observation_index(&space.cost));
    let mut watched: Vec<ObservationIndex> = Vec::new();
    for space in asked.chain(costs) {
        if !watched.contains(&space) {
            watched.push(space);
        }
    }
    watched
}

/// The service as tonic calls it. Whatever takes long runs on threads that may wait.
#[derive(Debug, Clone)]
pub(super) struct Rpc(pub(super) Arc<Service>);

impl Rpc {
    /// Runs `work` to its end, even if the client does not wait for it: its session stays whole.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let service = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&service)).await;
        let done = done.map_err(|_panic| {
            Status::internal("a request panicked: this is a defect of steplake, please report it")
        })?;
        done.map(Response::new)
    }

    /// Runs `work`, which opens a session, and ends the session if the client is gone by then:
    /// nobody would know of it.
    async fn open<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> Result<T, Status> + Send + 'static,
        id: impl FnOnce(&T) -> i64 + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let service = Arc::clone(&self.0);
        let opened = self.run(move |this| {
            let reply = work(this)?;
            let session_id = Some(id(&reply));
            Ok((reply, Untold { service, session_id }))
        });
        let (reply, mut untold) = opened.await?.into_inner();
        untold.session_id = None;
        Ok(Response::new(reply))
    }
}

/// Ends a session when it is dropped, unless its client was told of it.
struct Untold {
    service: Arc<Service>,
    session_id: Option<i64>,
}

impl Drop for Untold {
    /// The end may wait for a compiler, and the thread that drops this may be one that talks to
    /// clients. Without a runtime, the service ends all sessions.
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.session_id, Handle::try_current()) {
            let service = Arc::clone(&self.service);
            runtime.spawn_blocking(move || service.sessions.end(id));
        }
    }
}

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl CompilerGymService for Rpc {
    async fn get_version(&self, _: Request<GetVersionRequest>) -> RpcResult<GetVersionReply> {
        Ok(Response::new(self.0.version()))
    }

    async fn get_spaces(&self, _: Request<GetSpacesRequest>) -> RpcResult<GetSpacesReply> {
        Ok(self.0.spaces.response())
    }

    async fn start_session(
        &self,
        request: Request<StartSessionRequest>,
    ) -> RpcResult<StartSessionReply> {
        self.open(|service| service.start(request.into_inner()), |reply| reply.session_id).await
    }

    async fn fork_session(
        &self,
        request: Request<ForkSessionRequest>,
    ) -> RpcResult<ForkSessionReply> {
        let id = request.into_inner().session_id;
        let fork = move |service: &Service| {
            let session_id = service.sessions.fork(id)?;
            Ok(ForkSessionReply { session_id })
        };
        self.open(fork, |reply| reply.session_id).await
    }

    async fn end_session(&self, request: Request<EndSessionRequest>) -> RpcResult<EndSessionReply> {
        self.run(move |service| Ok(service.end(request.into_inner()))).await
    }

    async fn step(&self, request: Request<StepRequest>) -> RpcResult<StepReply> {
        let request = request.into_inner();
        // To wake another thread, and this one again, takes longer than a known step.
        match self.0.step_at_once(&request) {
            Some(done) => done.map(Response::new),
            None => self.run(move |service| service.step(&request)).await,
        }
    }

    async fn add_benchmark(
        &self,
        request: Request<AddBenchmarkRequest>,
    ) -> RpcResult<AddBenchmarkReply> {
        self.run(move |service| {
            let mut sent = request.into_inner().benchmark.into_iter();
            sent.try_for_each(|benchmark| service.benchmarks.add(benchmark).map(drop))?;
            Ok(AddBenchmarkReply {})
        })
        .await
    }

    async fn send_session_parameter(
        &self,
        request: Request<SendSessionParameterRequest>,
    ) -> RpcResult<SendSessionParameterReply> {
        self.run(move |service| service.send_parameters(request.get_ref())).await
    }
}

#[cfg(test)]
mod tests {
    use steplake::compilers;

    use super::*;

    #[test]
    fn the_cost_of_a_reward_comes_along_with_each_step() {
        let environment = compilers::open(llvm::NAME).unwrap();
        let spec = environment.spec();
        let cost = spec.observation_index("IrInstructionCount").unwrap();
        let features = spec.observation_index("Autophase").unwrap();
        assert_eq!(watched(spec, &[ValueSource::Machine(MachineSpace::CpuInfo)]), [cost]);
        let asked = [features, cost].map(ValueSource::Environment);
        assert_eq!(watched(spec, &asked), [features, cost]);
    }
}
