//! The function `ir`, and the source of the IR of states.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::arguments::state_ids;
use super::memory::TextBuilder;
use crate::errors::error::QueryError;
use crate::options::{IrRebuilder, IrRenderer};
use steplake_lake::Snapshot;
use steplake_model::StateId;

/// The most states whose bitcode is held at once.
const LOOKUP_STATES_MAX: usize = 64;

/// The source of the IR of states.
pub(crate) struct IrSource {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) rebuilder: Option<Arc<dyn IrRebuilder>>,
    pub(crate) renderer: IrRenderer,
}

impl IrSource {
    /// The bitcode of each state, stored or rebuilt, in order; none if there is none.
    fn rebuilt(&self, states: &[StateId]) -> Result<Vec<Option<Vec<u8>>>, QueryError> {
        match &self.rebuilder {
            Some(rebuilder) => rebuilder.rebuild(&self.snapshot, states),
            None => Ok(vec![None; states.len()]),
        }
    }
}

/// The bitcode of a state, and the place of the source that has it.
type FoundBitcode = (usize, Vec<u8>);

/// The bitcode of each state, in order, from the first source that stores it, or else the first
/// that can rebuild it; none if there is none.
fn bitcode(sources: &[Arc<IrSource>], states: &[StateId]) -> Result<Vec<Option<FoundBitcode>>> {
    let mut found: Vec<Option<FoundBitcode>> = vec![None; states.len()];
    let mut failed = None;
    for rebuilds in [false, true] {
        for (place, source) in sources.iter().enumerate() {
            let missing: Vec<usize> = (0..states.len()).filter(|&at| found[at].is_none()).collect();
            if missing.is_empty() {
                return Ok(found);
            }
            let wanted: Vec<StateId> = missing.iter().map(|&at| states[at]).collect();
            let stored = || source.snapshot.ir(&wanted).map_err(QueryError::from);
            match if rebuilds { source.rebuilt(&wanted) } else { stored() } {
                Ok(bitcode) => {
                    for (at, bitcode) in missing.into_iter().zip(bitcode) {
                        found[at] = bitcode.map(|bitcode| (place, bitcode));
                    }
                }
                // Another context may have the states.
                Err(error) if rebuilds && sources.len() > 1 => failed = failed.or(Some(error)),
                Err(error) => return Err(error.into()),
            }
        }
    }
    match failed.filter(|_| found.iter().any(Option::is_none)) {
        Some(error) => Err(error.into()),
        None => Ok(found),
    }
}

/// The text of each state, in order, from the first source that has it. A state is looked up once,
/// however often it occurs. `memory` accounts for everything except the bitcode of a few dozen
/// states, and one text.
pub(super) fn texts(
    sources: &[Arc<IrSource>],
    column: &ArrayRef,
    function: &'static str,
    memory: &MemoryReservation,
) -> Result<ArrayRef> {
    let states = state_ids(column)?;
    let mut distinct: Vec<StateId> = states.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut known: HashMap<StateId, String> = HashMap::with_capacity(distinct.len());
    for some in distinct.chunks(LOOKUP_STATES_MAX) {
        for (state, found) in some.iter().zip(bitcode(sources, some)?) {
            let Some((source, bitcode)) = found else { continue };
            let text = (sources[source].renderer)(&bitcode).map_err(|detail| {
                exec_datafusion_err!("the IR of state {state} cannot be shown: {detail}")
            })?;
            memory.try_grow(text.capacity())?;
            known.insert(*state, text);
        }
    }
    let mut texts = TextBuilder::new(function, memory);
    for state in states {
        texts.append(state.and_then(|state| known.get(&state)))?;
    }
    Ok(texts.finish())
}
