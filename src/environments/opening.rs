//! Environments opened: by name, of a lake, and with their compilers in workers.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::imports;
use super::limits::{demand_worker_limits, widest};
use super::services::{self, Open};
use crate::Error;
use crate::compilers::{self, OpenError};
use crate::env::Environment;
use crate::env::worker::{WorkerConfig, WorkerEnvironment};
use crate::lake::{Identity, RunRow};
use crate::model::{ActionSpace, EnvironmentSpec};

/// Which environments a program can open, and which program their workers execute. The default is
/// for a program that [serves](crate::compilers::serve_if_worker) as its own worker, and cannot
/// talk to services.
#[derive(Debug, Clone)]
pub struct Environments {
    /// The program that workers execute. The path leads to the same file even after a build or an
    /// upgrade has replaced it: a newer program may have other actions and other state ids.
    program: PathBuf,
    /// Opens the environments of services, if this program can.
    open_service: Option<Open>,
}

impl Default for Environments {
    fn default() -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), open_service: None }
    }
}

impl Environments {
    /// Has workers execute the program at `path` in place of this one, for a library in a program
    /// that cannot [serve](crate::compilers::serve_if_worker) itself. The file stays open until
    /// this process ends, since workers are started anew at any time.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn with_worker_program(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?.into_raw_fd();
        Ok(Self { program: PathBuf::from(format!("/proc/self/fd/{file}")), ..Self::default() })
    }

    /// Has environments of services opened by `open`.
    pub fn with_services(open: Open) -> Self {
        Self { open_service: Some(open), ..Self::default() }
    }

    /// Returns whether environments of services can be opened.
    pub(crate) fn have_services(&self) -> bool {
        self.open_service.is_some()
    }

    /// Returns the environment called `name`, or that of the service at the address `name`.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn open(&self, name: &str) -> Result<Box<dyn Environment>, Error> {
        if name == imports::ENVIRONMENT {
            return Err(Error::usage(format!(
                "`{name}` is the environment of imported logs: its compiler is not here, so nothing \
                 can be played in it"
            )));
        }
        if services::is_address(name) {
            return services::open(self.open_service, name);
        }
        compilers::open(name).map_err(|error| match error {
            OpenError::Unknown(name) => Error::usage(format!(
                "there is no environment `{name}`: write {}, or grpc://HOST:PORT for that of a service",
                compilers::names().collect::<Vec<_>>().join(" or ")
            )),
            other => other.into(),
        })
    }

    /// Returns the default limits for worker processes.
    pub fn worker_config(&self) -> WorkerConfig {
        WorkerConfig::new(self.program.clone())
    }

    /// Returns these limits for worker processes.
    ///
    /// # Errors
    ///
    /// If a limit is out of range.
    pub fn limited_worker_config(
        &self,
        step_cpu_seconds: u64,
        worker_memory_mib: u64,
    ) -> Result<WorkerConfig, Error> {
        demand_worker_limits(step_cpu_seconds, worker_memory_mib)?;
        Ok(WorkerConfig {
            step_cpu_max: Duration::from_secs(step_cpu_seconds),
            memory_bytes_max: worker_memory_mib << 20,
            ..self.worker_config()
        })
    }

    /// Returns the same environment with its compiler in other processes, for replaying what `runs`
    /// recorded.
    pub fn workers(&self, environment: &dyn Environment, runs: &[RunRow]) -> Box<dyn Environment> {
        apart(environment, widest(self.worker_config(), runs))
    }
}

/// Returns the environment of a lake, with the lake's own build of the compiler if that is here.
///
/// # Errors
///
/// If this program does not have it: the lake was recorded from somebody's own, or imported.
pub fn environment_of_lake(lake: &Identity) -> Result<Box<dyn Environment>, Error> {
    compilers::open_build(&lake.environment, &lake.compiler).map_err(|error| match error {
        OpenError::Unknown(name) => Error::usage(format!(
            "the lake is of the environment `{name}`, which is not part of steplake: what it \
             stores can be read, and no state can be computed again"
        )),
        other => other.into(),
    })
}

/// Returns the environment with its compiler in other processes, if this program has it and it has
/// a compiler.
pub fn live(environment: Box<dyn Environment>, config: WorkerConfig) -> Box<dyn Environment> {
    if environment.may_live_here() {
        return environment;
    }
    if let Some(served) = environment.served() {
        served.limit(config);
        return environment;
    }
    apart(environment.as_ref(), config)
}

/// Returns the same environment with its compiler in other processes: its own ones, or workers.
fn apart(environment: &dyn Environment, config: WorkerConfig) -> Box<dyn Environment> {
    environment
        .within(&config)
        .unwrap_or_else(|| Box::new(WorkerEnvironment::new(environment.spec().clone(), config)))
}

/// Returns the action space called `name`, or the environment's first one.
///
/// # Errors
///
/// If the environment has no such action space.
pub fn action_space(spec: &EnvironmentSpec, name: Option<&str>) -> Result<ActionSpace, Error> {
    let found = match name {
        Some(name) => spec.action_space(name),
        None => spec.action_spaces.first(),
    };
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = spec.action_spaces.iter().map(|space| space.name.as_str()).collect();
        Error::usage(format!(
            "{} has no action space `{}`: write {}",
            spec.name,
            name.unwrap_or_default(),
            known.join(" or ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn workers_execute_the_file_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let [program, newer] = ["program", "newer"].map(|name| folder.path().join(name));
        fs::write(&program, "old").unwrap();
        let environments = Environments::with_worker_program(&program).unwrap();
        fs::write(&newer, "new").unwrap();
        fs::rename(newer, &program).unwrap();
        let config = environments.clone().worker_config();
        drop(environments);
        assert_eq!(fs::read_to_string(config.program).unwrap(), "old");
        assert!(Environments::with_worker_program(&folder.path().join("none")).is_err());
    }
}
