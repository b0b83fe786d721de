//! Downloads a file of known content: from mirrors in order, resumed, and checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::datasets::cache::stored::sha256_of;
use crate::datasets::tools::command::{ForeignTool, ToolRun, disk_error};
use crate::datasets::{DatasetError, ProgramCache};

const CURL: ForeignTool = ForeignTool { name: "curl", package: "curl" };

/// The cache's folder for downloads. A file in it has its digest as its name.
const DOWNLOADS: &str = "downloads";
/// The time limit of one transfer; the next one goes on where it ended.
const TRANSFER_LIMIT: Duration = Duration::from_hours(6);
/// The number of transfers that one address gets.
const TRANSFERS_MAX: u32 = 5;
/// The wait before the second transfer; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(if cfg!(test) { 5 } else { 1000 });

/// A file to download.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Download {
    /// Where it lies, the best address first.
    pub(super) urls: Vec<String>,
    /// The digest of its content, in hexadecimal digits.
    pub(super) sha256: String,
}

/// How a transfer ended, if it did not succeed.
enum TransferFailure {
    /// The address may answer later.
    ForNow(String),
    /// The server does not send the rest of a file: it has to send the whole.
    NoRest,
    /// The address does not have the file.
    ForGood(String),
}

impl Download {
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
/// [`DatasetError::NotFetched`], with what each address answered; [`DatasetError::WrongContent`] if
/// one of them gives another file.
pub(super) fn fetched(
    cache: &ProgramCache,
    mirrors: &[String],
    remote: &Download,
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
    // A process may have died between the end of the transfer and this.
    let is_whole = partial.is_file() && digest(&partial)? == remote.sha256;
    if is_whole {
        fs::rename(&partial, &path).map_err(DatasetError::cache(&path))?;
        return Ok(path);
    }
    let (mut answers, mut is_wrong) = (Vec::new(), false);
    for address in remote.addresses(mirrors) {
        loop {
            let begin = match transferred(&address, &partial, what)? {
                Ok(begin) => begin,
                Err(answer) => {
                    answers.push(format!("{address}: {answer}"));
                    break;
                }
            };
            let found = digest(&partial)?;
            if found == remote.sha256 {
                fs::rename(&partial, &path).map_err(DatasetError::cache(&path))?;
                return Ok(path);
            }
            fs::remove_file(&partial).map_err(DatasetError::cache(&partial))?;
            // A part from another time or address may not belong to this file.
            if begin == Begin::Here {
                let wanted = &remote.sha256;
                answers.push(format!("{address}: its SHA-256 is {found}, not {wanted}"));
                is_wrong = true;
                break;
            }
        }
    }
    let (what, detail) = (what.to_owned(), answers.join("; "));
    Err(if is_wrong {
        DatasetError::WrongContent { what, detail }
    } else {
        DatasetError::NotFetched { what, detail }
    })
}

/// Where the begin of a transferred file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// This address, in these transfers.
    Here,
    /// A part that was there before them.
    Elsewhere,
}

fn digest(path: &Path) -> Result<String, DatasetError> {
    sha256_of(path).map_err(DatasetError::cache(path))
}

/// Transfers a file, and waits before each further attempt. Returns what the address answered if
/// it does not give the file.
fn transferred(
    address: &str,
    partial: &Path,
    what: &str,
) -> Result<Result<Begin, String>, DatasetError> {
    let is_there = fs::metadata(partial).is_ok_and(|file| file.len() > 0);
    let mut begin = if is_there { Begin::Elsewhere } else { Begin::Here };
    let mut wait = FIRST_WAIT;
    for transfer in 1..=TRANSFERS_MAX {
        match transfer_once(address, partial, what)? {
            Ok(()) => return Ok(Ok(begin)),
            Err(TransferFailure::ForGood(answer)) => return Ok(Err(answer)),
            Err(TransferFailure::ForNow(answer)) if transfer == TRANSFERS_MAX => {
                return Ok(Err(answer));
            }
            Err(TransferFailure::ForNow(answer)) => {
                tracing::info!("{address}: {answer}; trying again in {wait:?}");
                thread::sleep(wait);
                wait *= 2;
            }
            Err(TransferFailure::NoRest) => {
                begin = Begin::Here;
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
) -> Result<Result<(), TransferFailure>, DatasetError> {
    // A part of no bytes would be asked for as a range that does not exist.
    if fs::metadata(partial).is_ok_and(|file| file.len() == 0) {
        fs::remove_file(partial).map_err(DatasetError::cache(partial))?;
    }
    let run = ToolRun::new(CURL, what).with_network().limit(TRANSFER_LIMIT);
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
            Ok(Err(TransferFailure::ForNow(format!("no end within {} s", limit.as_secs()))))
        }
        Err(error) => Err(error),
    }
}

/// Interprets curl's message, `curl: (<code>) <text>`; see "EXIT CODES" in curl(1).
fn failure(detail: String) -> TransferFailure {
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let code: Option<u32> = detail.split_once("curl: (").and_then(|(_, rest)| number(rest));
    let status: Option<u32> = detail.split_once("error: ").and_then(|(_, rest)| number(rest));
    match (code, status) {
        (Some(33), _) | (Some(22), Some(416)) => TransferFailure::NoRest,
        (Some(22), Some(429 | 500..=599)) | (Some(16 | 18 | 28 | 52 | 55 | 56 | 92), _) => {
            TransferFailure::ForNow(detail)
        }
        _ => TransferFailure::ForGood(detail),
    }
}
