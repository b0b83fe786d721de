//! Landlock and seccomp: what a thread or a process may open.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// The newest version of Landlock's interface that we tested. Older kernels enforce what they
/// support.
const LANDLOCK: ABI = ABI::V7;

/// What installed programs need in order to run: themselves, their libraries, and files that every
/// Debian has.
const SYSTEM: &str = "/bin /dev/null /dev/urandom /dev/zero /etc/alternatives /etc/dpkg \
    /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /lib /lib32 /lib64 /sbin /usr";

/// Where programs discard output.
const NULL: &str = "/dev/null";

/// The files and folders that confined work may open, besides those of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenPaths {
    /// To read and execute.
    pub read: Vec<PathBuf>,
    /// To read and to change in any way.
    pub write: Vec<PathBuf>,
}

/// Confines the calling thread, and every process that it starts from now on, to the system's files
/// (for reading) and those of `open`, and cuts them off from the network. This cannot be undone, so
/// use a thread made for the purpose.
///
/// # Errors
///
/// If the kernel supports a mechanism but fails to apply it.
pub fn confine_thread(open: &OpenPaths) -> io::Result<()> {
    let system = SYSTEM.split(' ').map(Path::new);
    let read = system.chain(open.read.iter().map(PathBuf::as_path)).collect::<Vec<_>>();
    let write =
        open.write.iter().map(PathBuf::as_path).chain([Path::new(NULL)]).collect::<Vec<_>>();
    restrict(&read, &write).map_err(io::Error::other)?;
    refuse_sockets().map_err(io::Error::other)
}

/// Confines this process to the files that it has open. From now on it opens no file and no socket,
/// starts no program, and writes no file beyond `file_bytes_max`. Call this before starting any
/// other thread: Landlock confines only the caller and the threads that it starts later.
///
/// # Errors
///
/// If the kernel supports a mechanism but fails to apply it.
pub fn confine_process(file_bytes_max: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE)?;
    let most = file_bytes_max.min(hard);
    setrlimit(Resource::RLIMIT_FSIZE, most, most)?;
    restrict(&[], &[]).map_err(io::Error::other)?;
    // This comes last because Landlock needs a file descriptor. There is no seccomp filter: it
    // slows processes down on older kernels.
    setrlimit(Resource::RLIMIT_NOFILE, 0, 0)?;
    Ok(())
}

fn restrict(read: &[&Path], write: &[&Path]) -> Result<(), RulesetError> {
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .add_rules(path_beneath_rules(read, AccessFs::from_read(LANDLOCK)))?
        .add_rules(path_beneath_rules(write, AccessFs::from_all(LANDLOCK)))?
        .restrict_self()?;
    if status.ruleset != RulesetStatus::FullyEnforced {
        tracing::debug!(?status, "this kernel lacks Landlock or a part of it");
    }
    Ok(())
}

/// Makes every call for a new socket fail, including those through `io_uring`.
fn refuse_sockets() -> Result<(), seccompiler::Error> {
    let refused = [libc::SYS_socket, libc::SYS_io_uring_setup];
    refuse(refused.into_iter().map(|call| (call, Vec::new())).collect())
}

/// Keeps the processes that the calling thread starts from now on in a process group, once they are
/// in it: no other group can be joined or made. A kernel without filters does not keep them.
///
/// # Errors
///
/// If the kernel supports filters but fails to apply one.
pub(super) fn keep_in_group(group: Pid) -> io::Result<()> {
    let other = || -> Result<SeccompRule, seccompiler::BackendError> {
        let group = u64::from(group.as_raw().unsigned_abs());
        let is_other = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, group)?;
        SeccompRule::new(vec![is_other])
    };
    let rule = other().map_err(io::Error::other)?;
    let rules = BTreeMap::from([(libc::SYS_setsid, Vec::new()), (libc::SYS_setpgid, vec![rule])]);
    refuse(rules).map_err(io::Error::other)
}

