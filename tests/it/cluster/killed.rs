//! The effect on clients if an instance, or Redis, is killed under load: no acknowledged message is
//! lost, none is doubled, and none is in another session.
//!
//! `HEARKEN_FLEET_TURNS` sets the number of messages; the default is small.

use hearken::config::env::{EnvVars as _, ProcessEnv};
use hearken_test_support::places::{Place, on};
use hearken_test_support::redis::there_is;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::instances::{Instance, Instances};
use super::load::{Load, words};
use crate::support::app::Vendors;

const TURNS: &str = "HEARKEN_FLEET_TURNS";
const SESSIONS: usize = 20;
/// A session that a dead instance had locked continues within this time: its lock expires after 15 s.
const LONGEST: Duration = Duration::from_secs(20);

fn echo(asked: &[u8]) -> String {
    format!("You said {}", String::from_utf8_lossy(asked))
}

/// A model that echoes messages; speech is not used.
pub(super) async fn vendors() -> Vendors {
    Vendors::of(
        ListenAiAsr::start(Behaviour::Normal, "").await,
        OpenAiChat::answering(echo).await,
        ListenAiTts::start(Behaviour::Normal).await,
    )
}

/// A watcher of a session at one instance.
struct Watcher(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Watcher {
    async fn connect(at: &Instance, session: &str, query: &str) -> Self {
        let url = at.socket(&format!("/api/sessions/{session}/ws{query}"));
        let mut watcher = Self(connect_async(url).await.unwrap().0);
        let connected = watcher.next().await.expect("the server confirms the connection");
        assert_eq!(
            (&connected["type"], &connected["complete"]),
            (&"connected".into(), &true.into())
        );
        watcher
    }

    async fn next(&mut self) -> Option<Value> {
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(LONGEST, self.0.next()).await {
            if let Message::Text(text) = frame {
                return Some(serde_json::from_str(&text).unwrap());
            }
        }
        None
    }

    /// The ids and the messages of the answers, up to this message.
    async fn until(&mut self, last: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        while let Some(told) = self.next().await {
            let event = &told["event"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            all.push((text(&event["id"]), text(&event["data"]["message"])));
            if all.last().is_some_and(|(_, message)| message == last) {
                break;
            }
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_an_instance_is_killed() {
    if !there_is("an instance that is killed") {
        return;
    }
    on(Place::postgres().await, |place| async move {
        let turns = ProcessEnv.get(TURNS).and_then(|n| n.parse().ok()).unwrap_or(300);
        one_is_killed(&mut Instances::start(vendors().await, &place.url).await, turns).await;
    })
    .await;
}

async fn one_is_killed(cluster: &mut Instances, turns: usize) {
    let load = Load::new(cluster, SESSIONS).await;
    let messages = turns.div_ceil(SESSIONS);
    let mut watcher = Watcher::connect(&cluster.all[1], &load.sessions[0], "").await;
    let last = words(0, messages - 1);
    let begun = Instant::now();
    let killing = async {
        load.reached(turns / 3).await;
        cluster.all[2].kill();
        let killed = Instant::now();
        load.reached(turns / 2).await;
        killed.elapsed()
    };
    let (seen, _, heard) = tokio::join!(load.talk(0, messages), killing, watcher.until(&last));
    let took = begun.elapsed();
    load.check(&cluster.all[0].url(""), messages).await;
    eprintln!(
        "{} messages in {took:.1?}, {} attempts without an answer ({:?}), p50 {:.1?}, p99 {:.1?}, \
         longest {:.1?}",
        seen.answered,
        seen.troubles(),
        seen.statuses,
        seen.percentile(50),
        seen.percentile(99),
        seen.percentile(100),
    );
    assert_eq!(seen.answered, messages * SESSIONS);
    assert!(seen.percentile(100) < LONGEST, "locks of a dead instance are released");
    // Events: in order, each once, including the event during which the instance died.
    let wanted: Vec<String> = (0..messages).map(|k| words(0, k)).collect();
    assert!(heard.iter().map(|(_, message)| message).eq(&wanted), "{heard:?}");
    // A watcher that reconnects to another instance receives exactly the rest.
    let middle = heard.len().saturating_sub(5);
    let query = format!("?last_event_id={}", heard[middle].0);
    let mut back = Watcher::connect(&cluster.all[0], &load.sessions[0], &query).await;
    assert_eq!(back.until(&last).await, heard[middle + 1..]);
    // The instance returns under another name and takes its share again.
    cluster.all[2].start();
    cluster.all[2].until("ok").await;
    let seen = load.talk(messages, 3).await;
    assert_eq!(seen.troubles(), 0, "{seen:?}");
    load.check(&cluster.all[2].url(""), messages + 3).await;
    nginx_logs_no_ids(cluster, &load.sessions);
}

/// The log of nginx has the paths of these sessions without their ids, also after an instance broke
/// off their requests: the id of a session admits to it.
fn nginx_logs_no_ids(cluster: &Instances, sessions: &[String]) {
    let log = cluster.nginx_log();
    assert!(log.contains(" POST /api/sessions/*/chat 200 "), "{log}");
    for session in sessions {
        assert!(!log.contains(session), "{session} is in the log of nginx");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_dead_instance_is_published_by_another() {
    if !there_is("an instance that dies while redis is lost") {
        return;
    }
    on(Place::postgres().await, |place| async move {
        dies_with_an_event(&mut Instances::start(vendors().await, &place.url).await).await;
    })
    .await;
}

async fn dies_with_an_event(cluster: &mut Instances) {
    let load = Load::new(cluster, 1).await;
    let session = load.sessions[0].clone();
    let say = async |at: &Instance, message: &str| {
        let url = at.url(&format!("/api/sessions/{session}/chat"));
        let asked = reqwest::Client::new().post(url).json(&json!({"message": message}));
        assert_eq!(asked.send().await.unwrap().status(), 200, "{message}");
    };
    let mut watcher = Watcher::connect(&cluster.all[1], &session, "").await;
    cluster.redis.kill();
    cluster.all[0].until("lost").await;
    say(&cluster.all[0], "one").await;
    cluster.all[0].kill();
    cluster.redis.begin().await;
    cluster.all[1].until("ok").await;
    assert_eq!(messages(&watcher.until("one").await), ["one"], "published by another instance");
    say(&cluster.all[2], "two").await;
    assert_eq!(messages(&watcher.until("two").await), ["two"], "and once");
}

fn messages(events: &[(String, String)]) -> Vec<&str> {
    events.iter().map(|(_, message)| message.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_get_no_errors_when_redis_is_lost() {
    if !there_is("a redis that is lost under load") {
        return;
    }
    on(Place::postgres().await, |place| async move {
        redis_is_lost(&mut Instances::start(vendors().await, &place.url).await).await;
    })
    .await;
}

async fn redis_is_lost(cluster: &mut Instances) {
    const MESSAGES: usize = 15;
    let load = Load::new(cluster, SESSIONS).await;
    let all = SESSIONS * MESSAGES;
    let losing = async {
        load.reached(all / 4).await;
        cluster.redis.kill();
        for instance in &cluster.all {
            instance.until("lost").await;
            let log = instance.log();
            assert!(log.contains("ERROR") && log.contains("redis is lost"), "{log}");
            let figures = reqwest::get(instance.url("/metrics")).await.unwrap().text().await;
            assert!(figures.unwrap().contains("hearken_redis_up 0"));
        }
        cluster.redis.begin().await;
        for instance in &cluster.all {
            instance.until("ok").await;
        }
    };
    let (seen, ()) = tokio::join!(load.talk(0, MESSAGES), losing);
    eprintln!("redis lost: {:?}, longest {:.1?}", seen.statuses, seen.percentile(100));
    assert_eq!((seen.answered, seen.troubles()), (all, 0), "{:?}", seen.statuses);
    load.check(&cluster.all[0].url(""), MESSAGES).await;
    let ended = cluster.all[1].terminate().await;
    assert!(ended < Duration::from_secs(10), "{ended:?}");
}
