//! The states of a lake that are to be measured.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;

use steplake_lake::{LakeError, RecordedBenchmark, Snapshot};
use steplake_model::{BenchmarkUri, StateId};

/// Which states of a program, besides its first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChoice {
    /// None.
    Initial,
    /// Those with the lowest observations, of equals those with the smallest ids; only such as are
    /// lower than that of the first state.
    Best {
        /// The space of numbers.
        space: String,
        /// The most states of a program.
        count: NonZeroUsize,
    },
    /// All that an episode of the program reached.
    All,
}

/// A program of a lake, with its states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenProgram {
    /// The program.
    pub benchmark: BenchmarkUri,
    /// How the lake says that it is built and run, as JSON.
    pub execution: Option<String>,
    /// Its first state.
    pub initial: StateId,
    /// The other states: the best ones first, or all in the order of their ids.
    pub others: Vec<StateId>,
}

/// Chooses states of those programs that are in `wanted`, in the order of the programs' names.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with a file that is damaged.
pub fn choose(
    snapshot: &Snapshot,
    wanted: &BTreeSet<BenchmarkUri>,
    states: &StateChoice,
) -> Result<Vec<ChosenProgram>, LakeError> {
    let mut chosen = programs(snapshot, wanted)?;
    match states {
        StateChoice::Initial => {}
        StateChoice::All => {
            let mut reached: HashMap<String, BTreeSet<StateId>> = HashMap::new();
            each_step(snapshot, &mut |uri, state| match reached.get_mut(uri) {
                Some(states) => drop(states.insert(state)),
                None if chosen.contains_key(uri) => {
                    reached.insert(uri.to_owned(), BTreeSet::from([state]));
                }
                None => {}
            })?;
            for (uri, program) in &mut chosen {
                let states = reached.remove(uri).unwrap_or_default();
                let others = states.into_iter().filter(|state| *state != program.initial);
                program.others = others.collect();
            }
        }
        StateChoice::Best { space, count } => {
            let costs = snapshot.numbers(space).collect::<Result<HashMap<_, _>, _>>()?;
            let of = |state: &StateId| costs[state];
            each_step(snapshot, &mut |uri, state| {
                let Some(program) = chosen.get_mut(uri) else { return };
                let (Some(first), Some(found)) = (costs.get(&program.initial), costs.get(&state))
                else {
                    return;
                };
                if found >= first {
                    return;
                }
                let order = |known: &StateId| of(known).total_cmp(found).then(known.cmp(&state));
                if let Err(place) = program.others.binary_search_by(order) {
                    program.others.insert(place, state);
                    program.others.truncate(count.get());
                }
            })?;
        }
    }
    Ok(chosen.into_values().collect())
}

fn programs(
    snapshot: &Snapshot,
    wanted: &BTreeSet<BenchmarkUri>,
) -> Result<BTreeMap<String, ChosenProgram>, LakeError> {
    let mut chosen = BTreeMap::new();
    for row in snapshot.benchmarks() {
        let RecordedBenchmark { uri, execution, known } = row?;
        let (Ok(benchmark), Some(initial)) = (uri.parse(), known.initial_state) else { continue };
        if wanted.contains(&benchmark) {
            chosen.insert(uri, ChosenProgram { benchmark, execution, initial, others: Vec::new() });
        }
    }
    Ok(chosen)
}

fn each_step(snapshot: &Snapshot, visit: &mut dyn FnMut(&str, StateId)) -> Result<(), LakeError> {
    for steps in snapshot.steps() {
        for step in steps?.iter() {
            if let Some(state) = step.state {
                visit(step.benchmark, state);
            }
        }
    }
    Ok(())
}
