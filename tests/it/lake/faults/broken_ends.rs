//! Power cuts in the middle of a commit, which break the end of `SQLite`'s log.

use std::ops::Range;
use std::path::Path;

use steplake::lake::{Lake, Rows};
use steplake::model::EpisodeId;

use super::Places;
use crate::fixtures::support::{copy_folder, scratch};
use crate::fixtures::toy_lake::{Author, ir_row, read, state};
use crate::lake::repair::{RUN, findings, record};

const HEADER_BYTES: usize = 32;
const FRAME_BYTES: usize = 24 + 16_384;

fn log(lake: &Path) -> Vec<u8> {
    std::fs::read(lake.join("hot.sqlite-wal")).unwrap_or_default()
}

fn frame(number: usize) -> Range<usize> {
    let start = HEADER_BYTES + number * FRAME_BYTES;
    start..start + FRAME_BYTES
}

/// Copies a lake in which somebody writes as a power cut leaves it: of what was written to
/// `SQLite`'s log since `before`, all is there but the first frame.
fn cut(from: &Path, to: &Path, before: &[u8]) {
    copy_folder(from, to);
    // It is in memory alone.
    std::fs::remove_file(to.join("hot.sqlite-shm")).unwrap();
    let mut content = log(to);
    let count = (content.len() - HEADER_BYTES) / FRAME_BYTES;
    let mut new =
        (0..count).filter(|&number| before.get(frame(number)) != content.get(frame(number)));
    let first = new.next().expect("something was written");
    content[frame(first).start + FRAME_BYTES / 2] ^= 1;
    std::fs::write(to.join("hot.sqlite-wal"), content).unwrap();
}

/// Rows that take many frames.
fn many() -> Rows {
    let mut places = Places(7);
    let noise = (0..80_000).flat_map(|_| places.next().to_le_bytes()).collect::<Vec<_>>();
    Rows { ir: vec![ir_row(state(90), &noise)], ..Rows::default() }
}

/// Rows that take a few frames.
fn few(ordinal: u32) -> Rows {
    let (first, mut author) = (100 * ordinal, Author::default());
    author.episode(EpisodeId::new(RUN, ordinal), first, &[(1, Some(first + 1))]);
    author.take()
}

#[test]
fn two_power_cuts_that_break_the_end_of_the_log_leave_a_sound_lake() {
    let folder = scratch();
    let origin = record(&folder.path().join("origin"));
    let mut writer = origin.writer().unwrap();
    writer.append(&few(8)).unwrap();
    let (before, wanted) = (log(origin.path()), read(&origin));
    writer.append(&many()).unwrap();
    let once = folder.path().join("once");
    cut(origin.path(), &once, &before);
    drop(writer);

    let mut writer = Lake::open(&once).unwrap().writer().unwrap();
    let before = log(&once);
    writer.append(&few(9)).unwrap();
    let twice = folder.path().join("twice");
    cut(&once, &twice, &before);
    drop(writer);

    let lake = Lake::open(&twice).unwrap();
    assert_eq!(read(&lake), wanted);
    assert_eq!(findings(&lake), [""; 0]);
    drop(lake.writer().unwrap());
    assert_eq!(read(&lake), wanted);
}
