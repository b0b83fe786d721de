//! Brings a lake into the form in which it is published.

use steplake_lake::dedup::{self, dedup};
use steplake_lake::{Lake, LakeError, Snapshot, Table, to_the_end};

use crate::RemoteError;

/// Seals the closed episodes, counts all sealed steps, and merges the layers of the derived tables
/// into one. Readers of the published tables then see the newest rows, one for each key. Writes
/// nothing if the lake already has this form.
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
    merge_layers(lake, &snapshot)
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

fn merge_layers(lake: &Lake, snapshot: &Snapshot) -> Result<(), RemoteError> {
    let is_counted = snapshot.uncounted().next().is_none();
    if is_counted && snapshot.layers().len() <= 1 {
        return Ok(());
    }
    // A pass over new steps takes in all layers. If no step is new, only a full pass merges them.
    let settings = dedup::DedupOptions {
        full: is_counted,
        one_layer_rows_max: u64::MAX,
        ..dedup::DedupOptions::default()
    };
    dedup(&mut lake.maintenance()?, settings, &mut to_the_end)?;
    Ok(())
}
