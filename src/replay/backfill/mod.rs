//! Backfill: computes observations of stored states by replay.
//!
//! The recorded episodes are cut into stretches, each from a stored state to the next. Stretches
//! that meet a state without its observations are played again, each once, in as many sessions as
//! there are jobs. A session computes an observation only in a state whose id is the recorded one:
//! if a stretch leads elsewhere, its states are tried on other recorded paths. What the sessions
//! compute becomes a durable part of the backfill every few moments.

mod stretches;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::stretches::{Beginning, Stretch, Stretches};
use super::stored_state::{ReplayError, begin, demand_same};
use super::walk::{Divergence, walk};
use crate::env::{Environment, Session, SessionError};
use crate::lake::decode::order;
use crate::lake::progress::{Thread, in_threads};
use crate::lake::{LakeError, ObservationRow, OnProgress};
use crate::model::{ObservationIndex, StateId};
use crate::upkeep::Filling;

/// Number of stretches that a session takes at a time. Their first states are looked up together.
const STRETCHES_AT_ONCE: usize = 16;

/// How often a state is tried on other recorded paths.
const ROUNDS_MAX: usize = 4;

/// Bytes of observations after which they become a part.
const PART_BYTES: usize = 128 << 20;

/// Time after which observations become a part, however few they are.
const PART_INTERVAL: Duration = Duration::from_secs(1);

/// A part need not come sooner than this share of the time so far after the one before: a long
/// backfill would have thousands of parts.
const PART_SHARE: u32 = 20;

/// The states that a backfill leaves without observations, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// No recorded path leads there from a state whose IR is stored.
    pub without_path: u64,
    /// The replay led to other states, on every recorded path that was tried.
    pub elsewhere: u64,
    /// The compiler failed on the way, or on the observation.
    pub failed: u64,
}

impl LeftOut {
    /// Returns their number.
    pub fn states(&self) -> u64 {
        self.without_path + self.elsewhere + self.failed
    }
}

/// Computes the observations of the states that miss them, on `jobs` sessions of `environment`, and
/// adds them to `filling` in parts. `spaces` are those of the backfill. Calls `progress` with the
/// number of states that are done and of all; after a break, states that are under way are still
/// done, and added.
///
/// # Errors
///
/// See [`ReplayError`]; [`LakeError::Interrupted`] after a break. What was computed before is added
/// all the same, if the disk takes it.
pub fn fill(
    environment: &dyn Environment,
    filling: &Filling,
    spaces: &[ObservationIndex],
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> Result<LeftOut, ReplayError> {
    demand_same(environment, filling.snapshot().identity())?;
    let filler = Filler {
        environment,
        filling,
        spaces,
        computed: Mutex::new(Computed::default()),
        obstacles: Mutex::default(),
        begun: Instant::now(),
    };
    let (mut done, all) = (0, filling.missing().len() as u64);
    let result = filler.fill(jobs.max(1), &mut |more| {
        done += more;
        progress(done, all)
    });
    let added = filling.add(lock(&filler.computed).take(filler.begun));
    result?;
    added?;
    Ok(filler.left_out())
}

/// Why a state has no observations yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// The IR of the state in which the stretch begins is not stored.
    NoStart,
    Elsewhere,
    Failed,
    /// The compiler failed on the observation itself: other paths do not help.
    Unobservable,
}

impl From<&Divergence> for Obstacle {
    fn from(divergence: &Divergence) -> Self {
        if divergence.is_failure { Self::Failed } else { Self::Elsewhere }
    }
}

/// Observations that are in no part yet.
#[derive(Debug, Default)]
struct Computed {
    rows: Vec<ObservationRow>,
    bytes: usize,
    /// When the last part was taken, since the beginning.
    taken: Duration,
}

impl Computed {
    /// Adds a row. Returns all rows if they are to become a part.
    fn push(&mut self, row: ObservationRow, begun: Instant) -> Option<Vec<ObservationRow>> {
        self.bytes += row.bytes();
        self.rows.push(row);
        let interval = PART_INTERVAL.max(self.taken / PART_SHARE);
        let is_due = self.bytes >= PART_BYTES || begun.elapsed() >= self.taken + interval;
        is_due.then(|| self.take(begun))
    }

