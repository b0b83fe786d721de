//! Verification of a lake as far as this machine can: its bytes, and with the lake's own compiler
//! also its state ids, its baselines and some of its transitions. On request, a repair comes first.

mod semantics;
mod text;

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::ControlFlow;

pub(super) use self::semantics::note_findings;
use self::semantics::{SemanticsRequest, SemanticsRun, run_some};
use crate::Error;
use crate::dedup::{Compared, DedupOptions, compare, dedup};
use crate::env::Environment;
use crate::environments::{Environments, environment_of_lake};
use crate::how_run::HowRun;
use crate::lake::progress::demand;
use crate::lake::{Identity, Lake, RunRow, Snapshot, SnapshotId, Table};
use crate::model::{ActionIndex, ActionSpec};
use crate::replay::recompute::{self, BaselineReport, Ids};
use crate::replay::{ReplayError, ReplayReport, demand_same, draw, replay};
use crate::semantics::SemanticsReport;
use crate::upkeep::{Repaired, StoredState, VerifyReport};

/// Number of programs whose baselines are recomputed.
const BASELINES_SAMPLE: usize = 8;

/// What to verify.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// The snapshot to check; by default the lake at this moment.
    pub snapshot: Option<SnapshotId>,
    /// How many random transitions to replay in the live environment, if any.
    pub replay: Option<usize>,
    /// How many random states to build and run, if any.
    pub semantics: Option<usize>,
    /// Fixes the transitions to replay, the states to run, and the programs whose baselines are
    /// recomputed.
    pub seed: i64,
    /// Whether to count the steps again and compare the derived tables with what follows.
    pub derived: bool,
    /// Whether to first drop what is damaged and make the derived tables anew.
    pub repair: bool,
    /// How programs of the user's own (`file:///…`) are run, whatever the lake says of them.
    pub how_run: Option<HowRun>,
}

/// How far a verification is, in the part that it is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyProgress {
    /// Steps are counted: after a repair to make the derived tables anew, or to compare them.
    Derived {
        /// Steps read.
        done: u64,
        /// Steps to read.
        all: u64,
    },
    /// The bytes are checked, and the state ids if there is a compiler.
    Checked {
        /// Bytes checked.
        done: u64,
        /// Bytes to check.
        all: u64,
        /// Number of states passed on to have their ids recomputed.
        ids: u64,
    },
    /// The baselines of programs are recomputed.
    Measured {
        /// Programs measured.
        done: u64,
        /// Programs to measure.
        all: u64,
    },
    /// Programs are built and run.
    Run {
        /// Programs and states that were run.
        done: u64,
        /// Those to run.
        all: u64,
    },
    /// Transitions are replayed.
    Replayed {
        /// Transitions replayed.
        done: u64,
        /// Transitions to replay.
        all: u64,
    },
}

/// Follows a verification, in the thread that asked for it.
pub trait VerifyObserver {
    /// Hears how far the verification is, several times a second, and says whether to go on. The
    /// first call of each part comes before its work. A repair hears no break before it is done.
    fn progress(&self, progress: VerifyProgress) -> ControlFlow<()>;

    /// Takes one or more lines of the report, each with its end, as soon as they are known.
    ///
    /// # Errors
    ///
    /// An error ends the verification, which returns it.
    fn said(&self, text: &str) -> Result<(), Error>;

    /// Words an error for the report, with what helps.
    fn worded(&self, error: &Error) -> String {
        error.to_string()
    }
}

/// The result of a verification.
#[derive(Debug, Clone, Default)]
pub struct Verification {
    /// What the repair did, if one was wanted.
    pub repaired: Option<Repaired>,
    /// What checking the bytes found.
    pub bytes: VerifyReport,
    /// What recomputing the state ids found.
    pub ids: Ids,
    /// What recomputing baselines found; `None` without the lake's compiler, or if the bytes are
    /// not sound.
    pub baselines: Option<BaselineReport>,
    /// How the derived tables compare with the steps, if that was wanted and the bytes are sound.
    pub derived: Option<Compared>,
    /// What replaying found, if it was wanted.
    pub replayed: Option<ReplayReport>,
    /// What running programs found, if it was wanted and there was something to run.
    pub semantics: Option<SemanticsReport>,
    /// The report, in lines.
    pub text: String,
    found: bool,
}

impl Verification {
    /// Returns whether nothing is wrong, the meaning of programs included. A transition with
    /// another result is nothing wrong if its action is flagged as not replayable, and neither is
    /// what a repair dropped.
    pub fn is_sound(&self) -> bool {
        !self.found
    }
}

