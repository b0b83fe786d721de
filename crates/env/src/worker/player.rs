//! Plays the actions of one request in a worker, window by window.
//!
//! The steps of a *window* are made unchecked and held back. They are sent only when one check of
//! all that they changed has passed. A window ends after a number of changes of state, before a
//! state is serialised, before and after an action that is flagged as failing or not replayable,
//! after a time, and with its request. So nothing is unchecked between two requests.

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::flight_recorder::{FlightRecorder, Phase};
use super::limits::Alarm;
use super::wire::{self, Reply};
use crate::{KeyframeCount, Session, SessionError, Watch};
use steplake_model::{
    ActionFlags, ActionIndex, EnvironmentSpec, Failure, ObservationIndex, ObservationSpace,
    Outcome, StateId, Value, ValueType,
};

/// How long steps are held back at most, not counting the time of the last one.
const WINDOW_TIME_MAX: Duration = Duration::from_millis(250);

/// How many sent states a worker remembers. At this number it forgets all of them, and sends some
/// again.
const SENT_STATES_MAX: usize = 1 << 20;

/// A session, with what its supervisor said about it.
pub(super) struct HostedSession {
    pub(super) session: Box<dyn Session>,
    pub(super) action_space: String,
    pub(super) watch: Watch,
    /// Whether an action that may lead elsewhere next time has changed the state.
    pub(super) is_in_doubt: bool,
}

/// The states whose watched values were sent, and the states that were sent whole.
#[derive(Default)]
pub(super) struct SentStates {
    observed: HashSet<StateId>,
    keyframes: HashSet<StateId>,
}

impl SentStates {
    /// Returns the spaces of a state that were not sent yet: the watched ones and, for a keyframe
    /// (`whole`), the one that serialises it. Numbers are sent again where the state has `changed`:
    /// whoever wants the cost of each state would ask for it, which takes longer than the number.
    pub(super) fn lacks(
        &self,
        served: &HostedSession,
        state: StateId,
        whole: bool,
        changed: bool,
        spec: &EnvironmentSpec,
    ) -> Vec<ObservationIndex> {
        let is_new = !self.observed.contains(&state);
        let is_number = |space: &ObservationSpace| {
            space.value_type == ValueType::Int && !space.on_request && !space.of_benchmark
        };
        let is_wanted = |&space: &ObservationIndex| {
            is_new || changed && spec.observation_space(space).is_some_and(is_number)
        };
        let mut spaces: Vec<_> = served.watch.spaces.iter().copied().filter(is_wanted).collect();
        if whole && !self.keyframes.contains(&state) {
            let space = spec.state_index();
            if !served.watch.spaces.contains(&space) {
                spaces.push(space);
            }
        }
        spaces
    }

    /// Notes that a state was observed in the spaces that it [lacked](Self::lacks).
    pub(super) fn note(&mut self, state: StateId, whole: bool, lacked: &[ObservationIndex]) {
        if lacked.is_empty() {
            return;
        }
        if self.observed.len() == SENT_STATES_MAX {
            *self = Self::default();
        }
        self.observed.insert(state);
        if whole {
            self.keyframes.insert(state);
        }
    }
}

/// Plays the actions of one request.
pub(super) struct RequestPlayer<'a> {
    pub(super) spec: &'a EnvironmentSpec,
    pub(super) served: &'a mut HostedSession,
    pub(super) flight: &'a FlightRecorder,
    pub(super) alarm: &'a mut Alarm,
    pub(super) sent: &'a mut SentStates,
    pub(super) out: &'a mut BufWriter<UnixStream>,
    /// The number of changes of state after which a window ends. None in careful mode, where each
    /// action is a window.
    pub(super) changes_max: Option<NonZeroU32>,
    pub(super) window: StepWindow,
}

/// The steps that are held back.
#[derive(Debug, Default)]
pub(super) struct StepWindow {
    /// The frames of the steps.
    frames: Vec<u8>,
    /// When the first unchecked step began; none if all are checked.
    unchecked_since: Option<Instant>,
    changes: u32,
}