    fn take(&mut self, begun: Instant) -> Vec<ObservationRow> {
        (self.bytes, self.taken) = (0, begun.elapsed());
        std::mem::take(&mut self.rows)
    }
}

/// What the threads of a backfill share.
struct Filler<'a> {
    environment: &'a dyn Environment,
    filling: &'a Filling,
    spaces: &'a [ObservationIndex],
    computed: Mutex<Computed>,
    /// Why each state that was tried in vain has no observations.
    obstacles: Mutex<Obstacles>,
    begun: Instant,
}

#[derive(Debug, Default)]
struct Obstacles {
    states: HashMap<StateId, Obstacle>,
    beginnings: HashSet<Beginning>,
}

type Hear<'a> = dyn FnMut(u64) -> std::ops::ControlFlow<()> + 'a;

impl Filler<'_> {
    fn fill(&self, jobs: usize, hear: &mut Hear<'_>) -> Result<(), ReplayError> {
        let snapshot = self.filling.snapshot();
        let mut wanted = self.filling.missing().clone();
        for _ in 0..ROUNDS_MAX {
            let avoided = lock(&self.obstacles).beginnings.clone();
            let stretches = Stretches::new(snapshot, wanted, &avoided);
            self.play(jobs, Box::new(stretches), hear)?;
            wanted = self.left();
            if wanted.is_empty() || lock(&self.obstacles).beginnings == avoided {
                break;
            }
        }
        // States that no recorded step leads to may be stored themselves.
        let mut single = wanted.into_iter().collect::<Vec<_>>();
        // In the order of the table, so that neighbours are looked up together.
        single.sort_unstable_by_key(|&state| order(state));
        let single = single.into_iter().map(|state| Ok(Stretch::single(state)));
        self.play(jobs, Box::new(single), hear)
    }

    /// Returns the states that are worth another try.
    fn left(&self) -> HashSet<StateId> {
        let computed = lock(&self.computed);
        let computed = computed.rows.iter().map(|row| row.state).collect::<HashSet<_>>();
        let obstacles = lock(&self.obstacles);
        let is_left = |state: &&StateId| {
            obstacles.states.get(state) != Some(&Obstacle::Unobservable)
                && !computed.contains(state)
                && !self.filling.is_filled(**state)
        };
        self.filling.missing().iter().filter(is_left).copied().collect()
    }

    fn left_out(&self) -> LeftOut {
        let obstacles = lock(&self.obstacles);
        let is_left = |state: &&StateId| !self.filling.is_filled(**state);
        let left = self.filling.missing().iter().filter(is_left);
        left.fold(LeftOut::default(), |mut left, state| {
            match obstacles.states.get(state) {
                None | Some(Obstacle::NoStart) => left.without_path += 1,
                Some(Obstacle::Elsewhere) => left.elsewhere += 1,
                Some(Obstacle::Failed | Obstacle::Unobservable) => left.failed += 1,
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
                let mut ahead = lock(&stretches);
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
                self.note(stretch, &stretch.stops, Obstacle::NoStart);
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
                self.note(stretch, &stretch.stops, Obstacle::Failed);
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
                    self.note(stretch, &stretch.stops[place..=place], Obstacle::Unobservable);
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
        let part = lock(&self.computed).push(row, self.begun);
        self.filling.add(part.unwrap_or_default())
    }

    /// Notes states that a stretch did not meet, and why.
    fn note(&self, stretch: &Stretch, stops: &[(usize, StateId)], obstacle: Obstacle) {
        let mut obstacles = lock(&self.obstacles);
        if obstacle != Obstacle::Unobservable {
            obstacles.beginnings.extend(stretch.beginning);
        }
        for &(_, state) in stops {
            // That the single state is not stored says less than why its paths did not work.
            let known = obstacles.states.entry(state).or_insert(obstacle);
            if obstacle != Obstacle::NoStart {
                *known = obstacle;
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
