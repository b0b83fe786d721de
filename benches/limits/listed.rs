//! LLVM in worker processes, with an action space from a list of names, and with baselines known
//! beforehand.

use std::collections::HashMap;
use std::sync::Arc;

use steplake::env::llvm::LlvmEnvironment;
use steplake::env::worker::WorkerEnvironment;
use steplake::env::{Environment, Session, SessionError, Start, Started, Visit, forward};
use steplake::model::{ActionIndex, ActionSpace, Baselines, BenchmarkUri, EnvironmentSpec, Step};

use crate::campaign::workers;

/// The action space with every action, including those of all lists.
const EVERYTHING: &str = "llvm22-all-v0";

/// The default action space of the release to compare with. Its figures keep their meaning when the
/// default changes.
const FIRST_DEFAULT: &str = include_str!("actions-156.txt");

/// The baselines of programs.
pub(crate) type Known = Arc<HashMap<BenchmarkUri, Baselines>>;

/// [`WorkerEnvironment`] with one action space, and with sessions that know baselines.
#[derive(Debug)]
pub(crate) struct Listed {
    workers: WorkerEnvironment,
    spec: EnvironmentSpec,
    /// The place of each action in [`EVERYTHING`].
    places: Arc<[ActionIndex]>,
    known: Known,
}

impl Listed {
    /// Returns the lists to measure: the action space of the comparison, and today's default.
    pub(crate) fn all(known: &Known) -> [Self; 2] {
        let spec = LlvmEnvironment::new().spec().clone();
        let default = &spec.action_spaces[0];
        let names: Vec<&str> = default.actions.iter().map(|action| action.name.as_str()).collect();
        let first: Vec<&str> = FIRST_DEFAULT.lines().collect();
        let first_name = format!("{} actions", first.len());
        [
            Self::new(&spec, first_name, &first, known),
            Self::new(&spec, default.name.clone(), &names, known),
        ]
    }

    fn new(whole: &EnvironmentSpec, name: String, names: &[&str], known: &Known) -> Self {
        let everything = whole.action_space(EVERYTHING).expect("LLVM has it");
        let place = |name: &&str| {
            let place = everything.index_of(name);
            place.unwrap_or_else(|| panic!("`{EVERYTHING}` has no action `{name}`"))
        };
        let places: Arc<[ActionIndex]> = names.iter().map(place).collect();
        let action = |&place| everything.get(place).expect("it was just found").clone();
        let actions = places.iter().map(action).collect();
        let spec =
            EnvironmentSpec { action_spaces: vec![ActionSpace { name, actions }], ..whole.clone() };
        Self { workers: workers(), spec, places, known: Arc::clone(known) }
    }

    pub(crate) fn space(&self) -> &ActionSpace {
        &self.spec.action_spaces[0]
    }
}

impl Environment for Listed {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let (places, known) = (Arc::clone(&self.places), Arc::clone(&self.known));
        Ok(Box::new(ListedSession { inner: self.workers.session()?, places, known }))
    }
}

struct ListedSession {
    inner: Box<dyn Session>,
    places: Arc<[ActionIndex]>,
    known: Known,
}

impl ListedSession {
    fn place(&self, action: ActionIndex) -> ActionIndex {
        self.places[action.place()]
    }
}

impl Session for ListedSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let baselines = start.baselines.or_else(|| self.known.get(&start.benchmark.uri));
        self.inner.start(&Start { action_space: EVERYTHING, baselines, ..*start })
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.inner.apply(self.place(action))
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        let actions: Vec<_> = actions.iter().map(|&action| self.place(action)).collect();
        self.inner.multistep(&actions, visit)
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let (places, known) = (Arc::clone(&self.places), Arc::clone(&self.known));
        Ok(Box::new(Self { inner: self.inner.fork()?, places, known }))
    }

    forward!(self => self.inner; observe, identify);
}
