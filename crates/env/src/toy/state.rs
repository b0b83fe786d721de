//! A state, and equally a program: a number below a size.

use sha1::{Digest, Sha1};

use super::planted::Plant;
use steplake_model::StateId;

/// A program, and equally a state: its text is `toy <size> <number>`, then the plant as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToyState {
    pub(super) size: u32,
    pub(super) number: u32,
    pub(super) plant: Option<Plant>,
}

impl ToyState {
    pub(super) fn parse(program: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(program).ok()?.strip_prefix("toy ")?.splitn(3, ' ');
        let (size, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let plant = words.next().map(serde_json::from_str).transpose().ok()?;
        (number < size && size <= 1 << 30).then_some(Self { size, number, plant })
    }

    pub(super) fn serialise(&self) -> String {
        let text = serialise(self.size, self.number);
        let plant = self.plant.as_ref().map(|plant| serde_json::to_string(plant).expect("text"));
        plant.map_or(text.clone(), |plant| format!("{text} {plant}"))
    }

    /// Computes the id of the state: a hash of its content, not of its spelling.
    pub(super) fn identify(&self) -> StateId {
        StateId(
            Sha1::new().chain_update("state of ").chain_update(self.serialise()).finalize().into(),
        )
    }

    /// Triggers the plant, if any; see [`Plant::strike`].
    pub(super) fn strike(&self, action: &str) -> Option<u32> {
        self.plant.as_ref().and_then(|plant| plant.strike(action, self.number))
    }
}

pub(super) fn serialise(size: u32, number: u32) -> String {
    format!("toy {size} {number}")
}
