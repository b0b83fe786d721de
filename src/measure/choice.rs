//! The states of a lake that are to be measured.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;

use arrow::array::{Array as _, AsArray as _};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use crate::lake::decode::{States as Ids, benchmark_uris, state_ids};
use crate::lake::{LakeError, ScanColumns, Snapshot, Table};
use crate::model::{BenchmarkUri, StateId};

/// Which states of a program, besides its first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum States {
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
pub struct Chosen {
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
///
/// # Panics
///
/// If the lake has no column of numbers for the space of [`States::Best`].
pub fn choose(
    snapshot: &Snapshot,
    wanted: &BTreeSet<BenchmarkUri>,
    states: &States,
) -> Result<Vec<Chosen>, LakeError> {
    let mut chosen = programs(snapshot, wanted)?;
    match states {
        States::Initial => {}
        States::All => {
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
        States::Best { space, count } => {
            let costs = costs(snapshot, space)?;
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
) -> Result<BTreeMap<String, Chosen>, LakeError> {
    let mut chosen = BTreeMap::new();
    let columns = ["benchmark_uri", "initial_state_id", "execution"];
    for batch in snapshot.scan(Table::Benchmarks, ScanColumns::Named(&columns)) {
        let batch = batch?;
        let (states, texts) = (Ids::of(&batch, "initial_state_id"), &batch["execution"]);
        let texts = texts.as_string::<i32>();
        for (row, uri) in benchmark_uris(&batch).enumerate() {
            let (Some(benchmark), Some(initial)) = (uri.parse().ok(), states.get(row)) else {
                continue;
            };
            if wanted.contains(&benchmark) {
                let execution = texts.is_valid(row).then(|| texts.value(row).to_owned());
                let program = Chosen { benchmark, execution, initial, others: Vec::new() };
                chosen.insert(uri.to_owned(), program);
            }
        }
    }
    Ok(chosen)
}

fn each_step(snapshot: &Snapshot, visit: &mut dyn FnMut(&str, StateId)) -> Result<(), LakeError> {
    for batch in snapshot.scan(Table::Steps, ScanColumns::Named(&["benchmark_uri", "state_id"])) {
        let batch = batch?;
        for (uri, state) in benchmark_uris(&batch).zip(state_ids(&batch, "state_id")) {
            if let Some(state) = state {
                visit(uri, state);
            }
        }
    }
    Ok(())
}

/// The number in a space of each state that has one.
fn costs(snapshot: &Snapshot, space: &str) -> Result<HashMap<StateId, f64>, LakeError> {
    let mut costs = HashMap::new();
    for batch in snapshot.scan(Table::Observations, ScanColumns::Named(&["state_id", space])) {
        let batch = batch?;
        let column = cast(&batch[space], &DataType::Float64).expect("it is a column of numbers");
        let numbers = column.as_primitive::<Float64Type>();
        let known = state_ids(&batch, "state_id").enumerate();
        let known = known.filter(|&(row, _)| numbers.is_valid(row));
        costs.extend(known.filter_map(|(row, state)| Some((state?, numbers.value(row)))));
    }
    Ok(costs)
}
