//! Lakes of CompilerGym's logs.

use crate::Error;
use crate::env::Environment;
use crate::env::llvm::LlvmEnvironment;
use crate::lake::Identity;
use crate::model::{ActionFlags, ActionSpec};
use crate::record::{SpaceChoice, identity};

/// The environment of logs of CompilerGym's `llvm-v0`. It never shares a lake with this project's
/// `llvm-v0`: that has another LLVM, other passes behind the names, and another hash of states.
pub const ENVIRONMENT: &str = "compilergym-llvm-v0";

/// The compiler of the last release of CompilerGym. A log does not name its compiler.
pub const COMPILER: &str = "LLVM 10.0.0 (CompilerGym 0.2.5)";

/// The target that clang has by default where CompilerGym runs.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The action space with CompilerGym's flags in its order.
const ACTION_SPACE: &str = "compilergym-v0";
/// The observation spaces that the logger writes and that can be read.
const OBSERVATIONS: [&str; 4] = ["IrInstructionCount", "InstCount", "Autophase", "Ir"];
/// The reward space that it writes.
const REWARD: &str = "IrInstructionCountOz";
/// The baseline that follows from what it writes.
const BASELINE: &str = "IrInstructionCountO0";

/// Returns the identity of a lake of logs.
///
/// # Errors
///
/// If the compiler is not named.
pub fn identity_of_logs(compiler: &str, target: &str) -> Result<Identity, Error> {
    let environment = LlvmEnvironment::new();
    let mut spec = environment.spec().clone();
    spec.name = ENVIRONMENT.into();
    compiler.clone_into(&mut spec.compiler);
    target.clone_into(&mut spec.target);
    // The ids are those of the logs.
    spec.state_scheme = 1;
    let mut space = spec.action_space(ACTION_SPACE).expect("it is committed").clone();
    // The committed pipelines are LLVM 22's, and so are the findings about them.
    for action in &mut space.actions {
        let flag = action.name.clone();
        *action = ActionSpec::new(flag.clone(), flag, ActionFlags::UNREMARKABLE);
    }
    let (observations, rewards) = (OBSERVATIONS.map(str::to_owned), [REWARD.to_owned()]);
    let choice = SpaceChoice { observations: Some(&observations), rewards: Some(&rewards) };
    let identity = identity(&spec, &space, &choice)?;
    Ok(Identity { baselines: vec![BASELINE.to_owned()], ..identity })
}
