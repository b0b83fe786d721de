//! The kernel of a schedule: built, checked and timed.
//!
//! The compiler makes machine code of the state's text for this processor, and links it with the
//! harness in `data/loops/harness.c`. Compiler and kernel run in processes of their own, confined
//! as the module `execution` says. The harness makes inputs of a seed, runs the kernel once, shows
//! elements of the outputs, and then times runs by a clock that all threads share. What it shows is
//! [compared](check) with 64-bit arithmetic; a result that is further away than roundings
//! explain has no time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::MeasureError;
use steplake_loops::LoopsState;
use steplake_loops::check::{self, Mismatch};
use steplake_loops::kernel::{TooLarge, VERSION, digest, module};
use steplake_model::{Build, EXECUTABLE, Execution, Linker, ShellCommand};
use steplake_programs::execution::{
    Executable, ExecutableCode, ExecutionError, ProgramEnd, RunSettings, tool_version,
};

/// The program around a kernel.
const HARNESS: &str = include_str!("../../../../data/loops/harness.c");

/// How the compiler makes code of the text: for this processor, and without vectorisers.
const FLAGS: &str = "-O3 -march=native -fno-vectorize -fno-slp-vectorize";

/// The exit code of the harness if a later run of the kernel computes something else.
const UNSTEADY: i32 = 3;

/// The least nanoseconds that a sample takes: shorter kernels run several times for one.
const SAMPLE_NS_MIN: u64 = 2_000_000;

/// Why there is no time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The schedule has no code.
    #[error(transparent)]
    NoCode(#[from] TooLarge),
    /// It computes something else than its program, or not the same whenever it runs.
    #[error("it computes a wrong result: {0}")]
    Wrong(String),
    /// Nothing can be said of any element: roundings may have any effect, or it is no number.
    #[error("its result cannot be checked: {0}")]
    Unchecked(String),
    /// It was not built, or did not run to its end.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The compiler of a device refuses it, or the device has no room for it.
    #[error("{0}")]
    Refused(String),
    /// The device failed.
    #[error("{0}")]
    Device(String),
}

impl KernelError {
    /// Tells the machine's failures, after which nothing can be measured, from those of one kernel.
    ///
    /// # Errors
    ///
    /// The error itself, if it is of the kernel.
    pub fn machine(self) -> Result<MeasureError, Self> {
        match self {
            Self::Execution(error @ ExecutionError::Machine(_)) => Ok(MeasureError::Machine(error)),
            Self::Device(what) => Ok(MeasureError::Device(what)),
            other => Err(other),
        }
    }
}

/// How a kernel is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// What the inputs are made of.
    pub seed: u64,
    /// The number of threads.
    pub threads: u64,
    /// The number of runs before the samples.
    pub warmups: u32,
    /// The number of samples.
    pub samples: u32,
}

impl Timing {
    /// The seed of inputs that a text names.
    pub fn seed(text: &str) -> u64 {
        let digest = blake3::hash(text.as_bytes());
        u64::from_le_bytes(*digest.as_bytes().first_chunk().expect("it has 32 bytes"))
    }

    /// The number of threads of a kernel: one where it is pinned to a core, otherwise one for each.
    pub fn threads(settings: &RunSettings) -> u64 {
        match settings.cpu {
            Some(_) => 1,
            None => std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        }
    }
}

/// A kernel that is built.
#[derive(Debug)]
pub struct BuiltKernel {
    state: LoopsState,
    executable: Executable,
}

impl BuiltKernel {
    /// Builds the kernel of a state.
    ///
    /// # Errors
    ///
    /// [`KernelError::NoCode`], or those of [`Executable::build`].
    pub fn build(state: &LoopsState, settings: &RunSettings) -> Result<Self, KernelError> {
        let text = module(state)?;
        let executable =
            Executable::build(&execution(), ExecutableCode::Program(text.as_bytes()), settings)?;
        Ok(Self { state: state.clone(), executable })
    }

    /// Runs the kernel on inputs of a seed, checks what it computes, and returns the seconds of a
    /// run in each sample.
    ///
    /// # Errors
    ///
    /// [`KernelError::Wrong`], or those of [`Executable::run`].
    pub fn run(&self, timing: &Timing) -> Result<Vec<f64>, KernelError> {
        self.run_as(&self.state, timing)
    }

