//! The progress of a run, on standard error.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{HumanCount, HumanDuration, ProgressBar};

use crate::generate::{RunProgress, Stop};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::bar;

/// Shows how much of counted work is done, and breaks it off after an interrupt.
pub(super) fn show(
    bar: &ProgressBar,
    done: u64,
    all: u64,
    interrupt: &AtomicBool,
) -> ControlFlow<()> {
    bar.set_length(all);
    bar.set_position(done);
    if interrupt.load(Ordering::Relaxed) {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// The progress bar of a run.
#[derive(Debug)]
pub(super) struct RunBar {
    bar: ProgressBar,
    stop: Stop,
    /// The steps, states or episodes that an earlier call recorded.
    before: u64,
}

impl RunBar {
    pub(super) fn new(global: &GlobalArgs, stop: Stop, before: u64) -> Self {
        let (length, unit) = match stop {
            Stop::Steps(steps) => (steps, "steps"),
            Stop::States(states) => (states, "states"),
            Stop::Episodes(episodes) => (episodes, "episodes"),
        };
        let template =
            format!("{{bar:24.cyan}} {{human_pos}}/{{human_len}} {unit}  {{msg}}  {{elapsed}}");
        Self { bar: bar(global, length, &template), stop, before }
    }

    /// Shows the progress of the run.
    pub(super) fn show(&self, progress: &RunProgress) {
        let [steps, states, episodes] = [&progress.steps, &progress.states, &progress.episodes]
            .map(|counter| counter.load(Ordering::Relaxed));
        let failures = progress.failures.lock().values().sum();
        let position = match self.stop {
            Stop::Steps(_) => self.before + steps,
            Stop::States(_) => self.before + states,
            Stop::Episodes(_) => episodes,
        };
        let length = self.bar.length().unwrap_or(position);
        self.bar.set_position(position.min(length));
        let elapsed = self.bar.elapsed();
        let rate = u128::from(steps) * 1000 / elapsed.as_millis().max(1);
        let rate = HumanCount(u64::try_from(rate).unwrap_or(u64::MAX));
        let (states, failures) = (HumanCount(states), HumanCount(failures));
        let left = match left(position.saturating_sub(self.before), position, length, elapsed) {
            Some(left) => HumanDuration(left).to_string(),
            None => "unknown".to_owned(),
        };
        self.bar.set_message(format!(
            "{rate} steps/s  {states} new states  {failures} failures  left: {left} "
        ));
    }
}

/// Estimates the time that the rest of a run takes, by what this call has done of it so far; `None`
/// if it has done nothing yet.
fn left(done: u64, position: u64, length: u64, elapsed: Duration) -> Option<Duration> {
    if done == 0 {
        return None;
    }
    let rest = length.saturating_sub(position);
    let millis = elapsed.as_millis() * u128::from(rest) / u128::from(done);
    Some(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_depends_on_this_call_alone() {
        let second = Duration::from_secs(1);
        assert_eq!(left(0, 900, 1000, second), None);
        assert_eq!(left(10, 910, 1000, second), Some(9 * second));
        assert_eq!(left(10, 10, 1000, second), Some(99 * second));
        assert_eq!(left(200, 1100, 1000, second), Some(Duration::ZERO));
    }
}
