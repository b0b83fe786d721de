//! Who may do what: bearer tokens with names and rights.
//!
//! Clients send their token as `authorization: Bearer <token>` (RFC 6750). The server keeps only
//! digests. A file of tokens has either one token, which allows everything, or a line for each:
//!
//! ```text
//! # name   rights        token
//! alice    admin         55c1…
//! trainer  read,step     9e07…
//! ```
//!
//! Several tokens may have one name, so that a new one can be handed out before the old one goes.
//! The file is read again when it has changed. If it is wrong then, or gone, the tokens stay as
//! they were, and the log says so. A server that started with one token alone, which allows
//! everything, takes no file with rights before it starts again: what it lets clients do may rest
//! on that.

use std::env::VarError;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use steplake::Error;

/// The least time between two looks at the file of tokens.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Something that a token may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Ask what a lake has.
    Read,
    /// Run the compiler in sessions that are not recorded.
    Step,
    /// Take steps that become part of a lake, which is to run the compiler too.
    Record,
}

impl Right {
    /// What it allows, after "may".
    fn allows(self) -> &'static str {
        match self {
            Self::Read => "read the lake",
            Self::Step => "run the compiler",
            Self::Record => "record steps",
        }
    }
}

/// The rights of a token: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rights(u8);

impl Rights {
    const ADMIN: Self = Self(u8::MAX);

    /// Parses `read,step`.
    fn parse(text: &str) -> Result<Self, String> {
        let bit = |word: &str| match word {
            "read" => Ok(1 << Right::Read as u8),
            "step" => Ok(1 << Right::Step as u8),
            // Who records a step runs the compiler.
            "record" => Ok((1 << Right::Record as u8) | (1 << Right::Step as u8)),
            "admin" => Ok(Self::ADMIN.0),
            other => Err(format!("there is no right `{other}`: read, step, record or admin")),
        };
        text.split(',').try_fold(Self(0), |Self(all), word| Ok(Self(all | bit(word)?)))
    }

    fn have(self, right: Right) -> bool {
        self.0 & (1 << right as u8) != 0
    }
}

/// A token without its text.
struct Holder {
    name: String,
    rights: Rights,
    digest: blake3::Hash,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// It has no token, or an unknown one.
    Unknown,
    /// Its token does not allow this.
    Lacks {
        /// The name of the token.
        name: String,
        /// What is needed.
        right: Right,
    },
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str(
                "this server requires a token: send it as the header `authorization: Bearer <token>`",
            ),
            Self::Lacks { name, right } => write!(
                f,
                "the token of `{name}` may not {}: whoever runs the server can give it that right",
                right.allows()
            ),
        }
    }
}

impl From<Denial> for tonic::Status {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Unknown => Self::unauthenticated(denial.to_string()),
            Denial::Lacks { .. } => Self::permission_denied(denial.to_string()),
        }
    }
}

/// The tokens of a server.
pub struct Access {
    current: Mutex<Current>,
    allows_all: bool,
    look_interval: Duration,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Reads the tokens that clients must send: those of the file, or that of `STEPLAKE_TOKEN`.
    /// None if there is neither. Returns the text of the token too, if it is the only one.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are invalid.
    pub fn open(file: Option<&Path>) -> Result<Option<(Self, Option<String>)>, Error> {
        if let Some(path) = file {
            return Self::of_file(path, LOOK_INTERVAL).map(Some).map_err(Error::usage);
        }
        let text = match std::env::var("STEPLAKE_TOKEN") {
            Ok(text) => text,
            Err(VarError::NotPresent) => return Ok(None),
            // The user meant to set a token: without it, everybody could read the lake.
            Err(VarError::NotUnicode(_)) => {
                return Err(Error::usage(
                    "STEPLAKE_TOKEN is not text: write one line of visible characters, or unset it",
                ));
            }
        };
        let tokens = parse("STEPLAKE_TOKEN", &text).map_err(Error::usage)?;
        Ok(Some(Self::of(tokens, None, LOOK_INTERVAL)))
    }

    fn of_file(path: &Path, look_interval: Duration) -> Result<(Self, Option<String>), String> {
        // A change after the reading shows in the stamp from before it.
        let stamp = stamp(path);
        let file = WatchedFile { path: path.to_owned(), stamp, seen: stamp };
        let tokens = read_file(path)?;
        Ok(Self::of(tokens, Some(file), look_interval))
    }

    fn of(
        tokens: Vec<Token>,
        file: Option<WatchedFile>,
        look_interval: Duration,
    ) -> (Self, Option<String>) {
        let only = match &*tokens {
            [token] => Some(token.text.clone()),
            _ => None,
        };
        let allows_all = is_alone(&tokens);
        let current = Current { holders: holders(tokens), file, looked: Instant::now() };
        (Self { current: Mutex::new(current), allows_all, look_interval }, only)
    }

