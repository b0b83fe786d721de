//! What the sessions of a conversion share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Once};

use parking_lot::{Mutex, RwLock};

use super::observed::Columns;
use super::old_lake::OldLake;
use crate::generate::ProgramProvider;
use crate::record::baselines;
use steplake_env::{Environment, RequestedRewards, Session, SessionError, WantedRewards, Watch};
use steplake_lake::{Identity, StepRow};
use steplake_model::{Baselines, BenchmarkUri, ObservationIndex, StateId};

/// What the sessions of a conversion share.
pub(super) struct Players<'a> {
    pub(super) environment: &'a dyn Environment,
    pub(super) new: &'a Identity,
    pub(super) old: &'a OldLake<'a>,
    pub(super) programs: &'a dyn ProgramProvider,
    /// For each observation column, its space.
    pub(super) columns: Vec<ObservationIndex>,
    /// Those of them that are not on request.
    pub(super) usual: Columns,
    /// For each reward column, the place of its space.
    pub(super) rewards: Vec<usize>,
    /// Those of them whose cost is observed on request.
    pub(super) requested: Arc<WantedRewards>,
    pub(super) has_requested: bool,
    pub(super) watch: Watch,
    /// Done once why a program cannot be loaded has been said.
    pub(super) unloadable: Once,
    /// The id here of each stored state that was looked at; none if the compiler cannot read it.
    pub(super) identified: Mutex<HashMap<StateId, Option<StateId>>>,
    /// The new id of each state that is proven. The sink adds to it, in the order of the episodes.
    pub(super) proven: RwLock<HashMap<StateId, StateId>>,
    /// The states whose rows are written, and in which columns they were observed. A session that
    /// does not see one yet computes its row; the first ones in the order of the episodes count.
    pub(super) observed: RwLock<HashMap<StateId, Columns>>,
    pub(super) stored: RwLock<HashSet<StateId>>,
}

impl<'a> Players<'a> {
    /// The environment has all spaces of the lake.
    pub(super) fn new(
        environment: &'a dyn Environment,
        new: &'a Identity,
        old: &'a OldLake<'a>,
        programs: &'a dyn ProgramProvider,
    ) -> Self {
        let spec = environment.spec();
        let column =
            |name: &str| spec.observation_index(name).expect("the identities were compared");
        let columns = new.observations.iter().map(|space| column(&space.name)).collect::<Vec<_>>();
        let is_usual = |space| spec.observation_space(space).is_none_or(|space| !space.on_request);
        let (mut usual, mut spaces) = (Columns::default(), Vec::new());
        for (column, &space) in columns.iter().enumerate().filter(|(_, space)| is_usual(**space)) {
            usual.add(column);
            spaces.push(space);
        }
        let reward = |name: &str| spec.reward_spaces.iter().position(|space| space.name == name);
        let rewards = new.rewards.iter().map(|space| reward(&space.name));
        let rewards = rewards.map(|place| place.expect("the identities were compared"));
        let rewards = rewards.collect::<Vec<_>>();
        let is_requested = |place: &&usize| spec.is_on_request(&spec.reward_spaces[**place]);
        let requested = rewards.iter().filter(is_requested).copied().collect::<Vec<_>>();
        Self {
            environment,
            new,
            old,
            programs,
            rewards,
            has_requested: !requested.is_empty(),
            requested: Arc::new(WantedRewards::new(requested)),
            columns,
            usual,
            watch: Watch { spaces, ..Watch::default() },
            unloadable: Once::new(),
            identified: Mutex::default(),
            proven: RwLock::default(),
            observed: RwLock::default(),
            stored: RwLock::default(),
        }
    }

    /// Returns the name of the action of a step.
    pub(super) fn action_name(&self, step: &StepRow) -> String {
        let Some(action) = step.action else { return "the start".to_owned() };
        let known = self.new.action_space.get(action);
        known.map_or_else(|| action.0.to_string(), |spec| spec.name.clone())
    }

    /// Returns the baselines of a program, if the old lake has all that sessions need.
    pub(super) fn baselines(&self, uri: &BenchmarkUri) -> Option<&Baselines> {
        let known = &self.old.benchmarks.get(uri)?.baselines;
        let needed = baselines(self.environment.spec(), &[]);
        needed.iter().all(|name| known.get(name).is_some()).then_some(known)
    }

    /// Opens a session.
    pub(super) fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let session = self.environment.session()?;
        if !self.has_requested {
            return Ok(session);
        }
        let (spec, wanted) = (self.environment.spec().clone(), Arc::clone(&self.requested));
        Ok(Box::new(RequestedRewards::new(session, Arc::new(spec), wanted)))
    }
}
