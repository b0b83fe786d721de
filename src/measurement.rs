//! Measurements by plain requests: the names of spaces, benchmarks and states.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::str::FromStr;

use clap::Args;
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;

use crate::datasets::among;
use crate::env::{Environment, loops};
use crate::environments::catalogue::{Catalogue, inputs_folder};
use crate::environments::{Environments, environment_of_lake};
use crate::execution::RunSettings;
use crate::generate::ProgramProvider as _;
use crate::how_run::{HowRun, demand_own, is_own};
use crate::lake::{Identity, Lake, OnProgress, Snapshot, Writer};
use crate::measure::{
    BackEnd, ChosenProgram, CodeMaker, Kernels, MeasureOptions, MeasureProblem, MeasuredProgram,
    MeasuredSpace, Processor, StateChoice, choose, machine, measure, measure_kernels,
};
use crate::model::{BenchmarkUri, Remedy};
use crate::replay::demand_same;
use crate::replay::rebuild::Rebuilder;
use crate::semantics::wrong_kernels;
use crate::{Error, ErrorKind};
use steplake_terminal::output::counted;

/// Which states of a program to measure, besides its first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedStates {
    /// None.
    Initial,
    /// So many with the lowest costs.
    Best(NonZeroUsize),
    /// All that were reached.
    All,
}

impl FromStr for WantedStates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("best=").map(str::parse) {
            Some(Ok(count)) => return Ok(Self::Best(count)),
            None if text == "best" => return Ok(Self::Best(NonZeroUsize::MIN)),
            None if text == "initial" => return Ok(Self::Initial),
            None if text == "all" => return Ok(Self::All),
            _ => {}
        }
        Err(format!("there are no states `{text}`: write best, best=N, all or initial"))
    }
}

/// The arguments of all commands that measure a lake.
#[derive(Debug, Args)]
pub struct MeasuredArgs {
    /// Which states of each program besides its first one: `best`, the one with the lowest cost;
    /// `best=N`, up to N with the lowest costs (both only if it is lower than the first one's);
    /// `all` that were reached; or `initial`, none.
    #[arg(long, default_value = "best", value_name = "STATES")]
    pub states: WantedStates,

    /// The observation space of the cost for `--states best`; by default the cost of the lake's
    /// first reward.
    #[arg(long, value_name = "SPACE")]
    pub cost: Option<String>,

    /// A benchmark of the lake, as for `generate`; may be repeated. By default all.
    #[arg(long = "benchmark", short, value_name = "URI|PATH")]
    pub benchmarks: Vec<String>,

    /// The number of samples of each state.
    #[arg(long, default_value = "10", value_name = "N")]
    pub samples: NonZeroU32,
}

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasureRequest {
    /// What is measured.
    pub space: MeasuredSpace,
    /// Which states of each program, besides its first one.
    pub states: WantedStates,
    /// The observation space in which the best states are lowest; by default the
    /// [usual cost](Identity::usual_cost) of the lake.
    pub cost: Option<String>,
    /// URIs of benchmarks and patterns of them; empty for all programs of the lake.
    pub benchmarks: Vec<String>,
    /// The number of samples of each state.
    pub samples: NonZeroU32,
    /// The number of times that are taken before them, and left out.
    pub warmups: u32,
    /// The core on which programs run; any if there is none.
    pub cpu: Option<usize>,
    /// A name for the machine, for the column `machine`.
    pub machine: Option<String>,
    /// How programs of the user's own (`file:///…`) are run, whatever the lake says of them.
    pub how_run: Option<HowRun>,
}

/// The result of measuring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasureReport {
    /// What was measured.
    pub space: MeasuredSpace,
    /// The text in the column `machine`.
    pub machine: String,
    /// Number of programs that can be run.
    pub programs: u64,
    /// Number of programs that were chosen and cannot be run: nobody says how.
    pub not_runnable: u64,
    /// Rows appended.
    pub measurements: u64,
    /// Samples in them.
    pub samples: u64,
    /// States that were to be measured and have no row.
    pub left_out: u64,
    /// What could not be measured.
    pub problems: Vec<MeasureProblem>,
}

