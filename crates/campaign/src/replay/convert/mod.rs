//! Conversion: makes a lake with ids of this version's scheme out of one of an older scheme.
//!
//! Ids of two schemes cannot be computed from each other, so the recorded actions are played again.
//! Each closed episode begins in the recorded program, and each of its actions is taken in a live
//! session, whose state gives the new id. Sessions play several episodes at once; rows are written
//! in the order of the old lake, so the result does not depend on their number.
//!
//! # What is proven
//!
//! A step shows that the new state is the recorded one:
//!
//! - by its IR, if the old lake has it: that bitcode, started as a program, has the new id;
//! - else by its values: all recorded observations and the rewards of the step are equal, and no
//!   earlier step has shown that the recorded state has another new id.
//!
//! Any other step *led elsewhere*: what it leads to now is recorded, and the rest of its episode is
//! played from there and not compared. So is a step that failed and does not now, or the reverse.

mod old_lake;
mod observed;
mod players;
mod player;
mod beginning;
mod played;
mod sink;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use self::old_lake::{OldLake, RecordedEpisodes};
use self::player::Player;
use self::players::Players;
use self::sink::{Order, Sink};
use super::stored_state::{ReplayError, demand_same_compiler};
use crate::generate::ProgramProvider;
use crate::record::{SpaceChoice, SpaceChoiceError, identity};
use steplake_env::Environment;
use steplake_lake::progress::{Thread, in_threads};
use steplake_lake::transfer::ConvertedLake;
use steplake_lake::{FORMAT_VERSION, Identity, Lake, LakeError, OnProgress, RunRow, Table};
use steplake_model::{Classified, EnvironmentSpec, ErrorKind, Remedy};

/// Number of episodes that a session takes at a time. Their IR is looked up one by one; they are
/// appended together.
const EPISODES_AT_ONCE: usize = 8;

/// For each session, the most pieces of work that are finished and wait for an earlier one.
const PIECES_WAITING: u64 = 4;

/// Digits of the name of a run.
const UID_DIGITS: usize = 32;

/// How long a session waits at most before it looks whether to go on.
const WAIT: Duration = Duration::from_millis(100);

/// Why a lake cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The old lake cannot be read, the new one cannot be written, or a session failed in a way
    /// that is not the compiler's.
    #[error("{0}")]
    Replay(#[from] ReplayError),
    /// The states of the lake have ids of this version's scheme.
    #[error(
        "there is nothing to convert: the states of the lake have ids of scheme {scheme}, which is \
         that of this version"
    )]
    SameScheme {
        /// The scheme.
        scheme: u32,
    },
    /// No action of the environment runs its compiler: only observations do.
    #[error(
        "lakes of {environment} cannot be converted: its compiler runs when a state is observed, and \
         a conversion would not see where it fails; the lake can be read as it is, and this version \
         can record its programs anew"
    )]
    Compiled {
        /// The environment.
        environment: String,
    },
    /// The environment lacks a space of the lake.
    #[error("{0}")]
    Spaces(#[from] SpaceChoiceError),
}

impl From<LakeError> for ConvertError {
    fn from(error: LakeError) -> Self {
        Self::Replay(error.into())
    }
}

impl Classified for ConvertError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Replay(error) => error.classify(),
            Self::SameScheme { .. } | Self::Compiled { .. } => (ErrorKind::Usage, None),
            Self::Spaces(error) => error.classify(),
        }
    }
}

/// Why an episode is not in the new lake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// The old lake does not have the program, and it cannot be loaded, or the compiler rejects it.
    NoProgram,
    /// The old lake does not have the program, and its dataset has another one, by its digest.
    OtherProgram,
    /// It was forked, and no path leads to where.
    NoWay,
    /// A session was lost, and the actions did not lead to the same state a second time.
    Unrepeatable,
    /// The old lake has no step of it.
    NoSteps,
    /// An audit recorded it: it shows what another process did, and an ordinary session does not.
    Audit,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProgram => "their programs are not at hand",
            Self::OtherProgram => "their datasets do not have the programs that were recorded",
            Self::NoWay => "no path leads to where they were forked",
            Self::Unrepeatable => "their actions do not lead to the same state twice",
            Self::NoSteps => "the lake has no steps of them",
            Self::Audit => "they are what audits found in other processes",
        })
    }
}

