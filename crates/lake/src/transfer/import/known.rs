//! Which rows of logs a lake has.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::{Int32Type, Int64Type};

use super::error::ImportError;
use crate::kernel::schema::decode::episode_ids;
use crate::kernel::{LakeError, ScanColumns, Snapshot, Table};
use steplake_model::{ActionIndex, EpisodeId, StateId};

/// The step that a row of a log became: an episode, and the position in it.
pub(super) type StepPosition = (EpisodeId, u32);

/// A row of a log by what it says: a hash of the program, its first state, and all actions with the
/// states that they led to. Logs that contradict each other have different names from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowName([u8; 16]);

impl RowName {
    /// The name of a program's row without actions.
    pub(super) fn first(benchmark: &str, state: Option<StateId>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(benchmark.as_bytes());
        Self::finish(hasher, state)
    }

    /// The name of the row after this one.
    pub(super) fn next(self, action: ActionIndex, state: Option<StateId>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(&action.0.to_le_bytes());
        Self::finish(hasher, state)
    }

    fn finish(mut hasher: blake3::Hasher, state: Option<StateId>) -> Self {
        hasher.update(&[u8::from(state.is_some())]).update(&state.unwrap_or(StateId([0; 20])).0);
        let hash = hasher.finalize();
        Self(hash.as_bytes()[..16].try_into().expect("a hash has 32 bytes"))
    }
}

/// The rows of logs that a lake has. Memory grows by some 50 bytes for each.
#[derive(Debug, Default)]
pub(super) struct KnownRows {
    places: HashMap<RowName, StepPosition>,
}

impl KnownRows {
    /// Reads the rows from the steps of a lake.
    ///
    /// # Errors
    ///
    /// [`ImportError::Orphaned`] if what some episodes were forked from was retracted, and errors
    /// of reading.
    pub(super) fn of(snapshot: &Snapshot) -> Result<Self, ImportError> {
        let mut known = Self::default();
        let parents = parents(snapshot)?;
        // Only a place where an episode was forked is looked up again.
        let forked = parents.values().copied().collect::<HashSet<_>>();
        let mut names = HashMap::with_capacity(forked.len());
        loop {
            let before = names.len();
            let unnamed = known.read(snapshot, &parents, &forked, &mut names)?;
            if unnamed == 0 {
                return Ok(known);
            }
            // A fork came before its origin: segments that were written anew come last.
            if names.len() == before {
                return Err(ImportError::Orphaned { episodes: unnamed });
            }
        }
    }

    /// Reads all steps once. `names` has the names of places where episodes were forked. Returns
    /// the number of episodes whose origin is not among them.
    fn read(
        &mut self,
        snapshot: &Snapshot,
        parents: &HashMap<EpisodeId, StepPosition>,
        forked: &HashSet<StepPosition>,
        names: &mut HashMap<StepPosition, RowName>,
    ) -> Result<u64, LakeError> {
        let (mut last, mut unnamed) = (None, 0);
        for steps in snapshot.steps() {
            for step in steps?.iter() {
                let place = (step.episode, step.index);
                last = match (step.action, parents.get(&step.episode)) {
                    (Some(action), _) => last.map(|name: RowName| name.next(action, step.state)),
                    (None, None) => Some(RowName::first(step.benchmark, step.state)),
                    (None, Some(parent)) => {
                        let name = names.get(parent).copied();
                        unnamed += u64::from(name.is_none());
                        name
                    }
                };
                let Some(name) = last else { continue };
                self.add(name, place);
                if forked.contains(&place) {
                    names.insert(place, name);
                }
            }
        }
        Ok(unnamed)
    }

    pub(super) fn get(&self, name: RowName) -> Option<StepPosition> {
        self.places.get(&name).copied()
    }

    /// Adds a row. Its first place stays.
    pub(super) fn add(&mut self, name: RowName, place: StepPosition) {
        self.places.entry(name).or_insert(place);
    }
}

/// Where each fork of a lake was forked.
fn parents(snapshot: &Snapshot) -> Result<HashMap<EpisodeId, StepPosition>, LakeError> {
    let mut parents = HashMap::new();
    let columns = ["episode_id", "parent_episode_id", "parent_step_index"];
    for batch in snapshot.scan(Table::Episodes, ScanColumns::Named(&columns)) {
        let batch = batch?;
        let episodes = batch["parent_episode_id"].as_primitive::<Int64Type>();
        let steps = batch["parent_step_index"].as_primitive::<Int32Type>();
        for (row, &id) in episode_ids(&batch).iter().enumerate() {
            if episodes.is_valid(row) {
                let place = (EpisodeId(episodes.value(row)), steps.value(row).unsigned_abs());
                parents.insert(EpisodeId(id), place);
            }
        }
    }
    Ok(parents)
}
