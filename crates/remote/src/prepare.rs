//! Brings a lake into the form in which it is published.

use steplake_lake::dedup::{self, dedup};
use steplake_lake::{Lake, LakeError, Table, to_the_end};

use crate::RemoteError;

/// The derived tables have one layer while they have at most this many rows: a layer that is made
/// anew is sent whole, and one of these rows takes about a hundred bytes.
const ONE_LAYER_ROWS_MAX: u64 = 1 << 13;

/// Seals the closed episodes and counts all sealed steps. Readers of the published tables then see
/// the newest rows, one for each key. New steps become a small layer of the derived tables beside
/// the older ones, whose files are in the store already. Writes nothing if the lake already has
/// this form.
///
/// If another process records into the lake, its closed episodes stay hot and are not published; a
/// run that has some is published as unfinished.
///
/// # Errors
///
/// [`RemoteError::NothingSealed`]; [`LakeError::BeingMaintained`] and other errors of the lake.
pub(crate) fn prepare(lake: &Lake) -> Result<(), RemoteError> {
    seal(lake)?;
    let snapshot = lake.sealed()?;
    let mut recorded = Table::ALL.into_iter().filter(|table| table.is_recorded());
    if recorded.all(|table| snapshot.segments(table).is_empty()) {
        return Err(RemoteError::NothingSealed { lake: lake.path().to_owned() });
    }
    if snapshot.uncounted_steps() == 0 { Ok(()) } else { count(lake) }
}

/// Counts the sealed steps of a lake that is to be published.
///
/// # Errors
///
/// [`LakeError::BeingMaintained`] and other errors of the lake.
pub(crate) fn count(lake: &Lake) -> Result<(), RemoteError> {
    let settings = dedup::DedupOptions {
        one_layer_rows_max: ONE_LAYER_ROWS_MAX,
        ..dedup::DedupOptions::default()
    };
    dedup(&mut lake.maintenance()?, settings, &mut to_the_end)?;
    Ok(())
}

fn seal(lake: &Lake) -> Result<(), RemoteError> {
    let hot = lake.snapshot()?;
    let batches = hot.hot(Table::Episodes).iter();
    let episodes = batches.fold(0, |episodes, batch| episodes + batch.num_rows());
    if episodes == 0 {
        return Ok(());
    }
    match lake.writer() {
        Ok(mut writer) => drop(writer.seal()?),
        Err(LakeError::Busy { .. }) => tracing::warn!(
            "another process is recording into this lake, so {episodes} complete {} not published yet: \
             publish again when it has finished",
            if episodes == 1 { "episode is" } else { "episodes are" }
        ),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
