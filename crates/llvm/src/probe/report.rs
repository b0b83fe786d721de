//! What a probe found, and the flags that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::child::ActionTrial;
use crate::spaces::{format_rows, parse_rows};
use steplake_model::ActionFlags;

/// The least CPU time of an action that counts as slow.
pub const SLOW_CPU_MIN: Duration = Duration::from_secs(2);

/// What was found out about one pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedPipeline {
    /// How often the pipeline ran.
    pub steps: u64,
    /// How often it led to another state.
    pub changes: u64,
    /// How often it led elsewhere from the state's stored bitcode.
    pub replay_differs: u64,
    /// How often it led elsewhere, or crashed, in another process with another heap.
    pub process_differs: u64,
    /// How often the state after it did not come back the same from its bitcode.
    pub reread_differs: u64,
    /// How often it killed the process.
    pub crashes: u64,
    /// How often the verifier rejected its result.
    pub broken: u64,
    /// How often it exceeded its CPU time.
    pub time_outs: u64,
    /// The CPU time of all steps together.
    pub cpu: Duration,
    /// The CPU time of the longest step.
    pub cpu_max: Duration,
    /// The names that it registered in the context beyond the fixed lists.
    pub registered: BTreeSet<String>,
    /// The first place where something went wrong.
    pub example: Option<String>,
}

impl ProbedPipeline {
    /// Records a step.
    pub(super) fn record(&mut self, trial: &ActionTrial, place: &str) {
        self.steps += 1;
        self.changes += u64::from(trial.changed);
        self.cpu += trial.cpu;
        self.cpu_max = self.cpu_max.max(trial.cpu);
        if !trial.registered.is_empty() {
            self.registered.insert(trial.registered.clone());
        }
        for (is, count, what) in [
            (trial.state.is_none(), &mut self.broken, "broken"),
            (trial.replayed != trial.state, &mut self.replay_differs, "replay"),
            (trial.reread != trial.state, &mut self.reread_differs, "re-read"),
        ] {
            if is {
                *count += 1;
                self.example.get_or_insert_with(|| format!("{what}: {place}"));
            }
        }
    }

    /// Remembers the first place where something went wrong.
    pub(super) fn point_out(&mut self, what: &str, place: &str) {
        self.example.get_or_insert_with(|| format!("{what}: {place}"));
    }

    /// Returns the flags that follow from the finding.
    pub fn flags(&self) -> ActionFlags {
        let differs = self.replay_differs + self.process_differs + self.reread_differs;
        ActionFlags {
            replayable: differs == 0 && self.registered.is_empty(),
            crashes: self.crashes + self.broken > 0,
            slow: self.time_outs > 0 || self.cpu_max >= SLOW_CPU_MIN,
            never_changes: self.changes == 0,
        }
    }
}

/// What a probe found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeReport {
    /// One finding for each pipeline.
    pub findings: BTreeMap<String, ProbedPipeline>,
}

impl ProbeReport {
    /// Returns the table of an action space with the flags that were found. Rows and order stay, as
    /// they are fixed for a version of a space. An action that was not run keeps its flags, as does
    /// one that does nothing on purpose. An action that is not replayable stays that: results that
    /// do not differ prove nothing.
    ///
    /// # Errors
    ///
    /// If `table` is not such a table.
    pub fn update_table(&self, table: &str) -> Result<String, String> {
        let mut rows = parse_rows(table)?;
        for row in &mut rows {
            if let Some(finding) = self.findings.get(&row.spec.pipeline)
                && finding.steps + finding.crashes + finding.time_outs > 0
            {
                let ActionFlags { replayable, .. } = row.spec.flags;
                row.spec.flags = finding.flags();
                row.spec.flags.replayable &= replayable;
            }
        }
        Ok(format_rows(&rows))
    }

    /// Formats the findings as a table for people; pipelines with problems come first.
    pub fn table(&self) -> String {
        let mut lines = vec![
            "pipeline\tsteps\tchanges\treplay\tprocess\tre-read\tcrashes\tbroken\ttime-outs\t\
             mean_us\tmax_us\tregistered\texample"
                .to_owned(),
        ];
        let mut findings: Vec<_> = self.findings.iter().collect();
        findings.sort_by_key(|(_, finding)| finding.example.is_none());
        for (pipeline, f) in findings {
            let mean = f.cpu.as_micros() / u128::from(f.steps.max(1));
            let registered: Vec<_> = f.registered.iter().map(String::as_str).collect();
            lines.push(format!(
                "{pipeline}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{mean}\t{}\t{}\t{}",
                f.steps,
                f.changes,
                f.replay_differs,
                f.process_differs,
                f.reread_differs,
                f.crashes,
                f.broken,
                f.time_outs,
                f.cpu_max.as_micros(),
                registered.join("; "),
                f.example.as_deref().unwrap_or(""),
            ));
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::ACTION_SPACES;

    fn trial() -> ActionTrial {
        let state = || Some("01".repeat(20));
        ActionTrial {
            state: state(),
            replayed: state(),
            reread: state(),
            changed: true,
            cpu: Duration::from_millis(1),
            registered: String::new(),
        }
    }

    fn flags_after(trial: &ActionTrial) -> ActionFlags {
        let mut finding = ProbedPipeline::default();
        finding.record(trial, "here");
        finding.flags()
    }

    #[test]
    fn each_finding_has_its_flag() {
        let fine = ActionFlags::UNREMARKABLE;
        assert_eq!(flags_after(&trial()), fine);
        let unlike = ActionFlags { replayable: false, ..fine };
        assert_eq!(flags_after(&ActionTrial { replayed: None, ..trial() }), unlike);
        assert_eq!(flags_after(&ActionTrial { reread: None, ..trial() }), unlike);
        let registered = "metadata kind x".to_owned();
        assert_eq!(flags_after(&ActionTrial { registered, ..trial() }), unlike);
        let broken = ActionTrial { state: None, replayed: None, reread: None, ..trial() };
        assert_eq!(flags_after(&broken), ActionFlags { crashes: true, ..fine });
        let slow = ActionTrial { cpu: SLOW_CPU_MIN, ..trial() };
        assert_eq!(flags_after(&slow), ActionFlags { slow: true, ..fine });
        let idle = ActionTrial { changed: false, ..trial() };
        assert_eq!(flags_after(&idle), ActionFlags { never_changes: true, ..fine });
    }

    #[test]
    fn a_table_takes_over_what_was_found_and_keeps_the_rest() {
        let mut report = ProbeReport::default();
        let mut finding = ProbedPipeline::default();
        finding.record(&ActionTrial { replayed: None, ..trial() }, "here");
        report.findings.insert("function(adce)".to_owned(), finding);
        let table = ACTION_SPACES[2].1;
        let updated = report.update_table(table).unwrap();
        let differing: Vec<_> =
            table.lines().zip(updated.lines()).filter(|(old, new)| old != new).collect();
        assert_eq!(differing.len(), 1);
        assert!(differing[0].1.starts_with("-adce,function(adce),false,false,"));
    }

    #[test]
    fn an_action_that_is_not_replayable_stays_flagged_where_a_probe_sees_no_difference() {
        let mut report = ProbeReport::default();
        let mut finding = ProbedPipeline::default();
        finding.record(&trial(), "here");
        assert!(finding.flags().replayable);
        report.findings.insert("function(loop-unroll)".to_owned(), finding);
        let table = ACTION_SPACES[2].1;
        assert_eq!(report.update_table(table).unwrap(), table);
    }
}
