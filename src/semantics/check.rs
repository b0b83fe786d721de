//! Many states of many programs, checked at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::difference::Difference;
use super::draw::DrawnState;
use super::judge::{Judge, Oracle};
use super::minimise::minimise;
use super::{SemanticsError, Subject};
use crate::env::Environment;
use crate::env::worker::Interrupt;
use crate::execution::{Settings, tool_version};
use crate::lake::progress::{Thread, in_threads};
use crate::lake::{LakeError, MiscompilationRow, OnProgress, random_uid};
use crate::measure::compilation;
use crate::model::{ActionIndex, BenchmarkUri, StateId};

/// How many sequences are tried at most to minimise one.
const TRIALS_MAX: usize = 500;

/// A miscompilation: a program behaves otherwise after the last of some actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The place of the program.
    pub subject: usize,
    /// The minimised actions, from the first state on; the last one is to blame.
    pub actions: Vec<ActionIndex>,
    /// The state before the last action, which behaves as expected.
    pub state: StateId,
    /// The state after it.
    pub next_state: StateId,
    /// What differs.
    pub difference: Difference,
    /// Whether the actions are minimal. If not, trials ran out.
    pub minimised: bool,
    /// The length of the recorded sequence.
    pub recorded: usize,
    /// How many drawn states show it: this one, and those whose sequence contains these actions.
    pub states: usize,
}

/// A program, or a state of it, about which nothing can be said, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excused {
    /// The program.
    pub benchmark: BenchmarkUri,
    /// The state; `None` for all drawn states of the program.
    pub state: Option<StateId>,
    /// The reason, one line.
    pub why: String,
}

/// What became of a drawn state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// The program behaves as in its first state.
    Same,
    /// A miscompilation is to blame for its behaviour.
    Miscompiled,
    /// It differs, and the program has undefined behaviour of its own.
    Undefined(Difference),
    /// It differed once and not when it was tried again.
    Unconfirmed(Difference),
    /// The recorded actions led elsewhere this time, or the compiler failed on them.
    NotReached(String),
}

/// The result of checking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SemanticsReport {
    /// Number of programs that were run and do the same whenever they run.
    pub programs: usize,
    /// Number of states that behave as the first state of their program.
    pub same: usize,
    /// The miscompilations.
    pub findings: Vec<Finding>,
    /// Programs and states that were left out, or tell nothing.
    pub excused: Vec<Excused>,
    /// Why sanitizers were not used, each reason once.
    pub unavailable: Vec<String>,
}

impl Finding {
    /// The row of the table `miscompilations`.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers.
    pub fn row(&self, subject: &Subject, found_at_ms: i64) -> Result<MiscompilationRow, LakeError> {
        let tool = tool_version(&subject.execution.build, &Settings::default());
        let tool = tool.unwrap_or_else(|_| "a tool of an unknown version".to_owned());
        Ok(MiscompilationRow {
            uid: random_uid()?,
            benchmark: subject.benchmark.clone(),
            actions: self.actions.clone(),
            state: self.state,
            next_state: self.next_state,
            kind: self.difference.kind,
            subject: self.difference.subject.clone(),
            expected: self.difference.expected.clone(),
            actual: self.difference.actual.clone(),
            minimised: self.minimised,
            compilation: compilation(&subject.execution, &tool),
            found_at_ms,
        })
    }
}

