use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{apply, state_ids};
use super::memory::{Texts, memory_of};
use crate::lake::Snapshot;
use crate::model::StateId;
use crate::query::options::{IrRebuilder, IrRenderer};

/// The name of the function.
pub(super) const NAME: &str = "ir";
/// The most states whose bitcode is held at once.
const LOOKUP_STATES_MAX: usize = 64;

/// The source of the IR of states.
pub(in crate::query) struct IrSource {
    pub(in crate::query) snapshot: Arc<Snapshot>,
    pub(in crate::query) rebuilder: Option<Arc<dyn IrRebuilder>>,
    pub(in crate::query) renderer: IrRenderer,
}

impl IrSource {
    /// The bitcode of each state, stored or rebuilt, in order; none if there is none.
    fn bitcode(&self, states: &[StateId]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found = self.snapshot.ir(states)?;
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

/// `ir(state_id)`.
pub(super) struct Ir {
    signature: Signature,
    source: Arc<IrSource>,
}

impl Ir {
    pub(super) fn new(source: Arc<IrSource>) -> Self {
        // Not immutable: DataFusion would compute the value of a constant while planning, before
        // any limit applies.
        Self { signature: Signature::any(1, Volatility::Stable), source }
    }

    /// The text of each state, in order. A state is looked up once, however often it occurs.
    /// `memory` accounts for everything except the bitcode of a few dozen states, and one text.
    pub(super) fn texts(
        &self,
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
            let bitcode = self.source.bitcode(some)?;
            for (state, bitcode) in some.iter().zip(bitcode) {
                let Some(bitcode) = bitcode else { continue };
                let text = (self.source.renderer)(&bitcode).map_err(|detail| {
                    exec_datafusion_err!("the IR of state {state} cannot be shown: {detail}")
                })?;
                memory.try_grow(text.capacity())?;
                known.insert(*state, text);
            }
        }
        let mut texts = Texts::new(function, memory);
        for state in states {
            texts.append(state.and_then(|state| known.get(&state)))?;
        }
        Ok(texts.finish())
    }
}

impl ScalarUDFImpl for Ir {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let memory = memory_of(NAME, &args.config_options);
        apply(&args.args[0], |column| self.texts(column, NAME, &memory))
    }
}

impl fmt::Debug for Ir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ir").finish_non_exhaustive()
    }
}

impl PartialEq for Ir {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source.snapshot, &other.source.snapshot)
    }
}

impl Eq for Ir {}

impl Hash for Ir {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}
