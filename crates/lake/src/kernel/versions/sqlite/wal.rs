//! Checks of `SQLite`'s log. `SQLite` reads the log up to the first damaged frame, as it has to
//! after a power cut, and ignores the rest. If transactions were committed after that frame, a
//! power cut cannot be the cause, and `SQLite` would silently drop acknowledged transactions.

use std::io;
use std::path::Path;

use crate::kernel::error::LakeError;
use crate::kernel::files::disk::{Disk, DiskReader};

/// Bytes of a page of the database.
pub(crate) const PAGE_BYTES: usize = 16_384;
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;
const FRAME_BYTES: usize = FRAME_HEADER_BYTES + PAGE_BYTES;
/// Frames that are read at once. A log has about a thousand.
const FRAMES_AT_ONCE: usize = 16;
/// How often a log that looks damaged is read. A writer may be changing it.
const TRIES: usize = 4;

/// Refuses a log with damage before its last transaction. Damage in the last transaction looks like
/// what a power cut leaves of an unacknowledged one.
pub(crate) fn demand_whole(log: &Path, disk: &Disk) -> Result<(), LakeError> {
    let mut found = None;
    for _ in 0..TRIES {
        let look = |file: DiskReader| damage(|buffer, at| file.read_at(buffer, at));
        let place = match disk.open(log).and_then(look) {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(LakeError::io("read", log)(error)),
        };
        match (place, found) {
            (None, _) => return Ok(()),
            (Some(place), Some(before)) if place == before => {
                let what =
                    format!("its transactions from byte {place} on are not what was written");
                return Err(LakeError::corrupt(log, what));
            }
            _ => found = place,
        }
    }
    // No two reads agreed, so a writer is changing the log.
    Ok(())
}

/// The offset of the first damaged frame, if another transaction follows the one of that frame.
/// `read` fills a buffer from an offset in the log and returns the number of bytes.
fn damage(mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>) -> io::Result<Option<usize>> {
    let mut header = [0; HEADER_BYTES];
    if read(&mut header, 0)? < HEADER_BYTES {
        return Ok(None);
    }
    let mut at = HEADER_BYTES as u64;
    let mut buffer = vec![0; FRAMES_AT_ONCE * FRAME_BYTES];
    let mut frames: Option<Frames> = None;
    loop {
        let length = read(&mut buffer, at)?;
        let mut whole = buffer[..length].chunks_exact(FRAME_BYTES);
        if frames.is_none() {
            frames = whole.clone().next().and_then(|first| Frames::after(&header, first));
        }
        let Some(frames) = &mut frames else { return Ok(None) };
        if let Some(place) = whole.find_map(|frame| frames.next(frame)) {
            return Ok(Some(place));
        }
        if length < buffer.len() {
            return Ok(None);
        }
        at += length as u64;
    }
}

/// The frames of a log that were read so far.
struct Frames {
    /// The salt of this log. Frames with another salt are left over from an older log.
    salt: [u8; 8],
    is_big: bool,
    /// The checksum of the last frame.
    sum: (u32, u32),
    count: usize,
    /// The offset of the first damaged frame.
    first: Option<usize>,
    /// Whether the transaction of that frame has ended.
    is_over: bool,
}

impl Frames {
    /// Begins after a header, given also the first frame. None if the two belong to different logs.
    fn after(header: &[u8; HEADER_BYTES], frame: &[u8]) -> Option<Self> {
        let is_big = word(header, 0) == MAGIC | 1;
        let is_sound = sum((0, 0), &header[..24], is_big) == pair(header, 24, true);
        let salt = if is_sound { &header[16..24] } else { &frame[8..16] };
        // If the power failed after the header of a new log, frames of the old log follow it.
        let alike = salt.iter().zip(&header[16..24]).filter(|(one, other)| one == other).count();
        (alike >= salt.len() / 2).then(|| Self {
            salt: salt.try_into().expect("eight bytes"),
            is_big,
            sum: pair(header, 24, true),
            count: 0,
            first: (!is_sound).then_some(0),
            is_over: false,
        })
    }

    /// Takes the next frame. Returns the offset of the damage once it is certain.
    fn next(&mut self, frame: &[u8]) -> Option<usize> {
        let of_this_log = frame[8..16] == self.salt;
        let is_sound = of_this_log && {
            let head = sum(self.sum, &frame[..8], self.is_big);
            sum(head, &frame[FRAME_HEADER_BYTES..], self.is_big) == pair(frame, 16, true)
        };
        match self.first {
            Some(place) if self.is_over && is_sound => return Some(place),
            None if !is_sound => self.first = Some(HEADER_BYTES + self.count * FRAME_BYTES),
            _ => {}
        }
        // This word is 0 in every frame of a transaction except the last.
        self.is_over |= self.first.is_some() && of_this_log && word(frame, 4) != 0;
        self.sum = pair(frame, 16, true);
        self.count += 1;
        None
    }
}

/// `SQLite`'s checksum of a list of words, continued from the checksum of the words before.
fn sum(before: (u32, u32), content: &[u8], is_big: bool) -> (u32, u32) {
    content.chunks_exact(8).fold(before, |(one, other), words| {
        let (left, right) = pair(words, 0, is_big);
        let one = one.wrapping_add(left).wrapping_add(other);
        (one, other.wrapping_add(right).wrapping_add(one))
    })
}

/// Reads a big-endian word. Only the words of checksums may have another order.
fn word(content: &[u8], at: usize) -> u32 {
    pair(content, at, true).0
}

fn pair(content: &[u8], at: usize, is_big: bool) -> (u32, u32) {
    let word = |at: usize| {
        let bytes = content[at..at + 4].try_into().expect("four bytes");
        let word = u32::from_le_bytes(bytes);
        if is_big { word.swap_bytes() } else { word }
    };
    (word(at), word(at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_before_the_last_transaction_is_damage_and_a_lost_end_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.sqlite");
        let connection = rusqlite::Connection::open(&path).unwrap();
        let sql = "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; CREATE TABLE t (x)";
        connection.execute_batch(sql).unwrap();
        for _ in 0..5 {
            connection.execute("INSERT INTO t VALUES (randomblob(40000))", []).unwrap();
        }
        let log = folder.path().join("some.sqlite-wal");
        let content = std::fs::read(&log).unwrap();
        let damage = |content: &[u8]| {
            let read = |buffer: &mut [u8], at| {
                let rest = content.get(usize::try_from(at).unwrap()..).unwrap_or_default();
                let length = rest.len().min(buffer.len());
                buffer[..length].copy_from_slice(&rest[..length]);
                Ok(length)
            };
            damage(read).unwrap()
        };
        let frames = (content.len() - HEADER_BYTES) / FRAME_BYTES;
        assert_eq!((content.len() - HEADER_BYTES) % FRAME_BYTES, 0);
        assert_eq!(damage(&content), None);
        for frame in 0..=frames {
            assert_eq!(damage(&content[..HEADER_BYTES + frame * FRAME_BYTES]), None);
        }
        let mut found = 0;
        for place in (0..content.len()).step_by(997).chain(0..HEADER_BYTES) {
            let mut changed = content.clone();
            changed[place] ^= 0x10;
            let place = place.saturating_sub(HEADER_BYTES) / FRAME_BYTES;
            let at = damage(&changed);
            // The last transaction is a handful of frames.
            assert!(at.is_some() || place + 6 > frames, "a bit in frame {place} of {frames}");
            found += usize::from(at.is_some());
        }
        assert!(found > 50);
    }
}
