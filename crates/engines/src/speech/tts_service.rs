//! The synthesis service: the ListenAI protocol of `hearken_proto::speech::tts`. Parses commands
//! and admits requests; the processing of one request is in `tts_request`.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use hearken_proto::json;
use hearken_proto::speech::tts::{MAX_TEXT_CHARS, TtsCommand, TtsEvent, TtsParams};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::engine::VoicePair;
use super::phrase_cache::PhraseCache;
use super::plan::{self, Unit};
use super::pool::Pool;
use super::socket::{self, End, OUT_LEN, Socket};
use super::tts_request::{self, Inner, Request, error_event};
use super::voice_speeds::VoiceSpeeds;

/// Accepted speaking rates.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.5..=2.0;

/// Synthesis service.
#[derive(Clone)]
pub struct TtsService {
    inner: Arc<Inner>,
}

impl TtsService {
    /// Creates a service with these speakers (at least one; the first is the default). It works on
    /// up to `most_requests` requests at once, and caches `cache_bytes` of spoken phrases.
    pub fn new(
        speakers: Vec<VoicePair>,
        pool: Arc<Pool>,
        paces: Arc<VoiceSpeeds>,
        most_requests: usize,
        cache_bytes: usize,
    ) -> Self {
        let room = Arc::new(Semaphore::new(most_requests));
        let phrases = PhraseCache::new(cache_bytes);
        Self { inner: Arc::new(Inner { speakers, pool, paces, phrases, room }) }
    }

    /// Serves `listener` until `stop` is cancelled; paths `/` and `/tts`.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let connections = stop.clone();
        socket::accept(listener, &["/", "/tts"], socket::MAX_CONNECTIONS, stop, move |socket| {
            converse(Arc::clone(&self.inner), socket, connections.child_token())
        })
        .await;
    }
}

/// Serves one connection, from handshake to close. Its requests end with it.
async fn converse(service: Arc<Inner>, socket: Socket, stop: CancellationToken) {
    let _cancel_requests = stop.clone().drop_guard();
    let (mut sink, mut stream) = socket.split();
    let (out, written) = mpsc::channel(OUT_LEN);
    let mut session = Session {
        service,
        out,
        connection: stop.clone(),
        open: HashMap::new(),
        running: JoinSet::new(),
    };
    let reading = async {
        loop {
            let message = tokio::select! {
                message = socket::next(&mut stream) => message,
                Some(ended) = session.running.join_next(), if !session.running.is_empty() => {
                    session.ended(ended);
                    continue;
                }
            };
            let answer = match message {
                Err(end) => return end,
                Ok(Message::Text(text)) => session.command(&text),
                Ok(_) => {
                    Some(error_event(None, "INVALID_PARAMS", "binary messages are not supported"))
                }
            };
            if let Some(event) = answer
                && session.out.send(Message::text(event.encode())).await.is_err()
            {
                return End::Theirs;
            }
        }
    };
    let end = tokio::select! {
        end = reading => end,
        end = socket::write(&mut sink, written, stop) => end,
    };
    // Ends the requests before the close handshake, which may take a while.
    drop(session);
    socket::end(sink, stream, end).await;
}

struct Session {
    service: Arc<Inner>,
    out: mpsc::Sender<Message>,
    connection: CancellationToken,
    open: HashMap<String, CancellationToken>,
    running: JoinSet<String>,
}

impl Session {
    fn ended(&mut self, ended: Result<String, tokio::task::JoinError>) {
        match ended {
            Ok(request_id) => drop(self.open.remove(&request_id)),
            Err(error) => tracing::error!(%error, "a synthesis request panicked"),
        }
    }

    /// Executes a command. Returns the reply if there is one immediately.
    fn command(&mut self, text: &str) -> Option<TtsEvent> {
        match parse(text) {
            Err(event) => Some(event),
            Ok(TtsCommand::Ping { timestamp }) => Some(TtsEvent::Pong { timestamp }),
            Ok(TtsCommand::Cancel { request_id }) => match self.open.get(&request_id) {
                Some(stop) => {
                    // The request itself replies, after its last frame.
                    stop.cancel();
                    None
                }
                None => {
                    Some(error_event(Some(request_id), "INVALID_PARAMS", "no such request is open"))
                }
            },
            Ok(TtsCommand::TtsRequest { request_id, params }) => self
                .start(&request_id, params)
                .err()
                .map(|(code, why)| error_event(Some(request_id), code, &why)),
        }
    }

    fn start(&mut self, id: &str, params: TtsParams) -> Result<(), (&'static str, String)> {
        let invalid = |why: &str| ("INVALID_PARAMS", why.to_owned());
        if id.is_empty() || id.len() > 256 {
            return Err(invalid("request_id must have 1 to 256 bytes"));
        }
        if self.open.contains_key(id) {
            return Err(invalid("a request with this request_id is open"));
        }
        let units = self.check(&params)?;
        let speaker = self.speaker(params.voice_id.as_deref())?;
        let full = || ("QUEUE_FULL", "too many requests are waiting; try again".to_owned());
        let room = Arc::clone(&self.service.room).try_acquire_owned().map_err(|_| full())?;
        let stop = self.connection.child_token();
        self.open.insert(id.to_owned(), stop.clone());
        let request = Request {
            id: id.to_owned(),
            units,
            speaker,
            mode: params.mode,
            speed: params.speed.unwrap_or(1.0) as f32,
            stop,
        };
        let service = Arc::clone(&self.service);
        let out = self.out.clone();
        self.running.spawn(async move {
            let id = request.id.clone();
            tts_request::run(&service, request, &out).await;
            drop(room);
            id
        });
        Ok(())
    }

    fn check(&self, params: &TtsParams) -> Result<Vec<Unit>, (&'static str, String)> {
        let length = params.text.chars().count();
        if length > MAX_TEXT_CHARS {
            let why =
                format!("the text has {length} characters, at most {MAX_TEXT_CHARS} are spoken");
            return Err(("TEXT_TOO_LONG", why));
        }
        if params.speed.is_some_and(|speed| !SPEEDS.contains(&speed)) {
            return Err(("INVALID_PARAMS", "speed must be between 0.5 and 2.0".to_owned()));
        }
        let units = plan::units(&params.text);
        if units.is_empty() {
            return Err(("INVALID_PARAMS", "the text has nothing that can be spoken".to_owned()));
        }
        Ok(units)
    }

    fn speaker(&self, id: Option<&str>) -> Result<VoicePair, (&'static str, String)> {
        let speakers = &self.service.speakers;
        let found = match id {
            None | Some("" | "default") => speakers.first(),
            Some(id) => speakers.iter().find(|speaker| &*speaker.id == id),
        };
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = speakers.iter().map(|speaker| &*speaker.id).collect();
            ("VOICE_NOT_FOUND", format!("no such voice; there are {}", known.join(", ")))
        })
    }
}

/// Parses a command. Returns an error event with the protocol's own code if it is invalid.
fn parse(text: &str) -> Result<TtsCommand, TtsEvent> {
    let fields = json::object(text.as_bytes())
        .map_err(|error| error_event(None, "INVALID_JSON", &error.to_string()))?;
    let request_id = fields.get("request_id").and_then(Value::as_str).map(str::to_owned);
    TtsCommand::from_fields(fields)
        .map_err(|error| error_event(request_id, "INVALID_PARAMS", &error.to_string()))
}
