use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use similar::{Algorithm, TextDiff};

use super::arguments::state_ids;
use super::ir::Ir;
use super::memory::{Texts, memory_of};
use crate::model::StateId;

/// The name of the function.
pub(super) const NAME: &str = "ir_diff";
/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;
/// After this time, the rest of two texts becomes one change.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(5);
/// The bytes that a comparison takes for each byte of its texts, approximately: their lines by
/// position and by content, and the diff.
const SEARCH_BYTES: usize = 6;

/// `ir_diff(before, after)`.
#[derive(Debug)]
pub(super) struct IrDiff {
    signature: Signature,
    ir: Arc<Ir>,
}

impl IrDiff {
    pub(super) fn new(ir: Arc<Ir>) -> Self {
        // Not immutable, like ir().
        Self { signature: Signature::any(2, Volatility::Stable), ir }
    }

    /// The diff of each row; null if the IR of either state is missing.
    fn diffs(
        &self,
        before: &ArrayRef,
        after: &ArrayRef,
        memory: &MemoryReservation,
    ) -> Result<ArrayRef> {
        let states = [state_ids(before)?, state_ids(after)?];
        let texts = [self.ir.texts(before, NAME, memory)?, self.ir.texts(after, NAME, memory)?];
        let [old, new] = [texts[0].as_string::<i32>(), texts[1].as_string::<i32>()];
        let mut diffs = Texts::new(NAME, memory);
        for row in 0..before.len() {
            let names = states.each_ref().map(|states| states[row]);
            match (names, old.is_valid(row) && new.is_valid(row)) {
                ([Some(from), Some(to)], true) => {
                    let (old, new) = (old.value(row), new.value(row));
                    let search = memory.new_empty();
                    search.try_grow((old.len() + new.len()).saturating_mul(SEARCH_BYTES))?;
                    diffs.append(Some(diff(from, to, old, new)))?;
                }
                _ => diffs.append(None::<&str>)?,
            }
        }
        Ok(diffs.finish())
    }
}

/// A unified diff, with the state ids as file names; empty if nothing differs.
fn diff(from: StateId, to: StateId, old: &str, new: &str) -> String {
    let mut config = TextDiff::configure();
    config.algorithm(Algorithm::Patience).timeout(SEARCH_TIME_MAX);
    let diff = config.diff_lines(old, new);
    let mut unified = diff.unified_diff();
    unified.context_radius(CONTEXT_LINES).header(&from.to_string(), &to.to_string()).to_string()
}

impl ScalarUDFImpl for IrDiff {
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
        let states = ColumnarValue::values_to_arrays(&args.args)?;
        let memory = memory_of(NAME, &args.config_options);
        Ok(ColumnarValue::Array(self.diffs(&states[0], &states[1], &memory)?))
    }
}

impl PartialEq for IrDiff {
    fn eq(&self, other: &Self) -> bool {
        self.ir == other.ir
    }
}

impl Eq for IrDiff {}

impl Hash for IrDiff {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}
