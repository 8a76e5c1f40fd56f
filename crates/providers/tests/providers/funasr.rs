//! Message sequences of real servers with FunASR's protocol. Not for the recogniser's contract.

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_ports::{ProviderErrorKind, UtteranceSpec};
use hearken_providers::{AsrSettings, FunAsrMode};
use hearken_test_support::vendors::{Behaviour, FunAsr};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

/// Serves one utterance: sends `during` at its first sound and `after` at its end, then nothing more.
async fn serve(listener: TcpListener, during: Vec<Message>, after: Vec<Message>) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    let mut during = during.into_iter();
    while let Some(Ok(message)) = socket.next().await {
        let messages: Vec<Message> = match message {
            Message::Binary(_) => during.by_ref().collect(),
            Message::Text(text) if text.contains("false") => after.clone(),
            _ => Vec::new(),
        };
        for message in messages {
            socket.send(message).await.unwrap();
        }
    }
}

fn texts(values: Vec<Value>) -> Vec<Message> {
    values.into_iter().map(|value| Message::text(value.to_string())).collect()
}

/// Returns the transcript if the server sends these messages.
async fn heard(during: Vec<Value>, after: Vec<Value>) -> Result<String, ProviderErrorKind> {
    heard_messages(texts(during), texts(after)).await
}

async fn heard_messages(
    during: Vec<Message>,
    after: Vec<Message>,
) -> Result<String, ProviderErrorKind> {
    let settings = AsrSettings { result_timeout_ms: 20_000, ..AsrSettings::default() };
    heard_with(settings, during, after).await
}

/// The same in the mode `2pass`, in which results may be this late.
async fn heard_in_two_passes(
    deadline_ms: u64,
    during: Vec<Value>,
    after: Vec<Value>,
) -> Result<String, ProviderErrorKind> {
    let settings = AsrSettings {
        funasr_mode: FunAsrMode::TwoPass,
        result_timeout_ms: deadline_ms,
        ..AsrSettings::default()
    };
    heard_with(settings, texts(during), texts(after)).await
}

async fn heard_with(
    settings: AsrSettings,
    during: Vec<Message>,
    after: Vec<Message>,
) -> Result<String, ProviderErrorKind> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("funasr+ws://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(serve(listener, during, after));
    let settings = AsrSettings { url, ..settings };
    let asr = hearken_providers::asr(&settings).expect("the settings are right");
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    utterance.push(&[1_000; 960]).await.unwrap();
    let transcript = utterance.finish().await;
    server.abort();
    transcript.map(|transcript| transcript.text).map_err(|error| error.kind)
}

#[tokio::test]
async fn a_result_with_odd_fields_is_read() {
    let rows = [
        (json!({ "mode": "offline", "text": "开灯", "is_final": false }), "开灯"),
        (json!({ "mode": "offline", "text": "开灯", "is_final": null }), "开灯"),
        (json!({ "mode": "offline", "text": "开灯", "is_final": "true" }), "开灯"),
        (json!({ "mode": null, "text": "开灯" }), "开灯"),
        (json!({ "text": "开灯", "timestamp": [[1, 2]], "stamp_sents": [{}] }), "开灯"),
        (json!({ "mode": "offline", "text": "<|zh|><|HAPPY|><|Speech|><|withitn|>开灯" }), "开灯"),
        (json!({ "mode": "offline", "text": "<|nospeech|><|Event_UNK|>." }), ""),
        (json!({ "mode": "offline", "text": "" }), ""),
        (json!({ "mode": "offline", "text": null, "is_final": true }), ""),
    ];
    for (result, words) in rows {
        assert_eq!(heard(vec![], vec![result.clone()]).await.as_deref(), Ok(words), "{result}");
    }
}

#[tokio::test]
async fn a_confirmation_is_neither_a_result_nor_a_fault() {
    let confirmation = json!({ "mode": "offline", "wav_name": "utterance", "status": "ok" });
    let result = json!({ "mode": "offline", "text": "开灯" });
    assert_eq!(
        heard(vec![confirmation.clone()], vec![confirmation, result]).await.as_deref(),
        Ok("开灯")
    );
}

#[tokio::test]
async fn segments_are_one_transcript_whenever_they_arrive() {
    let piece = |text: &str| json!({ "mode": "offline", "text": text, "is_final": false });
    let one = piece("打开");
    let two = piece("客厅的灯");
    let whole = Ok("打开客厅的灯");
    assert_eq!(
        heard(vec![], vec![one.clone(), two.clone()]).await.as_deref(),
        whole,
        "both after the end"
    );
    assert_eq!(
        heard(vec![one.clone()], vec![two.clone()]).await.as_deref(),
        whole,
        "one before it"
    );
    assert_eq!(heard(vec![one, two], vec![]).await.as_deref(), whole, "none after the end");
}

#[tokio::test]
async fn the_last_words_count_even_if_no_segment_replaces_them() {
    let online = |text: &str| json!({ "mode": "2pass-online", "text": text });
    let segment = |text: &str| json!({ "mode": "2pass-offline", "text": text });
    // Nothing follows until the deadline.
    for (during, after, words) in [
        (vec![segment("打开灯，"), online("和窗户")], vec![], "打开灯，和窗户"),
        (vec![segment("打开灯，")], vec![online("和窗户")], "打开灯，和窗户"),
        (vec![online("打开灯")], vec![], "打开灯"),
        (vec![], vec![segment("打开灯，"), online("和窗户")], "打开灯，和窗户"),
    ] {
        let case = format!("{during:?} {after:?}");
        assert_eq!(heard_in_two_passes(400, during, after).await.as_deref(), Ok(words), "{case}");
    }
    // The segment arrives, and replaces them.
    let during = vec![segment("打开灯，"), online("和窗虎")];
    assert_eq!(
        heard_in_two_passes(20_000, during, vec![segment("和窗户。")]).await.as_deref(),
        Ok("打开灯，和窗户。")
    );
    assert_eq!(heard_in_two_passes(100, vec![], vec![]).await, Err(ProviderErrorKind::Timeout));
}

