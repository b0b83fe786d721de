//! Programs linked and run, as the [`Execution`](steplake_model::Execution) of their benchmark
//! says.
//!
//! [`Executable::build`] makes an executable of a state's code, in a scratch folder of its own.
//! [`Executable::run`] runs it once. An [`Oracle`] says what it has to do then, and only such a run
//! has a run time.
//!
//! # Confinement
//!
//! Linkers, commands and programs are confined as the module `sandbox` says: they open the
//! system's files and those of the scratch folder, and no socket. Each has limits of CPU time, wall
//! time, memory, files and output. When a command ends, or its time is up, all processes that it
//! started are killed. The scratch folder goes with the [`Executable`].
//!
//! A command may also read the absolute paths that it names, if [`RunSettings::reads_named_files`].
//!
//! The walls do not limit the number of processes, and Landlock does not keep a program from
//! changing the modes, owners and times of files outside.
//!
//! What a program leaves in its folders is not trusted: this process opens, makes and deletes files
//! there without following links (`beneath.rs`).

mod behaviour;
mod beneath;
mod command;
mod cpu_info;
mod error;
mod executable;
mod oracle;
mod settings;
mod unopened;

pub use self::behaviour::{Behaviour, OutputFile, ProgramEnd, ProgramRun};
pub use self::cpu_info::cpu_info;
pub use self::error::ExecutionError;
pub use self::executable::{Executable, ExecutableCode, tool_version};
pub use self::oracle::{Difference, Oracle, UNTOUCHED_RUN_MAX, Untimed};
pub use self::settings::RunSettings;
