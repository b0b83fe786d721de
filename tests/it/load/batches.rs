//! The batches of epochs.

use std::num::{NonZeroU32, NonZeroUsize};

use steplake::load::{
    Batch, BatchPlan, BatchRequest, Batches, Epoch, MatrixCache, Permutation, Source, StreamLayout,
    StreamedRows, TrainingDataset,
};

use super::{by_row, open, rows_at};
use crate::fixtures::layered_lake::record;

/// The rows of some steps among many states.
fn steps(folder: &std::path::Path) -> TrainingDataset {
    let path = |first: u32| (0..50).map(move |step| (step % 8, Some((first * 31 + step * 7) % 40)));
    let episodes = (0..4).map(|first| (first, path(first).collect())).collect();
    let lake = record(folder, &[episodes]);
    open(&lake, Source::Steps, &["Counts", "action", "next_Size", "step_index"], None).unwrap()
}

fn batch_request(dataset: &TrainingDataset, batch_rows: u32, world_size: u32) -> BatchRequest {
    let some = |number| NonZeroU32::new(number).unwrap();
    let rows = u32::try_from(dataset.len()).unwrap();
    BatchRequest {
        plan: BatchPlan {
            rows,
            batch_rows: some(batch_rows),
            drop_last: false,
            world_size: some(world_size),
        },
        rank: 0,
        from: 0,
        stride: 1,
        threads: 0,
    }
}

fn order(dataset: &TrainingDataset) -> Permutation {
    Permutation::new(u32::try_from(dataset.len()).unwrap(), 5, 2)
}

fn mapped(dataset: &TrainingDataset) -> Epoch {
    Epoch::Mapped { dataset: dataset.clone(), order: Some(order(dataset)) }
}

fn read(dataset: &TrainingDataset, request: BatchRequest) -> Vec<Batch> {
    batches(&mapped(dataset), request)
}

fn batches(epoch: &Epoch, request: BatchRequest) -> Vec<Batch> {
    Batches::new(epoch.clone(), request).map(Result::unwrap).collect()
}

/// The rows in windows of 3 row groups, each of 16 rows.
fn streamed(dataset: &TrainingDataset, cache: &std::path::Path) -> StreamedRows {
    let layout = StreamLayout {
        group_rows: NonZeroU32::new(16).unwrap(),
        window_groups: NonZeroUsize::new(3).unwrap(),
    };
    StreamedRows::of(dataset, &MatrixCache::new(cache), layout).unwrap()
}

#[test]
fn threads_do_not_change_the_batches() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let request = batch_request(&dataset, 7, 1);
    let one = read(&dataset, request.clone());
    let order = order(&dataset);
    let places: Vec<u32> = (0..200).map(|place| order.row(place)).collect();
    let all = one.iter().flat_map(|batch| by_row(&dataset, batch.items, &batch.read.columns));
    assert_eq!(all.collect::<Vec<_>>(), rows_at(&dataset, &places));
    assert_eq!(one.len(), 29);
    for threads in [1, 2, 5] {
        assert_eq!(read(&dataset, BatchRequest { threads, ..request.clone() }), one);
    }
}

#[test]
fn an_epoch_goes_on_from_any_batch() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let request = batch_request(&dataset, 7, 1);
    let whole = read(&dataset, request.clone());
    for (taken, batch) in whole.iter().enumerate() {
        let rest = BatchRequest { from: batch.next, threads: taken % 3, ..request.clone() };
        assert_eq!(read(&dataset, rest), whole[taken + 1..]);
    }
}

#[test]
fn ranks_and_workers_divide_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    for world_size in [1, 2, 3] {
        for stride in [1, 2, 4] {
            let mut rows = Vec::new();
            for rank in 0..world_size {
                let mut batches = 0;
                for worker in 0..stride {
                    let request = batch_request(&dataset, 6, world_size);
                    let from = request.plan.later(0, worker.into());
                    let of_worker = BatchRequest { rank, from, stride, threads: 1, ..request };
                    for batch in read(&dataset, of_worker) {
                        rows.extend(by_row(&dataset, batch.items, &batch.read.columns));
                        batches += 1;
                    }
                }
                let wanted = 200_u32.div_ceil(6 * world_size);
                assert_eq!(batches, wanted, "{world_size} ranks, {stride} workers");
            }
            let mut all = super::rows(&dataset);
            for rows in [&mut rows, &mut all] {
                rows.sort_by(|one, other| one.partial_cmp(other).unwrap());
            }
            assert_eq!(rows, all);
        }
    }
}

#[test]
fn a_reader_that_stops_early_leaves_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let request = BatchRequest { threads: 3, ..batch_request(&dataset, 1, 1) };
    let mut batches = Batches::new(mapped(&dataset), request);
    assert!(batches.next().is_some());
    // Dropping it joins its threads.
    drop(batches);
}

