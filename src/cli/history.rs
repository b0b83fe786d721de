//! `snapshots`, `expire`, `gc`.

use indicatif::HumanBytes;

use super::args::{ExpireArgs, LimitArgs, SnapshotsArgs};
use super::local_engine;
use crate::Error;
use crate::console::arguments::SnapshotArgs;
use crate::console::questions;
use crate::environments::Environments;
use crate::lake::{Lake, Removed, SnapshotId};
use crate::upkeep::Keep;
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, print};

pub(super) fn snapshots(
    environments: &Environments,
    global: &GlobalArgs,
    args: &SnapshotsArgs,
) -> Result<(), Error> {
    let newest = SnapshotArgs { snapshot: None };
    let open = local_engine::opening(environments, LimitArgs::default());
    questions::answer(&local_engine::source(global, &open), &args.output, newest, async |engine| {
        engine.sql("SELECT * FROM snapshots ORDER BY snapshot_id").await
    })
}

pub(super) fn expire(global: &GlobalArgs, args: &ExpireArgs) -> Result<(), Error> {
    let keep = match (args.keep.and_then(std::num::NonZeroU64::new), args.before) {
        (Some(count), _) => Keep::Newest(count),
        (None, Some(number)) => Keep::From(SnapshotId(number)),
        (None, None) => return Err(Error::usage("give --keep K or --before N")),
    };
    let expired = Lake::open(&global.lake)?.making_room()?.expire(keep)?;
    let (oldest, newest) = (expired.oldest, expired.newest);
    let left = if oldest == newest {
        format!("{newest} is left")
    } else {
        format!("{oldest} to {newest} are left")
    };
    let mut text = format!("forgot {}; {left}", counted(expired.snapshots, "snapshot"));
    if expired.freed.files > 0 {
        text += "; `steplake gc` now frees ";
        text += &described(expired.freed);
    }
    print(&(text + "\n"))
}

pub(super) fn gc(global: &GlobalArgs) -> Result<(), Error> {
    let collected = Lake::open(&global.lake)?.making_room()?.collect()?;
    if collected.writer_at_work {
        tracing::warn!(
            "another process is recording: leftovers of crashes in recorded tables stay for now"
        );
    }
    if collected.views_left > 0 {
        tracing::warn!(
            "other tools may be reading earlier snapshots: their disk space is freed by a `gc` ten \
             minutes from now"
        );
    }
    print(&format!("deleted {}\n", described(collected.removed)))
}

fn described(removed: Removed) -> String {
    format!("{} ({})", counted(removed.files, "file"), HumanBytes(removed.bytes))
}
