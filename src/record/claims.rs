//! What the lake has already, and who is about to add what it lacks.
//!
//! The first recorder that reaches a state or a benchmark claims it, and meets the claim once the
//! rows are in the buffer. Until then others wait: what they record refers to those rows, and must
//! not be committed before them. A claim that is dropped earlier, also in a panic, is given back,
//! so that nobody waits in vain. The holder of a benchmark's claim may also claim a state, but not
//! the other way round.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::env::SessionError;
use crate::lake::{self, KnownBenchmark, REPORT};
use crate::model::StateId;

/// What is known and claimed, for all recorders of a run.
#[derive(Debug)]
pub(super) struct Claims {
    known: Mutex<Known>,
    /// Signals that a claim was met or given back.
    settled: Condvar,
    /// Number of states whose observations were added.
    states_new: AtomicU64,
}

#[derive(Debug)]
struct Known {
    observed: HashSet<StateId>,
    ir: HashSet<StateId>,
    /// By URI.
    benchmarks: HashMap<String, KnownBenchmark>,
    /// States that somebody is observing just now.
    claimed: HashSet<StateId>,
    /// Benchmarks whose row some recorder is making.
    benchmarks_claimed: HashSet<String>,
}

/// A claim on what the lake still lacks of a state.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    state: StateId,
    pub(super) observations: bool,
    pub(super) ir: bool,
    met: bool,
}

/// The right to write a benchmark's row.
#[derive(Debug)]
pub(super) struct BenchmarkClaim<'a> {
    claims: &'a Claims,
    uri: String,
    found: KnownBenchmark,
    met: bool,
}

impl Claims {
    /// Starts with what the lake knows, and no claims.
    pub(super) fn new(known: lake::Known) -> Self {
        let known = Known {
            observed: known.observed,
            ir: known.ir,
            benchmarks: known.benchmarks,
            claimed: HashSet::new(),
            benchmarks_claimed: HashSet::new(),
        };
        let (known, states_new) = (Mutex::new(known), AtomicU64::new(0));
        Self { known, settled: Condvar::new(), states_new }
    }

    /// Ignores poisoning: a panic leaves whole values behind, since each changes in one step.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, known: MutexGuard<'a, Known>) -> MutexGuard<'a, Known> {
        self.settled.wait(known).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of states whose observations were added.
    pub(super) fn states_new(&self) -> u64 {
        self.states_new.load(Ordering::Relaxed)
    }

    /// Claims what the lake lacks of `state`, its IR only if `wants_ir`: it may be wanted later, at
    /// a place where the state is a keyframe. Waits while another recorder holds a claim on the
    /// state.
    pub(super) fn state(&self, state: StateId, wants_ir: bool) -> Claim<'_> {
        let mut known = self.known();
        while known.claimed.contains(&state) {
            known = self.wait(known);
        }
        let observations = known.observed.insert(state);
        let ir = wants_ir && known.ir.insert(state);
        if observations || ir {
            known.claimed.insert(state);
        }
        Claim { claims: self, state, observations, ir, met: false }
    }

    /// Returns what the lake knows of a benchmark.
    pub(super) fn known_benchmark(&self, uri: &str) -> Option<KnownBenchmark> {
        self.known().benchmarks.get(uri).cloned()
    }

    /// Claims the row of a benchmark that the lake does not have yet; the row will say what was
    /// `found`. Waits while another recorder holds that claim.
    ///
    /// # Errors
    ///
    /// [`SessionError::Visit`] if the lake knows the benchmark with another program, another initial
    /// state or other baselines.
    pub(super) fn benchmark(
        &self,
        uri: &str,
        found: &KnownBenchmark,
    ) -> Result<Option<BenchmarkClaim<'_>>, SessionError> {
        let mut known = self.known();
        while known.benchmarks_claimed.contains(uri) {
            known = self.wait(known);
        }
        let Some(there) = known.benchmarks.get(uri) else {
            known.benchmarks_claimed.insert(uri.to_owned());
            let (uri, found) = (uri.to_owned(), found.clone());
            return Ok(Some(BenchmarkClaim { claims: self, uri, found, met: false }));
        };
        match difference(there, found) {
            None => Ok(None),
            Some(difference) => Err(SessionError::Visit(format!("{uri} {difference}"))),
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
                "has {name} {found} here, and {there} in the lake, whose rewards go by it: run the \
                 same command again with --resume, which takes the lake's"
            )
        })
    };
    there.baselines.0.iter().find_map(differs)
}

impl Claim<'_> {
    /// Declares that what was claimed is in the buffer.
    pub(super) fn meet(mut self) {
        self.met = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.observations && !self.ir {
            return;
        }
        let mut known = self.claims.known();
        known.claimed.remove(&self.state);
        if self.met {
            let new = u64::from(self.observations);
            self.claims.states_new.fetch_add(new, Ordering::Relaxed);
        } else {
            if self.observations {
                known.observed.remove(&self.state);
            }
            if self.ir {
                known.ir.remove(&self.state);
            }
        }
        drop(known);
        self.claims.settled.notify_all();
    }
}

