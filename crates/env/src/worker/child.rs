//! The worker's side: it serves sessions of one environment until its supervisor goes away.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::flight_recorder::{FlightRecorder, Phase};
use super::heap::heap_holes;
use super::limits::{self, Alarm, OUTPUT_BYTES_MAX, STACK_BYTES};
use super::player::{HostedSession, RequestPlayer, SentStates, StepWindow, look};
use super::wire::{self, Reply, Setup, WireStart, WorkerRequest};
use crate::{Environment, KeyframeCount, SessionError, Start, Watch};
use steplake_model::{ActionIndex, ObservationIndex};

/// How often a worker checks that its supervisor still lives.
const SUPERVISOR_CHECK: Duration = Duration::from_millis(500);

/// The blocks of the [holes](heap_holes) in the heap of an audit's worker: enough for what a
/// program allocates at first, few enough to cost little beside an episode.
const HOLE_BLOCKS: u32 = 2_000;

struct WorkerService<'a> {
    environment: &'a dyn Environment,
    flight: FlightRecorder,
    alarm: Alarm,
    sessions: HashMap<u32, HostedSession>,
    sent: SentStates,
    recording: u64,
    /// What was answered since the last flush waits here, so that it takes one write.
    out: BufWriter<UnixStream>,
    holes: Option<HeapHoles>,
}

/// The holes in the heap of an audit's worker: new ones for each program.
#[derive(Default)]
struct HeapHoles {
    starts: u64,
    /// What keeps them apart.
    _blocks: Vec<Vec<u8>>,
}

impl HeapHoles {
    fn renew(&mut self) {
        let starts = self.starts + 1;
        *self = Self { starts, _blocks: heap_holes(starts, HOLE_BLOCKS) };
    }
}

/// Serves `stream` until its other end closes. The supervisor says first which environment it
/// wants, and `open` opens that by its name.
///
/// # Errors
///
/// Those of `open`; if the limits cannot be set, or the flight recorder or the stream cannot be
/// used.
pub fn serve(
    open: impl FnOnce(&str) -> io::Result<Box<dyn Environment>>,
    stream: UnixStream,
) -> io::Result<()> {
    let Setup { environment, flight, step_cpu_max, memory_bytes_max, disturbs_heap } =
        wire::receive(&mut &stream)?;
    let environment = open(&environment)?;
    let environment = environment.as_ref();
    // The default is the name of the executed file, which is a link called `exe`.
    nix::sys::prctl::set_name(c"steplake-worker")?;
    limits::confine(memory_bytes_max)?;
    let flight = FlightRecorder::open(&flight)?;
    let out = stream.try_clone()?;
    // All files that a worker needs are open now, and no other thread runs.
    steplake_sandbox::confine_process(OUTPUT_BYTES_MAX)?;
    end_with_supervisor();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sessions".into()).stack_size(STACK_BYTES);
        let holes = disturbs_heap.then(HeapHoles::default);
        let work = || answer_all(environment, stream, out, flight, step_cpu_max, holes);
        match thread.spawn_scoped(scope, work)?.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn answer_all(
    environment: &dyn Environment,
    stream: UnixStream,
    out: UnixStream,
    flight: FlightRecorder,
    step_cpu_max: Duration,
    holes: Option<HeapHoles>,
) -> io::Result<()> {
    let mut worker = WorkerService {
        environment,
        flight,
        alarm: Alarm::new(step_cpu_max)?,
        sessions: HashMap::new(),
        sent: SentStates::default(),
        recording: 0,
        out: BufWriter::new(out),
        holes,
    };
    wire::send(&mut worker.out, &Reply::Ready(wire::build(environment.spec())))?;
    worker.out.flush()?;
    let mut requests = BufReader::new(stream);
    loop {
        let request = match wire::receive(&mut requests) {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        worker.flight.request();
        worker.answer(request)?;
        worker.alarm.rest();
        worker.flight.phase(Phase::Idle);
    }
}

/// Ends this process when its supervisor is gone. A killed supervisor closes its end of the stream,
/// but a worker inside a long action does not look at it.
fn end_with_supervisor() {
    let supervisor = nix::unistd::getppid();
    std::thread::spawn(move || {
        while nix::unistd::getppid() == supervisor {
            std::thread::sleep(SUPERVISOR_CHECK);
        }
        // Not `exit`: its clean-up would race with a compiler that is still at work.
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
    });
}

/// Returns the session that the supervisor calls `number`, and opens it if it is new.
fn serve_session<'a>(
    environment: &dyn Environment,
    sessions: &'a mut HashMap<u32, HostedSession>,
    number: u32,
) -> Result<&'a mut HostedSession, SessionError> {
    Ok(match sessions.entry(number) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let session = environment.session()?;
            let (action_space, watch) = (String::new(), Watch::default());
            entry.insert(HostedSession { session, action_space, watch, is_in_doubt: false })
        }
    })
}