/// Measures states of a lake on this machine and appends the samples to `measurements`. Nobody may
/// record into the lake meanwhile. Calls `progress` with the number of times that were taken and of
/// those to take. Each program's samples are durable when its last one has been taken, and are
/// sealed at the end.
///
/// # Errors
///
/// If the lake's compiler is not here, or this machine cannot run programs; [`ErrorKind::Usage`] if
/// no benchmark matches or none can be run; [`ErrorKind::Interrupted`] at a break. What was
/// measured before is kept.
pub fn measure_lake(
    environments: &Environments,
    lake: &Lake,
    request: &MeasureRequest,
    progress: &mut OnProgress<'_>,
) -> Result<MeasureReport, Error> {
    demand_core(request)?;
    if lake.identity().environment == loops::NAME {
        let options = options(request);
        let processor = Processor(options.settings.clone());
        return measure_schedules(lake, request, &processor, &options, progress);
    }
    let MeasuredLake { environment, states, mut writer, snapshot } = open(lake, request)?;
    let workers = || environments.workers(environment.as_ref(), snapshot.runs());
    let mut compiler = CodeMaker::new(&workers)?;
    let chosen = choose(&snapshot, &wanted(&snapshot, request)?, &states)?;
    let catalogue = Catalogue::of(environment.as_ref(), &environments.worker_config())?;
    let how = request.how_run.as_ref();
    demand_own(how, chosen.iter().map(|one| &one.benchmark))?;
    let (mut programs, mut problems) = (Vec::new(), Vec::new());
    let (mut not_runnable, mut left_out) = (0, 0);
    let workers = workers();
    for mut chosen in chosen {
        let states = 1 + chosen.others.len() as u64;
        if let Some(how) = how.filter(|_| is_own(&chosen.benchmark)) {
            let subject = (&chosen.benchmark, chosen.initial);
            let told = how.execution_in(workers.as_ref(), &snapshot, &catalogue, subject)?;
            chosen.execution = Some(told.to_json());
        }
        match program(chosen, &catalogue) {
            Ok(Some(program)) => programs.push(program),
            Ok(None) => not_runnable += 1,
            Err(problem) => {
                problems.push(problem);
                left_out += states;
            }
        }
    }
    if programs.is_empty() && problems.is_empty() {
        return Err(Error::usage(
            "no benchmark that was chosen says how it is built and run: `SELECT benchmark_uri, \
             execution FROM benchmarks` shows which do",
        ));
    }
    let options = options(request);
    let measured = measure(&mut writer, &snapshot, &mut compiler, &programs, &options, progress);
    // Also what was measured before a break.
    let sealed = writer.seal();
    let measured = measured?;
    sealed?;
    problems.extend(measured.problems);
    Ok(MeasureReport {
        space: request.space,
        machine: options.machine,
        programs: programs.len() as u64,
        not_runnable,
        measurements: measured.measurements,
        samples: measured.measurements * u64::from(request.samples.get()),
        left_out: measured.left_out + left_out,
        problems,
    })
}

/// A lake whose states are to be measured.
struct MeasuredLake {
    environment: Box<dyn Environment>,
    states: StateChoice,
    writer: Writer,
    /// All that was recorded.
    snapshot: Snapshot,
}

/// Opens the lake's environment, and the lake for writing.
fn open(lake: &Lake, request: &MeasureRequest) -> Result<MeasuredLake, Error> {
    let environment = environment_of_lake(lake.identity())?;
    demand_same(environment.as_ref(), lake.identity())?;
    let states = by_cost(lake.identity(), request)?;
    let mut writer = lake.writer()?;
    writer.seal()?;
    Ok(MeasuredLake { environment, states, writer, snapshot: lake.sealed()? })
}

/// The benchmarks of the lake that were asked for.
fn wanted(snapshot: &Snapshot, request: &MeasureRequest) -> Result<BTreeSet<BenchmarkUri>, Error> {
    let known = snapshot.benchmark_uris()?;
    if request.benchmarks.is_empty() {
        return Ok(known);
    }
    let mut wanted = BTreeSet::new();
    for pattern in &request.benchmarks {
        wanted.extend(among(pattern, &known)?);
    }
    Ok(wanted)
}

fn options(request: &MeasureRequest) -> MeasureOptions {
    MeasureOptions {
        space: request.space,
        samples: request.samples,
        warmups: request.warmups,
        settings: RunSettings {
            cpu: request.cpu,
            inputs: inputs_folder(),
            ..RunSettings::default()
        },
        machine: machine(request.cpu, request.machine.as_deref()),
    }
}

/// Measures states of a lake of `loops-v0` on a device other than this machine's processor, which
/// `machine` describes, as [`measure_lake`] does.
///
/// # Errors
///
/// Those of [`measure_lake`]; [`ErrorKind::Usage`] for a lake of another environment.
pub fn measure_lake_on<B: BackEnd>(
    lake: &Lake,
    request: &MeasureRequest,
    device: &B,
    machine: String,
    progress: &mut OnProgress<'_>,
) -> Result<MeasureReport, Error> {
    let name = &lake.identity().environment;
    if name != loops::NAME {
        return Err(Error::usage(format!(
            "a device runs schedules of {}, and this lake is of {name}",
            loops::NAME
        )));
    }
    let options = MeasureOptions { machine, ..options(request) };
    measure_schedules(lake, request, device, &options, progress)
}

