//! HTTP client of rmcp's transport that paces the streams which rmcp opens again by itself: the
//! standing stream of a session, and that of an answer that was not complete. rmcp does so at once
//! if a stream breaks off, and whenever the server says if it ends. Not for the messages in them:
//! see [`super::http_client`].

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::common::client_side_sse::{ExponentialBackoff, SseRetryPolicy};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::time::{Instant, sleep, sleep_until};

use super::backoff::{Backoff, FIRST_WAIT, LONGEST_WAIT};

type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Returns rmcp's waits after a stream that could not be opened again.
pub(super) fn retries() -> Arc<dyn SseRetryPolicy> {
    let mut waits = ExponentialBackoff::default();
    waits.max_delay = Some(LONGEST_WAIT);
    Arc::new(waits)
}

/// HTTP client of one connection to a server, with paced streams.
#[derive(Clone)]
pub(super) struct PacedClient<C> {
    client: C,
    standing: StandingStream,
}

impl<C> PacedClient<C> {
    /// Paces the streams of this client.
    pub(super) fn new(client: C) -> Self {
        Self { client, standing: StandingStream::default() }
    }
}

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for PacedClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        let posted =
            self.client.post_message(uri, message, session_id, auth_header, custom_headers).await?;
        Ok(match posted {
            StreamableHttpPostResponse::Sse(events, session) => {
                let events = paced(events, Opened::Answer { may_go_on: false });
                StreamableHttpPostResponse::Sse(events, session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<C::Error>> {
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, StreamableHttpError<C::Error>> {
        let mut running = None;
        if self.standing.goes_on_after(last_event_id.as_deref()) {
            running = Some(self.standing.begin().await);
        }
        let events = self
            .client
            .get_stream(uri, session_id, last_event_id, auth_header, custom_headers)
            .await?;
        let opened = match running {
            Some(running) => Opened::Standing(running.opened()),
            None => Opened::Answer { may_go_on: true },
        };
        Ok(paced(events, opened))
    }
}

/// Stream that was opened.
enum Opened {
    /// Standing stream of the session.
    Standing(RunningStream),
    /// Rest of an answer, or a whole one. rmcp opens it again only after an event with an id.
    Answer { may_go_on: bool },
}

/// Pace of the standing stream of a connection; clones share it.
#[derive(Clone, Default)]
struct StandingStream(Arc<Mutex<Pace>>);

#[derive(Default)]
struct Pace {
    waits: Backoff,
    /// Earliest time to open the stream again; `None` before its first end.
    not_before: Option<Instant>,
    /// Hash of the id of its last event.
    last_event: Option<u64>,
}

impl StandingStream {
    fn lock(&self) -> MutexGuard<'_, Pace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether the stream that goes on after this event is the standing one. An answer goes
    /// on after an event of its own.
    fn goes_on_after(&self, last_event_id: Option<&str>) -> bool {
        last_event_id.is_none_or(|id| self.lock().last_event == Some(hash(id)))
    }

    /// Waits until the stream may be opened again.
    async fn begin(&self) -> RunningStream {
        let not_before = self.lock().not_before;
        if let Some(not_before) = not_before {
            sleep_until(not_before).await;
        }
        RunningStream { standing: self.clone(), since: None }
    }
}

/// Standing stream, or an attempt to open it. Dropping it notes its end.
struct RunningStream {
    standing: StandingStream,
    /// Time when it was opened.
    since: Option<Instant>,
}

impl RunningStream {
    fn opened(mut self) -> Self {
        self.since = Some(Instant::now());
        self
    }

    fn note(&self, event_id: &str) {
        self.standing.lock().last_event = Some(hash(event_id));
    }
}

impl Drop for RunningStream {
    fn drop(&mut self) {
        let lasted = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let mut pace = self.standing.lock();
        let wait = pace.waits.next(lasted);
        pace.not_before = Some(Instant::now() + wait);
    }
}

fn hash(event_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    event_id.hash(&mut hasher);
    hasher.finish()
}

/// Limits a wait that a server asks for, in milliseconds.
fn bounded(retry_ms: u64) -> u64 {
    let wait = Duration::from_millis(retry_ms).clamp(FIRST_WAIT, LONGEST_WAIT);
    u64::try_from(wait.as_millis()).unwrap_or(retry_ms)
}

/// Returns the events of a stream, with limited waits. An error after which rmcp would ask for the
/// rest of an answer at once follows later.
fn paced(events: Events, mut opened: Opened) -> Events {
    let paced = events.then(move |event| {
        let mut wait = Duration::ZERO;
        let event = match (event, &mut opened) {
            (Ok(event), opened) => {
                match (&event.id, opened) {
                    (Some(id), Opened::Standing(running)) => running.note(id),
                    (Some(_), Opened::Answer { may_go_on }) => *may_go_on = true,
                    (None, _) => {}
                }
                Ok(Sse { retry: event.retry.map(bounded), ..event })
            }
            (Err(error), Opened::Answer { may_go_on: true }) => {
                wait = FIRST_WAIT;
                Err(error)
            }
            (Err(error), _) => Err(error),
        };
        async move {
            if !wait.is_zero() {
                sleep(wait).await;
            }
            event
        }
    });
    paced.boxed()
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use rmcp::model::JsonRpcMessage;
    use rmcp::transport::StreamableHttpClientTransport;
    use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

    use super::super::connection::{Connection, ProtocolEra};
    use super::super::elicitation::ElicitationPolicy;
    use super::*;

    /// Number of streams after which a server of these tests opens no further one.
    const TOO_MANY: usize = 1_000;

    /// What a server does with each standing stream.
    #[derive(Debug, Clone, Copy)]
    enum Habit {
        Closes,
        /// Closes it after this time.
        Lasts(Duration),
        /// Closes it, and asks for this wait.
        Asks(u64),
        /// Closes it after an event with an id, and asks for no wait.
        Numbers,
        Breaks,
        /// Closes the first one, and refuses all others.
        Refuses,
    }

    /// Server in memory.
    #[derive(Clone)]
    struct Server {
        habit: Habit,
        opened: Arc<Mutex<Vec<Instant>>>,
    }

    type ServerError = StreamableHttpError<std::io::Error>;

    fn broken() -> Result<Sse, SseError> {
        Err(SseError::Body(Box::new(std::io::Error::other("broken off"))))
    }

    impl StreamableHttpClient for Server {
        type Error = std::io::Error;

        async fn post_message(
            &self,
            _: Arc<str>,
            message: ClientJsonRpcMessage,
            _: Option<Arc<str>>,
            _: Option<String>,
            _: HashMap<HeaderName, HeaderValue>,
        ) -> Result<StreamableHttpPostResponse, ServerError> {
            let JsonRpcMessage::Request(request) = message else {
                return Ok(StreamableHttpPostResponse::Accepted);
            };
            let id = serde_json::to_string(&request.id).unwrap();
            let result = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            let answer = serde_json::from_str(&answer).unwrap();
            Ok(StreamableHttpPostResponse::Json(answer, Some("a session".into())))
        }

        async fn delete_session(
            &self,
            _: Arc<str>,
            _: Arc<str>,
            _: Option<String>,
            _: HashMap<HeaderName, HeaderValue>,
        ) -> Result<(), ServerError> {
            Ok(())
        }

        async fn get_stream(
            &self,
            _: Arc<str>,
            _: Option<Arc<str>>,
            _: Option<String>,
            _: Option<String>,
            _: HashMap<HeaderName, HeaderValue>,
        ) -> Result<Events, ServerError> {
            let number = {
                let mut opened = self.opened.lock().unwrap();
                opened.push(Instant::now());
                opened.len()
            };
            let event = |event: Sse| -> Events { stream::iter([Ok(event)]).boxed() };
            Ok(match self.habit {
                _ if number > TOO_MANY => stream::pending().boxed(),
                Habit::Refuses if number > 1 => {
                    return Err(StreamableHttpError::UnexpectedServerResponse("busy".into()));
                }
                Habit::Closes | Habit::Refuses => stream::empty().boxed(),
                Habit::Lasts(time) => stream::once(async move {
                    sleep(time).await;
                    Ok(Sse::default())
                })
                .boxed(),
                Habit::Asks(retry) => event(Sse { retry: Some(retry), ..Sse::default() }),
                Habit::Numbers => {
                    event(Sse { retry: Some(0), id: Some(number.to_string()), ..Sse::default() })
                }
                Habit::Breaks => stream::iter([broken()]).boxed(),
            })
        }
    }

    /// Returns the times between the standing streams of one hour at such a server.
    async fn waits(habit: Habit) -> Vec<Duration> {
        let server = Server { habit, opened: Arc::default() };
        let opened = Arc::clone(&server.opened);
        let mut config = StreamableHttpClientTransportConfig::with_uri("http://server.test/mcp");
        config.retry_config = retries();
        let transport =
            StreamableHttpClientTransport::with_client(PacedClient::new(server), config);
        let era = ProtocolEra::Handshake;
        let connection =
            Connection::open(transport, era, ElicitationPolicy::Declined).await.unwrap();
        sleep(Duration::from_secs(3_600)).await;
        connection.close().await;
        let opened = opened.lock().unwrap().clone();
        opened.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_standing_stream_is_opened_again_ever_more_rarely() {
        for habit in [
            Habit::Closes,
            Habit::Lasts(Duration::from_secs(1)),
            Habit::Asks(0),
            Habit::Asks(5_000),
            Habit::Asks(u64::MAX),
            Habit::Numbers,
            Habit::Breaks,
            Habit::Refuses,
        ] {
            let waits = waits(habit).await;
            let last = *waits.last().unwrap();
            // rmcp's own timers are rounded, and the stream itself may take a second.
            let most = LONGEST_WAIT + Duration::from_millis(1_100);
            assert!(waits.len() < 130, "{habit:?}: {} streams in an hour", waits.len());
            assert!(
                waits.iter().all(|wait| (FIRST_WAIT..most).contains(wait)),
                "{habit:?}: {waits:?}"
            );
            assert!(last >= LONGEST_WAIT, "{habit:?}: {waits:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_stream_that_has_lasted_the_first_wait_is_short_again() {
        let lasts = Duration::from_secs(60);
        let waits = waits(Habit::Lasts(lasts)).await;
        assert!(waits.len() > 50, "{waits:?}");
        let short = lasts + FIRST_WAIT..lasts + FIRST_WAIT * 3;
        assert!(waits.iter().all(|wait| short.contains(wait)), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_can_go_on_waits_before_its_error() {
        let numbered = || Sse { id: Some("1".into()), ..Sse::default() };
        for (events, may_go_on, waits) in [
            (vec![broken()], false, false),
            (vec![broken()], true, true),
            (vec![Ok(Sse::default()), broken()], false, false),
            (vec![Ok(numbered()), broken()], false, true),
        ] {
            let begun = Instant::now();
            let count = events.len();
            let told: Vec<_> =
                paced(stream::iter(events).boxed(), Opened::Answer { may_go_on }).collect().await;
            assert!(told.len() == count && told[count - 1].is_err());
            assert_eq!(begun.elapsed() >= FIRST_WAIT, waits);
        }
    }

    #[test]
    fn a_wait_that_a_server_asks_for_is_limited() {
        for (asked, granted) in [(0, 500), (499, 500), (5_000, 5_000), (u64::MAX, 30_000)] {
            assert_eq!(bounded(asked), granted);
        }
    }
}
