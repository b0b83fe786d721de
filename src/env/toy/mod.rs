//! A pure environment without a compiler, for tests, documentation and the recorder's benchmark.
//!
//! A state is a number below the program's size. Every state can be listed, and a step costs well
//! under a microsecond. The environment shows everything that real compilers do: actions that
//! change nothing, an action that fails in some states, and several ways to the same state.

mod planted;

use std::sync::Arc;
use std::time::Duration;

use sha1::{Digest, Sha1};

use self::planted::{CHECK, START};
#[doc(hidden)]
pub use self::planted::{Harm, Only, Plant};
use super::named::{Entry, Opening};
use super::{
    Environment, Session, SessionError, Start, Started, action_space, reward_tracker, unknown_space,
};
use crate::datasets::{About, Dataset, Seeds};
use crate::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, Baselines, Benchmark, BenchmarkUri,
    EnvironmentSpec, Failure, FailureKind, ObservationIndex, ObservationSpace, Outcome, Provenance,
    RewardSpace, RewardTracker, Scale, StateId, Step, Value, ValueType, as_f64,
};

/// The environment's name.
pub const NAME: &str = "toy-v0";

/// The name of the [unsure](ToyEnvironment::unsure) environment.
#[doc(hidden)]
pub const UNSURE: &str = "toy-unsure-v0";

const COST: ObservationIndex = ObservationIndex(0);
const BITS: ObservationIndex = ObservationIndex(1);
const NUMBER: ObservationIndex = ObservationIndex(2);

/// The names of the vector observation `Bits`.
const BIT_NAMES: [&str; 16] = [
    "bit0", "bit1", "bit2", "bit3", "bit4", "bit5", "bit6", "bit7", "bit8", "bit9", "bit10",
    "bit11", "bit12", "bit13", "bit14", "bit15",
];

/// The action `invert` fails in states whose number modulo [`FRAGILE_MODULUS`] is this.
const FRAGILE: u32 = 250;
const FRAGILE_MODULUS: u32 = 251;

type Action = (&'static str, fn(u32, u32) -> u32);

/// The actions: functions of a number and the size above it. The last one fails in fragile states.
const ACTIONS: [Action; 8] = [
    ("increment", |n, size| (n + 1) % size),
    ("double", |n, size| n.wrapping_mul(2) % size),
    ("halve", |n, _| n / 2),
    ("align", |n, _| n & !3),
    ("clear-lowest-bit", |n, _| n & n.saturating_sub(1)),
    ("triple", |n, size| (n.wrapping_mul(3) + 1) % size),
    ("scatter", |n, size| n.wrapping_mul(0x9e37_79b1).rotate_left(7) % size),
    ("invert", |n, size| size - 1 - n),
];

/// The environments by their names.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: NAME,
        opening: Opening::OfOne(|| Box::new(ToyEnvironment::default())),
        is_listed: true,
    },
    Entry {
        name: UNSURE,
        opening: Opening::OfOne(|| Box::new(ToyEnvironment::unsure())),
        is_listed: false,
    },
];

static PROGRAMS: About = About {
    name: NAME,
    uri: "generator://toy-v0",
    description: "Programs of the toy environment, by seed",
    licence: "MIT",
    size: None,
    example: "generator://toy-v0/0..9",
};

/// Returns the benchmark `generator://toy-v0/<seed>`: a program of 65,536 states whose initial
/// state is drawn from the seed.
pub fn benchmark(seed: u32) -> Benchmark {
    let start = seed.wrapping_mul(0x9e37_79b1) >> 16;
    program(&format!("generator://{NAME}/{seed}"), 1 << 16, start)
}

/// Returns a benchmark of `size` states called `uri` that begins at `start`.
///
/// # Panics
///
/// If `uri` is not a benchmark URI.
pub fn program(uri: &str, size: u32, start: u32) -> Benchmark {
    Benchmark {
        uri: uri.parse::<BenchmarkUri>().expect("the caller gives a benchmark URI"),
        program: serialise(size, start).into_bytes().into(),
        provenance: Provenance {
            family: "toy".into(),
            licence: "MIT".into(),
            ..Provenance::default()
        },
        execution: None,
    }
}

