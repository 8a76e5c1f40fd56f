//! Several speech services: all get a share of the requests, and the death of one during an
//! utterance or a sentence is not noticeable.

use std::time::Duration;

use futures_util::future::join_all;
use hearken_proto::device::ListenMode;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, Stub};

use super::person::Person;
use super::turns::good_answer;
use super::voices::SPEECH;
use crate::support::app::{HEARD, TestServer, Vendors};

const PEOPLE: usize = 3;

/// All users speak and are answered.
async fn round(people: &mut [Person], what: &str) {
    join_all(people.iter_mut().map(async |person| {
        person.say(&SPEECH).await;
        assert_eq!(person.answer().await, good_answer(), "{what}");
    }))
    .await;
}

/// The metrics of one service.
struct Figures(String);

impl Figures {
    async fn read(server: &TestServer) -> Self {
        let text = reqwest::get(server.http_url("/metrics")).await.unwrap().text().await;
        Self(text.unwrap())
    }

    fn of(&self, name: &str, labels: &str) -> f64 {
        let line = format!("hearken_provider_{name}{{{labels}}} ");
        let value = self.0.lines().find_map(|l| l.strip_prefix(&line));
        value.unwrap_or_else(|| panic!("no {line} in {}", self.0)).parse().unwrap()
    }

    fn all(&self, name: &str, port: &str, rest: &str) -> [f64; 3] {
        [0, 1, 2].map(|n| self.of(name, &format!(r#"port="{port}",backend="{n}"{rest}"#)))
    }
}

#[tokio::test]
async fn the_death_of_one_of_three_speech_services_fails_no_turn() {
    let vendors = Vendors::start().await;
    let recognisers = [listen().await, listen().await];
    let voices = [speak().await, speak().await];
    let server = TestServer::start(&vendors, |config| {
        config.asr.more_urls = recognisers.each_ref().map(Stub::url).into();
        config.tts.more_urls = voices.each_ref().map(Stub::url).into();
        config.tts.cache_bytes = 0;
        // Three devices process `tts start` slowly on a small machine.
        config.speaking.start_guard = Duration::from_secs(1);
    })
    .await;
    let mut people = Vec::new();
    for _ in 0..PEOPLE {
        people.push(Person::meet(&server.device_url(), 1, ListenMode::Auto).await);
    }
    round(&mut people, "all live").await;
    let figures = Figures::read(&server).await;
    assert_eq!(figures.all("requests_total", "asr", r#",end="ok""#), [1.0; 3]);
    let shares = figures.all("requests_total", "tts", r#",end="ok""#);
    assert!(shares.iter().all(|sentences| *sentences >= 2.0), "{shares:?}");

    // One service dies during an utterance, another before the first audio of a sentence.
    let Vendors { asr, tts, llm, .. } = vendors;
    tts.set(Behaviour::Silent);
    let heard = asr.seen().audio_messages;
    let asked = tts.seen().requests;
    let deaths = async {
        asr.until(|seen| seen.audio_messages > heard).await;
        drop(asr);
        tts.until(|seen| seen.requests > asked).await;
        drop(tts);
    };
    tokio::join!(round(&mut people, "one dies"), deaths);
    round(&mut people, "one is dead").await;

    let figures = Figures::read(&server).await;
    for port in ["asr", "tts"] {
        assert_eq!(figures.all("up", port, ""), [0.0, 1.0, 1.0]);
        let lost = figures.all("requests_total", port, r#",end="unavailable""#);
        assert!(lost[0] >= 1.0 && lost[1..] == [0.0; 2], "{port}: {lost:?}");
        assert_eq!(figures.all("in_flight", port, ""), [0.0; 3]);
    }
    let heard = figures.all("requests_total", "asr", r#",end="ok""#).iter().sum::<f64>();
    assert_eq!(heard, 3.0 * PEOPLE as f64);
    assert_eq!(figures.all("seconds_count", "asr", "").iter().sum::<f64>(), heard);
    let prompts = figures.of("requests_total", r#"port="llm",backend="0",end="ok""#);
    assert_eq!(prompts, llm.seen().requests as f64);
    drop(people);
    server.stop().await;
}

async fn listen() -> Stub {
    ListenAiAsr::start(Behaviour::Normal, HEARD).await
}

async fn speak() -> Stub {
    ListenAiTts::start(Behaviour::Normal).await
}
