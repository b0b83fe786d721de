//! The command line of the program: parse, run, exit code. `steplake publish` and `steplake fetch`
//! run it.

use std::fmt::Write as _;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use indicatif::{HumanBytes, HumanCount};
use steplake_lake::{CONTEXTS, Disk, Identity, Lake, LakeError};
use steplake_model::{Error, line};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::exit::exit_code;
use steplake_terminal::messages;
use steplake_terminal::output::{bar, counted, print};

use crate::fetch::fetch;
use crate::gc::{AGE, AGE_MIN, gc};
use crate::publish::{PublishOutcome, UploadReport, publish};
use crate::remote::{Numbered, Remote};
use crate::{FetchOptions, PublishOptions, RemoteError};

/// The template of a progress bar.
const BAR: &str = "{bar:24.cyan} {bytes}/{total_bytes}  {bytes_per_sec}  {elapsed} (left: {eta})";
const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// Publish lakes to object stores, and fetch them from there.
#[derive(Debug, Parser)]
#[command(
    name = "steplake-remote",
    bin_name = "steplake",
    version,
    about,
    after_help = "\
Addresses are s3://BUCKET/PREFIX or file:///FOLDER. For S3, credentials, region and endpoint come from the
variables that AWS's tools read: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
AWS_ENDPOINT_URL …

Exit codes: 0 done; 1 it failed; 2 the command line or the address is wrong; 3 the local or the published
lake cannot be used; 5 the store cannot be reached or refuses; 6 nothing is published there; 7 the published
version has something that the lake lacks."
)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Publish(PublishArgs),
    Fetch(FetchArgs),
}

#[derive(Debug, Args)]
struct StoreArgs {
    /// The address of the published lake: `s3://BUCKET/PREFIX` or `file:///FOLDER`.
    #[arg(value_name = "ADDRESS")]
    address: String,

    /// The URL of the S3 server, if it is not AWS's.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    endpoint: Option<String>,

    /// Allow unencrypted requests.
    #[arg(long)]
    allow_http: bool,

    /// The number of files transferred at a time.
    #[arg(long, default_value = "4", value_name = "N")]
    parallel: NonZeroUsize,
}

/// Publish the complete episodes of the lake as a new version.
///
/// First seals these and counts their steps. Only files that the store lacks are sent. The version
/// appears once the store has all of it; then its tables appear as Delta tables. If another version
/// was published first, this one contains it, or nothing is published.
#[derive(Debug, Args)]
struct PublishArgs {
    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    options: PublishOptions,

    /// Publish nothing; delete objects that no version names and that are older than --older-than.
    #[arg(long, conflicts_with_all = ["merge", "read_back", "replace_damaged", "work"])]
    gc: bool,

    /// With --gc: first forget all but the K newest versions.
    #[arg(long, requires = "gc", value_name = "K")]
    keep: Option<NonZeroU64>,

    /// With --gc: keep younger objects, at least 2 days, since a running publication may use them.
    #[arg(
        long,
        requires = "gc",
        value_name = "DAYS",
        default_value_t = AGE.as_secs() / SECONDS_A_DAY,
        value_parser = clap::value_parser!(u64).range(AGE_MIN.as_secs() / SECONDS_A_DAY..),
    )]
    older_than: u64,
}

/// Fetch a published version as a lake, or update a lake that was fetched before, or of which the
/// version has everything.
#[derive(Debug, Args)]
struct FetchArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// The version; by default the newest.
    #[arg(long, value_name = "N")]
    version: Option<u64>,

    /// The folder of the lake: new, empty, or a lake that was fetched or published before and is
    /// unchanged since. By default the folder of --lake.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    into: Option<PathBuf>,

    /// Read every file that is already in the folder, and fetch damaged ones again.
    #[arg(long)]
    verify: bool,

    /// List the versions and fetch nothing.
    #[arg(long, conflicts_with_all = ["version", "into", "verify"])]
    list: bool,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    messages::begin(cli.global.verbose, Some("steplake_remote"));
    exit_code(run(&cli))
}

fn run(cli: &Cli) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let text = match &cli.command {
        Command::Publish(args) if args.gc => runtime.block_on(run_gc(args)),
        Command::Publish(args) => runtime.block_on(run_publish(&cli.global, args)),
        Command::Fetch(args) => runtime.block_on(run_fetch(&cli.global, args)),
    };
    print(&text?)
}

fn open(store: &StoreArgs) -> Result<Remote, RemoteError> {
    Remote::open(&store.address, store.endpoint.as_deref(), store.allow_http)
}

