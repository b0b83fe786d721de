//! The IR of single states, from the hot rows or from the pages of segments that may hold it.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::Int32Type;
use parquet::file::metadata::PageIndexPolicy;
use sha1::{Digest as _, Sha1};

use super::error::LakeError;
use super::snapshot::Snapshot;
use crate::kernel::schema::decode::{StateColumn, state_ids, state_keys};
use crate::kernel::schema::table::Table;
use crate::kernel::segments::pages;
use crate::kernel::segments::scan::ScanColumns;
use crate::kernel::versions::sqlite;
use steplake_model::StateId;

impl Snapshot {
    /// The bitcode of each state, in the order of `states`; none if the lake does not hold it. The
    /// bitcode is checked against its SHA-1.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn ir(&self, states: &[StateId]) -> Result<Vec<Option<Vec<u8>>>, LakeError> {
        let mut found: HashMap<StateId, Vec<u8>> = HashMap::new();
        let hot = self.hot(Table::Ir);
        let hot_places = self.ir_hot.get_or_init(|| hot_places(hot));
        let log = self.path().join(sqlite::FILE_NAME);
        let mut wanted: BTreeMap<i64, Vec<StateId>> = BTreeMap::new();
        for &state in states {
            match hot_places.get(&state) {
                Some(&(batch, row)) if !found.contains_key(&state) => {
                    let bitcode =
                        unpack(&hot[batch], row).map_err(|what| LakeError::corrupt(&log, what))?;
                    found.insert(state, bitcode);
                }
                Some(_) => {}
                None => wanted.entry(state.key()).or_default().push(state),
            }
        }
        // `range` panics if a damaged range has its ends exchanged.
        let in_range = |least: i64, greatest: i64| {
            least <= greatest && wanted.range(least..=greatest).next().is_some()
        };
        let schema = self.schema(Table::Ir);
        let places = ScanColumns::All.places(&schema);
        for (segment, kept) in self.segments(Table::Ir).iter().zip(&self.ir_footers) {
            if !segment.key_range.is_some_and(|(least, greatest)| in_range(least, greatest)) {
                continue;
            }
            let file = segment.open()?;
            let footer = if let Some(footer) = kept.get() {
                footer
            } else {
                let read = segment.footer(&file, PageIndexPolicy::Optional)?;
                kept.get_or_init(|| read)
            };
            let choose = |footer: &_| pages::choose(footer, in_range);
            for batch in segment.rows_of(file, footer, &schema, &places, choose)? {
                let batch = batch?;
                for (row, state) in state_ids(&batch, "state_id").flatten().enumerate() {
                    if wanted.get(&state.key()).is_some_and(|states| states.contains(&state)) {
                        let bitcode = unpack(&batch, row)
                            .map_err(|what| LakeError::corrupt(&segment.path, what))?;
                        found.insert(state, bitcode);
                    }
                }
            }
        }
        // If a state is asked for several times, all but the last place get a copy.
        let last = states.iter().zip(0..).collect::<HashMap<_, usize>>();
        let hand_out = |(place, state): (usize, &StateId)| {
            if last[state] == place { found.remove(state) } else { found.get(state).cloned() }
        };
        Ok(states.iter().enumerate().map(hand_out).collect())
    }
}

fn hot_places(hot: &[RecordBatch]) -> HashMap<StateId, (usize, usize)> {
    let mut places = HashMap::new();
    for (batch, rows) in hot.iter().enumerate() {
        for (row, state) in state_ids(rows, "state_id").enumerate() {
            places.extend(state.map(|state| (state, (batch, row))));
        }
    }
    places
}

/// The SHA-1 of bitcode, which the column `bitcode_sha1` stores.
pub fn bitcode_sha1(bitcode: &[u8]) -> [u8; 20] {
    Sha1::digest(bitcode).into()
}

/// The bitcode in a row of `ir`, checked against its SHA-1. The error says what is wrong. Only a
/// compiler can tell whether the bitcode is that of the row's state.
pub(crate) fn unpack(batch: &RecordBatch, row: usize) -> Result<Vec<u8>, String> {
    let state = StateColumn::of(batch, "state_id").get(row).ok_or("a row has no state")?;
    let compressed = batch["bitcode"].as_binary::<i32>().value(row);
    let bytes = batch["bytes"].as_primitive::<Int32Type>().value(row);
    let bytes = usize::try_from(bytes)
        .map_err(|error| format!("the IR of {state} has an impossible length ({error})"))?;
    let bitcode = zstd::bulk::decompress(compressed, bytes)
        .map_err(|error| format!("the IR of {state} cannot be decompressed ({error})"))?;
    if bitcode.len() != bytes {
        return Err(format!("the IR of {state} has another length than it says"));
    }
    if bitcode_sha1(&bitcode)[..] != *batch["bitcode_sha1"].as_fixed_size_binary().value(row) {
        return Err(format!("the IR of {state} is not what its SHA-1 says"));
    }
    if state_keys(batch).value(row) != state.key() {
        return Err(format!("the IR of {state} stands under another key"));
    }
    Ok(bitcode)
}
