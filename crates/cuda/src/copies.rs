//! Copies of arrays in the memory of the device, which bound how fast anything point-wise can be.

use steplake::env::loops::reference::element;

use crate::device::{Array, Copier, Device};
use crate::rounds::Times;

/// An array and its copy, and the ways to make it.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) copiers: Vec<(&'static str, Copier)>,
    from: Array,
    to: Array,
}

impl Copies {
    /// Arrays of so many numbers. Each way is tried, and its copy compared.
    pub(crate) fn new(device: &Device, numbers: u64, seed: u64) -> Result<Self, String> {
        let held = (0..numbers).map(|place| element(seed, 0, place, false)).collect::<Vec<_>>();
        let (from, to) = (device.array(&held)?, device.zeros(numbers)?);
        let mut copies = Self { copiers: device.copiers()?, from, to };
        for which in 0..copies.copiers.len() {
            device.clear(&mut copies.to)?;
            copies.launch(device, which)?;
            if device.numbers(&copies.to)? != held {
                let name = copies.copiers[which].0;
                return Err(format!("the copy of {numbers} numbers by {name} is wrong"));
            }
        }
        Ok(copies)
    }

    pub(crate) fn launch(&mut self, device: &Device, which: usize) -> Result<(), String> {
        device.copy(&self.copiers[which].1, &self.from, &mut self.to)
    }

    /// The name and the speed of the best way, read and written bytes together.
    pub(crate) fn best(&self, times: &[Times]) -> (&'static str, f64) {
        let bytes = 2 * 4 * self.from.len() as u64;
        let speeds = self.copiers.iter().zip(times);
        let speeds = speeds.map(|((name, _), times)| (*name, times.billions_per_s(bytes)));
        speeds.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or(("none", 0.0))
    }
}