/// Makes the calls that match these rules fail; those without a rule always.
fn refuse(rules: BTreeMap<i64, Vec<SeccompRule>>) -> Result<(), seccompiler::Error> {
    let errno = u32::try_from(libc::EACCES).unwrap_or_default();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        TargetArch::x86_64,
    )?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    match seccompiler::apply_filter(&program) {
        // The kernel has no filters, or a container bars the call.
        Err(error @ (seccompiler::Error::Prctl(_) | seccompiler::Error::Seccomp(_))) => {
            tracing::debug!(%error, "this kernel lacks seccomp filters");
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::process::Command;

    /// Returns whether the kernel supports all that we ask of Landlock.
    fn has_landlock() -> bool {
        let status = std::thread::spawn(|| {
            Ruleset::default()
                .handle_access(AccessFs::from_all(LANDLOCK))
                .and_then(Ruleset::create)
                .and_then(landlock::RulesetCreated::restrict_self)
        });
        let status = status.join().unwrap();
        status.is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced)
    }

    fn in_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn a_confined_thread_opens_what_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for name in ["mine", "yours", "theirs"] {
            fs::create_dir(place(name)).unwrap();
            fs::write(place(name).join("file"), name).unwrap();
        }
        let open = OpenPaths { read: vec![place("yours")], write: vec![place("mine")] };
        let [mine, yours, theirs] =
            ["mine", "yours", "theirs"].map(|name| place(name).join("file"));
        let is_strict = has_landlock();
        in_a_thread(move || {
            confine_thread(&open).unwrap();
            assert_eq!(fs::read(&yours).unwrap(), b"yours");
            assert_eq!(fs::read(&mine).unwrap(), b"mine");
            fs::write(&mine, "more").unwrap();
            fs::rename(&mine, mine.with_extension("c")).unwrap();
            fs::write(NULL, "away").unwrap();
            if is_strict {
                let denied = ErrorKind::PermissionDenied;
                assert_eq!(fs::read(&theirs).unwrap_err().kind(), denied);
                assert_eq!(fs::write(&yours, "").unwrap_err().kind(), denied);
                assert_eq!(fs::remove_file(&yours).unwrap_err().kind(), denied);
                assert_eq!(fs::read("/etc/hostname").unwrap_err().kind(), denied);
            }
            #[expect(clippy::disallowed_methods, reason = "what it starts is confined as well")]
            let child = Command::new("cat").arg(&theirs).output().unwrap();
            assert_eq!(child.status.success(), !is_strict);
        });
        // Other threads are not confined.
        assert_eq!(fs::read(place("theirs/file")).unwrap(), b"theirs");
    }

    #[test]
    fn a_confined_thread_has_no_network() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        TcpStream::connect(address).unwrap();
        in_a_thread(move || {
            confine_thread(&OpenPaths::default()).unwrap();
            let denied = ErrorKind::PermissionDenied;
            assert_eq!(TcpStream::connect(address).unwrap_err().kind(), denied);
            assert_eq!(TcpListener::bind("127.0.0.1:0").unwrap_err().kind(), denied);
            assert_eq!(UdpSocket::bind("127.0.0.1:0").unwrap_err().kind(), denied);
        });
    }

    /// Set in the child process of the test, which confines itself.
    const CHILD: &str = "STEPLAKE_TEST_CONFINED";

    #[test]
    fn a_confined_process_opens_nothing_and_writes_no_more_than_it_may() {
        if std::env::var_os(CHILD).is_some() {
            return be_confined();
        }
        let folder = tempfile::tempdir().unwrap();
        let name =
            "confinement::tests::a_confined_process_opens_nothing_and_writes_no_more_than_it_may";
        #[expect(clippy::disallowed_methods, reason = "this program once more")]
        let child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
        assert!(said.contains("1 passed"), "{said}");
        assert_eq!(fs::metadata(folder.path().join("output")).unwrap().len(), 10);
    }

    /// Checks what a confined process can still do.
    fn be_confined() {
        use std::io::Write;
        let folder = PathBuf::from(std::env::var_os(CHILD).unwrap());
        let mut output = File::create(folder.join("output")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        confine_process(10).unwrap();
        assert!(File::open("/etc/hostname").is_err());
        assert!(File::open("/proc/self/status").is_err());
        assert!(File::create(folder.join("new")).is_err());
        assert!(TcpStream::connect(address).is_err());
        assert!(UdpSocket::bind("127.0.0.1:0").is_err());
        #[expect(clippy::disallowed_methods, reason = "it must fail")]
        let started = Command::new("/bin/true").status();
        assert!(started.is_err());
        // Landlock alone must hold too: a privileged process can raise the limit.
        if setrlimit(Resource::RLIMIT_NOFILE, 64, 64).is_ok() && has_landlock() {
            let denied = ErrorKind::PermissionDenied;
            assert_eq!(File::open("/etc/hostname").unwrap_err().kind(), denied);
            assert_eq!(TcpStream::connect(address).unwrap_err().kind(), denied);
        }
        std::thread::spawn(|| vec![0_u8; 1 << 20]).join().unwrap();
        output.write_all(b"0123456789").unwrap();
    }
}
