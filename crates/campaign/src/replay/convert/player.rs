//! Plays recorded episodes, and compares what comes of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::stored_state::ReplayError;
use super::LeftOut;
use super::observed::Columns;
use super::old_lake::RecordedEpisode;
use super::played::{
    Comparison, ConvertedEpisode, ConvertedStep, LiveStep, Playing, note_failure, note_outcome,
};
use super::players::Players;
use crate::record::{ir_compressor, packed};
use steplake_env::{KeyframeCount, Session, SessionError};
use steplake_lake::{EpisodeRow, LakeError, ObservationRow, StepRow};
use steplake_model::{ActionFlags, BenchmarkUri, ObservationIndex, Rewards, StateId, Value};

/// Why an episode is not played to its end.
pub(super) enum Stop {
    LeftOut(LeftOut),
    Failed(ReplayError),
}

/// A program, or why there is none.
pub(super) type ProgramOrNot = Result<Arc<[u8]>, LeftOut>;

/// What was observed in the columns of the lake.
type ColumnValues = Vec<Option<Value>>;

impl From<LakeError> for Stop {
    fn from(error: LakeError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<SessionError> for Stop {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Unrepeatable { .. } => Self::LeftOut(LeftOut::Unrepeatable),
            SessionError::BadProgram { .. } => Self::LeftOut(LeftOut::NoProgram),
            error => Self::Failed(error.into()),
        }
    }
}

/// Plays episodes in one session.
pub(super) struct Player<'a> {
    pub(super) players: &'a Players<'a>,
    session: Option<Box<dyn Session>>,
    compressor: zstd::bulk::Compressor<'static>,
    /// The program that was loaded last.
    pub(super) program: Option<(BenchmarkUri, ProgramOrNot)>,
}

impl<'a> Player<'a> {
    pub(super) fn new(players: &'a Players<'a>) -> Self {
        Self { players, session: None, compressor: ir_compressor(), program: None }
    }

