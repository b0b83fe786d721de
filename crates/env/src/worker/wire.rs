//! The messages between a supervisor and its worker: frames of four length bytes (little-endian)
//! and a postcard body. Both ends are built from the same sources, so the format carries no
//! version: a worker begins with its [`build`], and one of another build is refused.

use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::limits::MESSAGE_BYTES_MAX;
use crate::{SessionError, Start, Watch};
use steplake_model::{
    ActionFlags, ActionIndex, Baselines, Benchmark, EnvironmentSpec, Failure, FailureKind,
    ObservationIndex, Outcome, Provenance, StateId, Step, Value,
};

/// What a supervisor and its worker have to have in common: the version of steplake, the compiler
/// of the environment, and how it names states.
pub(super) fn build(spec: &EnvironmentSpec) -> String {
    let EnvironmentSpec { compiler, state_scheme, .. } = spec;
    format!("steplake {} with {compiler}, scheme {state_scheme}", env!("CARGO_PKG_VERSION"))
}

/// Room for all of a start request but the program.
const START_BYTES_MAX: usize = 1 << 20;

/// What a supervisor says first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// The name of the environment.
    pub(super) environment: String,
    /// The path of the flight recorder's page.
    pub(super) flight: PathBuf,
    pub(super) step_cpu_max: Duration,
    pub(super) memory_bytes_max: u64,
    /// Whether each program starts in a heap [with holes](super::heap_holes).
    pub(super) disturbs_heap: bool,
}

/// A supervisor's request. `session` is a number that the supervisor assigns.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerRequest {
    Start {
        session: u32,
        start: WireStart,
    },
    /// `changes` is the number of changes of state since the last keyframe; if none, the actions
    /// were confirmed before, and nothing is checked or observed. `window` is the number of changes
    /// after which a window ends; if none, each action is checked and sent at once.
    Steps {
        session: u32,
        actions: Vec<u32>,
        changes: Option<u32>,
        window: Option<NonZeroU32>,
    },
    Observe {
        session: u32,
        space: u8,
    },
    /// Asks for the id of a serialised state.
    Identify {
        session: u32,
        #[serde(with = "serde_bytes")]
        state: Vec<u8>,
    },
    /// Asks for a serialised state as text.
    Text {
        session: u32,
        #[serde(with = "serde_bytes")]
        state: Vec<u8>,
    },
    Fork {
        session: u32,
        fork: u32,
    },
    End {
        session: u32,
    },
}

/// [`Start`], owned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WireStart {
    uri: String,
    #[serde(with = "serde_bytes")]
    pub(super) program: Vec<u8>,
    pub(super) action_space: String,
    pub(super) baselines: Option<Vec<(String, i64)>>,
    watch: Vec<u8>,
    pub(super) keyframes: Option<NonZeroU32>,
    pub(super) recording: u64,
    unreplayable: Vec<u32>,
    /// The number of actions that led to the program, if it is a state of an episode.
    pub(super) steps: u64,
    /// The supervisor has the observations of the first state, and does not want them again.
    pub(super) is_observed: bool,
}

impl WireStart {
    /// Leaves out watched spaces that are observed apart from steps.
    pub(super) fn new(start: &Start<'_>, spec: &EnvironmentSpec) -> Self {
        let along = |space: &&ObservationIndex| {
            spec.observation_space(**space).is_none_or(|space| !space.on_request)
        };
        Self {
            uri: start.benchmark.uri.to_string(),
            program: start.benchmark.program.to_vec(),
            action_space: start.action_space.to_owned(),
            baselines: start.baselines.map(|baselines| baselines.0.clone()),
            watch: start.watch.spaces.iter().filter(along).map(|space| space.0).collect(),
            keyframes: start.watch.keyframes,
            recording: start.watch.recording,
            unreplayable: start.watch.unreplayable.iter().map(|action| action.0).collect(),
            steps: 0,
            is_observed: false,
        }
    }

    pub(super) fn benchmark(&self) -> Result<Benchmark, SessionError> {
        let uri = self.uri.parse().map_err(|error| SessionError::Worker(format!("{error}")))?;
        let program = self.program.as_slice().into();
        Ok(Benchmark { uri, program, provenance: Provenance::default(), execution: None })
    }

    pub(super) fn baselines(&self) -> Option<Baselines> {
        self.baselines.clone().map(Baselines)
    }

    /// Returns the flags of an action, as [`Watch::flags`] does.
    pub(super) fn flags(&self, spec: &EnvironmentSpec, action: ActionIndex) -> ActionFlags {
        let mut flags = crate::flags(spec, &self.action_space, action);
        flags.replayable &= !self.unreplayable.contains(&action.0);
        flags
    }

