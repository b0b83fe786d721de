//! An index of the states of a transition graph by their ids.

use std::sync::Arc;

use crate::model::StateId;

/// A state's number in the graph.
pub(crate) type Node = u32;

/// Replaces each number by its sum with all before it, and returns the last sum.
pub(crate) fn add_up(numbers: &mut [u32]) -> u32 {
    numbers.iter_mut().fold(0, |sum, number| {
        *number += sum;
        *number
    })
}

/// The sort key of an id in the order of tables: by state key, then by id.
pub(crate) fn place(state: &StateId) -> (u64, StateId) {
    (state.key().cast_unsigned() ^ (1 << 63), *state)
}

/// The ids of all states in the order of tables; the place of an id is its node.
///
/// Ids are hashes and so evenly spread: a table over their first bits leads to a run of about one
/// id. Memory: 20 bytes for each state, and at most 4 more. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateIndex {
    ids: Arc<Vec<StateId>>,
    /// For each value of the first bits, where the ids with it begin; then where the last ones end.
    begins: Arc<Vec<Node>>,
    shift: u32,
    /// A few more ids, in their order. Their nodes come after those of `ids`.
    others: Vec<StateId>,
}

impl StateIndex {
    /// An index of sorted, distinct ids.
    pub(crate) fn new(ids: Vec<StateId>) -> Self {
        debug_assert!(ids.is_sorted_by(|one, next| place(one) < place(next)));
        let bits = ids.len().checked_ilog2().unwrap_or(0).max(1);
        let shift = u64::BITS - bits;
        let mut begins = vec![0; (1 << bits) + 1];
        for id in &ids {
            begins[bucket(id, shift) + 1] += 1;
        }
        add_up(&mut begins);
        Self { ids: Arc::new(ids), begins: Arc::new(begins), shift, others: Vec::new() }
    }

    /// The same with a few more ids, sorted, none of which it has.
    pub(crate) fn with_others(&self, others: Vec<StateId>) -> Self {
        debug_assert!(others.is_sorted_by(|one, next| place(one) < place(next)));
        Self { others, ..self.clone() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len() + self.others.len()
    }

    pub(crate) fn id(&self, node: Node) -> StateId {
        let at = node as usize;
        self.ids.get(at).copied().unwrap_or_else(|| self.others[at - self.ids.len()])
    }

    /// The node of a state, if it is in the graph.
    pub(crate) fn find(&self, state: &StateId) -> Option<Node> {
        if self.ids.is_empty() {
            return self.find_other(state);
        }
        let bucket = bucket(state, self.shift);
        let (begin, end) = (self.begins[bucket], self.begins[bucket + 1]);
        let run = &self.ids[begin as usize..end as usize];
        match run.binary_search_by(|known| place(known).cmp(&place(state))) {
            Ok(at) => Some(begin + node(at)),
            Err(_) => self.find_other(state),
        }
    }

    fn find_other(&self, state: &StateId) -> Option<Node> {
        let at = self.others.binary_search_by(|known| place(known).cmp(&place(state))).ok()?;
        Some(node(self.ids.len() + at))
    }

    /// The nodes of the states with this key.
    pub(crate) fn with_key(&self, key: i64) -> impl Iterator<Item = Node> + use<> {
        let place = key.cast_unsigned() ^ (1 << 63);
        let among = |ids: &[StateId], first: usize| {
            let begin = ids.partition_point(|id| self::place(id).0 < place);
            let end = ids.partition_point(|id| self::place(id).0 <= place);
            node(first + begin)..node(first + end)
        };
        among(&self.ids, 0).chain(among(&self.others, self.ids.len()))
    }

    /// Bytes of memory, without the few others.
    pub(crate) fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<StateId>() + self.begins.capacity() * size_of::<Node>()
    }
}

fn bucket(id: &StateId, shift: u32) -> usize {
    usize::try_from(place(id).0 >> shift).expect("at most 31 bits")
}

/// A place as a node. The graph is refused when it has more states than there are nodes.
pub(crate) fn node(place: usize) -> Node {
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
                // Keys that fall into one run.
                for id in &mut ids {
                    id.0[..9].fill(0x80);
                }
            }
            ids.sort_by_key(place);
            ids.dedup();
            let (kept, left): (Vec<_>, Vec<_>) =
                ids.iter().copied().partition(|id| id.0[19] % 3 > 0);
            let (others, left): (Vec<_>, Vec<_>) = left.into_iter().partition(|id| id.0[19] > 99);
            let index = StateIndex::new(kept.clone()).with_others(others.clone());
            prop_assert_eq!(index.len(), kept.len() + others.len());
            for (at, id) in kept.iter().chain(&others).enumerate() {
                prop_assert_eq!(index.find(id), Some(node(at)));
                prop_assert_eq!(index.id(node(at)), *id);
                prop_assert!(index.with_key(id.key()).any(|found| found == node(at)));
            }
            prop_assert!(left.iter().all(|id| index.find(id).is_none()));
        }
    }
}
