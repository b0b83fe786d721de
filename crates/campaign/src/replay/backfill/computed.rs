//! Computed observations, which become durable in parts.

use std::time::{Duration, Instant};

use steplake_lake::ObservationRow;

/// Bytes of observations after which they become a part.
const PART_BYTES: usize = 128 << 20;

/// Time after which observations become a part, however few they are.
const PART_INTERVAL: Duration = Duration::from_secs(1);

/// A part need not come sooner than this share of the time so far after the one before: a long
/// backfill would have thousands of parts.
const PART_SHARE: u32 = 20;

/// Observations that are in no part yet.
#[derive(Debug, Default)]
pub(super) struct Computed {
    pub(super) rows: Vec<ObservationRow>,
    bytes: usize,
    /// When the last part was taken, since the beginning.
    taken: Duration,
}

impl Computed {
    /// Adds a row. Returns all rows if they are to become a part.
    pub(super) fn push(
        &mut self,
        row: ObservationRow,
        begun: Instant,
    ) -> Option<Vec<ObservationRow>> {
        self.bytes += row.bytes();
        self.rows.push(row);
        let interval = PART_INTERVAL.max(self.taken / PART_SHARE);
        let is_due = self.bytes >= PART_BYTES || begun.elapsed() >= self.taken + interval;
        is_due.then(|| self.take(begun))
    }

    pub(super) fn take(&mut self, begun: Instant) -> Vec<ObservationRow> {
        (self.bytes, self.taken) = (0, begun.elapsed());
        std::mem::take(&mut self.rows)
    }
}
