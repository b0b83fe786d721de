//! The worker's side: serves sessions of one environment until its supervisor goes away.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};

use super::flight::{Flight, Phase};
use super::wire::{self, Reply, Request, WireStart, WireValue};
use crate::env::{Environment, Session, SessionError, Start, Watch};
use crate::model::{ActionIndex, ObservationIndex, StateId};

/// How many states a worker remembers to have sent. Beyond it forgets all and sends some again.
const SENT_STATES_MAX: usize = 1 << 20;

/// How often a worker looks whether its supervisor still lives.
const SUPERVISOR_CHECK: Duration = Duration::from_millis(500);

struct Served {
    session: Box<dyn Session>,
    watch: Vec<ObservationIndex>,
}

struct Worker<'a> {
    environment: &'a dyn Environment,
    flight: Flight,
    sessions: HashMap<u32, Served>,
    sent: HashSet<StateId>,
    asker: u64,
    out: UnixStream,
}

/// Serves `stream` until its other end closes.
///
/// # Errors
///
/// When the flight recorder or the stream cannot be used.
pub fn serve(
    environment: &dyn Environment,
    stream: UnixStream,
    flight: &Path,
    memory_bytes_max: u64,
) -> io::Result<()> {
    setrlimit(Resource::RLIMIT_AS, memory_bytes_max, memory_bytes_max)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    end_with_supervisor();
    let mut worker = Worker {
        environment,
        flight: Flight::open(flight)?,
        sessions: HashMap::new(),
        sent: HashSet::new(),
        asker: 0,
        out: stream.try_clone()?,
    };
    wire::send(&mut worker.out, &Reply::Ready)?;
    let mut requests = BufReader::new(stream);
    loop {
        let request = match wire::receive(&mut requests) {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        worker.answer(request)?;
        worker.flight.phase(Phase::Idle);
    }
}

/// A supervisor that is killed closes its end, but a worker inside a long action would not look.
fn end_with_supervisor() {
    let supervisor = nix::unistd::getppid();
    std::thread::spawn(move || {
        while nix::unistd::getppid() == supervisor {
            std::thread::sleep(SUPERVISOR_CHECK);
        }
        // Not `exit`: its clean-up would run beside a compiler that is still at work.
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
    });
}

/// The watched values of the state that a session has come to, where they were not sent before.
fn look(
    flight: &Flight,
    sent: &mut HashSet<StateId>,
    served: &mut Served,
    state: StateId,
) -> Result<Vec<(u8, WireValue)>, SessionError> {
    if served.watch.is_empty() || sent.contains(&state) {
        return Ok(Vec::new());
    }
    flight.phase(Phase::Observing);
    let mut observed = Vec::with_capacity(served.watch.len());
    for &space in &served.watch {
        observed.push((space.0, served.session.observe(space)?.into()));
    }
    if sent.len() == SENT_STATES_MAX {
        sent.clear();
    }
    sent.insert(state);
    Ok(observed)
}

impl Worker<'_> {
    fn answer(&mut self, request: Request) -> io::Result<()> {
        let reply = match request {
            Request::Start { session, start } => self.start(session, &start),
            Request::Steps { session, actions } => {
                self.steps(session, &wire::actions(&actions)).map(|()| Reply::Done)
            }
            Request::Observe { session, space } => self.observe(session, ObservationIndex(space)),
            Request::Fork { session, fork } => self.fork(session, fork),
            Request::End { session } => {
                self.sessions.remove(&session);
                Ok(Reply::Done)
            }
        };
        wire::send(&mut self.out, &reply.unwrap_or_else(|error| Reply::Error(error.into())))
    }

    fn start(&mut self, session: u32, start: &WireStart) -> Result<Reply, SessionError> {
        let benchmark = start.benchmark()?;
        self.flight.begin(benchmark.uri.as_str());
        if self.asker != start.asker {
            self.sent.clear();
            self.asker = start.asker;
        }
        let watch = Watch { spaces: wire::spaces(&start.watch), asker: start.asker };
        let served = match self.sessions.entry(session) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let session = self.environment.session()?;
                entry.insert(Served { session, watch: Vec::new() })
            }
        };
        served.watch.clone_from(&watch.spaces);
        let baselines = start.baselines();
        let started = served.session.start(&Start {
            benchmark: &benchmark,
            action_space: &start.action_space,
            baselines: baselines.as_ref(),
            watch: &watch,
        })?;
        let observed = look(&self.flight, &mut self.sent, served, started.state)?;
        Ok(Reply::started(started, observed))
    }

    /// Sends a frame a step as soon as it is made, so that the supervisor can record it whatever the
    /// next action does.
    fn steps(&mut self, session: u32, actions: &[ActionIndex]) -> Result<(), SessionError> {
        let served = self.sessions.get_mut(&session).ok_or(SessionError::NoEpisode)?;
        for &action in actions {
            self.flight.act(action.0);
            let step = served.session.apply(action)?;
            let ends = step.outcome.ends_episode();
            let observed = match step.outcome.state() {
                Some(state) => look(&self.flight, &mut self.sent, served, state)?,
                None => Vec::new(),
            };
            wire::send(&mut self.out, &Reply::Step { step: step.into(), observed })
                .map_err(|error| SessionError::Worker(error.to_string()))?;
            if ends {
                break;
            }
        }
        Ok(())
    }

    fn observe(&mut self, session: u32, space: ObservationIndex) -> Result<Reply, SessionError> {
        self.flight.phase(Phase::Observing);
        let served = self.sessions.get_mut(&session).ok_or(SessionError::NoEpisode)?;
        Ok(Reply::Value(served.session.observe(space)?.into()))
    }

    fn fork(&mut self, session: u32, fork: u32) -> Result<Reply, SessionError> {
        self.flight.phase(Phase::Forking);
        let served = self.sessions.get_mut(&session).ok_or(SessionError::NoEpisode)?;
        let forked = Served { session: served.session.fork()?, watch: served.watch.clone() };
        self.sessions.insert(fork, forked);
        Ok(Reply::Done)
    }
}
