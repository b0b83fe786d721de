//! Where a session compiles: a folder of its own, in memory where the system has such a place, in
//! which cc1 and the assembler run behind walls.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

use super::compiler::{ASSEMBLY, Compiler, OBJECT, PREPROCESSED};
use super::state::Source;
use super::tool::{Tool, limits};
use crate::env::SessionError;
use crate::env::worker::WorkerConfig;
use crate::sandbox::{self, Enclosure, Ended, Open, ProcessError};

/// The file of a dump of RTL.
const RTL: &str = "program.rtl";

/// Room that a folder in memory has to have; containers often have little.
const ROOM_BYTES_MIN: u64 = 256 << 20;

/// How often a compiler is started again that somebody else ended.
const ENDED_MAX: u32 = 3;

/// The most characters of a compiler's message that are kept.
const DETAIL_CHARS_MAX: usize = 300;

/// Beginnings of messages of the programs that set the limits, and of a full disk.
const OF_THE_MACHINE: [&str; 3] = ["setpriv: ", "prlimit: ", "env: "];
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// Why there is no result.
#[derive(Debug)]
pub(super) enum Fault {
    /// The compiler failed twice: it is its answer. One line.
    Compiler(String),
    /// Anything else.
    Session(SessionError),
}

/// How one run failed.
enum Trouble {
    OfTheCompiler(String),
    FromOutside,
    Session(SessionError),
}

/// A folder in which a compiler runs.
#[derive(Debug)]
pub(super) struct Workplace {
    compiler: Arc<Compiler>,
    config: WorkerConfig,
    folder: Option<Folder>,
}

/// A folder behind walls.
#[derive(Debug)]
struct Folder {
    place: TempDir,
    enclosure: Enclosure,
    /// The source that is in it.
    source: Option<Arc<Source>>,
}

