//! Reader of the texts of one connection, in order. It parses long texts off the worker thread, so
//! that other connections do not wait. Not for the content of a text.

use std::ops::Deref;

use hearken_proto::json::LONG_TEXT;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::Repair;

/// Maximum number of texts that are parsed off the worker threads at once; each connection has at
/// most one of them. The others wait in the order of their arrival.
const MAX_AT_ONCE: usize = 4;

static PLACES: Semaphore = Semaphore::const_new(MAX_AT_ONCE);

impl Repair {
    /// Parses the messages of one text as [`Repair::read`] does, off the worker thread if it is
    /// long.
    pub(crate) async fn read_apart(&self, text: String) -> Vec<ServerJsonRpcMessage> {
        if text.len() < LONG_TEXT { self.read(&text) } else { apart(self.clone(), text).await }
    }
}

async fn apart<T>(repair: Repair, text: T) -> Vec<ServerJsonRpcMessage>
where
    T: Deref<Target = str> + Send + 'static,
{
    // Never closed.
    let place = PLACES.acquire().await.ok();
    // The permit is held to the end of the work, even if the reader is dropped.
    let work = move || {
        let _place = place;
        repair.read(&text)
    };
    // This fails only while the runtime ends.
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}

/// Messages of one connection, in the order of their texts.
pub(crate) struct MessageReader {
    repair: Repair,
    /// Text that is being parsed off the worker thread.
    reading: Option<JoinHandle<Vec<ServerJsonRpcMessage>>>,
    /// Parsed messages, in reverse order.
    read: Vec<ServerJsonRpcMessage>,
}

impl MessageReader {
    pub(crate) fn new(repair: Repair) -> Self {
        Self { repair, reading: None, read: Vec::new() }
    }

    /// Records a sent message: the answer is read according to its request.
    pub(crate) fn note(&self, sent: &ClientJsonRpcMessage) {
        self.repair.note(sent);
    }

    /// Starts reading a text, once [`Self::next`] has returned `None`.
    pub(crate) fn begin<T>(&mut self, text: T)
    where
        T: Deref<Target = str> + Send + 'static,
    {
        if text.len() < LONG_TEXT {
            self.read = self.repair.read(&text);
            self.read.reverse();
        } else {
            self.reading = Some(tokio::spawn(apart(self.repair.clone(), text)));
        }
    }

    /// Fails the request that a text answers, given only the beginning of the text, as
    /// [`Self::begin`] would.
    pub(crate) fn begin_unread(&mut self, begin: &str, why: &str) {
        self.read.extend(self.repair.unread(begin, why));
    }

    /// Returns the next message; `None` if another text is needed. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        if let Some(reading) = &mut self.reading {
            self.read = reading.await.unwrap_or_default();
            self.read.reverse();
            self.reading = None;
        }
        self.read.pop()
    }
}

impl Drop for MessageReader {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            reading.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn answer(id: i32, length: usize) -> String {
        json!({"jsonrpc": "2.0", "id": id, "result": {"text": "x".repeat(length)}}).to_string()
    }

    async fn ids(reader: &mut MessageReader) -> Vec<serde_json::Value> {
        let mut ids = Vec::new();
        while let Some(message) = reader.next().await {
            ids.push(serde_json::to_value(message).unwrap()["id"].clone());
        }
        ids
    }

    #[tokio::test]
    async fn long_texts_are_read_off_the_worker_thread_and_in_order() {
        let mut reader = MessageReader::new(Repair::default());
        let mut all = Vec::new();
        for text in [
            answer(1, LONG_TEXT),
            answer(2, 1),
            format!("[{},{}]", answer(3, LONG_TEXT), answer(4, 1)),
        ] {
            let is_long = text.len() >= LONG_TEXT;
            reader.begin(text);
            assert_eq!(reader.reading.is_some(), is_long);
            all.extend(ids(&mut reader).await);
        }
        assert_eq!(all, [1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_text_is_parsed_even_if_its_reader_is_dropped() {
        let held: Vec<_> = (0..MAX_AT_ONCE).map(|_| PLACES.try_acquire()).collect();
        let mut reader = MessageReader::new(Repair::default());
        reader.begin(answer(1, LONG_TEXT));
        tokio::task::yield_now().await;
        if held.iter().all(Result::is_ok) {
            assert!(reader.next().now_or_never().is_none(), "all permits are taken");
        }
        drop(held);
        assert_eq!(ids(&mut reader).await, [1]);
    }
}
