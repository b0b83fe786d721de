//! Where a session compiles: cc1 and the assembler run in a folder of its own, and what they do is
//! told from what the machine does to them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::compiler::{ASSEMBLY, Compiler, OBJECT, PREPROCESSED};
use super::folder::ConfinedFolder;
use super::state::PreprocessedSource;
use super::tool::{CompilerTool, limits};
use steplake_env::SessionError;
use steplake_env::worker::WorkerConfig;
use steplake_model::{Failure, FailureKind};
use steplake_sandbox::{ProcessEnd, ProcessError};

/// The file of a dump of RTL.
const RTL: &str = "program.rtl";

/// How often a compiler is started again that somebody else ended.
const ENDED_MAX: u32 = 3;

/// The most characters of a compiler's message that are kept.
const DETAIL_CHARS_MAX: usize = 300;

/// Beginnings of messages of the programs that set the limits, and parts of those about a full
/// disk.
const OF_THE_MACHINE: [&str; 3] = ["setpriv: ", "prlimit: ", "env: "];
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// Parts of what compilers say of themselves when they fail: of a defect, and of too little memory.
const DEFECT: &str = "internal compiler error";
const NO_MEMORY: [&str; 3] = ["out of memory", "memory exhausted", "Cannot allocate memory"];

/// How cc1 and the assembler begin what they say of an error, after the place.
const ERRORS: [&str; 2] = ["error: ", "Error: "];

/// The exit code of cc1 after an internal error.
const DEFECT_EXIT_CODE: i32 = 4;

/// Why a compiler did not come to its end.
const KILLED: &str = "it was killed; this machine may be short of memory: free some, or use fewer \
                      jobs";
const BUSY: &str = "its wall time was up before its CPU time; this machine may be too busy: use \
                    fewer jobs";

/// Why there is no result.
#[derive(Debug)]
pub(super) enum CompileFault {
    /// The compiler failed, and will again: it is its answer.
    Compiler(Failure),
    /// Anything else.
    Session(SessionError),
}

/// How one run failed.
enum RunTrouble {
    OfTheCompiler(Failure),
    /// It says nothing about the compiler, but about the machine: what, and what to do.
    FromOutside(&'static str),
    /// There is no room for what it writes.
    Full(String),
    Session(SessionError),
}

/// What a program is to make of the source.
struct CompileJob<'a> {
    tool: fn(&Compiler) -> &CompilerTool,
    arguments: &'a [OsString],
    /// A file that it reads besides the preprocessed source: its name and content.
    input: Option<(&'a str, &'a [u8])>,
    /// The file that it writes.
    file: &'a str,
    /// What it means that the program refuses what it reads.
    refusal: FailureKind,
}

impl<'a> CompileJob<'a> {
    fn of_cc1(arguments: &'a [OsString], file: &'a str) -> Self {
        Self {
            tool: |compiler| &compiler.cc1,
            arguments,
            input: None,
            file,
            refusal: FailureKind::Rejected,
        }
    }

    fn of_assembler(assembly: &'a [u8]) -> Self {
        Self {
            tool: |compiler| &compiler.assembler,
            arguments: &[],
            input: Some((ASSEMBLY, assembly)),
            file: OBJECT,
            refusal: FailureKind::Assembler,
        }
    }

    fn of_driver(arguments: &'a [OsString], input: (&'a str, &'a [u8])) -> Self {
        Self {
            tool: |compiler| &compiler.whole,
            arguments,
            input: Some(input),
            file: OBJECT,
            refusal: FailureKind::Rejected,
        }
    }
}

/// A folder in which a compiler runs.
#[derive(Debug)]
pub(super) struct Workplace {
    compiler: Arc<Compiler>,
    config: WorkerConfig,
    folder: Option<ConfinedFolder>,
    /// Whether a folder in memory had too little room.
    is_memory_full: bool,
}

impl Workplace {
    /// Plans a folder, which is made when something is compiled.
    pub(super) fn new(compiler: Arc<Compiler>, config: WorkerConfig) -> Self {
        Self { compiler, config, folder: None, is_memory_full: false }
    }

