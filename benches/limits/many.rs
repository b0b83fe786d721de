//! Many programs, few episodes each: what is computed once per program matters.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::campaign::{Episodes, Loaded, Measured, record_in};
use crate::listed::{Known, Listed};
use crate::{cpu_of, heading, line, spread};

const EPISODES: u64 = 120;
const KEYFRAMES: u32 = 16;
const ROUNDS: usize = 3;

/// The program of the unit.
const UNIT_PROGRAM: &str = "benchmark://steplake-v0/big_integers";
/// Number of compilations for one measurement of the unit.
const UNIT_RUNS: usize = 7;

/// Returns the CPU time of LLVM's own `opt -O3` on one of our programs: the median of several runs.
/// It varies between machines and moments like the measured figures do.
fn unit(program: &Path) -> Duration {
    let compile = || {
        let opt = Command::new("opt-22")
            .args(["-passes=default<O3>", "-o", "/dev/null"])
            .arg(program)
            .stdin(Stdio::null())
            .status();
        assert!(opt.expect("opt-22 of the package llvm-22 starts").success(), "opt-22 failed");
    };
    let mut times: Vec<Duration> = (0..UNIT_RUNS).map(|_| cpu_of(compile).1).collect();
    times.sort_unstable();
    times[UNIT_RUNS / 2]
}

/// A recording, and the unit before and after.
struct Round {
    recorded: Measured,
    units: [Duration; 2],
}

impl Round {
    fn measure(programs: &Loaded, environment: &Listed, unit_program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let wanted =
            Episodes { count: EPISODES, jobs: 1, keyframes: Some(KEYFRAMES), observe: None };
        let before = unit(unit_program);
        let recorded = record_in(environment, &folder.path().join("lake"), programs, &wanted);
        Self { recorded, units: [before, unit(unit_program)] }
    }

    fn steps_per_unit(&self) -> f64 {
        let unit = (self.units[0] + self.units[1]) / 2;
        self.recorded.per_cpu_second() * unit.as_secs_f64()
    }
}

pub(crate) fn run(quick: bool) {
    heading(
        "Many programs, few episodes each: 120 random episodes of 50 steps, baselines included",
    );
    let programs = Loaded::many();
    programs.describe();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let unit_program = folder.path().join("unit.bc");
    let unit = Loaded::new(&[UNIT_PROGRAM]);
    std::fs::write(&unit_program, &unit.get(UNIT_PROGRAM).program).expect("the disk takes a file");
    let rounds = if quick { 1 } else { ROUNDS };
    let mut lists = Listed::all(&Known::default()).map(|environment| (environment, Vec::new()));
    for number in 1..=rounds {
        for (environment, measured) in &mut lists {
            let round = Round::measure(&programs, environment, &unit_program);
            let what = format!("{}, round {number} of {rounds}", environment.space().name);
            let [before, after] = round.units.map(|unit| unit.as_secs_f64() * 1e3);
            let note = format!(
                "steps a unit; {} steps, {:.0} a CPU second; unit {before:.1} and {after:.1} ms",
                round.recorded.steps,
                round.recorded.per_cpu_second()
            );
            line(&what, &format!("{:.1}", round.steps_per_unit()), &note);
            measured.push(round);
        }
    }
    for (environment, measured) in &lists {
        let [median, least, most] = spread(measured, Round::steps_per_unit);
        let what = format!("{}: recorded steps a unit", environment.space().name);
        line(&what, &format!("{median:.1}"), &format!("target 36 ({least:.1} to {most:.1})"));
    }
}