impl RequestPlayer<'_> {
    /// Plays actions that were confirmed before, to reach the state that they led to. Nothing is
    /// observed on the way. One check at its end makes the next action answerable for its own
    /// change alone.
    pub(super) fn play_again(&mut self, actions: &[ActionIndex]) -> Result<Reply, SessionError> {
        for &action in actions {
            self.flight.act();
            self.alarm.begin_start(self.flight);
            let step = self.served.session.apply_unchecked(action)?;
            self.doubt(&step.outcome, self.flags(action));
            if let Outcome::Crashed(failure) = step.outcome {
                return Ok(Reply::Broken(failure));
            }
            let reply = Reply::Step { step, observed: Vec::new() };
            wire::send(self.out, &reply).map_err(|error| unsent(&error))?;
        }
        self.alarm.begin_start(self.flight);
        Ok(self.served.session.check()?.map_or(Reply::Done, Reply::Broken))
    }

    /// Plays actions until they run out or the episode ends; `count` counts keyframes.
    pub(super) fn play(
        &mut self,
        actions: &[ActionIndex],
        mut count: KeyframeCount,
    ) -> Result<Reply, SessionError> {
        let mut result = Ok(None);
        for &action in actions {
            result = self.step(action, &mut count);
            if !matches!(result, Ok(None)) {
                break;
            }
        }
        let broken = match result {
            Ok(Some(PlayEnd::Broken(failure))) => Some(failure),
            Ok(Some(PlayEnd::Episode) | None) => self.close()?,
            // Nothing held back can be trusted any more, unless the compiler broke a state.
            Err(defect @ SessionError::Defect(_)) => match self.check()? {
                Some(failure) => Some(failure),
                None => return Err(defect),
            },
            // The steps before an invalid action are checked and sent all the same.
            Err(error) => match self.close()? {
                Some(failure) => Some(failure),
                None => return Err(error),
            },
        };
        Ok(broken.map_or(Reply::Done, Reply::Broken))
    }

    fn step(
        &mut self,
        action: ActionIndex,
        count: &mut KeyframeCount,
    ) -> Result<Option<PlayEnd>, SessionError> {
        let flags = self.flags(action);
        let alone = self.changes_max.is_none() || !flags.is_dependable() || self.served.is_in_doubt;
        if alone && let Some(failure) = self.close()? {
            return Ok(Some(PlayEnd::Broken(failure)));
        }
        // What is known goes out before the compiler gets to work again.
        self.out.flush().map_err(|error| unsent(&error))?;
        self.flight.act();
        let step = if alone {
            // `apply` verifies a result before it looks at it, so nothing else sees a broken state.
            self.alarm.begin_verified_step(self.flight);
            self.served.session.apply(action)?
        } else {
            self.alarm.begin_step(self.flight);
            self.window.unchecked_since.get_or_insert_with(Instant::now);
            self.served.session.apply_unchecked(action)?
        };
        self.doubt(&step.outcome, flags);
        let ends = step.outcome.ends_episode();
        let observed = match &step.outcome {
            &Outcome::State { id, changed, .. } => {
                self.window.changes += u32::from(changed);
                let is_keyframe = |every| count.step(every, changed, flags);
                let whole = self.served.watch.keyframes.is_some_and(is_keyframe);
                let mut spaces = self.sent.lacks(self.served, id, whole, changed, self.spec);
                // Playing the actions again may not lead back to this state.
                let itself = self.spec.state_index();
                if self.served.is_in_doubt && changed && !spaces.contains(&itself) {
                    spaces.push(itself);
                }
                if spaces.iter().any(|&space| self.shows_all(space))
                    && let Some(failure) = self.check()?
                {
                    return Ok(Some(PlayEnd::Broken(failure)));
                }
                let observed = self.look(&spaces)?;
                self.sent.note(id, whole, &spaces);
                observed
            }
            // The window before this step, if any, can no longer be checked.
            Outcome::Crashed(failure) => return Ok(Some(PlayEnd::Broken(failure.clone()))),
        };
        wire::append(&mut self.window.frames, &Reply::Step { step, observed })
            .map_err(|error| unsent(&error))?;
        if (alone || self.is_full())
            && let Some(failure) = self.close()?
        {
            return Ok(Some(PlayEnd::Broken(failure)));
        }
        Ok(ends.then_some(PlayEnd::Episode))
    }

    fn flags(&self, action: ActionIndex) -> ActionFlags {
        self.served.watch.flags(self.spec, &self.served.action_space, action)
    }

    /// Notes a change of state by an action that may lead elsewhere next time. A failing step after
    /// it cannot be reached again for sure. So from there on each step is a window of its own,
    /// which tells which step failed, and each state is sent along, so that another worker can
    /// begin in it.
    fn doubt(&mut self, outcome: &Outcome, flags: ActionFlags) {
        let changed = matches!(outcome, Outcome::State { changed: true, .. });
        self.served.is_in_doubt |= changed && !flags.replayable;
    }

    /// Returns whether an observation shows the state itself, and not just numbers about it.
    fn shows_all(&self, space: ObservationIndex) -> bool {
        use ValueType::{Float, FloatVector, Int, IntVector};
        let value_type = self.spec.observation_space(space).map(|space| space.value_type);
        !matches!(value_type, Some(Int | Float | IntVector | FloatVector))
    }

    fn is_full(&self) -> bool {
        let StepWindow { unchecked_since, changes, .. } = &self.window;
        self.changes_max.is_none_or(|max| *changes >= max.get())
            || unchecked_since.is_some_and(|since| since.elapsed() >= WINDOW_TIME_MAX)
    }

    /// Observes the state. Like the check, this has a time limit of its own: if it shared the
    /// action's, a check in between would make a difference.
    fn look(&mut self, spaces: &[ObservationIndex]) -> Result<Vec<(u8, Value)>, SessionError> {
        if !spaces.is_empty() {
            self.alarm.begin_step(self.flight);
        }
        look(self.flight, self.served, spaces)
    }

    /// Checks what is unchecked.
    fn check(&mut self) -> Result<Option<Failure>, SessionError> {
        self.window.changes = 0;
        if self.window.unchecked_since.take().is_none() {
            return Ok(None);
        }
        self.alarm.begin_step(self.flight);
        self.served.session.check()
    }

    /// Checks what is unchecked and, if that passes, gives out what was held back.
    fn close(&mut self) -> Result<Option<Failure>, SessionError> {
        if let Some(failure) = self.check()? {
            return Ok(Some(failure));
        }
        self.out.write_all(&self.window.frames).map_err(|error| unsent(&error))?;
        self.window.frames.clear();
        Ok(None)
    }
}

