//! Quickly makes any number of steps that resemble a compiler's.

use std::path::Path;
use std::time::Duration;

use steplake::lake::{
    EpisodeRow, Identity, Lake, LakeError, RecordedReward, Rows, StepRow, Writer,
};
use steplake::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, BenchmarkUri, EpisodeId, EpisodeOutcome,
    FailureKind, RunId, StateId,
};

/// Number of actions in the space.
const ACTIONS: u64 = 64;
/// Number of steps with an action in an episode.
pub(crate) const EPISODE_STEPS: u32 = 50;
/// One step in this many leads to another state; the others change nothing.
const CHANGES_ONE_IN: u64 = 3;
/// One (state, action) pair in this many is not a function: it leads to one of two states.
const CONFLICTS_ONE_IN: u64 = 10_000;
/// One (state, action) pair in this many kills the compiler.
const FAILURES_ONE_IN: u64 = 20_000;
/// Episodes appended at a time, and steps sealed at a time.
const APPEND_EPISODES: u64 = 1000;
const SEAL_STEPS: u64 = 4_000_000;
const REWARDS: [&str; 4] = ["Size", "SizeNorm", "SizeO3", "SizeOz"];

/// Returns the identity of a lake of synthetic steps.
fn identity() -> Identity {
    let action = |number| {
        let (name, pipeline) = (format!("a{number}"), format!("pass{number}"));
        ActionSpec::new(name, pipeline, ActionFlags::UNREMARKABLE)
    };
    Identity {
        format_version: steplake::lake::FORMAT_VERSION,
        environment: "synthetic-v0".into(),
        compiler: "none".into(),
        target: "none".into(),
        action_space: ActionSpace {
            name: "synthetic-v0".into(),
            actions: (0..ACTIONS).map(action).collect(),
        },
        observations: Vec::new(),
        rewards: REWARDS.map(|name| RecordedReward::new(name, "Size")).into(),
        baselines: Vec::new(),
        state_scheme: 1,
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Returns the id of state `number`, distributed as evenly as a digest.
fn state(number: u64) -> StateId {
    let mut id = [0; StateId::LEN];
    for (word, bytes) in (0..).zip(id.chunks_mut(8)) {
        let word = mixed(number.wrapping_mul(3).wrapping_add(word + 1));
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
    StateId(id)
}

/// A lake that grows by synthetic steps. Visits of states follow Zipf's law: a few states again and
/// again, most hardly ever.
pub(crate) struct Synthetic {
    pub(crate) writer: Writer,
    states: u64,
    episodes: u64,
    unsealed: u64,
}

impl Synthetic {
    /// Creates an empty lake for about `steps` steps.
    pub(crate) fn create(path: &Path, steps: u64) -> Result<Self, LakeError> {
        let lake = Lake::create(path, &identity())?;
        let writer = lake.writer()?;
        Ok(Self { writer, states: (steps / 2).max(100), episodes: 0, unsealed: 0 })
    }

    /// Appends at least `steps` steps, and seals them.
    pub(crate) fn grow(&mut self, steps: u64) -> Result<(), LakeError> {
        let mut grown = 0;
        while grown < steps {
            let mut rows = Rows::default();
            for _ in 0..APPEND_EPISODES {
                self.episode(&mut rows);
            }
            grown += rows.steps.len() as u64;
            self.unsealed += rows.steps.len() as u64;
            self.writer.append(&rows)?;
            if self.unsealed >= SEAL_STEPS {
                self.seal()?;
            }
        }
        self.seal()
    }

    fn seal(&mut self) -> Result<(), LakeError> {
        self.unsealed = 0;
        self.writer.seal().map(drop)
    }

    /// Returns a number by Zipf's law: equally many visits for each doubling of the number.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a draw of a number, nothing that is counted"
    )]
    fn zipf(&self, random: u64) -> u64 {
        let even = (random >> 11) as f64 / (1_u64 << 53) as f64;
        (self.states as f64).powf(even) as u64 - 1
    }

    fn episode(&mut self, rows: &mut Rows) {
        let ordinal = u32::try_from(self.episodes).expect("few enough episodes");
        let episode = EpisodeId::new(RunId(1), ordinal);
        self.episodes += 1;
        let mut random = mixed(u64::from(ordinal) + 1);
        let program = self.zipf(random) % 1000;
        let benchmark: BenchmarkUri =
            format!("generator://synthetic-v0/{program}").parse().expect("a name");
        let mut at = program;
        let mut failed = false;
        let mut index = 0;
        loop {
            let taken = (index > 0).then(|| {
                random = mixed(random);
                let action = random % ACTIONS;
                let edge = mixed((at << 6) | action);
                failed = edge % FAILURES_ONE_IN == 1;
                if edge.is_multiple_of(CHANGES_ONE_IN) {
                    let other = edge.is_multiple_of(CONFLICTS_ONE_IN) && random >> 63 == 1;
                    at = self.zipf(mixed(edge + u64::from(other)));
                }
                (action, edge)
            });
            let reward = |(_, edge): (u64, u64)| f64::from(u32::try_from(edge % 100).unwrap_or(0));
            rows.steps.push(StepRow {
                action: taken.map(|(action, _)| ActionIndex(u32::try_from(action).unwrap_or(0))),
                state: (!failed).then(|| state(at)),
                end_of_episode: failed,
                rewards: taken.filter(|_| !failed).map(|taken| {
                    REWARDS.iter().zip(1..).map(|(_, by)| reward(taken) / f64::from(by)).collect()
                }),
                wall_time: Duration::from_micros(random % 5000),
                ..StepRow::new(episode, index, benchmark.clone())
            });
            if failed || index == EPISODE_STEPS {
                break;
            }
            index += 1;
        }
        rows.episodes.push(EpisodeRow {
            seed: i64::from(ordinal),
            policy: "random".into(),
            steps: index,
            outcome: if failed {
                EpisodeOutcome::Failed(FailureKind::Crash)
            } else {
                EpisodeOutcome::Complete
            },
            detail: failed.then(|| "signal 11".into()),
            ..EpisodeRow::new(episode, benchmark)
        });
    }
}
