//! Many states of many programs, checked at once.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::blame::BlameSearch;
use super::draw::DrawnState;
use super::finding::Miscompilation;
use super::judge::{ExpectedBehaviour, Judge};
use super::{CheckedProgram, SemanticsError};
use steplake_env::Environment;
use steplake_lake::OnProgress;
use steplake_lake::progress::{Thread, in_threads};
use steplake_model::{BenchmarkUri, StateId};
use steplake_programs::execution::Difference;
use steplake_sandbox::Interrupt;

/// How many states are checked before those that differ are minimised. This is all that is not
/// minimised if the check ends early. It does not depend on the number of sessions, and nothing
/// that is found does.
const CHUNK_STATES_MAX: usize = 64;

/// How many sequences are tried at most to minimise one.
const TRIALS_MAX: usize = 500;

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

/// The result of checking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SemanticsReport {
    /// Number of programs that were run and do the same whenever they run.
    pub programs: usize,
    /// Number of states that behave as the first state of their program.
    pub same: usize,
    /// Number of those whose first state could be run with `AddressSanitizer`, and which could not.
    pub unsanitized: usize,
    /// Number of states that behave otherwise. All have a finding, unless the check ended early.
    pub differing: usize,
    /// The miscompilations.
    pub findings: Vec<Miscompilation>,
    /// Programs and states that were left out, or tell nothing.
    pub excused: Vec<Excused>,
    /// Why sanitizers were not used, each reason once.
    pub unavailable: Vec<String>,
}

/// Plays, builds and runs drawn states on `jobs` sessions of `environment`, whose sessions should
/// be in worker processes. Calls `progress` with the number of programs and states that are done
/// and of all. What is found depends on the order of the states, and not on `jobs`.
///
/// Returns what was found, also if an error ended the check early, or a break. What a program or a
/// compiler does wrong is no error.
pub fn check_semantics(
    environment: &dyn Environment,
    action_space: &str,
    subjects: &[CheckedProgram],
    drawn: &[DrawnState],
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> (SemanticsReport, Result<(), SemanticsError>) {
    let mut wanted: Vec<usize> = drawn.iter().map(|drawn| drawn.program).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let all = (wanted.len() + drawn.len()) as u64;
    let mut done = 0;
    let mut hear = |more| {
        done += more;
        progress(done, all)
    };
    let mut check = ProgramCheck {
        environment,
        action_space,
        subjects,
        jobs,
        references: HashMap::new(),
        findings: Mutex::default(),
        report: SemanticsReport::default(),
    };
    let mut chunks = drawn.chunks(CHUNK_STATES_MAX);
    let ended = check.find_references(&wanted, &mut hear);
    let ended = ended.and_then(|()| chunks.try_for_each(|chunk| check.states(chunk, &mut hear)));
    let ProgramCheck { mut report, findings, .. } = check;
    report.findings = findings.into_inner();
    report.findings.sort_by(|one, other| {
        (one.subject, &one.actions, one.state).cmp(&(other.subject, &other.actions, other.state))
    });
    (report, ended)
}

/// What became of a drawn state.
enum CheckedState {
    /// The program behaves as in its first state.
    Same { is_sanitized: bool },
    /// It behaves otherwise, and something is to blame for it.
    Differs(Difference),
    /// Nothing can be said, for this reason.
    Excused(String),
}

/// A check under way.
struct ProgramCheck<'a> {
    environment: &'a dyn Environment,
    action_space: &'a str,
    subjects: &'a [CheckedProgram],
    jobs: usize,
    /// Of each program that can tell right from wrong.
    references: HashMap<usize, ExpectedBehaviour>,
    findings: Mutex<Vec<Miscompilation>>,
    report: SemanticsReport,
}

/// Hears how much more is done.
type Hear<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