    /// Compiles to assembly, with options as a command line has them.
    pub(super) fn assembly(
        &mut self,
        source: &Arc<PreprocessedSource>,
        options: &[String],
    ) -> Result<Vec<u8>, CompileFault> {
        let options = options.iter().map(OsString::from).collect::<Vec<_>>();
        self.made(Some(source), &CompileJob::of_cc1(&options, ASSEMBLY))?.ok_or_else(nothing)
    }

    /// Compiles as far as the last form of RTL.
    pub(super) fn rtl(
        &mut self,
        source: &Arc<PreprocessedSource>,
        options: &[String],
    ) -> Result<Vec<u8>, CompileFault> {
        let mut arguments = options.iter().map(OsString::from).collect::<Vec<_>>();
        // A program without functions has no dump.
        // Without addresses, which differ between runs.
        arguments.extend(["-fdump-noaddr".into(), format!("-fdump-rtl-dfinish={RTL}").into()]);
        Ok(self.made(Some(source), &CompileJob::of_cc1(&arguments, RTL))?.unwrap_or_default())
    }

    /// Assembles what the compiler made of the source.
    pub(super) fn object(
        &mut self,
        source: &Arc<PreprocessedSource>,
        assembly: &[u8],
    ) -> Result<Vec<u8>, CompileFault> {
        self.made(Some(source), &CompileJob::of_assembler(assembly))?.ok_or_else(nothing)
    }

    /// Has the driver make an object of a source of C that nobody has preprocessed, as it does for
    /// whoever calls it by hand. `name` is that of the source's file.
    pub(super) fn object_of_source(
        &mut self,
        (name, text): (&str, &[u8]),
        options: &[String],
    ) -> Result<Vec<u8>, CompileFault> {
        let own = ["-w", "-c", name, "-o", OBJECT].map(OsString::from);
        let arguments: Vec<OsString> = options.iter().map(OsString::from).chain(own).collect();
        self.made(None, &CompileJob::of_driver(&arguments, (name, text)))?.ok_or_else(nothing)
    }

    /// Takes the folder, with the source in it if there is one.
    fn prepared(
        &mut self,
        source: Option<&Arc<PreprocessedSource>>,
    ) -> Result<ConfinedFolder, RunTrouble> {
        let mut folder = match self.folder.take() {
            Some(folder) => folder,
            None if self.is_memory_full => ConfinedFolder::on_disk(&self.compiler)?,
            None => ConfinedFolder::new(&self.compiler)?,
        };
        if let Some(source) = source
            && folder.source.as_ref().is_none_or(|there| there.sha1 != source.sha1)
        {
            folder.source = None;
            fs::write(folder.file(PREPROCESSED), &source.text)?;
            folder.source = Some(Arc::clone(source));
        }
        Ok(folder)
    }

    /// Does a job with the source, and returns what the file holds; none if the program succeeds
    /// and does not write it.
    fn made(
        &mut self,
        source: Option<&Arc<PreprocessedSource>>,
        job: &CompileJob<'_>,
    ) -> Result<Option<Vec<u8>>, CompileFault> {
        let mut made = self.tried(source, job);
        if matches!(made, Err(RunTrouble::Full(_))) && !self.is_memory_full {
            // A disk has more room, and what is in the folder goes with it.
            (self.is_memory_full, self.folder) = (true, None);
            made = self.tried(source, job);
        }
        let machine = |detail| Err(CompileFault::Session(SessionError::Machine(detail)));
        match made {
            Ok(made) => Ok(made),
            Err(RunTrouble::OfTheCompiler(failure)) => Err(CompileFault::Compiler(failure)),
            Err(RunTrouble::FromOutside(why)) => machine(format!(
                "a compiler did not come to its end, {} times in a row: {why}",
                ENDED_MAX + 1
            )),
            Err(RunTrouble::Full(detail)) => machine(detail),
            Err(RunTrouble::Session(error)) => Err(CompileFault::Session(error)),
        }
    }