/// Returns a benchmark of `size` states called `uri` that begins at `start` and has a planted
/// failure, for tests.
///
/// # Panics
///
/// If `uri` is not a benchmark URI.
#[doc(hidden)]
pub fn planted(uri: &str, size: u32, start: u32, plant: Plant) -> Benchmark {
    let program = Program { size, number: start, plant: Some(plant) };
    Benchmark {
        program: program.serialise().into_bytes().into(),
        ..self::program(uri, size, start)
    }
}

/// The environment.
#[derive(Debug)]
pub struct ToyEnvironment {
    spec: Arc<EnvironmentSpec>,
}

impl Default for ToyEnvironment {
    fn default() -> Self {
        Self::called(NAME)
    }
}

impl ToyEnvironment {
    /// Creates a variant in which the result of `scatter` depends on the process, as its flags say.
    /// It is for tests.
    #[doc(hidden)]
    pub fn unsure() -> Self {
        Self::called(UNSURE)
    }

    fn called(environment: &'static str) -> Self {
        let action = |&(name, _): &Action| {
            let flags = ActionFlags {
                crashes: name == "invert",
                replayable: environment == NAME || name != "scatter",
                ..ActionFlags::UNREMARKABLE
            };
            ActionSpec::new(name, name, flags)
        };
        let reward = |name: &'static str, scale| {
            let (cost, initial) = ("Cost".into(), "CostO0".into());
            RewardSpace { name: name.into(), cost, initial, scale }
        };
        Self {
            spec: Arc::new(EnvironmentSpec {
                name: environment.into(),
                compiler: "toy 1".into(),
                target: "any".into(),
                action_spaces: vec![ActionSpace {
                    name: NAME.into(),
                    actions: ACTIONS.iter().map(action).collect(),
                }],
                observation_spaces: vec![
                    ObservationSpace::int("Cost"),
                    ObservationSpace::int_vector("Bits", &BIT_NAMES),
                    ObservationSpace::new("Number", ValueType::Bytes),
                    ObservationSpace::int("CostO0").of_benchmark(),
                    ObservationSpace::int("CostOz").of_benchmark(),
                ],
                reward_spaces: vec![
                    reward("Cost", Scale::Absolute),
                    reward("CostNorm", Scale::Initial),
                    reward("CostOz", Scale::Baseline("CostOz".into())),
                ],
                baselines: "toy 1".into(),
                state_space: "Number".into(),
            }),
        }
    }
}

impl Environment for ToyEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(ToySession { spec: Arc::clone(&self.spec), episode: None }))
    }

    /// The unsure one differs between processes.
    fn may_live_here(&self) -> bool {
        self.spec.name == NAME
    }

    fn own_datasets(&self) -> Vec<Box<dyn Dataset>> {
        vec![Box::new(Seeds { about: &PROGRAMS, last: u32::MAX, make: benchmark })]
    }
}

#[derive(Debug, Clone)]
struct Episode {
    program: Program,
    id: StateId,
    rewards: RewardTracker,
    baselines: Baselines,
    /// After how many more actions the state is whole again, if it is broken.
    broken: Option<u32>,
}

#[derive(Debug)]
struct ToySession {
    spec: Arc<EnvironmentSpec>,
    episode: Option<Episode>,
}

/// A program, and equally a state: its text is `toy <size> <number>`, then the plant as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    size: u32,
    number: u32,
    plant: Option<Plant>,
}

