//! The arguments of `optimize`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint, value_parser};

use super::how_run::HowRunArgs;
use crate::optimize::Goal;

/// Make a program smaller than `-Oz` does, or faster than `-O3`, by a sequence of LLVM's passes.
///
/// Tries sequences that made other programs small, those first that did so for programs like this
/// one, and then varies the best. `--objective runtime` begins with sequences that imitate `-O3`,
/// and times the program after each. What it tries is recorded in the lake, whose own best
/// sequences are tried too. The result is checked: LLVM's verifier accepts it, and if it is known
/// how to run the program, it does what it does untouched.
#[derive(Debug, Args)]
pub(in crate::cli) struct OptimizeArgs {
    /// A file (C, C++, LLVM IR or bitcode), or the URI of a benchmark.
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) program: String,

    /// The flags with which a file of C or C++ is compiled, such as `-Iinclude -DNAME=1`.
    #[arg(last = true, value_name = "FLAG")]
    pub(in crate::cli) flags: Vec<String>,

    /// What shall be small: `ir`, the instructions of LLVM's IR; `size`, the bytes of code and
    /// constants in an object file, with code generation as at `clang -Oz`; or `runtime`, the wall
    /// time of a run, with code generation as at `clang -O3`.
    #[arg(long, default_value = "ir", value_name = "ir|size|runtime")]
    pub(in crate::cli) objective: ObjectiveArg,

    /// How many sequences to try: each is a compilation of the program.
    #[arg(long, default_value_t = 45, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(in crate::cli) budget: u64,

    #[command(flatten)]
    pub(in crate::cli) how_run: HowRunArgs,

    /// Write the result here: an object file if the name ends in `.o`, or else bitcode.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) output: Option<PathBuf>,

    /// The seed of all random choices.
    #[arg(long, default_value_t = 0)]
    pub(in crate::cli) seed: i64,
}

/// What shall be small.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in crate::cli) enum ObjectiveArg {
    Ir,
    Size,
    Runtime,
}

impl ObjectiveArg {
    pub(in crate::cli) fn goal(self) -> Goal {
        match self {
            Self::Ir => Goal::Ir,
            Self::Size => Goal::Size,
            Self::Runtime => Goal::Runtime,
        }
    }
}
