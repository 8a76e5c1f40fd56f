//! The device protocol as files: `fixtures/wire/device/up` contains messages from devices, byte for
//! byte, each with its parsed form; `down` contains messages to devices. Not for the server's
//! reactions.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hearken_proto::DecodeError;
use hearken_proto::device::iot::Command;
use hearken_proto::device::{
    AudioPacket, AudioParams, Downlink, Emotion, Framing, ListenMode, ServerHello, SystemCommand,
    Uplink,
};
use hearken_proto::ids::SessionId;
use hearken_proto::jsonrpc::{Id, Message, RpcError};
use serde_json::{Map, Value, json};

use super::{complete, fixtures, golden, object};

const SESSION: &str = "0f7b1c9e-5a43-4c1e-9d52-6b1f0c8a7e21";
/// Maximum size of a page of tools from firmware, in bytes.
const TOOLS_PAGE: usize = 8_000;

variants!(UPLINKS, uplink_name, Uplink, {
    Uplink::Hello(_) => "hello",
    Uplink::ListenStart { mode: ListenMode::Auto } => "listen start auto",
    Uplink::ListenStart { mode: ListenMode::Manual } => "listen start manual",
    Uplink::ListenStart { mode: ListenMode::Realtime } => "listen start realtime",
    Uplink::ListenStop => "listen stop",
    Uplink::ListenDetect { .. } => "listen detect",
    Uplink::Abort { reason: None } => "abort",
    Uplink::Abort { reason: Some(_) } => "abort with a reason",
    Uplink::Mcp { .. } => "mcp",
    Uplink::Iot(_) => "iot",
    Uplink::Goodbye => "goodbye",
    Uplink::Unknown { .. } => "unknown",
});

variants!(DOWNLINKS, downlink_name, Downlink, {
    Downlink::Hello(ServerHello { mcp: false, .. }) => "hello",
    Downlink::Hello(ServerHello { mcp: true, .. }) => "hello with mcp",
    Downlink::Stt { .. } => "stt",
    Downlink::PartialStt { .. } => "partial stt",
    Downlink::Llm { .. } => "llm",
    Downlink::TtsStart => "tts start",
    Downlink::SentenceStart { .. } => "tts sentence_start",
    Downlink::SentenceEnd { .. } => "tts sentence_end",
    Downlink::TtsStop => "tts stop",
    Downlink::Mcp { .. } => "mcp",
    Downlink::Alert { .. } => "alert",
    Downlink::System { command: SystemCommand::Reboot } => "system reboot",
    Downlink::Custom { .. } => "custom",
    Downlink::Iot { .. } => "iot",
});

variants!(ERRORS, error_name, DecodeError, {
    DecodeError::NotJson { .. } => "no JSON object",
    DecodeError::Json(_) => "other JSON",
    DecodeError::Field { .. } => "field",
    DecodeError::Short { .. } => "short",
    DecodeError::Header { .. } => "header",
});

variants!(FRAMINGS, framing_name, Framing, {
    Framing::V1 => "v1",
    Framing::V2 => "v2",
    Framing::V3 => "v3",
});

fn folder(direction: &str) -> PathBuf {
    fixtures("device").join(direction)
}

