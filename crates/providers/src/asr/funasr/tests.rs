//! Tests of the noise rules and of single messages. Not for whole sequences of messages.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpListener;

use super::*;

/// Behaviour of a server at the end of an utterance.
#[derive(Clone, Copy, PartialEq)]
enum Server {
    Silent,
    /// Takes this long, and answers no pings meanwhile.
    Works(Duration),
    /// Takes this long, and answers pings meanwhile.
    Recognises(Duration),
    /// Answers neither.
    Hangs,
}

/// Serves one utterance on each connection.
async fn serve(listener: TcpListener, behaves: Arc<Mutex<Server>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let behaves = Arc::clone(&behaves);
        tokio::spawn(async move {
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            while let Some(Ok(message)) = socket.next().await {
                if !message.to_text().is_ok_and(|text| text.contains("false")) {
                    continue;
                }
                let behaves = *behaves.lock().unwrap();
                match behaves {
                    Server::Silent => {}
                    Server::Works(length) => {
                        tokio::time::sleep(length).await;
                        let words = json!({ "mode": "offline", "text": "开灯" }).to_string();
                        socket.send(Message::text(words)).await.unwrap();
                    }
                    Server::Recognises(length) => {
                        let ready = tokio::time::Instant::now() + length;
                        // Reading answers pings.
                        let read = async { while socket.next().await.is_some() {} };
                        if tokio::time::timeout_at(ready, read).await.is_err() {
                            let words = json!({ "mode": "offline", "text": "关灯" }).to_string();
                            socket.send(Message::text(words)).await.unwrap_or_default();
                        }
                    }
                    Server::Hangs => std::future::pending().await,
                }
            }
        });
    }
}

#[tokio::test]
async fn audio_without_an_answer_is_noise_unless_the_server_works_or_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let settings = AsrSettings { result_timeout_ms: 1_200, ..AsrSettings::default() };
    let settle_noise = Duration::from_millis(100);
    let asr = FunAsr { settle_noise, ..FunAsr::new(url, &settings) };
    let behaves = Arc::new(Mutex::new(Server::Silent));
    let server = tokio::spawn(serve(listener, Arc::clone(&behaves)));
    let hear = async |server| {
        *behaves.lock().unwrap() = server;
        let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
        utterance.push(&[1_000; 960]).await.unwrap();
        utterance.finish().await.map(|heard| heard.text).map_err(|error| error.kind)
    };
    let words = Ok("开灯".to_owned());
    let nothing = Ok(String::new());
    let failed = Err(ProviderErrorKind::Timeout);
    for _ in 0..MOST_UNANSWERED {
        assert_eq!(hear(Server::Silent).await, nothing);
    }
    assert_eq!(hear(Server::Works(Duration::ZERO)).await, words);
    for _ in 0..MOST_UNANSWERED {
        assert_eq!(hear(Server::Silent).await, nothing);
    }
    assert_eq!(hear(Server::Silent).await, failed, "it recognises nothing any more");
    assert_eq!(hear(Server::Hangs).await, failed);
    let slow = Duration::from_millis(300);
    assert_eq!(hear(Server::Works(slow)).await, words);
    let began = Instant::now();
    assert_eq!(hear(Server::Silent).await, nothing);
    assert!(began.elapsed() >= slow * 2, "a slow server gets more time");
    server.abort();
}

#[tokio::test]
async fn a_server_that_answers_after_its_audio_counted_as_noise_gets_more_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let settings = AsrSettings { result_timeout_ms: 3_000, ..AsrSettings::default() };
    let settle_noise = Duration::from_millis(100);
    let asr = FunAsr { settle_noise, ..FunAsr::new(url, &settings) };
    let behaves = Server::Recognises(Duration::from_millis(600));
    let server = tokio::spawn(serve(listener, Arc::new(Mutex::new(behaves))));
    let hear = async || {
        let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
        utterance.push(&[1_000; 960]).await.unwrap();
        utterance.finish().await.unwrap().text
    };
    assert_eq!(hear().await, "");
    while lock(&asr.known).hears_late {
        tokio::task::yield_now().await;
    }
    assert_eq!(hear().await, "关灯");
    server.abort();
}