/// Verifies a lake. Damage is no error but a finding, and so is a miscompilation, which becomes a
/// row of `miscompilations` if the lake can be written.
///
/// # Errors
///
/// If the lake cannot be read at all, if a repair cannot be made, if there is no such snapshot, if
/// transitions are to be replayed without the lake's compiler, or if `observer` returns an error. A
/// break ends it with the code of an interruption.
pub fn verify(
    environments: &Environments,
    lake: &Lake,
    options: &VerifyOptions,
    observer: &dyn VerifyObserver,
) -> Result<Verification, Error> {
    let mut done = Verification::default();
    if options.repair {
        repair(lake, observer, &mut done)?;
    }
    // A damaged lake may not be readable.
    let (runs, conflicts) = snapshot(lake, options).map_or_else(
        |_damaged| (Vec::new(), 0),
        |snapshot| (snapshot.runs().to_vec(), snapshot.rows(Table::Conflicts)),
    );
    let environment = environment_of_lake(lake.identity()).map_err(|error| error.to_string());
    let doubted = doubted(lake.identity(), environment.as_deref().ok());
    let scheme = environment.as_ref().map(|here| here.spec().state_scheme);
    let is_foreign = scheme.is_ok_and(|scheme| scheme != lake.identity().state_scheme);
    let compiler =
        environment.and_then(|here| compiler(environments, here.as_ref(), lake.identity(), &runs));
    let scope = Scope { at: options.snapshot, doubted };
    (done.bytes, done.ids) = check(lake, &scope, compiler.as_deref().ok(), observer)?;
    let space = &lake.identity().action_space;
    let found = text::findings(&done.bytes, &done.ids, space, is_foreign);
    say(observer, &mut done.text, &found)?;
    done.found |= !done.bytes.is_sound() || !done.ids.findings.is_empty();
    say(observer, &mut done.text, &text::audited(&runs, conflicts))?;
    let unavailable = done.ids.unavailable.clone();
    match compiler.and_then(|workers| unavailable.map_or(Ok(workers), Err)) {
        Err(why) => say(observer, &mut done.text, &text::bytes_only(&why, done.ids.compared))?,
        // A damaged lake may not be readable.
        Ok(_) if !done.bytes.findings.is_empty() => {}
        Ok(workers) => {
            let snapshot = snapshot(lake, options)?;
            let (count, seed) = (BASELINES_SAMPLE, options.seed);
            let mut show = |done, all| observer.progress(VerifyProgress::Measured { done, all });
            let report =
                recompute::baselines(workers.as_ref(), &snapshot, count, seed, jobs(), &mut show)?;
            say(observer, &mut done.text, &text::baselines(&report))?;
            done.found |= !report.differing.is_empty();
            done.baselines = Some(report);
        }
    }
    if options.derived && done.bytes.findings.is_empty() {
        compare_derived(lake, options, observer, &mut done)?;
    } else if options.derived {
        // A damaged lake may not be readable.
        say(observer, &mut done.text, text::DERIVED_NOT_COMPARED)?;
    }
    if let Some(count) = options.replay {
        let drawn = (count, options.seed);
        let snapshot = snapshot(lake, options)?;
        replay_some(environments, &snapshot, drawn, &scope.doubted, observer, &mut done)?;
    }
    if let Some(count) = options.semantics {
        run_programs(environments, lake, count, options, observer, &mut done)?;
    }
    Ok(done)
}

/// Passes lines on, and keeps them.
fn say(observer: &dyn VerifyObserver, kept: &mut String, lines: &str) -> Result<(), Error> {
    kept.push_str(lines);
    observer.said(lines)
}

fn snapshot(lake: &Lake, options: &VerifyOptions) -> Result<Snapshot, Error> {
    Ok(options.snapshot.map_or_else(|| lake.snapshot(), |at| lake.snapshot_at(at))?)
}

/// What is checked, and what of it is in doubt.
struct Scope {
    at: Option<SnapshotId>,
    /// Actions that need not lead to the same state again.
    doubted: HashSet<ActionIndex>,
}

/// Returns the actions of a lake that need not lead to the same state again, by the flags of today.
/// Those in the lake may be older: a probe, or a look at the compiler, may have told more since. Of
/// a lake of another scheme of state ids the flags of today say nothing.
fn doubted(lake: &Identity, here: Option<&dyn Environment>) -> HashSet<ActionIndex> {
    let space = &lake.action_space;
    let here = here.map(Environment::spec).filter(|spec| spec.state_scheme == lake.state_scheme);
    let today = here.and_then(|spec| spec.action_space(&space.name));
    let flags = |(index, action): (ActionIndex, &ActionSpec)| {
        let known = today.and_then(|today| today.get(index));
        let flags = known.filter(|known| known.name == action.name).unwrap_or(action).flags;
        (!flags.is_dependable()).then_some(index)
    };
    (0..).map(ActionIndex).zip(&space.actions).filter_map(flags).collect()
}

