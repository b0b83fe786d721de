//! What a cache knows: the transitions of its lake, and those that were recorded since.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use steplake::env::SessionError;
use steplake::lake::{Identity, KnownBenchmark, Snapshot};
use steplake::model::{
    ActionIndex, ActionSpace, Benchmark, EnvironmentSpec, Failure, ObservationIndex, Outcome,
    StateId, Value, ValueType,
};
use steplake::record::NewValues;
use steplake::replay::cached::{CachedEnvironment, CachedOptions, Recorded, StateRow};
use steplake::{Error, ErrorKind};

use super::ir_file::{IrFile, IrLocation};

/// What an action in a state leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Led {
    To(StateId),
    Failed(Failure),
}

/// Where the values of an observation space are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueTable {
    /// With the states of the lake.
    States,
    /// With the benchmarks.
    Benchmarks,
    /// They are the IR.
    Ir,
    /// The compiler alone has them.
    Compiler,
}

/// An observation space.
struct Space {
    name: String,
    source: ValueTable,
    /// Whether a value is a few numbers, which take no time to copy.
    is_small: bool,
}

/// What is known. What was added since the start stays in memory: some 100 bytes for a transition,
/// and the observations of each new state. Its IR is in a file.
pub(super) struct Transitions {
    lake: CachedEnvironment,
    /// The first state of a benchmark from which each state of the lake is reached, by its number:
    /// one of them, if there are several.
    origins: Vec<Option<StateRow>>,
    added: RwLock<Added>,
    ir: IrFile,
    /// The spaces by which sessions name values.
    spaces: Vec<Space>,
    /// The spaces that the lake has, from which rewards come.
    costs: Vec<ObservationIndex>,
}

#[derive(Default)]
struct Added {
    edges: HashMap<StateId, BTreeMap<ActionIndex, Led>>,
    edge_count: u64,
    states: HashMap<StateId, AddedState>,
    /// The states among them that the graph of the lake lacks.
    state_count: u64,
    benchmarks: HashMap<String, KnownBenchmark>,
    /// With the digests of the programs.
    failed_starts: HashMap<String, (blake3::Hash, Failure)>,
}

/// A state that was observed since the start.
#[derive(Default)]
struct AddedState {
    /// The first state of a benchmark from which it was reached.
    origin: Option<StateId>,
    values: Vec<(ObservationIndex, Value)>,
    ir: Option<IrLocation>,
}

impl fmt::Debug for Transitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transitions").field("lake", &self.lake).finish_non_exhaustive()
    }
}

impl Transitions {
    /// Reads the transition graph of a lake. `spec` is that of the compiler.
    ///
    /// # Errors
    ///
    /// If the lake is damaged or too large, or there is no room for a temporary file.
    pub(super) fn read(snapshot: Arc<Snapshot>, spec: &EnvironmentSpec) -> Result<Self, Error> {
        let lake = CachedEnvironment::open(snapshot, spec, CachedOptions::default())?;
        let identity = lake.snapshot().identity();
        let source = |name: &str, of_benchmark: bool| match name {
            _ if identity.observations.iter().any(|space| space.name == name) => ValueTable::States,
            _ if of_benchmark => ValueTable::Benchmarks,
            _ if name == spec.state_space => ValueTable::Ir,
            _ => ValueTable::Compiler,
        };
        let small =
            [ValueType::Int, ValueType::Float, ValueType::IntVector, ValueType::FloatVector];
        let spaces = spec.observation_spaces.iter().map(|space| Space {
            name: space.name.to_string(),
            source: source(&space.name, space.of_benchmark),
            is_small: small.contains(&space.value_type),
        });
        let spaces: Vec<_> = spaces.collect();
        let costs =
            spec.reward_spaces.iter().filter_map(|space| spec.observation_index(&space.cost));
        let is_there = |cost: &ObservationIndex| {
            spaces.get(usize::from(cost.0)).is_some_and(|space| space.source == ValueTable::States)
        };
        let costs: BTreeSet<_> = costs.filter(is_there).collect();
        let costs = costs.into_iter().collect();
        let ir = IrFile::new().map_err(|error| {
            let problem = format!("a temporary file for IR cannot be made: {error}");
            Error::new(ErrorKind::Failed, problem)
        })?;
        let origins = origins(&lake);
        Ok(Self { lake, origins, added: RwLock::default(), ir, spaces, costs })
    }

