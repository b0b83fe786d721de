//! The batches of epochs.

use std::num::NonZeroU32;

use steplake::load::{Batch, BatchPlan, BatchRequest, Batches, Dataset, Permutation, Source};

use super::{by_row, open, rows_at};
use crate::fixtures::layered_lake::record;

/// The rows of some steps among many states.
fn steps(folder: &std::path::Path) -> Dataset {
    let path = |first: u32| (0..50).map(move |step| (step % 8, Some((first * 31 + step * 7) % 40)));
    let episodes = (0..4).map(|first| (first, path(first).collect())).collect();
    let lake = record(folder, &[episodes]);
    open(&lake, Source::Steps, &["Counts", "action", "next_Size", "step_index"], None).unwrap()
}

fn batch_request(dataset: &Dataset, batch_rows: u32, world_size: u32) -> BatchRequest {
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
        order: Some(Permutation::new(rows, 5, 2)),
        from: 0,
        stride: 1,
        threads: 0,
    }
}

fn read(dataset: &Dataset, request: BatchRequest) -> Vec<Batch> {
    Batches::new(dataset.clone(), request).collect()
}

#[test]
fn threads_do_not_change_the_batches() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = steps(folder.path());
    let request = batch_request(&dataset, 7, 1);
    let one = read(&dataset, request.clone());
    let order = request.order.clone().unwrap();
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
    let mut batches = Batches::new(dataset.clone(), request);
    assert!(batches.next().is_some());
    // Dropping it joins its threads.
    drop(batches);
}
