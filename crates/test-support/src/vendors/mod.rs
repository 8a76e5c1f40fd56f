//! Stub vendors on loopback: real sockets, scripted behaviour, a record of what they saw. Not for
//! assertions, and not for sound that anyone could understand.
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

/// How a stub behaves; may be changed while it runs, for requests that come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// As its protocol says.
    Normal,
    /// Takes connections and drops them at once.
    Refuse,
    /// Breaks off in the midst of audio or of an answer.
    ResetMidStream,
    /// Takes everything and never answers (but ends what is cancelled).
    Silent,
    /// [`SLOW`] between any two pieces.
    Slow,
    /// Answers with something else than its protocol.
    Garbage,
    /// An answer without words or without sound.
    Empty,
    /// A model that writes what it thinks, and no answer.
    Thinking,
    /// A model that calls what its words say again and again, whatever it is told.
    Insistent,
    /// A model that calls what the result of a tool says, as `call NAME ARGUMENTS`.
    Obedient,
    /// Refuses fields of requests that came with later versions, with status 400.
    Old,
    /// Takes no `max_tokens` and no temperature, as newer models, and says so.
    Newer,
    /// Does not say why an answer ended, only that its stream does.
    Unended,
    /// Does not tell what an answer cost, though asked.
    Untold,
    /// The same, and keeps the connection open behind the answer.
    Lingering,
    /// Answers the HTTP request (of the handshake too) with this status and `Retry-After` seconds.
    HttpStatus(u16, Option<u64>),
}

/// The pause of [`Behaviour::Slow`].
pub const SLOW: Duration = Duration::from_millis(100);

/// Samples of the sound that every synthesiser answers with.
pub const SPEECH_SAMPLES: usize = 4_800;

/// What a stub has seen so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections taken.
    pub connections: usize,
    /// Connections that ended, from either side.
    pub closed: usize,
    /// Requests: batches, sentences, HTTP requests.
    pub requests: usize,
    /// Text messages as they came; for HTTP the head and, where it is text, the body.
    pub texts: Vec<String>,
    /// Bytes of audio, of all requests together.
    pub audio_bytes: usize,
    /// Binary messages, or uploaded files.
    pub audio_messages: usize,
    /// WebSocket pings.
    pub pings: usize,
    /// Requests cancelled by a message.
    pub cancels: usize,
}

/// One vendor, running until dropped.
pub struct Stub {
    address: SocketAddr,
    scheme: &'static str,
    path: &'static str,
    shared: Shared,
    task: JoinHandle<()>,
}

/// What a stub's connections share.
#[derive(Clone)]
struct Shared {
    behaviour: Arc<Mutex<Behaviour>>,
    seen: Arc<watch::Sender<Seen>>,
    says: Says,
}

/// What a stub says to what it was asked.
#[derive(Clone)]
enum Says {
    /// The same words, or the same sound, to everything.
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

    /// The words for this audio or question.
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
    /// Serves each connection by `serve` on a free port.
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

    /// Where it is, in the form that the settings take.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.address, self.path)
    }

    /// Behaves differently from the next request on.
    pub fn set(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    /// What it has seen so far.
    pub fn seen(&self) -> Seen {
        self.shared.seen.borrow().clone()
    }

    /// Forgets the texts that it has seen, where a test goes on for long.
    pub fn forget_texts(&self) {
        self.shared.note(|seen| seen.texts.clear());
    }

    /// Waits until what it has seen satisfies `wanted`, at most [`PATIENCE`](crate::PATIENCE); then panics with what it saw.
    pub async fn until(&self, wanted: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.shared.seen.subscribe();
        let found = tokio::time::timeout(crate::PATIENCE, seen.wait_for(wanted)).await;
        match found {
            Ok(seen) => seen.expect("the stub holds the sender").clone(),
            Err(_) => panic!("never seen; so far: {:?}", self.seen()),
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

/// A loopback URL where nothing listens.
pub fn nowhere(scheme: &str) -> String {
    format!("{scheme}://127.0.0.1:{}", crate::free_port())
}

/// The sound that every synthesiser answers with, s16le.
fn speech() -> Vec<u8> {
    (0..SPEECH_SAMPLES).flat_map(|i| speech_sample(i).to_le_bytes()).collect()
}

/// One sample of that sound: a saw, so that any byte lost or swapped shows.
pub fn speech_sample(index: usize) -> i16 {
    i16::try_from(index % 6_000).expect("below 6000") - 3_000
}
