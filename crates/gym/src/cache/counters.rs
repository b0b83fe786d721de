//! What a cache was asked for.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Counts one.
    pub(super) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of a server since it started.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Steps that were known.
    pub(super) hits: Counter,
    /// Those of them that were found out while they were waited for.
    pub(super) shared: Counter,
    /// Steps that the compiler took, each of which was recorded.
    pub(super) misses: Counter,
    /// Those of them on which it failed.
    pub(super) failures: Counter,
    /// Starts of benchmarks that were known, and others.
    pub(super) start_hits: Counter,
    pub(super) start_misses: Counter,
    /// Observations that were known, and others, which are not recorded.
    pub(super) observation_hits: Counter,
    pub(super) observation_misses: Counter,
    /// Steps that compilers took only to come to a state.
    pub(super) replayed: Counter,
    /// States to which the recorded actions did not lead again.
    pub(super) diverged: Counter,
}

impl Counters {
    /// Returns the counters in the text format of Prometheus. So many `states` and `transitions`
    /// are known now.
    pub(super) fn metrics(&self, states: u64, transitions: u64) -> String {
        let mut text = String::new();
        let mut line = |name: &str, kind: &str, about: &str, value: u64| {
            let name = format!("steplake_cache_{name}");
            let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}\n{name} {value}");
        };
        line("states", "gauge", "States that are known.", states);
        line("transitions", "gauge", "Transitions and failures that are known.", transitions);
        for (name, about, counter) in [
            ("hits_total", "Steps that were known.", &self.hits),
            ("shared_total", "Hits that waited for another client's miss.", &self.shared),
            ("misses_total", "Steps that the compiler took and the lake recorded.", &self.misses),
            ("failures_total", "Misses on which the compiler failed.", &self.failures),
            ("start_hits_total", "Starts of benchmarks that were known.", &self.start_hits),
            ("start_misses_total", "Starts that the compiler made.", &self.start_misses),
            ("observation_hits_total", "Observations that were known.", &self.observation_hits),
            (
                "observation_misses_total",
                "Observations that the compiler made.",
                &self.observation_misses,
            ),
            ("replayed_total", "Steps taken only to come to a state.", &self.replayed),
            ("diverged_total", "Recorded actions that led elsewhere.", &self.diverged),
        ] {
            line(name, "counter", about, counter.get());
        }
        text
    }

    /// Returns the hits and misses in one line for the log.
    pub(super) fn line(&self) -> String {
        let [hits, shared, misses] = [&self.hits, &self.shared, &self.misses].map(Counter::get);
        format!("{hits} hits, {shared} of them of a miss under way, and {misses} misses")
    }
}
