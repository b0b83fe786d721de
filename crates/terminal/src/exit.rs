//! How commands end: one line on standard error and an exit code.

use std::borrow::Cow;
use std::io::Write as _;
use std::process::ExitCode;

use steplake_model::{Error, ErrorKind, Remedy};

/// The exit code of an operation that failed, where no other code says why.
pub const FAILED: u8 = 1;

/// Returns the exit code of a failure. `--help` documents the numbers.
pub fn code(kind: ErrorKind) -> u8 {
    match kind {
        _ if kind.is_of_caller() => 2,
        _ if kind.is_of_lake() => 3,
        ErrorKind::Found => 4,
        ErrorKind::Offline => 5,
        ErrorKind::NothingPublished => 6,
        ErrorKind::Behind => 7,
        ErrorKind::Interrupted => 130,
        _ => FAILED,
    }
}

/// Returns the message of an error, with the command or option that helps.
pub fn with_advice(error: &Error) -> String {
    match error.remedy().map(advice) {
        Some(advice) if !advice.is_empty() => format!("{error}; {advice}"),
        _ => error.to_string(),
    }
}

fn advice(remedy: &Remedy) -> Cow<'static, str> {
    let said = match remedy {
        Remedy::Record => "record one with `steplake generate`, or name another folder with --lake",
        Remedy::OtherScheme => {
            "`steplake convert --lake OLD --into NEW` makes a new lake of it by playing what it recorded \
             again; as it is, it can be read, queried, and merged with lakes of its scheme"
        }
        Remedy::Merge => "`steplake merge` merges two lakes",
        Remedy::Snapshots => "`steplake snapshots` lists them",
        Remedy::Runs => "`steplake info` lists the runs",
        Remedy::Measure => "`steplake measure` records samples of Runtime and Buildtime",
        Remedy::Dedup => "run `steplake dedup`",
        Remedy::DedupWritten => "run `steplake dedup` on it",
        Remedy::Verify => "`steplake verify` lists all damage, and with --repair drops it",
        Remedy::Identity => {
            "a lake without a good lake.json gets it from a new lake: `steplake --lake NEW generate` \
             with the same --env, --action-space, --observe and --rewards makes one, to be copied here"
        }
        Remedy::Backfill(None) => "`steplake backfill` adds an observation space",
        Remedy::HowRun => {
            "give --arguments 'WORDS' (--arguments '' for none), --stdin FILE if it reads its \
             standard input, and --input FILE for each file that it reads"
        }
        Remedy::Field("keyframes") => {
            "`--ir all` stores the IR of all states, `--ir none` that of none"
        }
        Remedy::Backfill(Some(space)) => {
            let command = format!("`steplake backfill --space {space}`");
            return format!("{command} computes it where no run recorded it").into();
        }
        Remedy::Benchmarks(dataset) => {
            return format!("`steplake datasets benchmarks {dataset}` lists what there is").into();
        }
        Remedy::Spaces(environment) => {
            return format!("`steplake env describe {environment}` lists them").into();
        }
        Remedy::Field(name) => {
            return format!("the option is --{}", name.replace('_', "-")).into();
        }
        // The message says it.
        Remedy::OwnLake => "",
    };
    said.into()
}

/// Prints the message of an error, unless it is empty, and returns the exit code.
pub fn report(error: &Error) -> ExitCode {
    let message = with_advice(error);
    if !message.is_empty() {
        // Standard error may be closed; the exit code still tells.
        let _ = writeln!(std::io::stderr(), "steplake: {message}");
    }
    ExitCode::from(code(error.kind()))
}

/// Reports the error, if any, and returns the exit code.
pub fn exit_code(done: Result<(), Error>) -> ExitCode {
    done.map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}
