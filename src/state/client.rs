//! A state server over HTTP: its requests, deadlines, retries and bounded answers. What answers
//! hold is read in [`super::answer`].
//!
//! | asked | request |
//! |---|---|
//! | tools | `GET /tools` |
//! | call | `POST /tools/call {session_id, tool_name, arguments, version?}` |
//! | state | `GET /state?session_id=` |
//! | create | `POST /state {session_id, name}` |
//! | delete | `DELETE /state?session_id=` |
//! | restore | `POST /state/restore {session_id, version}` |
//!
//! What was not done is asked again where the server is away or has too much to do: no connection,
//! 429, 502, 503. What may have been done, because no answer came in time, is asked again only
//! where twice is as good as once: a call that timed out may have rolled the dice.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::ports::{ProviderErrorKind, StateError, StateOutcome, StateServer, Tool};
use hearken_proto::ids::SessionId;
use http::Method;
use http::header::{AUTHORIZATION, HeaderMap};
use reqwest::Response;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use super::answer;
use crate::config::StateConfig;
use crate::providers::retry::RetryPolicy;
use crate::providers::{ProviderConfigError, http as web};

/// Longest answer that is read.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Connections that are kept open unused.
const KEPT_CONNECTIONS: usize = 8;

/// A state server behind a URL.
pub struct HttpStateServer {
    link: Arc<Link>,
}

/// What every request needs.
struct Link {
    client: reqwest::Client,
    base: String,
    places: Semaphore,
    timeout: Duration,
    policy: RetryPolicy,
}

/// A question to the server.
struct Question {
    method: Method,
    path: &'static str,
    session: Option<SessionId>,
    body: Option<Value>,
    /// Twice is as good as once.
    again: bool,
}

/// Why an attempt brought no answer of the server's.
enum Missed {
    /// It was not done.
    NotDone(StateError, Option<Duration>),
    /// It may have been done.
    Unsure(StateError),
}

/// The server's answer: a status of success and its JSON, or what it said instead.
type Answered = Result<Value, (u16, StateError)>;

impl HttpStateServer {
    /// A client of the server at `base`; nothing is connected yet.
    ///
    /// # Errors
    /// The HTTP client cannot be set up, or the token cannot be a header.
    pub fn new(
        base: &Url,
        config: &StateConfig,
        policy: RetryPolicy,
    ) -> Result<Self, ProviderConfigError> {
        let timeout = Duration::from_millis(config.timeout_ms);
        let mut headers = HeaderMap::new();
        if !config.token.is_empty() {
            let allowed = "visible characters, on one line";
            let token = web::bearer(&config.token)
                .map_err(|_| ProviderConfigError::value("state.token", &config.token, allowed))?;
            headers.insert(AUTHORIZATION, token);
        }
        let client = web::builder(base, CONNECT.min(timeout))
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(KEPT_CONNECTIONS)
            .default_headers(headers)
            .build()
            .map_err(|e| ProviderConfigError::client("state.url", e))?;
        let base = base.as_str().trim_end_matches('/').to_owned();
        let places = Semaphore::new(config.max_connections.clamp(1, Semaphore::MAX_PERMITS));
        Ok(Self { link: Arc::new(Link { client, base, places, timeout, policy }) })
    }

