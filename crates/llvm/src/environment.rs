//! The environment's spec: its compiler and spaces.

use std::sync::Arc;

#[cfg(feature = "compiler")]
use super::session::LlvmSession;
use super::spaces;
use steplake_env::{Environment, EnvironmentOpening, ListedEnvironment, Session, SessionError};
use steplake_model::EnvironmentSpec;

/// The environment's name.
pub const NAME: &str = "llvm-v0";

/// The name of the environment with a [planted bug](LlvmEnvironment::planted).
#[cfg(debug_assertions)]
const PLANTED: &str = "llvm-planted-v0";

/// The environments by their names.
pub const ENTRIES: &[ListedEnvironment] = &[
    ListedEnvironment {
        name: NAME,
        opening: EnvironmentOpening::OfOne(|| Box::new(LlvmEnvironment::new())),
        is_listed: true,
    },
    #[cfg(debug_assertions)]
    ListedEnvironment {
        name: PLANTED,
        opening: EnvironmentOpening::OfOne(|| Box::new(LlvmEnvironment::planted())),
        is_listed: false,
    },
];

/// What the baselines depend on besides compiler, target and program: the pipelines of
/// `measure_baselines` (`session.rs`). The number changes when a program is prepared, counted, or
/// passed to the compiler in another way, and when machine code is made of it in another way.
const BASELINES: &str = "2: default<O3>, default<Oz>";

/// Returns the LLVM that is linked in, as the build script found it: one binary has the same
/// compiler on every machine.
#[cfg(not(feature = "dynamic"))]
fn compiler() -> String {
    env!("STEPLAKE_LLVM_NAME").to_owned()
}

/// Returns the LLVM that was loaded, with the distribution's build if the package database knows
/// it: builds of one version carry different patches, and this program runs with any of them.
#[cfg(feature = "dynamic")]
fn compiler() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    let version = format!("LLVM {major}.{minor}.{patch}");
    let status = std::fs::read_to_string("/var/lib/dpkg/status").unwrap_or_default();
    match package_version(&status, &format!("libllvm{major}")) {
        Some(build) => format!("{version} (Debian {build})"),
        None => version,
    }
}

/// Returns the version of an installed package from dpkg's status file.
#[cfg(any(feature = "dynamic", test))]
fn package_version<'a>(status: &'a str, package: &str) -> Option<&'a str> {
    let field = |entry: &'a str, name: &str| {
        entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let mut entries = status.split("\n\n");
    let entry = entries.find(|entry| field(entry, "Package") == Some(package))?;
    field(entry, "Status")?.ends_with(" installed").then(|| field(entry, "Version"))?
}

/// LLVM's optimiser: a state is a module, an action is a pass pipeline.
///
/// Its sessions run LLVM in the caller's process, and a crash of LLVM ends that process: put them
/// into worker processes.
#[derive(Debug, Clone)]
pub struct LlvmEnvironment {
    spec: Arc<EnvironmentSpec>,
}

impl LlvmEnvironment {
    /// Creates the environment of the linked LLVM.
    pub fn new() -> Self {
        let spec = EnvironmentSpec {
            name: NAME.into(),
            compiler: compiler(),
            target: spaces::TARGET.to_owned(),
            action_spaces: spaces::action_spaces(),
            action_costs: spaces::action_costs(),
            observation_spaces: spaces::observation_spaces(),
            reward_spaces: spaces::reward_spaces(),
            baselines: BASELINES.into(),
            state_space: spaces::STATE_SPACE.into(),
            state_scheme: spaces::STATE_SCHEME,
        };
        Self { spec: Arc::new(spec) }
    }

    /// Creates a variant with two more actions, `planted-bug` and `planted-other-bug`, which
    /// miscompile: a difference becomes a sum, and an `and` an `or`. It is for tests, and only in
    /// builds for them.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn planted() -> Self {
        use steplake_model::{ActionFlags, ActionSpace, ActionSpec};
        const ACTIONS: [(&str, &str); 9] = [
            ("dce", "function(dce)"),
            ("early-cse", "function(early-cse)"),
            ("inferattrs", "inferattrs"),
            ("instcombine", "function(instcombine)"),
            ("mem2reg", "function(mem2reg)"),
            ("planted-bug", "function(steplake-planted-bug)"),
            ("planted-other-bug", "function(steplake-planted-other-bug)"),
            ("rpo-function-attrs", "rpo-function-attrs"),
            ("simplifycfg", "function(simplifycfg)"),
        ];
        let action = |(name, pipeline)| ActionSpec::new(name, pipeline, ActionFlags::UNREMARKABLE);
        let actions = ACTIONS.into_iter().map(action).collect();
        let space = ActionSpace { name: PLANTED.to_owned(), actions };
        let spec = Self::new().spec.as_ref().clone();
        let spec = EnvironmentSpec { name: PLANTED.into(), action_spaces: vec![space], ..spec };
        Self { spec: Arc::new(spec) }
    }
}

impl Default for LlvmEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment for LlvmEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    #[cfg(feature = "compiler")]
    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(LlvmSession::new(Arc::clone(&self.spec))?))
    }

    #[cfg(not(feature = "compiler"))]
    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let detail = "this program holds no compiler: put its sessions into worker processes";
        Err(SessionError::Unavailable { environment: NAME.to_owned(), detail: detail.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_version_is_that_of_an_installed_package() {
        let status = "Package: a\nStatus: install ok installed\nVersion: 1:2\n\n\
                      Package: b\nStatus: deinstall ok config-files\nVersion: 3\n";
        assert_eq!(package_version(status, "a"), Some("1:2"));
        assert_eq!(package_version(status, "b"), None);
        assert_eq!(package_version(status, "c"), None);
    }
}
