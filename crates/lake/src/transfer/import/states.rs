//! Observations of states from a log.

use std::collections::HashSet;

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use rusqlite::Row;

use super::database::{Database, state_of};
use super::error::ImportError;
use super::skipped::{Reason, Skipped};
use crate::kernel::segments::segment_series::SegmentSeries;
use crate::kernel::{Lake, LakeError, ObservationRow, RecordedObservation, Rows, Segment, Table};
use steplake_model::{StateId, Value};

/// The greatest length of the text of a state's IR, in bytes. The longest in CompilerGym's datasets
/// have some 10 MB; a few bytes that unpack to gigabytes are no log.
const IR_BYTES_MAX: usize = 64 << 20;
/// Bytes of observations that are collected before they are written.
const BYTES_AT_ONCE: usize = 16 << 20;
/// States that are collected before they are written.
const ROWS_AT_ONCE: usize = 16_384;

/// Writes the observations of the states in `needed`. A state of which the log has none gets a row
/// without values. Calls `read` for each row of the log. Returns the segments, which are durable.
pub(super) fn write(
    lake: &Lake,
    database: &Database,
    needed: HashSet<StateId>,
    skipped: &mut Skipped,
    read: &mut dyn FnMut(),
) -> Result<Vec<Segment>, ImportError> {
    let mut needed = needed;
    let mut states = StateWriter {
        lake,
        series: SegmentSeries::new(lake, Table::Observations),
        rows: Vec::new(),
        bytes: 0,
    };
    let spaces = &lake.identity().observations;
    database.observations(&mut |row| {
        read();
        let state = row.get_ref(0).ok().and_then(|value| state_of(value.as_str().ok()?));
        let Some(state) = state.filter(|state| needed.remove(state)) else { return Ok(()) };
        let mut value = |space| match observation(space, row) {
            Ok(value) => Some(value),
            Err(reason) => {
                skipped.add(reason, || format!("state {state}"));
                None
            }
        };
        let values = spaces.iter().map(&mut value).collect();
        Ok(states.add(ObservationRow { state, values })?)
    })?;
    let mut left = needed.into_iter().collect::<Vec<_>>();
    left.sort_by_key(|state| (state.key(), *state));
    states.write()?;
    for state in left {
        skipped.add(Reason::Unobserved, || format!("state {state}"));
        states.add(ObservationRow { state, values: vec![None; spaces.len()] })?;
    }
    states.write()?;
    Ok(states.series.finish()?)
}

/// States whose observations are collected.
struct StateWriter<'a> {
    lake: &'a Lake,
    series: SegmentSeries,
    rows: Vec<ObservationRow>,
    bytes: usize,
}

impl StateWriter<'_> {
    fn add(&mut self, row: ObservationRow) -> Result<(), LakeError> {
        self.bytes += row.bytes();
        self.rows.push(row);
        let is_enough = self.bytes >= BYTES_AT_ONCE || self.rows.len() >= ROWS_AT_ONCE;
        if is_enough { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), LakeError> {
        let observations = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let rows = Rows { observations, ..Rows::default() };
        for (_, batch) in self.lake.schemas.encode(&rows) {
            self.series.write(&batch)?;
        }
        self.series.boundary()
    }
}

/// The value of a space in a row of `Observations`.
fn observation(space: &RecordedObservation, row: &Row<'_>) -> Result<Value, Reason> {
    let text = |at: usize| row.get_ref(at).ok().and_then(|value| value.as_str().ok());
    let vector = |at, wrong| {
        let numbers = text(at).and_then(|text| numbers(text, space.features.len()));
        numbers.map(Value::IntVector).ok_or(wrong)
    };
    match space.name.as_str() {
        "IrInstructionCount" => {
            let count = row.get_ref(1).ok().and_then(|value| value.as_i64().ok());
            count.map(Value::Int).ok_or(Reason::Count)
        }
        "Autophase" => vector(3, Reason::Autophase),
        "InstCount" => vector(4, Reason::InstCount),
        _ => {
            let packed = row.get_ref(2).ok().and_then(|value| value.as_blob().ok());
            packed.and_then(inflate).map(Value::Text).ok_or(Reason::Ir)
        }
    }
}

/// Unpacks a text, within bounds.
fn inflate(packed: &[u8]) -> Option<String> {
    let bytes = decompress_to_vec_zlib_with_limit(packed, IR_BYTES_MAX).ok()?;
    String::from_utf8(bytes).ok()
}

/// Reads exactly `count` integers with blanks between them.
fn numbers(text: &str, count: usize) -> Option<Box<[i32]>> {
    let mut numbers = Vec::with_capacity(count);
    for token in text.split_ascii_whitespace() {
        if numbers.len() == count {
            return None;
        }
        numbers.push(token.parse().ok()?);
    }
    (numbers.len() == count).then(|| numbers.into())
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    #[test]
    fn a_vector_has_exactly_its_numbers() {
        assert_eq!(numbers("1 -2 3", 3).as_deref(), Some(&[1, -2, 3][..]));
        for text in ["", "1 2", "1 2 3 4", "1 2 x", "1 2 3.0", "1 2 99999999999"] {
            assert_eq!(numbers(text, 3), None, "{text}");
        }
    }

    #[test]
    fn a_text_is_unpacked_only_within_bounds() {
        assert_eq!(inflate(&compress_to_vec_zlib(b"define", 6)).as_deref(), Some("define"));
        let bomb = compress_to_vec_zlib(&vec![b' '; IR_BYTES_MAX + 1], 6);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(inflate(&bomb), None);
        let mut damaged = compress_to_vec_zlib(b"define", 6);
        *damaged.last_mut().unwrap() ^= 1;
        for packed in [&damaged[..], b"", b"define", &compress_to_vec_zlib(&[0xff], 6)] {
            assert_eq!(inflate(packed), None);
        }
    }
}
