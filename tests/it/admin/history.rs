//! History of conversations: switched on and off, searched, played, exported and deleted. Not for its SQL.

use hearken_audio::pcm;
use hearken_proto::device::ListenMode;
use hearken_proto::recording;
use hearken_test_support::eventually;
use hearken_test_support::vendors::Behaviour;
use hearken_virtual_device::Expectations;
use hearken_virtual_device::recording::Recording;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::turns::{spoken_turn, typed_turn};
use super::{Admin, PASSWORD, ask};
use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{HEARD, REPLY, TestServer, Vendors};

/// Sends a request below `/api/history`; returns its status and body.
async fn history(admin: &Admin, method: Method, path: &str) -> (u16, Value) {
    ask(&admin.server, method, &format!("/api/history{path}"), &admin.token, Value::Null).await
}

/// Waits until this many turns match the query, and returns them.
async fn kept(admin: &Admin, query: &str, count: usize) -> Vec<Value> {
    eventually("turns are stored", async || {
        let (status, told) = history(admin, Method::GET, query).await;
        assert_eq!(status, 200, "{told}");
        let turns = told["turns"].as_array().unwrap().clone();
        (turns.len() == count).then_some(turns)
    })
    .await
}

/// A person speaks to a device this many times.
async fn spoken_words(admin: &Admin, times: usize) {
    let mut person = Person::meet(&admin.server.device_url(), 1, ListenMode::Auto).await;
    for _ in 0..times {
        person.say(&SPEECH).await;
        person.answer().await;
    }
}

/// Downloads the sound of one side of a turn; returns its samples.
async fn sound(admin: &Admin, turn: &Value, side: &str) -> Vec<i16> {
    let url =
        admin.server.http_url(&format!("/api/history/{}/{side}.wav", turn["id"].as_str().unwrap()));
    let answer = Client::new().get(url).bearer_auth(&admin.token).send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"audio/wav".parse().unwrap())
    );
    let file = answer.bytes().await.unwrap();
    let reader = hound::WavReader::new(&file[..]).unwrap();
    assert_eq!(reader.spec().sample_rate, 24_000);
    reader.into_samples().map(Result::unwrap).collect()
}

#[tokio::test]
async fn turns_are_stored_searched_and_deleted() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    spoken_turn(&admin.server).await;
    let (_, told) = history(&admin, Method::GET, "/summary").await;
    assert_eq!(
        (&told["keep"], &told["turns"], &told["oldest"]),
        (&json!("off"), &json!(0), &Value::Null)
    );
    admin.set(json!({"history.keep": "text"})).await;
    spoken_turn(&admin.server).await;
    typed_turn(&admin.server).await;
    let turns = kept(&admin, "", 2).await;
    let (_, listed) =
        ask(&admin.server, Method::GET, "/api/turns", &admin.token, Value::Null).await;
    for (turn, kind) in turns.iter().zip(["text", "voice"]) {
        let mut turn = turn.clone();
        assert_eq!(turn["kind"], kind);
        let audio = turn.as_object_mut().unwrap().remove("audio");
        assert_eq!(audio, Some(json!({"heard": null, "said": null})));
        let same = listed["turns"].as_array().unwrap().iter().find(|t| t["id"] == turn["id"]);
        turn["began"] = same.unwrap()["began"].clone();
        assert_eq!(same, Some(&turn), "it equals its entry in the list");
    }
    let voice = &turns[1];
    assert_eq!((&voice["heard"], &voice["said"]), (&json!(HEARD), &json!(REPLY.join(" "))));
    let part: String = HEARD.chars().skip(2).take(5).collect::<String>().to_uppercase();
    let query =
        url::form_urlencoded::Serializer::new(String::new()).append_pair("q", &part).finish();
    assert_eq!(kept(&admin, &format!("?{query}"), 1).await[0]["id"], voice["id"]);
    kept(&admin, "?q=nobody+said+that", 0).await;
    kept(&admin, "?kind=text&outcome=answered&limit=1", 1).await;
    let (_, exported) = history(&admin, Method::GET, "/export").await;
    assert_eq!(exported, json!({"turns": turns}));
    let (_, page) = history(&admin, Method::GET, "?limit=1").await;
    let next = page["next"].as_i64().unwrap();
    assert_eq!(kept(&admin, &format!("?before={next}"), 1).await[0], *voice);

    let one = format!("/{}", voice["id"].as_str().unwrap());
    assert_eq!(history(&admin, Method::GET, &one).await, (200, voice.clone()));
    assert_eq!(history(&admin, Method::DELETE, &one).await.0, 204);
    for (method, path) in [
        (Method::GET, one.clone()),
        (Method::DELETE, one.clone()),
        (Method::GET, one + "/heard.wav"),
    ] {
        assert_eq!(history(&admin, method, &path).await.0, 404, "{path}");
    }
    assert_eq!(history(&admin, Method::DELETE, "?client=nobody").await.1, json!({"deleted": 0}));
    assert_eq!(history(&admin, Method::DELETE, "?all=true").await.1, json!({"deleted": 1}));
    kept(&admin, "", 0).await;
    let (_, told) = history(&admin, Method::GET, "/export").await;
    assert_eq!(told, json!({"turns": []}));
}

