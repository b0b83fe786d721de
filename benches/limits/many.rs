//! Many programs, few episodes each: what is computed once per program matters.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use steplake::generate::PolicyName;
use steplake::lake::{Lake, Table};

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

/// What is recorded: the actions, and the policy that chooses among them.
struct Way {
    environment: Listed,
    policy: PolicyName,
    rounds: Vec<Round>,
}

impl Way {
    fn name(&self) -> String {
        format!("{}, {}", self.environment.space().name, self.policy)
    }
}

/// A recording, and the unit before and after.
struct Round {
    recorded: Measured,
    /// Unique states.
    states: u64,
    units: [Duration; 2],
}

impl Round {
    fn measure(programs: &Loaded, way: &Way, unit_program: &Path) -> Self {
        let (environment, policy) = (&way.environment, way.policy);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let keyframes = Some(KEYFRAMES);
        let wanted = Episodes { count: EPISODES, jobs: 1, keyframes, observe: None, policy };
        let before = unit(unit_program);
        let path = folder.path().join("lake");
        let recorded = record_in(environment, &path, programs, &wanted);
        let units = [before, unit(unit_program)];
        let lake = Lake::open(&path).and_then(|lake| lake.snapshot());
        let states = lake.expect("it was just recorded").rows(Table::Observations);
        Self { recorded, states, units }
    }

    fn steps_per_unit(&self) -> f64 {
        let unit = (self.units[0] + self.units[1]) / 2;
        self.recorded.per_cpu_second() * unit.as_secs_f64()
    }

    fn states_per_unit(&self) -> f64 {
        self.steps_per_unit() * self.states as f64 / self.recorded.steps as f64
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
    let mut ways = ways();
    for number in 1..=rounds {
        for way in &mut ways {
            let round = Round::measure(&programs, way, &unit_program);
            let what = format!("{}, round {number} of {rounds}", way.name());
            let [before, after] = round.units.map(|unit| unit.as_secs_f64() * 1e3);
            let note = format!(
                "steps a unit; {} steps, {:.0} a CPU second; {} states; unit {before:.1} and {after:.1} ms",
                round.recorded.steps,
                round.recorded.per_cpu_second(),
                round.states,
            );
            line(&what, &format!("{:.1}", round.steps_per_unit()), &note);
            way.rounds.push(round);
        }
    }
    for way in &ways {
        let [median, least, most] = spread(&way.rounds, Round::steps_per_unit);
        let what = format!("{}: recorded steps a unit", way.name());
        line(&what, &format!("{median:.1}"), &format!("target 36 ({least:.1} to {most:.1})"));
        let [median, least, most] = spread(&way.rounds, Round::states_per_unit);
        let what = format!("{}: unique states a unit", way.name());
        line(&what, &format!("{median:.1}"), &format!("({least:.1} to {most:.1})"));
    }
}

/// Both lists of actions with random ones, and the default list with `explore`.
fn ways() -> [Way; 3] {
    let [first, default] = Listed::all(&Known::default());
    let [_, again] = Listed::all(&Known::default());
    let explore = "explore".parse().expect("there is such a policy");
    [(first, PolicyName::RANDOM), (default, PolicyName::RANDOM), (again, explore)]
        .map(|(environment, policy)| Way { environment, policy, rounds: Vec::new() })
}
