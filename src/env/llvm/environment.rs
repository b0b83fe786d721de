//! What the environment is: compiler and spaces.

use std::sync::Arc;

use super::engine::TARGET;
use super::session::{BASELINES, LlvmSession};
use super::spaces;
use crate::env::{Environment, Session, SessionError};
use crate::model::EnvironmentSpec;

/// The environment's name.
pub const NAME: &str = "llvm-v0";

/// The LLVM that this program was linked with, as the build script found it: one binary has the same compiler
/// on every machine.
const COMPILER: &str = env!("STEPLAKE_LLVM_NAME");

/// LLVM's optimiser: the state is a module, an action is a pass pipeline.
///
/// Its sessions run LLVM in the caller's process, where a crash of LLVM's is the end of that process: put
/// them into worker processes.
#[derive(Debug, Clone)]
pub struct LlvmEnvironment {
    spec: Arc<EnvironmentSpec>,
}

impl LlvmEnvironment {
    /// The environment of the LLVM that is linked.
    pub fn new() -> Self {
        let spec = EnvironmentSpec {
            name: NAME,
            compiler: COMPILER.to_owned(),
            target: TARGET.to_owned(),
            action_spaces: spaces::action_spaces(),
            observation_spaces: spaces::observation_spaces(),
            reward_spaces: spaces::reward_spaces(),
            baselines: BASELINES,
            state_space: spaces::STATE_SPACE,
        };
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

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(LlvmSession::new(Arc::clone(&self.spec))?))
    }
}
