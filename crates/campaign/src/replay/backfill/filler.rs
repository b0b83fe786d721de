//! Plays stretches and observes the states that they meet.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use parking_lot::Mutex;

use super::super::stored_state::{ReplayError, begin};
use super::super::walk::{Divergence, walk};
use super::stretches::{Beginning, Stretch, Stretches};
use steplake_env::{Environment, Session, SessionError};
use steplake_lake::progress::{Thread, in_threads};
use steplake_lake::upkeep::BackfillProgress;
use steplake_lake::{LakeError, ObservationRow};
use steplake_model::{ObservationIndex, StateId};

use super::LeftOut;
use super::computed::Computed;

/// Number of stretches that a session takes at a time. Their first states are looked up together.
const STRETCHES_AT_ONCE: usize = 16;

/// How often a state is tried on other recorded paths.
const ROUNDS_MAX: usize = 4;

/// Why a state has no observations yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackfillObstacle {
    /// The IR of the state in which the stretch begins is not stored.
    NoStart,
    Elsewhere,
    Failed,
    /// The compiler failed on the observation itself: other paths do not help.
    Unobservable,
}

impl From<&Divergence> for BackfillObstacle {
    fn from(divergence: &Divergence) -> Self {
        if divergence.is_failure { Self::Failed } else { Self::Elsewhere }
    }
}

/// What the threads of a backfill share.
pub(super) struct Filler<'a> {
    environment: &'a dyn Environment,
    filling: &'a BackfillProgress,
    spaces: &'a [ObservationIndex],
    computed: Mutex<Computed>,
    /// Why each state that was tried in vain has no observations.
    obstacles: Mutex<Obstacles>,
    begun: Instant,
}

#[derive(Debug, Default)]
struct Obstacles {
    states: HashMap<StateId, BackfillObstacle>,
    beginnings: HashSet<Beginning>,
}

type Hear<'a> = dyn FnMut(u64) -> std::ops::ControlFlow<()> + 'a;

impl<'a> Filler<'a> {
    pub(super) fn new(
        environment: &'a dyn Environment,
        filling: &'a BackfillProgress,
        spaces: &'a [ObservationIndex],
    ) -> Self {
        Self {
            environment,
            filling,
            spaces,
            computed: Mutex::new(Computed::default()),
            obstacles: Mutex::default(),
            begun: Instant::now(),
        }
    }

    /// Returns what was computed and is in no part yet.
    pub(super) fn rest(&self) -> Vec<ObservationRow> {
        self.computed.lock().take(self.begun)
    }

    pub(super) fn fill(&self, jobs: usize, hear: &mut Hear<'_>) -> Result<(), ReplayError> {
        let snapshot = self.filling.snapshot();
        let mut wanted = self.filling.missing().clone();
        for _ in 0..ROUNDS_MAX {
            let avoided = self.obstacles.lock().beginnings.clone();
            let stretches = Stretches::new(snapshot, wanted, &avoided);
            self.play(jobs, Box::new(stretches), hear)?;
            wanted = self.left();
            if wanted.is_empty() || self.obstacles.lock().beginnings == avoided {
                break;
            }
        }
        // States that no recorded step leads to may be stored themselves.
        let mut single = wanted.into_iter().collect::<Vec<_>>();
        // In the order of the table, so that neighbours are looked up together.
        single.sort_unstable_by_key(|state| state.order());
        let single = single.into_iter().map(|state| Ok(Stretch::single(state)));
        self.play(jobs, Box::new(single), hear)
    }

    /// Returns the states that are worth another try.
    fn left(&self) -> HashSet<StateId> {
        let computed = self.computed.lock();
        let computed = computed.rows.iter().map(|row| row.state).collect::<HashSet<_>>();
        let obstacles = self.obstacles.lock();
        let is_left = |state: &&StateId| {
            obstacles.states.get(state) != Some(&BackfillObstacle::Unobservable)
                && !computed.contains(state)
                && !self.filling.is_filled(**state)
        };
        self.filling.missing().iter().filter(is_left).copied().collect()
    }

    pub(super) fn left_out(&self) -> LeftOut {
        let obstacles = self.obstacles.lock();
        let is_left = |state: &&StateId| !self.filling.is_filled(**state);
        let left = self.filling.missing().iter().filter(is_left);
        left.fold(LeftOut::default(), |mut left, state| {
            match obstacles.states.get(state) {
                None | Some(BackfillObstacle::NoStart) => left.without_path += 1,
                Some(BackfillObstacle::Elsewhere) => left.elsewhere += 1,
                Some(BackfillObstacle::Failed | BackfillObstacle::Unobservable) => left.failed += 1,
            }
            left
        })
    }