/// Plays, builds and runs drawn states on `jobs` sessions of `environment`, whose sessions should
/// be in worker processes. Calls `progress` with the number of programs and states that are done
/// and of all.
///
/// # Errors
///
/// [`SemanticsError`]; [`LakeError::Interrupted`] at a break. What a program or a compiler does
/// wrong is no error.
pub fn check_semantics(
    environment: &dyn Environment,
    action_space: &str,
    subjects: &[Subject],
    drawn: &[DrawnState],
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> Result<SemanticsReport, SemanticsError> {
    let mut wanted: Vec<usize> = drawn.iter().map(|drawn| drawn.program).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let all = (wanted.len() + drawn.len()) as u64;
    let mut done = 0;
    let mut hear = |more| {
        done += more;
        progress(done, all)
    };
    let new_judge = || Judge::new(environment, action_space, true, false, Interrupt::default());
    let oracles = each(&wanted, jobs, &mut hear, new_judge, |judge, &place, _| {
        Ok((place, judge.oracle(&subjects[place])?))
    })?;
    let mut report = SemanticsReport::default();
    let mut known = HashMap::new();
    for (place, oracle) in oracles {
        let benchmark = subjects[place].benchmark.clone();
        match oracle {
            Ok(oracle) => {
                report.programs += 1;
                let new = oracle.unavailable.iter().filter(|why| !report.unavailable.contains(why));
                let new = new.cloned().collect::<Vec<_>>();
                report.unavailable.extend(new);
                if let Some(undefined) = &oracle.undefined {
                    let why = format!("it has undefined behaviour of its own: {undefined}");
                    report.excused.push(Excused { benchmark, state: None, why });
                }
                known.insert(place, oracle);
            }
            Err(why) => report.excused.push(Excused { benchmark, state: None, why }),
        }
    }
    let findings = Mutex::new(Vec::new());
    let checked = each(drawn, jobs, &mut hear, new_judge, |judge, drawn, thread| {
        let Some(oracle) = known.get(&drawn.program) else { return Ok(None) };
        let subject = &subjects[drawn.program];
        Check { judge, subject, oracle, findings: &findings, thread }.state(drawn).map(Some)
    })?;
    report.findings = findings.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.findings.sort_by(|one, other| {
        (one.subject, &one.actions, one.state).cmp(&(other.subject, &other.actions, other.state))
    });
    for (drawn, checked) in drawn.iter().zip(checked) {
        let why = match checked {
            None | Some(Checked::Miscompiled) => continue,
            Some(Checked::Same) => {
                report.same += 1;
                continue;
            }
            Some(Checked::Undefined(difference)) => {
                format!("undefined behaviour of the program shows: {}", difference.line())
            }
            Some(Checked::Unconfirmed(difference)) => {
                format!("seen once, and not when tried again: {}", difference.line())
            }
            Some(Checked::NotReached(why)) => why,
        };
        let benchmark = subjects[drawn.program].benchmark.clone();
        report.excused.push(Excused { benchmark, state: Some(drawn.state), why });
    }
    Ok(report)
}

/// Does a piece of work for each item on `jobs` threads, each with a judge of its own. The results
/// are in the order of the items.
fn each<'a, I: Sync, T: Send>(
    items: &[I],
    jobs: usize,
    hear: &mut dyn FnMut(u64) -> std::ops::ControlFlow<()>,
    new_judge: impl Fn() -> Judge<'a> + Sync,
    work: impl Fn(&mut Judge<'a>, &I, &Thread<'_>) -> Result<T, SemanticsError> + Sync,
) -> Result<Vec<T>, SemanticsError> {
    let next = AtomicUsize::new(0);
    let take = |(), thread: &Thread<'_>| -> Result<Vec<(usize, T)>, SemanticsError> {
        let mut judge = new_judge();
        let mut results = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return Ok(results) };
            thread.demand_go_on()?;
            results.push((place, work(&mut judge, item, thread)?));
            thread.did(1);
        }
    };
    let jobs = jobs.clamp(1, items.len().max(1));
    let results = in_threads(vec![(); jobs], take, hear)?.into_iter().flatten();
    let mut results = results.collect::<Vec<_>>();
    results.sort_unstable_by_key(|&(place, _)| place);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// The check of one state.
struct Check<'a, 'b> {
    judge: &'a mut Judge<'b>,
    subject: &'a Subject,
    oracle: &'a Oracle,
    findings: &'a Mutex<Vec<Finding>>,
    thread: &'a Thread<'a>,
}

impl Check<'_, '_> {
    fn state(&mut self, drawn: &DrawnState) -> Result<Checked, SemanticsError> {
        let Some(first) = (match self.reached(drawn)? {
            Ok(()) => self.judge.here(self.subject, self.oracle)?,
            Err(why) => return Ok(Checked::NotReached(why)),
        }) else {
            return Ok(Checked::Same);
        };
        if self.oracle.undefined.is_some() {
            return Ok(Checked::Undefined(first));
        }
        // A second run, then one of what a new worker makes.
        let again = self.judge.here(self.subject, self.oracle)?;
        self.judge.player.renew();
        let anew = match self.reached(drawn)? {
            Ok(()) => self.judge.here(self.subject, self.oracle)?,
            Err(why) => return Ok(Checked::NotReached(why)),
        };
        if again.is_none() || anew.is_none() {
            return Ok(Checked::Unconfirmed(first));
        }
        if self.is_known(drawn) {
            return Ok(Checked::Miscompiled);
        }
        self.minimise(drawn)
    }

