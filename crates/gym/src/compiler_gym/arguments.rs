//! The command lines: a server that clients connect to, and one that a client starts.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args, Parser, ValueHint};
use steplake::Error;
use steplake::environments::{STEP_CPU_SECONDS, WORKER_MEMORY_MIB};
use steplake::recording::Keyframes;
use steplake_server::{Access, AccessArguments, Certificate};

/// Serve live compiler sessions to clients of CompilerGym 0.2.5.
///
/// `gym.make("llvm-v0", service="localhost:31339")` connects to it. With --lake, every session of
/// every client is recorded. docs/COMPILERGYM.md shows how to run an old script.
#[derive(Debug, Args)]
#[command(display_name = "steplake serve", version)]
pub(crate) struct ServerArguments {
    /// Serve sessions, not a lake.
    #[arg(long, required = true)]
    compiler_gym: bool,

    /// The address to listen on; port 0 takes a free port. Without tokens, everybody who reaches it
    /// may run the compiler; on this machine alone, and without rights of tokens, also on programs
    /// named by their paths.
    #[arg(long, default_value = "127.0.0.1:31339", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,

    #[command(flatten)]
    access: AccessArguments,

    #[command(flatten)]
    cache: CacheArguments,

    #[command(flatten)]
    pub(crate) sessions: SessionArguments,

    /// Log more to standard error: -v what is done, -vv every detail.
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Show no progress; there is none.
    #[arg(short, long, hide = true)]
    quiet: bool,
}

/// Whether a lake answers.
#[derive(Debug, Args)]
struct CacheArguments {
    /// Answer from the lake, and ask a compiler only for what the lake does not know yet; that is
    /// recorded. All clients share what one of them found out.
    #[arg(long, requires = "lake")]
    cache: bool,

    /// With --cache, the address for HTTP: `POST /step`, `/health` and `/metrics`.
    #[arg(long, default_value = "127.0.0.1:31338", value_name = "ADDRESS", requires = "cache")]
    http: SocketAddr,
}

/// Serve live compiler sessions to the CompilerGym client that starts this process.
///
/// The client gives the folder, in which it finds the port; SIGTERM ends the service. The variable
/// `COMPILER_GYM_SERVICE_ARGS` adds arguments, for example `--lake=FOLDER`.
#[derive(Debug, Parser)]
#[command(
    name = "steplake compiler-gym-service",
    bin_name = "steplake compiler-gym-service",
    version
)]
pub(crate) struct ManagedArguments {
    /// The folder for `port.txt`, `pid.txt` and files for the client.
    #[arg(long = "working_dir", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) working_dir: PathBuf,

    /// The port to listen on; 0 takes a free port.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub(crate) port: u16,

    #[command(flatten)]
    pub(crate) sessions: SessionArguments,

    /// Log more to standard error: 1 what is done, 2 every detail.
    #[arg(short, long = "verbosity", num_args = 0..=1, default_value_t = 0, default_missing_value = "1")]
    pub(crate) verbose: u8,

    /// Logs go to standard error in any case.
    #[arg(long, hide = true)]
    alsologtostderr: bool,

    #[arg(long, hide = true)]
    logtostderr: bool,

    /// Logs are never held back.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    logbuflevel: Option<String>,
}

/// What sessions are of, and whether they are recorded.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    /// Record every session into this lake, which is made if there is none.
    #[arg(long, env = "STEPLAKE_LAKE", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) lake: Option<PathBuf>,

    /// The environment: llvm-v0 if not said otherwise, and with --cache that of the lake.
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Option<String>,

    /// Which states' IR to keep: `all`, `none`, or `keyframes=K`, the first state of an episode and
    /// every K-th change of state after it. The IR of other states is rebuilt on demand. By default
    /// `keyframes=16`, and with --cache `all`.
    #[arg(long, value_name = "all|none|keyframes=K")]
    pub(crate) ir: Option<Keyframes>,

    /// The observation spaces to record: a comma-separated list. By default those of the lake; a
    /// new lake gets the usual spaces of numbers.
    #[arg(long, value_name = "SPACES", value_delimiter = ',', requires = "lake")]
    pub(crate) observe: Option<Vec<String>>,

    /// The reward spaces to record, likewise.
    #[arg(long, value_name = "SPACES", value_delimiter = ',', requires = "lake")]
    pub(crate) rewards: Option<Vec<String>>,

    /// The number of sessions that keep a compiler while nobody uses them; by default 4 for each
    /// core, and at least 16. Others start one again when they are used.
    #[arg(long, value_name = "N")]
    pub(crate) live_sessions: Option<NonZeroUsize>,

    /// The CPU seconds that a step may take before it counts as a failure.
    #[arg(long, default_value_t = STEP_CPU_SECONDS, value_name = "SECONDS")]
    pub(crate) step_cpu_seconds: u64,

    /// The address space of a compiler's process in MiB.
    #[arg(long, default_value_t = WORKER_MEMORY_MIB, value_name = "MIB")]
    pub(crate) worker_memory_mib: u64,
}

