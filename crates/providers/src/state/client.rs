//! Client of a state server over HTTP: requests, deadlines, retries and bounded answers. Parsing of
//! answers is in [`super::answer`].
//!
//! | operation | request |
//! |---|---|
//! | tools | `GET /tools` |
//! | call | `POST /tools/call {session_id, tool_name, arguments, version?}` |
//! | state | `GET /state?session_id=` |
//! | create | `POST /state {session_id, name}` |
//! | delete | `DELETE /state?session_id=` |
//! | restore | `POST /state/restore {session_id, version}` |
//!
//! All attempts and the waits between them have one deadline: an attempt that times out is the
//! last. A request that was not carried out is retried if the server is unreachable or overloaded:
//! no connection, 425, 429, 502, 503. A request that may have been carried out is retried only if
//! it is idempotent: another 5xx that may be temporary (501 and 505 are not), 408, a broken
//! connection. A tool call may have rolled the dice already in such a case.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_outbound::{SettingError, http as web};
use hearken_ports::{
    ProviderErrorKind, ProviderMetrics, ServiceState, StateError, StateOutcome, StateServer, Tool,
};
use hearken_proto::ids::SessionId;
use hearken_proto::json::{NotParsed, weighed_within};
use http::header::{AUTHORIZATION, HeaderMap};
use http::{Method, StatusCode};
use reqwest::Response;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use super::answer;
use super::config::StateConfig;
use crate::metrics::RequestMetrics;
use crate::retry::{GRACE, RetryPolicy};

/// Maximum size of a response body, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Maximum weight of an answer, in bytes of memory when parsed. The operator has configured the
/// server, and a state has many small values.
const MAX_ANSWER_WEIGHT: usize = 16 << 20;

/// Maximum wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Maximum number of unused connections that stay open.
const KEPT_CONNECTIONS: usize = 8;

/// State server behind a URL.
pub struct HttpStateServer {
    link: Arc<Link>,
}

/// Data of each request.
struct Link {
    client: reqwest::Client,
    base: String,
    places: Semaphore,
    timeout: Duration,
    policy: RetryPolicy,
    meters: Arc<ProviderMetrics>,
}

/// Request to the server.
struct Question {
    method: Method,
    path: &'static str,
    session: Option<SessionId>,
    body: Option<Value>,
    /// True if the request is idempotent: it may be sent twice.
    again: bool,
}

/// Reason that an attempt got no answer from the server.
enum Missed {
    /// The request was not carried out.
    NotDone(StateError, Option<Duration>),
    /// The request may have been carried out.
    Unsure(StateError, Option<Duration>),
}

/// Answer of the server: JSON with a status of success, or an error with its status.
type Answered = Result<Value, (u16, StateError)>;

impl HttpStateServer {
    /// Creates a client of the server at `base` without connecting yet.
    ///
    /// # Errors
    /// The HTTP client cannot be set up, or the token cannot be sent in a header.
    pub fn new(
        base: &Url,
        config: &StateConfig,
        policy: RetryPolicy,
    ) -> Result<Self, SettingError> {
        let timeout = Duration::from_millis(config.timeout_ms);
        let mut headers = HeaderMap::new();
        if !config.token.is_empty() {
            let allowed = "visible characters, on one line";
            let token = web::bearer(&config.token)
                .map_err(|_| SettingError::value("state.token", &config.token, allowed))?;
            headers.insert(AUTHORIZATION, token);
        }
        let client = web::builder(base, CONNECT.min(timeout))
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(KEPT_CONNECTIONS)
            .default_headers(headers)
            .build()
            .map_err(|e| SettingError::client("state.url", e))?;
        let base = base.as_str().trim_end_matches('/').to_owned();
        let places = Semaphore::new(config.max_connections.clamp(1, Semaphore::MAX_PERMITS));
        let policy = policy.in_all(timeout);
        let meters = Arc::new(ProviderMetrics::new("state", 0));
        Ok(Self { link: Arc::new(Link { client, base, places, timeout, policy, meters }) })
    }

    fn ask<T, R>(&self, question: Question, read: R) -> BoxFuture<'static, Result<T, StateError>>
    where
        R: FnOnce(Answered) -> Result<T, StateError> + Send + 'static,
    {
        let link = Arc::clone(&self.link);
        Box::pin(async move {
            let request = RequestMetrics::begin(&link.meters);
            let answered = link.ask(&question).await.and_then(read);
            link.record(question.path, request, answered.as_ref().err());
            answered
        })
    }
}