/// The result of a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversionReport {
    /// Number of episodes of the new lake.
    pub episodes: u64,
    /// Number of its steps with an action.
    pub steps: u64,
    /// Number of states of the old lake that are proven by their IR.
    pub proven_by_ir: u64,
    /// Number of states of the old lake that are proven by their values.
    pub proven_by_values: u64,
    /// Number of steps to states of which the old lake has nothing to compare.
    pub steps_unproven: u64,
    /// Number of steps that led elsewhere, by the name of the action.
    pub elsewhere: BTreeMap<String, u64>,
    /// Number of steps that follow one of these in their episode.
    pub steps_not_compared: u64,
    /// Number of steps with an action of the old lake's closed episodes that the new lake lacks:
    /// those of episodes that are left out, and those behind a start or a step that fails now.
    pub steps_dropped: u64,
    /// Number of closed episodes that are not in the new lake.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// Number of measurements and miscompilations that are not in the new lake, since their states
    /// are not proven.
    pub rows_left_out: u64,
}

/// Makes a new lake in a folder that is empty, does not exist, or was left by an interrupted
/// conversion, with what `jobs` sessions of `environment` make of the closed episodes of `old`.
/// `programs` has programs whose IR the lake does not have. Calls `progress` with the number of
/// steps that are done and of all. The new lake is sealed, and has no derived tables.
///
/// The new lake exists after `Ok`. After an error or a break the folder is as it was before; after
/// a kill it is no lake, and the conversion can be started again.
///
/// # Errors
///
/// See [`ConvertError`]; after a break, [`LakeError::Interrupted`].
pub fn convert(
    environment: &dyn Environment,
    old: &Lake,
    into: &Path,
    programs: &dyn ProgramProvider,
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> Result<(Lake, ConversionReport), ConvertError> {
    let snapshot = old.snapshot()?;
    let new = converted_identity(environment, snapshot.identity())?;
    let scheme = new.state_scheme;
    let runs = snapshot.runs().iter().map(|run| converted_run(run, scheme)).collect();
    let lake = ConvertedLake::begin(into, &new, &snapshot, runs)?;
    let order = Mutex::new(Order::new(Sink::new(lake)));
    let written = OldLake::read(&snapshot).map_err(ReplayError::from).and_then(|old| {
        let players = Players::new(environment, &new, &old, programs);
        play_all(&players, jobs, &order, progress)?;
        Ok(order.lock().sink.write_rest(&players)?)
    });
    let sink = order.into_inner().sink;
    match written {
        Ok(()) => Ok(sink.complete()?),
        Err(error) => {
            sink.abandon();
            Err(error.into())
        }
    }
}

/// Plays the closed episodes, and writes what becomes of them.
fn play_all(
    players: &Players<'_>,
    jobs: usize,
    order: &Mutex<Order>,
    progress: &mut OnProgress<'_>,
) -> Result<(), ReplayError> {
    let jobs = jobs.max(1);
    let episodes = Mutex::new((0_u64, RecordedEpisodes::new(players.old)));
    let is_written = Condvar::new();
    let waiting_max = PIECES_WAITING * jobs as u64;
    let work = |(), thread: &Thread<'_>| -> Result<(), ReplayError> {
        let mut player = Player::new(players);
        loop {
            thread.ask()?;
            let mut ahead = episodes.lock();
            let number = ahead.0;
            ahead.0 += 1;
            let some = ahead.1.by_ref().take(EPISODES_AT_ONCE).collect::<Result<Vec<_>, _>>()?;
            drop(ahead);
            if some.is_empty() {
                return Ok(());
            }
            // Whoever plays the piece that is waited for has passed this before.
            let mut written = order.lock();
            while number >= written.next + waiting_max {
                is_written.wait_for(&mut written, WAIT);
                thread.demand_go_on()?;
            }
            drop(written);
            let mut played = Vec::with_capacity(some.len());
            for episode in some {
                thread.demand_go_on()?;
                let steps = episode.steps.len() as u64;
                let result = player.play(&episode)?;
                played.push((episode, result));
                thread.did(steps);
            }
            order.lock().deliver(number, played, &mut player)?;
            is_written.notify_all();
        }
    };
    let (mut done, all) = (0, players.old.snapshot.rows(Table::Steps));
    in_threads(vec![(); jobs], work, &mut |more| {
        done += more;
        progress(done, all)
    })
    .map(drop)
}