/// Where to serve, and to whom.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) listen: SocketAddr,
    /// The folder that the client gave, if one started the service.
    pub(super) folder: Option<PathBuf>,
    /// Where a cache answers over HTTP; none if sessions are not answered from a cache.
    pub(super) cache: Option<SocketAddr>,
    /// The tokens of clients; none if everybody may ask.
    pub(super) access: Option<Arc<Access>>,
    /// With what connections are encrypted; none if they are not.
    pub(super) certificate: Option<Certificate>,
    pub(super) sessions: SessionArguments,
}

impl ServerArguments {
    /// Returns where to serve.
    ///
    /// # Errors
    ///
    /// If other machines could reach the service by accident, or a file of tokens, a certificate or
    /// its key cannot be read.
    pub(super) fn serving(self) -> Result<Serving, Error> {
        let cache = self.cache.cache.then_some(self.cache.http);
        let addresses = [Some(self.listen), cache].into_iter().flatten().collect::<Vec<_>>();
        let access = self.access.tokens()?.map(|(access, _text)| Arc::new(access));
        self.access.demand_safety(&addresses, access.is_some())?;
        let certificate = self.access.certificate()?;
        // Steps are recorded one by one, so no keyframe lies before them.
        if let (true, Some(Keyframes(Some(every)))) = (cache.is_some(), self.sessions.ir)
            && every > NonZeroU32::MIN
        {
            return Err(Error::usage(
                "a cache records steps one by one, and keeps the IR of all new states or of none: \
                 say --ir all or --ir none",
            ));
        }
        let (listen, sessions) = (self.listen, self.sessions);
        Ok(Serving { listen, folder: None, cache, access, certificate, sessions })
    }
}

impl ManagedArguments {
    /// Parses a command line. The client appends the variable `added` as one argument.
    pub(crate) fn parse_line(line: Vec<OsString>, added: Option<&OsString>) -> Self {
        let program = OsString::from("steplake compiler-gym-service");
        Self::parse_from(std::iter::once(program).chain(split_last(line, added)))
    }

    /// Returns where to serve. A relative lake is one of the client's folder: the client starts
    /// the service in a folder that a later installation removes.
    pub(super) fn serving(mut self) -> Serving {
        let client = format!("/proc/{}/cwd", std::os::unix::process::parent_id());
        if let Some(lake) = &mut self.sessions.lake
            && let Ok(folder) = std::fs::read_link(client)
        {
            *lake = folder.join(&lake);
        }
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let folder = Some(self.working_dir);
        let sessions = self.sessions;
        Serving { listen, folder, cache: None, access: None, certificate: None, sessions }
    }
}

/// Splits the last argument into words if it is `added`.
fn split_last(mut line: Vec<OsString>, added: Option<&OsString>) -> Vec<OsString> {
    if let Some(added) = added
        && line.last() == Some(added)
        && let Some(words) = added.to_str()
    {
        line.pop();
        line.extend(words.split_whitespace().map(OsString::from));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ServerArguments,
    }

    fn serving(line: &str) -> Result<Serving, Error> {
        let line = ["serve", "--compiler-gym"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(line).unwrap().arguments.serving()
    }

    fn managed(line: &str, added: &str) -> ManagedArguments {
        let line = line.split('|').chain(Some(added).filter(|added| !added.is_empty()));
        ManagedArguments::parse_line(line.map(OsString::from).collect(), Some(&added.into()))
    }

    #[test]
    fn the_arguments_of_a_client_are_understood() {
        let plain = managed("--working_dir=/a b", "");
        assert_eq!((plain.working_dir.to_str(), plain.port), (Some("/a b"), 0));
        let debug = managed("--working_dir=/d|--alsologtostderr|-v=2|--logbuflevel=-1", "");
        assert_eq!(debug.verbose, 2);
        let recording = managed("--working_dir=/d", "--lake=/lake --live-sessions 3");
        assert_eq!(
            recording.sessions.lake.as_deref().and_then(|lake| lake.to_str()),
            Some("/lake")
        );
        assert_eq!(recording.sessions.live_sessions, NonZeroUsize::new(3));
    }

    #[test]
    fn the_network_reaches_no_compiler_by_accident() {
        let safe = |line: &str| serving(line).is_ok();
        assert!(safe("") && safe("--listen 127.0.0.1:0") && safe("--listen [::1]:0"));
        assert!(!safe("--listen 0.0.0.0:1"));
        assert!(safe("--listen 0.0.0.0:1 --insecure"));
        assert!(safe("--cache --lake l") && !safe("--cache --lake l --http 0.0.0.0:1"));
    }

    #[test]
    fn a_cache_keeps_the_ir_of_all_states_or_of_none() {
        let line = |ir: &str| serving(&format!("--cache --lake l --ir {ir}"));
        assert!(line("all").is_ok() && line("none").is_ok());
        assert!(line("keyframes=16").unwrap_err().to_string().contains("one by one"));
    }
}
