//! The flight recorder: one page that a worker and its supervisor share.
//!
//! Before the worker does something, it notes that with plain stores. When it dies, the supervisor
//! reads what it was doing. A note costs nanoseconds and no system call, and survives any death but
//! that of the machine.

#![expect(unsafe_code, reason = "memory shared between two processes")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::posix_fallocate;

/// What a worker may be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Starting,
    Acting,
    Observing,
    Forking,
}

/// The phases in words, in their order.
const PHASES: [&str; 5] = [
    "between requests",
    "while it read the program",
    "in the action",
    "while it observed the state",
    "while it forked",
];

/// The last note of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) phase: &'static str,
    /// The benchmark's URI, cut to [`URI_BYTES_MAX`].
    pub(super) benchmark: String,
    /// The number of actions of the episode so far.
    pub(super) steps: u64,
    /// The number of actions of the present request that were begun.
    pub(super) begun: u64,
    /// The CPU time allowed for the present work, in milliseconds.
    pub(super) cpu_max_ms: u64,
}

impl Note {
    /// Returns the place in words, e.g. `in the action, step 17 on generator://csmith-v0/3`.
    pub(super) fn place(&self) -> String {
        format!("{}, step {} on {}", self.phase, self.steps, self.benchmark)
    }
}

const URI_BYTES_MAX: usize = 1024;

const PHASE: usize = 0;
const STEPS: usize = 1;
const BEGUN: usize = 2;
const CPU_MAX_MS: usize = 3;
const URI_LEN: usize = 4;
const URI: usize = 5;
const WORDS: usize = URI + URI_BYTES_MAX / 8;

/// One end of the shared page. Only the worker writes.
#[derive(Debug)]
pub(super) struct FlightRecorder {
    page: MmapRaw,
}

impl FlightRecorder {
    /// Creates the page in an unnamed file, so that no kill leaves a file behind. Keep the file
    /// until the worker has opened it by its [path](Self::path).
    pub(super) fn create() -> io::Result<(Self, File)> {
        let in_memory = tempfile::tempfile_in("/dev/shm").and_then(with_room);
        let file = in_memory.or_else(|_| tempfile::tempfile().and_then(with_room));
        let file = file.map_err(|error| {
            let folder = std::env::temp_dir();
            io::Error::new(
                error.kind(),
                format!(
                    "neither /dev/shm nor {} has room for the page that it shares with its \
                     supervisor ({error}): free some there",
                    folder.display()
                ),
            )
        })?;
        Ok((Self::map(&file)?, file))
    }

    /// Returns the path under which a child of this process can open the file.
    pub(super) fn path(file: &File) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
    }

    /// Opens the page that the supervisor created.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::map(&OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn map(file: &File) -> io::Result<Self> {
        Ok(Self { page: MmapOptions::new().len(WORDS * 8).map_raw(file)? })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS);
        #[expect(clippy::cast_ptr_alignment, reason = "a mapping begins at a page")]
        let first = self.page.as_mut_ptr().cast::<u64>();
        // SAFETY: the offset is inside the mapping, as asserted.
        let word = unsafe { first.add(index) };
        // SAFETY: the mapping is page-aligned and lives as long as `self`; both processes touch its
        // words only by atomic operations.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Notes that an episode begins after `steps` actions.
    pub(super) fn begin(&self, uri: &str, steps: u64) {
        let bytes = &uri.as_bytes()[..uri.len().min(URI_BYTES_MAX)];
        self.word(STEPS).store(steps, Ordering::Relaxed);
        self.word(URI_LEN).store(bytes.len() as u64, Ordering::Relaxed);
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(URI + index).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.phase(Phase::Starting);
    }

    /// Notes that a request has arrived.
    pub(super) fn request(&self) {
        self.word(BEGUN).store(0, Ordering::Relaxed);
    }

    /// Notes that an action is about to be applied.
    pub(super) fn act(&self) {
        for counter in [BEGUN, STEPS] {
            let count = self.word(counter).load(Ordering::Relaxed);
            self.word(counter).store(count + 1, Ordering::Relaxed);
        }
        self.phase(Phase::Acting);
    }

    /// Notes the CPU time allowed for what the worker does from now on.
    pub(super) fn allow(&self, cpu_max: Duration) {
        let milliseconds = u64::try_from(cpu_max.as_millis()).unwrap_or(u64::MAX);
        self.word(CPU_MAX_MS).store(milliseconds, Ordering::Relaxed);
    }

    /// Notes what the worker does from now on.
    pub(super) fn phase(&self, phase: Phase) {
        self.word(PHASE).store(phase as u64, Ordering::Release);
    }

    /// Reads the last note.
    pub(super) fn read(&self) -> Note {
        let phase = self.word(PHASE).load(Ordering::Acquire);
        let phase = usize::try_from(phase).ok().and_then(|phase| PHASES.get(phase));
        let length = usize::try_from(self.word(URI_LEN).load(Ordering::Relaxed))
            .map_or(0, |length| length.min(URI_BYTES_MAX));
        let uri: Vec<u8> = (0..length.div_ceil(8))
            .flat_map(|index| self.word(URI + index).load(Ordering::Relaxed).to_le_bytes())
            .take(length)
            .collect();
        Note {
            phase: phase.unwrap_or(&PHASES[0]),
            benchmark: String::from_utf8_lossy(&uri).into_owned(),
            steps: self.word(STEPS).load(Ordering::Relaxed),
            begun: self.word(BEGUN).load(Ordering::Relaxed),
            cpu_max_ms: self.word(CPU_MAX_MS).load(Ordering::Relaxed),
        }
    }
}

/// Allocates the page in the file now: on first touch, a lack of room would be reported by a
/// signal.
fn with_room(file: File) -> io::Result<File> {
    let bytes = i64::try_from(WORDS * 8).map_err(io::Error::other)?;
    posix_fallocate(&file, 0, bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_page_has_its_room_before_it_is_touched() {
        let (_supervisor, file) = FlightRecorder::create().unwrap();
        let about = file.metadata().unwrap();
        assert_eq!(about.len(), (WORDS * 8) as u64);
        assert!(about.blocks() * 512 >= about.len(), "{} blocks", about.blocks());
    }

    #[test]
    fn the_other_end_reads_what_was_noted() {
        let (supervisor, file) = FlightRecorder::create().unwrap();
        let path = FlightRecorder::path(&file);
        let worker = FlightRecorder::open(&path).unwrap();
        let name = std::fs::read_link(&path).unwrap();
        assert!(name.to_str().unwrap().ends_with("(deleted)"), "{name:?} has to be removed");
        drop(file);
        worker.begin("generator://csmith-v0/3", 0);
        for action in 0..2000 {
            if action == 1990 {
                worker.request();
            }
            worker.act();
        }
        worker.allow(Duration::from_millis(1500));
        let note = supervisor.read();
        assert_eq!((note.steps, note.begun), (2000, 10));
        assert_eq!(note.cpu_max_ms, 1500);
        assert_eq!(note.place(), "in the action, step 2000 on generator://csmith-v0/3");
        worker.begin("x", 0);
        let note = supervisor.read();
        assert_eq!(note.place(), "while it read the program, step 0 on x");
    }
}
