//! An edge as a row of 64-bit words: nine words, and one for each reward space of the lake.
//!
//! ```text
//! word  high 32 bits            low 32 bits
//! 0     state before, bytes 0..8, top bit flipped: the order of `state_key`
//! 1     state before, bytes 8..16
//! 2     state before, 16..20    action (31 bits), then 1 if the step led to a state
//! 3, 4  state after, bytes 0..16; 0 if the compiler failed
//! 5     state after, 16..20     step index of the first step
//! 6     episode of the first step
//! 7     wall time of all steps; 0 if the compiler failed
//! 8     count of the steps
//! 9…    rewards of the first step, NaN for none
//! ```
//!
//! Words 0 to 4 and the upper half of word 5 are the *key*. Compared as numbers, keys have the
//! order of edges: by state key, state, action, failures before states, and state after. An episode
//! that failed in the state in which it began makes an edge without an action, which comes after
//! those with one.

use std::cmp::Ordering;

use crate::kernel::schema::decode::NO_ACTION;
use steplake_model::{ActionIndex, StateId};

/// Words of an edge before its rewards.
pub(super) const HEAD: usize = 9;
const SIGN: u64 = 1 << 63;
const LOW: u64 = 0xffff_ffff;
/// The bits of an action: the column has 32-bit signed integers. All are set where there is none.
const ACTION_MAX: u32 = NO_ACTION.0;

/// Words of an edge of a lake with so many reward spaces.
pub(crate) fn edge_words(rewards: usize) -> usize {
    HEAD + rewards
}

/// A state id as words of 8, 8 and 4 bytes. The order of the words is that of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StateWords(pub(crate) [u64; 3]);

impl StateWords {
    #[inline]
    pub(crate) fn of(id: &[u8; StateId::LEN]) -> Self {
        let (first, rest) = id.split_first_chunk::<8>().expect("20 bytes");
        let (second, rest) = rest.split_first_chunk::<8>().expect("12 bytes");
        let third = rest.first_chunk::<4>().expect("4 bytes");
        Self([
            u64::from_le_bytes(*first).swap_bytes(),
            u64::from_le_bytes(*second).swap_bytes(),
            u64::from(u32::from_le_bytes(*third).swap_bytes()),
        ])
    }

    #[inline]
    fn bytes(self) -> [u8; StateId::LEN] {
        let mut id = [0; StateId::LEN];
        id[..8].copy_from_slice(&self.0[0].swap_bytes().to_le_bytes());
        id[8..16].copy_from_slice(&self.0[1].swap_bytes().to_le_bytes());
        id[16..].copy_from_slice(&(self.0[2] << 32).swap_bytes().to_le_bytes()[..4]);
        id
    }
}

/// The parts of a new edge, without its rewards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EdgeHead {
    pub(crate) from: StateWords,
    pub(crate) action: ActionIndex,
    pub(crate) to: Option<StateWords>,
    pub(crate) first_episode: i64,
    pub(crate) first_index: i32,
    pub(crate) wall_time_us: i64,
    pub(crate) count: i64,
}

impl EdgeHead {
    /// Writes the words before the rewards.
    #[inline]
    pub(crate) fn write(&self, row: &mut [u64]) {
        let StateWords(from) = self.from;
        let to = self.to.map_or([0; 3], |to| to.0);
        let led = u64::from(self.to.is_some());
        row[0] = from[0] ^ SIGN;
        row[1] = from[1];
        row[2] = (from[2] << 32) | (u64::from(self.action.0 & ACTION_MAX) << 1) | led;
        row[3] = to[0];
        row[4] = to[1];
        row[5] = (to[2] << 32) | u64::from(self.first_index.cast_unsigned());
        row[6] = self.first_episode.cast_unsigned();
        row[7] = if led == 1 { self.wall_time_us.cast_unsigned() } else { 0 };
        row[8] = self.count.cast_unsigned();
    }
}

/// The state key of edges whose word 0 is `place`.
pub(crate) fn key_of_place(place: u64) -> i64 {
    (place ^ SIGN).cast_signed()
}

/// A view of the words of an edge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge<'a>(pub(crate) &'a [u64]);

impl<'a> Edge<'a> {
    pub(crate) fn key_before(self) -> i64 {
        key_of_place(self.0[0])
    }

    pub(crate) fn id_before(self) -> [u8; StateId::LEN] {
        StateWords([self.0[0] ^ SIGN, self.0[1], self.0[2] >> 32]).bytes()
    }

    /// The state that the action left.
    pub(crate) fn state_before(self) -> StateId {
        StateId(self.id_before())
    }

    pub(crate) fn action(self) -> ActionIndex {
        ActionIndex(u32::try_from((self.0[2] & LOW) >> 1).expect("masked to 31 bits"))
    }

    /// Whether the step led to a state. If not, the compiler failed.
    pub(crate) fn led(self) -> bool {
        self.0[2] & 1 == 1
    }

    pub(crate) fn key_after(self) -> i64 {
        self.0[3].cast_signed()
    }