impl WorkerService<'_> {
    fn answer(&mut self, request: WorkerRequest) -> io::Result<()> {
        let reply = match request {
            WorkerRequest::Start { session, start } => self.start(session, &start),
            WorkerRequest::Steps { session, actions, changes, window } => {
                self.player(session, window).and_then(|mut player| {
                    let actions: Vec<_> = actions.into_iter().map(ActionIndex).collect();
                    match changes.map(KeyframeCount::since) {
                        Some(count) => player.play(&actions, count),
                        None => player.play_again(&actions),
                    }
                })
            }
            WorkerRequest::Observe { session, space } => {
                self.observe(session, ObservationIndex(space))
            }
            WorkerRequest::Identify { session, state } => self.identify(session, &state),
            WorkerRequest::Text { session, state } => self.text(session, &state),
            WorkerRequest::Fork { session, fork } => self.fork(session, fork),
            WorkerRequest::End { session } => {
                self.sessions.remove(&session);
                Ok(Reply::Done)
            }
        };
        wire::send(&mut self.out, &reply.unwrap_or_else(Reply::Error))?;
        self.out.flush()
    }

    fn start(&mut self, session: u32, start: &WireStart) -> Result<Reply, SessionError> {
        let benchmark = start.benchmark()?;
        self.flight.begin(benchmark.uri.as_str(), start.steps);
        self.alarm.begin_start(&self.flight);
        if self.recording != start.recording {
            self.sent = SentStates::default();
            self.recording = start.recording;
        }
        if let Some(holes) = &mut self.holes {
            holes.renew();
        }
        let watch = start.watch();
        let served = serve_session(self.environment, &mut self.sessions, session)?;
        served.watch.clone_from(&watch);
        served.is_in_doubt = false;
        served.action_space.clone_from(&start.action_space);
        let baselines = start.baselines();
        let started = served.session.start(&Start {
            benchmark: &benchmark,
            action_space: &start.action_space,
            baselines: baselines.as_ref(),
            watch: &watch,
        })?;
        let (state, whole) = (started.state, watch.keyframes.is_some());
        let mut observed = Vec::new();
        if !start.is_observed {
            let spaces = self.sent.lacks(served, state, whole, true, self.environment.spec());
            observed = look(&self.flight, served, &spaces)?;
            self.sent.note(state, whole, &spaces);
        }
        Ok(Reply::Started { state, baselines: started.baselines.0, observed })
    }

    fn player(
        &mut self,
        session: u32,
        changes_max: Option<NonZeroU32>,
    ) -> Result<RequestPlayer<'_>, SessionError> {
        Ok(RequestPlayer {
            spec: self.environment.spec(),
            served: self.sessions.get_mut(&session).ok_or(SessionError::NoEpisode)?,
            flight: &self.flight,
            alarm: &mut self.alarm,
            sent: &mut self.sent,
            out: &mut self.out,
            changes_max,
            window: StepWindow::default(),
        })
    }

    fn observe(&mut self, session: u32, space: ObservationIndex) -> Result<Reply, SessionError> {
        self.flight.phase(Phase::Observing);
        let own = self.environment.spec().observation_space(space);
        if own.is_some_and(|own| own.of_benchmark) {
            // A baseline takes one of the compiler's own pipelines.
            self.alarm.begin_start(&self.flight);
        } else {
            self.alarm.begin_step(&self.flight);
        }
        let served = self.sessions.get_mut(&session).ok_or(SessionError::NoEpisode)?;
        Ok(Reply::Value(served.session.observe(space)?))
    }

    fn identify(&mut self, session: u32, state: &[u8]) -> Result<Reply, SessionError> {
        self.flight.phase(Phase::Observing);
        self.alarm.begin_step(&self.flight);
        let served = serve_session(self.environment, &mut self.sessions, session)?;
        Ok(Reply::Identified(served.session.identify(state)?))
    }

    fn text(&mut self, session: u32, state: &[u8]) -> Result<Reply, SessionError> {
        self.flight.phase(Phase::Observing);
        self.alarm.begin_step(&self.flight);
        let served = serve_session(self.environment, &mut self.sessions, session)?;
        Ok(Reply::Text(served.session.text(state)?))
    }

    fn fork(&mut self, session: u32, fork: u32) -> Result<Reply, SessionError> {
        self.flight.phase(Phase::Forking);
        self.alarm.begin_step(&self.flight);
        let served = self.sessions.get_mut(&session).ok_or(SessionError::NoEpisode)?;
        let (action_space, watch) = (served.action_space.clone(), served.watch.clone());
        let is_in_doubt = served.is_in_doubt;
        let session = served.session.fork()?;
        let forked = HostedSession { session, action_space, watch, is_in_doubt };
        self.sessions.insert(fork, forked);
        Ok(Reply::Done)
    }
}
