//! Stub vendors on loopback: real sockets, scripted behaviour, and a record of requests. Not for
//! assertions, nor for intelligible speech.
//!
//! ```text
//! let asr = ListenAiAsr::start(Behaviour::Normal, "hello").await;
//! connect_to(asr.url());
//! asr.until(|seen| seen.closed == 1).await;
//! ```

mod anthropic;
mod listenai;
mod openai;
mod sockets;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub use anthropic::AnthropicMessages;
pub use listenai::{FunAsr, ListenAiAsr, ListenAiTts};
pub use openai::{OpenAiChat, OpenAiSpeech, OpenAiTranscriptions};
pub use sockets::{Request, gone, read_request, respond};

/// Behaviour of a stub; changes at run time apply to later requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Follows its protocol.
    Normal,
    /// Accepts connections and drops them at once.
    Refuse,
    /// Breaks off during audio or an answer.
    ResetMidStream,
    /// Accepts everything and never answers, but ends cancelled requests.
    Silent,
    /// Waits for [`SLOW`] between any two pieces.
    Slow,
    /// Answers with something other than its protocol.
    Garbage,
    /// Gives an answer without text or without sound.
    Empty,
    /// A model that writes only its thoughts and no answer.
    Thinking,
    /// A model that repeats the calls in its reply, whatever it receives.
    Insistent,
    /// A model that makes the calls in the result of a tool, as `call NAME ARGUMENTS`.
    Obedient,
    /// Refuses request fields of later versions, with status 400.
    Old,
    /// Accepts neither `max_tokens` nor a temperature, like newer models, and says so.
    Newer,
    /// Ends its stream without a finish reason.
    Unended,
    /// Reports no usage, although requested.
    Untold,
    /// The same, and leaves the connection open after the answer.
    Lingering,
    /// Answers the HTTP request (also a handshake) with this status and `Retry-After` seconds.
    HttpStatus(u16, Option<u64>),
}

/// Pause of [`Behaviour::Slow`].
pub const SLOW: Duration = Duration::from_millis(100);

/// Number of samples in the sound of every synthesiser.
pub const SPEECH_SAMPLES: usize = 4_800;

/// Record of what a stub has received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Accepted connections.
    pub connections: usize,
    /// Closed connections, by either side.
    pub closed: usize,
    /// Requests: batches, sentences, HTTP requests.
    pub requests: usize,
    /// Received text messages; for HTTP the head and, if it is text, the body.
    pub texts: Vec<String>,
    /// Bytes of audio in all requests.
    pub audio_bytes: usize,
    /// Binary messages, or uploaded files.
    pub audio_messages: usize,
    /// WebSocket pings.
    pub pings: usize,
    /// Requests cancelled by a message.
    pub cancels: usize,
}

/// A running vendor; stops when dropped.
pub struct Stub {
    address: SocketAddr,
    scheme: &'static str,
    path: &'static str,
    shared: Shared,
    task: JoinHandle<()>,
}

/// State shared by the connections of a stub.
#[derive(Clone)]
struct Shared {
    behaviour: Arc<Mutex<Behaviour>>,
    seen: Arc<watch::Sender<Seen>>,
    says: Says,
}

/// Replies of a stub.
#[derive(Clone)]
enum Says {
    /// The same text or the same sound for everything.
    Words(Arc<str>),
    /// A transcript of s16le audio, or a reply to the last message.
    Answer(fn(&[u8]) -> String),
    /// The sound of a sentence, at 24 kHz.
    Sound(fn(&str) -> Vec<i16>),
}

impl Shared {
    fn behaviour(&self) -> Behaviour {
        *self.behaviour.lock().unwrap()
    }

    /// The text for this audio or question.
    fn words(&self, asked: &[u8]) -> String {
        match &self.says {
            Says::Words(words) => words.to_string(),
            Says::Answer(answer) => answer(asked),
            Says::Sound(_) => String::new(),
        }
    }

    /// The sound of this sentence, s16le at 24 kHz.
    fn sound(&self, sentence: &str) -> Vec<u8> {
        match &self.says {
            Says::Sound(sound) => sound(sentence).into_iter().flat_map(i16::to_le_bytes).collect(),
            _ => speech(),
        }
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        self.seen.send_modify(change);
    }
}

impl Stub {
    /// Serves each connection with `serve` on a free port.
    async fn start<F, S>(
        scheme: &'static str,
        path: &'static str,
        behaviour: Behaviour,
        says: Says,
        serve: S,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
        S: Fn(TcpStream, Shared) -> F + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared =
            Shared { behaviour: Arc::new(Mutex::new(behaviour)), seen: Arc::default(), says };
        let task = tokio::spawn(accept(listener, shared.clone(), serve));
        Self { address, scheme, path, shared, task }
    }

    /// Its URL, as the settings expect it.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.address, self.path)
    }

    /// Sets the behaviour from the next request on.
    pub fn set(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    /// The record so far.
    pub fn seen(&self) -> Seen {
        self.shared.seen.borrow().clone()
    }

    /// Clears the recorded texts, for long tests.
    pub fn forget_texts(&self) {
        self.shared.note(|seen| seen.texts.clear());
    }

    /// Waits until the record satisfies `wanted`; panics with the record after [`PATIENCE`](crate::PATIENCE).
    pub async fn until(&self, wanted: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.shared.seen.subscribe();
        let found = tokio::time::timeout(crate::PATIENCE, seen.wait_for(wanted)).await;
        match found {
            Ok(seen) => seen.expect("the stub holds the sender").clone(),
            Err(_) => panic!("timed out; so far: {:?}", self.seen()),
        }
    }
}

impl From<&str> for Says {
    fn from(words: &str) -> Self {
        Self::Words(words.into())
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<F, S>(listener: TcpListener, shared: Shared, serve: S)
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(TcpStream, Shared) -> F,
{
    let mut visits = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                shared.note(|seen| seen.connections += 1);
                stream.set_nodelay(true).unwrap();
                let visit = serve(stream, shared.clone());
                let shared = shared.clone();
                visits.spawn(async move {
                    if shared.behaviour() != Behaviour::Refuse {
                        visit.await;
                    }
                    shared.note(|seen| seen.closed += 1);
                });
            }
            Some(_) = visits.join_next() => {}
        }
    }
}

/// A loopback URL without a listener.
pub fn nowhere(scheme: &str) -> String {
    format!("{scheme}://127.0.0.1:{}", crate::free_port())
}

/// The sound of every synthesiser, s16le.
fn speech() -> Vec<u8> {
    (0..SPEECH_SAMPLES).flat_map(|i| speech_sample(i).to_le_bytes()).collect()
}

/// One sample of that sound: a sawtooth, so that lost or swapped bytes are noticed.
pub fn speech_sample(index: usize) -> i16 {
    i16::try_from(index % 6_000).expect("below 6000") - 3_000
}