    pub(crate) fn id_after(self) -> [u8; StateId::LEN] {
        StateWords([self.0[3], self.0[4], self.0[5] >> 32]).bytes()
    }

    pub(crate) fn first_episode(self) -> i64 {
        self.0[6].cast_signed()
    }

    pub(crate) fn first_index(self) -> i32 {
        u32::try_from(self.0[5] & LOW).expect("masked to 32 bits").cast_signed()
    }

    pub(crate) fn first(self) -> (i64, i32) {
        (self.first_episode(), self.first_index())
    }

    pub(crate) fn wall_time_us(self) -> i64 {
        self.0[7].cast_signed()
    }

    pub(crate) fn count(self) -> i64 {
        self.0[8].cast_signed()
    }

    pub(crate) fn rewards(self) -> impl Iterator<Item = f64> + 'a {
        self.0[HEAD..].iter().map(|&bits| f64::from_bits(bits))
    }

    /// Whether both edges leave the same state by the same action.
    #[inline]
    pub(crate) fn leaves_as(self, other: Edge<'_>) -> bool {
        self.0[..2] == other.0[..2] && self.0[2] >> 1 == other.0[2] >> 1
    }

    #[inline]
    pub(crate) fn is_same(self, other: Edge<'_>) -> bool {
        self.0[..5] == other.0[..5] && self.0[5] >> 32 == other.0[5] >> 32
    }

    #[inline]
    pub(crate) fn order(self, other: Edge<'_>) -> Ordering {
        self.0[..5].cmp(&other.0[..5]).then_with(|| (self.0[5] >> 32).cmp(&(other.0[5] >> 32)))
    }

    /// A cheap hash of the key, for a place in a table.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        // State ids are hashes already, so mixing is cheap.
        let mixed = self.0[0] ^ self.0[2].rotate_left(32) ^ self.0[3].rotate_left(17);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// How the compiler failed, as in the columns of `failures`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailureText<'a> {
    pub(crate) kind: &'a str,
    pub(crate) detail: Option<&'a str>,
}

/// The rewards of a row of words.
#[inline]
pub(crate) fn rewards_of(row: &mut [u64]) -> &mut [u64] {
    &mut row[HEAD..]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::layers) fn row(head: &EdgeHead) -> Vec<u64> {
        let mut row = vec![0; edge_words(1)];
        head.write(&mut row);
        rewards_of(&mut row)[0] = f64::from_bits(head.count.cast_unsigned()).to_bits();
        row
    }

    pub(in crate::layers) fn head() -> impl Strategy<Value = EdgeHead> {
        let state = || prop_oneof![any::<[u8; 20]>(), any::<u8>().prop_map(|byte| [byte; 20])];
        let of = |id: [u8; 20]| StateWords::of(&id);
        (
            state(),
            (0..=ACTION_MAX).prop_map(ActionIndex),
            proptest::option::of(state()),
            any::<i64>(),
            0..i32::MAX,
            0..1_i64 << 40,
        )
            .prop_map(move |(from, action, to, first_episode, first_index, time)| {
                EdgeHead {
                    from: of(from),
                    action,
                    to: to.map(of),
                    first_episode,
                    first_index,
                    wall_time_us: time,
                    count: time / 3 + 1,
                }
            })
    }

    proptest! {
        #[test]
        fn an_edge_gives_back_what_it_was_made_of(head in head()) {
            let row = row(&head);
            let edge = Edge(&row);
            let from = StateId(edge.id_before());
            prop_assert_eq!(StateWords::of(&from.0), head.from);
            prop_assert_eq!(edge.key_before(), from.key());
            prop_assert_eq!((edge.action(), edge.led()), (head.action, head.to.is_some()));
            if let Some(to) = head.to {
                prop_assert_eq!(StateWords::of(&edge.id_after()), to);
                prop_assert_eq!(edge.key_after(), StateId(edge.id_after()).key());
                prop_assert_eq!(edge.wall_time_us(), head.wall_time_us);
            }
            prop_assert_eq!(edge.first(), (head.first_episode, head.first_index));
            prop_assert_eq!(edge.count(), head.count);
        }

        #[test]
        fn edges_of_one_state_and_action_are_told_from_others(head in head(), action in 0..9_u32) {
            let with = |action, to| row(&EdgeHead { action: ActionIndex(action), to, ..head });
            let (led, failed) = (with(action, head.to), with(action, None));
            prop_assert!(Edge(&led).leaves_as(Edge(&failed)));
            prop_assert!(!Edge(&led).leaves_as(Edge(&with(action + 1, head.to))));
        }

        #[test]
        fn edges_are_in_the_order_of_their_keys(one in head(), other in head()) {
            let key = |row: &[u64]| {
                let edge = Edge(row);
                let from = StateId(edge.id_before());
                (from.key(), from, edge.action(), edge.led().then(|| edge.id_after()))
            };
            let (one, other) = (row(&one), row(&other));
            prop_assert_eq!(Edge(&one).order(Edge(&other)), key(&one).cmp(&key(&other)));
            prop_assert_eq!(Edge(&one).is_same(Edge(&other)), key(&one) == key(&other));
        }
    }
}