/// Serves utterances as the Python server does if a pause splits them: sends the first piece at the
/// first sound or after the end, and the second one this long after the end.
async fn serve_pieces(listener: TcpListener, is_early: bool, takes: Duration) {
    let piece = |text: &str, is_speaking: bool| {
        let result = json!({ "mode": "offline", "text": text, "is_final": is_speaking });
        Message::text(result.to_string())
    };
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            let mut is_sent = false;
            while let Some(Ok(message)) = socket.next().await {
                let is_end = message.to_text().is_ok_and(|text| text.contains("false"));
                if !is_sent && (is_end || is_early && message.is_binary()) {
                    socket.send(piece("打开", true)).await.unwrap();
                    is_sent = true;
                }
                if is_end {
                    tokio::time::sleep(takes).await;
                    socket.send(piece("客厅的灯", false)).await.unwrap_or_default();
                }
            }
        });
    }
}

/// Creates a recogniser at such a server. Without regard to the audio, it waits 50 ms for a piece.
async fn split_by_a_pause(is_early: bool, takes: Duration) -> FunAsr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(serve_pieces(listener, is_early, takes));
    let settle_early = Duration::from_millis(50);
    FunAsr { settle_early, ..FunAsr::new(url, &AsrSettings::default()) }
}

#[tokio::test]
async fn the_words_after_a_pause_are_awaited_in_proportion_to_their_audio() {
    for is_early in [true, false] {
        let asr = split_by_a_pause(is_early, Duration::from_millis(400)).await;
        let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
        for loudness in [1_000, 0, 1_000, 1_000, 1_000, 1_000] {
            utterance.push(&vec![loudness; 16_000]).await.unwrap();
        }
        let heard = utterance.finish().await.unwrap().text;
        assert_eq!(heard, "打开客厅的灯", "{is_early}");
        assert!(!lock(&asr.known).hears_late, "nothing is missing");
    }
}

#[tokio::test]
async fn a_server_whose_last_words_came_too_late_gets_more_time() {
    let asr = split_by_a_pause(true, Duration::from_millis(1_500)).await;
    let hear = async || {
        let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
        utterance.push(&[1_000; 960]).await.unwrap();
        while utterance.partial().is_none() {
            utterance.push(&[0; 16]).await.unwrap();
            tokio::task::yield_now().await;
        }
        utterance.push(&[1_000; 960]).await.unwrap();
        utterance.finish().await.unwrap().text
    };
    assert_eq!(hear().await, "打开");
    while lock(&asr.known).hears_late {
        tokio::task::yield_now().await;
    }
    assert_eq!(hear().await, "打开客厅的灯");
}

#[test]
fn a_piece_is_open_until_its_result_and_a_long_pause_begins_another() {
    let mut pieces = Pieces::default();
    let state = |pieces: &Pieces| [pieces.open, pieces.samples];
    pieces.push(16_000, false);
    assert_eq!(state(&pieces), [0, 0], "silence before the speech");
    pieces.push(1_600, true);
    pieces.push(4_800, false);
    pieces.push(1_600, true);
    assert_eq!(state(&pieces), [1, 8_000], "a short pause");
    pieces.push(16_000, false);
    pieces.push(1_600, true);
    assert_eq!(state(&pieces), [2, 25_600]);
    pieces.recognised();
    assert_eq!(state(&pieces), [1, 25_600]);
    pieces.recognised();
    pieces.recognised();
    assert_eq!(state(&pieces), [0, 0]);
    pieces.push(1_600, true);
    assert_eq!(state(&pieces), [1, 1_600]);
}

