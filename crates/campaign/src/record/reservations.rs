//! What the lake has already, and who is about to add what it lacks.
//!
//! The first recorder that reaches a state or a benchmark reserves it, and fulfils the reservation
//! once the rows are in the buffer. Until then other recorders wait: what they record refers to
//! those rows and must not be committed before them. A reservation that is dropped earlier, also in
//! a panic, is released, so that nobody waits in vain. The holder of a benchmark's reservation may
//! also reserve a state, but not the other way round.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

use steplake_env::SessionError;
use steplake_lake::{KnownBenchmark, REPORT};
use steplake_model::{Error, ErrorKind, Failure, ObservationIndex, StateId};

/// What is known and reserved, for all recorders of a run.
#[derive(Debug)]
pub(super) struct Reservations {
    known: Mutex<LakeContents>,
    /// Signals that a reservation was fulfilled or released.
    released: Condvar,
    /// Number of states whose observations were added.
    states_new: AtomicU64,
}

#[derive(Debug)]
struct LakeContents {
    lake: steplake_lake::KnownContents,
    reserved: HashSet<Reservable>,
    /// How the compiler failed, in this recording, on what is recorded of states that the lake has:
    /// such are the first states of failed starts.
    failed: HashMap<StateId, (ObservationIndex, Failure)>,
    /// States of which the lake has null where the compiler may have failed, in an earlier
    /// recording.
    doubted: HashSet<StateId>,
}

/// What can be reserved.
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
enum Reservable {
    /// A state that somebody is observing just now.
    State(StateId),
    /// A benchmark whose row some recorder is making, by its URI.
    Benchmark(String),
}

/// A reservation on what the lake still lacks of a state, or on a benchmark's row.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    reservations: &'a Reservations,
    item: Reservable,
    /// Whether the lake lacks the observations of the state.
    pub(super) observations: bool,
    /// Whether the lake lacks the IR of the state, and it is wanted.
    pub(super) ir: bool,
    /// What the benchmark was found to be.
    found: Option<KnownBenchmark>,
    fulfilled: bool,
}

impl Reservations {
    /// Starts with what the lake knows, the states of which it may have a failure as null, and no
    /// reservations.
    pub(super) fn new(known: steplake_lake::KnownContents, doubted: HashSet<StateId>) -> Self {
        let (reserved, failed) = (HashSet::new(), HashMap::new());
        let known = Mutex::new(LakeContents { lake: known, reserved, failed, doubted });
        Self { known, released: Condvar::new(), states_new: AtomicU64::new(0) }
    }

    /// Returns the number of states whose observations were added.
    pub(super) fn states_new(&self) -> u64 {
        self.states_new.load(Ordering::Relaxed)
    }

    /// Reserves what the lake lacks of `state`, its IR only if `wants_ir`: it may be wanted later,
    /// at a place where the state is a keyframe. Waits while another recorder has reserved the
    /// state.
    pub(super) fn state(&self, state: StateId, wants_ir: bool) -> Reservation<'_> {
        self.state_after(state, wants_ir, |known| self.released.wait(known))
    }

    fn state_after(
        &self,
        state: StateId,
        wants_ir: bool,
        wait: impl Fn(&mut MutexGuard<'_, LakeContents>),
    ) -> Reservation<'_> {
        let item = Reservable::State(state);
        let mut known = self.unreserved(&item, wait);
        let observations = known.lake.observed.insert(state);
        let ir = wants_ir && known.lake.ir.insert(state);
        if observations || ir {
            known.reserved.insert(item.clone());
        }
        self.reservation(item, [observations, ir], None)
    }

    /// Waits while a recorder has reserved the item.
    fn unreserved(
        &self,
        item: &Reservable,
        wait: impl Fn(&mut MutexGuard<'_, LakeContents>),
    ) -> MutexGuard<'_, LakeContents> {
        let mut known = self.known.lock();
        while known.reserved.contains(item) {
            wait(&mut known);
        }
        known
    }

    fn reservation(
        &self,
        item: Reservable,
        [observations, ir]: [bool; 2],
        found: Option<KnownBenchmark>,
    ) -> Reservation<'_> {
        Reservation { reservations: self, item, observations, ir, found, fulfilled: false }
    }

    /// Notes how the compiler failed on what is recorded of a state, or that it did not.
    pub(super) fn note(&self, state: StateId, failed: Option<(ObservationIndex, Failure)>) {
        let mut known = self.known.lock();
        known.doubted.remove(&state);
        match failed {
            Some(failed) => known.failed.insert(state, failed),
            None => known.failed.remove(&state),
        };
    }

    /// Returns whether the lake may have a failure on a state as null, and this recording has not
    /// looked.
    pub(super) fn is_doubted(&self, state: StateId) -> bool {
        self.known.lock().doubted.contains(&state)
    }

    /// Returns on which space the compiler failed in a state that the lake has, and how.
    pub(super) fn failed(&self, state: StateId) -> Option<(ObservationIndex, Failure)> {
        self.known.lock().failed.get(&state).cloned()
    }

    /// Returns whether the IR of a state is in the lake or in the buffer. Waits while another
    /// recorder has reserved the state: what it writes counts.
    pub(super) fn is_stored(&self, state: StateId) -> bool {
        let item = Reservable::State(state);
        self.unreserved(&item, |known| self.released.wait(known)).lake.ir.contains(&state)
    }

    /// Returns what the lake knows of a benchmark.
    pub(super) fn known_benchmark(&self, uri: &str) -> Option<KnownBenchmark> {
        self.known.lock().lake.benchmarks.get(uri).cloned()
    }

    /// Reserves the row of a benchmark that the lake does not have yet; the row will say what was
    /// `found`. Waits while another recorder has reserved it.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] if the lake knows the benchmark with another program, another
    /// initial state or other baselines.
    pub(super) fn benchmark(
        &self,
        uri: &str,
        found: &KnownBenchmark,
    ) -> Result<Option<Reservation<'_>>, SessionError> {
        self.benchmark_after(uri, found, |known| self.released.wait(known))
    }

    fn benchmark_after(
        &self,
        uri: &str,
        found: &KnownBenchmark,
        wait: impl Fn(&mut MutexGuard<'_, LakeContents>),
    ) -> Result<Option<Reservation<'_>>, SessionError> {
        let item = Reservable::Benchmark(uri.to_owned());
        let mut known = self.unreserved(&item, wait);
        let Some(there) = known.lake.benchmarks.get(uri) else {
            known.reserved.insert(item.clone());
            return Ok(Some(self.reservation(item, [false; 2], Some(found.clone()))));
        };
        match difference(there, found) {
            None => Ok(None),
            Some(difference) => {
                let said = format!("{uri} {difference}");
                Err(SessionError::Recording(Error::new(ErrorKind::Lake, said)))
            }
        }
    }
}

