//! Clients of chat sessions under load, as cautious ones are: each message has a name, and is
//! asked again under it until it is answered. What they saw, and whether the store agrees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::instances::Instances;

/// A message that is not answered for this long fails the test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Wait before a message is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What clients saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Messages that were answered.
    pub(crate) answered: usize,
    /// Answers to attempts by status; 0 where there was none.
    pub(crate) statuses: BTreeMap<u16, usize>,
    /// How long each message took from its first attempt to its answer.
    pub(crate) took: Vec<Duration>,
}

impl Seen {
    /// That of which so many percent took less.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        let place = (took.len() * percent / 100).min(took.len().saturating_sub(1));
        took.get(place).copied().unwrap_or_default()
    }

    /// Attempts that were not answered with 200.
    pub(crate) fn troubles(&self) -> usize {
        self.statuses.iter().filter(|(status, _)| **status != 200).map(|(_, n)| n).sum()
    }

    /// Whether every attempt reached a server that works: at most, its store was not quick enough on
    /// a busy machine.
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

/// Sessions in which somebody talks.
pub(crate) struct Load {
    pub(crate) sessions: Vec<String>,
    http: reqwest::Client,
    base: String,
    done: Arc<AtomicUsize>,
}

impl Load {
    /// So many new sessions, through nginx.
    pub(super) async fn new(cluster: &Instances, sessions: usize) -> Self {
        Self::at(cluster.url("/api/sessions"), sessions).await
    }

    /// The same, at a server.
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

    /// How many messages were answered.
    pub(crate) fn answered(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Ends when so many messages were answered.
    pub(crate) async fn reached(&self, answered: usize) {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while self.answered() < answered {
            ticks.tick().await;
        }
    }

    /// Says so many messages in each session, one after the other, all sessions at once.
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

    /// What the store has of every session is what was said, each message once, in order, each
    /// with its own answer.
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

/// What is said in a session.
pub(crate) fn words(session: usize, message: usize) -> String {
    format!("message {message} of session {session}")
}

/// What the store has of a session: roles and words of all messages, in order.
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

/// Says something until it is answered.
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