impl Program {
    fn parse(program: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(program).ok()?.strip_prefix("toy ")?.splitn(3, ' ');
        let (size, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let plant = words.next().map(serde_json::from_str).transpose().ok()?;
        (number < size && size <= 1 << 30).then_some(Self { size, number, plant })
    }

    fn serialise(&self) -> String {
        let text = serialise(self.size, self.number);
        let plant = self.plant.as_ref().map(|plant| serde_json::to_string(plant).expect("text"));
        plant.map_or(text.clone(), |plant| format!("{text} {plant}"))
    }

    /// Computes the id of the state: a hash of its content, not of its spelling.
    fn identify(&self) -> StateId {
        StateId(
            Sha1::new().chain_update("state of ").chain_update(self.serialise()).finalize().into(),
        )
    }

    /// Triggers the plant, if any; see [`Plant::strike`].
    fn strike(&self, action: &str) -> Option<u32> {
        self.plant.as_ref().and_then(|plant| plant.strike(action, self.number))
    }
}

fn serialise(size: u32, number: u32) -> String {
    format!("toy {size} {number}")
}

/// Returns the number of one bits, which is the cost to minimise.
fn cost(number: u32) -> i64 {
    number.count_ones().into()
}

impl Session for ToySession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        action_space(&self.spec, start.action_space)?;
        let program =
            Program::parse(&start.benchmark.program).ok_or_else(|| SessionError::BadProgram {
                uri: start.benchmark.uri.to_string(),
                detail: "a toy program reads `toy <size> <number below it>`".into(),
            })?;
        program.strike(START);
        let ones = cost(program.number);
        let baselines = start.baselines.cloned().unwrap_or_else(|| {
            Baselines(vec![("CostO0".into(), ones), ("CostOz".into(), ones / 2)])
        });
        let rewards = reward_tracker(&self.spec, &baselines, |_| as_f64(ones))?;
        let id = program.identify();
        let started = Started { state: id, baselines: baselines.clone() };
        self.episode = Some(Episode { program, id, rewards, baselines, broken: None });
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let step = self.apply_unchecked(action)?;
        if step.outcome.state().is_none() {
            return Ok(step);
        }
        Ok(match self.check()? {
            Some(failure) => Step::failed(failure, self.spec.reward_spaces.len(), Duration::ZERO),
            None => step,
        })
    }

    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let ActionSpec { name, flags, .. } = super::action(&self.spec.action_spaces[0], action)?;
        let Program { size, number, .. } = episode.program;
        if name == "invert" && number % FRAGILE_MODULUS == FRAGILE {
            let detail = format!("`invert` cannot take {number}");
            let failure = Failure { kind: FailureKind::Crash, detail };
            self.episode = None;
            return Ok(Step::failed(failure, self.spec.reward_spaces.len(), Duration::ZERO));
        }
        let broken = episode.program.strike(name);
        let (_, act) = ACTIONS[action.place()];
        let mut next = act(number, size);
        if !flags.replayable {
            // Keeps results of different processes so far apart that no single action makes them
            // equal.
            next = (next + (std::process::id() << 8)) % size;
        }
        let changed = next != number;
        let still_broken = episode.broken.and_then(|actions| actions.checked_sub(1));
        episode.broken = still_broken.or(broken.filter(|_| changed));
        if changed {
            episode.program.number = next;
            episode.id = episode.program.identify();
        }
        Ok(Step {
            outcome: Outcome::State {
                id: episode.id,
                changed,
                end_of_episode: false,
                action_space_changed: false,
            },
            rewards: episode.rewards.advance(|_| as_f64(cost(next))),
            wall_time: Duration::ZERO,
        })
    }

    fn check(&mut self) -> Result<Option<Failure>, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        episode.program.strike(CHECK);
        if episode.broken.is_none() {
            return Ok(None);
        }
        let detail = format!("{} is broken", episode.program.number);
        self.episode = None;
        Ok(Some(Failure { kind: FailureKind::Verifier, detail }))
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let number = episode.program.number;
        Ok(match space {
            COST => Value::Int(cost(number)),
            BITS => {
                Value::IntVector((0..16).map(|bit| i32::from(number >> bit & 1 == 1)).collect())
            }
            // A broken program is not a state, so nobody may see it.
            NUMBER if episode.broken.is_some() => Value::Bytes(b"broken".as_slice().into()),
            NUMBER => Value::Bytes(episode.program.serialise().into()),
            other => {
                let name = self.spec.observation_space(other).map_or("?", |space| &space.name);
                let cost = episode.baselines.get(name);
                Value::Int(cost.ok_or_else(|| unknown_space(&self.spec, name))?)
            }
        })
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        let program = Program::parse(state).ok_or_else(|| SessionError::BadProgram {
            uri: "a stored state".into(),
            detail: "a toy state reads `toy <size> <number below it>`".into(),
        })?;
        Ok(program.identify())
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let episode = self.episode.clone().ok_or(SessionError::NoEpisode)?;
        Ok(Box::new(Self { spec: Arc::clone(&self.spec), episode: Some(episode) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Watch;

    fn started(benchmark: &Benchmark) -> Box<dyn Session> {
        let mut session = ToyEnvironment::default().session().unwrap();
        let watch = Watch::default();
        let start = Start { benchmark, action_space: NAME, baselines: None, watch: &watch };
        session.start(&start).unwrap();
        session
    }

    fn index(name: &str) -> ActionIndex {
        ToyEnvironment::default().spec().action_spaces[0].index_of(name).unwrap()
    }

    #[test]
    fn a_state_is_named_by_its_content_however_it_is_written_down() {
        let mut session = started(&program("generator://toy-v0/1", 1000, 5));
        let step = session.apply(index("double")).unwrap();
        let Value::Bytes(bytes) = session.observe(NUMBER).unwrap() else { panic!("bytes") };
        assert_eq!(bytes, b"toy 1000 10");
        for written in [&bytes[..], b"toy 001000 10"] {
            assert_eq!(session.identify(written).unwrap(), step.outcome.state().unwrap());
        }
        assert!(matches!(session.identify(b"toy 10"), Err(SessionError::BadProgram { .. })));
        assert_eq!(step.rewards.len(), 3);
    }

    #[test]
    fn a_fragile_state_fails_and_the_session_starts_again() {
        let benchmark = program("generator://toy-v0/1", 1000, FRAGILE);
        let mut session = started(&benchmark);
        let step = session.apply(index("invert")).unwrap();
        assert!(matches!(step.outcome, Outcome::Crashed(Failure { kind: FailureKind::Crash, .. })));
        assert!(matches!(session.apply(index("halve")), Err(SessionError::NoEpisode)));
        let watch = Watch::default();
        session
            .start(&Start {
                benchmark: &benchmark,
                action_space: NAME,
                baselines: None,
                watch: &watch,
            })
            .unwrap();
        assert!(session.apply(index("halve")).is_ok());
    }

    #[test]
    fn a_fork_goes_its_own_way() {
        let mut session = started(&program("generator://toy-v0/1", 1000, 8));
        let mut fork = session.fork().unwrap();
        let left = session.apply(index("halve")).unwrap().outcome.state();
        let right = fork.apply(index("double")).unwrap().outcome.state();
        let identify = |number| Program { size: 1000, number, plant: None }.identify();
        assert_eq!(left, Some(identify(4)));
        assert_eq!(right, Some(identify(16)));
    }

    #[test]
    fn a_check_finds_what_was_broken_since_the_last_one() {
        let plant = |harm| {
            let plant = Plant { harm, action: "double".into(), every: 8, only: Only::Ever };
            planted("generator://toy-v0/1", 1000, 8, plant)
        };
        let [double, increment] = ["double", "increment"].map(index);
        let broken = |failure: Option<Failure>| {
            let failure = failure.unwrap();
            assert_eq!(
                (failure.kind, failure.detail.as_str()),
                (FailureKind::Verifier, "17 is broken")
            );
        };
        for harm in [Harm::Breaks, Harm::Heals] {
            let mut session = started(&plant(harm));
            assert!(session.apply_unchecked(double).unwrap().outcome.state().is_some());
            session.apply_unchecked(increment).unwrap();
            broken(session.check().unwrap());
            assert!(matches!(session.check(), Err(SessionError::NoEpisode)));
            let step = started(&plant(harm)).apply(double).unwrap();
            assert!(matches!(step.outcome, Outcome::Crashed(_)));
        }
        let mut session = started(&plant(Harm::Heals));
        for action in [double, increment, increment] {
            session.apply_unchecked(action).unwrap();
        }
        assert_eq!(session.check().unwrap(), None);
    }

    #[test]
    fn a_plant_is_read_as_it_was_written() {
        for only in [Only::Ever, Only::Once("/a b".into()), Only::While("/c".into())] {
            let plant = Plant { harm: Harm::Heals, action: "double".into(), every: 7, only };
            let program = Program { size: 9, number: 4, plant: Some(plant) };
            assert_eq!(Program::parse(program.serialise().as_bytes()), Some(program));
        }
        for plant in ["", "{}", "heals double 7"] {
            assert_eq!(Program::parse(format!("toy 9 4 {plant}").as_bytes()), None, "{plant}");
        }
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let mut bad = benchmark(1);
        for text in ["", "toy", "toy 4 4", "toy x 1", "llvm"] {
            bad.program = text.as_bytes().into();
            let watch = Watch::default();
            let start =
                Start { benchmark: &bad, action_space: NAME, baselines: None, watch: &watch };
            let result = ToyEnvironment::default().session().unwrap().start(&start);
            assert!(matches!(result, Err(SessionError::BadProgram { .. })), "{text}");
        }
    }
}
