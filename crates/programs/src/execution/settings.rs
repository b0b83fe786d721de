//! What a machine grants to programs that are built and run.

use std::path::PathBuf;
use std::time::Duration;

/// The limits of builds and runs, and what they may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSettings {
    /// The most wall time of a build whose command sets no limit.
    pub build_limit: Duration,
    /// The most wall time of a run, or of a command around runs, that sets no limit. The limit of
    /// each process's CPU time is that of wall time on all cores.
    pub run_limit: Duration,
    /// The most address space of a process; none for sanitizers, which reserve more than there is.
    pub memory_bytes: Option<u64>,
    /// The largest file that a program may write.
    pub file_bytes: u64,
    /// The most that a program may print.
    pub output_bytes: usize,
    /// The number of the CPU on which runs are pinned; any if there is none.
    pub cpu: Option<usize>,
    /// Files and folders of the machine that commands may read besides the system's.
    pub reads: Vec<PathBuf>,
    /// Whether a command may also read the absolute paths that it names. Leave it off if the
    /// commands come from another machine.
    pub reads_named_files: bool,
    /// The folder that holds the [inputs](steplake_model::Input) of programs, each in a file that
    /// is named by its digest; programs with inputs cannot be run if there is none.
    pub inputs: Option<PathBuf>,
}

impl Default for RunSettings {
    /// A minute for a build, five for a run, 4 GiB of memory, 1 GiB for a file and 64 MiB of
    /// output.
    fn default() -> Self {
        Self {
            build_limit: Duration::from_mins(1),
            run_limit: Duration::from_mins(5),
            memory_bytes: Some(4 << 30),
            file_bytes: 1 << 30,
            output_bytes: 64 << 20,
            cpu: None,
            reads: Vec::new(),
            reads_named_files: false,
            inputs: None,
        }
    }
}