/// Downloads the turn as a recording. Its replay must give the same transcript and a reply.
async fn replays(admin: &Admin, turn: &Value) {
    admin.set(json!({"history.keep": "off"})).await;
    let path = format!("/api/history/{}/recording.jsonl", turn["id"].as_str().unwrap());
    let asked = Client::new().get(admin.server.http_url(&path)).bearer_auth(&admin.token);
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    let session = recording::Recording::parse(&answer.text().await.unwrap()).unwrap();
    let expect = session.header.expect.clone().unwrap();
    assert_eq!((expect.transcript.as_deref(), expect.reply), (Some(HEARD), Some(true)));
    let speech_end_s = session.header.speech_end_s.unwrap();
    let is_up = |frame: &&recording::Frame| matches!(frame.content, recording::Content::UpAudio(_));
    let last = session.frames.iter().rfind(is_up).unwrap().at.as_secs_f64();
    assert!((0.1..last).contains(&speech_end_s), "{speech_end_s} of {last}");
    let is_down = |f: &&recording::Frame| matches!(f.content, recording::Content::DownAudio(_));
    assert!(session.frames.iter().filter(is_down).count() > 5);
    let file = Recording::new("the turn", session);
    let played = file.replay(admin.server.device_url()).speed(20.0).await.unwrap();
    played.expect(Expectations::new()).unwrap();
}

#[tokio::test]
async fn a_turn_with_stored_sound_can_be_played_and_replayed() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    admin.set(json!({"history.keep": "audio"})).await;
    spoken_words(&admin, 1).await;
    let turn = kept(&admin, "", 1).await.remove(0);
    let events = turn["events"].as_array().unwrap();
    let first = events.iter().find(|event| event["name"] == "first_packet").unwrap();
    for side in ["heard", "said"] {
        let place = &turn["audio"][side];
        let start = place["start_ms"].as_i64().unwrap();
        let length = place["length_ms"].as_i64().unwrap();
        let samples = sound(&admin, &turn, side).await;
        let ms = i64::try_from(samples.len()).unwrap() / 24;
        assert!((ms - length).abs() <= 60, "{side}: {ms} of {length}");
        assert!(pcm::rms(&samples) > 100.0, "{side} is silent: {}", pcm::rms(&samples));
        match side {
            "heard" => assert!((-1_000..0).contains(&start), "it starts before the turn: {start}"),
            #[allow(clippy::cast_precision_loss, reason = "a small number")]
            _ => assert!((start as f64 - first["at_ms"].as_f64().unwrap()).abs() < 100.0, "{turn}"),
        }
    }
    replays(&admin, &turn).await;
    admin.set(json!({"history.keep": "audio"})).await;
    let (_, told) = history(&admin, Method::GET, "/summary").await;
    assert!(told["audio_bytes"].as_u64().unwrap() > 1_000, "{told}");
    assert_eq!(told["clients"][0]["client"], turn["client"]);
    let device = turn["client"].as_str().unwrap();
    let report = Client::new().post(admin.server.http_url("/xiaozhi/ota/"));
    let report = report.header("Device-Id", device).header("Client-Id", "a-board").json(&json!({}));
    assert_eq!(report.send().await.unwrap().status().as_u16(), 200);
    let path = format!("/api/devices/{device}");
    let delete =
        async || ask(&admin.server, Method::DELETE, &path, &admin.token, Value::Null).await.0;
    assert_eq!(delete().await, 204);
    kept(&admin, "", 0).await;
    assert_eq!(delete().await, 404);
    // A device that never sent an OTA request is known by its turns only.
    spoken_words(&admin, 1).await;
    let turn = kept(&admin, "", 1).await.remove(0);
    let path = format!("/api/devices/{}", turn["client"].as_str().unwrap());
    let (status, _) = ask(&admin.server, Method::DELETE, &path, &admin.token, Value::Null).await;
    assert_eq!(status, 204);
    kept(&admin, "", 0).await;
}

#[tokio::test]
async fn turns_just_before_a_shutdown_are_stored() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("a.db").display());
    let start = async || {
        Admin::start(&vendors, |config| {
            config.store.url = hearken_base::Secret::new(&url);
            config.history.keep = hearken_ports::role::Keep::Text;
        })
        .await
    };
    let admin = start().await;
    for _ in 0..3 {
        typed_turn(&admin.server).await;
    }
    admin.server.stop().await;
    let admin = start().await;
    kept(&admin, "", 3).await;
    admin.server.stop().await;
}

