//! The function `ir`, and the source of the IR of states.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::arguments::state_ids;
use super::memory::TextBuilder;
use crate::errors::error::stored;
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
    fn bitcode(&self, states: &[StateId]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found = self.snapshot.ir(states).map_err(stored)?;
        let missing: Vec<usize> = (0..states.len()).filter(|&at| found[at].is_none()).collect();
        let Some(rebuilder) = self.rebuilder.as_ref().filter(|_| !missing.is_empty()) else {
            return Ok(found);
        };
        let wanted: Vec<StateId> = missing.iter().map(|&at| states[at]).collect();
        let rebuilt = rebuilder.rebuild(&self.snapshot, &wanted)?;
        for (place, bitcode) in missing.into_iter().zip(rebuilt) {
            found[place] = bitcode;
        }
        Ok(found)
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
        let mut wanted = some.to_vec();
        for source in sources {
            let bitcode = source.bitcode(&wanted)?;
            for (state, bitcode) in wanted.iter().zip(bitcode) {
                let Some(bitcode) = bitcode else { continue };
                let text = (source.renderer)(&bitcode).map_err(|detail| {
                    exec_datafusion_err!("the IR of state {state} cannot be shown: {detail}")
                })?;
                memory.try_grow(text.capacity())?;
                known.insert(*state, text);
            }
            wanted.retain(|state| !known.contains_key(state));
            if wanted.is_empty() {
                break;
            }
        }
    }
    let mut texts = TextBuilder::new(function, memory);
    for state in states {
        texts.append(state.and_then(|state| known.get(&state)))?;
    }
    Ok(texts.finish())
}
