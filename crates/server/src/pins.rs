//! Contents of the lake that are kept for clients that will come back for parts of an answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::newest::Served;

/// How many contents are kept, each with its hot rows. The oldest go first, so a client may have to
/// ask again.
const PINS_MAX: usize = 4;

/// How long contents are kept after they were last asked for. While they are kept, `steplake gc`
/// deletes nothing of them.
pub const PINNED_MAX: Duration = Duration::from_mins(10);

/// The number of contents that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinId(pub u64);

/// Contents by their numbers, in the order in which they were last asked for.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    pins: VecDeque<Pin>,
}

#[derive(Debug)]
struct Pin {
    id: PinId,
    served: Arc<Served>,
    used_at: Instant,
}

impl Pins {
    /// Keeps these contents from now on.
    pub(crate) fn pin(&self, served: &Arc<Served>) -> PinId {
        let mut kept = self.kept.lock();
        if let Some(known) = kept.pins.iter().position(|pin| Arc::ptr_eq(&pin.served, served)) {
            return kept.use_again(known).id;
        }
        let id = PinId(kept.next);
        kept.next += 1;
        kept.pins.push_back(Pin { id, served: Arc::clone(served), used_at: Instant::now() });
        if kept.pins.len() > PINS_MAX {
            kept.pins.pop_front();
        }
        id
    }

    /// Returns the contents with a number, if they are still kept, and keeps them from now on.
    pub(crate) fn get(&self, id: PinId) -> Option<Arc<Served>> {
        let mut kept = self.kept.lock();
        let known = kept.pins.iter().position(|pin| pin.id == id)?;
        Some(Arc::clone(&kept.use_again(known).served))
    }

    /// Drops contents that nobody has asked for in [`PINNED_MAX`].
    pub(crate) fn release_unused(&self) {
        self.kept.lock().pins.retain(|pin| pin.used_at.elapsed() <= PINNED_MAX);
    }
}

impl Kept {
    fn use_again(&mut self, place: usize) -> &Pin {
        let mut pin = self.pins.remove(place).expect("the place was just found");
        pin.used_at = Instant::now();
        self.pins.push_back(pin);
        &self.pins[self.pins.len() - 1]
    }
}