    /// Whether whoever has a token may do everything. It stays so: of such a server, only a file
    /// with one token alone is read again.
    pub fn allows_all(&self) -> bool {
        self.allows_all
    }

    /// Refuses a request whose header `authorization` has no token with this right. To compare
    /// takes the same time for every token.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn check(&self, header: Option<&str>, right: Right) -> Result<(), Denial> {
        let (scheme, token) =
            header.and_then(|value| value.split_once(' ')).ok_or(Denial::Unknown)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Denial::Unknown);
        }
        let digest = blake3::hash(token.trim().as_bytes());
        let holders = self.current.lock().holders(self.look_interval, self.allows_all);
        // All are compared, since a search that ends at the first one would tell which it is.
        let compared = holders.iter().map(|holder| (holder.digest == digest).then_some(holder));
        let holder = compared.fold(None, Option::or);
        let Holder { name, rights, .. } = holder.ok_or(Denial::Unknown)?;
        tracing::debug!(name, ?right, "a request with a token");
        if rights.have(right) { Ok(()) } else { Err(Denial::Lacks { name: name.clone(), right }) }
    }
}

/// The tokens as they were read last.
struct Current {
    holders: Arc<[Holder]>,
    /// None if the token came from the environment.
    file: Option<WatchedFile>,
    looked: Instant,
}

struct WatchedFile {
    path: PathBuf,
    /// As it was read.
    stamp: Option<FileStamp>,
    /// As it was at the last look. One that is being written differs at the next.
    seen: Option<FileStamp>,
}