impl ProgramCheck<'_> {
    /// Finds out what the programs should do.
    fn find_references(
        &mut self,
        wanted: &[usize],
        hear: &mut Hear<'_>,
    ) -> Result<(), SemanticsError> {
        let subjects = self.subjects;
        let (references, ended) =
            self.each(wanted, hear, |judge, &place, _| judge.reference(&subjects[place]));
        let report = &mut self.report;
        for (&place, reference) in wanted.iter().zip(references) {
            let benchmark = subjects[place].benchmark.clone();
            match reference {
                None => {}
                Some(Err(why)) => report.excused.push(Excused { benchmark, state: None, why }),
                Some(Ok(reference)) => {
                    report.programs += 1;
                    for why in &reference.unavailable {
                        if !report.unavailable.contains(why) {
                            report.unavailable.push(why.clone());
                        }
                    }
                    if let Some(why) = reference.oracle.remark() {
                        let (benchmark, why) = (benchmark.clone(), why.to_owned());
                        report.excused.push(Excused { benchmark, state: None, why });
                    }
                    if let Some(undefined) = &reference.undefined {
                        let why = format!("it has undefined behaviour of its own: {undefined}");
                        report.excused.push(Excused { benchmark, state: None, why });
                    }
                    self.references.insert(place, reference);
                }
            }
        }
        ended
    }

    /// Checks states, then finds what is to blame where they differ: in their order, since what is
    /// known by then is not minimised again.
    fn states(&mut self, drawn: &[DrawnState], hear: &mut Hear<'_>) -> Result<(), SemanticsError> {
        let (subjects, references) = (self.subjects, &self.references);
        let (checked, ended) = self.each(drawn, hear, |judge, drawn, _| {
            let reference = references.get(&drawn.program);
            reference
                .map(|reference| state(judge, &subjects[drawn.program], reference, drawn))
                .transpose()
        });
        let mut of_programs: BTreeMap<usize, Vec<&DrawnState>> = BTreeMap::new();
        for (drawn, checked) in drawn.iter().zip(&checked) {
            if let Some(Some(CheckedState::Differs(_))) = checked {
                of_programs.entry(drawn.program).or_default().push(drawn);
            }
        }
        let of_programs = of_programs.into_values().collect::<Vec<_>>();
        let (findings, blamed) = (&self.findings, Mutex::new(HashMap::new()));
        // These states are counted already.
        let mut hear = |_| hear(0);
        let ended = ended.and_then(|()| {
            let (_, ended) = self.each(&of_programs, &mut hear, |judge, of_program, thread| {
                for drawn in of_program {
                    let (place, subject) = (drawn.program, &subjects[drawn.program]);
                    let reference = &references[&place];
                    let (ask, trials_max) = (|| Ok(thread.ask()?), TRIALS_MAX);
                    let ask = &ask;
                    let mut blame =
                        BlameSearch { judge, place, subject, reference, findings, ask, trials_max };
                    let result = blame.of(&drawn.actions())?;
                    let mut blamed = blamed.lock();
                    blamed.insert((place, drawn.state), result);
                }
                Ok(())
            });
            ended
        });
        let mut blamed = blamed.into_inner();
        for (drawn, checked) in drawn.iter().zip(checked) {
            let blamed = blamed.remove(&(drawn.program, drawn.state));
            self.note(drawn, checked.flatten(), blamed);
        }
        ended
    }

    /// Takes down what became of a state. `blamed` says whether something is to blame, and why not;
    /// there is none if the check ended before.
    fn note(
        &mut self,
        drawn: &DrawnState,
        checked: Option<CheckedState>,
        blamed: Option<Result<(), String>>,
    ) {
        let report = &mut self.report;
        let why = match (checked, blamed) {
            (None, _) => return,
            (Some(CheckedState::Same { is_sanitized }), _) => {
                report.same += 1;
                report.unsanitized += usize::from(!is_sanitized);
                return;
            }
            (Some(CheckedState::Differs(_)), Some(Ok(()))) => {
                report.differing += 1;
                return;
            }
            (Some(CheckedState::Differs(difference)), None) => {
                report.differing += 1;
                let line = difference.line();
                format!("the check ended before its actions were minimised: {line}")
            }
            (Some(CheckedState::Differs(_)), Some(Err(why)))
            | (Some(CheckedState::Excused(why)), _) => why,
        };
        let benchmark = self.subjects[drawn.program].benchmark.clone();
        report.excused.push(Excused { benchmark, state: Some(drawn.state), why });
    }

    /// Does a piece of work for each item on some threads, each with a judge of its own. The
    /// results are in the order of the items. Those that an error keeps from being done have none.
    fn each<I: Sync, T: Send>(
        &self,
        items: &[I],
        hear: &mut Hear<'_>,
        work: impl Fn(&mut Judge<'_>, &I, &Thread<'_>) -> Result<T, SemanticsError> + Sync,
    ) -> (Vec<Option<T>>, Result<(), SemanticsError>) {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(items.iter().map(|_| None).collect::<Vec<_>>());
        let (environment, action_space) = (self.environment, self.action_space);
        let take = |(), thread: &Thread<'_>| -> Result<(), SemanticsError> {
            let mut judge =
                Judge::new(environment, action_space, true, false, Interrupt::default());
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(place) else { return Ok(()) };
                thread.demand_go_on()?;
                let result = work(&mut judge, item, thread)?;
                results.lock()[place] = Some(result);
                thread.did(1);
            }
        };
        let jobs = self.jobs.clamp(1, items.len().max(1));
        let ended = in_threads(vec![(); jobs], take, hear).map(drop);
        (results.into_inner(), ended)
    }
}

/// Checks a state.
fn state(
    judge: &mut Judge<'_>,
    subject: &CheckedProgram,
    reference: &ExpectedBehaviour,
    drawn: &DrawnState,
) -> Result<CheckedState, SemanticsError> {
    if let Err(why) = reach(judge, subject, drawn)? {
        return Ok(CheckedState::Excused(why));
    }
    let Some(seen) = judge.here(subject, reference)? else {
        return Ok(CheckedState::Same { is_sanitized: judge.unsanitized.is_none() });
    };
    if reference.undefined.is_some() {
        let line = seen.line();
        return Ok(CheckedState::Excused(format!(
            "undefined behaviour of the program shows: {line}"
        )));
    }
    let doubt = judge.doubt(subject, subject, reference, &drawn.actions(), &seen)?;
    Ok(doubt.map_or(CheckedState::Differs(seen), CheckedState::Excused))
}

/// Plays the recorded actions, and compares the states with the recorded ones. The inner error says
/// where they led elsewhere.
fn reach(
    judge: &mut Judge<'_>,
    subject: &CheckedProgram,
    drawn: &DrawnState,
) -> Result<Result<(), String>, SemanticsError> {
    let played = match judge.player.play(subject, &drawn.actions())? {
        Ok(played) => played,
        Err(why) => return Ok(Err(why)),
    };
    let differs = |((_, recorded), (found, _)): (&(_, StateId), &(StateId, _))| recorded != found;
    Ok(match drawn.path.iter().zip(&played).position(differs) {
        None => Ok(()),
        Some(place) => {
            let ((action, recorded), found) = (drawn.path[place], played[place].0);
            let action = action.0;
            Err(format!("action {action} led to {found} this time, and to {recorded} in the lake"))
        }
    })
}
