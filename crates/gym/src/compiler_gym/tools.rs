//! What stands in for two programs that come with `CompilerGym`: `compute_observation`, and an
//! `opt` that knows the flags of LLVM's legacy pass manager.
//!
//! Each plays one session of the service, in this process and a worker.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use steplake::datasets::Datasets;
use steplake::env::worker::WorkerConfig;
use steplake::env::{Environment, llvm};
use steplake::environments::catalogue::{Catalogue, inputs_folder};
use steplake::environments::{Environments, live};
use steplake::sandbox::Interrupt;
use steplake::{Error, ErrorKind};
use tempfile::TempDir;
use tonic::Status;

use super::recording::{Keeping, RecordedEnvironment};
use super::service::{FileAccess, Service};
use super::text_format;
use crate::proto::{
    Benchmark, EndSessionRequest, Event, File, StartSessionRequest, StepRequest, event, file,
};

/// Runs the tool that the first argument names.
///
/// # Errors
///
/// If there is no such tool, or its arguments are wrong, or the compiler fails.
pub(crate) fn run(line: &[OsString]) -> Result<(), Error> {
    match line {
        [tool, space, program] if tool == "compute_observation" => {
            let space = space.to_string_lossy();
            print(compute_observation(&space, Path::new(program))?.as_bytes())
        }
        [tool, llvm, arguments @ ..] if tool == "opt" => opt(Path::new(llvm), arguments),
        _ => Err(Error::usage(
            "write `compute_observation SPACE PROGRAM.bc`, or `opt LLVM-OPT ARGUMENT…`",
        )),
    }
}

fn print(bytes: &[u8]) -> Result<(), Error> {
    let written = std::io::stdout().lock().write_all(bytes);
    written.map_err(|error| failed(format!("standard output cannot be written: {error}")))
}

fn failed(problem: String) -> Error {
    Error::new(ErrorKind::Failed, problem)
}

/// A service without a network, for one session.
fn service(folder: &TempDir) -> Result<Service, Error> {
    let environments = Environments::default();
    let (environment, config) = (environments.open(llvm::NAME)?, environments.worker_config());
    let workers: Arc<dyn Environment> = Arc::from(live(environment, config.clone()));
    let catalogue = Arc::new(catalogue(workers.as_ref(), &config)?);
    let recorded = RecordedEnvironment::new(workers, catalogue, Keeping::Nothing);
    let files = FileAccess { reads: false, writes: false };
    Ok(Service::new(recorded, folder.path().to_owned(), files, Interrupt::default()))
}

/// What is known of programs: nothing, if there is no place for a cache.
fn catalogue(environment: &dyn Environment, config: &WorkerConfig) -> Result<Catalogue, Error> {
    match inputs_folder() {
        Some(_) => Catalogue::of(environment, config),
        None => Ok(Catalogue::Datasets(Datasets::own(Vec::new()), None)),
    }
}

/// A folder of files for clients, which nobody reads.
fn folder() -> Result<TempDir, Error> {
    tempfile::tempdir().map_err(|error| failed(format!("no folder can be made for files: {error}")))
}

/// A service with its one session.
struct Alone {
    service: Service,
    session_id: i64,
}

impl Alone {
    fn start(service: Service, path: &Path, program: Vec<u8>) -> Result<Self, Status> {
        let program = Some(File { data: Some(file::Data::Contents(program)) });
        let uri = path.display().to_string();
        let benchmark = Some(Benchmark { uri, program, dynamic_config: None });
        let request = StartSessionRequest { benchmark, ..StartSessionRequest::default() };
        let started = service.start(request)?;
        Ok(Self { service, session_id: started.session_id })
    }

    /// Applies actions, and looks at a space.
    fn step(&self, actions: &[i64], space: &str) -> Result<Event, Status> {
        let spaces = self.service.spaces().reply().observation_space_list;
        let place = (0_i32..).zip(&spaces).find(|(_, known)| known.name == space);
        let (place, _) = place.ok_or_else(|| Status::not_found(format!("no space {space}")))?;
        let action = |&action: &i64| Event {
            optional_type_id: None,
            value: Some(event::Value::Int64Value(action)),
        };
        let request = StepRequest {
            session_id: self.session_id,
            action: actions.iter().map(action).collect(),
            observation_space: vec![place],
        };
        let mut observed = self.service.step(&request)?.observation;
        observed.pop().ok_or_else(|| Status::internal("there is no observation"))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.service.end(EndSessionRequest { session_id: self.session_id });
    }
}

/// Returns an observation of a program as an event in the text format of protocol buffers. The
/// space is named as in `INST_COUNT`. Scripts know the first words of the errors.
fn compute_observation(space: &str, path: &Path) -> Result<String, Error> {
    let folder = folder()?;
    let service = service(&folder)?;
    let spaces = service.spaces().reply().observation_space_list;
    let known = spaces.iter().find(|known| enum_case(&known.name) == space);
    let known = known.ok_or_else(|| {
        let names = spaces.iter().map(|known| enum_case(&known.name)).collect::<Vec<_>>();
        let names = names.join(" or ");
        Error::usage(format!("Invalid observation space name: {space}: write {names}"))
    })?;
    let program = std::fs::read(path)
        .map_err(|error| failed(format!("{} cannot be read: {error}", path.display())))?;
    let event = Alone::start(service, path, program)
        .and_then(|alone| alone.step(&[], &known.name))
        .map_err(|status| failed(format!("Failed to compute observation: {}", status.message())))?;
    Ok(text_format::event(&event))
}

