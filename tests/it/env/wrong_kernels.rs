//! Schedules whose kernels compute something else than their program, which a planted back end has.

use std::num::NonZeroU32;

use steplake::env::loops::LoopsState;
use steplake::env::loops::programs::program;
use steplake::execution::RunSettings;
use steplake::lake::{Lake, to_the_end};
use steplake::measure::{
    BackEnd, BuiltKernel, KernelError, MeasureError, MeasuredSpace, Processor, Timing,
    kernel_compilation,
};
use steplake::measurement::{MeasureRequest, WantedStates, measure_lake_on};

use crate::fixtures::support::run;

/// The processor, but kernels of schedules with an unrolled loop are compared with another program.
struct Planted(Processor);

impl BackEnd for Planted {
    type Kernel = (BuiltKernel, bool);

    fn compilation(&self) -> Result<String, MeasureError> {
        let compilation =
            kernel_compilation(&RunSettings::default()).map_err(MeasureError::Machine);
        Ok(format!("planted; {}", compilation?))
    }

    fn build(&self, state: &LoopsState) -> Result<Self::Kernel, KernelError> {
        Ok((self.0.build(state)?, state.text().contains("unroll")))
    }

    fn time(
        &self,
        (kernel, is_wrong): &Self::Kernel,
        seed: u64,
        warmups: u32,
    ) -> Result<f64, KernelError> {
        if *is_wrong {
            let other = LoopsState::initial(program("subtract-24").unwrap());
            kernel.run_as(&other, &Timing { seed, threads: 1, warmups, samples: 1 })?;
        }
        self.0.time(kernel, seed, warmups)
    }
}

fn number(lake: &Lake, statement: &str) -> i64 {
    let answer = run(lake.path(), &["sql", statement, "--format", "csv"]);
    answer.lines().nth(1).unwrap().parse().unwrap_or_else(|_| panic!("{statement}: {answer}"))
}

#[test]
fn a_wrong_kernel_is_a_row_of_miscompilations_and_has_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let add = ["generate", "--env", "loops-v0", "--seed", "3", "-b", "benchmark://loops-v0/add-24"];
    let search = ["--policy", "beam", "--objective", "EstimatedCycles"];
    let bounds = ["--states", "30", "--episode-length", "3"];
    run(&path, &[&add[..], &search, &bounds].concat());
    let lake = Lake::open(&path).unwrap();
    let request = MeasureRequest {
        space: MeasuredSpace::Runtime,
        states: WantedStates::All,
        cost: None,
        benchmarks: Vec::new(),
        samples: NonZeroU32::MIN,
        warmups: 0,
        cpu: None,
        machine: None,
        how_run: None,
    };
    let planted = Planted(Processor(RunSettings::default()));
    let machine = "a machine with a fault".to_owned();
    let report = measure_lake_on(&lake, &request, &planted, machine, &mut to_the_end).unwrap();
    let wrong = report.problems.iter().filter(|problem| problem.is_wrong_result).count();
    assert!(wrong > 0, "{}", report.text());
    assert!(report.demand_right_results().is_err());
    let timed = "SELECT count(*) FROM measurements AS timed \
        JOIN observations AS seen ON seen.state_id = timed.state_id \
        WHERE seen.\"UnrolledCopies\" > 1 \
            OR timed.state_id IN (SELECT next_state_id FROM miscompilations)";
    assert_eq!(number(&lake, timed), 0, "a wrong kernel has a time");
    assert!(number(&lake, "SELECT count(*) FROM measurements") > 0);
    // Each row blames an action that unrolls, where nothing was unrolled before.
    let rows = number(&lake, "SELECT count(*) FROM miscompilations");
    let blamed = "SELECT count(*) FROM miscompilations AS found \
        JOIN observations AS before ON before.state_id = found.state_id \
        WHERE before.\"UnrolledCopies\" = 1 AND found.kind = 'output' \
            AND found.actual_excerpt LIKE 'element %' AND found.compilation LIKE 'planted; %' \
            AND NOT found.minimised";
    assert!(rows > 0, "{}", report.text());
    assert_eq!(number(&lake, blamed), rows);
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}