    /// Plays stretches in `jobs` threads.
    fn play(
        &self,
        jobs: usize,
        stretches: Box<dyn Iterator<Item = Result<Stretch, LakeError>> + Send + '_>,
        hear: &mut Hear<'_>,
    ) -> Result<(), ReplayError> {
        let stretches = Mutex::new(stretches);
        let work = |(), thread: &Thread<'_>| -> Result<(), ReplayError> {
            let mut session = None;
            loop {
                thread.ask()?;
                let mut ahead = stretches.lock();
                let some = ahead.by_ref().take(STRETCHES_AT_ONCE).collect::<Result<Vec<_>, _>>()?;
                drop(ahead);
                if some.is_empty() {
                    return Ok(());
                }
                self.play_some(&mut session, &some, thread)?;
            }
        };
        in_threads(vec![(); jobs], work, hear).map(drop)
    }

    fn play_some(
        &self,
        session: &mut Option<Box<dyn Session>>,
        stretches: &[Stretch],
        thread: &Thread<'_>,
    ) -> Result<(), ReplayError> {
        let starts = stretches.iter().map(|stretch| stretch.start).collect::<Vec<_>>();
        let programs = self.filling.snapshot().ir(&starts)?;
        for (stretch, program) in stretches.iter().zip(programs) {
            thread.demand_go_on()?;
            let Some(program) = program else {
                self.note(stretch, &stretch.stops, BackfillObstacle::NoStart);
                continue;
            };
            let session = match session {
                Some(session) => session,
                None => session.insert(self.environment.session()?),
            };
            self.play_one(session.as_mut(), stretch, &program, thread)?;
        }
        Ok(())
    }

    /// Plays a stretch, and keeps the observations of the states that it meets.
    fn play_one(
        &self,
        session: &mut dyn Session,
        stretch: &Stretch,
        program: &[u8],
        thread: &Thread<'_>,
    ) -> Result<(), ReplayError> {
        let snapshot = self.filling.snapshot();
        let begun = begin(self.environment, session, snapshot, stretch.start, program);
        let mut divergence = match begun {
            Ok(started) => Divergence::of_start(&started, stretch.start),
            Err(SessionError::BadProgram { .. }) => {
                self.note(stretch, &stretch.stops, BackfillObstacle::Failed);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let mut done = 0;
        for (place, &(length, state)) in stretch.stops.iter().enumerate() {
            if divergence.is_none() && length > done {
                divergence = walk(session, snapshot.identity(), &stretch.steps[done..length])?;
                done = length;
            }
            if let Some(divergence) = &divergence {
                self.note(stretch, &stretch.stops[place..], divergence.into());
                return Ok(());
            }
            let observed = self.spaces.iter().map(|&space| session.observe(space));
            match observed.collect::<Result<Vec<_>, _>>() {
                Ok(values) => {
                    let values = values.into_iter().map(Some).collect();
                    self.keep(ObservationRow { state, values })?;
                    thread.did(1);
                }
                Err(SessionError::Unobservable(failure)) => {
                    tracing::debug!(%state, %failure, "the compiler failed on an observation");
                    self.note(
                        stretch,
                        &stretch.stops[place..=place],
                        BackfillObstacle::Unobservable,
                    );
                }
                // A worker has died of it, and the next one did not come to the state.
                Err(error) => {
                    let divergence = Divergence::of_way_back(error)?;
                    tracing::debug!(%state, ?divergence, "a state cannot be reached again");
                    self.note(stretch, &stretch.stops[place..], (&divergence).into());
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Keeps a row, and makes a part of what is kept if that is due.
    fn keep(&self, row: ObservationRow) -> Result<(), LakeError> {
        let part = self.computed.lock().push(row, self.begun);
        self.filling.add(part.unwrap_or_default())
    }

    /// Notes states that a stretch did not meet, and why.
    fn note(&self, stretch: &Stretch, stops: &[(usize, StateId)], obstacle: BackfillObstacle) {
        let mut obstacles = self.obstacles.lock();
        if obstacle != BackfillObstacle::Unobservable {
            obstacles.beginnings.extend(stretch.beginning);
        }
        for &(_, state) in stops {
            // That the single state is not stored says less than why its paths did not work.
            let known = obstacles.states.entry(state).or_insert(obstacle);
            if obstacle != BackfillObstacle::NoStart {
                *known = obstacle;
            }
        }
    }
}