    /// Does a job in the folder, which is made if there is none.
    fn tried(
        &mut self,
        source: Option<&Arc<PreprocessedSource>>,
        job: &CompileJob<'_>,
    ) -> Result<Option<Vec<u8>>, RunTrouble> {
        let folder = self.prepared(source)?;
        let made = self.made_in(&folder, job);
        self.folder = Some(folder);
        made
    }

    /// A compiler that crashes, or exceeds a limit, is tried once more: only what happens again is
    /// its answer. What it says of its input it would say again.
    fn made_in(
        &self,
        folder: &ConfinedFolder,
        job: &CompileJob<'_>,
    ) -> Result<Option<Vec<u8>>, RunTrouble> {
        let (mut has_failed, mut ended) = (false, 0);
        let file = folder.file(job.file);
        if let Some((name, content)) = job.input {
            fs::write(folder.file(name), content)?;
        }
        loop {
            // What an earlier run left would be taken for what this one made.
            let made = removed(&file).and_then(|()| self.run(folder, job));
            match made.and_then(|()| content(&file)) {
                Err(RunTrouble::OfTheCompiler(failure))
                    if !has_failed && failure.kind != job.refusal =>
                {
                    has_failed = true;
                }
                Err(RunTrouble::FromOutside(_)) if ended < ENDED_MAX => ended += 1,
                made => return made,
            }
        }
    }

    fn run(&self, folder: &ConfinedFolder, job: &CompileJob<'_>) -> Result<(), RunTrouble> {
        if self.config.interrupt.is_raised() {
            return Err(RunTrouble::Session(SessionError::Interrupted));
        }
        let WorkerConfig { step_cpu_max, memory_bytes_max, .. } = self.config;
        let limits = limits(step_cpu_max, self.config.step_wall_max(), memory_bytes_max);
        let is_unwanted = || self.config.interrupt.is_raised();
        let (tool, walls) = ((job.tool)(&self.compiler), &folder.enclosure);
        let heap = self.config.heap_variables();
        let ended = tool.run_in(walls, job.arguments, folder.path(), &limits, heap, is_unwanted);
        self.compiler.demand_unchanged().map_err(RunTrouble::Session)?;
        let ended = ended.map_err(|error| match error {
            ProcessError::Missing(missing) => {
                RunTrouble::Session(super::compiler::unavailable(missing.to_string()))
            }
            error => RunTrouble::Session(SessionError::Machine(error.to_string())),
        })?;
        if !ended.status.success() && self.config.interrupt.is_raised() {
            return Err(RunTrouble::Session(SessionError::Interrupted));
        }
        judged(&ended, step_cpu_max, job.refusal)
    }
}

