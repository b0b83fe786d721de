//! The worker's side: serves sessions of one environment until its supervisor goes away.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};

use super::flight::{Flight, Phase};
use super::wire::{self, Reply, Request, WireStart, WireValue};
use crate::env::{Environment, KeyframeCount, Session, SessionError, Start, Watch, flags};
use crate::model::{ActionIndex, ObservationIndex, Outcome, StateId};

/// How many states a worker remembers to have sent. Beyond it forgets all and sends some again.
const SENT_STATES_MAX: usize = 1 << 20;

/// How often a worker looks whether its supervisor still lives.
const SUPERVISOR_CHECK: Duration = Duration::from_millis(500);

struct Served {
    session: Box<dyn Session>,
    action_space: String,
    watch: Watch,
}

/// The states whose watched values were sent, and those that were sent themselves.
#[derive(Default)]
struct Sent {
    observed: HashSet<StateId>,
    keyframes: HashSet<StateId>,
}

impl Sent {
    fn forget(&mut self) {
        self.observed.clear();
        self.keyframes.clear();
    }
}

struct Worker<'a> {
    environment: &'a dyn Environment,
    flight: Flight,
    sessions: HashMap<u32, Served>,
    sent: Sent,
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
        sent: Sent::default(),
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

/// The watched values of the state that a session has come to, and of a keyframe (`whole` is the space that
/// serialises it) the state itself, where they were not sent before.
fn look(
    flight: &Flight,
    sent: &mut Sent,
    served: &mut Served,
    state: StateId,
    whole: Option<ObservationIndex>,
) -> Result<Vec<(u8, WireValue)>, SessionError> {
    let mut spaces = Vec::new();
    if !sent.observed.contains(&state) {
        spaces.extend_from_slice(&served.watch.spaces);
    }
    spaces.extend(
        whole.filter(|space| {
            !served.watch.spaces.contains(space) && !sent.keyframes.contains(&state)
        }),
    );
    if spaces.is_empty() {
        return Ok(Vec::new());
    }
    flight.phase(Phase::Observing);
    let mut observed = Vec::with_capacity(spaces.len());
    for space in spaces {
        observed.push((space.0, served.session.observe(space)?.into()));
    }
    if sent.observed.len() == SENT_STATES_MAX {
        sent.forget();
    }
    sent.observed.insert(state);
    if whole.is_some() {
        sent.keyframes.insert(state);
    }
    Ok(observed)
}

impl Worker<'_> {
    fn answer(&mut self, request: Request) -> io::Result<()> {
        let reply = match request {
            Request::Start { session, start } => self.start(session, &start),
            Request::Steps { session, actions, changes } => {
                self.steps(session, &wire::actions(&actions), changes).map(|()| Reply::Done)
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
            self.sent.forget();
            self.asker = start.asker;
        }
        let (spaces, asker) = (wire::spaces(&start.watch), start.asker);
        let watch = Watch { spaces, keyframes: start.keyframes, asker };
        let served = match self.sessions.entry(session) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let session = self.environment.session()?;
                let (action_space, watch) = (String::new(), Watch::default());
                entry.insert(Served { session, action_space, watch })
            }
        };
        served.watch.clone_from(&watch);
        served.action_space.clone_from(&start.action_space);
        let baselines = start.baselines();
        let started = served.session.start(&Start {
            benchmark: &benchmark,
            action_space: &start.action_space,
            baselines: baselines.as_ref(),
            watch: &watch,
        })?;
        let whole = watch.keyframes.map(|_| self.environment.spec().state_index());
        let observed = look(&self.flight, &mut self.sent, served, started.state, whole)?;
        Ok(Reply::started(started, observed))
    }

    /// Sends a frame a step as soon as it is made, so that the supervisor can record it whatever the
    /// next action does.
    fn steps(
        &mut self,
        session: u32,
        actions: &[ActionIndex],
        changes: Option<u32>,
    ) -> Result<(), SessionError> {
        let spec = self.environment.spec();
        let mut count = KeyframeCount::since(changes.unwrap_or(0));
        let served = self.sessions.get_mut(&session).ok_or(SessionError::NoEpisode)?;
        for &action in actions {
            self.flight.act(action.0);
            let step = served.session.apply(action)?;
            let ends = step.outcome.ends_episode();
            let observed = match step.outcome {
                Outcome::State { id, changed, .. } if changes.is_some() => {
                    let flags = flags(spec, &served.action_space, action);
                    let is_keyframe = |every| count.step(every, changed, flags);
                    let whole = served.watch.keyframes.is_some_and(is_keyframe);
                    let whole = whole.then(|| spec.state_index());
                    look(&self.flight, &mut self.sent, served, id, whole)?
                }
                _ => Vec::new(),
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
        let (action_space, watch) = (served.action_space.clone(), served.watch.clone());
        let forked = Served { session: served.session.fork()?, action_space, watch };
        self.sessions.insert(fork, forked);
        Ok(Reply::Done)
    }
}
