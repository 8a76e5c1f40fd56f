//! Text messages from a device to the server. Decoding is lenient, as firmware and the clients in
//! the wild are loose with fields; only a message that is no JSON object is an error.

use serde_json::{Map, Value};

use super::AudioParams;
use crate::DecodeError;

/// One text message from a device.
#[derive(Debug, Clone, PartialEq)]
pub enum Uplink {
    /// Opens the conversation.
    Hello(Hello),
    /// The microphone opened.
    ListenStart {
        /// Who decides when speech ends.
        mode: ListenMode,
    },
    /// The microphone closed (push-to-talk release).
    ListenStop,
    /// A wake word was heard, or a client typed a text.
    ListenDetect {
        /// The wake word or text; may be empty.
        text: String,
    },
    /// The person wants silence.
    Abort {
        /// `wake_word_detected`, or nothing, or anything else.
        reason: Option<String>,
    },
    /// A JSON-RPC message of the device's MCP server.
    Mcp {
        /// The JSON-RPC message.
        payload: Value,
    },
    /// Descriptors and states of firmware up to 1.7.
    Iot {
        /// The whole message.
        message: Value,
    },
    /// The client is about to leave.
    Goodbye,
    /// A type, or a `listen` state, that we do not know.
    Unknown {
        /// Its `type`, with the state where the type is `listen`.
        kind: String,
    },
}

/// The device's first message. Everything may be absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hello {
    /// Framing of binary messages, where the hello says so; wins over the handshake header.
    pub version: Option<u32>,
    /// What the firmware can do.
    pub features: Features,
    /// Shape of the uplink audio.
    pub audio_params: AudioParams,
}

/// Abilities announced in a hello; unknown ones are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// The device serves MCP tools over this socket.
    pub mcp: bool,
    /// The device wants the server to cancel echo.
    pub aec: bool,
}

/// Who decides when a person has finished speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenMode {
    /// The server's endpointing; the microphone closes while the server speaks.
    #[default]
    Auto,
    /// The person, by a button.
    Manual,
    /// The server's endpointing; the microphone stays open while the server speaks.
    Realtime,
}

impl ListenMode {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
            Self::Realtime => "realtime",
        }
    }
}

impl Uplink {
    /// Reads one text frame.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let value: Value = serde_json::from_str(text)?;
        let Value::Object(mut object) = value else {
            return Err(DecodeError::NotJson { reason: "the message is not an object".into() });
        };
        let kind = string(&object, "type").unwrap_or_default();
        Ok(match kind.as_str() {
            "hello" => Self::Hello(hello(&object)),
            "listen" => listen(&object),
            "abort" => Self::Abort { reason: string(&object, "reason").filter(|r| !r.is_empty()) },
            "mcp" => Self::Mcp { payload: object.remove("payload").unwrap_or(Value::Null) },
            "iot" => Self::Iot { message: Value::Object(object) },
            "goodbye" => Self::Goodbye,
            _ => Self::Unknown { kind },
        })
    }
}

fn hello(object: &Map<String, Value>) -> Hello {
    let flag = |name: &str| {
        object.get("features").and_then(|f| f.get(name)).and_then(Value::as_bool).unwrap_or(false)
    };
    let audio_params = object
        .get("audio_params")
        .and_then(|a| serde_json::from_value(a.clone()).ok())
        .unwrap_or_default();
    let version = object.get("version").and_then(Value::as_u64).and_then(|v| v.try_into().ok());
    Hello { version, features: Features { mcp: flag("mcp"), aec: flag("aec") }, audio_params }
}

fn listen(object: &Map<String, Value>) -> Uplink {
    let state = string(object, "state").unwrap_or_default();
    match state.as_str() {
        "start" => Uplink::ListenStart {
            mode: match string(object, "mode").as_deref() {
                Some("manual") => ListenMode::Manual,
                Some("realtime") => ListenMode::Realtime,
                _ => ListenMode::Auto,
            },
        },
        "stop" => Uplink::ListenStop,
        "detect" => Uplink::ListenDetect { text: string(object, "text").unwrap_or_default() },
        _ => Uplink::Unknown { kind: format!("listen/{state}") },
    }
}

fn string(object: &Map<String, Value>, field: &str) -> Option<String> {
    object.get(field).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn firmware_messages_are_read() {
        let hello = r#"{"type":"hello","version":3,"features":{"mcp":true},"transport":"websocket",
            "audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}"#;
        let Uplink::Hello(hello) = Uplink::decode(hello).unwrap() else { panic!("no hello") };
        assert_eq!(hello.version, Some(3));
        assert!(hello.features.mcp && !hello.features.aec);
        assert_eq!(hello.audio_params, AudioParams::opus(16_000, 60));
        let decode = |text: &str| Uplink::decode(text).unwrap();
        assert_eq!(
            decode(r#"{"session_id":"x","type":"listen","state":"start","mode":"realtime"}"#),
            Uplink::ListenStart { mode: ListenMode::Realtime }
        );
        assert_eq!(
            decode(r#"{"type":"listen","state":"detect","text":"你好小智"}"#),
            Uplink::ListenDetect { text: "你好小智".into() }
        );
        assert_eq!(decode(r#"{"type":"abort"}"#), Uplink::Abort { reason: None });
        assert_eq!(decode(r#"{"type":"abort","reason":""}"#), Uplink::Abort { reason: None });
        assert_eq!(decode(r#"{"type":"nonsense"}"#), Uplink::Unknown { kind: "nonsense".into() });
    }

    #[test]
    fn a_bare_hello_has_the_firmwares_defaults() {
        assert_eq!(Uplink::decode(r#"{"type":"hello"}"#).unwrap(), Uplink::Hello(Hello::default()));
        let odd = r#"{"type":"hello","version":"1","features":7,"audio_params":[]}"#;
        assert_eq!(Uplink::decode(odd).unwrap(), Uplink::Hello(Hello::default()));
    }

    #[test]
    fn text_that_is_no_object_is_an_error() {
        for text in ["", "[]", "3", "{\"type\":\"listen\",\"text\":\"a \"quoted\" word\"}"] {
            assert!(Uplink::decode(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn decoding_never_panics(text in ".{0,200}") {
            let decoded = Uplink::decode(&text);
            prop_assert!(decoded.is_ok() || decoded.is_err());
        }

        #[test]
        fn any_typed_object_is_read(kind in "[a-z]{0,10}", state in "[a-z]{0,8}") {
            let text = serde_json::json!({"type": kind, "state": state}).to_string();
            prop_assert!(Uplink::decode(&text).is_ok());
        }
    }
}