async fn run_publish(global: &GlobalArgs, args: &PublishArgs) -> Result<String, RemoteError> {
    let remote = open(&args.store)?;
    let parallel = args.store.parallel.get();
    let options = PublishOptions { parallel, ..args.options.clone() };
    let (mut text, mut failed) = (String::new(), None);
    for (remote, lake) in published_contexts(global, &remote).await? {
        let bar = bar(global, 0, BAR);
        let line = match publish(&remote, &lake, &options, &bar).await {
            Ok(PublishOutcome::UpToDate { version }) => {
                format!("nothing to publish: version {version} of {remote} has all of it\n")
            }
            Ok(PublishOutcome::Published(sent)) => published(&remote, &sent),
            // One context does not keep the others from being published.
            Err(error) => {
                failed = failed.or(Some(error));
                continue;
            }
        };
        text += &line;
    }
    ended(text, failed)
}

/// Prints what was done if something has failed, and returns the error.
fn ended(text: String, failed: Option<RemoteError>) -> Result<String, RemoteError> {
    let Some(error) = failed else { return Ok(text) };
    // Who cannot read it learns of the error all the same.
    print(&text).ok();
    Err(error)
}

/// Returns the contexts to publish, or the one that is named, each with its place: where the store
/// has its identity, or else where the lake has it.
async fn published_contexts(
    global: &GlobalArgs,
    remote: &Remote,
) -> Result<Vec<(Remote, Lake)>, RemoteError> {
    let lakes = match &global.context {
        Some(name) => vec![Lake::open_one(&global.lake, Some(name))?],
        None => Lake::contexts(&global.lake)?.into_iter().map(|context| context.lake).collect(),
    };
    let mut known = Vec::new();
    for name in remote.contexts().await? {
        known.push(remote.context(&name));
    }
    known.insert(0, remote.clone());
    let mut places: Vec<(Remote, Option<Identity>)> = Vec::new();
    for place in known {
        // All its versions have one identity, so a damaged one can be passed over.
        let newest = place.look_up_newest(true).await?.published;
        places.push((place, newest.map(|newest| newest.inventory.identity)));
    }
    let mut placed = Vec::new();
    for lake in lakes {
        let is_there = |(_, there): &&(Remote, Option<Identity>)| {
            there.as_ref().is_some_and(|there| there.is_of_context(lake.identity()))
        };
        let place = match places.iter().find(is_there) {
            Some((place, _)) => place.clone(),
            None if places[0].1.is_none() => remote.clone(),
            None => remote.context(&free_name(&lake, remote, &places)),
        };
        match places.iter_mut().find(|(known, _)| known.address() == place.address()) {
            Some((_, there)) => *there = Some(lake.identity().clone()),
            None => places.push((place.clone(), Some(lake.identity().clone()))),
        }
        placed.push((place, lake));
    }
    Ok(placed)
}

/// The name under which a context is published that the store does not have.
fn free_name(lake: &Lake, remote: &Remote, places: &[(Remote, Option<Identity>)]) -> String {
    let own = lake.context_name();
    let names = std::iter::once(own.clone()).chain((2..).map(|number| format!("{own}-{number}")));
    let is_taken = |name: &String| {
        let address = remote.context(name);
        let there = places.iter().find(|(place, _)| place.address() == address.address());
        let of_first = places[0].1.as_ref().is_some_and(|first| first.context_name() == *name);
        of_first || there.is_some_and(|(_, identity)| identity.is_some())
    };
    names.into_iter().find(|name| !is_taken(name)).expect("the numbers do not end")
}

fn published(remote: &Remote, sent: &UploadReport) -> String {
    let UploadReport { version, files, files_sent, bytes_sent, merged, repaired } = *sent;
    let with = if repaired {
        ", which repeats the version before it without the damage"
    } else if merged {
        ", which merges this lake with the version before it"
    } else {
        ""
    };
    format!(
        "published version {version} of {remote}{with}: {}, of which {} ({}) had to be sent\n",
        counted(files, "file"),
        HumanCount(files_sent),
        HumanBytes(bytes_sent),
    )
}

async fn run_gc(args: &PublishArgs) -> Result<String, RemoteError> {
    let remote = open(&args.store)?;
    let others = remote.contexts().await?;
    let mut text = String::new();
    for remote in std::iter::once(remote.clone()).chain(others.iter().map(|it| remote.context(it)))
    {
        text += &gc_one(args, &remote).await?;
    }
    Ok(text)
}

async fn gc_one(args: &PublishArgs, remote: &Remote) -> Result<String, RemoteError> {
    let age = Duration::from_secs(args.older_than.saturating_mul(SECONDS_A_DAY));
    let done = gc(remote, args.keep, age).await?;
    let mut text = format!(
        "forgot {}, deleted {} ({})\n",
        counted(done.versions, "version"),
        counted(done.objects, "object"),
        HumanBytes(done.bytes)
    );
    if done.young > 0 {
        let (young, days) = (counted(done.young, "object"), counted(args.older_than, "day"));
        let what = "that no version names but that are younger than";
        let _ = writeln!(text, "kept {young} {what} {days}");
    }
    Ok(text)
}