/// Measures states of `loops-v0`: schedules, whose kernels a back end makes. What computes a wrong
/// result has no time, and a row in `miscompilations`.
fn measure_schedules<B: BackEnd>(
    lake: &Lake,
    request: &MeasureRequest,
    back_end: &B,
    options: &MeasureOptions,
    progress: &mut OnProgress<'_>,
) -> Result<MeasureReport, Error> {
    if request.space != MeasuredSpace::Runtime {
        return Err(Error::usage("schedules have a run time, and no build time"));
    }
    demand_own(request.how_run.as_ref(), [])?;
    let MeasuredLake { environment, states, mut writer, snapshot } = open(lake, request)?;
    let chosen = choose(&snapshot, &wanted(&snapshot, request)?, &states)?;
    let rebuilder = Rebuilder::new(environment);
    let kernels = Kernels { snapshot: &snapshot, rebuilder: &rebuilder, back_end };
    let initial = chosen.iter().map(|one| (one.benchmark.clone(), one.initial)).collect::<Vec<_>>();
    let mut blame =
        |problems: &[MeasureProblem]| wrong_kernels(&kernels, problems, &initial, lake.now_ms());
    let measured = measure_kernels(&mut writer, &kernels, &chosen, options, &mut blame, progress);
    let sealed = writer.seal();
    let measured = measured?;
    sealed?;
    Ok(MeasureReport {
        space: request.space,
        machine: options.machine.clone(),
        programs: chosen.len() as u64,
        not_runnable: 0,
        measurements: measured.measurements,
        samples: measured.measurements * u64::from(request.samples.get()),
        left_out: measured.left_out,
        problems: measured.problems,
    })
}

/// Names the space by which a state is the best, if nobody did, and refuses one without numbers.
fn by_cost(identity: &Identity, request: &MeasureRequest) -> Result<StateChoice, Error> {
    let count = match request.states {
        WantedStates::Initial => return Ok(StateChoice::Initial),
        WantedStates::All => return Ok(StateChoice::All),
        WantedStates::Best(count) => count,
    };
    let usual = || identity.usual_cost().map(str::to_owned);
    let names = || identity.number_spaces().collect::<Vec<_>>().join(", ");
    match request.cost.clone().or_else(usual) {
        Some(space) if identity.number_spaces().any(|known| known == space) => {
            Ok(StateChoice::Best { space, count })
        }
        Some(space) => Err(Error::usage(format!(
            "the lake has no numbers of `{space}` by which a state is the best: it has {}",
            names()
        ))),
        None => {
            let said = "the lake has no numbers by which a state is the best";
            Err(Error::usage(said).with(Remedy::Backfill(None)))
        }
    }
}

/// Refuses a core to which nothing can be pinned, and one for builds, which are not pinned.
fn demand_core(request: &MeasureRequest) -> Result<(), Error> {
    let Some(cpu) = request.cpu else { return Ok(()) };
    if request.space == MeasuredSpace::Buildtime {
        return Err(Error::usage("only runs are pinned to a core: builds use any"));
    }
    let allowed = sched_getaffinity(Pid::from_raw(0));
    // A number beyond those that the set can hold is an error as well.
    if allowed.is_ok_and(|set| set.is_set(cpu).unwrap_or(false)) {
        return Ok(());
    }
    Err(Error::usage(format!("nothing can be pinned to core {cpu} on this machine")))
}

/// A program with the way in which it is run. None if nobody says so.
///
/// # Errors
///
/// Why it cannot be said.
fn program(
    chosen: ChosenProgram,
    catalogue: &Catalogue,
) -> Result<Option<MeasuredProgram>, MeasureProblem> {
    let ChosenProgram { benchmark, execution, initial, others } = chosen;
    match catalogue.execution(&benchmark, execution.as_deref()) {
        Ok(None) => Ok(None),
        Ok(Some(execution)) => {
            if !execution.inputs.is_empty() {
                // Its dataset puts them into the cache. Without them it is said what is missing.
                catalogue.load(&benchmark).ok();
            }
            Ok(Some(MeasuredProgram { benchmark, execution, initial, others }))
        }
        Err(what) => {
            Err(MeasureProblem { benchmark, state: initial, what, is_wrong_result: false })
        }
    }
}

impl MeasureReport {
    /// Describes the result: a line for each problem, and a summary.
    pub fn text(&self) -> String {
        let line = |problem: &MeasureProblem| {
            let MeasureProblem { benchmark, state, what, .. } = problem;
            format!("{benchmark}, state {state}: {what}\n")
        };
        let problems = self.problems.iter().map(line).collect::<String>();
        let not_runnable = match self.not_runnable {
            0 => String::new(),
            count => format!(", {} without a command that runs them", counted(count, "program")),
        };
        format!(
            "{problems}{}: {} of {} ({}) on {}; {} left out{not_runnable}\n",
            self.space.as_str(),
            counted(self.measurements, "measurement"),
            counted(self.programs, "program"),
            counted(self.samples, "sample"),
            self.machine,
            counted(self.left_out, "state"),
        )
    }

    /// Refuses wrong results: a program behaves otherwise than in its first state, or a kernel
    /// computes something else than its program.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Found`].
    pub fn demand_right_results(&self) -> Result<(), Error> {
        let wrong = self.problems.iter().filter(|problem| problem.is_wrong_result).count();
        if wrong == 0 {
            return Ok(());
        }
        let states = counted(wrong as u64, "state");
        let message = format!("{states} with a wrong result: the lines above say what is wrong");
        Err(Error::new(ErrorKind::Found, message))
    }
}
