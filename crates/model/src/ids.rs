//! Ids of states, runs and episodes, and names of spaces.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of an environment, a space or a feature: a constant of the program, or a text.
pub type Name = Cow<'static, str>;

/// The name of a state: a 20-byte hash of its content. The environment chooses the hash: equal
/// content gives equal ids, and any session of the environment computes the id of a serialised
/// state from its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub [u8; 20]);

impl StateId {
    /// The length of an id in bytes.
    pub const LEN: usize = 20;

    /// Reads an id from a column's value.
    ///
    /// # Panics
    ///
    /// If `bytes` are not [`StateId::LEN`] long: columns of ids have that width.
    pub fn from_slice(bytes: &[u8]) -> Self {
        Self(bytes.try_into().expect("an id has 20 bytes"))
    }

    /// Returns the first eight bytes as a big-endian signed integer: the column `state_key`, for
    /// sorting, joins and pruning in readers that are slow on binary columns.
    pub fn key(&self) -> i64 {
        self.0[..8].iter().fold(0, |key, &byte| (key << 8) | i64::from(byte))
    }

    /// Returns what tables of states are sorted by: the key, which is signed, then the bytes.
    pub fn order(self) -> (i64, Self) {
        (self.key(), self)
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateId({self})")
    }
}

/// The error for a text that is not a state id: 40 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a state id: expected 40 hexadecimal digits")]
pub struct ParseStateIdError(pub String);

impl FromStr for StateId {
    type Err = ParseStateIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseStateIdError(text.to_owned());
        if text.len() != 2 * Self::LEN || !text.is_ascii() {
            return Err(error());
        }
        let mut id = [0; Self::LEN];
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.contains('+'));
            *byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok()).ok_or_else(error)?;
        }
        Ok(Self(id))
    }
}

/// The number of a run in its lake. Runs are counted from 1, in the order in which they began here
/// or came from other lakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub i32);

/// The name of an episode in its lake. The upper half is the run; the lower half is the episode's
/// ordinal within the run, from 0. The name depends on the run's arguments alone, never on the
/// worker that played the episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpisodeId(pub i64);

impl EpisodeId {
    /// Returns the id of the `ordinal`-th episode of `run`.
    pub fn new(run: RunId, ordinal: u32) -> Self {
        Self((i64::from(run.0) << 32) | i64::from(ordinal))
    }

    /// Returns the run of the episode.
    pub fn run(self) -> RunId {
        RunId(i32::try_from(self.0 >> 32).expect("the upper half of an i64 is an i32"))
    }

    /// Returns the episode's ordinal within its run, from 0.
    pub fn ordinal(self) -> u32 {
        u32::try_from(self.0 & 0xffff_ffff).expect("masked to 32 bits")
    }
}

impl fmt::Display for EpisodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "episode {} of run {}", self.ordinal(), self.run().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_id_survives_its_own_text() {
        let id =
            StateId([0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 0xff]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.key(), i64::MIN + 0x0001_0203_0405_0607);
    }

    #[test]
    fn a_text_that_is_no_id_is_refused() {
        for text in ["", "00", &"g".repeat(40), &"+1".repeat(20), &"é".repeat(20)] {
            assert_eq!(text.parse::<StateId>(), Err(ParseStateIdError(text.to_owned())));
        }
    }

    #[test]
    fn an_episode_id_keeps_run_and_ordinal() {
        let id = EpisodeId::new(RunId(7), u32::MAX);
        assert_eq!((id.run(), id.ordinal()), (RunId(7), u32::MAX));
    }
}
