//! Ranges of a segment's file.

use std::fs;

use steplake::lake::Table;

use crate::query::reading::record_many_states;

#[test]
fn ranges_of_a_file_are_the_same_alone_and_together() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record_many_states(folder.path());
    let snapshot = lake.snapshot().unwrap();
    let [segment] = snapshot.segments(Table::Ir) else { panic!("one segment of IR") };
    let (file, bytes) = (segment.open().unwrap(), segment.bytes);
    let whole = fs::read(&segment.path).unwrap();
    assert!(bytes > 300_000, "several blocks: {bytes} bytes");
    let all = [
        vec![0..10, 10..70_000, 70_000..70_000, 140_000..200_000, 200_100..bytes],
        vec![200_000..200_010, 0..10, 5..20, 20..30],
        vec![],
    ];
    for ranges in all {
        let parts = file.read_ranges(&ranges).unwrap();
        let at = |number: u64| usize::try_from(number).unwrap();
        let wanted: Vec<_> =
            ranges.iter().map(|range| &whole[at(range.start)..at(range.end)]).collect();
        assert_eq!(parts, wanted, "{ranges:?}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "a damaged footer may say so")]
    for wrong in [vec![0..10, 10..bytes + 1], vec![0..10, 20..15]] {
        assert!(file.read_ranges(&wrong).is_err(), "{wrong:?}");
    }
}
