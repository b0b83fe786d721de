//! The sessions: what the actions do.

use std::sync::Arc;
use std::time::Duration;

use super::environment::{ACTIONS, BITS, COST, FRAGILE, FRAGILE_MODULUS, NUMBER};
use super::planted::{CHECK, START};
use super::state::ToyState;
use crate::{Session, SessionError, Start, Started, action_space, reward_tracker, unknown_space};
use steplake_model::{
    ActionIndex, ActionSpec, Baselines, EnvironmentSpec, Failure, FailureKind, ObservationIndex,
    Outcome, RewardTracker, StateId, Step, Value, as_f64,
};

#[derive(Debug, Clone)]
struct ToyEpisode {
    program: ToyState,
    id: StateId,
    rewards: RewardTracker,
    baselines: Baselines,
    /// After how many more actions the state is whole again, if it is broken.
    broken: Option<u32>,
}

#[derive(Debug)]
pub(super) struct ToySession {
    spec: Arc<EnvironmentSpec>,
    episode: Option<ToyEpisode>,
}

impl ToySession {
    pub(super) fn new(spec: Arc<EnvironmentSpec>) -> Self {
        Self { spec, episode: None }
    }
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
            ToyState::parse(&start.benchmark.program).ok_or_else(|| SessionError::BadProgram {
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
        self.episode = Some(ToyEpisode { program, id, rewards, baselines, broken: None });
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
        let ActionSpec { name, flags, .. } = crate::action(&self.spec.action_spaces[0], action)?;
        let ToyState { size, number, .. } = episode.program;
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
        let program = ToyState::parse(state).ok_or_else(|| SessionError::BadProgram {
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
    use super::super::{Harm, NAME, Only, Plant, ToyEnvironment, benchmark, planted, program};
    use super::*;
    use crate::{Environment as _, Watch};
    use steplake_model::Benchmark;

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
        let identify = |number| ToyState { size: 1000, number, plant: None }.identify();
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
            let program = ToyState { size: 9, number: 4, plant: Some(plant) };
            assert_eq!(ToyState::parse(program.serialise().as_bytes()), Some(program));
        }
        for plant in ["", "{}", "heals double 7"] {
            assert_eq!(ToyState::parse(format!("toy 9 4 {plant}").as_bytes()), None, "{plant}");
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
