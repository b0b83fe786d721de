//! Which files a program could not open: the reason why many a program fails behind the walls.
//!
//! The program is run once more, with a small library before that of C, which writes the names
//! down (`unopened.c`). It is built by the linker of the program, so it costs nothing where all is
//! well.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};

use super::beneath;
use super::error::ExecutionError;
use super::executable::{Executable, build_tool};

const LIBRARY: &str = include_str!("unopened.c");

/// The names of the library, its source and its list in the folder for what tools need.
const SOURCE: &str = "unopened.c";
const OBJECT: &str = "unopened.so";
const LIST: &str = "unopened";

/// The most of the list that is read, and the most names that are told.
const LIST_MAX_BYTES: u64 = 64 << 10;
const NAMES_MAX: usize = 3;

impl Executable {
    /// Says that the program tries to open files that are not there, and which; none if it does
    /// not, or if that cannot be found out. For a program that ended with an error.
    pub fn unopened(&self) -> Option<String> {
        let names = self.unopened_names().ok().filter(|names| !names.is_empty())?;
        let told = names.iter().take(NAMES_MAX).map(|name| format!("`{name}`"));
        let told = told.collect::<Vec<_>>().join(" and ");
        let more = match names.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "it could not open {told}{more}; files outside of its own folder are not there, unless \
             they are inputs"
        ))
    }

    /// The names of the files, each once, in the order in which the program named them first.
    fn unopened_names(&self) -> Result<Vec<String>, ExecutionError> {
        let temporary = self.temporary_folder();
        let [source, object, list] = [SOURCE, OBJECT, LIST].map(|name| temporary.join(name));
        for file in [&source, &object, &list] {
            // An earlier run may have left a link there.
            fs::remove_file(file).ok();
        }
        beneath::create(temporary, SOURCE)
            .and_then(|mut file| file.write_all(LIBRARY.as_bytes()))?;
        let fixed = ["-shared", "-fPIC", "-w", "-O1", "-x", "c", "-o"].map(OsString::from);
        let files = [object.clone().into(), source.into(), "-ldl".into()];
        let arguments = fixed.into_iter().chain(files).collect();
        let ended = self.shell().program(build_tool(&self.execution().build)?, arguments)?;
        ended.success("the build", |detail| ExecutionError::BuildFailed { detail })?;
        let mut command = self.run_command()?.clone();
        // Not for what sets up the limits of the program.
        let [object, listed] = [&object, &list].map(|path| path.display().to_string());
        let [object, listed] = [&object, &listed].map(|path| shell_words::quote(path));
        let export = format!("export LD_PRELOAD={object} STEPLAKE_UNOPENED={listed};");
        command.arguments.insert(0, export);
        self.run_by(&command, &[])?;
        let mut content = String::new();
        if let Ok(file) = beneath::open(temporary, LIST) {
            let mut bytes = Vec::new();
            file.take(LIST_MAX_BYTES).read_to_end(&mut bytes)?;
            content = String::from_utf8_lossy(&bytes).into_owned();
        }
        let mut names: Vec<String> = Vec::new();
        for name in content.lines() {
            let name = name.chars().filter(|c| !c.is_control()).collect();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }
}