impl StateServer for HttpStateServer {
    fn tools(&self) -> BoxFuture<'static, Result<Arc<[Tool]>, StateError>> {
        let question = Question::new(Method::GET, "/tools").again();
        self.ask(question, |answered| answer::tools(&done(answered)?))
    }

    fn call(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: Map<String, Value>,
        version: Option<i64>,
    ) -> BoxFuture<'static, Result<StateOutcome, StateError>> {
        let mut body = json!({ "session_id": session, "tool_name": tool, "arguments": arguments });
        if let Some(version) = version {
            body["version"] = version.into();
        }
        let question = Question::new(Method::POST, "/tools/call").with(body);
        self.ask(question, |answered| answer::outcome(done(answered)?))
    }

    fn state(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Map<String, Value>, StateError>> {
        let question = Question::new(Method::GET, "/state").for_session(session).again();
        self.ask(question, |answered| answer::state(done(answered)?))
    }

    fn create(
        &self,
        session: &SessionId,
        name: &str,
    ) -> BoxFuture<'static, Result<(), StateError>> {
        let body = json!({ "session_id": session, "name": name });
        let question = Question::new(Method::POST, "/state").with(body).again();
        self.ask(question, |answered| match answered {
            // It exists already.
            Ok(_) | Err((409, _)) => Ok(()),
            Err((_, error)) => Err(error),
        })
    }

    fn delete(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StateError>> {
        let question = Question::new(Method::DELETE, "/state").for_session(session).again();
        self.ask(question, |answered| match answered {
            Ok(_) | Err((404 | 410, _)) => Ok(()),
            Err((_, error)) => Err(error),
        })
    }

    fn restore(
        &self,
        session: &SessionId,
        version: i64,
    ) -> BoxFuture<'static, Result<bool, StateError>> {
        let body = json!({ "session_id": session, "version": version });
        let question = Question::new(Method::POST, "/state/restore").with(body);
        self.ask(question, |answered| match answered {
            Ok(_) => Ok(true),
            Err((404 | 405 | 410 | 501, _)) => Ok(false),
            Err((_, error)) => Err(error),
        })
    }

    /// Returns the time limit of all attempts and the waits between them.
    fn timeout(&self) -> Duration {
        self.link.timeout.saturating_add(GRACE)
    }

    fn service_state(&self) -> ServiceState {
        self.link.meters.is_up().into()
    }
}

/// Returns the JSON of an answer, or its error.
fn done(answered: Answered) -> Result<Value, StateError> {
    answered.map_err(|(_, error)| error)
}

impl Question {
    fn new(method: Method, path: &'static str) -> Self {
        Self { method, path, session: None, body: None, again: false }
    }

    /// Marks the request as idempotent.
    fn again(self) -> Self {
        Self { again: true, ..self }
    }

    fn for_session(self, session: &SessionId) -> Self {
        Self { session: Some(session.clone()), ..self }
    }

    fn with(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }
}

impl Link {
    /// Records the end of a request in the metrics, and a failure of the server in the log too.
    fn record(&self, path: &str, mut request: RequestMetrics, error: Option<&StateError>) {
        let kind = match error {
            None => None,
            // The server works: it refuses this request.
            Some(StateError::Unknown(_) | StateError::Refused(_) | StateError::Conflict(_)) => {
                Some(ProviderErrorKind::BadRequest)
            }
            Some(StateError::Timeout(_)) => Some(ProviderErrorKind::Timeout),
            Some(StateError::Failed(_)) => Some(ProviderErrorKind::Unavailable),
        };
        let works = kind.is_none_or(ProviderErrorKind::is_of_the_request);
        if works {
            request.answered();
        } else {
            let error = error.map(tracing::field::display);
            tracing::warn!(path, error, "a request to the state server failed");
        }
        self.meters.up(works);
        match kind {
            None => request.worked(),
            Some(kind) => request.failed(kind),
        }
    }

