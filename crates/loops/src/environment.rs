//! The environment's spec.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::actions::ScheduleAction;
use super::context::LoopsContext;
use super::cursor::CursorAction;
use super::datasets::{LoopsFiles, NamedPrograms};
use super::session::LoopsSession;
use super::spaces;
use super::{CURSOR_SPACE, NAME};
use steplake_env::{Environment, EnvironmentOpening, ListedEnvironment, Session, SessionError};
use steplake_model::{ActionFlags, ActionSpace, ActionSpec, EnvironmentSpec};
use steplake_programs::datasets::Dataset;

/// The environment by its name.
pub const ENTRIES: &[ListedEnvironment] = &[ListedEnvironment {
    name: NAME,
    opening: EnvironmentOpening::OfOne(|| Box::new(LoopsEnvironment::default())),
    is_listed: true,
}];

/// What rows depend on besides the text: the rules, the actions and the models of `costs`. The
/// number changes with them.
const COMPILER: &str = "steplake loops 4";

/// How baselines are made. The number changes with the models of `costs`.
const BASELINES: &str = "4: the initial schedule";

/// Schedules of loop nests: a state is a program with a tree of loops, and an action changes it.
///
/// All of it is arithmetic, so its sessions need no workers.
#[derive(Debug, Clone)]
pub struct LoopsEnvironment(Arc<LoopsContext>);

impl Default for LoopsEnvironment {
    fn default() -> Self {
        let spec = |name: String| ActionSpec::new(name.clone(), name, ActionFlags::UNREMARKABLE);
        let actions = ScheduleAction::all();
        let addressed = actions.iter().map(|action| spec(action.name())).collect();
        let of_cursor = CursorAction::ALL.map(|action| spec(action.name().to_owned()));
        let (observations, observation_spaces) = spaces::observations().into_iter().unzip();
        let spec = EnvironmentSpec {
            name: NAME.into(),
            compiler: COMPILER.into(),
            target: "any".into(),
            action_spaces: vec![
                ActionSpace { name: NAME.into(), actions: addressed },
                ActionSpace { name: CURSOR_SPACE.into(), actions: of_cursor.into() },
            ],
            observation_spaces,
            reward_spaces: spaces::rewards(),
            baselines: BASELINES.into(),
            state_space: spaces::STATE_SPACE.into(),
            action_costs: BTreeMap::new(),
            state_scheme: 1,
        };
        Self(Arc::new(LoopsContext { spec, actions, observations }))
    }
}

impl Environment for LoopsEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.0.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(LoopsSession::new(Arc::clone(&self.0))))
    }

    fn may_live_here(&self) -> bool {
        true
    }

    fn own_datasets(&self) -> Vec<Box<dyn Dataset>> {
        vec![Box::new(NamedPrograms), Box::new(LoopsFiles)]
    }
}