#[test]
fn segments_are_joined_by_a_space_only_between_latin_letters() {
    assert_eq!(join(&["hello there,", "how are you"]), "hello there, how are you");
    assert_eq!(join(&["你好，", "今天"]), "你好，今天");
    assert_eq!(join(&[]), "");
}

#[test]
fn partial_words_are_returned_and_replaced_by_their_segment() {
    let mut heard = Segments::new(FunAsrMode::TwoPass);
    let mut take = |mode: &str, text: &str| {
        heard.take(&json!({ "mode": mode, "text": text, "is_final": false }).to_string());
        heard.partial()
    };
    assert_eq!(take("2pass-online", "今天"), Some("今天".into()));
    assert_eq!(take("2pass-online", ""), None);
    assert_eq!(take("2pass-online", "天汽"), Some("今天天汽".into()));
    assert_eq!(take("2pass-offline", "今天天气，"), Some("今天天气，".into()));
    assert_eq!(take("2pass-online", "好"), Some("今天天气，好".into()));
    assert_eq!(heard.partial(), None);
    assert_eq!(heard.transcript().text, "今天天气，好");
    let mut whole = Segments::new(FunAsrMode::Offline);
    whole.take(&json!({ "mode": "2pass-online", "text": "a" }).to_string());
    assert_eq!(whole.partial(), None, "offline mode has no partial words");
}

#[test]
fn malformed_messages_are_read_leniently() {
    for (message, words) in [
        ("\u{feff}{\"text\":\"开灯\"}\n", Some("开灯")),
        (r#"{"text":"ok \ud83d light","timestamp":NaN}"#, Some("ok")),
        ("", Some("")),
        (" \n", Some("")),
        ("pong", None),
        (r#"{"text":"#, None),
    ] {
        let mut heard = Segments::new(FunAsrMode::Offline);
        let kind = heard.take(message);
        assert_eq!(kind.is_some(), words.is_some(), "{message}");
        let heard = heard.transcript().text;
        assert!(heard.starts_with(words.unwrap_or_default()), "{message}: {heard}");
    }
}

#[test]
fn each_result_has_its_kind() {
    for (message, kind) in [
        (json!({ "mode": "2pass-online", "text": "x", "is_final": true }), ResultKind::Nothing),
        (json!({ "mode": "2pass-offline", "text": "x", "is_final": false }), ResultKind::Segment),
        (json!({ "mode": "2pass-offline", "text": "x", "is_final": true }), ResultKind::Last),
        (json!({ "mode": "offline", "text": "x" }), ResultKind::Segment),
        (json!({ "mode": "offline", "text": "x", "is_final": null }), ResultKind::Segment),
        (json!({ "mode": "offline", "text": "x", "is_final": "true" }), ResultKind::Last),
        (json!({ "mode": "offline", "text": "x", "is_final": 1 }), ResultKind::Last),
        (json!({ "mode": null, "text": "x" }), ResultKind::Segment),
        (json!({ "text": "x" }), ResultKind::Segment),
        (json!({ "mode": "offline", "status": "ok" }), ResultKind::Nothing),
        (json!({ "mode": "offline", "text": null }), ResultKind::Nothing),
        (json!({ "mode": "offline", "text": null, "is_final": true }), ResultKind::Last),
        (json!({ "mode": 7, "text": "" }), ResultKind::Segment),
        (json!({ "mode": "2PASS-ONLINE", "text": "x" }), ResultKind::Nothing),
        (json!({ "mode": "OFFLINE", "text": "x", "is_final": true }), ResultKind::Last),
        (json!({ "mode": "2pass", "text": "x", "is_final": true }), ResultKind::Last),
        (json!({ "mode": "online", "text": "x" }), ResultKind::Segment),
        (json!({ "mode": "online", "error": "busy" }), ResultKind::Nothing),
    ] {
        let answer = serde_json::from_value(message.clone()).unwrap();
        assert_eq!(meaning(&answer), kind, "{message}");
    }
}