impl Folder {
    fn new(compiler: &Compiler) -> io::Result<Self> {
        let place = tempfile::Builder::new().prefix("steplake-gcc-").tempdir_in(memory())?;
        let tools = [&compiler.cc1, &compiler.assembler];
        let read = tools
            .into_iter()
            .flat_map(|tool| tool.read.iter().cloned().chain(sandbox::installation(&tool.program)));
        let open = Open { read: read.collect(), write: vec![place.path().to_owned()] };
        Ok(Self { enclosure: Enclosure::new(open)?, place, source: None })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

impl Workplace {
    /// Plans a folder, which is made when something is compiled.
    pub(super) fn new(compiler: Arc<Compiler>, config: WorkerConfig) -> Self {
        Self { compiler, config, folder: None }
    }

    /// Compiles to assembly, with options as a command line has them.
    pub(super) fn assembly(
        &mut self,
        source: &Arc<Source>,
        options: &[String],
    ) -> Result<Vec<u8>, Fault> {
        let options = options.iter().map(OsString::from).collect::<Vec<_>>();
        self.made(source, |compiler| &compiler.cc1, &options, ASSEMBLY)
    }

    /// Compiles as far as the last form of RTL.
    pub(super) fn rtl(
        &mut self,
        source: &Arc<Source>,
        options: &[String],
    ) -> Result<Vec<u8>, Fault> {
        let mut arguments = options.iter().map(OsString::from).collect::<Vec<_>>();
        // Without addresses, which differ between runs.
        arguments.extend(["-fdump-noaddr".into(), format!("-fdump-rtl-dfinish={RTL}").into()]);
        self.made(source, |compiler| &compiler.cc1, &arguments, RTL)
    }

    /// Assembles what the compiler made of the source.
    pub(super) fn object(
        &mut self,
        source: &Arc<Source>,
        assembly: &[u8],
    ) -> Result<Vec<u8>, Fault> {
        let folder = self.prepared(source).map_err(Fault::Session)?;
        let written = fs::write(folder.file(ASSEMBLY), assembly);
        self.folder = Some(folder);
        written.map_err(|error| lost(&error))?;
        self.made(source, |compiler| &compiler.assembler, &[], OBJECT)
    }

    /// Takes the folder, with the source in it.
    fn prepared(&mut self, source: &Arc<Source>) -> Result<Folder, SessionError> {
        let machine = |error: io::Error| {
            SessionError::Machine(format!("a program cannot be compiled here: {error}"))
        };
        let mut folder = match self.folder.take() {
            Some(folder) => folder,
            None => Folder::new(&self.compiler).map_err(machine)?,
        };
        if folder.source.as_ref().is_none_or(|there| there.sha1 != source.sha1) {
            folder.source = None;
            fs::write(folder.file(PREPROCESSED), &source.text).map_err(machine)?;
            folder.source = Some(Arc::clone(source));
        }
        Ok(folder)
    }

    /// Has a program make `file` of the source.
    fn made(
        &mut self,
        source: &Arc<Source>,
        tool: fn(&Compiler) -> &Tool,
        arguments: &[OsString],
        file: &str,
    ) -> Result<Vec<u8>, Fault> {
        let folder = self.prepared(source).map_err(Fault::Session)?;
        let made = self.made_in(&folder, tool(&self.compiler), arguments, file);
        self.folder = Some(folder);
        made
    }

    /// A compiler that fails is tried once more: only what happens again is its answer.
    fn made_in(
        &self,
        folder: &Folder,
        tool: &Tool,
        arguments: &[OsString],
        file: &str,
    ) -> Result<Vec<u8>, Fault> {
        let (mut has_failed, mut ended) = (false, 0);
        loop {
            let made = self.run(folder, tool, arguments);
            match made.and_then(|()| fs::read(folder.file(file)).map_err(|error| unread(&error))) {
                Ok(bytes) => return Ok(bytes),
                Err(Trouble::OfTheCompiler(detail)) if has_failed => {
                    return Err(Fault::Compiler(detail));
                }
                Err(Trouble::OfTheCompiler(_)) => has_failed = true,
                Err(Trouble::FromOutside) if ended < ENDED_MAX => ended += 1,
                Err(Trouble::FromOutside) => {
                    return Err(Fault::Session(SessionError::Machine(format!(
                        "a compiler was ended from outside {} times in a row: this machine may be \
                         short of memory; free some, or use fewer jobs",
                        ended + 1
                    ))));
                }
                Err(Trouble::Session(error)) => return Err(Fault::Session(error)),
            }
        }
    }

    fn run(&self, folder: &Folder, tool: &Tool, arguments: &[OsString]) -> Result<(), Trouble> {
        if self.config.interrupt.is_raised() {
            return Err(Trouble::Session(SessionError::Interrupted));
        }
        let WorkerConfig { step_cpu_max, memory_bytes_max, .. } = self.config;
        let limits = limits(step_cpu_max, self.config.step_wall_max(), memory_bytes_max);
        let ended = tool.run_in(&folder.enclosure, arguments, folder.place.path(), &limits);
        let ended = ended.map_err(|error| match error {
            ProcessError::Missing(missing) => {
                Trouble::Session(super::compiler::unavailable(missing.to_string()))
            }
            error => Trouble::Session(SessionError::Machine(error.to_string())),
        })?;
        judged(&ended, step_cpu_max)
    }
}

/// Says how a run of a compiler went.
fn judged(ended: &Ended, cpu_max: Duration) -> Result<(), Trouble> {
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let line = said.lines().find(|line| line.contains("error: ")).or_else(|| said.lines().next());
    let line = line.unwrap_or_default().trim();
    if OF_THE_MACHINE.iter().any(|name| said.starts_with(name))
        || FULL.iter().any(|full| said.contains(full))
    {
        return Err(Trouble::Session(SessionError::Machine(line.to_owned())));
    }
    let time_out = || format!("time-out: more than {} s of CPU time", cpu_max.as_secs());
    let signal = ended.status.signal().and_then(|number| Signal::try_from(number).ok());
    Err(match signal {
        _ if ended.timed_out => Trouble::OfTheCompiler(time_out()),
        Some(Signal::SIGXCPU) => Trouble::OfTheCompiler(time_out()),
        Some(Signal::SIGKILL) => Trouble::FromOutside,
        Some(signal) => Trouble::OfTheCompiler(format!("crash: {signal}")),
        None if line.is_empty() => {
            let code = ended.status.code().unwrap_or_default();
            Trouble::OfTheCompiler(format!("it ended with exit code {code}"))
        }
        None => Trouble::OfTheCompiler(line.chars().take(DETAIL_CHARS_MAX).collect()),
    })
}

fn unread(error: &io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::NotFound => Trouble::OfTheCompiler("it wrote nothing".to_owned()),
        _ => Trouble::Session(SessionError::Machine(error.to_string())),
    }
}

fn lost(error: &io::Error) -> Fault {
    Fault::Session(SessionError::Machine(format!("a program cannot be assembled here: {error}")))
}

/// Returns the folder for folders of sessions: one in memory if there is one with room.
fn memory() -> PathBuf {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let in_memory = of_user.map(PathBuf::from).into_iter().chain([PathBuf::from("/dev/shm")]);
    let has_room = |folder: &PathBuf| {
        statvfs(folder)
            .is_ok_and(|disk| disk.blocks_available() * disk.fragment_size() >= ROOM_BYTES_MIN)
    };
    in_memory.into_iter().find(has_room).unwrap_or_else(std::env::temp_dir)
}