/// Why playing stopped.
enum PlayEnd {
    Episode,
    Broken(Failure),
}

/// Observes a session's present state in these spaces.
pub(super) fn look(
    flight: &FlightRecorder,
    served: &mut HostedSession,
    spaces: &[ObservationIndex],
) -> Result<Vec<(u8, Value)>, SessionError> {
    if spaces.is_empty() {
        return Ok(Vec::new());
    }
    flight.phase(Phase::Observing);
    spaces.iter().map(|&space| Ok((space.0, served.session.observe(space)?))).collect()
}

/// Returns the error for a reply that cannot be encoded, or that no supervisor receives.
fn unsent(error: &std::io::Error) -> SessionError {
    SessionError::Worker(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::ToyEnvironment;
    use crate::{Environment, Start, Started};
    use steplake_model::{FailureKind, Step};

    /// A session whose third action violates an invariant.
    struct Untrue {
        steps: u8,
        is_broken: bool,
    }

    impl Session for Untrue {
        fn apply_unchecked(&mut self, _: ActionIndex) -> Result<Step, SessionError> {
            self.steps += 1;
            if self.steps == 3 {
                return Err(SessionError::Defect("two ids of one state".into()));
            }
            let id = StateId([self.steps; 20]);
            let (changed, end_of_episode, action_space_changed) = (true, false, false);
            let outcome = Outcome::State { id, changed, end_of_episode, action_space_changed };
            Ok(Step { outcome, rewards: Box::new([]), wall_time: Duration::ZERO })
        }

        fn check(&mut self) -> Result<Option<Failure>, SessionError> {
            let failure = || Failure { kind: FailureKind::Verifier, detail: "broken".into() };
            Ok(self.is_broken.then(failure))
        }

        fn start(&mut self, _: &Start<'_>) -> Result<Started, SessionError> {
            Err(SessionError::NoEpisode)
        }

        fn apply(&mut self, _: ActionIndex) -> Result<Step, SessionError> {
            Err(SessionError::NoEpisode)
        }

        fn identify(&mut self, _: &[u8]) -> Result<StateId, SessionError> {
            Err(SessionError::NoEpisode)
        }

        fn observe(&mut self, _: ObservationIndex) -> Result<Value, SessionError> {
            Err(SessionError::NoEpisode)
        }

        fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
            Err(SessionError::NoEpisode)
        }
    }

    /// Plays three actions in one window. Returns the result and the bytes that were sent.
    fn play(is_broken: bool) -> (Result<Reply, SessionError>, Vec<u8>) {
        let environment = ToyEnvironment::default();
        let spec = environment.spec();
        let session = Box::new(Untrue { steps: 0, is_broken });
        let (action_space, watch) = (spec.action_spaces[0].name.clone(), Watch::default());
        let mut served = HostedSession { session, action_space, watch, is_in_doubt: false };
        let (flight, _file) = FlightRecorder::create().unwrap();
        let mut alarm = Alarm::new(Duration::from_hours(1)).unwrap();
        let (out, mut sent) = UnixStream::pair().unwrap();
        let mut out = BufWriter::new(out);
        let mut player = RequestPlayer {
            spec,
            served: &mut served,
            flight: &flight,
            alarm: &mut alarm,
            sent: &mut SentStates::default(),
            out: &mut out,
            changes_max: NonZeroU32::new(16),
            window: StepWindow::default(),
        };
        let result = player.play(&[ActionIndex(0); 3], KeyframeCount::default());
        alarm.rest();
        drop(out);
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut sent, &mut bytes).unwrap();
        (result, bytes)
    }

    #[test]
    fn nothing_of_a_window_with_a_defect_is_sent() {
        let (result, sent) = play(false);
        assert!(matches!(result, Err(SessionError::Defect(_))), "{result:?}");
        assert!(sent.is_empty(), "{sent:?}");
    }

    #[test]
    fn a_state_that_the_compiler_broke_is_no_defect() {
        let (result, sent) = play(true);
        assert!(matches!(result, Ok(Reply::Broken { .. })), "{result:?}");
        assert!(sent.is_empty(), "{sent:?}");
    }
}
