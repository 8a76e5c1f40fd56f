//! Service tests: the result and the time for each service, and the error if one fails.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hearken_audio::pcm;
use hearken_test_support::eventually;
use hearken_test_support::vendors::Behaviour;
use reqwest::Method;
use serde_json::{Value, json};

use super::turns::spoken_turn;
use super::{Admin, ask};
use crate::support::app::{HEARD, REPLY, Vendors};

async fn tested(admin: &Admin, body: Value) -> (u16, Value) {
    ask(&admin.server, Method::POST, "/api/services/test", &admin.token, body).await
}

/// One second of sound as a WAV file in base64.
fn recording() -> String {
    let sound = pcm::tone(440.0, 16_000, 16_000);
    STANDARD.encode(hearken::history::sound::wav_file(&sound, 16_000))
}

#[tokio::test]
async fn each_service_is_tested_alone_and_timed() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let (status, told) = tested(&admin, json!({"service": "tts"})).await;
    assert_eq!((status, &told["ok"], &told["error"]), (200, &json!(true), &Value::Null), "{told}");
    assert!(told["first_ms"].as_u64().unwrap() <= told["total_ms"].as_u64().unwrap(), "{told}");
    let file = STANDARD.decode(told["audio"].as_str().unwrap()).unwrap();
    let reader = hound::WavReader::new(&file[..]).unwrap();
    assert!(reader.len() > 1_000, "{} samples", reader.len());
    let sounds = vendors.asr.seen().audio_bytes;
    for body in [json!({"service": "asr"}), json!({"service": "asr", "recording": recording()})] {
        let (status, told) = tested(&admin, body).await;
        assert_eq!(
            (status, &told["text"], &told["ok"]),
            (200, &json!(HEARD), &json!(true)),
            "{told}"
        );
        assert_eq!((&told["first_ms"], &told["audio"]), (&Value::Null, &Value::Null));
    }
    assert!(vendors.asr.seen().audio_bytes - sounds > 32_000, "it received both");
    let (status, told) = tested(&admin, json!({"service": "llm"})).await;
    assert_eq!((status, &told["text"]), (200, &json!(REPLY.join(" "))), "{told}");
    admin.server.stop().await;
}

#[tokio::test]
async fn speech_tests_use_the_voice_and_count_towards_the_limit() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| config.usage.total_seconds = 1).await;
    let text = "Nobody has said this before.";
    let voice = "another";
    let body = json!({"service": "tts", "text": text, "voice": voice});
    let (status, told) = tested(&admin, body.clone()).await;
    assert_eq!((status, &told["ok"], &told["text"]), (200, &json!(true), &json!(text)), "{told}");
    // Meanwhile the server also has its fixed phrases synthesised.
    let sent = json!({"text": text, "voice": voice});
    let spoken = calls(&admin, "tts").await;
    assert!(spoken.iter().any(|call| call["sent"] == sent), "{spoken:?}");
    let (_, told) = ask(&admin.server, Method::GET, "/api/usage", &admin.token, Value::Null).await;
    let trials = told["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "trial");
    assert_eq!(trials.unwrap()["said_chars"], text.len(), "{told}");
    // Further requests, until a second of speech is used.
    let refused = eventually("the limit is reached", async || {
        let (_, told) = tested(&admin, body.clone()).await;
        told["error"].as_str().map(ToOwned::to_owned)
    });
    assert_eq!(refused.await, "nothing is left today of the seconds of speech for all clients");
    for (field, characters) in [("text", 1_001), ("voice", 201)] {
        let long = json!({"service": "tts", field: "x".repeat(characters)});
        let (status, told) = tested(&admin, long).await;
        assert!(status == 400 && told.to_string().contains(field), "{told}");
    }
    admin.server.stop().await;
}

#[tokio::test]
async fn a_failed_test_gives_the_reason_and_passes_after_recovery() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| {
        config.llm.api_key = hearken_base::Secret::new("sk-hidden")
    })
    .await;
    for (service, stub) in [("tts", &vendors.tts), ("asr", &vendors.asr), ("llm", &vendors.llm)] {
        let behaviour =
            if service == "llm" { Behaviour::HttpStatus(401, None) } else { Behaviour::Garbage };
        stub.set(behaviour);
        let body = json!({"service": service, "recording": recording()});
        let (status, told) = tested(&admin, body.clone()).await;
        assert_eq!(
            (status, &told["ok"], &told["text"]),
            (200, &json!(false), &Value::Null),
            "{told}"
        );
        let about = told["error"].as_str().unwrap();
        assert!(about.len() > 10 && !about.contains("hidden"), "{about}");
        stub.set(Behaviour::Normal);
        let (_, told) = tested(&admin, body).await;
        assert_eq!(told["ok"], true, "{service}: {told}");
    }
    vendors.tts.set(Behaviour::Garbage);
    let (_, told) = tested(&admin, json!({"service": "asr"})).await;
    assert!(
        told["error"].as_str().unwrap().starts_with("the synthesiser has nothing to recognise"),
        "{told}"
    );
    admin.server.stop().await;
}

