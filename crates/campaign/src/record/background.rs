//! What a recording does beside its commits, on a thread of its own: it seals the hot log when that
//! has grown, and merges small segments after a seal.

use std::thread::JoinHandle;

use steplake_lake::{
    Extent, LakeError, PreparedCompaction, PreparedSeal, Table, Writer, to_the_end,
};

/// What a thread has prepared.
enum Prepared {
    Seal(Result<PreparedSeal, LakeError>),
    /// Of a table; none if nothing is due.
    Compaction(Table, Result<Option<PreparedCompaction>, LakeError>),
}

/// Work that is under way, if there is any. If it is dropped, its thread ends first: the thread
/// shares the right to write.
#[derive(Default)]
pub(super) struct Background {
    thread: Option<JoinHandle<Prepared>>,
    /// The tables of which something may be due to be merged.
    grown: Vec<Table>,
}

impl Background {
    /// Publishes what is ready, or begins what is due.
    ///
    /// # Errors
    ///
    /// If rows cannot be sealed. If segments cannot be merged, there is only a warning.
    pub(super) fn turn(&mut self, writer: &mut Writer) -> Result<(), LakeError> {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            return self.publish(writer, thread);
        }
        if self.thread.is_none() {
            self.thread = self.begin(writer);
        }
        Ok(())
    }

    fn begin(&mut self, writer: &Writer) -> Option<JoinHandle<Prepared>> {
        if writer.seal_is_due() {
            let sealer = writer.sealer();
            return Some(std::thread::spawn(move || Prepared::Seal(sealer.prepare())));
        }
        let (table, compactor) = (self.grown.pop()?, writer.compactor());
        Some(std::thread::spawn(move || {
            let prepared = compactor.prepare(table, Extent::Due, &mut to_the_end);
            Prepared::Compaction(table, prepared)
        }))
    }

    fn publish(
        &mut self,
        writer: &mut Writer,
        thread: JoinHandle<Prepared>,
    ) -> Result<(), LakeError> {
        let prepared = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match prepared {
            Prepared::Seal(seal) => {
                let report = writer.publish(seal?)?;
                tracing::debug!(?report, "sealed");
                self.grown = Table::ALL.into_iter().filter(|table| table.is_recorded()).collect();
            }
            Prepared::Compaction(table, compaction) => {
                let merged = compaction.and_then(|compaction| {
                    compaction.map(|it| writer.publish_compaction(it)).transpose()
                });
                match merged {
                    // There may be more to merge.
                    Ok(Some(report)) if report.goes_on() => self.grown.push(table),
                    // What a dedup keeps from being merged is merged after a later seal.
                    Ok(_) | Err(LakeError::BeingMaintained { .. }) => {}
                    Err(error) => {
                        tracing::warn!(%error, %table, "small files are not merged for now");
                    }
                }
            }
        }
        Ok(())
    }

    /// Publishes what is under way.
    ///
    /// # Errors
    ///
    /// If rows cannot be sealed.
    pub(super) fn end(mut self, writer: &mut Writer) -> Result<(), LakeError> {
        match self.thread.take() {
            Some(thread) => self.publish(writer, thread),
            None => Ok(()),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use steplake_lake::{EpisodeRow, FORMAT_VERSION, Identity, Lake, Rows, SnapshotKind, Table};
    use steplake_model::{ActionFlags, ActionSpace, ActionSpec, EpisodeId, RunId};

    use super::*;

    fn identity() -> Identity {
        let action = ActionSpec::new("a", "pass", ActionFlags::UNREMARKABLE);
        Identity {
            format_version: FORMAT_VERSION,
            environment: "handmade-v0".into(),
            compiler: "none".into(),
            target: "none".into(),
            action_space: ActionSpace { name: "handmade-v0".into(), actions: vec![action] },
            observations: Vec::new(),
            rewards: Vec::new(),
            baselines: Vec::new(),
            state_scheme: 1,
        }
    }

    #[test]
    fn what_a_seal_makes_due_is_merged_beside_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
        let mut writer = lake.writer().unwrap();
        // While somebody maintains the lake, seals merge nothing.
        let maintenance = lake.maintenance().unwrap();
        for number in 0..20 {
            let mut rows = Rows::default();
            let benchmark = "generator://handmade-v0/0".parse().unwrap();
            rows.episodes.push(EpisodeRow::new(EpisodeId::new(RunId(1), number), benchmark));
            writer.append(&rows).unwrap();
            writer.seal().unwrap();
        }
        let files = || lake.sealed().unwrap().segments(Table::Episodes).len();
        let mut background = Background { thread: None, grown: vec![Table::Episodes] };
        let mut turns = |background: &mut Background, is_done: &dyn Fn(&Background) -> bool| {
            let began = Instant::now();
            while !is_done(background) && began.elapsed() < Duration::from_mins(1) {
                background.turn(&mut writer).unwrap();
                std::thread::yield_now();
            }
        };
        let rests = |it: &Background| it.thread.is_none() && it.grown.is_empty();
        turns(&mut background, &rests);
        assert_eq!(files(), 20, "who maintains the lake is not disturbed");
        drop(maintenance);
        background.grown.push(Table::Episodes);
        turns(&mut background, &rests);
        assert_eq!(files(), 1);
        let last = lake.sealed().unwrap().history().last().unwrap().kind;
        assert_eq!(last, SnapshotKind::Compact);
        background.end(&mut writer).unwrap();
    }
}