/// Says how a run of a compiler went.
fn judged(ended: &ProcessEnd, cpu_max: Duration, refusal: FailureKind) -> Result<(), RunTrouble> {
    let failed = |kind, detail: &str| {
        let detail = detail.chars().take(DETAIL_CHARS_MAX).collect();
        Err(RunTrouble::OfTheCompiler(Failure { kind, detail }))
    };
    if ended.wrote_too_much {
        return failed(FailureKind::Crash, "it wrote too much to its standard output");
    }
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let has = |line: &str, words: &[&str]| words.iter().any(|words| line.contains(words));
    // What a message quotes of the source is indented.
    let is_of_memory = |line: &str| !line.starts_with(' ') && has(line, &NO_MEMORY);
    let is_error = |line: &&str| has(line, &ERRORS) || is_of_memory(line);
    let line = said.lines().find(is_error).or_else(|| said.lines().next());
    let line = line.unwrap_or_default().trim();
    if has(&said, &FULL) {
        return Err(RunTrouble::Full(line.to_owned()));
    }
    if OF_THE_MACHINE.iter().any(|name| said.starts_with(name)) {
        return Err(RunTrouble::Session(SessionError::Machine(line.to_owned())));
    }
    let time_out = format!("more than {} s of CPU time", cpu_max.as_secs());
    // The limit of wall time ends what stands still, and what a busy machine lets wait.
    let has_used_its_time = ended.cpu_time >= cpu_max;
    let signal = ended.status.signal().and_then(|number| Signal::try_from(number).ok());
    match signal {
        Some(Signal::SIGXCPU) => failed(FailureKind::TimeOut, &time_out),
        _ if ended.timed_out && has_used_its_time => failed(FailureKind::TimeOut, &time_out),
        _ if ended.stood_still() => {
            let seconds = ended.wall_time.as_secs();
            failed(FailureKind::TimeOut, &format!("it stood still for {seconds} s"))
        }
        _ if ended.timed_out => Err(RunTrouble::FromOutside(BUSY)),
        Some(Signal::SIGKILL) if has_used_its_time => failed(FailureKind::TimeOut, &time_out),
        Some(Signal::SIGKILL) => Err(RunTrouble::FromOutside(KILLED)),
        Some(signal) if line.is_empty() => failed(FailureKind::Crash, signal.as_str()),
        _ if has(line, &NO_MEMORY) => failed(FailureKind::OutOfMemory, line),
        Some(_) => failed(FailureKind::Crash, line),
        None => {
            let code = ended.status.code().unwrap_or_default();
            match line {
                "" => failed(FailureKind::Crash, &format!("it ended with exit code {code}")),
                line if code == DEFECT_EXIT_CODE || line.contains(DEFECT) => {
                    failed(FailureKind::Crash, line)
                }
                line => failed(refusal, line),
            }
        }
    }
}

