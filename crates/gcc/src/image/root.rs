//! The files of an image, below a folder of this machine: where its programs are, and how they are
//! started with the image's own loader and libraries.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::tool::{CompilerTool, limits};
use steplake_model::plain_problem;
use steplake_sandbox::{Limits, OpenPaths, Process, plain_environment};

/// The programs of a compiler.
pub(super) const DRIVER: &str = "gcc";
pub(super) const CC1: &str = "cc1";
const ASSEMBLER: &str = "as";

/// The folders of the image's files, and of the scripts that start its programs.
const FILES: &str = "root";
pub(super) const SCRIPTS: &str = "bin";

/// The file that says where the programs are.
const PROGRAMS: &str = "programs.json";

/// The loader of programs for this machine that use glibc.
const LOADER: &str = "lib64/ld-linux-x86-64.so.2";

/// Where libraries are, besides the folders that the image's configuration names.
const LIBRARIES: [&str; 4] = ["lib64", "usr/lib64", "lib", "usr/lib"];

/// Where programs are if the image does not say it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How long unpacking may take, and how long the driver may look for its programs.
const UNPACK_LIMIT: Duration = Duration::from_hours(1);
const ASK_LIMIT: Duration = Duration::from_mins(1);

/// The largest file of an image, and the most memory of what is run here.
const FILE_BYTES_MAX: u64 = 64 << 30;
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// The files of an image.
#[derive(Debug)]
pub(super) struct RootFilesystem {
    pub(super) folder: PathBuf,
    programs: ProgramPaths,
}

/// The places of the programs and libraries, relative to the image's files.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ProgramPaths {
    driver: PathBuf,
    cc1: PathBuf,
    assembler: PathBuf,
    libraries: Vec<PathBuf>,
}

/// A program of an image.
#[derive(Debug)]
pub(crate) struct Placed {
    /// Its file.
    pub(crate) file: PathBuf,
    /// What starts it.
    pub(crate) loader: PathBuf,
    /// The arguments before its own ones.
    pub(crate) arguments: Vec<OsString>,
}

impl RootFilesystem {
    /// Finds the programs of unpacked files, and writes scripts that start them.
    pub(super) fn make(folder: &Path, variables: &[String]) -> Result<(), String> {
        let files = folder.join(FILES);
        settle(&files).map_err(|error| error.to_string())?;
        if !files.join(LOADER).is_file() {
            return Err(format!("it has no /{LOADER}, by which programs for glibc are started"));
        }
        let value = |name: &str| {
            let value =
                |text: &String| Some(text.strip_prefix(name)?.strip_prefix('=')?.to_owned());
            variables.iter().find_map(value)
        };
        let path = value("PATH").unwrap_or_else(|| PATH.to_owned());
        let named = value("LD_LIBRARY_PATH").unwrap_or_default();
        let libraries = libraries(&files, &named);
        let driver = searched(&files, &path, DRIVER)
            .ok_or_else(|| format!("it has no `{DRIVER}` in {path}"))?;
        let programs = ProgramPaths { driver, libraries, ..ProgramPaths::default() };
        let mut root = Self { folder: folder.to_owned(), programs };
        root.programs.cc1 = root.part(&path, CC1)?;
        root.programs.assembler = root.part(&path, ASSEMBLER)?;
        root.write_scripts().map_err(|error| error.to_string())
    }

    /// Opens what was made.
    pub(super) fn open(folder: PathBuf) -> Result<Self, String> {
        let file = folder.join(PROGRAMS);
        let damaged = |problem: &str| {
            format!("{} is damaged, delete its folder: {}", file.display(), plain_problem(problem))
        };
        let text = fs::read(&file).map_err(|error| damaged(&error.to_string()))?;
        let programs =
            serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
        Ok(Self { folder, programs })
    }

    /// Returns the program of this name, if it is one of the compiler's.
    pub(super) fn program(&self, name: &str) -> Option<Placed> {
        let programs = &self.programs;
        let place = match name {
            DRIVER => &programs.driver,
            CC1 => &programs.cc1,
            ASSEMBLER => &programs.assembler,
            _ => return None,
        };
        let files = self.folder.join(FILES);
        let file = files.join(place);
        let folders = programs.libraries.iter().map(|folder| files.join(folder).into_os_string());
        let libraries = folders.collect::<Vec<_>>().join(":".as_ref());
        let words = ["--inhibit-cache".into(), "--library-path".into(), libraries];
        let arguments = words.into_iter().chain([file.clone().into_os_string()]).collect();
        Some(Placed { file, loader: files.join(LOADER), arguments })
    }