/// Returns the names, without extension, of the folder's files with this extension, in order.
fn names(direction: &str, extension: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder(direction)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let wanted = paths.filter(|p| p.extension().is_some_and(|x| x == extension));
    wanted.map(|p| p.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

fn file(direction: &str, name: &str, extension: &str) -> PathBuf {
    folder(direction).join(format!("{name}.{extension}"))
}

fn read(direction: &str, name: &str, extension: &str) -> String {
    std::fs::read_to_string(file(direction, name, extension)).unwrap()
}

/// Returns a readable form: JSON payloads on one line.
fn shown(decoded: &Result<Uplink, DecodeError>) -> String {
    let Ok(Uplink::Mcp { payload }) = decoded else { return format!("{decoded:#?}\n") };
    let id = |id: &Option<Id>| id.as_ref().map_or("nothing".into(), |id| format!("{id:?}"));
    let envelope = match Message::from_value(payload.clone()) {
        Ok(Message::Response { id: of, outcome: Ok(_) }) => format!("the answer to {}", id(&of)),
        Ok(Message::Response { id: of, outcome: Err(RpcError { code, message, .. }) }) => {
            format!("the failure of {}, code {code:?}: {message}", id(&of))
        }
        other => format!("{other:?}"),
    };
    format!("Mcp: {envelope}\n{payload}\n")
}

#[test]
fn uplink_messages_parse_as_their_goldens_say() {
    let mut seen = BTreeSet::new();
    let mut failed = BTreeSet::new();
    let all = names("up", "json");
    for name in &all {
        let decoded = Uplink::decode(&read("up", name, "json"));
        golden(&file("up", name, "decoded"), shown(&decoded).as_bytes());
        match &decoded {
            Ok(message) => seen.insert(uplink_name(message)),
            Err(error) => failed.insert(error_name(error)),
        };
    }
    complete(UPLINKS, &seen);
    complete(&[ERRORS[0]], &failed);
}

#[test]
fn every_parsed_form_has_its_message() {
    let sources: BTreeSet<String> =
        names("up", "json").union(&names("up", "hex")).cloned().collect();
    assert_eq!(names("up", "decoded"), sources);
}

#[test]
fn a_page_of_tools_is_as_large_as_firmware_makes_it() {
    let Ok(Uplink::Mcp { payload }) = Uplink::decode(&read("up", "mcp_tools_page", "json")) else {
        panic!("no mcp")
    };
    let bytes = payload["result"].to_string().len();
    assert!((TOOLS_PAGE - 400..=TOOLS_PAGE).contains(&bytes), "{bytes}");
    assert!(payload["result"]["nextCursor"].is_string());
}

/// Parsed in one pass, which takes milliseconds; quadratic parsing would take minutes.
#[test]
fn the_largest_invalid_frames_are_parsed_in_one_pass() {
    let parts = [
        "[",
        "{\"a\":",
        "{",
        "}",
        "\"",
        "\\\"",
        "\", \"",
        "\",\"text\":\"",
        "\\\",\"text\":\"",
        "\",\"text\":\"\\",
        "\"text\":\"\"x",
        "\"text\":1,",
        "\"   ",
        "\", ",
        ",",
        "\\",
        " ",
        "\0",
    ];
    let heads = [
        "",
        "{",
        "{\"type\":\"hello\",\"features\":",
        "{\"type\":\"listen\",\"state\":\"detect\",\"text\":\"",
        "{\"type\":\"mcp\",\"payload\":{\"id\":1,\"error\":{\"message\":\"",
    ];
    let mut slowest = Duration::ZERO;
    for (part, head) in parts.iter().flat_map(|part| heads.map(|head| (part, head))) {
        for tail in ["", "\"}", "}"] {
            let text = format!("{head}{}{tail}", part.repeat(64 * 1024 / part.len()));
            let begin = Instant::now();
            let read = Uplink::decode(&text);
            slowest = slowest.max(begin.elapsed());
            if let Ok(Uplink::ListenDetect { text: said }) = read {
                assert!(said.len() < text.len());
            }
        }
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

fn hello(mcp: bool) -> Downlink {
    Downlink::Hello(ServerHello { audio_params: AudioParams::opus(24_000, 60), mcp })
}

fn rpc(id: i32, method: &str, params: Value) -> Downlink {
    Downlink::Mcp { payload: Message::request(id, method, params).to_value() }
}

fn controls() -> [(&'static str, Downlink); 8] {
    let vision = json!({"url": "http://192.168.1.5:9400/vision", "token": "t0ken"});
    let client = json!({"name": "hearken", "version": "0.1.0"});
    let initialize = json!({
        "protocolVersion": "2024-11-05", "capabilities": {"vision": vision}, "clientInfo": client,
    });
    let brightness = object(json!({"brightness": 40}));
    let command = |name: &str, method: &str, parameters| Command {
        name: name.into(),
        method: method.into(),
        parameters,
    };
    [
        ("mcp_initialize", rpc(1, "initialize", initialize)),
        ("mcp_tools_list", rpc(2, "tools/list", json!({"cursor": "", "withUserTools": false}))),
        (
            "mcp_tools_call",
            rpc(
                3,
                "tools/call",
                json!({"name": "self.audio_speaker.set_volume", "arguments": {"volume": 50}}),
            ),
        ),
        (
            "mcp_initialized",
            Downlink::Mcp {
                payload: Message::Notification {
                    method: "notifications/initialized".into(),
                    params: None,
                }
                .to_value(),
            },
        ),
        (
            "alert",
            Downlink::Alert {
                status: "提醒".into(),
                message: "Say \"yes\"\nto go on".into(),
                emotion: Emotion::Surprised,
            },
        ),
        ("system_reboot", Downlink::System { command: SystemCommand::Reboot }),
        ("custom", Downlink::Custom { payload: object(json!({"page": 3, "text": "你好"})) }),
        (
            "iot_commands",
            Downlink::Iot {
                commands: vec![
                    command("Lamp", "turn_on", Map::new()),
                    command("Screen", "set_brightness", brightness),
                ],
            },
        ),
    ]
}

fn downlinks() -> Vec<(&'static str, Downlink)> {
    let text = || String::from("他说\"你好\"。");
    let mut all = vec![
        ("hello", hello(false)),
        ("hello_mcp", hello(true)),
        ("stt", Downlink::Stt { text: text() }),
        ("stt_partial", Downlink::PartialStt { text: text() }),
        ("llm", Downlink::Llm { emotion: Emotion::Happy }),
        ("tts_start", Downlink::TtsStart),
        ("tts_sentence_start", Downlink::SentenceStart { text: text() }),
        ("tts_sentence_end", Downlink::SentenceEnd { text: text() }),
        ("tts_stop", Downlink::TtsStop),
    ];
    all.extend(controls());
    all
}

#[test]
fn downlink_messages_encode_as_their_goldens_say() {
    let session = SessionId::new(SESSION);
    let mut seen = BTreeSet::new();
    for (name, message) in downlinks() {
        let text = message.encode(&session);
        golden(&file("down", name, "json"), text.as_bytes());
        seen.insert(downlink_name(&message));
    }
    complete(DOWNLINKS, &seen);
    let written: BTreeSet<String> = downlinks().iter().map(|(n, _)| (*n).to_owned()).collect();
    assert_eq!(names("down", "json"), written, "a golden without a message");
}

/// Fields that firmware reads without checking that they exist.
#[test]
fn downlink_messages_have_all_fields_that_firmware_needs() {
    for name in names("down", "json") {
        let message: Value = serde_json::from_str(&read("down", &name, "json")).unwrap();
        let needed: &[&str] = match message["type"].as_str().unwrap() {
            "hello" => &["transport"],
            "tts" => &["state"],
            "stt" => &["text"],
            "llm" => &["emotion"],
            "alert" => &["status", "message", "emotion"],
            "system" => &["command"],
            "mcp" | "custom" => {
                assert!(message["payload"].is_object(), "{name}");
                &[]
            }
            "iot" => {
                for command in message["commands"].as_array().unwrap() {
                    assert!(Command::from_value(command).is_some(), "{name}: {command}");
                }
                &[]
            }
            other => panic!("{name}: firmware does not know `{other}`"),
        };
        for field in needed.iter().chain(&["session_id"]) {
            assert!(message[field].is_string(), "{name}: `{field}` must be a string");
        }
    }
}

#[test]
fn every_emotion_has_a_name_and_an_emoji() {
    let session = SessionId::new(SESSION);
    let mut lines = String::new();
    for emotion in Emotion::all() {
        writeln!(lines, "{}", Downlink::Llm { emotion }.encode(&session)).unwrap();
    }
    assert_eq!(lines.lines().count(), 21);
    golden(&folder("down").join("llm_faces.jsonl"), lines.as_bytes());
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for line in bytes.chunks(16) {
        let digits: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(out, "{}", digits.join(" ")).unwrap();
    }
    out
}

fn unhex(text: &str) -> Bytes {
    text.split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
}

/// Returns the framing in a golden's name.
fn framing(name: &str) -> Framing {
    let version = name.strip_prefix("packet_v").and_then(|n| n.get(..1)).unwrap();
    Framing::from_version(version.parse().unwrap())
}

#[test]
fn packets_from_devices_parse_as_their_goldens_say() {
    let mut seen = BTreeSet::new();
    let mut failed = BTreeSet::new();
    for name in names("up", "hex") {
        let bytes = unhex(&read("up", &name, "hex"));
        let framing = framing(&name);
        let decoded = framing.decode(&bytes);
        let text = match &decoded {
            Ok(AudioPacket { opus, timestamp_ms }) => {
                seen.insert(framing_name(&framing));
                if !name.ends_with("_with_more") {
                    assert_eq!(framing.encode(decoded.as_ref().unwrap()), bytes, "{name}");
                }
                format!("timestamp {timestamp_ms} ms, Opus of {} bytes:\n{}", opus.len(), hex(opus))
            }
            Err(error) => {
                failed.insert(error_name(error));
                format!("{error}\n")
            }
        };
        golden(&file("up", &name, "decoded"), text.as_bytes());
    }
    complete(FRAMINGS, &seen);
    complete(&ERRORS[3..], &failed);
}

#[test]
fn packets_to_devices_encode_as_their_goldens_say() {
    let opus = Bytes::from_static(&[0x58, 0x0b, 0xe4, 0xc1, 0x36, 0xec, 0xc5, 0x80, 0x6d, 0x07]);
    let mut written = BTreeSet::new();
    for framing in [Framing::V1, Framing::V2, Framing::V3] {
        let timestamp_ms = if framing == Framing::V2 { 0x0102_0304 } else { 0 };
        let packet = AudioPacket { opus: opus.clone(), timestamp_ms };
        let name = format!("packet_{}", framing_name(&framing));
        golden(&file("down", &name, "hex"), hex(&framing.encode(&packet)).as_bytes());
        assert_eq!(framing.decode(&unhex(&read("down", &name, "hex"))), Ok(packet));
        written.insert(name);
    }
    assert_eq!(names("down", "hex"), written, "a golden without a packet");
}

/// The README names each golden as `up/NAME` or `down/NAME`, and only existing ones.
#[test]
fn the_readme_names_every_golden() {
    let readme = include_str!("../../README.md");
    let named: BTreeSet<String> = readme
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.starts_with("up/") || code.starts_with("down/"))
        .map(str::to_owned)
        .collect();
    let mut there: BTreeSet<String> = ["down/llm_faces".to_owned()].into();
    for direction in ["up", "down"] {
        for extension in ["json", "hex"] {
            let names = names(direction, extension);
            there.extend(names.iter().map(|name| format!("{direction}/{name}")));
        }
    }
    let missing: Vec<_> = there.difference(&named).collect();
    let gone: Vec<_> = named.difference(&there).collect();
    assert!(missing.is_empty(), "proto/README.md does not name {missing:?}");
    assert!(gone.is_empty(), "proto/README.md names {gone:?}, which do not exist");
}