async fn run_fetch(global: &GlobalArgs, args: &FetchArgs) -> Result<String, RemoteError> {
    let remote = open(&args.store)?;
    if args.list {
        let versions = remote.versions().await?;
        if versions.is_empty() {
            return Err(RemoteError::Nothing { address: remote.address().to_owned() });
        }
        return Ok(listed(&versions));
    }
    let into = args.into.as_ref().unwrap_or(&global.lake);
    let options = FetchOptions { parallel: args.store.parallel.get(), verify: args.verify };
    let others = remote.contexts().await?;
    let mut places = match &global.context {
        Some(name) if others.contains(name) => vec![(remote.context(name), into.clone())],
        Some(name) => {
            demand_first(&remote, name, &others).await?;
            vec![(remote.clone(), into.clone())]
        }
        None => vec![(remote.clone(), into.clone())],
    };
    if global.context.is_none() {
        if let (Some(_), false) = (args.version, others.is_empty()) {
            let (path, known) = (into.clone(), others);
            return Err(LakeError::SeveralContexts { path, known }.into());
        }
        places = fetched_contexts(&remote, &others, into).await?;
    }
    let (mut text, mut failed) = (String::new(), None);
    for (number, (place, into)) in places.into_iter().enumerate() {
        let bar = bar(global, 0, BAR);
        match fetch(&place, args.version, &into, Disk::default(), &options, &bar).await {
            Ok(fetched) => {
                let _ = writeln!(
                    text,
                    "{} is version {} of {place}: {}, of which {} ({}) had to be fetched",
                    into.display(),
                    fetched.version,
                    counted(fetched.files, "file"),
                    HumanCount(fetched.files_fetched),
                    HumanBytes(fetched.bytes_fetched),
                );
            }
            // A publication of a context that was cut off.
            Err(RemoteError::Nothing { .. }) if number > 0 => {}
            // Without the first context, there is no lake for the others.
            Err(error) if number == 0 => return Err(error),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    ended(text, failed)
}

/// Returns the contexts to fetch, the store's first one first, each with its folder: where the lake
/// has its identity, or else where the store has it. A name that the lake has for another context
/// gets a number.
async fn fetched_contexts(
    remote: &Remote,
    others: &[String],
    into: &Path,
) -> Result<Vec<(Remote, PathBuf)>, RemoteError> {
    let new = (remote.clone(), into.to_owned());
    let folders = into.join(CONTEXTS);
    let in_order = others.iter().map(|name| (remote.context(name), folders.join(name)));
    let mut places: Vec<(Remote, PathBuf)> = std::iter::once(new).chain(in_order).collect();
    // Without a lake, there is nothing to compare with. What is wrong with one shows when it is
    // fetched.
    let Ok(known) = Lake::contexts(into) else { return Ok(places) };
    let mut taken: Vec<PathBuf> =
        known.iter().map(|context| context.lake.path().to_owned()).collect();
    for (number, (place, folder)) in places.iter_mut().enumerate() {
        // All its versions have one identity, so a damaged one can be passed over.
        let Some(newest) = place.look_up_newest(true).await?.published else { continue };
        let there = &newest.inventory.identity;
        let own = known.iter().find(|context| context.lake.identity().is_of_context(there));
        if let Some(own) = own {
            own.lake.path().clone_into(folder);
            continue;
        }
        if number == 0 && others.is_empty() {
            continue;
        }
        let name = if number == 0 { there.context_name() } else { others[number - 1].clone() };
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !taken.contains(&folders.join(name)));
        *folder = folders.join(free.expect("the numbers do not end"));
        taken.push(folder.clone());
    }
    Ok(places)
}

/// Refuses a name that is not that of the first context.
async fn demand_first(remote: &Remote, name: &str, others: &[String]) -> Result<(), RemoteError> {
    let newest = remote.newest().await?;
    let first = newest.map(|newest| newest.inventory.identity.context_name());
    if first.as_deref() == Some(name) {
        return Ok(());
    }
    let known = first.into_iter().chain(others.iter().cloned()).collect();
    let path = PathBuf::from(remote.address());
    Err(LakeError::NoContext { path, name: name.to_owned(), known }.into())
}

/// Formats the versions as a table for people.
fn listed(versions: &[Numbered]) -> String {
    let row = |cells: [&str; 6]| {
        let [version, published, episodes, steps, files, bytes] = cells;
        format!(
            "{version:>7}  {published:20}  {episodes:>12}  {steps:>14}  {files:>7}  {bytes:>10}\n"
        )
    };
    let mut text = row(["version", "published", "episodes", "steps", "files", "bytes"]);
    for (number, version) in versions {
        let version = match version {
            Ok(version) => version,
            Err(damage) => {
                let damage = line(damage);
                let _ = writeln!(text, "{number:>7}  {damage}");
                continue;
            }
        };
        let count = |count| HumanCount(count).to_string();
        text += &row([
            &version.version.to_string(),
            &messages::utc(version.published_at_ms),
            &count(version.episodes),
            &count(version.steps),
            &count(version.files),
            &HumanBytes(version.bytes).to_string(),
        ]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
