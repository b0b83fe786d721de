//! Which steps the derived tables of a snapshot count.

use crate::kernel::{LakeError, Segment, Snapshot, SnapshotKind, Table};

impl Snapshot {
    /// Whether a dedup has made the derived tables since a retraction, a repair or a merge dropped
    /// them. If that is unknown because snapshots have expired, a snapshot without derived tables
    /// counts as one before a dedup.
    fn is_derived(&self) -> bool {
        let layers = self.layers();
        if !layers.is_empty() {
            // Layers of earlier versions of dedup may have a (state, action) more than once.
            let mut segments = layers.values().flatten();
            return layers.len() == 1 || segments.all(|segment| segment.deletions.is_some());
        }
        if self.history().last().is_none_or(|newest| newest.id == self.id()) {
            return self.dedup_inputs().is_some();
        }
        let mut before = self.history().iter().filter(|row| row.id <= self.id());
        // These keep the derived tables as they are.
        let kept = [
            SnapshotKind::Seal,
            SnapshotKind::Compact,
            SnapshotKind::Backfill,
            SnapshotKind::Import,
        ];
        let last = before.rfind(|row| !kept.contains(&row.kind));
        last.is_some_and(|row| row.kind == SnapshotKind::Dedup)
    }

    /// The segments of `steps` that the derived tables count.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Segment> {
        let is_derived = self.is_derived();
        self.segments(Table::Steps).iter().filter(move |it| it.is_counted && is_derived)
    }

    /// Whether there are steps of closed episodes.
    fn has_closed_steps(&self) -> bool {
        self.segments(Table::Steps).iter().any(|segment| segment.rows > 0)
            || self.closed_hot_steps() > 0
    }

    /// The number of steps of closed episodes that the derived tables do not count: those recorded
    /// since the last dedup.
    pub fn uncounted_steps(&self) -> u64 {
        let rows = |segment: &Segment| segment.rows;
        let sealed = self.segments(Table::Steps).iter().map(rows).sum::<u64>();
        sealed - self.counted().map(rows).sum::<u64>() + self.closed_hot_steps()
    }

    /// Refuses a derived table if there are steps but no dedup has counted them. An empty table
    /// would suggest that nothing was recorded.
    ///
    /// # Errors
    ///
    /// [`LakeError::NotDerived`].
    pub fn demand_derived(&self, table: Table) -> Result<(), LakeError> {
        if !table.is_derived() || self.is_derived() || !self.has_closed_steps() {
            return Ok(());
        }
        let newest = self.history().last().map_or(self.id(), |row| row.id);
        let (path, snapshot) = (self.path().to_owned(), self.id());
        Err(LakeError::NotDerived { path, table, snapshot, newest })
    }
}