    fn ask<T, R>(&self, question: Question, read: R) -> BoxFuture<'static, Result<T, StateError>>
    where
        R: FnOnce(Answered) -> Result<T, StateError> + Send + 'static,
    {
        let link = Arc::clone(&self.link);
        Box::pin(async move { read(link.ask(&question).await?) })
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
        let question = Question::new(Method::GET, "/state").of(session).again();
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
            // It is there.
            Ok(_) | Err((409, _)) => Ok(()),
            Err((_, error)) => Err(error),
        })
    }

    fn delete(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StateError>> {
        let question = Question::new(Method::DELETE, "/state").of(session).again();
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

    /// All attempts together, and the longest waits between them.
    fn timeout(&self) -> Duration {
        let waits = self.link.policy.waits;
        let attempts = u32::try_from(waits.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.link.timeout.saturating_mul(attempts).saturating_add(waits.iter().sum())
    }
}

/// The answer of who did what was asked.
fn done(answered: Answered) -> Result<Value, StateError> {
    answered.map_err(|(_, error)| error)
}

impl Question {
    fn new(method: Method, path: &'static str) -> Self {
        Self { method, path, session: None, body: None, again: false }
    }

    /// It is safe to ask twice.
    fn again(self) -> Self {
        Self { again: true, ..self }
    }

    fn of(self, session: &SessionId) -> Self {
        Self { session: Some(session.clone()), ..self }
    }

    fn with(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }
}

impl Link {
    /// Asks, and again as the policy says, until all the time is used that there is.
    async fn ask(&self, question: &Question) -> Result<Answered, StateError> {
        let since = Instant::now();
        let mut failures = 0;
        loop {
            let (error, wait) = match self.attempt(question).await {
                Ok(answered) => return Ok(answered),
                Err(Missed::NotDone(error, wait)) => (error, wait),
                Err(Missed::Unsure(error)) if question.again => (error, None),
                Err(Missed::Unsure(error)) => return Err(error),
            };
            failures += 1;
            let Some(wait) = self.policy.wait(failures, since, wait) else { return Err(error) };
            tracing::warn!(path = question.path, %error, failures, "asking the state server again");
            sleep(wait).await;
        }
    }

    async fn attempt(&self, question: &Question) -> Result<Answered, Missed> {
        let by = Instant::now() + self.timeout;
        let late = || StateError::Timeout(self.timeout);
        let _place = timeout_at(by, self.places.acquire())
            .await
            .map_err(|_| Missed::NotDone(late(), None))?
            .expect("nobody closes the places");
        let mut url = Url::parse(&format!("{}{}", self.base, question.path))
            .map_err(|e| Missed::Unsure(StateError::Failed(e.to_string())))?;
        if let Some(session) = &question.session {
            url.query_pairs_mut().append_pair("session_id", session.as_str());
        }
        let mut request = self.client.request(question.method.clone(), url);
        if let Some(body) = &question.body {
            request = request.json(body);
        }
        let response = timeout_at(by, request.send())
            .await
            .map_err(|_| Missed::Unsure(late()))?
            .map_err(|error| self.broken(error))?;
        self.read(response, by).await
    }

    /// What an error of the transport leaves open.
    fn broken(&self, error: reqwest::Error) -> Missed {
        let connected = !error.is_connect();
        let why = if error.is_timeout() {
            StateError::Timeout(self.timeout)
        } else {
            StateError::Failed(told(error.without_url()))
        };
        if connected { Missed::Unsure(why) } else { Missed::NotDone(why, None) }
    }

    async fn read(&self, response: Response, by: Instant) -> Result<Answered, Missed> {
        let status = response.status().as_u16();
        match status {
            429 | 502 | 503 => {
                let error = StateError::Failed(format!("status {status}"));
                return Err(Missed::NotDone(error, web::retry_after(response.headers())));
            }
            408 | 504 => return Err(Missed::Unsure(StateError::Timeout(self.timeout))),
            _ => {}
        }
        let succeeded = response.status().is_success();
        let body = web::body("state-server", response, MAX_ANSWER_BYTES, by).await;
        let body = body.map_err(|error| match error.kind {
            ProviderErrorKind::Timeout => Missed::Unsure(StateError::Timeout(self.timeout)),
            _ => Missed::Unsure(StateError::Failed(error.to_string())),
        })?;
        if !succeeded {
            return Ok(Err((status, answer::refusal(status, &body))));
        }
        // Who has nothing to say may say nothing, or "OK".
        Ok(Ok(serde_json::from_slice(&body).unwrap_or_default()))
    }
}

/// An error and what is behind it, which is where the reason stands.
fn told(error: reqwest::Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        words = format!("{words}: {inner}");
        source = inner.source();
    }
    words
}
