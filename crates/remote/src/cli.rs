//! The command line of the program: parse, run, exit code. `steplake publish` and `steplake fetch`
//! run it.

use std::fmt::Write as _;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use indicatif::{HumanBytes, HumanCount};
use steplake_lake::{CONTEXTS, Context, Disk, Lake};
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

/// Fetch a published version as a lake, or update a lake that was fetched before.
#[derive(Debug, Args)]
struct FetchArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// The version; by default the newest.
    #[arg(long, value_name = "N")]
    version: Option<u64>,

    /// The folder of the lake: new, empty, or fetched before and unchanged since. By default the
    /// folder of --lake.
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
    let mut text = String::new();
    for (remote, lake) in published_contexts(global, &remote)? {
        let bar = bar(global, 0, BAR);
        let line = match publish(&remote, &lake, &options, &bar).await? {
            PublishOutcome::UpToDate { version } => {
                format!("nothing to publish: version {version} of {remote} has all of it\n")
            }
            PublishOutcome::Published(sent) => published(&remote, &sent),
        };
        text += &line;
    }
    Ok(text)
}

/// Returns the contexts to publish, each with its place: the one that is named at the address
/// itself, or all as they lie in the lake.
fn published_contexts(
    global: &GlobalArgs,
    remote: &Remote,
) -> Result<Vec<(Remote, Lake)>, RemoteError> {
    if global.context.is_some() {
        let lake = Lake::open_one(&global.lake, global.context.as_deref())?;
        return Ok(vec![(remote.clone(), lake)]);
    }
    let contexts = Lake::contexts(&global.lake)?.into_iter().enumerate();
    let placed = contexts.map(|(place, Context { name, lake })| {
        (if place == 0 { remote.clone() } else { remote.context(&name) }, lake)
    });
    Ok(placed.collect())
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
    let mut text = String::new();
    let mut places = match &global.context {
        Some(name) if others.contains(name) => vec![(remote.context(name), into.clone())],
        _ => vec![(remote.clone(), into.clone())],
    };
    // The number of a version is that of one context.
    if global.context.is_none() && args.version.is_none() {
        let place = |name: &String| (remote.context(name), into.join(CONTEXTS).join(name));
        places.extend(others.iter().map(place));
    }
    for (remote, into) in places {
        let bar = bar(global, 0, BAR);
        let fetched = fetch(&remote, args.version, &into, Disk::default(), &options, &bar).await?;
        let _ = writeln!(
            text,
            "{} is version {} of {remote}: {}, of which {} ({}) had to be fetched",
            into.display(),
            fetched.version,
            counted(fetched.files, "file"),
            HumanCount(fetched.files_fetched),
            HumanBytes(fetched.bytes_fetched),
        );
    }
    Ok(text)
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