/// `InstCount` as `INST_COUNT`.
fn enum_case(name: &str) -> String {
    let mut spelled = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !spelled.is_empty() {
            spelled.push('_');
        }
        spelled.push(letter.to_ascii_uppercase());
    }
    spelled
}

/// The command line of an `opt` with legacy flags.
#[derive(Debug, Default, PartialEq, Eq)]
struct OptLine {
    flags: Vec<String>,
    input: Option<PathBuf>,
    output: Option<PathBuf>,
    is_text: bool,
}

impl OptLine {
    /// Parses arguments; returns `None` if there is anything that is neither a flag of `known` nor
    /// one of the few options that come with them.
    fn parse(arguments: &[OsString], known: &[String]) -> Option<Self> {
        let mut line = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("-S") => line.is_text = true,
                Some("-o") => line.output = Some(arguments.next()?.into()),
                Some("-f") => {}
                Some(flag) if known.iter().any(|known| known == flag) => {
                    line.flags.push(flag.to_owned());
                }
                Some(option) if option.len() > 1 && option.starts_with('-') => return None,
                _ if line.input.is_none() => line.input = Some(argument.into()),
                _ => return None,
            }
        }
        line.input.is_some().then_some(line)
    }
}

/// Runs legacy flags as the actions of a session. Whatever else there is on the command line, is
/// for LLVM's own `opt` at `llvm`.
fn opt(llvm: &Path, arguments: &[OsString]) -> Result<(), Error> {
    let space = Environments::default().open(llvm::NAME)?;
    let space = space.spec().action_space(super::server::ACTION_SPACE).cloned();
    let actions = space.map(|space| space.actions).unwrap_or_default();
    let known: Vec<String> = actions.into_iter().map(|action| action.name).collect();
    let Some(line) = OptLine::parse(arguments, &known).filter(|line| !line.flags.is_empty()) else {
        let error = tool(llvm).args(arguments).exec();
        return Err(failed(format!("{} cannot be started: {error}", llvm.display())));
    };
    let path = line.input.unwrap_or_default();
    let (program, folder) = (bitcode(llvm, &path)?, folder()?);
    let alone = Alone::start(service(&folder)?, &path, program)
        .map_err(|status| failed(status.message().to_owned()))?;
    let places = line.flags.iter().filter_map(|flag| known.iter().position(|one| one == flag));
    let places = places.filter_map(|place| i64::try_from(place).ok()).collect::<Vec<_>>();
    let seen = alone.step(&places, if line.is_text { "Ir" } else { "Bitcode" });
    let failed_on = |status: Status| failed(format!("{}: {}", path.display(), status.message()));
    let bytes = match seen.map_err(failed_on)?.value {
        Some(event::Value::StringValue(text)) => text.into_bytes(),
        Some(event::Value::ByteTensor(bytes)) => bytes.value,
        _ => return Err(failed("a state is neither text nor bytes".to_owned())),
    };
    match line.output.filter(|output| output != Path::new("-")) {
        Some(output) => std::fs::write(&output, bytes)
            .map_err(|error| failed(format!("{} cannot be written: {error}", output.display()))),
        None => print(&bytes),
    }
}

#[expect(clippy::disallowed_methods, reason = "LLVM's own tools, called by the user's script")]
fn tool(path: &Path) -> Command {
    Command::new(path)
}

/// Reads a program. Text goes through the assembler beside LLVM's `opt`.
fn bitcode(llvm: &Path, path: &Path) -> Result<Vec<u8>, Error> {
    let read = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    let read = read.map_err(|error| failed(format!("{}: {error}", path.display())))?;
    if read.starts_with(b"BC\xC0\xDE") {
        return Ok(read);
    }
    let assembler = llvm.with_file_name("llvm-as");
    let begun = tool(&assembler)
        .args(["-", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let assembled = begun.and_then(|mut assembler| {
        let mut input = assembler.stdin.take();
        // Text that is no program may be refused before it is read.
        let written = std::thread::spawn(move || {
            input.as_mut().map(|input| input.write_all(&read));
        });
        let output = assembler.wait_with_output();
        let _ = written.join();
        output
    });
    let assembled = assembled
        .map_err(|error| failed(format!("{} cannot be started: {error}", assembler.display())))?;
    if !assembled.status.success() {
        return Err(failed(format!("{} is no program: see above", path.display())));
    }
    Ok(assembled.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_flags_are_told_from_what_llvm_understands_itself() {
        let known = ["-mem2reg", "-gvn"].map(str::to_owned);
        let parse = |line: &str| {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            OptLine::parse(&line, &known)
        };
        let line = parse("-gvn -mem2reg -gvn in.ll -S -o out.ll").unwrap();
        assert_eq!(line.flags, ["-gvn", "-mem2reg", "-gvn"]);
        assert_eq!((line.input, line.output), (Some("in.ll".into()), Some("out.ll".into())));
        assert!(line.is_text);
        assert_eq!(parse("-gvn -").unwrap().input, Some("-".into()));
        for other in ["--version", "-passes=gvn in.bc", "-gvn", "-gvn a b", "-gvn in.bc -o"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn spaces_have_the_names_of_the_original() {
        let names = ["InstCount", "IrInstructionCountO3", "Ir"].map(enum_case);
        assert_eq!(names, ["INST_COUNT", "IR_INSTRUCTION_COUNT_O3", "IR"]);
    }
}