/// Opens the lake's own compiler in worker processes, or returns why it is not available.
fn compiler(
    environments: &Environments,
    environment: &dyn Environment,
    lake: &Identity,
    runs: &[RunRow],
) -> Result<Box<dyn Environment>, String> {
    match demand_same(environment, lake) {
        Ok(()) => Ok(environments.workers(environment, runs)),
        Err(ReplayError::OtherEnvironment { lake, here }) => {
            Err(format!("the lake was recorded with {lake}, and what is here is {here}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Checks the bytes, and the ids if there is a compiler.
fn check(
    lake: &Lake,
    scope: &Scope,
    compiler: Option<&dyn Environment>,
    observer: &dyn VerifyObserver,
) -> Result<(VerifyReport, Ids), Error> {
    let (at, states) = (Cell::new((0, 0)), Cell::new(0));
    let goes_on = Cell::new(ControlFlow::Continue(()));
    // Two parts of the work ask in turns: a break ends both.
    let show = || {
        let ((done, all), ids) = (at.get(), states.get());
        if goes_on.get().is_continue() {
            goes_on.set(observer.progress(VerifyProgress::Checked { done, all, ids }));
        }
        goes_on.get()
    };
    let mut read = |done, all| {
        at.set((done, all));
        show()
    };
    demand(show())?;
    let (report, ids) = match compiler {
        None => {
            let mut pass = |_: StoredState| ControlFlow::Continue(());
            let doubted = scope.doubted.clone();
            (lake.verify_ways_back(scope.at, doubted, &mut read, &mut pass), Ids::default())
        }
        Some(workers) => recompute::ids(workers, jobs(), &mut |_, _| show(), |compare| {
            let doubted = scope.doubted.clone();
            lake.verify_ways_back(scope.at, doubted, &mut read, &mut |stored: StoredState| {
                states.set(states.get() + 1);
                compare(stored)
            })
        })?,
    };
    Ok((report?, ids))
}

/// Returns the number of concurrent sessions.
fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Drops what is damaged and reports it.
fn repair(
    lake: &Lake,
    observer: &dyn VerifyObserver,
    done: &mut Verification,
) -> Result<(), Error> {
    let repaired = lake.repair()?;
    say(observer, &mut done.text, &text::dropped(&repaired))?;
    let sealed = lake.sealed()?;
    // A repair that was killed may have left the derived tables empty.
    let is_derived = sealed.demand_derived(Table::StateTransitions).is_ok();
    drop(sealed);
    if !repaired.is_nothing() || !is_derived {
        let mut show = |done, all| observer.progress(VerifyProgress::Derived { done, all });
        demand(show(0, 0))?;
        dedup(&mut lake.maintenance()?, DedupOptions::default(), &mut show)?;
    }
    done.repaired = Some(repaired);
    Ok(())
}

/// Counts the steps again, and compares the derived tables.
fn compare_derived(
    lake: &Lake,
    options: &VerifyOptions,
    observer: &dyn VerifyObserver,
    done: &mut Verification,
) -> Result<(), Error> {
    let snapshot = options.snapshot.map_or_else(|| lake.sealed(), |at| lake.snapshot_at(at))?;
    let mut show = |done, all| observer.progress(VerifyProgress::Derived { done, all });
    demand(show(0, 0))?;
    let compared = compare(lake, &snapshot, DedupOptions::default(), &mut show)?;
    say(observer, &mut done.text, &text::compared(&compared))?;
    done.found |= !compared.findings.is_empty();
    done.derived = Some(compared);
    Ok(())
}

/// Replays some transitions, given how many and the seed by which they are drawn. A result counts
/// as found unless its action is `doubted` or flagged in the lake.
fn replay_some(
    environments: &Environments,
    snapshot: &Snapshot,
    (count, seed): (usize, i64),
    doubted: &HashSet<ActionIndex>,
    observer: &dyn VerifyObserver,
    done: &mut Verification,
) -> Result<(), Error> {
    let environment = environment_of_lake(snapshot.identity())?;
    let workers = environments.workers(environment.as_ref(), snapshot.runs());
    let transitions = draw(snapshot, count, seed)?;
    if transitions.is_empty() {
        done.replayed = Some(ReplayReport::default());
        return say(observer, &mut done.text, text::nothing_to_replay(snapshot, count));
    }
    let mut show = |done, all| observer.progress(VerifyProgress::Replayed { done, all });
    demand(show(0, transitions.len() as u64))?;
    let report = replay(workers.as_ref(), snapshot, &transitions, jobs(), &mut show)?;
    let space = &snapshot.identity().action_space;
    let (lines, agrees) = text::replayed(&report, space, doubted);
    say(observer, &mut done.text, &lines)?;
    done.found |= !agrees;
    done.replayed = Some(report);
    Ok(())
}

/// Runs `count` states of programs. A miscompilation counts as found.
fn run_programs(
    environments: &Environments,
    lake: &Lake,
    count: usize,
    options: &VerifyOptions,
    observer: &dyn VerifyObserver,
    done: &mut Verification,
) -> Result<(), Error> {
    let (seed, is_older) = (options.seed, options.snapshot.is_some());
    let how_run = options.how_run.as_ref();
    let wanted = SemanticsRequest { count, seed, is_older, jobs: jobs(), how_run };
    let snapshot = snapshot(lake, options)?;
    let SemanticsRun { report, text, ended } =
        run_some(environments, lake, &snapshot, wanted, observer)?;
    // What was found before the end is not lost.
    say(observer, &mut done.text, &text)?;
    done.found |= report.as_ref().is_some_and(|report| report.differing > 0);
    done.semantics = report;
    ended
}