#[tokio::test]
async fn requests_without_a_token_and_invalid_queries_are_refused() {
    let vendors = Vendors::start().await;
    let admin =
        Admin::start(&vendors, |c| c.auth.required = hearken::config::AuthRequired::Auto).await;
    let one = "/api/history/00000000-0000-4000-8000-000000000001";
    let heard = format!("{one}/heard.wav");
    for (method, path) in [
        (Method::GET, "/api/history"),
        (Method::DELETE, "/api/history?all=true"),
        (Method::GET, "/api/history/summary"),
        (Method::GET, "/api/history/export"),
        (Method::GET, one),
        (Method::DELETE, one),
        (Method::GET, &heard),
    ] {
        for token in ["", "wrong", "a.b.c"] {
            let (status, told) = ask(&admin.server, method.clone(), path, token, Value::Null).await;
            assert_eq!(status, 401, "{method} {path}: {told}");
        }
        let unknown = path.starts_with(one);
        let (status, told) = ask(&admin.server, method.clone(), path, PASSWORD, Value::Null).await;
        assert_eq!(status, if unknown { 404 } else { 200 }, "{method} {path}: {told}");
    }
    let long = format!("?q={}", "x".repeat(201));
    for query in [
        "?limit=0",
        "?limit=201",
        "?before=x",
        "?before=0",
        "?q=",
        "?client=",
        &long,
        "?device=a",
        "?client=a&from=2026-01-01",
        "?client=a&client=b",
        "/export?device=a",
        "/export?client=a&limit=1",
    ] {
        assert_eq!(history(&admin, Method::GET, query).await.0, 400, "{query}");
    }
    for query in [
        "",
        "?all=yes",
        "?client=a&all=true",
        "?all=",
        "?client=a&q=word",
        "?client=a&kind=voice",
        "?client=a&client=b",
        "?all=true&before=1",
        "?all=true&all=false",
    ] {
        assert_eq!(history(&admin, Method::DELETE, query).await.0, 400, "{query}");
    }
    for (value, told) in [(json!("everything"), "history.keep"), (json!(null), "")] {
        let (status, answer) =
            admin.ask(Method::PUT, "/config", json!({"history.keep": value})).await;
        assert_eq!(status, if told.is_empty() { 200 } else { 400 }, "{answer}");
    }
    let server: &TestServer = &admin.server;
    assert!(server.metric("hearken_history_lost_total").await < 1.0);
}

/// The last request to the model: model name, start of the instructions, and number of messages.
fn last_request(vendors: &Vendors) -> (String, String, usize) {
    let request: Value = serde_json::from_str(vendors.llm.seen().texts.last().unwrap()).unwrap();
    assert_eq!(request.get("tools"), None, "none may be called");
    let messages = request["messages"].as_array().unwrap();
    let of = |place: usize| messages[place]["content"].as_str().unwrap();
    assert_eq!(of(messages.len() - 1), HEARD);
    let system: String = of(0).chars().take(12).collect();
    (request["model"].as_str().unwrap().into(), system, messages.len())
}

#[tokio::test]
async fn a_turn_can_be_rerun_with_other_instructions_and_another_model() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| {
        config.dialogue.system_prompt = "Be friendly at {current_time}.".into();
        config.llm.model = "usual".into();
    })
    .await;
    admin.set(json!({"history.keep": "text"})).await;
    spoken_words(&admin, 2).await;
    let turns = kept(&admin, "", 2).await;
    let again = async |turn: &Value, body: Value| {
        let path = format!("/api/history/{}/again", turn["id"].as_str().unwrap());
        ask(&admin.server, Method::POST, &path, &admin.token, body).await
    };
    for (turn, body, model, system, messages) in [
        (1, json!({}), "usual", "Be friendly ", 2),
        (0, json!({"model": " other "}), "other", "Be friendly ", 4),
        (1, json!({"model": "other"}), "other", "Be friendly ", 2),
        (0, json!({"system_prompt": "Be a pirate."}), "usual", "Be a pirate.", 4),
    ] {
        let (status, answer) = again(&turns[turn], body).await;
        assert_eq!((status, &answer["answer"]), (200, &json!(REPLY.join(" "))), "{answer}");
        assert_eq!(last_request(&vendors), (model.into(), system.into(), messages));
        assert_eq!(answer["earlier_turns"], json!(messages / 2 - 1));
        assert!(answer["first_word_ms"].as_u64() <= answer["total_ms"].as_u64(), "{answer}");
    }
    kept(&admin, "", 2).await;
    for body in [
        json!({"temperature": 1}),
        json!({"system_prompt": "x".repeat(8_001)}),
        json!({"model": "x".repeat(201)}),
        json!([]),
    ] {
        assert_eq!(again(&turns[0], body).await.0, 400);
    }
    assert_eq!(again(&json!({"id": "unknown"}), json!({})).await.0, 404);
    for (behaviour, status) in [(400, 400), (404, 503)] {
        vendors.llm.set(Behaviour::HttpStatus(behaviour, None));
        assert_eq!(again(&turns[0], json!({"model": "nobody's"})).await.0, status);
    }
    vendors.llm.set(Behaviour::Normal);
    assert_eq!(again(&turns[0], json!({"model": "nobody's"})).await.0, 200);
    admin.server.stop().await;
}
