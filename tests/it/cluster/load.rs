//! Clients of chat sessions under load that repeat each message with its idempotency key until it
//! is answered. Checks what they received, and whether the store agrees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::instances::Instances;

/// A message that is not answered within this time fails the test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a message is repeated.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What the clients observed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Number of answered messages.
    pub(crate) answered: usize,
    /// Number of attempts by status; 0 if there was no response.
    pub(crate) statuses: BTreeMap<u16, usize>,
    /// Time of each message from its first attempt to its answer.
    pub(crate) took: Vec<Duration>,
}

impl Seen {
    /// The time within which this percentage of the messages was answered.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        let place = (took.len() * percent / 100).min(took.len().saturating_sub(1));
        took.get(place).copied().unwrap_or_default()
    }

    /// Number of attempts without status 200.
    pub(crate) fn troubles(&self) -> usize {
        self.statuses.iter().filter(|(status, _)| **status != 200).map(|(_, n)| n).sum()
    }

    /// Whether every attempt reached a working server. Status 503 is allowed: the store may be slow
    /// on a busy machine.
    pub(crate) fn is_served(&self) -> bool {
        self.statuses.keys().all(|status| [200, 503].contains(status))
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.took.extend(other.took);
        for (status, n) in other.statuses {
            *self.statuses.entry(status).or_default() += n;
        }
    }
}

/// Sessions under load.
pub(crate) struct Load {
    pub(crate) sessions: Vec<String>,
    http: reqwest::Client,
    base: String,
    done: Arc<AtomicUsize>,
}

impl Load {
    /// Creates this many sessions through nginx.
    pub(super) async fn new(cluster: &Instances, sessions: usize) -> Self {
        Self::at(cluster.url("/api/sessions"), sessions).await
    }

    /// The same at a server.
    pub(crate) async fn at(base: String, sessions: usize) -> Self {
        let http = reqwest::Client::new();
        let mut load = Self { sessions: Vec::new(), http, base, done: Arc::default() };
        for n in 0..sessions {
            let wanted = json!({"name": format!("load {n}"), "creator_id": "load"});
            let made = load.http.post(&load.base).json(&wanted).send().await.unwrap();
            assert_eq!(made.status(), 201);
            let made: Value = made.json().await.unwrap();
            load.sessions.push(made["session_id"].as_str().unwrap().to_owned());
        }
        load
    }

    /// Number of answered messages.
    pub(crate) fn answered(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until this many messages were answered.
    pub(crate) async fn reached(&self, answered: usize) {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while self.answered() < answered {
            ticks.tick().await;
        }
    }

    /// Sends this many messages in each session, in sequence; the sessions run concurrently.
    pub(crate) async fn talk(&self, from: usize, messages: usize) -> Seen {
        let mut people = JoinSet::new();
        for (n, session) in self.sessions.iter().enumerate() {
            let http = self.http.clone();
            let done = Arc::clone(&self.done);
            let url = format!("{}/{session}/chat", self.base);
            people.spawn(async move {
                let mut seen = Seen::default();
                for k in from..from + messages {
                    let begun = Instant::now();
                    say(&http, &url, &words(n, k), &mut seen).await;
                    seen.took.push(begun.elapsed());
                    seen.answered += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                seen
            });
        }
        let mut all = Seen::default();
        while let Some(seen) = people.join_next().await {
            all.add(seen.unwrap());
        }
        all
    }

    /// Checks that the store has each message of every session once, in order, with its own answer.
    pub(crate) async fn check(&self, base: &str, messages: usize) {
        for (n, session) in self.sessions.iter().enumerate() {
            let stored = kept(&self.http, base, session).await;
            let said: Vec<(&str, &str)> = stored.iter().map(|(r, w)| (&**r, &**w)).collect();
            let wanted: Vec<(&str, String)> = (0..messages)
                .flat_map(|k| {
                    let words = words(n, k);
                    [("user", words.clone()), ("assistant", format!("You said {words}"))]
                })
                .collect();
            let wanted: Vec<(&str, &str)> = wanted.iter().map(|(r, w)| (*r, w.as_str())).collect();
            assert_eq!(said, wanted, "session {n}");
        }
    }
}

/// Text of a message.
pub(crate) fn words(session: usize, message: usize) -> String {
    format!("message {message} of session {session}")
}

/// The stored messages of a session: roles and texts, in order.
pub(crate) async fn kept(
    http: &reqwest::Client,
    base: &str,
    session: &str,
) -> Vec<(String, String)> {
    let mut kept = Vec::new();
    let mut before = String::new();
    loop {
        let url = format!("{base}/api/sessions/{session}/messages?limit=200{before}");
        let page = http.get(&url).send().await.unwrap();
        assert_eq!(page.status(), 200);
        let page: Value = page.json().await.unwrap();
        let text = |field: &Value| field.as_str().unwrap().to_owned();
        let some = page["messages"].as_array().unwrap().iter();
        kept.splice(0..0, some.map(|m| (text(&m["role"]), text(&m["content"]))));
        match page["first"].as_i64().filter(|first| *first > 1) {
            Some(first) => before = format!("&before={first}"),
            None => return kept,
        }
    }
}

/// Repeats a message until it is answered.
async fn say(http: &reqwest::Client, url: &str, words: &str, seen: &mut Seen) {
    let begun = Instant::now();
    let key = uuid::Uuid::new_v4().to_string();
    loop {
        let asked = http
            .post(url)
            .header("Idempotency-Key", &key)
            .json(&json!({"message": words}))
            .timeout(PATIENCE)
            .send()
            .await;
        let (status, body) = match asked {
            Ok(answer) => (answer.status().as_u16(), answer.json::<Value>().await.ok()),
            Err(_) => (0, None),
        };
        *seen.statuses.entry(status).or_default() += 1;
        if let (200, Some(body)) = (status, &body) {
            assert_eq!(body["response"], format!("You said {words}"), "{url}");
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{url}: {status} {body:?}");
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}
