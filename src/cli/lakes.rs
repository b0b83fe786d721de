//! The lakes that `sql` reads: one, or several with names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::console::source::EngineFuture;
use crate::lake::{Lake, Snapshot};
use crate::query::Engine;

/// Names that a schema of a lake cannot have, since the session has schemas of these names.
const RESERVED: [&str; 2] = ["public", "information_schema"];

/// A lake with its name, as in `--lake NAME=FOLDER`.
type NamedLake = (String, PathBuf);

/// Returns the lakes of `--lake NAME=FOLDER`; none where the paths are a single folder or nothing.
pub(super) fn named(
    paths: &[PathBuf],
    cluster: Option<&str>,
    snapshot: Option<i64>,
) -> Result<Vec<NamedLake>, Error> {
    let mut lakes: Vec<NamedLake> = Vec::new();
    for (name, folder) in paths.iter().filter_map(|path| named_lake(path)) {
        if RESERVED.contains(&name.as_str()) {
            return Err(Error::usage(format!(
                "a lake cannot be called `{name}`: take another name"
            )));
        }
        if lakes.iter().any(|(known, _)| *known == name) {
            return Err(Error::usage(format!(
                "two lakes are called `{name}`: give them different names"
            )));
        }
        lakes.push((name, folder));
    }
    let problem = if lakes.len() < paths.len() && paths.len() > 1 {
        "several lakes need a name each: write --lake NAME=FOLDER for every one of them"
    } else if !lakes.is_empty() && cluster.is_some() {
        "a cluster reads one lake: write --lake FOLDER, without a name, beside --engine"
    } else if lakes.len() > 1 && snapshot.is_some() {
        "--snapshot counts the snapshots of one lake: of several lakes, the newest are read"
    } else {
        return Ok(lakes);
    };
    Err(Error::usage(problem))
}

/// Splits `NAME=FOLDER`; none where the text is a folder without a name.
fn named_lake(path: &Path) -> Option<NamedLake> {
    let (name, folder) = path.to_str()?.split_once('=')?;
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let is_name = name.starts_with(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit());
    (is_name && !path.exists()).then(|| (name.to_owned(), PathBuf::from(folder)))
}

/// Opens engines over a snapshot of the first lake and the newest ones of the others, each with
/// `open`.
pub(super) fn opening(
    lakes: Vec<NamedLake>,
    open: impl Fn(Snapshot) -> EngineFuture + Send + Sync + 'static,
) -> impl Fn(Snapshot) -> EngineFuture + Send + Sync {
    let open = Arc::new(open);
    move |snapshot| {
        let (lakes, open, mut first) = (lakes.clone(), Arc::clone(&open), Some(snapshot));
        Box::pin(async move {
            let mut engines = Vec::new();
            for (name, folder) in lakes {
                let snapshot = match first.take() {
                    Some(snapshot) => snapshot,
                    None => Lake::open(&folder)?.snapshot()?,
                };
                engines.push((name, open(snapshot).await?));
            }
            Engine::over(engines)
        })
    }
}