    /// Plays the recorded actions, and compares the states with the recorded ones.
    fn reached(&mut self, drawn: &DrawnState) -> Result<Result<(), String>, SemanticsError> {
        let played = match self.judge.player.play(self.subject, &actions(drawn))? {
            Ok(played) => played,
            Err(why) => return Ok(Err(why)),
        };
        let differs =
            |((_, recorded), (found, _)): (&(_, StateId), &(StateId, _))| recorded != found;
        Ok(match drawn.path.iter().zip(&played).position(differs) {
            None => Ok(()),
            Some(place) => {
                let (action, recorded) = drawn.path[place];
                let found = played[place].0;
                Err(format!(
                    "action {} led to {found} this time, and to {recorded} in the lake",
                    action.0
                ))
            }
        })
    }

    /// Whether a known finding of the program is part of the actions; counts the state there then.
    fn is_known(&self, drawn: &DrawnState) -> bool {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let of_program = findings.iter_mut().filter(|known| known.subject == drawn.program);
        for known in of_program {
            let mut path = drawn.path.iter();
            if known.actions.iter().all(|wanted| path.any(|(action, _)| action == wanted)) {
                known.states += 1;
                return true;
            }
        }
        false
    }

    fn minimise(&mut self, drawn: &DrawnState) -> Result<Checked, SemanticsError> {
        let recorded = actions(drawn);
        let mut trials = Trials { check: self, verdicts: HashMap::new(), count: 0 };
        let minimised = minimise(&recorded, &mut |actions| trials.shows(actions))?;
        let actions = minimised.items;
        let Ok(played) = self.judge.player.play(self.subject, &actions)? else {
            return Ok(Checked::NotReached("its minimised actions cannot be repeated".to_owned()));
        };
        let Some(difference) = self.judge.here(self.subject, self.oracle)? else {
            let why = "its minimised actions do not show it again".to_owned();
            return Ok(Checked::NotReached(why));
        };
        let states: Vec<StateId> = played.iter().map(|(state, _)| *state).collect();
        let [before @ .., next_state] = states.as_slice() else {
            unreachable!("the program behaves as expected without actions")
        };
        let finding = Finding {
            subject: drawn.program,
            actions,
            state: before.last().copied().unwrap_or(self.subject.initial),
            next_state: *next_state,
            difference,
            minimised: minimised.is_minimal,
            recorded: drawn.path.len(),
            states: 1,
        };
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &&mut Finding| {
            (known.subject, &known.actions) == (finding.subject, &finding.actions)
        };
        match findings.iter_mut().find(same) {
            // Another thread was faster.
            Some(known) => known.states += 1,
            None => findings.push(finding),
        }
        Ok(Checked::Miscompiled)
    }
}

fn actions(drawn: &DrawnState) -> Vec<ActionIndex> {
    drawn.path.iter().map(|(action, _)| *action).collect()
}

/// The trials of a minimisation. Many sequences lead to few states, and a state is run once.
struct Trials<'a, 'b, 'c> {
    check: &'a mut Check<'b, 'c>,
    verdicts: HashMap<StateId, bool>,
    count: usize,
}

impl Trials<'_, '_, '_> {
    /// Whether the program behaves otherwise after these actions; `None` if it is not tried any
    /// more. Where the compiler fails, it does not.
    fn shows(&mut self, actions: &[ActionIndex]) -> Result<Option<bool>, SemanticsError> {
        let Check { judge, subject, oracle, thread, .. } = &mut *self.check;
        thread.ask()?;
        if self.count == TRIALS_MAX {
            return Ok(None);
        }
        self.count += 1;
        let Ok(played) = judge.player.play(subject, actions)? else { return Ok(Some(false)) };
        let state = played.last().map_or(subject.initial, |(state, _)| *state);
        if state == subject.initial {
            return Ok(Some(false));
        }
        if let Some(&known) = self.verdicts.get(&state) {
            return Ok(Some(known));
        }
        let shows = judge.here(subject, oracle)?.is_some();
        self.verdicts.insert(state, shows);
        Ok(Some(shows))
    }
}
