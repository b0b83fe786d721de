//! Downloads a file of known content: from mirrors in order, resumed, and checked.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::datasets::command::{Run, Tool, disk_error};
use crate::datasets::stored::hex;
use crate::datasets::{Cache, DatasetError};

const CURL: Tool = Tool { name: "curl", package: "curl" };

/// The cache's folder for downloads. A file in it has its digest as its name.
const DOWNLOADS: &str = "downloads";
/// The time limit of one transfer; the next one goes on where it ended.
const TRANSFER_LIMIT: Duration = Duration::from_hours(6);
/// The number of transfers that one address gets.
const TRANSFERS_MAX: u32 = 5;
/// The wait before the second transfer; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(if cfg!(test) { 5 } else { 1000 });

/// A file to download.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Remote {
    /// Where it lies, the best address first.
    pub(super) urls: Vec<String>,
    /// The digest of its content, in hexadecimal digits.
    pub(super) sha256: String,
}

/// How a transfer ended, if it did not succeed.
enum Failure {
    /// The address may answer later.
    ForNow(String),
    /// The server does not send the rest of a file: it has to send the whole.
    NoRest,
    /// The address does not have the file.
    ForGood(String),
}

impl Remote {
    /// Returns the addresses to try: the file's last name at each mirror, then its own addresses.
    fn addresses(&self, mirrors: &[String]) -> Vec<String> {
        let name = self.urls.first().and_then(|url| url.rsplit('/').next()).unwrap_or_default();
        let at = |mirror: &String| format!("{}/{name}", mirror.trim_end_matches('/'));
        mirrors.iter().map(at).chain(self.urls.iter().cloned()).collect()
    }
}

/// Returns the path of a downloaded file with the right content. One process downloads it, others
/// wait; what an interrupted download has is kept, and the next one goes on from there.
///
/// # Errors
///
/// [`DatasetError::NotFetched`], with what each address answered.
pub(super) fn fetched(
    cache: &Cache,
    mirrors: &[String],
    remote: &Remote,
    what: &str,
) -> Result<PathBuf, DatasetError> {
    let _lock = cache.lock(&format!("download-{}", &remote.sha256[..16]))?;
    let path = cache.folder(DOWNLOADS)?.join(&remote.sha256);
    if path.is_file() {
        if digest(&path)? == remote.sha256 {
            return Ok(path);
        }
        tracing::warn!("the damaged file `{}` is fetched again", path.display());
        fs::remove_file(&path).map_err(DatasetError::cache(&path))?;
    }
    let partial = path.with_extension("partial");
    let mut answers = Vec::new();
    for address in remote.addresses(mirrors) {
        // A part from another time or address may not belong to this file: then all is fetched.
        let mut is_resumed = partial.is_file();
        loop {
            if let Err(answer) = transferred(&address, &partial, what)? {
                answers.push(format!("{address}: {answer}"));
                break;
            }
            let found = digest(&partial)?;
            if found == remote.sha256 {
                fs::rename(&partial, &path).map_err(DatasetError::cache(&path))?;
                return Ok(path);
            }
            fs::remove_file(&partial).map_err(DatasetError::cache(&partial))?;
            if !std::mem::take(&mut is_resumed) {
                let wanted = &remote.sha256;
                answers.push(format!("{address}: its SHA-256 is {found}, not {wanted}"));
                break;
            }
        }
    }
    Err(DatasetError::NotFetched { what: what.to_owned(), detail: answers.join("; ") })
}

/// Returns the digest of a file's content.
fn digest(path: &Path) -> Result<String, DatasetError> {
    let read = || -> io::Result<String> {
        let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                length => hasher.update(&buffer[..length]),
            }
        }
        Ok(hex(&hasher.finalize()))
    };
    read().map_err(DatasetError::cache(path))
}

/// Transfers a file, and waits before each further attempt. Returns what the address answered if
/// it does not give the file.
fn transferred(
    address: &str,
    partial: &Path,
    what: &str,
) -> Result<Result<(), String>, DatasetError> {
    let mut wait = FIRST_WAIT;
    for transfer in 1..=TRANSFERS_MAX {
        match transfer_once(address, partial, what)? {
            Ok(()) => return Ok(Ok(())),
            Err(Failure::ForGood(answer)) => return Ok(Err(answer)),
            Err(Failure::ForNow(answer)) if transfer == TRANSFERS_MAX => return Ok(Err(answer)),
            Err(Failure::ForNow(answer)) => {
                tracing::info!("{address}: {answer}; trying again in {wait:?}");
                thread::sleep(wait);
                wait *= 2;
            }
            Err(Failure::NoRest) => {
                if partial.exists() {
                    fs::remove_file(partial).map_err(DatasetError::cache(partial))?;
                }
            }
        }
    }
    Ok(Err("it sends neither the rest of the file nor the whole".to_owned()))
}

fn transfer_once(
    address: &str,
    partial: &Path,
    what: &str,
) -> Result<Result<(), Failure>, DatasetError> {
    // A part of no bytes would be asked for as a range that does not exist.
    if fs::metadata(partial).is_ok_and(|file| file.len() == 0) {
        fs::remove_file(partial).map_err(DatasetError::cache(partial))?;
    }
    let run = Run::new(CURL, what).with_network().limit(TRANSFER_LIMIT);
    let run = run.args(["--disable", "--silent", "--show-error", "--fail", "--location"]);
    let run = run.args(["--proto", "=http,https,file", "--proto-redir", "=http,https"]);
    let run = run.args(["--connect-timeout", "20", "--speed-limit", "1000", "--speed-time", "60"]);
    let run = run.args(["--continue-at", "-", "--output"]).arg(partial).args(["--", address]);
    match run.output() {
        // Of an empty file, curl writes nothing.
        Ok(_) if !partial.exists() => {
            fs::write(partial, "").map_err(DatasetError::cache(partial))?;
            Ok(Ok(()))
        }
        Ok(_) => Ok(Ok(())),
        Err(DatasetError::ToolFailed { detail, .. }) => match disk_error(&detail) {
            Some(source) => Err(DatasetError::cache(partial)(source)),
            None => Ok(Err(failure(detail))),
        },
        Err(DatasetError::TimedOut { limit, .. }) => {
            Ok(Err(Failure::ForNow(format!("no end within {} s", limit.as_secs()))))
        }
        Err(error) => Err(error),
    }
}

/// Interprets curl's message, `curl: (<code>) <text>`; see "EXIT CODES" in curl(1).
fn failure(detail: String) -> Failure {
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let code: Option<u32> = detail.split_once("curl: (").and_then(|(_, rest)| number(rest));
    let status: Option<u32> = detail.split_once("error: ").and_then(|(_, rest)| number(rest));
    match (code, status) {
        (Some(33), _) | (Some(22), Some(416)) => Failure::NoRest,
        (Some(22), Some(429 | 500..=599)) | (Some(16 | 18 | 28 | 52 | 55 | 56 | 92), _) => {
            Failure::ForNow(detail)
        }
        _ => Failure::ForGood(detail),
    }
}
