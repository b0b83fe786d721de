//! Messages that wait for the reader of an answer, and the end of an answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::Stream;
use tokio::sync::mpsc;
use tonic::Status;

/// Creates a channel for messages: what is sent into the first part comes out of the last in order,
/// and the second can end it early. Senders wait while `waiting_max` messages wait.
pub(crate) fn response_channel<T>(waiting_max: usize) -> (mpsc::Sender<T>, Ending<T>, Reading<T>) {
    let (sender, receiver) = mpsc::channel(waiting_max);
    let waiting = Waiting { messages: Some(receiver), why: None, reader: None };
    let waiting = Arc::new(Mutex::new(waiting));
    (sender, Ending(Arc::clone(&waiting)), Reading(waiting))
}

struct Waiting<T> {
    /// `None` once the answer has ended early.
    messages: Option<mpsc::Receiver<T>>,
    /// The reason for an early end.
    why: Option<Status>,
    reader: Option<Waker>,
}

fn lock<T>(waiting: &Mutex<Waiting<T>>) -> MutexGuard<'_, Waiting<T>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends an answer early.
pub(crate) struct Ending<T>(Arc<Mutex<Waiting<T>>>);

impl<T> Ending<T> {
    /// Drops waiting messages at once, whether or not anybody reads them, prevents further ones,
    /// and tells the reader why.
    pub(crate) fn end(self, why: Status) {
        let mut waiting = lock(&self.0);
        waiting.messages = None;
        waiting.why = Some(why);
        if let Some(reader) = waiting.reader.take() {
            reader.wake();
        }
    }
}

/// The reader's side. When it is dropped, the senders notice.
pub(crate) struct Reading<T>(Arc<Mutex<Waiting<T>>>);

impl<T> Stream for Reading<T> {
    type Item = Result<T, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut waiting = lock(&self.0);
        waiting.reader = Some(context.waker().clone());
        match &mut waiting.messages {
            Some(messages) => messages.poll_recv(context).map(|message| message.map(Ok)),
            None => Poll::Ready(waiting.why.take().map(Err)),
        }
    }
}

impl<T> Drop for Reading<T> {
    fn drop(&mut self) {
        lock(&self.0).messages = None;
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use futures::future::join;

    use super::*;

    #[tokio::test]
    async fn messages_come_in_their_order_and_then_the_end() {
        let (sender, ending, reading) = response_channel(2);
        let sending = async move {
            for number in 0..5 {
                sender.send(number).await.unwrap();
            }
        };
        let (found, ()) = join(reading.map(Result::unwrap).collect::<Vec<_>>(), sending).await;
        assert_eq!(found, [0, 1, 2, 3, 4]);
        drop(ending);
    }

    #[tokio::test]
    async fn an_end_lets_go_of_what_waits() {
        let (sender, ending, mut reading) = response_channel(2);
        let message = Arc::new(());
        sender.send(Arc::clone(&message)).await.unwrap();
        sender.send(Arc::clone(&message)).await.unwrap();
        ending.end(Status::deadline_exceeded("too late"));
        assert_eq!(Arc::strong_count(&message), 1);
        assert!(sender.send(message).await.is_err());
        let told = reading.next().await.unwrap().unwrap_err();
        assert_eq!(told.message(), "too late");
        assert!(reading.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_told_of_the_end() {
        let (_sender, ending, mut reading) = response_channel::<()>(1);
        let next = tokio::spawn(async move { reading.next().await });
        tokio::task::yield_now().await;
        ending.end(Status::unavailable("stopping"));
        let told = next.await.unwrap().unwrap().unwrap_err();
        assert_eq!(told.message(), "stopping");
    }

    #[tokio::test]
    async fn a_reader_that_leaves_is_noticed() {
        let (sender, _ending, reading) = response_channel::<()>(1);
        drop(reading);
        sender.closed().await;
    }
}