    /// Asks the driver for a program that it starts.
    fn part(&self, path: &str, name: &str) -> Result<PathBuf, String> {
        let missing = || format!("its `{DRIVER}` has no `{name}`");
        let Placed { loader, arguments, .. } = self.program(DRIVER).ok_or_else(missing)?;
        let tool =
            CompilerTool { arguments, ..CompilerTool::new(loader, vec![self.folder.clone()]) };
        let question = [OsString::from(format!("-print-prog-name={name}"))];
        let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
        let ended = tool.run(&question, scratch.path(), &ask_limits());
        let ended = ended.map_err(|error| error.to_string())?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            return Err(format!("its `{DRIVER}`: {}", said.lines().next().unwrap_or("it fails")));
        }
        let said = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
        let files = fs::canonicalize(self.folder.join(FILES)).map_err(|error| error.to_string())?;
        // The driver names a place below this folder, one of the image, or what is on the path.
        let file = if !said.contains('/') {
            return searched(&files, path, &said).ok_or_else(missing);
        } else if Path::new(&said).starts_with(&self.folder) {
            PathBuf::from(&said)
        } else {
            files.join(said.trim_start_matches('/'))
        };
        let file = fs::canonicalize(file).ok().filter(|file| file.is_file());
        let place = file.and_then(|file| Some(file.strip_prefix(&files).ok()?.to_owned()));
        place.ok_or_else(missing)
    }

    /// Writes scripts that start the programs: the driver starts those of its folder first. They
    /// name files by their own place, so that the cache can be moved.
    fn write_scripts(&self) -> io::Result<()> {
        let scripts = self.folder.join(SCRIPTS);
        fs::create_dir(&scripts)?;
        let programs = &self.programs;
        for (name, place) in
            [(DRIVER, &programs.driver), (CC1, &programs.cc1), (ASSEMBLER, &programs.assembler)]
        {
            let below = |place: &Path| format!("\"$here/../{FILES}/\"{}", quoted(place));
            let libraries = programs.libraries.iter().map(|folder| below(folder));
            let libraries = libraries.collect::<Vec<_>>().join(":");
            let mut script = format!(
                "#!/bin/sh\nhere=${{0%/*}}\nexec {} --inhibit-cache --library-path {libraries} {}",
                below(Path::new(LOADER)),
                below(place)
            );
            if name == DRIVER {
                let _ = write!(script, " -B\"$here/\" --sysroot=\"$here/../{FILES}\"");
            }
            script.push_str(" \"$@\"\n");
            let file = scripts.join(name);
            fs::write(&file, script)?;
            fs::set_permissions(&file, Permissions::from_mode(0o755))?;
        }
        fs::write(self.folder.join(PROGRAMS), serde_json::to_vec_pretty(&self.programs)?)
    }
}

fn ask_limits() -> Limits {
    limits(ASK_LIMIT, ASK_LIMIT, MEMORY_BYTES_MAX)
}

/// Writes a path in single quotes, as a shell reads it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// Unpacks an archive into the folder of the files, without those in `left_out`.
pub(super) fn unpack(archive: &Path, folder: &Path, left_out: &[&str]) -> Result<(), String> {
    let files = folder.join(FILES);
    fs::create_dir(&files).map_err(|error| error.to_string())?;
    let mut arguments: Vec<OsString> =
        ["--extract", "--no-same-owner", "--anchored"].map(Into::into).to_vec();
    // Archives name files with and without `./`.
    for name in left_out {
        arguments.extend(["", "./"].map(|begin| format!("--exclude={begin}{name}").into()));
    }
    arguments.extend(["--directory".into(), files.clone().into_os_string()]);
    arguments.extend(["--file".into(), archive.as_os_str().to_owned()]);
    let tar = steplake_sandbox::find("tar", "tar").map_err(|error| error.to_string())?;
    let mut process = Process {
        program: tar,
        arguments,
        environment: plain_environment(),
        folder: None,
        walls: Some(OpenPaths { read: vec![archive.to_owned()], write: vec![files] }),
        limits: Limits {
            wall: UNPACK_LIMIT,
            file_bytes: FILE_BYTES_MAX,
            ..limits(UNPACK_LIMIT, UNPACK_LIMIT, MEMORY_BYTES_MAX)
        },
        input: None,
        cpu: None,
        gate: None,
    };
    let ended = process.run().map_err(|error| error.to_string())?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(format!("it cannot be unpacked: {}", said.lines().next().unwrap_or("tar failed")))
}

/// Makes links mean files of the image, removes devices and pipes, lets this user delete every
/// folder, and takes from programs the right to run as somebody else.
fn settle(files: &Path) -> io::Result<()> {
    let mut folders = vec![files.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let status = fs::symlink_metadata(&path)?;
            if status.is_symlink() {
                let target = fs::read_link(&path)?;
                if let Ok(target) = target.strip_prefix("/") {
                    let depth = folder.strip_prefix(files).unwrap_or(Path::new(""));
                    let up: PathBuf = depth.components().map(|_| "..").collect();
                    fs::remove_file(&path)?;
                    symlink(Path::new(".").join(up).join(target), &path)?;
                }
                continue;
            }
            if !status.is_dir() && !status.is_file() {
                // A device of this machine, or a pipe, is no part of a compiler.
                fs::remove_file(&path)?;
                continue;
            }
            let wanted = if status.is_dir() { 0o700 } else { 0o400 };
            let mode = status.mode() & 0o777 | wanted;
            if status.mode() & 0o7777 != mode {
                fs::set_permissions(&path, Permissions::from_mode(mode))?;
            }
            if status.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// Looks for a program in the folders of a search path of the image.
fn searched(files: &Path, path: &str, name: &str) -> Option<PathBuf> {
    let folders = path.split(':').map(|folder| folder.trim_start_matches('/'));
    let place = |folder: &str| Path::new(folder).join(name);
    folders.map(place).find(|place| files.join(place).is_file())
}

/// The folders of libraries: those that variables name, those of the configuration, the usual ones.
fn libraries(files: &Path, named: &str) -> Vec<PathBuf> {
    let configuration = files.join("etc/ld.so.conf.d");
    let entries = fs::read_dir(configuration).into_iter().flatten().flatten();
    let mut configurations: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    configurations.sort();
    configurations.insert(0, files.join("etc/ld.so.conf"));
    let lines: Vec<String> = configurations
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>())
        .filter(|line| line.starts_with('/'))
        .collect();
    let all = named.split(':').chain(lines.iter().map(String::as_str)).chain(LIBRARIES);
    let all = all.map(|folder| folder.trim_start_matches('/')).filter(|folder| !folder.is_empty());
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in all.filter(|folder| files.join(folder).is_dir()) {
        if !found.iter().any(|known| known == Path::new(folder)) {
            found.push(PathBuf::from(folder));
        }
    }
    found
}