/// What differs once a file was written or replaced: its inode, its length, and the time of its
/// last change in seconds and nanoseconds.
type FileStamp = (u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<FileStamp> {
    // A pipe would hold up whoever reads it.
    let file = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
    Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

impl Current {
    /// The holders of tokens, read again if the file has changed. If `allows_all`, only a file with
    /// one token alone counts.
    fn holders(&mut self, look_interval: Duration, allows_all: bool) -> Arc<[Holder]> {
        let Some(file) = self.file.as_mut().filter(|_| self.looked.elapsed() >= look_interval)
        else {
            return Arc::clone(&self.holders);
        };
        self.looked = Instant::now();
        let now = stamp(&file.path);
        let is_written = now == std::mem::replace(&mut file.seen, now);
        if now != file.stamp && is_written {
            file.stamp = now;
            let read = read_file(&file.path).and_then(|tokens| {
                if allows_all && !is_alone(&tokens) {
                    let path = file.path.display();
                    return Err(format!(
                        "the server started with a token that allows everything, and {path} has tokens with rights now: \
                         start it again"
                    ));
                }
                Ok(tokens)
            });
            match read {
                Ok(tokens) => {
                    self.holders = holders(tokens);
                    tracing::info!(tokens = self.holders.len(), "the tokens were read again");
                }
                Err(problem) => tracing::warn!("the tokens stay as they were: {problem}"),
            }
        }
        Arc::clone(&self.holders)
    }
}

/// Whether there is one token without name and rights.
fn is_alone(tokens: &[Token]) -> bool {
    matches!(tokens, [token] if token.name.is_empty())
}

/// A token as it is written.
struct Token {
    /// Empty if it stands alone.
    name: String,
    rights: Rights,
    text: String,
}

fn holders(tokens: Vec<Token>) -> Arc<[Holder]> {
    let holder = |Token { name, rights, text }| {
        let digest = blake3::hash(text.as_bytes());
        Holder { name, rights, digest }
    };
    tokens.into_iter().map(holder).collect()
}

fn read_file(path: &Path) -> Result<Vec<Token>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the token cannot be read from {}: {error}", path.display()))?;
    parse(&path.display().to_string(), &text)
}

/// Parses one token, or lines of a name, rights and a token. `from` is where they come from.
fn parse(from: &str, text: &str) -> Result<Vec<Token>, String> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let mut tokens: Vec<Token> = Vec::new();
    while let Some((number, line)) = lines.next() {
        let words = line.split_whitespace().collect::<Vec<_>>();
        let (name, rights, token) = match words[..] {
            // It would be odd to hide more tokens behind one that allows everything.
            [token] if tokens.is_empty() && lines.peek().is_none() => ("", "admin", token),
            [name, rights, token] => (name, rights, token),
            _ => {
                return Err(format!(
                    "{from} has no valid token in line {number}: write one token alone, or a name, rights \
                     (read, step, record, admin) and a token in each line, e.g. from `openssl rand -hex 32`"
                ));
            }
        };
        let rights =
            Rights::parse(rights).map_err(|problem| format!("{from}, line {number}: {problem}"))?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "{from} has no valid token in line {number}: it may have visible ASCII characters alone"
            ));
        }
        if tokens.iter().any(|known| known.text == token) {
            return Err(format!("{from}, line {number}: another line has this token too"));
        }
        tokens.push(Token { name: name.to_owned(), rights, text: token.to_owned() });
    }
    if tokens.is_empty() {
        return Err(format!(
            "{from} has no valid token: write one line of visible characters, e.g. from `openssl rand -hex 32`"
        ));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(text: &str) -> Access {
        let tokens = parse("here", text).unwrap_or_else(|error| panic!("{error}"));
        Access::of(tokens, None, LOOK_INTERVAL).0
    }

    #[test]
    fn only_the_whole_token_opens() {
        let access = access(" s3cret\n");
        let sent = |value: &str| access.check(Some(value), Right::Read).is_ok();
        assert!(sent("Bearer s3cret") && sent("bearer s3cret"));
        for wrong in ["Bearer s3cre", "Bearer s3cret2", "s3cret", "Basic s3cret", "Bearer "] {
            assert!(!sent(wrong), "{wrong}");
        }
        assert_eq!(access.check(None, Right::Read), Err(Denial::Unknown));
        assert!(access.allows_all());
        for right in [Right::Read, Right::Step, Right::Record] {
            assert_eq!(access.check(Some("Bearer s3cret"), right), Ok(()));
        }
    }

    #[test]
    fn a_token_allows_what_its_line_says() {
        let text =
            "# name rights token\n\nalice admin a\nbob read b\ncarol record c\nbob read,step d\n";
        let access = access(text);
        assert!(!access.allows_all());
        let allowed = |token: &str| {
            [Right::Read, Right::Step, Right::Record]
                .map(|right| access.check(Some(&format!("Bearer {token}")), right).is_ok())
        };
        assert_eq!(allowed("a"), [true, true, true]);
        assert_eq!(allowed("b"), [true, false, false]);
        assert_eq!(allowed("c"), [false, true, true]);
        assert_eq!(allowed("d"), [true, true, false]);
        assert_eq!(allowed("e"), [false, false, false]);
        let denial = access.check(Some("Bearer b"), Right::Record).unwrap_err();
        assert_eq!(
            denial.to_string(),
            "the token of `bob` may not record steps: whoever runs the server can give it that right"
        );
    }

    #[test]
    fn what_is_no_list_of_tokens_is_refused() {
        for (text, said) in [
            ("\n", "here has no valid token"),
            ("# a comment\n", "here has no valid token"),
            ("a b\n", "no valid token in line 1"),
            ("one\ntwo\n", "no valid token in line 1"),
            ("alice admin a\nb\n", "no valid token in line 2"),
            ("alice write a\n", "line 1: there is no right `write`"),
            ("alice read, a\n", "line 1: there is no right ``"),
            ("alice read a\nbob read a\n", "line 2: another line has this token too"),
            ("s\u{e9}cret\n", "visible ASCII characters"),
        ] {
            let Err(problem) = parse("here", text) else { panic!("{text}") };
            assert!(problem.contains(said), "{problem}");
        }
    }

    /// Whether a token may read, once the file was looked at twice.
    fn may_read(access: &Access, token: &str) -> bool {
        let check = || access.check(Some(&format!("Bearer {token}")), Right::Read).is_ok();
        let _first = check();
        check()
    }

    #[test]
    fn a_file_that_has_changed_is_read_again_and_a_wrong_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "alice read first").unwrap();
        let (access, only) = Access::of_file(&path, Duration::ZERO).unwrap();
        assert_eq!(only.as_deref(), Some("first"));
        let may = |token: &str| may_read(&access, token);
        assert!(may("first"));
        std::fs::write(&path, "alice read first\nbob read second").unwrap();
        assert!(may("first") && may("second"));
        std::fs::write(&path, "bob read second").unwrap();
        assert!(!may("first") && may("second"));
        std::fs::write(&path, "bob reads second").unwrap();
        assert!(may("second"));
        std::fs::remove_file(&path).unwrap();
        assert!(!may("first") && may("second"));
    }

    #[test]
    fn a_server_that_trusted_one_token_takes_no_tokens_with_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "first").unwrap();
        let (access, _) = Access::of_file(&path, Duration::ZERO).unwrap();
        std::fs::write(&path, "alice read first\nbob read second").unwrap();
        assert!(may_read(&access, "first") && !may_read(&access, "second"));
        std::fs::write(&path, "third").unwrap();
        assert!(!may_read(&access, "first") && may_read(&access, "third"));
    }
}