    fn added(&self) -> RwLockReadGuard<'_, Added> {
        self.added.read()
    }

    fn adding(&self) -> RwLockWriteGuard<'_, Added> {
        self.added.write()
    }

    /// What all rows of the lake share.
    pub(super) fn identity(&self) -> &Identity {
        self.lake.snapshot().identity()
    }

    /// The only action space.
    pub(super) fn action_space(&self) -> &ActionSpace {
        &self.identity().action_space
    }

    /// The name of an observation space, and where its values are; none if there is no such space.
    pub(super) fn space(&self, space: ObservationIndex) -> Option<(&str, ValueTable)> {
        let space = self.spaces.get(usize::from(space.0))?;
        Some((&space.name, space.source))
    }

    /// Returns what an action in a state leads to, if that is known. Of a conflict in the lake, the
    /// most frequent result.
    pub(super) fn led(&self, state: StateId, action: ActionIndex) -> Option<Led> {
        let graph = self.lake.graph();
        match graph.find(&state).map(|row| graph.recorded(row, action)) {
            Some(Recorded::Led(edge)) => Some(Led::To(graph.state(edge.to))),
            Some(Recorded::Failed(failed)) => Some(Led::Failed(failed.failure.clone())),
            Some(Recorded::Nothing) | None => {
                self.added().edges.get(&state).and_then(|edges| edges.get(&action)).cloned()
            }
        }
    }

    /// Whether a state is known.
    pub(super) fn has_state(&self, state: StateId) -> bool {
        self.lake.graph().find(&state).is_some() || self.added().states.contains_key(&state)
    }

    /// Returns the numbers of known states, and of known transitions and failures.
    pub(super) fn counts(&self) -> (u64, u64) {
        let (graph, added) = (self.lake.graph(), self.added());
        let states = graph.states() as u64 + added.state_count;
        (states, graph.known_pairs() as u64 + added.edge_count)
    }

    /// Returns what is known of a benchmark.
    pub(super) fn benchmark(&self, uri: &str) -> Option<KnownBenchmark> {
        let added = self.added().benchmarks.get(uri).cloned();
        added.or_else(|| self.lake.benchmark(uri).cloned())
    }

    /// Returns how the compiler failed on a program before its first step since the server began,
    /// if it did. An empty program is that of the name.
    pub(super) fn added_failed_start(&self, benchmark: &Benchmark) -> Option<Failure> {
        let added = self.added();
        let (digest, failure) = added.failed_starts.get(benchmark.uri.as_str())?;
        let program = &benchmark.program;
        (program.is_empty() || *digest == blake3::hash(program)).then(|| failure.clone())
    }

    /// Returns how the compiler failed on a benchmark before its first step, if the lake has that.
    /// It does not say which program the name stood for.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unreadable`].
    pub(super) fn failed_start(&self, uri: &str) -> Result<Option<Failure>, SessionError> {
        let failed = self.lake.failed_start(uri).map_err(|error| unreadable(&error))?;
        Ok(failed.cloned())
    }

    /// Returns what was recorded of a state in a space that the lake has with its states.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unreadable`].
    pub(super) fn value(
        &self,
        state: StateId,
        space: ObservationIndex,
    ) -> Result<Option<Value>, SessionError> {
        if let Some(added) = self.added().states.get(&state)
            && let Some((_, value)) = added.values.iter().find(|(known, _)| *known == space)
        {
            return Ok(Some(value.clone()));
        }
        let Some(row) = self.lake.graph().find(&state) else { return Ok(None) };
        let Some((name, ValueTable::States)) = self.space(space) else { return Ok(None) };
        let values = self.lake.observations(name).map_err(|error| unreadable(&error))?;
        Ok(values.and_then(|values| values.row(row)))
    }

    /// Whether an episode goes on from a state by these actions, and looks at these spaces then,
    /// without a compiler, without reading a file, and without copying much. So a thread that must
    /// not wait may play it.
    pub(super) fn is_at_hand(
        &self,
        state: StateId,
        actions: &[ActionIndex],
        spaces: &[ObservationIndex],
    ) -> bool {
        let mut at = state;
        for &action in actions {
            match self.led(at, action) {
                Some(Led::To(next)) if self.has_values(next, &self.costs) => at = next,
                _ => return false,
            }
        }
        self.has_values(state, &self.costs) && self.has_values(at, spaces)
    }

    /// Whether the values of a state in these spaces are small and in memory.
    fn has_values(&self, state: StateId, spaces: &[ObservationIndex]) -> bool {
        let (row, added) = (self.lake.graph().find(&state), self.added());
        let added = added.states.get(&state).map_or(&[][..], |added| &added.values);
        spaces.iter().all(|index| {
            let Some(space) = self.spaces.get(usize::from(index.0)) else { return false };
            let is_of_lake = || {
                let read = row.zip(self.lake.observations_read(&space.name));
                read.is_some_and(|(row, read)| read.is_recorded(row))
            };
            let is_added = added.iter().any(|(known, _)| known == index);
            space.is_small && (is_added || is_of_lake())
        })
    }

    /// Returns the serialised state, if it is stored.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unreadable`].
    pub(super) fn ir(&self, state: StateId) -> Result<Option<Vec<u8>>, SessionError> {
        let place = self.added().states.get(&state).and_then(|added| added.ir);
        if let Some(place) = place {
            return self.ir.read(place).map(Some).map_err(|error| unreadable(&error));
        }
        let stored = self.lake.snapshot().ir(&[state]).map_err(|error| unreadable(&error))?;
        Ok(stored.into_iter().next().flatten())
    }

    /// Puts the IR of what was seen of a state into the file.
    fn kept(&self, seen: NewValues, ir: ObservationIndex) -> AddedState {
        let mut added = AddedState::default();
        for (space, value) in seen {
            match value {
                Value::Bytes(bytes) if space == ir => match self.ir.keep(&bytes) {
                    Ok(place) => added.ir = Some(place),
                    // The lake has it. Until the next start, it costs a compiler.
                    Err(error) => tracing::warn!(%error, "the IR of a state is not kept at hand"),
                },
                value => added.values.push((space, value)),
            }
        }
        added
    }

    /// Adds a state. What is known of it stays.
    fn see(&self, added: &mut Added, state: StateId, seen: AddedState) {
        let known = match added.states.entry(state) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                added.state_count += u64::from(self.lake.graph().find(&state).is_none());
                unknown.insert(AddedState::default())
            }
        };
        known.origin = known.origin.or(seen.origin);
        known.ir = known.ir.or(seen.ir);
        let is_known = |space| known.values.iter().any(|(other, _)| *other == space);
        let new: Vec<_> = seen.values.into_iter().filter(|(space, _)| !is_known(*space)).collect();
        known.values.extend(new);
    }

    /// Adds a benchmark, and what was seen of its first state.
    pub(super) fn add_benchmark(
        &self,
        uri: &str,
        known: KnownBenchmark,
        seen: NewValues,
        ir: ObservationIndex,
    ) {
        let seen = self.kept(seen, ir);
        let mut added = self.adding();
        if let Some(state) = known.initial_state {
            self.see(&mut added, state, AddedState { origin: Some(state), ..seen });
        }
        added.benchmarks.insert(uri.to_owned(), known);
    }

    /// Adds a program on which the compiler failed before the first step.
    pub(super) fn add_failed_start(&self, benchmark: &Benchmark, failure: Failure) {
        let digest = blake3::hash(&benchmark.program);
        self.adding().failed_starts.insert(benchmark.uri.to_string(), (digest, failure));
    }

    /// Adds a transition, and what was seen of the state to which it led.
    pub(super) fn add(
        &self,
        (state, action): (StateId, ActionIndex),
        outcome: &Outcome,
        seen: NewValues,
        ir: ObservationIndex,
    ) {
        let seen = AddedState { origin: self.origin(state), ..self.kept(seen, ir) };
        let mut added = self.adding();
        let led = match outcome {
            Outcome::State { id, .. } => {
                self.see(&mut added, *id, seen);
                Led::To(*id)
            }
            Outcome::Crashed(failure) => Led::Failed(failure.clone()),
        };
        let is_new = added.edges.entry(state).or_default().insert(action, led).is_none();
        added.edge_count += u64::from(is_new);
    }

    /// Returns the first state of a benchmark from which a state is reached; one of them, if there
    /// are several.
    fn origin(&self, state: StateId) -> Option<StateId> {
        let graph = self.lake.graph();
        let of_lake = graph.find(&state).and_then(|row| self.origins[row.place()]);
        let of_lake = of_lake.map(|row| graph.state(row));
        of_lake.or_else(|| self.added().states.get(&state)?.origin)
    }

    /// Whether a path leads from the first state of a benchmark to a state, as far as that takes no
    /// time to tell: a state of several benchmarks is known as one of the first of them.
    pub(super) fn is_known_of(&self, first: StateId, state: StateId) -> bool {
        first == state || self.origin(state) == Some(first)
    }

    /// Whether a known path leads from the first state of a benchmark to a state.
    pub(super) fn is_of(&self, first: StateId, state: StateId) -> bool {
        self.is_known_of(first, state) || self.path(first, state).is_some()
    }

    /// Returns the actions of a shortest known path from one state to another. Takes time linear in
    /// the transitions that begin in states no farther away.
    pub(super) fn path(&self, from: StateId, to: StateId) -> Option<Vec<ActionIndex>> {
        let mut came: HashMap<StateId, (StateId, ActionIndex)> = HashMap::new();
        let mut ahead = VecDeque::from([from]);
        while let Some(state) = ahead.pop_front() {
            if state == to {
                let back = std::iter::successors(came.get(&to), |(before, _)| {
                    Some(before).filter(|before| **before != from).and_then(|one| came.get(one))
                });
                let mut actions: Vec<ActionIndex> = back.map(|&(_, action)| action).collect();
                actions.reverse();
                return Some(actions);
            }
            for (action, next) in self.neighbours(state) {
                if next != from
                    && let Entry::Vacant(unseen) = came.entry(next)
                {
                    unseen.insert((state, action));
                    ahead.push_back(next);
                }
            }
        }
        None
    }

    fn neighbours(&self, state: StateId) -> Vec<(ActionIndex, StateId)> {
        let graph = self.lake.graph();
        let mut found = Vec::new();
        if let Some(row) = graph.find(&state) {
            found.extend(graph.edges_of(row).map(|edge| (edge.action, graph.state(edge.to))));
        }
        let added = self.added();
        let edges = added.edges.get(&state).into_iter().flatten();
        found.extend(edges.filter_map(|(&action, led)| match led {
            Led::To(next) => Some((action, *next)),
            Led::Failed(_) => None,
        }));
        found
    }
}

/// Returns from which first state each state of a lake is reached.
fn origins(lake: &CachedEnvironment) -> Vec<Option<StateRow>> {
    let graph = lake.graph();
    let mut origins = vec![None; graph.states()];
    let firsts = lake.benchmarks().filter_map(|(_, known)| graph.find(&known.initial_state?));
    let mut ahead = Vec::new();
    for first in firsts {
        let mut reach = |state: StateRow, ahead: &mut Vec<StateRow>| {
            let origin = &mut origins[state.place()];
            if origin.is_none() {
                *origin = Some(first);
                ahead.push(state);
            }
        };
        reach(first, &mut ahead);
        while let Some(state) = ahead.pop() {
            graph.edges_of(state).for_each(|edge| reach(edge.to, &mut ahead));
        }
    }
    origins
}

fn unreadable(error: &dyn std::error::Error) -> SessionError {
    SessionError::Unreadable(error.to_string())
}