fn sorted(mut rows: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    rows.sort_by(|one, other| one.partial_cmp(other).unwrap());
    rows
}

#[test]
fn streamed_rows_come_once_in_an_order_of_each_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let stream = streamed(&dataset, &folder.path().join("stream"));
    let epoch = |seed, epoch| {
        let read =
            batches(&Epoch::Streamed(stream.epoch(seed, epoch)), batch_request(&dataset, 7, 1));
        let rows = read.iter().flat_map(|batch| by_row(&dataset, batch.items, &batch.read.columns));
        rows.collect::<Vec<_>>()
    };
    let first = epoch(5, 2);
    assert_eq!(sorted(first.clone()), sorted(super::rows(&dataset)));
    assert_eq!(epoch(5, 2), first);
    for (seed, number) in [(5, 3), (6, 2)] {
        let other = epoch(seed, number);
        assert_eq!(sorted(other.clone()), sorted(first.clone()));
        let same = first.iter().zip(&other).filter(|(one, other)| one == other).count();
        assert!(same < 20, "{same} of 200 rows are at the same place");
    }
}

#[test]
fn a_streamed_epoch_goes_on_from_any_batch_with_any_threads() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let cache = folder.path().join("stream");
    let epoch = Epoch::Streamed(streamed(&dataset, &cache).epoch(1, 0));
    let request = batch_request(&dataset, 7, 1);
    let whole = batches(&epoch, request.clone());
    for (taken, batch) in whole.iter().enumerate() {
        // Another process opens the same files.
        let epoch = Epoch::Streamed(streamed(&dataset, &cache).epoch(1, 0));
        let rest = BatchRequest { from: batch.next, threads: taken % 4, ..request.clone() };
        assert_eq!(batches(&epoch, rest), whole[taken + 1..]);
    }
    let of_rank = |rank| {
        let request = BatchRequest { rank, threads: 2, ..batch_request(&dataset, 7, 2) };
        batches(&epoch, request)
    };
    let (one, two) = (of_rank(0), of_rank(1));
    let full = one.iter().zip(&two).flat_map(|(one, two)| [&one.read, &two.read]).take(28);
    assert!(full.eq(whole.iter().map(|batch| &batch.read).take(28)));
}

#[test]
fn threads_may_read_several_windows_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let stream = streamed(&dataset, &folder.path().join("stream"));
    for number in 0..40 {
        let epoch = || Epoch::Streamed(stream.epoch(1, number));
        // A batch has rows of two windows, and a thread begins with the next two.
        let request = batch_request(&dataset, 50, 1);
        let alone = batches(&epoch(), request.clone());
        assert_eq!(batches(&epoch(), BatchRequest { threads: 8, ..request }), alone);
    }
}

#[test]
fn rows_of_which_files_were_deleted_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let cache = folder.path().join("stream");
    let whole = |stream: &StreamedRows| {
        batches(&Epoch::Streamed(stream.epoch(1, 0)), batch_request(&dataset, 7, 1))
    };
    let first = whole(&streamed(&dataset, &cache));
    let is_folder = |path: &std::path::PathBuf| path.is_dir();
    let mut entries = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    let written = entries.find(is_folder).unwrap();
    // What a killed process leaves.
    std::fs::create_dir_all(written.with_extension("unfinished").join("data")).unwrap();
    let data = written.join("data");
    for gone in [data.join("rows-00000-of-00001.parquet"), data, written.clone()] {
        if gone.is_dir() {
            std::fs::remove_dir_all(&gone).unwrap();
        } else {
            std::fs::remove_file(&gone).unwrap();
        }
        assert_eq!(whole(&streamed(&dataset, &cache)), first);
        assert!(!written.with_extension("unfinished").exists());
    }
}

#[test]
fn a_damaged_file_ends_an_epoch_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let cache = folder.path().join("stream");
    streamed(&dataset, &cache);
    let mut entries = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    let written = entries.find(|path| path.is_dir()).unwrap();
    let file = written.join("data/rows-00000-of-00001.parquet");
    let bytes = std::fs::read(&file).unwrap();
    let half = vec![0; bytes.len() / 2];
    std::fs::write(&file, [&half, &bytes[half.len()..]].concat()).unwrap();
    let stream = streamed(&dataset, &cache);
    for threads in [0, 2] {
        let request = BatchRequest { threads, ..batch_request(&dataset, 50, 1) };
        let mut read = Batches::new(Epoch::Streamed(stream.epoch(0, 0)), request);
        let error = read.find_map(Result::err).unwrap().to_string();
        assert!(error.contains("rows-00000-of-00001.parquet"), "{error}");
        assert!(read.next().is_none());
    }
}
