//! Runs walks and notes what they show of each pipeline.

use std::collections::BTreeMap;
use std::io;

use parking_lot::Mutex;

use super::ProbeOptions;
use super::child::{ActionTrial, ProbeTask};
use super::condition::CONDITIONS;
use super::process::{Child, ChildDeath};
use super::report::ProbedPipeline;
use super::walk::ProbeWalk;

/// Runs walks, in one child for each condition.
pub(super) struct Prober<'a> {
    pub(super) options: &'a ProbeOptions,
    pub(super) findings: &'a Mutex<BTreeMap<String, ProbedPipeline>>,
    pub(super) children: [Option<Child>; CONDITIONS.len()],
}

impl Prober<'_> {
    /// Runs a walk under every condition. An action that kills its child is left out from then on.
    pub(super) fn run(&mut self, mut walk: ProbeWalk<'_>) -> io::Result<()> {
        let mut first: Option<Vec<ActionTrial>> = None;
        let mut condition = 0;
        while condition < CONDITIONS.len() {
            match self.run_once(&walk.task, condition)? {
                Ok(trials) => {
                    match &first {
                        None => {
                            for (step, trial) in trials.iter().enumerate() {
                                self.note(&walk, step, |finding, place| {
                                    finding.record(trial, place);
                                });
                            }
                            first = Some(trials);
                        }
                        Some(first) => self.note_difference(&walk, first, &trials),
                    }
                    condition += 1;
                }
                Err((step, death)) => {
                    // Under the earlier conditions, the whole walk got past this action.
                    let differs = first.is_some() && death == ChildDeath::Crash;
                    self.note(&walk, step, |finding, place| {
                        let (count, what) = match death {
                            ChildDeath::TimeOut => (&mut finding.time_outs, "time-out"),
                            ChildDeath::Crash => (&mut finding.crashes, "crash"),
                        };
                        *count += 1;
                        finding.process_differs += u64::from(differs);
                        finding.point_out(what, place);
                    });
                    walk.task.actions.remove(step);
                    // The earlier results include the action that is now left out.
                    first = None;
                    condition = 0;
                }
            }
        }
        Ok(())
    }

    /// Runs a task under one condition. Returns the trials, or which step killed the child and how.
    fn run_once(
        &mut self,
        task: &ProbeTask,
        condition: usize,
    ) -> io::Result<Result<Vec<ActionTrial>, (usize, ChildDeath)>> {
        let child = match &mut self.children[condition] {
            Some(child) => child,
            none => {
                let ProbeOptions { program, arguments, .. } = self.options;
                none.insert(Child::start(program, arguments, CONDITIONS[condition])?)
            }
        };
        let shuffle = task.shuffle.wrapping_add(condition as u64);
        let result = child.run(&ProbeTask { shuffle, ..task.clone() })?;
        if result.is_err() {
            self.children[condition] = None;
        }
        Ok(result)
    }

    /// Notes the first difference between the trials of two conditions: later steps start from
    /// different states.
    fn note_difference(&self, walk: &ProbeWalk<'_>, first: &[ActionTrial], trials: &[ActionTrial]) {
        let pairs = first.iter().zip(trials);
        let differs =
            |(a, b): (&ActionTrial, &ActionTrial)| a.state != b.state || a.replayed != b.replayed;
        if let Some(step) = pairs.into_iter().position(differs) {
            self.note(walk, step, |finding, place| {
                finding.process_differs += 1;
                finding.point_out("process", place);
            });
        }
    }

    /// Changes the finding of a step's pipeline. The change gets a description of the step's place,
    /// so that the step can be repeated by hand.
    fn note(
        &self,
        walk: &ProbeWalk<'_>,
        step: usize,
        change: impl FnOnce(&mut ProbedPipeline, &str),
    ) {
        let (before, rest) = walk.task.actions.split_at(step);
        let place = format!("{} after {}", walk.benchmark.uri, before.join(","));
        let mut findings = self.findings.lock();
        let finding = findings.get_mut(&rest[0]);
        change(finding.expect("findings begin with the pipelines"), &place);
    }
}
