//! The log that `SQLite` keeps beside the database. `SQLite` reads it up to the first frame that is not what
//! was written, as it must after a power cut, and forgets the rest. Where more was committed after that
//! frame, no power cut did it: whole transactions that were acknowledged would be gone without a word.

use std::io;
use std::path::Path;

use super::{Disk, StoreError};

/// Bytes of a page of the database.
pub(super) const PAGE_BYTES: usize = 16_384;
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;
/// How often a log that looks damaged is read: a writer may be at work on it.
const TRIES: usize = 4;

/// Refuses a log that was damaged before its last transaction. Damage in the last transaction looks as what
/// a power cut leaves of one that was never acknowledged.
pub(super) fn demand_whole(log: &Path, disk: &Disk) -> Result<(), StoreError> {
    let mut found = None;
    for _ in 0..TRIES {
        let content = match disk.read(log) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::io("read", log)(error)),
        };
        let place = damage(&content);
        match (place, found) {
            (None, _) => return Ok(()),
            (Some(place), Some(before)) if place == before => {
                let what =
                    format!("its transactions from byte {place} on are not what was written");
                return Err(StoreError::corrupt(log, what));
            }
            _ => found = place,
        }
    }
    // It never looked twice the same: somebody writes to it.
    Ok(())
}

/// Where the first frame lies that is not what was written, if a transaction begins after the end of its own.
fn damage(content: &[u8]) -> Option<usize> {
    let (header, frames) = content.split_at_checked(HEADER_BYTES)?;
    let is_big = word(header, 0) == MAGIC | 1;
    let is_sound = sum((0, 0), &header[..24], is_big) == pair(header, 24, true);
    let salt = if is_sound { &header[16..24] } else { frames.get(8..16)? };
    // A header that a new log had when the power went is followed by frames of the old log.
    let alike = salt.iter().zip(&header[16..24]).filter(|(one, other)| one == other).count();
    if alike < salt.len() / 2 {
        return None;
    }
    let (mut first, mut is_over) = ((!is_sound).then_some(0), false);
    let mut before = pair(header, 24, true);
    let frame_bytes = FRAME_HEADER_BYTES + PAGE_BYTES;
    for (number, frame) in frames.chunks_exact(frame_bytes).enumerate() {
        let of_this_log = frame[8..16] == *salt;
        let own = pair(frame, 16, true);
        let chained = sum(before, &frame[..8], is_big);
        let chained = sum(chained, &frame[FRAME_HEADER_BYTES..], is_big);
        let is_sound = of_this_log && chained == own;
        match first {
            Some(place) if is_over && is_sound => return Some(place),
            None if !is_sound => first = Some(HEADER_BYTES + number * frame_bytes),
            _ => {}
        }
        // Every frame but the last of a transaction has a zero there.
        is_over |= first.is_some() && of_this_log && word(frame, 4) != 0;
        before = own;
    }
    None
}

/// `SQLite`'s checksum of a list of words, going on from one of what came before.
fn sum(before: (u32, u32), content: &[u8], is_big: bool) -> (u32, u32) {
    content.chunks_exact(8).fold(before, |(one, other), words| {
        let (left, right) = pair(words, 0, is_big);
        let one = one.wrapping_add(left).wrapping_add(other);
        (one, other.wrapping_add(right).wrapping_add(one))
    })
}

/// Numbers are big-endian, but for those that a sum is made of.
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
        let frame_bytes = FRAME_HEADER_BYTES + PAGE_BYTES;
        let frames = (content.len() - HEADER_BYTES) / frame_bytes;
        assert_eq!((content.len() - HEADER_BYTES) % frame_bytes, 0);
        assert_eq!(damage(&content), None);
        for frame in 0..=frames {
            assert_eq!(damage(&content[..HEADER_BYTES + frame * frame_bytes]), None);
        }
        let mut found = 0;
        for place in (0..content.len()).step_by(997).chain(0..HEADER_BYTES) {
            let mut changed = content.clone();
            changed[place] ^= 0x10;
            let place = place.saturating_sub(HEADER_BYTES) / frame_bytes;
            let at = damage(&changed);
            // The last transaction is a handful of frames.
            assert!(at.is_some() || place + 6 > frames, "a bit in frame {place} of {frames}");
            found += usize::from(at.is_some());
        }
        assert!(found > 50);
    }
}
