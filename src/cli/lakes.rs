//! The lakes and contexts that `sql` reads: one, or several with names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::console::source::EngineFuture;
use crate::lake::{Lake, Snapshot};
use crate::model::suggestions::list;
use crate::query::{Engine, EngineOptions};
use steplake_terminal::arguments::GlobalArgs;

/// Names that a schema of a lake cannot have, since the session has schemas of these names.
const RESERVED: [&str; 2] = ["public", "information_schema"];

/// A lake with its name, as in `--lake NAME=FOLDER`, or a context with its own.
type NamedLake = (String, PathBuf);

/// Returns the lakes of `--lake NAME=FOLDER`, or the contexts of the lake; none where the paths are
/// a single folder or nothing, and one context is read.
pub(super) fn named(
    paths: &[PathBuf],
    global: &GlobalArgs,
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
    // Each context of a named lake is one of several.
    let mut all = Vec::new();
    for (name, folder) in lakes {
        match several_contexts(&folder)? {
            contexts if contexts.is_empty() => all.push((name, folder)),
            contexts => all.extend(
                contexts.into_iter().map(|(context, folder)| (format!("{name}/{context}"), folder)),
            ),
        }
    }
    let mut lakes = all;
    if lakes.is_empty() && paths.len() < 2 && global.context.is_none() {
        lakes = several_contexts(&global.lake)?;
        let what = match (cluster, snapshot) {
            _ if lakes.is_empty() => return Ok(lakes),
            (None, None) => return Ok(lakes),
            (Some(_), _) => "a cluster reads one context",
            (None, Some(_)) => "--snapshot counts the snapshots of one context",
        };
        let names: Vec<&str> = lakes.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Error::usage(format!(
            "{what}: name it with --context, as one of {}",
            list(&names)
        )));
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

/// The contexts of a lake; none if it has only one, or there is no lake, which shows when it is
/// opened.
fn several_contexts(lake: &Path) -> Result<Vec<NamedLake>, Error> {
    let Ok(first) = Lake::open(lake) else { return Ok(Vec::new()) };
    let others = first.other_contexts()?;
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let first = (first.context_name(), first.path().to_owned());
    Ok(std::iter::once(first).chain(others).collect())
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
    options: EngineOptions,
) -> impl Fn(Snapshot) -> EngineFuture + Send + Sync {
    let open = Arc::new(open);
    move |snapshot| {
        let (lakes, open, mut first) = (lakes.clone(), Arc::clone(&open), Some(snapshot));
        let options = options.clone();
        Box::pin(async move {
            let mut engines = Vec::new();
            for (name, folder) in lakes {
                let snapshot = match first.take() {
                    Some(snapshot) => snapshot,
                    None => Lake::open(&folder)?.snapshot()?,
                };
                engines.push((name, open(snapshot).await?));
            }
            Engine::over(engines, &options).await
        })
    }
}
