//! The failures of the compiler, by episode.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::kernel::schema::decode::EpisodeEnd;
use crate::kernel::{LakeError, ScanColumns, Segment, Snapshot, Table};
use crate::layers::{Edge, FailureText};
use steplake_model::{EpisodeId, EpisodeOutcome, FailureKind};

/// The failures in which steps of a pass may have ended.
pub(super) struct FailedEpisodes {
    lake: PathBuf,
    episodes: HashMap<i64, (FailureKind, Option<Box<str>>)>,
    /// Those without an action.
    starts: HashSet<i64>,
}

impl FailedEpisodes {
    /// Reads the episodes whose steps may be in `steps`: sealing writes both tables in files of
    /// about the same key range. Asks `go_on` at each batch.
    pub(super) fn read(
        snapshot: &Snapshot,
        steps: &[Segment],
        go_on: &mut dyn FnMut() -> Result<(), LakeError>,
    ) -> Result<Self, LakeError> {
        let meets = |episodes: &&Segment| {
            steps.iter().any(|steps| match (episodes.key_range, steps.key_range) {
                (Some((one, two)), Some((least, greatest))) => one <= greatest && least <= two,
                _ => true,
            })
        };
        let (mut episodes, mut starts) = (HashMap::new(), HashSet::new());
        for segment in snapshot.segments(Table::Episodes).iter().filter(meets) {
            let columns = ScanColumns::Named(&EpisodeEnd::NAMES);
            for batch in snapshot.scan_segment(segment, columns) {
                go_on()?;
                for row in EpisodeEnd::rows(&batch?) {
                    if let Some(EpisodeOutcome::Failed(kind)) = row.outcome() {
                        episodes.insert(row.id.0, (kind, row.detail.map(Into::into)));
                        if row.steps == 0 {
                            starts.insert(row.id.0);
                        }
                    }
                }
            }
        }
        Ok(Self { lake: snapshot.path().to_owned(), episodes, starts })
    }

    /// Returns whether the compiler failed on the state in which an episode began. Most failed
    /// starts have none.
    pub(super) fn is_start(&self, episode: i64) -> bool {
        self.starts.contains(&episode)
    }

    /// Returns how the first step of this edge failed.
    pub(super) fn text(&self, edge: Edge<'_>) -> Option<FailureText<'_>> {
        let (kind, detail) = self.episodes.get(&edge.first_episode())?;
        Some(FailureText { kind: kind.as_str(), detail: detail.as_deref() })
    }

    /// Returns the error for an episode that ends in a failure not mentioned in its row.
    pub(super) fn unexplained(&self, edge: Edge<'_>) -> LakeError {
        let (episode, index) = edge.first();
        let id = EpisodeId(episode);
        let what = format!("{id} has no state after step {index}, and its row no failure");
        LakeError::Corrupt { path: self.lake.clone(), what }
    }
}