/// Returns how a benchmark differs from what the lake knows of it. Facts that a repair lost are not
/// compared.
fn difference(there: &KnownBenchmark, found: &KnownBenchmark) -> Option<String> {
    if there.program_digest.is_empty() {
        return None;
    }
    if there.program_digest != found.program_digest {
        let short = |digest: &str| digest.get(..12).unwrap_or(digest).to_owned();
        return Some(format!(
            "is another program than the one that the lake knows by this name ({} instead of {}): \
             record it under another name or into another lake",
            short(&found.program_digest),
            short(&there.program_digest),
        ));
    }
    if let (Some(there), Some(found)) = (there.initial_state, found.initial_state)
        && there != found
    {
        return Some(format!("begins in state {found} here, and in {there} in the lake: {REPORT}"));
    }
    let differs = |(name, there): &(String, i64)| {
        let found = found.baselines.get(name)?;
        (found != *there).then(|| {
            format!(
                "has {name} {found} here, and {there} in the lake, whose rewards go by it: a \
                 resumed run takes the lake's"
            )
        })
    };
    there.baselines.0.iter().find_map(differs)
}

impl Reservation<'_> {
    /// Declares that what was reserved is in the buffer.
    pub(super) fn fulfil(mut self) {
        self.fulfilled = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.observations && !self.ir && self.found.is_none() {
            return;
        }
        let mut known = self.reservations.known.lock();
        known.reserved.remove(&self.item);
        match &self.item {
            Reservable::Benchmark(uri) if self.fulfilled => {
                let found = self.found.take().map(|found| (uri.clone(), found));
                known.lake.benchmarks.extend(found);
            }
            Reservable::State(_) if self.fulfilled => {
                let new = u64::from(self.observations);
                self.reservations.states_new.fetch_add(new, Ordering::Relaxed);
            }
            Reservable::State(state) => {
                if self.observations {
                    known.lake.observed.remove(state);
                }
                if self.ir {
                    known.lake.ir.remove(state);
                }
            }
            Reservable::Benchmark(_) => {}
        }
        drop(known);
        self.reservations.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use steplake_model::Baselines;

    const STATE: StateId = StateId([7; 20]);
    const URI: &str = "generator://toy-v0/1";
    /// When a test gives up.
    const LONG: Duration = Duration::from_mins(10);

    fn reservations() -> Reservations {
        Reservations::new(steplake_lake::KnownContents::default(), HashSet::new())
    }

    fn program(digest: &str) -> KnownBenchmark {
        let baselines = Baselines(vec![("Size".to_owned(), 7)]);
        KnownBenchmark { program_digest: digest.into(), initial_state: Some(STATE), baselines }
    }

    #[test]
    fn a_benchmark_stays_what_it_was_found_to_be() {
        let reservations = reservations();
        reservations.benchmark(URI, &program("a")).unwrap().unwrap().fulfil();
        assert_eq!(reservations.known_benchmark(URI), Some(program("a")));
        let baselines = Baselines(vec![("Size".to_owned(), 8)]);
        let initial_state = Some(StateId([8; 20]));
        for (other, word) in [
            (program("b"), "another program"),
            (KnownBenchmark { initial_state, ..program("a") }, "begins in state 0808"),
            (KnownBenchmark { baselines, ..program("a") }, "Size 8 here, and 7 in the lake"),
        ] {
            let error = reservations.benchmark(URI, &other).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        // A lake may have no column for a baseline, and a repair may have lost the row.
        let fewer = KnownBenchmark { baselines: Baselines::default(), ..program("a") };
        assert!(reservations.benchmark(URI, &fewer).unwrap().is_none());
        let lost = HashMap::from([(URI.to_owned(), KnownBenchmark::default())]);
        let reservations = Reservations::new(
            steplake_lake::KnownContents { benchmarks: lost, ..Default::default() },
            HashSet::new(),
        );
        assert!(reservations.benchmark(URI, &program("a")).unwrap().is_none());
    }

    fn some_are_held(reservations: &Reservations) -> bool {
        !reservations.known.lock().reserved.is_empty()
    }

    #[test]
    fn a_panic_releases_its_reservations_too() {
        let reservations = reservations();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _benchmark = reservations.benchmark(URI, &program("a")).unwrap().unwrap();
            let _state = reservations.state(STATE, true);
            assert!(!some_are_held(&reservations), "two are held, so this panics");
        }));
        assert!(panicked.is_err());
        assert!(!some_are_held(&reservations));
        // Everything can be reserved again, under another digest too: no row of the first one was
        // written.
        let reservation = reservations.state(STATE, true);
        assert!(reservation.observations && reservation.ir);
        assert!(reservations.benchmark(URI, &program("b")).unwrap().is_some());
        assert_eq!(reservations.states_new(), 0);
    }

    #[test]
    fn what_was_fulfilled_is_reserved_once() {
        let reservations = reservations();
        reservations.state(STATE, true).fulfil();
        reservations.benchmark(URI, &program("a")).unwrap().unwrap().fulfil();
        for _ in 0..2 {
            // An empty reservation releases nothing.
            let again = reservations.state(STATE, true);
            assert!(!again.observations && !again.ir);
        }
        assert!(reservations.benchmark(URI, &program("a")).unwrap().is_none());
        assert!(reservations.benchmark(URI, &program("b")).is_err());
        assert_eq!(reservations.states_new(), 1);
        assert!(!some_are_held(&reservations));
    }

    #[test]
    fn what_was_seen_without_its_ir_can_still_bring_it() {
        let reservations = reservations();
        let seen = reservations.state(STATE, false);
        assert!(seen.observations && !seen.ir);
        seen.fulfil();
        let again = reservations.state(STATE, false);
        assert!(!again.observations && !again.ir);
        drop(again);
        // Once released, the IR can be reserved again.
        for _ in 0..2 {
            let keyframe = reservations.state(STATE, true);
            assert!(!keyframe.observations && keyframe.ir);
        }
        reservations.state(STATE, true).fulfil();
        assert!(!reservations.state(STATE, true).ir);
        assert_eq!(reservations.states_new(), 1);
        assert!(!some_are_held(&reservations));
    }

    #[test]
    fn others_wait_until_what_was_reserved_is_in_the_buffer() {
        let (reservations, pushed) = (reservations(), AtomicBool::new(false));
        let benchmark = reservations.benchmark(URI, &program("a")).unwrap().unwrap();
        let state = reservations.state(STATE, true);
        // A caller says that it waits while it holds the lock, which nobody can take before it
        // really waits. If it ends without waiting, its channel is closed.
        let (benchmark_waits, of_benchmark) = mpsc::channel();
        let (state_waits, of_state) = mpsc::channel();
        std::thread::scope(|scope| {
            let (reservations, pushed) = (&reservations, &pushed);
            scope.spawn(move || {
                let wait = |known: &mut MutexGuard<'_, LakeContents>| {
                    benchmark_waits.send(()).unwrap();
                    reservations.released.wait(known);
                };
                let found = program("a");
                assert!(reservations.benchmark_after(URI, &found, wait).unwrap().is_none());
                assert!(pushed.load(Ordering::Relaxed), "the benchmark's row comes first");
            });
            scope.spawn(move || {
                let wait = |known: &mut MutexGuard<'_, LakeContents>| {
                    state_waits.send(()).unwrap();
                    reservations.released.wait(known);
                };
                assert!(!reservations.state_after(STATE, true, wait).observations);
                assert!(pushed.load(Ordering::Relaxed), "the state's row comes first");
            });
            // Moved here, so that a failure releases them and with them the callers.
            let (benchmark, state) = (benchmark, state);
            of_benchmark.recv_timeout(LONG).expect("the caller with the benchmark waits");
            of_state.recv_timeout(LONG).expect("the caller with the state waits");
            pushed.store(true, Ordering::Relaxed);
            state.fulfil();
            benchmark.fulfil();
        });
    }
}
