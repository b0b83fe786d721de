//! The states of the graph by their ids.

use std::ops::Range;

use crate::model::StateId;

/// A state's number in the graph.
pub(super) type Node = u32;

/// Where an id stands in the order of tables: by state key, then by id.
pub(super) fn place(state: &StateId) -> (u64, StateId) {
    (state.key().cast_unsigned() ^ (1 << 63), *state)
}

/// The ids of all states in the order of tables; the place of an id is its node.
///
/// Ids are hashes, and so evenly spread: a table over their first bits leads to a run of about one
/// of them. Memory: 20 bytes a state, and at most 4 more.
#[derive(Debug, Default)]
pub(super) struct StateIndex {
    ids: Vec<StateId>,
    /// For each value of the first bits, where the ids with it begin; then where the last ones end.
    begins: Vec<Node>,
    shift: u32,
}

impl StateIndex {
    /// Of ids in their order, each once.
    pub(super) fn new(ids: Vec<StateId>) -> Self {
        debug_assert!(ids.is_sorted_by(|one, next| place(one) < place(next)));
        let bits = ids.len().checked_ilog2().unwrap_or(0).max(1);
        let shift = u64::BITS - bits;
        let mut begins = vec![0; (1 << bits) + 1];
        for id in &ids {
            begins[bucket(id, shift) + 1] += 1;
        }
        let mut sum = 0;
        for begin in &mut begins {
            sum += *begin;
            *begin = sum;
        }
        Self { ids, begins, shift }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn id(&self, node: Node) -> StateId {
        self.ids[node as usize]
    }

    /// The node of a state, if it is in the graph.
    pub(super) fn find(&self, state: &StateId) -> Option<Node> {
        let bucket = bucket(state, self.shift);
        let (begin, end) = (self.begins[bucket], self.begins[bucket + 1]);
        let run = &self.ids[begin as usize..end as usize];
        let at = run.binary_search_by(|known| place(known).cmp(&place(state))).ok()?;
        Some(begin + node(at))
    }

    /// The nodes of the states with this key.
    pub(super) fn with_key(&self, key: i64) -> Range<Node> {
        let place = key.cast_unsigned() ^ (1 << 63);
        let begin = self.ids.partition_point(|id| self::place(id).0 < place);
        let end = self.ids.partition_point(|id| self::place(id).0 <= place);
        node(begin)..node(end)
    }

    pub(super) fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<StateId>() + self.begins.capacity() * size_of::<Node>()
    }
}

fn bucket(id: &StateId, shift: u32) -> usize {
    usize::try_from(place(id).0 >> shift).expect("at most 31 bits")
}

/// A place as a node. The graph is refused when it has more states than there are nodes.
pub(super) fn node(place: usize) -> Node {
    Node::try_from(place).expect("the number of states was checked when the graph was made")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_state_is_found_and_no_other(
            mut ids in proptest::collection::vec(any::<[u8; 20]>().prop_map(StateId), 0..200),
            near in any::<bool>(),
        ) {
            if near {
                // Keys that crowd into one run.
                for id in &mut ids {
                    id.0[..9].fill(0x80);
                }
            }
            ids.sort_by_key(place);
            ids.dedup();
            let (kept, left): (Vec<_>, Vec<_>) =
                ids.iter().copied().partition(|id| id.0[19] % 3 > 0);
            let index = StateIndex::new(kept.clone());
            for (at, id) in kept.iter().enumerate() {
                prop_assert_eq!(index.find(id), Some(node(at)));
            }
            prop_assert!(left.iter().all(|id| index.find(id).is_none()));
        }
    }
}
