//! A lake made after a version, or brought up to it.

use std::path::Path;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use steplake::store::{Disk, Fetching, FileRow, Lake};

use crate::RemoteError;
use crate::remote::{Published, Remote};

/// The bytes of a request.
const PART_BYTES: u64 = 16 << 20;
/// How often a file is fetched anew that did not come as it should.
const TRIES: u32 = 2;

/// How a fetch goes about it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Files that are fetched at a time.
    pub parallel: usize,
    /// Whether the files that are here already are compared with their digests first: what is
    /// damaged is fetched again.
    pub verify: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { parallel: 4, verify: false }
    }
}

/// What a fetch came to.
#[derive(Debug)]
pub struct Fetched {
    /// The lake.
    pub lake: Lake,
    /// The version that it is of.
    pub version: u64,
    /// The files that it has.
    pub files: u64,
    /// Those that were fetched: the others were there.
    pub files_fetched: u64,
    /// The bytes of these.
    pub bytes_fetched: u64,
}

/// Makes the folder `into` the lake of a version, the newest where none is named. A lake that was
/// fetched there before is brought up to it, or back to it; only files that it lacks are fetched.
///
/// Durable on return. Before that, the folder is the lake that it was, or none. Killed, it keeps
/// what came, and the next fetch goes on from there.
///
/// # Errors
///
/// [`RemoteError::Nothing`], [`RemoteError::NoVersion`], [`RemoteError::Forgotten`];
/// [`RemoteError::Damaged`] when an object is not what the version says; what the store says; and
/// what [`Fetching::begin`] says of the folder.
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

/// As [`fetch`], of a version that was looked up.
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

/// Fetches a file, and takes it for the lake where it is what the version says.
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

/// What to say of an object that cannot be read: it may be gone, or shorter than it was.
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

/// BLAKE3 of an object of this length, hex.
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
