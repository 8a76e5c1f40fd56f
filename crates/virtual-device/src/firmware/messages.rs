//! Processing of each text message from the server. Not for the messages of the device, nor for its
//! states.

use std::time::Duration;

use hearken_proto::device::AudioParams;
use serde_json::Value;

use super::Firmware;
use crate::events::{Fact, Output, note};
use crate::iot::Crash;

/// Longest text frame that fits in a board's memory, in bytes; the largest that firmware mentions
/// is a push of glyphs of 64 KiB.
const LONGEST_TEXT: usize = 64 * 1_024;
/// Message types that some version supports. Pushed glyphs up to this size are ignored.
const KNOWN: [&str; 10] =
    ["hello", "tts", "stt", "llm", "mcp", "iot", "system", "alert", "custom", "notify"];

/// Processes one text frame. Unknown and malformed ones are ignored, as firmware does, but noted.
pub(super) fn receive(device: &mut Firmware, now: Duration, text: &str, out: &mut Vec<Output>) {
    if text.len() > LONGEST_TEXT {
        note(out, now, Fact::Offence("a text frame over 64 KiB does not fit in memory"));
        return;
    }
    let Ok(message) = serde_json::from_str::<Value>(text) else {
        note(out, now, Fact::Offence("a text frame is no JSON"));
        return;
    };
    let string = |name: &str| message.get(name).and_then(Value::as_str);
    let Some(kind) = string("type") else {
        note(out, now, Fact::Offence("a message needs `type`"));
        return;
    };
    let state = string("state").filter(|_| kind == "tts");
    let shown = match kind {
        "llm" => string("emotion"),
        "alert" => string("message"),
        _ => string("text"),
    };
    let kind_and_state = state.map_or_else(|| kind.to_owned(), |s| format!("{kind} {s}"));
    let fact = Fact::Message { kind: kind_and_state, text: shown.map(str::to_owned) };
    note(out, now, fact);
    // Messages that change the state wait for the main loop.
    let orders = matches!((kind, state), ("tts", Some("start" | "stop")) | ("system", _));
    if orders && device.serving.busy() {
        device.serving.defer_message(message);
    } else {
        execute(device, now, &message, out);
    }
}

/// Executes the message.
pub(super) fn execute(
    device: &mut Firmware,
    now: Duration,
    message: &Value,
    out: &mut Vec<Output>,
) {
    let string = |name: &str| message.get(name).and_then(Value::as_str);
    let object = |name: &str| message.get(name).filter(|value| value.is_object());
    let offence = |out: &mut Vec<Output>, what| note(out, now, Fact::Offence(what));
    let kind = string("type").unwrap_or_default();
    match (kind, string("state")) {
        ("hello", _) => hello(device, now, message, out),
        ("tts", Some("start")) => device.speak(now, out),
        ("tts", Some("stop")) => device.stop_speaking(now, out),
        ("tts", None) => device.missing_tts_state(now, out),
        ("mcp", _) => match object("payload") {
            Some(request) if device.serving.request(now, request) => {}
            Some(_) => offence(out, "mcp to firmware without it"),
            None => offence(out, "an mcp message needs an object as `payload`"),
        },
        ("iot", _) => commands(device, now, message, out),
        ("system", _) if device.profile.knows_system => match string("command") {
            Some("reboot") => device.reboot(now, out),
            _ => offence(out, "a system message needs a known `command`"),
        },
        ("alert", _)
            if device.profile.knows_system
                && ["status", "message", "emotion"].iter().any(|n| string(n).is_none()) =>
        {
            offence(out, "an alert needs `status`, `message` and `emotion`");
        }
        ("custom", _)
            if device.profile.knows_custom
                && device.build.custom_messages
                && object("payload").is_none() =>
        {
            offence(out, "a custom message needs an object as `payload`");
        }
        (kind, _) if !KNOWN.contains(&kind) => {
            offence(out, "no firmware knows a message of this type");
        }
        _ => {}
    }
}

fn commands(device: &mut Firmware, now: Duration, message: &Value, out: &mut Vec<Output>) {
    let Some(commands) = message.get("commands").and_then(Value::as_array) else { return };
    for command in commands {
        match device.serving.command(command) {
            Some(Ok(())) => {}
            Some(Err(Crash)) => {
                let what = "an iot command without `name` and `method` crashes firmware";
                note(out, now, Fact::Offence(what));
                device.reboot(now, out);
                return;
            }
            None => {
                note(out, now, Fact::Offence("iot to firmware without it"));
                return;
            }
        }
    }
}

fn hello(device: &mut Firmware, now: Duration, message: &Value, out: &mut Vec<Output>) {
    match message.get("transport").and_then(Value::as_str) {
        Some("websocket") => {}
        Some(_) => {
            note(out, now, Fact::Offence("a hello of another transport is ignored"));
            return;
        }
        None => {
            note(out, now, Fact::Offence("a hello without `transport` crashes firmware"));
            device.reboot(now, out);
            return;
        }
    }
    // Only these two fields are read; the defaults are the firmware's own.
    let params = message.get("audio_params");
    let number = |name: &str, default: u32| {
        params
            .and_then(|p| p.get(name))
            .and_then(Value::as_u64)
            .and_then(|n| n.try_into().ok())
            .unwrap_or(default)
    };
    let audio = AudioParams::opus(number("sample_rate", 24_000), number("frame_duration", 60));
    let session_id = message.get("session_id").and_then(Value::as_str);
    device.server_hello(now, session_id, &audio, out);
}