    /// Plays an episode.
    ///
    /// # Errors
    ///
    /// If the lake cannot be read, or a session fails in a way that is not the compiler's.
    pub(super) fn play(
        &mut self,
        recorded: &RecordedEpisode,
    ) -> Result<Result<ConvertedEpisode, LeftOut>, ReplayError> {
        match self.try_to_play(recorded) {
            Ok(played) => Ok(Ok(played)),
            Err(Stop::LeftOut(why)) => Ok(Err(why)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn try_to_play(&mut self, recorded: &RecordedEpisode) -> Result<ConvertedEpisode, Stop> {
        let RecordedEpisode { row, steps } = recorded;
        if self.players.old.is_of_audit(row.id) {
            return Err(Stop::LeftOut(LeftOut::Audit));
        }
        let first = steps.first().filter(|step| step.index == 0);
        let first = first.ok_or(Stop::LeftOut(LeftOut::NoSteps))?;
        let own = self.identify(recorded)?;
        let mut playing = Playing {
            done: ConvertedEpisode {
                row: EpisodeRow { steps: 0, ..row.clone() },
                steps: Vec::with_capacity(steps.len()),
                observations: Vec::new(),
                ir: Vec::new(),
                initial: None,
            },
            before: None,
            has_strayed: false,
            proven: HashMap::new(),
            stores_ir: steps.iter().any(|step| step.keyframe),
            count: KeyframeCount::default(),
        };
        match self.begin(recorded, own, &mut playing)? {
            Ok(state) => self.take(first, &LiveStep::first(state), &mut playing)?,
            Err(failure) => {
                note_failure(&mut playing.done.row, failure);
                return Ok(playing.done);
            }
        }
        for step in &steps[1..] {
            let Some(action) = step.action else { continue };
            let live = LiveStep::of(self.session()?.apply(action)?);
            let ends = live.ends;
            playing.done.row.steps += 1;
            self.take(step, &live, &mut playing)?;
            if ends {
                break;
            }
        }
        Ok(playing.done)
    }

    pub(super) fn session(&mut self) -> Result<&mut dyn Session, SessionError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.players.session()?,
        };
        Ok(self.session.insert(session).as_mut())
    }

    /// Notes a step that the session has taken, and what the lake will lack of its state.
    fn take(&mut self, old: &StepRow, live: &LiveStep, playing: &mut Playing) -> Result<(), Stop> {
        let state = live.outcome.as_ref().ok().copied();
        let (comparison, values) = match (old.state, state) {
            _ if playing.has_strayed => (Comparison::NotCompared, None),
            (None, None) => (Comparison::FailedAgain, None),
            (Some(recorded), Some(state)) => {
                self.compare(old, recorded, state, live, &mut playing.proven)?
            }
            _ => (Comparison::Elsewhere, None),
        };
        let recorded = old.state.filter(|_| !playing.has_strayed);
        let recorded = recorded.and_then(|state| self.players.old.observed.get(&state));
        let columns = recorded.map_or(self.players.usual, |recorded| recorded.columns);
        playing.has_strayed |= comparison == Comparison::Elsewhere;
        let is_keyframe =
            state.is_some_and(|state| self.is_keyframe(old, state, comparison, playing));
        if let Some(state) = state {
            self.observe(state, columns, values, playing)?;
            if is_keyframe {
                self.store(state, playing)?;
            }
            playing.before = Some(state);
        }
        if comparison != Comparison::FailedAgain {
            note_outcome(&mut playing.done.row, old, live);
        }
        let row = StepRow {
            state,
            keyframe: is_keyframe,
            end_of_episode: if playing.has_strayed { live.ends } else { old.end_of_episode },
            rewards: self.rewards(old, live, playing.has_strayed),
            // The recorded time is that of another step.
            wall_time: if playing.has_strayed { live.wall_time } else { old.wall_time },
            ..old.clone()
        };
        playing.done.steps.push(ConvertedStep { row, old: old.state, comparison });
        Ok(())
    }

    /// Returns whether a step is a keyframe. On the recorded way, those are that were, and steps
    /// that need not lead there again, as is known today. The step that leaves the way is one if
    /// the episode has IR, and from there on they are counted anew.
    fn is_keyframe(
        &self,
        old: &StepRow,
        state: StateId,
        comparison: Comparison,
        playing: &mut Playing,
    ) -> bool {
        let action = old.action.and_then(|action| self.players.new.action_space.get(action));
        let flags = action.map_or(ActionFlags::UNREMARKABLE, |action| action.flags);
        let changed = playing.before != Some(state);
        let is_new = match comparison {
            Comparison::Elsewhere => true,
            Comparison::NotCompared => {
                playing.count.step(self.players.old.keyframes(old.episode), changed, flags)
            }
            _ => changed && !flags.is_dependable(),
        };
        let was = old.keyframe && !playing.has_strayed;
        was || playing.stores_ir && is_new
    }

    /// Compares a state with the recorded one. Returns its values in the columns in which that has
    /// some, if they were looked at. One recorded state has one new id, also where values alone
    /// prove it: `proven` has those that the episode proves.
    fn compare(
        &mut self,
        old: &StepRow,
        recorded: StateId,
        state: StateId,
        live: &LiveStep,
        proven: &mut HashMap<StateId, StateId>,
    ) -> Result<(Comparison, Option<ColumnValues>), SessionError> {
        let players = self.players;
        if players.old.with_ir.contains(&recorded) {
            let is_same = players.identified.lock().get(&recorded) == Some(&Some(state));
            return Ok((if is_same { Comparison::ByIr } else { Comparison::Elsewhere }, None));
        }
        let observed = players.old.observed.get(&recorded).copied().unwrap_or_default();
        let values = self.values(observed.columns)?;
        let rewards = old.rewards.iter().flatten().zip(&players.rewards);
        let mut known = rewards.filter(|(reward, _)| !reward.is_nan()).peekable();
        let compares = !observed.columns.is_empty() || known.peek().is_some();
        let is_equal = |(reward, place): (&f64, &usize)| {
            live.rewards.as_ref().is_some_and(|live| live[*place].to_bits() == reward.to_bits())
        };
        let is_equal = observed.is(&values) && known.all(is_equal);
        let known_id = players.proven.read().get(&recorded).copied();
        let known_id = known_id.or_else(|| proven.get(&recorded).copied());
        let comparison = if !is_equal || known_id.is_some_and(|known| known != state) {
            Comparison::Elsewhere
        } else if compares {
            proven.insert(recorded, state);
            Comparison::ByValues
        } else {
            Comparison::Unproven
        };
        let has_row = players.old.observed.contains_key(&recorded);
        Ok((comparison, has_row.then_some(values)))
    }

    /// Observes the present state in some columns. There is no value where the compiler fails.
    fn values(&mut self, wanted: Columns) -> Result<ColumnValues, SessionError> {
        let players = self.players;
        let session = self.session()?;
        let mut value = |(column, &space): (usize, &ObservationIndex)| {
            if !wanted.has(column) {
                return Ok(None);
            }
            match session.observe(space) {
                Err(SessionError::Unobservable(failure)) => {
                    tracing::debug!(%failure, "the compiler failed on an observation");
                    Ok(None)
                }
                value => value.map(Some),
            }
        };
        players.columns.iter().enumerate().map(&mut value).collect()
    }

    /// Adds the observations of the present state in these columns, unless they are written.
    /// `values` are these, if they were looked at.
    fn observe(
        &mut self,
        state: StateId,
        columns: Columns,
        values: Option<ColumnValues>,
        playing: &mut Playing,
    ) -> Result<(), SessionError> {
        let rows = &mut playing.done.observations;
        let written = self.players.observed.read().get(&state).copied();
        let here = rows.iter().filter(|(_, row)| row.state == state).map(|(columns, _)| *columns);
        if written.into_iter().chain(here).any(|known| columns.are_in(known)) {
            return Ok(());
        }
        let values = values.map_or_else(|| self.values(columns), Ok)?;
        rows.push((columns, ObservationRow { state, values }));
        Ok(())
    }

    /// Adds the IR of the present state, unless it is written.
    fn store(&mut self, state: StateId, playing: &mut Playing) -> Result<(), SessionError> {
        let rows = &mut playing.done.ir;
        let is_written = self.players.stored.read().contains(&state);
        if is_written || rows.iter().any(|row| row.state == state) {
            return Ok(());
        }
        let state_space = self.players.environment.spec().state_index();
        let value = self.session()?.observe(state_space)?;
        rows.push(packed(state, value, &mut self.compressor)?);
        Ok(())
    }

    /// Returns the rewards of a step in the lake's columns. As long as the episode goes the
    /// recorded way, what was not recorded is null.
    fn rewards(&self, old: &StepRow, live: &LiveStep, has_strayed: bool) -> Option<Rewards> {
        let live = live.rewards.as_ref()?;
        let was_recorded = |column: usize| {
            has_strayed || old.rewards.as_ref().is_some_and(|rewards| !rewards[column].is_nan())
        };
        let places = self.players.rewards.iter().enumerate();
        let reward = |(column, &place): (usize, &usize)| {
            if was_recorded(column) { live[place] } else { f64::NAN }
        };
        Some(places.map(reward).collect())
    }
}
