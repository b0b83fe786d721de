//! An index of the states of a transition graph by their ids.

use std::sync::Arc;

use steplake_model::StateId;

/// A state's number in a transition graph, from 0 without gaps.
pub type Node = u32;

/// Replaces each number by its sum with all before it, and returns the last sum.
pub(crate) fn add_up(numbers: &mut [u32]) -> u32 {
    numbers.iter_mut().fold(0, |sum, number| {
        *number += sum;
        *number
    })
}

/// Brings ids into the order of tables, and drops those that are there twice.
pub(super) fn sort_distinct(ids: &mut Vec<StateId>) {
    ids.sort_unstable_by_key(|id| id.order());
    ids.dedup();
}

/// Whether ids are in the order of tables, each once.
fn are_sorted(ids: &[StateId]) -> bool {
    ids.is_sorted_by(|one, next| one.order() < next.order())
}

/// The ids of all states in the order of tables; the place of an id is its node.
///
/// Ids are hashes and so evenly spread: a table over their first bits leads to a run of about one
/// id. Memory: 20 bytes for each state, and at most 4 more. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StateIndex {
    ids: Arc<Vec<StateId>>,
    /// For each value of the first bits, where the ids with it begin; then where the last ones end.
    begins: Arc<Vec<Node>>,
    shift: u32,
    /// A few more ids, in their order. Their nodes come after those of `ids`.
    others: Vec<StateId>,
}

impl StateIndex {
    /// An index of sorted, distinct ids.
    pub fn new(ids: Vec<StateId>) -> Self {
        debug_assert!(are_sorted(&ids));
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
        debug_assert!(are_sorted(&others));
        assert!(self.others.is_empty(), "an index gets a few more ids once");
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
    pub fn find(&self, state: &StateId) -> Option<Node> {
        if self.ids.is_empty() {
            return self.find_other(state);
        }
        let bucket = bucket(state, self.shift);
        let (begin, end) = (self.begins[bucket], self.begins[bucket + 1]);
        let run = &self.ids[begin as usize..end as usize];
        match run.binary_search_by(|known| known.order().cmp(&state.order())) {
            Ok(at) => Some(begin + node(at)),
            Err(_) => self.find_other(state),
        }
    }

    fn find_other(&self, state: &StateId) -> Option<Node> {
        let at = self.others.binary_search_by_key(&state.order(), |known| known.order()).ok()?;
        Some(node(self.ids.len() + at))
    }

    /// The nodes of the states with this key.
    pub(crate) fn with_key(&self, key: i64) -> impl Iterator<Item = Node> + use<> {
        let among = |ids: &[StateId], first: usize| {
            let begin = ids.partition_point(|id| id.key() < key);
            let end = ids.partition_point(|id| id.key() <= key);
            node(first + begin)..node(first + end)
        };
        among(&self.ids, 0).chain(among(&self.others, self.ids.len()))
    }

    /// Bytes of memory, without the few others.
    pub(crate) fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<StateId>() + self.begins.capacity() * size_of::<Node>()
    }
}

/// The first bits of an id; the sign of the key is turned, so that they are in the order of tables.
fn bucket(id: &StateId, shift: u32) -> usize {
    let key = id.key().cast_unsigned() ^ (1 << 63);
    usize::try_from(key >> shift).expect("at most 31 bits")
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
            sort_distinct(&mut ids);
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