    /// Sends a request, and retries it by the policy until the deadline.
    async fn ask(&self, question: &Question) -> Result<Answered, StateError> {
        let since = Instant::now();
        let by = since + self.timeout;
        let mut failures = 0;
        loop {
            let (error, wait) = match self.attempt(question, by).await {
                Ok(answered) => return Ok(answered),
                Err(Missed::NotDone(error, wait)) => (error, wait),
                Err(Missed::Unsure(error, wait)) if question.again => (error, wait),
                Err(Missed::Unsure(error, _)) => return Err(error),
            };
            failures += 1;
            let Some(wait) = self.policy.wait(failures, since, wait) else { return Err(error) };
            tracing::warn!(path = question.path, %error, failures, "retrying a request to the state server");
            sleep(wait).await;
        }
    }

    async fn attempt(&self, question: &Question, by: Instant) -> Result<Answered, Missed> {
        let _place = timeout_at(by, self.places.acquire())
            .await
            .map_err(|_| Missed::NotDone(self.late(), None))?
            .expect("the semaphore is never closed");
        let mut url = Url::parse(&format!("{}{}", self.base, question.path))
            .map_err(|e| Missed::Unsure(StateError::Failed(e.to_string()), None))?;
        if let Some(session) = &question.session {
            url.query_pairs_mut().append_pair("session_id", session.as_str());
        }
        let mut request = self.client.request(question.method.clone(), url);
        if let Some(body) = &question.body {
            request = request.json(body);
        }
        let response = timeout_at(by, request.send())
            .await
            .map_err(|_| Missed::Unsure(self.late(), None))?
            .map_err(|error| self.broken(error))?;
        self.read(response, by).await
    }

    fn late(&self) -> StateError {
        StateError::Timeout(self.timeout)
    }

    /// Converts an error of the HTTP client.
    fn broken(&self, error: reqwest::Error) -> Missed {
        let connected = !error.is_connect();
        let why = if error.is_timeout() {
            self.late()
        } else {
            StateError::Failed(describe(error.without_url()))
        };
        if connected { Missed::Unsure(why, None) } else { Missed::NotDone(why, None) }
    }

    async fn read(&self, response: Response, by: Instant) -> Result<Answered, Missed> {
        if may_pass(response.status()) {
            return Err(self.failed(response, by).await);
        }
        let status = response.status().as_u16();
        let succeeded = response.status().is_success();
        let body = web::body("state-server", response, MAX_ANSWER_BYTES, by).await;
        let body = body.map_err(|error| match error.kind {
            ProviderErrorKind::Timeout => Missed::Unsure(self.late(), None),
            _ => Missed::Unsure(StateError::Failed(error.to_string()), None),
        })?;
        if !succeeded {
            return Ok(Err((status, answer::refusal(status, &body))));
        }
        match weighed_within(&body, MAX_ANSWER_WEIGHT) {
            Ok(answer) => Ok(Ok(answer)),
            Err(NotParsed::TooHeavy(heavy)) => {
                let why = StateError::Failed(format!("its answer {heavy}"));
                Err(Missed::Unsure(why, None))
            }
            // A server without a result may send an empty body, or "OK".
            Err(NotParsed::NotJson(_)) => Ok(Ok(Value::Null)),
        }
    }

    /// Converts an answer whose status may be temporary.
    async fn failed(&self, response: Response, by: Instant) -> Missed {
        let status = response.status();
        let Ok(refused) = timeout_at(by, web::refusal_of("state-server", response)).await else {
            return Missed::Unsure(self.late(), None);
        };
        let error = match web::kind_of(status) {
            ProviderErrorKind::Timeout => self.late(),
            _ if status.is_client_error() => {
                StateError::Failed(format!("status {}", status.as_u16()))
            }
            _ => answer::refusal(status.as_u16(), refused.told.text.as_bytes()),
        };
        let wait = refused.error.retry_after;
        match status.as_u16() {
            425 | 429 | 502 | 503 => Missed::NotDone(error, wait),
            _ => Missed::Unsure(error, wait),
        }
    }
}

/// Returns true if the same request may succeed a little later. Other 4xx are the server's answer
/// to the request: 409 for an old version, 423 perhaps for a locked door in the game.
fn may_pass(status: StatusCode) -> bool {
    let of_the_wire = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    of_the_wire && web::kind_of(status).is_retryable()
}

/// Returns the text of an error with its sources, which contain the reason.
fn describe(error: reqwest::Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        words = format!("{words}: {inner}");
        source = inner.source();
    }
    words
}
