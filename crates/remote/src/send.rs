//! Sends files. Checks their digests before, and their arrival after.

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use object_store::ObjectStoreExt as _;
use steplake_lake::FileRow;
use steplake_lake::{Segment, SegmentFile, Snapshot};

use crate::RemoteError;
use crate::fetch::digest_of;
use crate::locate::Located;
use crate::options::PublishOptions;
use crate::remote::Remote;

/// S3 accepts at most 10,000 parts.
const PARTS_MAX: u64 = 9_000;
/// Number of parts of one file that are sent at a time.
const PARTS_AT_ONCE: usize = 4;

/// Sends the missing files of a snapshot, and returns how many bytes that were.
pub(crate) async fn send_missing(
    remote: &Remote,
    snapshot: &Snapshot,
    located: &Located,
    options: &PublishOptions,
    bar: &ProgressBar,
) -> Result<u64, RemoteError> {
    let bytes = located.missing.iter().map(|row| row.bytes).sum();
    bar.set_position(0);
    bar.set_length(bytes);
    stream::iter(&located.missing)
        .map(|row| send(remote, snapshot, row, &located.objects[&row.digest], options, bar))
        .buffer_unordered(options.parallel.max(1))
        .try_collect::<()>()
        .await?;
    Ok(bytes)
}

/// Sends a file. Compares what it sends with the digests first, so that no damage is published.
async fn send(
    remote: &Remote,
    snapshot: &Snapshot,
    row: &FileRow,
    object: &str,
    options: &PublishOptions,
    bar: &ProgressBar,
) -> Result<(), RemoteError> {
    let segments = snapshot.segments(row.table);
    let segment = segments.iter().find(|segment| segment.digest == row.digest);
    let segment: &Segment = segment.expect("the missing files are in this snapshot");
    let file = segment.open()?;
    if row.bytes <= options.part_bytes {
        remote.put(object, file.read(0..row.bytes)?).await?;
        bar.inc(row.bytes);
    } else {
        send_in_parts(remote, object, &file, row.bytes, options.part_bytes, bar).await?;
    }
    demand_arrival(remote, object, row.bytes).await?;
    if options.read_back {
        let digest = digest_of(remote, object, row.bytes).await?;
        if digest != row.digest {
            let what = "what was read back is not what was sent".to_owned();
            return Err(RemoteError::Arrival { object: remote.name(object), what });
        }
    }
    tracing::debug!(object, bytes = row.bytes, "sent");
    Ok(())
}

/// Sends a file in parts. The file appears once all parts are there.
async fn send_in_parts(
    remote: &Remote,
    object: &str,
    file: &SegmentFile,
    bytes: u64,
    part_bytes: u64,
    bar: &ProgressBar,
) -> Result<(), RemoteError> {
    let store = remote.store();
    let failed = || remote.failed("write", object);
    let mut upload = store.put_multipart(&remote.path(object)).await.map_err(failed())?;
    // All parts have the same length, as some stores require.
    let part = bytes.div_ceil(PARTS_MAX).next_multiple_of(part_bytes);
    let starts = (0..bytes).step_by(usize::try_from(part).expect("a part is in memory"));
    let ranges = starts.map(|start| start..bytes.min(start + part));
    let sent = {
        let upload = &mut upload;
        // Parts are read and started in order, one at a time; several are under way.
        let parts = ranges.map(|range| {
            let length = range.end - range.start;
            let content: Bytes = file.read(range)?;
            Ok::<_, RemoteError>((length, upload.put_part(content.into())))
        });
        stream::iter(parts)
            .map(|begun| async {
                let (length, part) = begun?;
                part.await.map_err(failed())?;
                bar.inc(length);
                Ok::<_, RemoteError>(())
            })
            .buffer_unordered(PARTS_AT_ONCE)
            .try_collect::<()>()
            .await
    };
    if let Err(error) = sent {
        // If the abort fails, a rule of the bucket has to remove the parts.
        let _ = upload.abort().await;
        return Err(error);
    }
    upload.complete().await.map(drop).map_err(failed())
}

/// Returns an error if the store does not have what it acknowledged. Returns when the object was
/// written, by the store's clock: Unix time in milliseconds.
pub(crate) async fn demand_arrival(
    remote: &Remote,
    object: &str,
    bytes: u64,
) -> Result<i64, RemoteError> {
    let what = match remote.head(object).await? {
        Some(found) if found.size == bytes => return Ok(found.last_modified.timestamp_millis()),
        Some(found) => format!("it has {} bytes instead of {bytes}", found.size),
        None => "it is not there".to_owned(),
    };
    Err(RemoteError::Arrival { object: remote.name(object), what })
}
