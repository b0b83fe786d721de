//! Clocks that jump: the time of a run is there to be shown, and nothing is ordered by it.

use std::sync::atomic::{AtomicUsize, Ordering};

use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Clock, Lake, ScanColumns, Table, to_the_end};
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Format, TableLimits, write};

use super::Tally;
use crate::fixtures::support::engine;
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::{Author, identity, read, sorted};

/// Now, years back, before the epoch, years ahead, and the last moment that a kernel's clock can
/// show.
const TIMES: [i64; 8] = [
    1_700_000_000_000,
    1_000_000_000_000,
    -86_400_000,
    0,
    4_102_444_800_000,
    1_700_000_000_000,
    9_223_372_036_854,
    1_000_000_000_001,
];

#[tokio::test]
async fn a_clock_that_jumps_between_runs_changes_nothing_but_what_is_shown() {
    let mut tally = Tally::default();
    for shift in 0..TIMES.len() {
        let folder = scratch();
        let path = folder.path().join("lake");
        let looks = AtomicUsize::new(shift);
        let clock = move || TIMES[looks.fetch_add(1, Ordering::Relaxed) % TIMES.len()];
        let lake = Lake::create(&path, &identity()).unwrap().with_clock(Clock::new(clock));
        let mut author = Author::default();
        let mut rows = Vec::new();
        for (number, place) in (1..).zip(0..TIMES.len()) {
            let mut writer = lake.writer().unwrap();
            let time = TIMES[(place + shift) % TIMES.len()];
            let run = writer.begin_run(&format!("{{\"seed\":{number}}}"), time).unwrap();
            assert_eq!(run, RunId(number));
            author.episode(EpisodeId::new(run, 0), 0, &[(1, Some(1)), (2, Some(2))]);
            let new = author.take();
            writer.append(&new).unwrap();
            rows.extend(new.steps);
            writer.seal().unwrap();
            dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end)
                .unwrap();
            writer.finish_run(run).unwrap();
        }
        assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
        assert_eq!(sorted(read(&lake)).steps, rows);
        let snapshot = lake.snapshot().unwrap();
        let transitions = snapshot.scan(Table::StateTransitions, ScanColumns::All);
        assert_eq!(transitions.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
        let history = snapshot.history().iter().map(|row| row.id).collect::<Vec<_>>();
        assert!(history.is_sorted() && history.len() > 16, "{history:?}");
        let runs = snapshot.runs().iter().map(|run| run.id.0).collect::<Vec<_>>();
        assert_eq!(runs, (1..=8).collect::<Vec<_>>());
        let engine = engine(&lake).await;
        for format in [Format::Table, Format::Csv, Format::Json] {
            for table in ["runs", "snapshots"] {
                let answer = engine.sql(&format!("SELECT * FROM {table}")).await.unwrap();
                let mut shown = Vec::new();
                write(answer, format, TableLimits::SCREEN, &mut shown).await.unwrap();
                assert!(shown.len() > 100, "{format}");
                tally.right += 1;
            }
        }
    }
    tally.report("clock jumps", 48);
}