#[tokio::test]
async fn service_tests_need_a_token_and_run_one_at_a_time() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| {
        config.auth.required = hearken::config::AuthRequired::Auto;
        config.llm.timeout_ms = 6_000;
    })
    .await;
    let (status, _) =
        ask(&admin.server, Method::POST, "/api/services/test", "", json!({"service": "tts"})).await;
    assert_eq!(status, 401);
    for body in [
        json!({}),
        json!({"service": "store"}),
        json!({"service": "asr", "recording": "!"}),
        json!({"service": "asr", "recording": "AAAA"}),
        json!({"service": "asr", "file": "x"}),
        json!(["asr"]),
    ] {
        assert_eq!(tested(&admin, body.clone()).await.0, 400, "{body}");
    }
    vendors.llm.set(Behaviour::Silent);
    let silent = tested(&admin, json!({"service": "llm"}));
    let other = async {
        vendors.llm.until(|seen| seen.requests > 0).await;
        let busy = tested(&admin, json!({"service": "tts"})).await;
        vendors.llm.set(Behaviour::Normal);
        busy
    };
    let ((_, silent), (status, busy)) = tokio::join!(silent, other);
    assert_eq!((status, &silent["ok"]), (503, &json!(false)), "{busy} {silent}");
    let (_, told) = tested(&admin, json!({"service": "tts"})).await;
    assert_eq!(told["ok"], true, "the next test runs: {told}");
    admin.server.stop().await;
}

/// The listed calls of a service.
async fn calls(admin: &Admin, service: &str) -> Vec<Value> {
    let path = format!("/api/services/calls?service={service}");
    let (status, told) = ask(&admin.server, Method::GET, &path, &admin.token, Value::Null).await;
    assert_eq!((status, &told["words"]), (200, &json!(true)), "{told}");
    told["calls"].as_array().unwrap().clone()
}

#[tokio::test]
async fn service_calls_are_listed_with_input_and_result_even_if_failed() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| config.llm.retry_within_ms = 0).await;
    spoken_turn(&admin.server).await;
    let heard = calls(&admin, "asr").await.remove(0);
    assert_eq!((&heard["outcome"], &heard["got"]["text"]), (&json!("answered"), &json!(HEARD)));
    assert!(heard["sent"]["audio_ms"].as_u64().unwrap() > 500, "{heard}");
    let asked = calls(&admin, "llm").await.remove(0);
    assert_eq!((&asked["sent"]["text"], &asked["outcome"]), (&json!(HEARD), &json!("answered")));
    let written = asked["got"]["text"].as_str().unwrap();
    assert!(REPLY.iter().all(|sentence| written.contains(sentence.trim())), "{asked}");
    let said = calls(&admin, "tts").await;
    let texts: Vec<_> = said.iter().filter_map(|call| call["sent"]["text"].as_str()).collect();
    assert!(REPLY.iter().all(|sentence| texts.contains(&sentence.trim())), "{texts:?}");
    let spoken = said.iter().find(|call| call["outcome"] == "answered").unwrap();
    assert!(spoken["got"]["audio_ms"].as_u64().unwrap() > 100, "{spoken}");
    vendors.llm.set(Behaviour::HttpStatus(401, None));
    let (_, _) = ask(
        &admin.server,
        Method::POST,
        "/api/services/test",
        &admin.token,
        json!({"service": "llm"}),
    )
    .await;
    let failed = calls(&admin, "llm").await.remove(0);
    assert_eq!(failed["outcome"], "failed", "{failed}");
    assert!(failed["error"].as_str().unwrap().len() > 5, "{failed}");
    for query in ["?service=x", "?limit=0", "?limit=201"] {
        let path = format!("/api/services/calls{query}");
        assert_eq!(ask(&admin.server, Method::GET, &path, &admin.token, Value::Null).await.0, 400);
    }
}