impl BenchmarkClaim<'_> {
    /// Declares that the row is in the buffer.
    pub(super) fn meet(mut self) {
        self.met = true;
    }
}

impl Drop for BenchmarkClaim<'_> {
    fn drop(&mut self) {
        let mut known = self.claims.known();
        known.benchmarks_claimed.remove(&self.uri);
        if self.met {
            known.benchmarks.insert(std::mem::take(&mut self.uri), std::mem::take(&mut self.found));
        }
        drop(known);
        self.claims.settled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::model::Baselines;

    const STATE: StateId = StateId([7; 20]);
    const URI: &str = "generator://toy-v0/1";

    fn claims() -> Claims {
        Claims::new(lake::Known::default())
    }

    fn program(digest: &str) -> KnownBenchmark {
        let baselines = Baselines(vec![("Size".to_owned(), 7)]);
        KnownBenchmark { program_digest: digest.into(), initial_state: Some(STATE), baselines }
    }

    #[test]
    fn a_benchmark_stays_what_it_was_found_to_be() {
        let claims = claims();
        claims.benchmark(URI, &program("a")).unwrap().unwrap().meet();
        assert_eq!(claims.known_benchmark(URI), Some(program("a")));
        let baselines = Baselines(vec![("Size".to_owned(), 8)]);
        let initial_state = Some(StateId([8; 20]));
        for (other, word) in [
            (program("b"), "another program"),
            (KnownBenchmark { initial_state, ..program("a") }, "begins in state 0808"),
            (KnownBenchmark { baselines, ..program("a") }, "Size 8 here, and 7 in the lake"),
        ] {
            let error = claims.benchmark(URI, &other).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        // A lake may have no column for a baseline, and a repair may have lost the row.
        let fewer = KnownBenchmark { baselines: Baselines::default(), ..program("a") };
        assert!(claims.benchmark(URI, &fewer).unwrap().is_none());
        let lost = HashMap::from([(URI.to_owned(), KnownBenchmark::default())]);
        let claims = Claims::new(lake::Known { benchmarks: lost, ..Default::default() });
        assert!(claims.benchmark(URI, &program("a")).unwrap().is_none());
    }

    fn some_are_held(claims: &Claims) -> bool {
        let known = claims.known();
        !known.claimed.is_empty() || !known.benchmarks_claimed.is_empty()
    }

    #[test]
    fn a_claim_is_given_back_by_a_panic_too() {
        let claims = claims();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _benchmark = claims.benchmark(URI, &program("a")).unwrap().unwrap();
            let _state = claims.state(STATE, true);
            assert!(!some_are_held(&claims), "two are held, so this panics");
        }));
        assert!(panicked.is_err());
        assert!(!some_are_held(&claims));
        // Everything can be claimed again, under another digest too: no row of the first one was
        // written.
        let claim = claims.state(STATE, true);
        assert!(claim.observations && claim.ir);
        assert!(claims.benchmark(URI, &program("b")).unwrap().is_some());
        assert_eq!(claims.states_new(), 0);
    }

    #[test]
    fn what_was_met_is_claimed_once() {
        let claims = claims();
        claims.state(STATE, true).meet();
        claims.benchmark(URI, &program("a")).unwrap().unwrap().meet();
        for _ in 0..2 {
            // An empty claim gives nothing back.
            let again = claims.state(STATE, true);
            assert!(!again.observations && !again.ir);
        }
        assert!(claims.benchmark(URI, &program("a")).unwrap().is_none());
        assert!(claims.benchmark(URI, &program("b")).is_err());
        assert_eq!(claims.states_new(), 1);
        assert!(!some_are_held(&claims));
    }

    #[test]
    fn what_was_seen_without_its_ir_can_still_bring_it() {
        let claims = claims();
        let seen = claims.state(STATE, false);
        assert!(seen.observations && !seen.ir);
        seen.meet();
        let again = claims.state(STATE, false);
        assert!(!again.observations && !again.ir);
        drop(again);
        // Once given back, the IR can be claimed again.
        for _ in 0..2 {
            let keyframe = claims.state(STATE, true);
            assert!(!keyframe.observations && keyframe.ir);
        }
        claims.state(STATE, true).meet();
        assert!(!claims.state(STATE, true).ir);
        assert_eq!(claims.states_new(), 1);
        assert!(!some_are_held(&claims));
    }

    #[test]
    fn others_wait_until_what_was_claimed_is_in_the_buffer() {
        for _ in 0..50 {
            let (claims, pushed) = (claims(), AtomicBool::new(false));
            let (benchmark, state) =
                (claims.benchmark(URI, &program("a")).unwrap().unwrap(), claims.state(STATE, true));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    assert!(claims.benchmark(URI, &program("a")).unwrap().is_none());
                    assert!(pushed.load(Ordering::Relaxed), "the benchmark's row comes first");
                });
                scope.spawn(|| {
                    assert!(!claims.state(STATE, true).observations);
                    assert!(pushed.load(Ordering::Relaxed), "the state's row comes first");
                });
                std::thread::yield_now();
                pushed.store(true, Ordering::Relaxed);
                state.meet();
                benchmark.meet();
            });
        }
    }
}
