//! Stubs of the WebSocket vendors: ListenAI recognition and synthesis, FunASR. Not for HTTP.

use bytes::Bytes;
use hearken_proto::speech::asr::{AsrCommand, AsrEvent, BatchState, code};
use hearken_proto::speech::tts::{
    AudioFrame, FrameKind, FrameMeta, TtsCommand, TtsEvent, TtsResult,
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::sockets::Link;
use super::{Behaviour, SLOW, Says, Shared, Stub};

/// A recognition service with the ListenAI protocol.
pub struct ListenAiAsr;

impl ListenAiAsr {
    /// Returns `transcript` for everything.
    pub async fn start(behaviour: Behaviour, transcript: &str) -> Stub {
        Stub::start("ws", "", behaviour, transcript.into(), recognise).await
    }

    /// Returns `hear` of the s16le audio of each batch.
    pub async fn hearing(hear: fn(&[u8]) -> String) -> Stub {
        Stub::start("ws", "", Behaviour::Normal, Says::Answer(hear), recognise).await
    }
}

async fn recognise(stream: TcpStream, shared: Shared) {
    let Some(mut link) = Link::accept(stream, &shared).await else { return };
    let mut batch: Option<Vec<u8>> = None;
    while let Some(message) = link.next(&shared).await {
        let behaviour = shared.behaviour();
        if behaviour == Behaviour::Silent {
            continue;
        }
        let text = match message {
            Message::Binary(_) if behaviour == Behaviour::ResetMidStream => return,
            Message::Binary(audio) => {
                if let Some(batch) = &mut batch {
                    batch.extend_from_slice(&audio);
                }
                continue;
            }
            other => other.into_text().unwrap(),
        };
        if behaviour == Behaviour::Slow {
            tokio::time::sleep(SLOW).await;
        }
        let events = match AsrCommand::decode(&text).unwrap() {
            AsrCommand::Ping => vec![AsrEvent::Pong],
            AsrCommand::Reset => vec![AsrEvent::Reset { message: String::new() }],
            AsrCommand::SetAudioFormat { format } => {
                vec![AsrEvent::AudioFormatSet { format, timestamp: 0 }]
            }
            AsrCommand::BatchStart { .. } => {
                batch = Some(Vec::new());
                shared.note(|seen| seen.requests += 1);
                vec![progress(BatchState::Receiving)]
            }
            AsrCommand::BatchEnd if behaviour == Behaviour::Garbage => {
                link.send(Message::text("{{ no JSON")).await;
                continue;
            }
            AsrCommand::BatchEnd => conclude(batch.take(), behaviour, &shared),
        };
        for event in events {
            link.send(Message::text(event.encode())).await;
        }
    }
}

fn progress(state: BatchState) -> AsrEvent {
    AsrEvent::BatchProgress { state, message: String::new() }
}

fn conclude(batch: Option<Vec<u8>>, behaviour: Behaviour, shared: &Shared) -> Vec<AsrEvent> {
    let refused = |code| vec![AsrEvent::Error { message: "refused".into(), code, timestamp: 0 }];
    match batch {
        None => refused(code::BATCH_NOT_STARTED),
        Some(audio) if audio.is_empty() => refused(code::NO_AUDIO),
        Some(audio) => {
            let empty = behaviour == Behaviour::Empty;
            let text = if empty { String::new() } else { shared.words(&audio) };
            let samples = audio.len() as u64 / 2;
            let result = AsrEvent::BatchResult { text, duration: 1.0, samples, timestamp: 0 };
            vec![progress(BatchState::Recognizing), result, progress(BatchState::Complete)]
        }
    }
}

/// A recognition service with FunASR's protocol.
pub struct FunAsr;

impl FunAsr {
    /// Returns `transcript` for everything; in `2pass` mode, one segment per line of it.
    pub async fn start(behaviour: Behaviour, transcript: &str) -> Stub {
        Stub::start("funasr+ws", "", behaviour, transcript.into(), recognise_funasr).await
    }
}

async fn recognise_funasr(stream: TcpStream, shared: Shared) {
    let Some(mut link) = Link::accept(stream, &shared).await else { return };
    let mut two_pass = false;
    while let Some(message) = link.next(&shared).await {
        let behaviour = shared.behaviour();
        let Message::Text(text) = message else {
            if behaviour == Behaviour::ResetMidStream {
                return;
            }
            continue;
        };
        let order: Value = serde_json::from_str(&text).unwrap();
        if order["is_speaking"] == json!(true) {
            two_pass = order["mode"] == json!("2pass");
            shared.note(|seen| seen.requests += 1);
            continue;
        }
        match behaviour {
            Behaviour::Silent => continue,
            Behaviour::Garbage => {
                link.send(Message::text("no result")).await;
                continue;
            }
            Behaviour::Slow => tokio::time::sleep(SLOW).await,
            _ => {}
        }
        let empty = behaviour == Behaviour::Empty;
        let words = if empty { String::new() } else { shared.words(&[]) };
        for answer in funasr_answers(two_pass, &words) {
            link.send(Message::text(answer.to_string())).await;
        }
    }
}

/// Results as the C++ runtime sends them, with JSON in strings.
fn funasr_answers(two_pass: bool, words: &str) -> Vec<Value> {
    let answer = |mode: &str, text: &str, is_final: bool| {
        json!({
            "mode": mode, "wav_name": "utterance", "text": text, "is_final": is_final,
            "timestamp": "[[100,200]]", "stamp_sents": [],
        })
    };
    if !two_pass {
        return vec![answer("offline", words, false)];
    }
    let mut answers = vec![answer("2pass-online", "par", false)];
    answers.extend(words.split('\n').map(|line| answer("2pass-offline", line, false)));
    answers
}

/// A synthesis service with the ListenAI protocol.
pub struct ListenAiTts;

impl ListenAiTts {
    /// Answers every sentence with the same sound, in four frames at 24 kHz.
    pub async fn start(behaviour: Behaviour) -> Stub {
        Stub::start("ws", "/tts", behaviour, "".into(), synthesise).await
    }

    /// Answers each sentence with its `sound`, at 24 kHz.
    pub async fn sounding(sound: fn(&str) -> Vec<i16>) -> Stub {
        Stub::start("ws", "/tts", Behaviour::Normal, Says::Sound(sound), synthesise).await
    }
}

async fn synthesise(stream: TcpStream, shared: Shared) {
    let Some(mut link) = Link::accept(stream, &shared).await else { return };
    while let Some(message) = link.next(&shared).await {
        let text = message.into_text().unwrap();
        match TtsCommand::decode(&text).unwrap() {
            TtsCommand::TtsRequest { request_id, params } => {
                shared.note(|seen| seen.requests += 1);
                if !speak(&mut link, &shared, &request_id, &params.text).await {
                    return;
                }
            }
            TtsCommand::Cancel { request_id } => cancelled(&mut link, &shared, request_id).await,
            TtsCommand::Ping { .. } => {}
        }
    }
}

/// Answers one request; false if the connection must be dropped.
async fn speak(link: &mut Link, shared: &Shared, request_id: &str, text: &str) -> bool {
    let behaviour = shared.behaviour();
    match behaviour {
        Behaviour::Silent => return true,
        Behaviour::Garbage => {
            link.send(Message::binary(vec![0xAA, 0x55, 0, 1, 9, 9, 9, 9])).await;
            return true;
        }
        _ => {}
    }
    let state = "processing".to_owned();
    let message = String::new();
    let progress =
        TtsEvent::Progress { request_id: request_id.into(), state, progress: 0.0, message };
    link.send(Message::text(progress.encode())).await;
    let sound = Bytes::from(shared.sound(text));
    let frames = if behaviour == Behaviour::Empty { 0 } else { 4 };
    for sequence in 0..frames {
        if sequence > 0 && behaviour == Behaviour::ResetMidStream {
            return false;
        }
        if behaviour == Behaviour::Slow && link.next_within(shared, SLOW).await.is_some() {
            cancelled(link, shared, request_id.into()).await;
            return true;
        }
        let meta = FrameMeta {
            request_id: request_id.into(),
            sequence: sequence as u64,
            sample_rate: 24_000,
            is_final: false,
        };
        // Whole samples; the length of every sound is a multiple of four.
        let quarter = sound.len() / 4;
        let pcm = sound.slice(sequence * quarter..(sequence + 1) * quarter);
        let frame = AudioFrame { kind: FrameKind::Stream, meta, pcm };
        link.send(Message::binary(frame.encode())).await;
    }
    let samples = if frames == 0 { 0 } else { sound.len() as u64 / 2 };
    let result =
        TtsResult { sample_rate: 24_000, samples, chunks: frames as u64, ..TtsResult::default() };
    let complete = TtsEvent::Complete { request_id: request_id.into(), result };
    link.send(Message::text(complete.encode())).await;
    true
}

async fn cancelled(link: &mut Link, shared: &Shared, request_id: String) {
    shared.note(|seen| seen.cancels += 1);
    let result = TtsResult { cancelled: true, ..TtsResult::default() };
    link.send(Message::text(TtsEvent::Complete { request_id, result }.encode())).await;
}
