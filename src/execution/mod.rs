//! Programs linked and run, as the [`Execution`](crate::model::Execution) of their benchmark says.
//!
//! [`Executable::build`] makes an executable of a state's code, in a scratch folder of its own.
//! [`Executable::run`] runs it once, to compare its [`Behaviour`]; [`Executable::measure`] runs it
//! several times, for its run time.
//!
//! # Confinement
//!
//! Linkers, commands and programs are confined as the module `sandbox` says: they open the
//! system's files and those of the scratch folder, and no socket. Each has limits of CPU time, wall
//! time, memory, files and output. When a command ends, or its time is up, all processes that it
//! started are killed. The scratch folder goes with the [`Executable`].
//!
//! A command may also read the absolute paths that it names, if [`Settings::reads_named_files`].
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
mod settings;
mod unopened;

pub use self::behaviour::{Behaviour, End, OutputFile, Run};
pub use self::cpu_info::cpu_info;
pub use self::error::ExecutionError;
pub use self::executable::{Code, Executable, tool_version};
pub use self::settings::{Samples, Settings};
