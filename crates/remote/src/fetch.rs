//! Makes a lake from a version, or updates one to it.

use std::path::Path;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use steplake_lake::transfer::ReplicaWriter;
use steplake_lake::{Disk, FileRow, Lake};

use crate::RemoteError;
use crate::options::FetchOptions;
use crate::remote::{Published, Remote};
use crate::version::PublicationNote;

/// The size of a request in bytes.
const PART_BYTES: u64 = 16 << 20;
/// How often a file is fetched if it arrives damaged.
const ATTEMPTS: u32 = 2;

/// The result of a fetch.
#[derive(Debug)]
pub struct Fetched {
    /// The lake.
    pub lake: Lake,
    /// The version of the lake.
    pub version: u64,
    /// Number of files in the lake.
    pub files: u64,
    /// Number of files that were fetched; the others were already there.
    pub files_fetched: u64,
    /// Bytes of the fetched files.
    pub bytes_fetched: u64,
}

/// Makes the folder `into` the lake of a version, by default the newest. A lake that was fetched
/// there before is updated to the version, which may be older; only missing files are fetched. So
/// is a lake that has changed since, if all of it was published in this version, or in one on which
/// this version was built.
///
/// The lake is durable on return. Before that, the folder holds the earlier lake, or none. If the
/// fetch is killed, the folder keeps the files that arrived, and the next fetch continues from
/// there.
///
/// # Errors
///
/// [`RemoteError::Nothing`], [`RemoteError::NoVersion`], [`RemoteError::Forgotten`];
/// [`RemoteError::Damaged`] if an object differs from what the version says; errors of the store;
/// and those of [`ReplicaWriter::begin`] about the folder.
pub async fn fetch(
    remote: &Remote,
    version: Option<u64>,
    into: &Path,
    disk: Disk,
    options: &FetchOptions,
    bar: &ProgressBar,
) -> Result<Fetched, RemoteError> {
    let nothing = || RemoteError::Nothing { address: remote.address().to_owned() };
    let published = match version {
        Some(number) => remote.version(number).await?,
        None => remote.newest().await?.ok_or_else(nothing)?,
    };
    fetch_version(remote, &published, into, disk, None, options, bar).await
}

/// Does the same as [`fetch`], for a version that was looked up. Takes the files that another
/// lake, `here`, has from there.
pub(crate) async fn fetch_version(
    remote: &Remote,
    published: &Published,
    into: &Path,
    disk: Disk,
    here: Option<&Lake>,
    options: &FetchOptions,
    bar: &ProgressBar,
) -> Result<Fetched, RemoteError> {
    let version = published.manifest.version;
    let what = format!("version {version} of {remote} (list {})", &published.list[..16]);
    let contained = contained_note(remote, published, into, &disk).await?;
    let inventory = published.inventory.clone();
    let replica =
        ReplicaWriter::begin(disk, into, inventory, options.verify, contained.as_deref())?;
    if let Some(here) = here {
        tokio::task::block_in_place(|| replica.link_from(here))?;
    }
    let missing = replica.missing();
    let bytes_fetched = missing.iter().map(|row| row.bytes).sum();
    bar.set_position(0);
    bar.set_length(bytes_fetched);
    stream::iter(&missing)
        .map(|row| file(remote, published, &replica, row, bar))
        .buffer_unordered(options.parallel.max(1))
        .try_collect::<()>()
        .await?;
    let files_fetched = missing.len() as u64;
    let files = published.inventory.files.len() as u64;
    let lake = replica.complete(&what)?;
    Ok(Fetched { lake, version, files, files_fetched, bytes_fetched })
}

/// Returns the note of the last publication of the lake in a folder, if all of the lake was
/// published with it, in this version or in one on which this version was built.
async fn contained_note(
    remote: &Remote,
    published: &Published,
    folder: &Path,
    disk: &Disk,
) -> Result<Option<String>, RemoteError> {
    // What is wrong with the folder is for the writer of the replica to say.
    let Ok(lake) = Lake::open_on(disk.clone(), folder) else { return Ok(None) };
    let Some(text) = lake.publication()? else { return Ok(None) };
    let Some(note) = PublicationNote::from_json(&text) else { return Ok(None) };
    Ok(remote.is_built_on(&published.manifest, &note).await?.then_some(text))
}

/// Fetches a file, and adds it to the lake if it matches the version.
async fn file(
    remote: &Remote,
    published: &Published,
    replica: &ReplicaWriter,
    row: &FileRow,
    bar: &ProgressBar,
) -> Result<(), RemoteError> {
    let object = published.objects[&row.digest].as_str();
    let mut what = "its content does not match its digest".to_owned();
    for _ in 0..ATTEMPTS {
        let mut file = replica.create_file(row)?;
        let mut received = 0;
        while received < row.bytes {
            let end = row.bytes.min(received + PART_BYTES);
            let content = match remote.get_range(object, received..end).await {
                Ok(content) => content,
                Err(error) => return Err(explained(remote, published, object, row, error).await),
            };
            if content.len() as u64 != end - received {
                let length = received + content.len() as u64;
                what = format!("it has {length} bytes instead of {}", row.bytes);
                break;
            }
            file.write(&content)?;
            received = end;
            bar.inc(content.len() as u64);
        }
        if file.is_as_listed() {
            return Ok(replica.accept(file)?);
        }
        bar.set_position(bar.position().saturating_sub(received));
    }
    Err(RemoteError::damaged(remote.name(object), what))
}

/// Explains why an object cannot be read: it may be gone, or shorter than it was.
async fn explained(
    remote: &Remote,
    published: &Published,
    object: &str,
    row: &FileRow,
    error: RemoteError,
) -> RemoteError {
    match remote.head(object).await {
        Ok(Some(found)) if found.size < row.bytes => {
            let what = format!("it has {} bytes instead of {}", found.size, row.bytes);
            RemoteError::damaged(remote.name(object), what)
        }
        Ok(None) => {
            let number = published.manifest.version;
            match remote.manifest(number).await {
                Ok(Some(manifest)) if manifest.list.is_none() => {
                    let address = remote.address().to_owned();
                    RemoteError::Forgotten { address, wanted: number }
                }
                _ => RemoteError::damaged(remote.name(object), "it is missing"),
            }
        }
        _ => error,
    }
}

/// Returns the BLAKE3 digest of an object of this length, in hexadecimal.
pub(crate) async fn digest_of(
    remote: &Remote,
    object: &str,
    bytes: u64,
) -> Result<String, RemoteError> {
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < bytes {
        let end = bytes.min(at + PART_BYTES);
        hasher.update(&remote.get_range(object, at..end).await?);
        at = end;
    }
    Ok(hasher.finalize().to_hex().to_string())
}