/// Returns the identity of the new lake: the old one with the scheme of the environment. The flags
/// of actions are combined as in a merge: a warning stays if one of the two has it, a guarantee
/// only if both have it.
///
/// # Errors
///
/// If the lake was recorded with another environment, or has the scheme already, or if what fails
/// in this environment are observations.
fn converted_identity(
    environment: &dyn Environment,
    old: &Identity,
) -> Result<Identity, ConvertError> {
    demand_same_compiler(environment, old)?;
    let spec = environment.spec();
    let scheme = spec.state_scheme;
    if scheme == old.state_scheme {
        return Err(ConvertError::SameScheme { scheme });
    }
    // A recorder makes a failure on such a space one of the step, and takes the step again.
    if spec.observation_spaces.iter().any(|space| space.is_compiled) {
        return Err(ConvertError::Compiled { environment: spec.name.to_string() });
    }
    let mut new = Identity { format_version: FORMAT_VERSION, state_scheme: scheme, ..old.clone() };
    let here = identity_here(spec, &new)?;
    if let Some((what, lake, here)) = new.difference(&here) {
        return Err(ReplayError::OtherSpaces { what, lake, here }.into());
    }
    let [lake, known] = [&new, &here].map(|identity| identity.action_space.actions.len());
    if lake > known {
        let [lake, here] = [lake, known].map(|count| count.to_string());
        let what = "number of actions".to_owned();
        return Err(ReplayError::OtherSpaces { what, lake, here }.into());
    }
    for (action, here) in new.action_space.actions.iter_mut().zip(&here.action_space.actions) {
        let (flags, here) = (&mut action.flags, here.flags);
        flags.replayable &= here.replayable;
        flags.crashes |= here.crashes;
        flags.slow |= here.slow;
        flags.never_changes &= here.never_changes;
    }
    Ok(new)
}

/// Returns the identity of a lake that records the environment in the spaces of another one.
fn identity_here(spec: &EnvironmentSpec, lake: &Identity) -> Result<Identity, ConvertError> {
    let name = &lake.action_space.name;
    let Some(space) = spec.action_space(name) else {
        let known = spec.action_spaces.iter().map(|space| space.name.as_str());
        let here = known.collect::<Vec<_>>().join(", ");
        let (what, lake) = ("action space".to_owned(), name.clone());
        return Err(ReplayError::OtherSpaces { what, lake, here }.into());
    };
    let observations = lake.observations.iter().map(|space| space.name.clone());
    let observations = observations.collect::<Vec<_>>();
    let rewards = lake.rewards.iter().map(|space| space.name.clone()).collect::<Vec<_>>();
    let choice = SpaceChoice { observations: Some(&observations), rewards: Some(&rewards) };
    Ok(identity(spec, space, &choice)?)
}

/// Returns a run of the old lake as the new one has it. Its name follows from the old one, so that
/// all conversions of a run are one run.
fn converted_run(run: &RunRow, scheme: u32) -> RunRow {
    let text = format!("steplake convert {scheme} {}", run.uid);
    let uid = blake3::hash(text.as_bytes()).to_hex()[..UID_DIGITS].to_owned();
    let mut arguments = serde_json::from_str::<serde_json::Value>(&run.arguments)
        .unwrap_or_else(|_no_json| serde_json::json!({ "arguments": run.arguments }));
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.insert("converted_from".to_owned(), run.uid.clone().into());
    }
    // The steps of the new run are others, and nobody has audited them.
    let (audited_steps, differing_steps) = (0, 0);
    let arguments = arguments.to_string();
    RunRow { uid, arguments, audited_steps, differing_steps, ..run.clone() }
}
