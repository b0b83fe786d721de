//! `optimize`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use indicatif::HumanCount;

use super::args::OptimizeArgs;
use super::generate::{interrupt, show_while};
use super::progress::RunBar;
use crate::datasets::as_pattern;
use crate::environments::Environments;
use crate::generate::{RunProgress, Stop};
use crate::measure::median;
use crate::model::line;
use crate::model::{BenchmarkUri, as_f64};
use crate::optimize::{
    Check, Comparison, Figures, OptimizeRequest, Optimized, Speedup, WallTimes, optimize,
};
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, counted_are, print};

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &OptimizeArgs,
) -> Result<(), Error> {
    let interrupt = interrupt()?;
    if let Some(path) = &args.output {
        demand_place(path)?;
        if let Some(program) = own_path(&args.program) {
            demand_other(path, &program, "the program itself")?;
        }
        for read in args.how_run.stdin.iter().chain(&args.how_run.inputs) {
            demand_other(path, read, "what the program reads")?;
        }
    }
    let request = OptimizeRequest {
        program: args.program.clone(),
        flags: args.flags.clone(),
        goal: args.objective.goal(),
        budget: args.budget,
        seed: args.seed,
        how_run: args.how_run.how_run(),
    };
    let progress = RunProgress::default();
    let bar = RunBar::new(global, Stop::Episodes(args.budget), 0);
    let done = show_while(bar, &progress, || {
        optimize(environments, &global.lake, &request, &progress, &interrupt)
    });
    let done = done.map_err(|error| match error.kind() {
        ErrorKind::Interrupted => {
            let said = "interrupted before the search began: there is no result";
            Error::new(ErrorKind::Interrupted, said)
        }
        _ => error,
    })?;
    // The result is safe before anybody may stop reading about it.
    if let Some(path) = &args.output {
        write(path, &done)?;
    }
    print(&report(&done, args, global))?;
    if let Some(path) = &args.output {
        print(&format!("written to {}\n", path.display()))?;
    }
    if !done.is_interrupted {
        return Ok(());
    }
    let written = if args.output.is_some() { "what is written" } else { "the result" };
    let said = format!(
        "interrupted after {} of {}: {written} is the best so far; what was tried is in the lake, \
         and the next call begins with it",
        done.tried,
        counted(args.budget, "sequence")
    );
    Err(Error::new(ErrorKind::Interrupted, said))
}

/// Returns the path of a program that is a file.
fn own_path(program: &str) -> Option<PathBuf> {
    as_pattern(program).ok()?.parse::<BenchmarkUri>().ok()?.file()
}

/// Refuses to overwrite `other` with the result, before anything takes time.
fn demand_other(path: &Path, other: &Path, what: &str) -> Result<(), Error> {
    if fs::canonicalize(path).is_ok_and(|path| fs::canonicalize(other).is_ok_and(|it| it == path)) {
        let said = format!("--output {}: that is {what}", path.display());
        return Err(Error::usage(said));
    }
    Ok(())
}

/// Refuses a place for the result that is none, before anything takes time.
fn demand_place(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        let said = format!("--output {}: write the path of a file in a folder", path.display());
        return Err(Error::usage(said));
    }
    Ok(())
}

/// Writes the result.
fn write(path: &Path, done: &Optimized) -> Result<(), Error> {
    let is_object = path.extension().is_some_and(|extension| extension == "o");
    let content = if is_object { &done.object } else { &done.bitcode };
    fs::write(path, content).map_err(|error| {
        let said = format!("{} cannot be written: {}", path.display(), line(&error));
        Error::new(ErrorKind::Failed, said)
    })
}

/// Returns what was found as lines for people.
fn report(done: &Optimized, args: &OptimizeArgs, global: &GlobalArgs) -> String {
    let mut text = match &done.outcome {
        Comparison::Small(figures) => sizes(done, *figures, args),
        Comparison::Fast(times) => speeds(done, times, args),
    };
    if let Some(difference) = done.wrong.first() {
        let kind = match done.outcome {
            Comparison::Small(_) => "smaller program",
            Comparison::Fast(_) => "program",
        };
        let count = counted_are(done.wrong.len() as u64, kind);
        let found = match done.miscompilations {
            0 => "`steplake verify --semantics 100` looks for the pass".to_owned(),
            rows => format!(
                "{} in the table `miscompilations` of the lake",
                counted(rows as u64, "new row")
            ),
        };
        let _ = writeln!(
            text,
            "{count} left out, because the compiler got the program wrong: {difference}; {found}"
        );
    }
    text += &checks(done);
    text += &commands(done);
    let _ = writeln!(text, "recorded in {} as {}", global.lake.display(), done.uri);
    text
}

