//! Whether programs do after recorded actions what they do without them.
//!
//! A program is run as its [`Execution`] says. What it has to do is what it does in its first
//! state: its [`Oracle`](steplake_programs::execution::Oracle). Each state that is
//! [drawn](draw_states) is played from the first state again, with the ids of all states compared,
//! built and run.
//!
//! # What is a miscompilation
//!
//! - A program without an oracle tells nothing and is left out.
//! - If a sanitizer finds undefined behaviour in its first state, the compiler may do anything with
//!   it: its differences are reported apart, and never as miscompilations.
//! - A difference counts only if a second run shows it, and a state that was played in a new
//!   worker too, and if the untouched program still does what it did.
//! - Its sequence is minimised (`minimise`). The last action of the minimised sequence is to blame:
//!   without it the program behaves as expected. If the recorded sequence shows a difference
//!   without that action, it is minimised once more (`blame`).
//!
//! # Which sanitizers
//!
//! | sanitizer | first state | after actions |
//! |---|---|---|
//! | address | in object code | in object code |
//! | memory | in object code, if it is C alone | no: passes may compute with what is unused |
//! | thread | in object code, if it begins threads | no: passes may load early |
//! | undefined behaviour | in the source, if it is at hand | no: IR has other rules than C |
//!
//! Libraries get no checks. So `MemorySanitizer` is not used where one of C++ or a foreign one may
//! write memory, nor `ThreadSanitizer` where that of OpenMP orders threads: they would report what
//! is no error.
//!
//! Checks are inserted into a copy of the state, whose functions are marked for it: unmarked, they
//! would get none.

mod blame;
mod check;
mod draw;
mod finding;
mod judge;
mod kernels;
mod minimise;
mod player;
mod sanitizers;
mod validate;

use std::path::PathBuf;
use std::sync::Arc;

pub use self::check::{Excused, SemanticsReport, check_semantics};
pub use self::draw::{DrawnState, draw_states};
pub use self::finding::Miscompilation;
pub use self::kernels::{wrong_kernel, wrong_kernels};
pub use self::validate::{Validation, Validator, validate};

use steplake_env::SessionError;
use steplake_lake::LakeError;
use steplake_model::{BenchmarkUri, Classified, ErrorKind, Execution, Remedy, StateId};
use steplake_programs::execution::ExecutionError;

/// A program whose meaning is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedProgram {
    /// Its name.
    pub benchmark: BenchmarkUri,
    /// How it is built and run.
    pub execution: Execution,
    /// Its first state.
    pub initial: StateId,
    /// The program as the compiler reads it, or its serialised first state.
    pub program: Arc<[u8]>,
    /// Its source, if that is one file in C; for `UndefinedBehaviorSanitizer`.
    pub source: Option<String>,
    /// The folder of its inputs: see
    /// [`RunSettings::inputs`](steplake_programs::execution::RunSettings::inputs).
    pub inputs: Option<PathBuf>,
}

/// Why checking stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SemanticsError {
    /// The lake cannot be read, or the caller stopped the work.
    #[error("{0}")]
    Store(#[from] LakeError),
    /// A session failed in a way that is not the compiler's.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// This machine cannot build or run programs.
    #[error("{0}")]
    Machine(#[source] ExecutionError),
    /// The environment makes no machine code that is run.
    #[error("{0}")]
    NoCode(String),
}

impl Classified for SemanticsError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            Self::Session(error) => error.classify(),
            _ => (ErrorKind::Failed, None),
        }
    }
}
