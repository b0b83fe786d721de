//! Docker and podman, which are asked for an image and for its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use steplake_model::plain_problem;
use steplake_sandbox::{Limits, Process};

/// The digits of an image's id in the names of folders and builds.
pub(super) const ID_DIGITS: usize = 16;

/// The programs that keep images, and take the same commands.
const NAMES: [&str; 2] = ["docker", "podman"];

/// The architecture of the images that can be used, as images call it.
const ARCHITECTURE: &str = "amd64";

/// How long an answer and an export may take.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);
const EXPORT_LIMIT: Duration = Duration::from_hours(1);

/// The largest file of an export.
const FILE_BYTES_MAX: u64 = 64 << 30;

/// The most output that is read of an answer.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The most characters of an engine's message that are shown.
const DETAIL_CHARS_MAX: usize = 300;

/// A program that keeps images.
#[derive(Debug)]
pub(super) struct ContainerEngine {
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    /// Its first arguments.
    pub(super) arguments: Vec<OsString>,
}

/// An image.
#[derive(Debug)]
pub(super) struct InspectedImage {
    /// The hexadecimal digits of its id.
    pub(super) id: String,
    architecture: String,
    /// The variables of its programs, each as `NAME=value`.
    pub(super) variables: Vec<String>,
}

/// What engines say about an image, among other things.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectOutput {
    id: String,
    architecture: String,
    config: Option<Config>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    env: Option<Vec<String>>,
}

impl ContainerEngine {
    /// Returns those on the search path.
    pub(super) fn installed() -> Vec<Self> {
        let engine = |name| {
            Some(Self { name, program: steplake_sandbox::search(name)?, arguments: Vec::new() })
        };
        NAMES.into_iter().filter_map(engine).collect()
    }

    fn image(&self, name: &str) -> Result<InspectedImage, String> {
        let said = self.run(&["image", "inspect", name], ANSWER_LIMIT)?;
        let described = serde_json::from_str::<Vec<InspectOutput>>(&said).map_err(|error| {
            let problem = plain_problem(&error.to_string());
            format!("it describes the image in another way: {problem}")
        })?;
        let Some(InspectOutput { id, architecture, config }) = described.into_iter().next() else {
            return Err("it describes nothing".to_owned());
        };
        let id = id.trim_start_matches("sha256:").to_owned();
        if id.len() < ID_DIGITS || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("the id `{id}` of the image is no digest"));
        }
        let variables = config.unwrap_or_default().env.unwrap_or_default();
        Ok(InspectedImage { id, architecture, variables })
    }

    /// Writes the files of an image into an archive. A container is made for it, and never run.
    pub(super) fn export(&self, image: &InspectedImage, archive: &Path) -> Result<(), String> {
        let failed = |error: String| format!("{} gives no files of the image: {error}", self.name);
        // An image may have no command, and a container needs one.
        let container = self.run(&["create", &image.id, "true"], EXPORT_LIMIT).map_err(failed)?;
        let container = container.lines().last().unwrap_or_default().trim();
        let place = archive.to_string_lossy();
        let exported = self.run(&["export", "--output", &place, container], EXPORT_LIMIT);
        let removed = self.run(&["rm", container], ANSWER_LIMIT);
        exported.and(removed).map(drop).map_err(failed)
    }

    /// Makes an image of an archive of files.
    #[cfg(test)]
    pub(super) fn import(&self, archive: &str, name: &str) -> Result<(), String> {
        self.run(&["import", archive, name], EXPORT_LIMIT).map(drop)
    }

    /// Runs a command and returns its output. It gets all variables, since some of them say where
    /// images are, and no walls, since it is the user's own program for this.
    fn run(&self, arguments: &[&str], time: Duration) -> Result<String, String> {
        let mut process = Process {
            program: self.program.clone(),
            arguments: self
                .arguments
                .iter()
                .cloned()
                .chain(arguments.iter().map(Into::into))
                .collect(),
            environment: std::env::vars_os().collect(),
            folder: None,
            walls: None,
            limits: Limits {
                wall: time,
                cpu: time,
                memory_bytes: None,
                file_bytes: FILE_BYTES_MAX,
                stdout_bytes: OUTPUT_BYTES_MAX,
                stderr_bytes: OUTPUT_BYTES_MAX,
            },
            input: None,
            cpu: None,
            gate: None,
        };
        let ended = process.run().map_err(|error| error.to_string())?;
        if ended.timed_out {
            return Err(format!("no answer within {} s", time.as_secs()));
        }
        if ended.status.success() {
            return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let line =
            said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it failed");
        Err(line.chars().take(DETAIL_CHARS_MAX).collect())
    }
}

/// Returns the first engine that has an image, and the image.
///
/// # Errors
///
/// If none has it, or it is for another machine.
pub(super) fn with_image<'a>(
    engines: &'a [ContainerEngine],
    name: &str,
) -> Result<(&'a ContainerEngine, InspectedImage), String> {
    let Some(last) = engines.last() else {
        return Err(format!(
            "the container image `{name}` needs docker or podman: apt-get install podman"
        ));
    };
    let mut answers = Vec::new();
    for engine in engines {
        match engine.image(name) {
            Ok(found) if found.architecture == ARCHITECTURE => return Ok((engine, found)),
            Ok(found) => answers.push(format!(
                "{}: it is for {}, and {ARCHITECTURE} is wanted",
                engine.name, found.architecture
            )),
            Err(said) => answers.push(format!("{}: {said}", engine.name)),
        }
    }
    Err(format!(
        "there is no container image `{name}` here ({}). To fetch it: {} pull {name}",
        answers.join("; "),
        last.name
    ))
}
