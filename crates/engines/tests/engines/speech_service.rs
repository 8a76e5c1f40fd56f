//! The two speech services over real sockets, with scripted engines: every message of both
//! protocols, many concurrent clients, cancelling, full queues, garbage.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt;
use hearken_audio::opus::Encoder;
use hearken_engines::speech::OUTPUT_RATE_HZ;
use hearken_engines::speech::asr_service::AsrService;
use hearken_engines::speech::pool::Pool;
use hearken_proto::speech::asr::{AsrEvent, BatchState, VadEvent};
use hearken_proto::speech::tts::{AudioFrame, FrameKind, TtsEvent};
use hearken_test_support::engines::{Gate, hearing};
use hearken_test_support::speech::{Client, asr, codes, letters, listen, tts};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_batch_goes_through_its_states() {
    let service = asr(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/").await;
    client.say(r#"{"command":"batch_start","sample_rate":16000,"language":"中文"}"#).await;
    let state = |event| match event {
        AsrEvent::BatchProgress { state, .. } => state,
        other => panic!("expected progress, not {other:?}"),
    };
    assert_eq!(state(client.heard().await), BatchState::Receiving);
    client.send_pcm(&[7; 16_000]).await;
    client.say(r#"{"command":"batch_end"}"#).await;
    assert_eq!(state(client.heard().await), BatchState::Recognizing);
    let AsrEvent::BatchResult { text, duration, samples, timestamp } = client.heard().await else {
        panic!("a result")
    };
    assert_eq!((text.as_str(), samples), ("7 x 16000", 16_000));
    assert!((duration - 1.0).abs() < 1e-9 && timestamp > 1_600_000_000_000);
    assert_eq!(state(client.heard().await), BatchState::Complete);
}

#[tokio::test]
async fn every_wrong_command_has_its_code() {
    let service = asr(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/").await;
    for (text, code) in [
        ("{", 1),
        (r#"{"command":"dance"}"#, 3),
        ("[]", 3),
        (r#"{"command":"ping","command":"reset"}"#, 3),
        (r#"{"command":"speaker_list"}"#, 3),
        (r#"{"command":"batch_end"}"#, 4),
        (r#"{"command":"set_audio_format","format":"mp3"}"#, 17),
        (r#"{"command":"batch_start","sample_rate":8000}"#, 17),
        (r#"{"command":"batch_start","sample_rate":"fast"}"#, 2),
    ] {
        client.say(text).await;
        assert_eq!(client.error_code().await, code, "{text}");
    }
    for (samples, code) in
        [(vec![], 5), (vec![1; 4_799], 6), (vec![13; 5_000], 2), (vec![14; 5_000], 2)]
    {
        client.say(r#"{"command":"batch_start"}"#).await;
        client.heard().await;
        client.send_pcm(&samples).await;
        client.say(r#"{"command":"batch_end"}"#).await;
        let event = match client.heard().await {
            AsrEvent::BatchProgress { .. } => client.heard().await,
            event => event,
        };
        assert!(matches!(event, AsrEvent::Error { code: c, .. } if c == code), "{event:?}");
    }
    assert_eq!(client.batch(&[15; 5_000]).await, "");
    client.heard().await;
    client.say(r#"{"command":"ping"}"#).await;
    assert_eq!(client.heard().await, AsrEvent::Pong);
}

#[tokio::test]
async fn a_batch_beyond_five_minutes_is_refused() {
    let service = asr(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/").await;
    client.say(r#"{"command":"batch_start"}"#).await;
    client.heard().await;
    for _ in 0..11 {
        client.send_pcm(&vec![1; 480_000]).await;
    }
    client.say(r#"{"command":"batch_end"}"#).await;
    assert_eq!(client.error_code().await, 2);
    assert_eq!(client.batch(&[3; 5_000]).await, "3 x 5000");
}

#[tokio::test]
async fn opus_is_recognised_and_reset_returns_to_pcm() {
    let service = asr(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/").await;
    client.say(r#"{"command":"set_audio_format","format":"opus"}"#).await;
    assert!(matches!(client.heard().await, AsrEvent::AudioFormatSet { .. }));
    let mut encoder = Encoder::new(16_000, 24_000, 5).unwrap();
    client.say(r#"{"command":"batch_start"}"#).await;
    for _ in 0..50 {
        let packet = encoder.encode(&[200; 320]).unwrap();
        client.0.send(Message::Binary(packet)).await.unwrap();
    }
    client.say(r#"{"command":"batch_end"}"#).await;
    let text = client.batch_text().await;
    assert!(text.ends_with(" x 16000"), "{text}");
    client.heard().await;
    client.0.send(Message::Binary(Bytes::from_static(&[0xff, 0xff, 0xff]))).await.unwrap();
    assert_eq!(client.error_code().await, 17);
    client.say(r#"{"command":"reset"}"#).await;
    assert!(matches!(client.heard().await, AsrEvent::Reset { .. }));
    assert_eq!(client.batch(&[9; 4_800]).await, "9 x 4800");
}

#[tokio::test]
async fn streaming_finds_utterances_and_numbers_them() {
    let service = asr(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/asr").await;
    let mut audio = vec![0_u8; 100];
    for value in [2_i16, 15, 3] {
        audio.extend([value; 5_000].iter().flat_map(|s| s.to_le_bytes()));
        audio.extend([0, 0]);
    }
    // Odd piece sizes: split samples are joined.
    for piece in audio.chunks(1_001) {
        client.0.send(Message::Binary(Bytes::copy_from_slice(piece))).await.unwrap();
    }
    let mut order = Vec::new();
    let mut texts = Vec::new();
    while texts.len() < 2 {
        match client.heard().await {
            AsrEvent::Vad { event, samples, .. } => {
                assert_eq!(samples, (event == VadEvent::SpeechEnd).then_some(5_000));
                order.push(event);
            }
            AsrEvent::Result { text, segment_id, is_final, .. } => {
                assert!(is_final);
                texts.push((segment_id, text));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(texts, [(1, "2 x 5000".to_owned()), (3, "3 x 5000".to_owned())]);
    assert_eq!(order, [VadEvent::SpeechStart, VadEvent::SpeechEnd].repeat(3));
}

#[tokio::test]
async fn reset_drops_the_utterance_in_recognition() {
    let gate = Gate::closed();
    let service = asr(&gate, 1, 4).await;
    let mut client = Client::connect(&service, "/").await;
    client.say(r#"{"command":"batch_start"}"#).await;
    client.send_pcm(&[4; 5_000]).await;
    client.say(r#"{"command":"batch_end"}"#).await;
    gate.waiting(1).await;
    client.say(r#"{"command":"reset"}"#).await;
    gate.waiting(0).await;
    gate.let_pass(1);
    client.heard().await;
    client.heard().await;
    assert!(matches!(client.heard().await, AsrEvent::Reset { .. }));
    assert_eq!(client.batch(&[5; 5_000]).await, "5 x 5000");
}

#[tokio::test]
async fn a_full_recogniser_returns_an_error_and_recovers() {
    let gate = Gate::closed();
    let service = asr(&gate, 1, 1).await;
    let mut clients = Vec::new();
    for value in 1..=3 {
        let mut client = Client::connect(&service, "/").await;
        client.say(r#"{"command":"batch_start"}"#).await;
        client.heard().await;
        client.send_pcm(&[value; 5_000]).await;
        client.say(r#"{"command":"batch_end"}"#).await;
        client.heard().await;
        if value == 1 {
            gate.waiting(1).await;
        } else if value == 2 {
            // Its pong shows that the batch before it is queued.
            client.say(r#"{"command":"ping"}"#).await;
            assert_eq!(client.heard().await, AsrEvent::Pong);
        }
        clients.push(client);
    }
    assert_eq!(clients[2].error_code().await, 2);
    gate.let_pass(2);
    assert_eq!(clients[0].batch_text().await, "1 x 5000");
    assert_eq!(clients[1].batch_text().await, "2 x 5000");
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_work() {
    let gate = Gate::closed();
    let service = asr(&gate, 1, 4).await;
    let mut client = Client::connect(&service, "/").await;
    client.say(r#"{"command":"batch_start"}"#).await;
    client.send_pcm(&[4; 5_000]).await;
    client.say(r#"{"command":"batch_end"}"#).await;
    gate.waiting(1).await;
    drop(client);
    gate.waiting(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_get_their_own_transcripts() {
    let service = Arc::new(asr(&Gate::open(), 2, 32).await);
    let mut clients = tokio::task::JoinSet::new();
    for value in 100..116_i16 {
        let service = Arc::clone(&service);
        clients.spawn(async move {
            let mut client = Client::connect(&service, "/").await;
            for round in 0..5 {
                let length = 5_000 + round * 10;
                let text = client.batch(&vec![value; length]).await;
                assert_eq!(text, format!("{value} x {length}"));
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let service = asr(&Gate::open(), 1, 4).await;
    let refused = tokio_tungstenite::connect_async(format!("ws://{}/x", service.address)).await;
    assert!(matches!(refused, Err(Error::Http(response)) if response.status() == 404));
}

#[tokio::test]
async fn speech_streams_in_frames_of_a_quarter_second() {
    let service = tts(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/tts").await;
    client.request("a", r#"{"text":"abcdefgh"}"#).await;
    let (frames, result) = client.spoken("a").await;
    assert_eq!(letters(&frames), codes("abcdefgh"));
    for (index, frame) in frames.iter().enumerate() {
        assert_eq!(frame.kind, FrameKind::Stream);
        assert_eq!((frame.meta.sequence, frame.meta.sample_rate), (index as u64, OUTPUT_RATE_HZ));
        assert!(frame.pcm.len() <= 12_000 && !frame.meta.is_final);
    }
    assert_eq!((result.samples, result.chunks), (8 * 2_400, 4));
    assert!((result.duration - 0.8).abs() < 1e-9 && !result.cancelled);
}

#[tokio::test]
async fn a_whole_answer_is_one_frame() {
    let service = tts(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/").await;
    client.request("a", r#"{"text":"你好abc","mode":"non_streaming","voice_id":"two"}"#).await;
    let (frames, _) = client.spoken("a").await;
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].kind, FrameKind::Whole);
    assert_eq!(letters(&frames), codes("你好abc"));
}

#[tokio::test]
async fn every_wrong_request_has_its_code() {
    let service = tts(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/tts").await;
    for (text, code) in [
        ("nonsense", "INVALID_JSON"),
        (r#"{"type":"dance"}"#, "INVALID_PARAMS"),
        (r#"{"type":"tts_request","request_id":"r"}"#, "INVALID_PARAMS"),
        (r#"{"type":"tts_request","request_id":"","params":{"text":"a"}}"#, "INVALID_PARAMS"),
        (r#"{"type":"tts_request","request_id":"r","params":{"text":"…"}}"#, "INVALID_PARAMS"),
        (
            r#"{"type":"tts_request","request_id":"r","params":{"text":"a","speed":9}}"#,
            "INVALID_PARAMS",
        ),
        (
            r#"{"type":"tts_request","request_id":"r","params":{"text":"a","mode":"loud"}}"#,
            "INVALID_PARAMS",
        ),
        (
            r#"{"type":"tts_request","request_id":"r","params":{"text":"a","voice_id":"three"}}"#,
            "VOICE_NOT_FOUND",
        ),
        (r#"{"type":"cancel","request_id":"r"}"#, "INVALID_PARAMS"),
        (r#"{"type":"tts_request","request_id":"r","params":{"text":"x"}}"#, "INTERNAL_ERROR"),
        (r#"{"type":"tts_request","request_id":"r","params":{"text":"p"}}"#, "INTERNAL_ERROR"),
    ] {
        client.say(text).await;
        let (id, found) = client.refusal().await;
        assert_eq!(found, code, "{text}");
        assert_eq!(id.as_deref() == Some("r"), text.contains(r#""r""#), "{text}");
    }
    let long = format!(r#"{{"text":"{}"}}"#, "好".repeat(5_001));
    client.request("long", &long).await;
    assert_eq!(client.refusal().await, (Some("long".into()), "TEXT_TOO_LONG".into()));
    client.0.send(Message::Binary(Bytes::from_static(b"?"))).await.unwrap();
    assert_eq!(client.refusal().await, (None, "INVALID_PARAMS".into()));
    client.say(r#"{"type":"ping","timestamp":5}"#).await;
    let pong = TtsEvent::decode(client.next().await.to_text().unwrap()).unwrap();
    assert_eq!(pong, TtsEvent::Pong { timestamp: Some(5.into()) });
}

#[tokio::test]
async fn cancelling_ends_queued_and_running_requests() {
    let gate = Gate::closed();
    let service = tts(&gate, 1, 4).await;
    let mut client = Client::connect(&service, "/tts").await;
    client.request("runs", r#"{"text":"abc"}"#).await;
    gate.waiting(1).await;
    client.request("waits", r#"{"text":"def"}"#).await;
    for id in ["waits", "runs"] {
        client.say(&format!(r#"{{"type":"cancel","request_id":"{id}"}}"#)).await;
        let (frames, result) = client.spoken(id).await;
        assert!(result.cancelled && frames.is_empty(), "{id}");
    }
    gate.waiting(0).await;
    gate.let_pass(1);
    client.request("runs", r#"{"text":"ghi"}"#).await;
    assert_eq!(letters(&client.spoken("runs").await.0), codes("ghi"));
    assert_eq!(service.spoken.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_full_synthesiser_returns_an_error_and_recovers() {
    let gate = Gate::closed();
    let service = tts(&gate, 1, 2).await;
    let mut client = Client::connect(&service, "/tts").await;
    let mut other = Client::connect(&service, "/tts").await;
    client.request("a", r#"{"text":"abc"}"#).await;
    gate.waiting(1).await;
    client.request("a", r#"{"text":"abc"}"#).await;
    assert_eq!(client.refusal().await, (Some("a".into()), "INVALID_PARAMS".into()));
    client.request("b", r#"{"text":"def"}"#).await;
    client.say(r#"{"type":"ping"}"#).await;
    while !matches!(client.next().await, Message::Text(text) if text.contains("pong")) {}
    other.request("c", r#"{"text":"ghi"}"#).await;
    assert_eq!(other.refusal().await, (Some("c".into()), "QUEUE_FULL".into()));
    drop(client);
    gate.waiting(0).await;
    gate.let_pass(9);
    loop {
        other.request("d", r#"{"text":"jkl"}"#).await;
        // The slot of the closed connection becomes free a moment later.
        let Message::Text(text) = other.next().await else { continue };
        if !text.contains("QUEUE_FULL") {
            break;
        }
    }
    assert_eq!(letters(&other.spoken("d").await.0), codes("jkl"));
}

#[tokio::test]
async fn cached_phrases_are_not_synthesised_again() {
    let service = tts(&Gate::open(), 1, 4).await;
    let mut client = Client::connect(&service, "/tts").await;
    for (id, params, clauses) in [
        ("a", r#"{"text":"Same words."}"#, 1),
        ("b", r#"{"text":"Same words."}"#, 1),
        ("c", r#"{"text":"Same words.","speed":1.5}"#, 2),
        ("d", r#"{"text":"Same words.","voice_id":"two"}"#, 3),
    ] {
        client.request(id, params).await;
        assert!(!client.spoken(id).await.0.is_empty());
        assert_eq!(service.spoken.load(Ordering::SeqCst), clauses, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_on_many_connections_are_not_mixed() {
    let service = Arc::new(tts(&Gate::open(), 2, 64).await);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..8 {
        let service = Arc::clone(&service);
        clients.spawn(async move {
            let mut client = Client::connect(&service, "/tts").await;
            let texts: Vec<String> =
                (0..4).map(|i| format!("a{}b{}", number, "cdef".get(i..=i).unwrap())).collect();
            for (i, text) in texts.iter().enumerate() {
                client.request(&i.to_string(), &format!(r#"{{"text":"{text}"}}"#)).await;
            }
            let mut heard = vec![Vec::new(); texts.len()];
            let mut left = texts.len();
            while left > 0 {
                match client.next().await {
                    Message::Binary(bytes) => {
                        let frame = AudioFrame::decode(&bytes).unwrap();
                        let id: usize = frame.meta.request_id.parse().unwrap();
                        heard[id].push(frame);
                    }
                    message => match TtsEvent::decode(message.to_text().unwrap()).unwrap() {
                        TtsEvent::Complete { .. } => left -= 1,
                        TtsEvent::Error { error, .. } => panic!("{error:?}"),
                        _ => {}
                    },
                }
            }
            for (frames, text) in heard.iter().zip(texts) {
                assert_eq!(letters(frames), codes(&text));
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

#[tokio::test]
async fn stopping_closes_the_sockets() {
    let (listener, address) = listen().await;
    let stop = CancellationToken::new();
    let pool = Arc::new(Pool::start(1, 4).unwrap());
    let service = AsrService { hearing: hearing(&Gate::open()), pool };
    let serving = tokio::spawn(service.serve(listener, stop.clone()));
    let url = format!("ws://{address}/");
    let mut client = Client(tokio_tungstenite::connect_async(url).await.unwrap().0);
    client.say(r#"{"command":"ping"}"#).await;
    client.heard().await;
    stop.cancel();
    assert!(matches!(client.next().await, Message::Close(Some(_))));
    drop(client);
    tokio::time::timeout(Duration::from_secs(5), serving).await.unwrap().unwrap();
}
