//! Makes a lake from a version, or updates one to it.

use std::path::Path;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use steplake::lake::FileRow;
use steplake::lake::{Disk, Lake};
use steplake::transfer::Fetching;

use crate::RemoteError;
use crate::remote::{Published, Remote};

/// The size of a request in bytes.
const PART_BYTES: u64 = 16 << 20;
/// How often a file that arrived damaged is fetched again.
const TRIES: u32 = 2;

/// Parameters of a fetch.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of files that are fetched at a time.
    pub parallel: usize,
    /// Whether to compare files that are already here with their digests first. Damaged ones are
    /// fetched again.
    pub verify: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { parallel: 4, verify: false }
    }
}

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
/// there before is brought forward or back to it; only missing files are fetched.
///
/// Durable on return. Before that, the folder holds the earlier lake, or none. If killed, it keeps
/// what has arrived, and the next fetch continues from there.
///
/// # Errors
///
/// [`RemoteError::Nothing`], [`RemoteError::NoVersion`], [`RemoteError::Forgotten`];
/// [`RemoteError::Damaged`] if an object differs from what the version says; errors of the store;
/// and those of [`Fetching::begin`] about the folder.
pub async fn fetch(
    remote: &Remote,
    version: Option<u64>,
    into: &Path,
    disk: Disk,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<Fetched, RemoteError> {
    let nothing = || RemoteError::Nothing { address: remote.address().to_owned() };
    let published = match version {
        Some(number) => remote.version(number).await?,
        None => remote.newest().await?.ok_or_else(nothing)?,
    };
    fetch_version(remote, &published, into, disk, settings, bar).await
}

/// Does the same as [`fetch`], for a version that was looked up.
pub(crate) async fn fetch_version(
    remote: &Remote,
    published: &Published,
    into: &Path,
    disk: Disk,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<Fetched, RemoteError> {
    let version = published.manifest.version;
    let what = format!("version {version} of {remote} (list {})", &published.list[..16]);
    let fetching = Fetching::begin(disk, into, published.inventory.clone(), settings.verify)?;
    let missing = fetching.missing();
    let bytes_fetched = missing.iter().map(|row| row.bytes).sum();
    bar.set_position(0);
    bar.set_length(bytes_fetched);
    stream::iter(&missing)
        .map(|row| file(remote, published, &fetching, row, bar))
        .buffer_unordered(settings.parallel.max(1))
        .try_collect::<()>()
        .await?;
    let files_fetched = missing.len() as u64;
    let files = published.inventory.files.len() as u64;
    let lake = fetching.complete(&what)?;
    Ok(Fetched { lake, version, files, files_fetched, bytes_fetched })
}

/// Fetches a file, and adds it to the lake if it matches the version.
async fn file(
    remote: &Remote,
    published: &Published,
    fetching: &Fetching,
    row: &FileRow,
    bar: &ProgressBar,
) -> Result<(), RemoteError> {
    let object = published.objects[&row.digest].as_str();
    let mut what = "its content does not match its digest".to_owned();
    for _ in 0..TRIES {
        let mut file = fetching.file(row)?;
        let mut came = 0;
        while came < row.bytes {
            let end = row.bytes.min(came + PART_BYTES);
            let content = match remote.get_range(object, came..end).await {
                Ok(content) => content,
                Err(error) => return Err(explained(remote, published, object, row, error).await),
            };
            if content.len() as u64 != end - came {
                let length = came + content.len() as u64;
                what = format!("it has {length} bytes of {}", row.bytes);
                break;
            }
            file.write(&content)?;
            came = end;
            bar.inc(content.len() as u64);
        }
        if file.is_as_listed() {
            return Ok(fetching.take(file)?);
        }
        bar.set_position(bar.position().saturating_sub(came));
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
            let what = format!("it has {} bytes of {}", found.size, row.bytes);
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
