//! The channel for the messages of an answer, which can be ended early.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Status;

/// Creates a channel: a sender, a handle that ends the channel early, and the stream of messages.
/// Senders wait while `waiting_max` messages are unread.
pub(crate) fn response_channel<T>(
    waiting_max: usize,
) -> (mpsc::Sender<T>, EarlyEnd<T>, ResponseStream<T>) {
    let (sender, receiver) = mpsc::channel(waiting_max);
    let shared = Shared { messages: Some(receiver), why: None, reader: None };
    let shared = Arc::new(Mutex::new(shared));
    (sender, EarlyEnd(Arc::clone(&shared)), ResponseStream(shared))
}

#[derive(Debug)]
struct Shared<T> {
    /// `None` once the answer has ended early.
    messages: Option<mpsc::Receiver<T>>,
    /// The reason for an early end.
    why: Option<Status>,
    reader: Option<Waker>,
}

/// Ends an answer early.
pub(crate) struct EarlyEnd<T>(Arc<Mutex<Shared<T>>>);

impl<T> EarlyEnd<T> {
    /// Drops unread messages at once, whether or not anybody reads them, prevents further ones,
    /// and tells the reader why.
    pub(crate) fn end(self, why: Status) {
        let mut shared = self.0.lock();
        shared.messages = None;
        shared.why = Some(why);
        if let Some(reader) = shared.reader.take() {
            reader.wake();
        }
    }
}

/// The messages of an answer. When it is dropped, the query ends.
#[derive(Debug)]
pub struct ResponseStream<T>(Arc<Mutex<Shared<T>>>);

impl<T> Stream for ResponseStream<T> {
    type Item = Result<T, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut shared = self.0.lock();
        shared.reader = Some(context.waker().clone());
        match &mut shared.messages {
            Some(messages) => messages.poll_recv(context).map(|message| message.map(Ok)),
            None => Poll::Ready(shared.why.take().map(Err)),
        }
    }
}

impl<T> Drop for ResponseStream<T> {
    fn drop(&mut self) {
        self.0.lock().messages = None;
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
    async fn an_early_end_drops_unread_messages() {
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
    async fn a_waiting_reader_gets_the_reason_of_the_end() {
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