    pub(super) fn watch(&self) -> Watch {
        let spaces = self.watch.iter().copied().map(ObservationIndex).collect();
        let unreplayable = self.unreplayable.iter().copied().map(ActionIndex).collect();
        Watch { spaces, keyframes: self.keyframes, recording: self.recording, unreplayable }
    }
}

/// A worker's answer. A `Steps` request is answered by one `Step` per action, then `Done` or
/// `Broken`; every other request by one frame.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The worker is up. This is the first frame that it sends, with its [`build()`].
    Ready(String),
    Started {
        #[serde(with = "WireStateId")]
        state: StateId,
        baselines: Vec<(String, i64)>,
        observed: Vec<(u8, Value)>,
    },
    Step {
        #[serde(with = "WireStep")]
        step: Step,
        observed: Vec<(u8, Value)>,
    },
    Value(Value),
    Identified(#[serde(with = "WireStateId")] StateId),
    Text(String),
    Done,
    /// Something is wrong with the steps held back. The session is of no further use.
    Broken(#[serde(with = "WireFailure")] Failure),
    Error(SessionError),
}

/// A [`Step`] as it is sent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Step")]
struct WireStep {
    #[serde(with = "WireOutcome")]
    outcome: Outcome,
    rewards: Box<[f64]>,
    wall_time: Duration,
}

/// An [`Outcome`] as it is sent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Outcome")]
enum WireOutcome {
    State {
        #[serde(with = "WireStateId")]
        id: StateId,
        changed: bool,
        end_of_episode: bool,
        action_space_changed: bool,
    },
    Crashed(#[serde(with = "WireFailure")] Failure),
}

/// A [`StateId`] as it is sent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "StateId")]
struct WireStateId([u8; 20]);

/// A [`Failure`] as it is sent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Failure")]
pub(crate) struct WireFailure {
    #[serde(with = "WireFailureKind")]
    kind: FailureKind,
    detail: String,
}

/// A [`FailureKind`] as it is sent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FailureKind")]
enum WireFailureKind {
    Crash,
    TimeOut,
    OutOfMemory,
    Verifier,
    Rejected,
    Assembler,
}

/// Refuses a program that no message can hold.
pub(super) fn demand_sendable(benchmark: &Benchmark) -> Result<(), SessionError> {
    let bytes = benchmark.program.len();
    if bytes <= MESSAGE_BYTES_MAX - START_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("it has {bytes} bytes, more than a worker takes");
    Err(SessionError::BadProgram { uri: benchmark.uri.to_string(), detail })
}

/// Writes one frame, in one `write` call if the sink takes it whole.
pub(super) fn send(sink: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut frame = Vec::new();
    append(&mut frame, message)?;
    sink.write_all(&frame)
}

/// Appends a frame to others.
pub(super) fn append(frames: &mut Vec<u8>, message: &impl Serialize) -> io::Result<()> {
    let start = frames.len();
    frames.extend([0; LENGTH_BYTES]);
    *frames = postcard::to_extend(message, std::mem::take(frames)).map_err(io::Error::other)?;
    let body = frames.len() - start - LENGTH_BYTES;
    let length = u32::try_from(body).map_err(io::Error::other)?;
    frames[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// The number of bytes that give the length of a frame's body.
const LENGTH_BYTES: usize = 4;

/// Reads one frame.
///
/// # Errors
///
/// Those of `source`; [`io::ErrorKind::UnexpectedEof`] if it ends, be it between frames;
/// [`io::ErrorKind::FileTooLarge`], before any more is read, if no message is that long;
/// [`io::ErrorKind::InvalidData`] if the frame is not a message.
pub(super) fn receive<T: DeserializeOwned>(source: &mut impl Read) -> io::Result<T> {
    let mut bytes = [0; LENGTH_BYTES];
    source.read_exact(&mut bytes)?;
    let length = u32::from_le_bytes(bytes) as usize;
    if length > MESSAGE_BYTES_MAX {
        let detail = format!("a message of {length} bytes; {MESSAGE_BYTES_MAX} are the most");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, detail));
    }
    // The length may be wrong, so memory is allocated only as bytes arrive.
    let mut body = Vec::new();
    if source.take(length as u64).read_to_end(&mut body)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads bytes as a damaged worker or supervisor may send them, for the fuzzer.
#[doc(hidden)]
pub fn fuzz_messages(content: &[u8]) {
    let mut source = content;
    while let Ok(reply) = receive::<Reply>(&mut source) {
        if let Reply::Error(error) = reply {
            drop(error.to_string());
        }
    }
    let mut source = content;
    while let Ok(request) = receive::<WorkerRequest>(&mut source) {
        if let WorkerRequest::Start { start, .. } = request {
            let _ = start.benchmark();
        }
    }
}

/// Returns messages of every kind, as seeds for the fuzzer.
#[doc(hidden)]
pub fn fuzz_seeds() -> Vec<Vec<u8>> {
    fn sent(messages: &[impl Serialize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            send(&mut bytes, message).expect("memory takes what it is given");
        }
        bytes
    }
    let failure = |kind, detail: &str| Failure { kind, detail: detail.into() };
    let state = Outcome::State {
        id: StateId([7; 20]),
        changed: true,
        end_of_episode: false,
        action_space_changed: false,
    };
    let step = |outcome| {
        let wall_time = Duration::from_nanos(17);
        let step = Step { outcome, rewards: Box::new([1.5, -0.0]), wall_time };
        Reply::Step { step, observed: vec![(3, Value::IntVector(Box::new([1, -2])))] }
    };
    let space = "toy-v0".to_owned();
    let replies = [
        Reply::Ready("steplake 0.1.0 with LLVM 22.1.0".into()),
        Reply::Started {
            state: StateId([1; 20]),
            baselines: vec![("Size".into(), 5)],
            observed: vec![],
        },
        step(state),
        step(Outcome::Crashed(failure(FailureKind::Crash, "SIGSEGV"))),
        Reply::Value(Value::Text("text".into())),
        Reply::Value(Value::Bytes(vec![0; 40])),
        Reply::Identified(StateId([2; 20])),
        Reply::Text("a state".into()),
        Reply::Error(SessionError::InvalidAction { index: 3, space, len: 2 }),
        Reply::Broken(failure(FailureKind::Verifier, "no terminator")),
        Reply::Done,
    ];
    let start = WireStart {
        uri: "generator://toy-v0/1".into(),
        program: b"program".to_vec(),
        action_space: "toy-v0".into(),
        baselines: Some(vec![("Size".into(), 5)]),
        watch: vec![0, 1],
        keyframes: NonZeroU32::new(4),
        recording: 4,
        unreplayable: vec![2],
        steps: 0,
        is_observed: false,
    };
    let requests = [
        WorkerRequest::Start { session: 0, start },
        WorkerRequest::Steps {
            session: 0,
            actions: vec![1, 2, 300],
            changes: Some(2),
            window: NonZeroU32::new(16),
        },
        WorkerRequest::Observe { session: 0, space: 1 },
        WorkerRequest::Identify { session: 0, state: vec![0; 40] },
        WorkerRequest::Text { session: 0, state: vec![1; 40] },
        WorkerRequest::Fork { session: 0, fork: 1 },
        WorkerRequest::End { session: 1 },
    ];
    vec![sent(&replies), sent(&requests)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_survives_the_wire() {
        let step = Step {
            outcome: Outcome::Crashed(Failure {
                kind: FailureKind::OutOfMemory,
                detail: "4 GiB".into(),
            }),
            rewards: Box::new([1.5, -0.0]),
            wall_time: Duration::from_micros(17),
        };
        let mut frame = Vec::new();
        let observed = vec![(3, Value::IntVector(Box::new([1, -2])))];
        send(&mut frame, &Reply::Step { step: step.clone(), observed }).unwrap();
        let Reply::Step { step: back, observed } = receive(&mut frame.as_slice()).unwrap() else {
            panic!("another reply")
        };
        assert_eq!(back, step);
        let (space, value) = observed.into_iter().next().unwrap();
        assert_eq!((space, value), (3, Value::IntVector(Box::new([1, -2]))));
    }

    #[test]
    fn a_failed_start_survives_the_wire() {
        let failure = Failure { kind: FailureKind::TimeOut, detail: "20 s".into() };
        let error = SessionError::StartFailed { uri: "file:///a.c".into(), failure };
        let (text, mut frame) = (error.to_string(), Vec::new());
        send(&mut frame, &Reply::Error(error)).unwrap();
        let Reply::Error(back) = receive(&mut frame.as_slice()).unwrap() else {
            panic!("another reply")
        };
        assert!(matches!(back, SessionError::StartFailed { .. }));
        assert_eq!(back.to_string(), text);
    }

    #[test]
    fn a_torn_or_absurd_frame_is_an_error() {
        let mut frame = Vec::new();
        send(&mut frame, &WorkerRequest::End { session: 1 }).unwrap();
        for cut in 0..frame.len() {
            assert!(receive::<WorkerRequest>(&mut &frame[..cut]).is_err(), "cut at {cut}");
        }
        let error = receive::<WorkerRequest>(&mut [0xff; 16].as_slice()).unwrap_err().to_string();
        assert_eq!(error, "a message of 4294967295 bytes; 268435456 are the most");
    }

    #[test]
    fn frames_stand_one_behind_the_other() {
        let mut frames = Vec::new();
        for session in [7, 8] {
            append(&mut frames, &WorkerRequest::End { session }).unwrap();
        }
        let mut source = frames.as_slice();
        for wanted in [7, 8] {
            let request = receive::<WorkerRequest>(&mut source).unwrap();
            assert!(matches!(request, WorkerRequest::End { session } if session == wanted));
        }
    }
}
