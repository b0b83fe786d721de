//! Progress on standard error.

use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::Cli;
use crate::generate::{Progress, Stop};

/// The interval at which a progress bar is redrawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Returns a bar of `length`, shown if standard error is a terminal and the user did not ask for
/// quiet.
pub(super) fn bar(cli: &Cli, length: u64, template: &str) -> ProgressBar {
    let target =
        if cli.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(template).expect("the templates are ours");
    let bar = ProgressBar::with_draw_target(Some(length), target);
    bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    bar.enable_steady_tick(DRAW_INTERVAL);
    bar
}

/// The progress bar of a run.
#[derive(Debug)]
pub(super) struct RunBar {
    bar: ProgressBar,
    stop: Stop,
}

impl RunBar {
    pub(super) fn new(cli: &Cli, stop: Stop) -> Self {
        let (length, unit) = match stop {
            Stop::Steps(steps) => (steps, "steps"),
            Stop::States(states) => (states, "states"),
            Stop::Episodes(episodes) => (episodes, "episodes"),
        };
        let template = format!(
            "{{bar:24.cyan}} {{human_pos}}/{{human_len}} {unit}  {{msg}}  {{elapsed}} (left: {{eta}})"
        );
        Self { bar: bar(cli, length, &template), stop }
    }

    /// Shows the progress of the run.
    pub(super) fn show(&self, progress: &Progress) {
        let [steps, states, failures, episodes] =
            [&progress.steps, &progress.states, &progress.failures, &progress.episodes]
                .map(|counter| counter.load(Ordering::Relaxed));
        let position = match self.stop {
            Stop::Steps(_) => steps,
            Stop::States(_) => states,
            Stop::Episodes(_) => episodes,
        };
        self.bar.set_position(position.min(self.bar.length().unwrap_or(position)));
        let seconds = self.bar.elapsed().as_millis().max(1);
        let rate = u128::from(steps) * 1000 / seconds;
        let rate = HumanCount(u64::try_from(rate).unwrap_or(u64::MAX));
        let (states, failures) = (HumanCount(states), HumanCount(failures));
        self.bar.set_message(format!("{rate} steps/s  {states} new states  {failures} failures"));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
