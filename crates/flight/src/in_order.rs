//! Work that is done on several threads, and whose results come in order.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use steplake_server::RowStream;
use tokio::task::JoinSet;
use tonic::Status;

/// Does `work` on each of `items`, on `at_once` threads of the current runtime at most. The results
/// come in the order of the items.
///
/// At most `at_once` items are taken whose results nobody has read: a slow reader stops the work.
/// No item is taken after an error among them, which is the last result. When the stream is
/// dropped, work that has not begun never does; the rest keeps `work` until it ends.
///
/// # Panics
///
/// If `work` does, or outside a runtime.
pub(crate) fn in_order<I, T, W>(items: RowStream<I>, at_once: NonZeroUsize, work: W) -> RowStream<T>
where
    I: Send + 'static,
    T: Send + 'static,
    W: Fn(I) -> Result<T, Status> + Send + Sync + 'static,
{
    let work = Arc::new(work);
    let results = until_error(items).map(move |item| {
        let work = Arc::clone(&work);
        async move {
            let item = item?;
            on_some_thread(move || work(item)).await
        }
    });
    results.buffered(at_once.get()).boxed()
}

/// Ends a stream after its first error, and drops it then.
fn until_error<I: Send + 'static>(items: RowStream<I>) -> RowStream<I> {
    let items = stream::unfold(Some(items), |items| async {
        let mut items = items?;
        let item = items.next().await?;
        let rest = item.is_ok().then_some(items);
        Some((item, rest))
    });
    items.boxed()
}

async fn on_some_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    // Unlike a spawned task, a task in a `JoinSet` ends when nobody waits for it any more.
    let mut task = JoinSet::new();
    task.spawn(async move { work() });
    match task.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(died)) => match died.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_ended) => Err(Status::unavailable("the server is being stopped")),
        },
        None => Err(Status::internal("the rows were not encoded")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use futures::FutureExt as _;
    use parking_lot::Mutex;
    use tokio::task::block_in_place;

    use super::*;

    const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Returns a stream of `items`, and how many of them were taken.
    fn counted(items: Vec<Result<usize, Status>>) -> (RowStream<usize>, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        let items = stream::iter(items).inspect(move |_item| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (items.boxed(), taken)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn later_work_goes_on_while_earlier_work_lasts_and_its_result_waits() {
        let (done, is_done) = mpsc::channel();
        let is_done = Mutex::new(is_done);
        let (items, _) = counted((0..6).map(Ok).collect());
        // Each even item lasts until the odd one after it is done.
        let results = in_order(items, TWO, move |item| {
            if item % 2 == 0 {
                // Work that waits for other work has to leave its thread to it.
                let waited = block_in_place(|| is_done.lock().recv_timeout(PATIENCE));
                assert_eq!(waited, Ok(item + 1));
            } else {
                done.send(item).unwrap();
            }
            Ok(item)
        });
        let results: Vec<_> = results.map(Result::unwrap).collect().await;
        assert_eq!(results, [0, 1, 2, 3, 4, 5]);
    }

    #[tokio::test]
    async fn no_more_is_taken_than_may_wait_for_the_reader() {
        let (items, taken) = counted((0..100).map(Ok).collect());
        let mut results = in_order(items, TWO, Ok);
        for read in 0..10 {
            assert_eq!(results.next().await.unwrap().unwrap(), read);
            let waiting = taken.load(Ordering::Relaxed) - (read + 1);
            assert!(waiting <= TWO.get(), "{waiting} items are taken and not read");
        }
    }

    #[tokio::test]
    async fn an_error_comes_in_its_place_and_is_the_last() {
        let failed = Err(Status::internal("failed"));
        let (items, taken) = counted(vec![Ok(0), Ok(1), failed, Ok(3), Ok(4)]);
        let four = TWO.saturating_mul(TWO);
        let results: Vec<_> = in_order(items, four, Ok).collect().await;
        let said: Vec<_> =
            results.iter().map(|item| item.as_ref().map_err(Status::message)).collect();
        assert_eq!(said, [Ok(&0), Ok(&1), Err("failed")]);
        assert_eq!(taken.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn work_that_has_not_begun_when_its_reader_leaves_never_does() {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let (items, taken) = counted((0..100).map(Ok).collect());
        let mut results = in_order(items, TWO, move |item| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(item)
        });
        // This test has one thread, on which nothing else runs before it waits.
        assert!(results.next().now_or_never().is_none());
        assert_eq!(taken.load(Ordering::Relaxed), TWO.get());
        drop(results);
        tokio::task::yield_now().await;
        assert_eq!(begun.load(Ordering::Relaxed), 0);
        assert_eq!(Arc::strong_count(&begun), 1, "the work is kept");
    }

    #[tokio::test]
    async fn work_that_dies_takes_its_reader_with_it() {
        let (items, _) = counted(vec![Ok(0)]);
        let results = in_order::<_, (), _>(items, TWO, |_item| panic!("a defect"));
        let reader = tokio::spawn(results.collect::<Vec<_>>());
        assert!(reader.await.unwrap_err().is_panic());
    }
}