/// Says how the result was checked.
fn checks(done: &Optimized) -> String {
    let of_found = done.found.as_ref().map(|found| &found.check);
    let Check { is_checked, remarks, difference } = of_found.unwrap_or(&done.pipeline_check);
    let (first, not_run) = match difference {
        Some(how) => {
            let whose = "LLVM's own pipeline or the program itself is at fault";
            (format!("wrong result: {how}; {whose}\n"), "")
        }
        None if *is_checked => {
            ("checked: the program does what it does untouched\n".to_owned(), "")
        }
        None => (String::new(), "not checked by running: "),
    };
    let remarks = remarks.iter().map(|remark| format!("{not_run}{remark}\n"));
    std::iter::once(first).chain(remarks).collect()
}

/// Says by which commands the result can be made again.
fn commands(done: &Optimized) -> String {
    let version = done.compiler.split_whitespace().nth(1).unwrap_or_default();
    let mut text = format!(
        "these commands make the result, byte by byte, with the tools of LLVM {version} as Debian \
         names them:\n{}\n",
        done.commands.join("\n")
    );
    if done.is_optnone {
        text += "functions of the program are marked `optnone`, as by `clang -O0`: the first \
                 command takes the mark off\n";
    }
    if done.found.is_some() {
        let level = match done.outcome {
            Comparison::Small(_) => "-Oz",
            Comparison::Fast(_) => "-O3",
        };
        let _ = writeln!(
            text,
            "do not give output.bc to `clang {level} -c`: it runs its own pipeline over it again, \
             and what was gained is lost"
        );
    }
    text
}

/// Says how small the program became.
fn sizes(done: &Optimized, figures: Figures, args: &OptimizeArgs) -> String {
    let size = |number: i64| HumanCount(u64::try_from(number).unwrap_or(0)).to_string();
    let (unit, Figures { before, oz, o3, after }) = (args.objective.goal().unit(), figures);
    let tried = counted(done.tried, "sequence");
    let result = match (&done.found, after) {
        (Some(found), Some(after)) => format!(
            "{} {unit} after {}: {} than -Oz, {} than -O3",
            size(after),
            passes(found.actions.len()),
            compared(after, oz),
            compared(after, o3),
        ),
        _ => format!("the result is what {} makes", done.pipeline),
    };
    format!(
        "{}: {} {unit} untouched, {} after -Oz, {} after -O3\n{tried} tried: {result}\n",
        args.program,
        size(before),
        size(oz),
        size(o3)
    )
}

/// Says how fast the program became.
fn speeds(done: &Optimized, times: &WallTimes, args: &OptimizeArgs) -> String {
    let seconds = |samples: &[f64]| format!("{:.4} s", median(samples));
    let WallTimes { untouched, oz, o3, best } = times;
    let result = if let (Some(found), Some(best)) = (&done.found, best) {
        format!(
            "{} after {}: {} as untouched, {} as -Oz, {} as -O3",
            seconds(best),
            passes(found.actions.len()),
            as_fast(untouched, best),
            as_fast(oz, best),
            as_fast(o3, best)
        )
    } else {
        let ((name, own), (other, beside)) = match done.pipeline {
            "-Oz" => (("-Oz", oz), ("-O3", o3)),
            _ => (("-O3", o3), ("-Oz", oz)),
        };
        let result = format!(
            "the result is what {name} makes: {} as untouched, {} as {other}",
            as_fast(untouched, own),
            as_fast(beside, own)
        );
        let best = best.as_ref().map(|best| {
            let (time, than) = (seconds(best), as_fast(own, best));
            format!("\nthe best sequence: {time}, {than} as {name}, which is not surely faster")
        });
        result + &best.unwrap_or_default()
    };
    format!(
        "{}: {} untouched, {} after -Oz, {} after -O3: medians of {}, in turns\n\
         {} tried: {result}\n\
         how many times as fast: the median ratio of two runs, with an interval of 95%, and not the \
         ratio of the medians\n",
        args.program,
        seconds(untouched),
        seconds(oz),
        seconds(o3),
        counted(o3.len() as u64, "run"),
        counted(done.tried, "sequence"),
    )
}

/// Says how many times as fast a program is as the one before, with an interval of 95%.
fn as_fast(before: &[f64], after: &[f64]) -> String {
    match Speedup::over(before, after) {
        Some(Speedup { times, interval: [lower, upper] }) => {
            format!("{times:.2} times as fast ({lower:.2} to {upper:.2})")
        }
        None => "nobody knows how fast".to_owned(),
    }
}

/// Counts passes.
fn passes(count: usize) -> String {
    if count == 1 { "1 pass".to_owned() } else { format!("{count} passes") }
}

/// Says how much smaller or larger a size is than another.
fn compared(size: i64, other: i64) -> String {
    let share = (1.0 - as_f64(size) / as_f64(other.max(1))) * 100.0;
    if share >= 0.0 { format!("{share:.1}% less") } else { format!("{:.1}% more", -share) }
}
