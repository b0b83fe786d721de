//! Turns: what is compared is launched alternately.
//!
//! A *turn* is as many launches between two events as take some milliseconds, so that launches of
//! small arrays follow each other without a wait.

use clap::Args;

use crate::device::Device;

/// The least seconds of a turn.
const TURN_S: f64 = 0.005;

/// The most launches of a turn.
const LAUNCHES_MAX: u32 = 1 << 13;

/// The seconds after which one contestant has no more turns.
const CONTESTANT_S_MAX: f64 = 2.0;

/// How often turns are taken, and on which inputs.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Rounds {
    /// The turns of each.
    #[arg(
        long,
        default_value = "5",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000),
    )]
    pub(crate) rounds: u32,

    /// The seed of the inputs.
    #[arg(long, default_value = "0", value_name = "S")]
    pub(crate) seed: u64,
}

/// The seconds of one launch, or of all kernels of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) best_s: f64,
    pub(crate) median_s: f64,
}

impl Times {
    fn of(mut samples_s: Vec<f64>) -> Self {
        samples_s.sort_by(f64::total_cmp);
        Self { best_s: samples_s[0], median_s: samples_s[samples_s.len() / 2] }
    }

    /// Thousands of millions of something in a second, in the best turn.
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub(crate) fn billions_per_s(self, count: u64) -> f64 {
        count as f64 / self.best_s * 1e-9
    }
}

/// How many launches are long enough for a turn. This also warms up.
fn launches_of_a_turn(
    device: &Device,
    launch: &mut dyn FnMut() -> Result<(), String>,
) -> Result<u32, String> {
    let mut times = 1;
    // Twice, since the first ones may have waited for something.
    while times < LAUNCHES_MAX
        && (device.seconds(times, launch)? < TURN_S || device.seconds(times, launch)? < TURN_S)
    {
        times *= 2;
    }
    Ok(times)
}

/// Lets contestants take turns. Returns the times of each.
///
/// # Errors
///
/// Those of a launch.
pub(crate) fn take_turns(
    device: &Device,
    contestants: usize,
    rounds: u32,
    launch: &mut dyn FnMut(usize) -> Result<(), String>,
) -> Result<Vec<Times>, String> {
    let mut launches = Vec::new();
    for which in 0..contestants {
        launches.push(launches_of_a_turn(device, &mut || launch(which))?);
    }
    let mut samples_s = vec![Vec::new(); contestants];
    let mut used_s = vec![0.0; contestants];
    for _ in 0..rounds {
        for which in 0..contestants {
            if used_s[which] < CONTESTANT_S_MAX {
                let times = launches[which];
                let seconds = device.seconds(times, &mut || launch(which))?;
                used_s[which] += seconds;
                samples_s[which].push(seconds / f64::from(times));
            }
        }
    }
    Ok(samples_s.into_iter().map(Times::of).collect())
}