    /// Does the same, and compares with what another program computes, whose arrays have the same
    /// sizes: for tests of the comparison.
    ///
    /// # Errors
    ///
    /// Those of [`BuiltKernel::run`].
    #[doc(hidden)]
    pub fn run_as(&self, state: &LoopsState, timing: &Timing) -> Result<Vec<f64>, KernelError> {
        let dag = &*state.dag;
        let shown = check::elements(dag, timing.seed);
        let Timing { seed, threads, warmups, samples } = timing;
        let count = shown.len();
        let mut request = format!("{seed} {threads} {warmups} {samples} {SAMPLE_NS_MIN} {count}\n");
        for (output, place) in &shown {
            writeln!(request, "{output} {place}").expect("a string takes it");
        }
        let run = self.executable.run(request.as_bytes())?;
        // The harness is no program of the user's: it says by its exit code what went wrong.
        match run.behaviour.end {
            ProgramEnd::Exit(0) => {}
            ProgramEnd::Exit(UNSTEADY) => {
                return Err(KernelError::Wrong("it is not the same after each run".to_owned()));
            }
            _ => return Err(ExecutionError::run_failed(&run, None).into()),
        }
        let text = String::from_utf8_lossy(&run.behaviour.stdout);
        let mut lines = text.lines();
        let samples = lines.next().and_then(|line| line.strip_prefix("samples"));
        let seconds = samples
            .unwrap_or_default()
            .split_whitespace()
            .map(|nanoseconds| nanoseconds.parse::<f64>().map(|nanoseconds| nanoseconds * 1e-9));
        let seconds = seconds.collect::<Result<Vec<_>, _>>();
        let seconds = seconds.map_err(|error| KernelError::Wrong(error.to_string()))?;
        let bits = |line| u32::from_str_radix(line, 16).map(f32::from_bits);
        let found = lines.map(bits).collect::<Result<Vec<_>, _>>();
        let found = found.unwrap_or_default();
        check::compare(dag, *seed, &shown, &found).map_err(|error| match error {
            Mismatch::Wrong(what) => KernelError::Wrong(what),
            Mismatch::Unchecked => KernelError::Unchecked(error.to_string()),
        })?;
        Ok(seconds)
    }
}

/// How the executable of a kernel is made and run.
fn execution() -> Execution {
    let line = format!(
        "printf %s \"$HARNESS\" >harness.c && \"$CC\" {FLAGS} -Wno-override-module -x ir \"$IN\" \
         -x c harness.c -o {EXECUTABLE} -pthread"
    );
    let build = ShellCommand {
        arguments: vec![line],
        environment: BTreeMap::from([("HARNESS".to_owned(), HARNESS.to_owned())]),
        outfiles: vec![EXECUTABLE.to_owned()],
        ..ShellCommand::default()
    };
    Execution { build: Build::Command(build), ..Execution::linked(Linker::C, &[]) }
}

/// The text for the column `compilation`: all states' kernels are made in this way.
///
/// # Errors
///
/// Those of [`tool_version`].
pub fn kernel_compilation(settings: &RunSettings) -> Result<String, ExecutionError> {
    let compiler = tool_version(&execution().build, settings)?;
    let harness = digest(HARNESS);
    Ok(format!("text of loops-v0 {VERSION}; clang {FLAGS}; {compiler}; harness {harness}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing { seed: 1, threads: 1, warmups: 0, samples: 1 };

    /// A kernel whose output is the number of its runs.
    const COUNTING: &str = "\
@runs = internal global float 0.0
define void @nest0(ptr %arrays, ptr %private, i64 %thread, i64 %threads) {
  %before = load float, ptr @runs
  %after = fadd float %before, 1.0
  store float %after, ptr @runs
  %place = getelementptr ptr, ptr %arrays, i64 2
  %output = load ptr, ptr %place
  store float %after, ptr %output
  ret void
}
@loops_nest_count = constant i64 1
@loops_nests = constant [1 x ptr] [ptr @nest0]
@loops_is_parallel = constant [1 x i8] [i8 0]
@loops_array_count = constant i64 3
@loops_elements = constant [3 x i64] [i64 1, i64 1, i64 1]
@loops_contents = constant [3 x i8] [i8 0, i8 0, i8 2]
@loops_private_bytes = constant i64 0
";

    #[test]
    fn a_kernel_that_computes_something_else_each_time_is_wrong() {
        let settings = RunSettings::default();
        let code = ExecutableCode::Program(COUNTING.as_bytes());
        let executable = Executable::build(&execution(), code, &settings).unwrap();
        let state = LoopsState::initial(steplake_loops::programs::program("add-1").unwrap());
        match (BuiltKernel { state, executable }).run(&TIMING) {
            Err(KernelError::Wrong(what)) => assert!(what.contains("not the same"), "{what}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_of_which_nothing_can_be_said_is_no_wrong_one() {
        let text = "// loops-v0 state 1\nn = 4\n%0 = positive[n]\n%1 = negate %0\n\
                    %2 = log %1\noutput %2[n]\n";
        let state = LoopsState::parse(text.as_bytes()).unwrap();
        let error =
            BuiltKernel::build(&state, &RunSettings::default()).unwrap().run(&TIMING).unwrap_err();
        assert!(matches!(error, KernelError::Unchecked(_)), "{error}");
    }
}