/// Removes a file, if it is there.
fn removed(file: &Path) -> Result<(), RunTrouble> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns what a file holds, if it is there.
fn content(file: &Path) -> Result<Option<Vec<u8>>, RunTrouble> {
    match fs::read(file) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl From<io::Error> for RunTrouble {
    fn from(error: io::Error) -> Self {
        let detail = format!("a program cannot be compiled here: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(detail),
            _ => Self::Session(SessionError::Machine(detail)),
        }
    }
}

fn nothing() -> CompileFault {
    let detail = "it ended well and wrote nothing".to_owned();
    CompileFault::Compiler(Failure { kind: FailureKind::Crash, detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::GccState;
    use std::path::PathBuf;
    use std::process::ExitStatus;

    const CPU_MAX: Duration = Duration::from_secs(2);

    #[test]
    fn what_a_compiler_writes_beside_its_output_stays_in_the_folder() {
        let compiler = Compiler::open("").unwrap();
        let record = "-fsave-optimization-record".to_owned();
        if compiler.options.parse(&record).is_none() {
            return;
        }
        let state = GccState::parse(&compiler.options, b"int f(int x) { return x; }\n").unwrap();
        let mut workplace = Workplace::new(compiler, WorkerConfig::new(PathBuf::new()));
        workplace.assembly(&state.source, &["-O2".to_owned(), record]).unwrap();
        let folder = workplace.folder.unwrap();
        let mut names = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
        assert!(names.any(|name| name.to_string_lossy().ends_with(".opt-record.json.gz")));
    }

    fn killed() -> ProcessEnd {
        ProcessEnd {
            status: ExitStatus::from_raw(9),
            stdout: Vec::new(),
            stderr: Vec::new(),
            is_set_up: true,
            timed_out: false,
            awake: None,
            wrote_too_much: false,
            wall_time: Duration::ZERO,
            cpu_time: Duration::ZERO,
        }
    }

    /// What becomes of a run of the compiler proper.
    fn failure(ended: &ProcessEnd) -> Failure {
        match judged(ended, CPU_MAX, FailureKind::Rejected) {
            Err(RunTrouble::OfTheCompiler(failure)) => failure,
            _ => panic!("the compiler is to blame"),
        }
    }

    fn is_from_outside(ended: &ProcessEnd, wanted: &str) -> bool {
        let judged = judged(ended, CPU_MAX, FailureKind::Rejected);
        matches!(judged, Err(RunTrouble::FromOutside(why)) if why == wanted)
    }

    #[test]
    fn only_time_that_the_compiler_used_is_its_own_fault() {
        let late = ProcessEnd { timed_out: true, ..killed() };
        assert!(is_from_outside(&late, BUSY));
        let wall_time = 6 * CPU_MAX;
        let waiting = ProcessEnd { wall_time, awake: Some(5 * CPU_MAX), ..late };
        assert!(is_from_outside(&waiting, BUSY));
        let asleep = ProcessEnd { awake: Some(CPU_MAX / 100), ..waiting };
        assert_eq!(failure(&asleep).to_string(), "time-out: it stood still for 12 s");
        let late = ProcessEnd { timed_out: true, ..killed() };
        let used = failure(&ProcessEnd { cpu_time: CPU_MAX, ..late });
        assert_eq!(used.to_string(), "time-out: more than 2 s of CPU time");
        assert!(is_from_outside(&killed(), KILLED));
        let stubborn = failure(&ProcessEnd { cpu_time: CPU_MAX, ..killed() });
        assert_eq!(stubborn.kind, FailureKind::TimeOut);
    }

    #[test]
    fn a_compiler_that_is_ended_for_its_output_is_at_fault() {
        let loud = failure(&ProcessEnd { wrote_too_much: true, ..killed() });
        assert_eq!(loud.to_string(), "crash: it wrote too much to its standard output");
    }

    #[test]
    fn a_failure_has_its_kind_and_the_first_line_about_it() {
        let defect = "a.i: In function 'f':\na.i:3:1: internal compiler error: in f, at g.cc:7\n";
        let refused = "cc1: error: section anchors must be disabled\ncc1: error: and another\n";
        let assembler = "program.s: Assembler messages:\nprogram.s:1: Error: no such instruction\n";
        let memory = "cc1: out of memory allocating 65536 bytes after a total of 1 bytes\n";
        let late = "a.i: In function 'f':\n\ncc1: out of memory allocating 8 bytes\n";
        let quoting = "a.i:3:1: error: no\n  3 | say(\"out of memory\");\na.i:3:1: note: out of \
                       memory\n";
        let segfault = Signal::SIGSEGV as i32;
        for (status, stderr, wanted) in [
            (4 << 8, defect, "crash: a.i:3:1: internal compiler error: in f, at g.cc:7"),
            (1 << 8, defect, "crash: a.i:3:1: internal compiler error: in f, at g.cc:7"),
            (1 << 8, refused, "rejected: cc1: error: section anchors must be disabled"),
            (1 << 8, assembler, "rejected: program.s:1: Error: no such instruction"),
            (
                1 << 8,
                memory,
                "out-of-memory: cc1: out of memory allocating 65536 bytes after a \
                              total of 1 bytes",
            ),
            (1 << 8, late, "out-of-memory: cc1: out of memory allocating 8 bytes"),
            (1 << 8, quoting, "rejected: a.i:3:1: error: no"),
            (3 << 8, "", "crash: it ended with exit code 3"),
            (segfault, "", "crash: SIGSEGV"),
            (
                segfault,
                "a.i:3:1: internal compiler error: loop\n",
                "crash: a.i:3:1: internal \
                              compiler error: loop",
            ),
        ] {
            let status = ExitStatus::from_raw(status);
            let ended = ProcessEnd { status, stderr: stderr.as_bytes().to_vec(), ..killed() };
            assert_eq!(failure(&ended).to_string(), wanted);
        }
        let ended = ProcessEnd {
            status: ExitStatus::from_raw(1 << 8),
            stderr: assembler.as_bytes().to_vec(),
            ..killed()
        };
        let judged = judged(&ended, CPU_MAX, FailureKind::Assembler);
        assert!(matches!(judged, Err(RunTrouble::OfTheCompiler(failure)) if
            failure.kind == FailureKind::Assembler));
    }
}