#[tokio::test]
async fn a_segment_with_is_final_is_not_the_end() {
    let result = |text: &str, is_final: bool| json!({ "mode": "offline", "text": text, "is_final": is_final });
    let tail = result("怎么样？", false);
    for (during, after) in [
        (vec![], vec![result("今天天气", true), tail.clone()]),
        (vec![], vec![result("今天天气", true), result("怎么样？", true)]),
        (vec![result("今天天气", true)], vec![tail.clone()]),
        (vec![result("今天天气", false)], vec![result("怎么样？", true)]),
        (vec![], vec![result("", true), result("今天天气", false), tail.clone()]),
        (vec![], vec![result("", false), result("今天天气怎么样？", true)]),
    ] {
        let case = format!("{during:?} {after:?}");
        assert_eq!(heard(during, after).await.as_deref(), Ok("今天天气怎么样？"), "{case}");
    }
}

#[tokio::test]
async fn words_count_even_if_the_service_closes() {
    let result = |is_final: bool| {
        Message::text(
            json!({ "mode": "offline", "text": "开灯", "is_final": is_final }).to_string(),
        )
    };
    let close = Message::Close(None);
    for is_final in [false, true] {
        let after = vec![result(is_final), close.clone()];
        assert_eq!(heard_messages(vec![], after).await.as_deref(), Ok("开灯"), "{is_final}");
        let during = vec![result(is_final)];
        let after = vec![close.clone()];
        assert_eq!(heard_messages(during, after).await.as_deref(), Ok("开灯"), "{is_final}");
    }
    let nothing = heard_messages(vec![], vec![close]).await;
    assert_eq!(nothing, Err(ProviderErrorKind::Unavailable));
}

#[tokio::test]
async fn if_the_service_closes_early_words_count_unless_speech_follows() {
    let online = json!({ "mode": "2pass-online", "text": "开灯" });
    let whole = json!({ "mode": "offline", "text": "开灯", "is_final": true });
    for (mode, words, later, is_heard) in [
        (FunAsrMode::TwoPass, Some(&online), 0, true),
        (FunAsrMode::TwoPass, Some(&online), 40, true),
        (FunAsrMode::TwoPass, Some(&online), 1_000, false),
        (FunAsrMode::TwoPass, Some(&online), 100, false),
        (FunAsrMode::Offline, Some(&whole), 0, true),
        (FunAsrMode::Offline, Some(&whole), 40, true),
        (FunAsrMode::Offline, Some(&whole), 1_000, false),
        (FunAsrMode::Offline, None, 0, false),
    ] {
        let case = format!("{words:?}, {later}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("funasr+ws://{}", listener.local_addr().unwrap());
        let during = texts(words.cloned().into_iter().collect());
        let during = during.into_iter().chain([Message::Close(None)]).collect();
        let server = tokio::spawn(serve(listener, during, vec![]));
        let settings = AsrSettings { url, funasr_mode: mode, ..AsrSettings::default() };
        let asr = hearken_providers::asr(&settings).unwrap();
        let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
        let mut pushed = utterance.push(&[1_000; 960]).await;
        for _ in 0..300 {
            pushed = pushed.and(utterance.push(&[later; 960]).await);
            tokio::task::yield_now().await;
        }
        server.abort();
        assert_eq!(pushed.is_ok(), is_heard, "{case}");
        let heard = utterance.finish().await.map(|heard| heard.text);
        assert_eq!(heard.ok().as_deref(), is_heard.then_some("开灯"), "{case}");
    }
}

#[tokio::test]
async fn messages_that_are_not_results_are_skipped() {
    let words = json!({ "mode": "online", "text": "开灯", "is_final": true }).to_string();
    for before in [
        Message::text("pong"),
        Message::text(""),
        Message::binary(vec![0, 0]),
        Message::text("{\"code\":1,\"message\":\"x\"}"),
    ] {
        let after = vec![before.clone(), Message::text(words.clone())];
        assert_eq!(heard_messages(vec![], after).await.as_deref(), Ok("开灯"), "{before:?}");
    }
    for result in [Message::text(format!("\u{feff}{words}")), Message::binary(words.into_bytes())] {
        assert_eq!(heard_messages(vec![], vec![result]).await.as_deref(), Ok("开灯"));
    }
    let only = heard_messages(vec![], vec![Message::text("busy")]).await;
    assert_eq!(only, Err(ProviderErrorKind::Protocol));
}

#[tokio::test]
async fn another_service_recognises_the_whole_if_one_closes_while_the_person_speaks() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("funasr+ws://{}", listener.local_addr().unwrap());
    let mut during = texts(vec![json!({ "mode": "2pass-online", "text": "开灯" })]);
    during.push(Message::Close(None));
    let server = tokio::spawn(serve(listener, during, vec![]));
    let second = FunAsr::start(Behaviour::Normal, "开灯一小时后关掉").await;
    let settings = AsrSettings {
        url,
        more_urls: vec![second.url()],
        funasr_mode: FunAsrMode::TwoPass,
        ..AsrSettings::default()
    };
    let asr = hearken_providers::asr(&settings).unwrap();
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    for _ in 0..300 {
        utterance.push(&[1_000; 960]).await.unwrap();
        tokio::task::yield_now().await;
    }
    server.abort();
    assert_eq!(utterance.finish().await.unwrap().text, "开灯一小时后关掉");
    assert_eq!(second.seen().requests, 1);
}
