//! What an older lake observed in each state, as a digest, so that all states fit into memory.

use std::collections::HashMap;

use steplake_lake::{Identity, LakeError, Observed, Snapshot, Table, ValueRef};
use steplake_model::{List, StateId, Value};

/// Half of a BLAKE3 digest of values.
type Digest = [u8; 16];

/// The columns of `observations` in which a state has a value. No environment has more spaces than
/// these bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Columns([u128; 2]);

impl Columns {
    pub(super) fn has(self, column: usize) -> bool {
        self.0[column / 128] >> (column % 128) & 1 == 1
    }

    /// Whether `other` has all of them.
    pub(super) fn are_in(self, other: Self) -> bool {
        self.with(other) == other
    }

    /// All that one of the two has.
    #[must_use]
    pub(super) fn with(self, Self([low, high]): Self) -> Self {
        Self([self.0[0] | low, self.0[1] | high])
    }

    pub(super) fn add(&mut self, column: usize) {
        self.0[column / 128] |= 1 << (column % 128);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == [0, 0]
    }
}

/// What was observed in a state.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ObservedState {
    pub(super) columns: Columns,
    digest: Digest,
}

impl ObservedState {
    /// Adds the value in a column. Columns come in the order of the lake.
    fn add(&mut self, column: usize, value: &Value) {
        self.columns.add(column);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.digest).update(&[u8::try_from(column).unwrap_or(u8::MAX)]);
        hasher.update(&bytes(value));
        self.digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    }

    /// Returns whether these are the values in its columns, and nothing else was observed.
    pub(super) fn is(&self, values: &[Option<Value>]) -> bool {
        let mut other = Self::default();
        for (column, value) in values.iter().enumerate() {
            if let Some(value) = value {
                other.add(column, value);
            }
        }
        (self.columns, self.digest) == (other.columns, other.digest)
    }
}

/// Reads what was observed in each state that has a row in `observations`.
pub(super) fn read(snapshot: &Snapshot) -> Result<HashMap<StateId, ObservedState>, LakeError> {
    let identity: &Identity = snapshot.identity();
    let states = snapshot.states_in(Table::Observations)?.into_iter();
    let mut known =
        states.map(|state| (state, ObservedState::default())).collect::<HashMap<_, _>>();
    for (column, space) in identity.observations.iter().enumerate() {
        for observed in snapshot.observations(space) {
            let observed = observed?;
            for (place, state) in observed.states() {
                known.entry(state).or_default().add(column, &owned(&observed, place));
            }
        }
    }
    Ok(known)
}

fn owned(observed: &Observed, place: usize) -> Value {
    match observed.value(place) {
        ValueRef::Int(number) => Value::Int(number),
        ValueRef::Float(number) => Value::Float(number),
        ValueRef::Text(text) => Value::Text(text.to_owned()),
        ValueRef::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        ValueRef::IntVector(numbers) => Value::IntVector(numbers.into()),
        ValueRef::FloatVector(numbers) => Value::FloatVector(numbers.into()),
        ValueRef::TextList => Value::TextList(observed.texts(place)),
        ValueRef::Lists => Value::Lists(Box::new(observed.lists(place))),
    }
}

/// The bytes of a value, which are those of no other value of its type.
fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Int(number) => number.to_le_bytes().into(),
        Value::Float(number) => number.to_bits().to_le_bytes().into(),
        Value::Text(text) => text.as_bytes().into(),
        Value::Bytes(bytes) => bytes.clone(),
        Value::IntVector(numbers) => numbers.iter().flat_map(|item| item.to_le_bytes()).collect(),
        Value::FloatVector(numbers) => {
            numbers.iter().flat_map(|item| item.to_bits().to_le_bytes()).collect()
        }
        Value::TextList(texts) => texts_bytes(texts.iter().map(String::as_str)),
        Value::Lists(lists) => lists.named().flat_map(|(_, list)| list_bytes(list)).collect(),
    }
}

/// The bytes of a list, which begin with their number.
fn list_bytes(list: &List) -> Vec<u8> {
    let items: Vec<u8> = match list {
        List::Int8(items) => items.iter().flat_map(|item| item.to_le_bytes()).collect(),
        List::Int32(items) => items.iter().flat_map(|item| item.to_le_bytes()).collect(),
        List::Text(texts) => texts_bytes(texts.iter()),
    };
    [&(items.len() as u64).to_le_bytes()[..], &items].concat()
}

/// The bytes of texts, each behind its length.
fn texts_bytes<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let one = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    texts.flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_what_was_observed_and_nothing_else() {
        let (one, two) = (Value::Int(1), Value::TextList(vec!["a".into(), "b".into()]));
        let mut state = ObservedState::default();
        assert!(state.columns.is_empty() && state.is(&[None, None]));
        state.add(0, &one);
        state.add(2, &two);
        let all = [Some(one.clone()), None, Some(two.clone())];
        assert!(state.is(&all) && state.columns.has(2) && !state.columns.has(1));
        let joined = Value::TextList(vec!["ab".into()]);
        for other in [
            [Some(one.clone()), None, None],
            [Some(one.clone()), Some(one.clone()), Some(two.clone())],
            [Some(Value::Int(2)), None, Some(two)],
            [Some(one), None, Some(joined)],
        ] {
            assert!(!state.is(&other), "{other:?}");
        }
    }
}
