//! Text messages from a device to the server. Decoding is lenient, because firmware and other
//! clients are careless with fields and quotes. Only a message without a clear meaning is an error.

mod repair;

use std::str::FromStr;

use serde_json::{Map, Value};

use super::{AudioParams, IotReport};
use crate::DecodeError;
use crate::json::{mended, weight, weight_of_text};

/// One text message from a device.
#[derive(Debug, Clone, PartialEq)]
pub enum Uplink {
    /// Opens the connection.
    Hello(Hello),
    /// The microphone opened.
    ListenStart {
        /// Side that decides when speech ends.
        mode: ListenMode,
    },
    /// The microphone closed (push-to-talk release).
    ListenStop,
    /// A wake word was detected, or a client typed a text.
    ListenDetect {
        /// The wake word or text; may be empty.
        text: String,
    },
    /// The person wants the server to stop speaking.
    Abort {
        /// `wake_word_detected`, nothing, or any other text of up to 64 characters.
        reason: Option<String>,
    },
    /// A JSON-RPC message of the device's MCP server.
    Mcp {
        /// The JSON-RPC message.
        payload: Value,
    },
    /// Descriptors or states of firmware up to 1.7.
    Iot(IotReport),
    /// The client is about to disconnect.
    Goodbye,
    /// Unknown type, or unknown `listen` state.
    Unknown {
        /// Value of `type`, with the state if the type is `listen`; up to 64 characters.
        kind: String,
    },
}

/// First message of the device. All fields are optional.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hello {
    /// Framing of binary messages, if the hello contains it. Takes precedence over the handshake
    /// header.
    pub version: Option<u32>,
    /// Features of the firmware.
    pub features: Features,
    /// Format of the uplink audio.
    pub audio_params: AudioParams,
}

/// Features announced in a hello. Unknown ones are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// True if the device serves MCP tools over this socket.
    pub mcp: bool,
    /// True if the device wants the server to cancel echo.
    pub aec: bool,
    /// True if the client wants partial transcripts. Firmware does not set it.
    pub partial_stt: bool,
    /// True if the client plays packets immediately after `tts start` and needs no pause between
    /// them.
    pub plays_at_once: bool,
}

/// Side that decides when a person has finished speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenMode {
    /// Endpointing by the server. The microphone closes while the server speaks.
    #[default]
    Auto,
    /// The person, with a button (push-to-talk).
    Manual,
    /// Endpointing by the server. The microphone stays open while the server speaks.
    Realtime,
}

impl ListenMode {
    /// Returns the word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
            Self::Realtime => "realtime",
        }
    }
}

impl FromStr for ListenMode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let mut all = [Self::Auto, Self::Manual, Self::Realtime].into_iter();
        all.find(|mode| mode.as_str() == name).ok_or(UnknownMode)
    }
}

/// Error: an unknown listening mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use auto, manual or realtime")]
pub struct UnknownMode;

impl Uplink {
    /// Parses one text frame. A frame that is invalid JSON because of an unescaped string is
    /// recovered if its meaning is clear: `listen` and `abort` as intended, an answer of `mcp` as
    /// an error with the answer's id, which fails its request at once.
    ///
    /// # Errors
    /// Returns an error if the text is not a JSON object and cannot be recovered.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Ok(Self::from_object(object)),
            Ok(_) => Err(DecodeError::NotJson { reason: "the message is not an object".into() }),
            Err(error) => {
                // Words that firmware inserts between quotes without escapes are already recovered
                // here.
                let recovered = repair::recover(text);
                let is_answer = matches!(recovered, None | Some(Self::Mcp { .. }));
                let mended = mended(text).filter(|_| is_answer);
                match mended.and_then(|text| serde_json::from_str(&text).ok()) {
                    Some(object) => Ok(Self::from_object(object)),
                    None => recovered.ok_or_else(|| error.into()),
                }
            }
        }
    }

    /// Parses one text frame that takes at most `max_weight` bytes of memory when parsed, and
    /// returns its weight. An answer of `mcp` that takes more is recovered as an error with the
    /// answer's id.
    ///
    /// # Errors
    /// Returns the errors of [`Self::decode`], or an error if another frame takes more.
    pub fn decode_within(text: &str, max_weight: usize) -> Result<(Self, usize), DecodeError> {
        match weight_of_text(text.as_bytes(), max_weight) {
            Ok(weight) => Ok((Self::decode(text)?, weight)),
            Err(heavy) => {
                let payload = repair::unread(text, &format!("the answer {heavy}"));
                let payload = payload.ok_or(heavy)?;
                let weight = weight(&payload);
                Ok((Self::Mcp { payload }, weight))
            }
        }
    }

    pub(super) fn from_object(mut object: Map<String, Value>) -> Self {
        let kind = string(&object, "type").unwrap_or_default();
        match kind.as_str() {
            "hello" => Self::Hello(hello(&object)),
            "listen" => listen(&object),
            "abort" => {
                let reason = string(&object, "reason").filter(|r| !r.is_empty());
                Self::Abort { reason: reason.map(short) }
            }
            "mcp" => Self::Mcp { payload: object.remove("payload").unwrap_or(Value::Null) },
            "iot" => Self::Iot(IotReport::from_object(&object)),
            "goodbye" => Self::Goodbye,
            _ => Self::Unknown { kind: short(kind) },
        }
    }
}

fn hello(object: &Map<String, Value>) -> Hello {
    let flag = |name: &str| {
        object.get("features").and_then(|f| f.get(name)).and_then(Value::as_bool).unwrap_or(false)
    };
    let version = object.get("version").and_then(number);
    let features = Features {
        mcp: flag("mcp"),
        aec: flag("aec"),
        partial_stt: flag("partial_stt"),
        plays_at_once: flag("plays_at_once"),
    };
    Hello { version, features, audio_params: audio_params(object.get("audio_params")) }
}

/// Parses each field separately. Invalid fields get the firmware's default.
fn audio_params(value: Option<&Value>) -> AudioParams {
    let default = AudioParams::default();
    let Some(fields) = value.and_then(Value::as_object) else { return default };
    let one_of = |field: &str, known: &[u32]| {
        fields.get(field).and_then(number).filter(|n| known.contains(n))
    };
    AudioParams {
        format: string(fields, "format").filter(|f| !f.is_empty()).map_or(default.format, short),
        sample_rate: one_of("sample_rate", &AudioParams::SAMPLE_RATES)
            .unwrap_or(default.sample_rate),
        channels: if one_of("channels", &[2]).is_some() { 2 } else { default.channels },
        frame_duration: one_of("frame_duration", &AudioParams::FRAME_DURATIONS)
            .unwrap_or(default.frame_duration),
    }
}

/// Parses a whole number, also if written as `1.0`.
fn number(value: &Value) -> Option<u32> {
    let whole =
        value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(n))?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Some(whole as u32)
}

/// Cuts a text to 64 characters for logs.
fn short(text: String) -> String {
    match text.char_indices().nth(64) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
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
        _ => Uplink::Unknown { kind: short(format!("listen/{state}")) },
    }
}

fn string(object: &Map<String, Value>, field: &str) -> Option<String> {
    object.get(field).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bare_hello_has_the_firmwares_defaults() {
        assert_eq!(Uplink::decode(r#"{"type":"hello"}"#).unwrap(), Uplink::Hello(Hello::default()));
        let odd = r#"{"type":"hello","version":"1","features":7,"audio_params":[]}"#;
        assert_eq!(Uplink::decode(odd).unwrap(), Uplink::Hello(Hello::default()));
    }

    #[test]
    fn invalid_audio_params_get_the_firmwares_defaults() {
        let read = |params: &str| {
            let text = format!("{{\"type\":\"hello\",\"audio_params\":{params}}}");
            let Ok(Uplink::Hello(hello)) = Uplink::decode(&text) else { panic!("{text}") };
            hello.audio_params
        };
        let odd = [
            "3",
            r#"{"sample_rate":0,"frame_duration":0,"channels":0,"format":""}"#,
            r#"{"sample_rate":1e300,"frame_duration":99999999999999999999,"channels":300}"#,
            r#"{"sample_rate":-16000,"frame_duration":-60,"channels":-1,"format":7}"#,
            r#"{"sample_rate":"24000","frame_duration":"20","channels":"1","format":null}"#,
            r#"{"sample_rate":44100,"frame_duration":33,"channels":6}"#,
        ];
        for params in odd {
            assert_eq!(read(params), AudioParams::default(), "{params}");
        }
        // One invalid field does not affect the others.
        let mixed = read(r#"{"format":"pcm","sample_rate":24000.0,"frame_duration":-1}"#);
        let pcm = AudioParams { format: "pcm".into(), ..AudioParams::opus(24_000, 60) };
        assert_eq!(mixed, pcm);
    }

    #[test]
    fn long_words_are_cut_for_logs() {
        let long = "语".repeat(1_000);
        let word = |message: Value| match Uplink::decode(&message.to_string()).unwrap() {
            Uplink::Unknown { kind } => kind,
            Uplink::Abort { reason } => reason.unwrap(),
            Uplink::Hello(hello) => hello.audio_params.format,
            other => panic!("{other:?}"),
        };
        for message in [
            json!({"type": long}),
            json!({"type": "listen", "state": long}),
            json!({"type": "abort", "reason": long}),
            json!({"type": "hello", "audio_params": {"format": long}}),
        ] {
            assert_eq!(word(message).chars().count(), 64);
        }
    }

    #[test]
    fn text_that_is_not_an_object_is_an_error() {
        for text in ["", "[]", "3", "null", "\"listen\"", "{\"type\":\"goodbye\"", "{}}"] {
            assert!(Uplink::decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_at_once() {
        let nested = |levels: usize| {
            format!("{{\"type\":\"x\",\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1))
        };
        assert!(Uplink::decode(&nested(127)).is_ok());
        assert!(Uplink::decode(&nested(128)).is_err());
        for open in ["[", "{\"a\":", "{\"type\":\"hello\",\"features\":[", "\\\"", "\"\",\""] {
            let deep = open.repeat(64 * 1024 / open.len());
            assert!(Uplink::decode(&deep).is_err(), "{open}");
            assert!(Uplink::decode(&format!("{{\"type\":\"hello\",\"x\":{deep}")).is_err());
        }
    }

    fn modes() -> impl Strategy<Value = ListenMode> {
        prop_oneof![Just(ListenMode::Auto), Just(ListenMode::Manual), Just(ListenMode::Realtime)]
    }

    #[test]
    fn frames_that_take_too_much_memory_are_not_read() {
        let many = vec![r#"{"a":0}"#; 8_000].join(",");
        let frame = |payload: &str| format!(r#"{{"type":"mcp","payload":{payload}}}"#);
        let answer = frame(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"x":[{many}]}}}}"#));
        let Ok((Uplink::Mcp { payload }, weight)) = Uplink::decode_within(&answer, 1 << 20) else {
            panic!("it ends its request")
        };
        assert_eq!(payload["id"], 7);
        let message = payload["error"]["message"].as_str().unwrap();
        assert!(message.contains("takes more than 1024 KiB of memory"), "{message}");
        assert!(weight < 4_096);
        let other = format!(r#"{{"type":"listen","state":"start","x":[{many}]}}"#);
        assert!(Uplink::decode_within(&other, 1 << 20).is_err());
        assert!(Uplink::decode_within(&other, 64 << 20).is_ok());
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

        #[test]
        fn hellos_round_trip(
            version in 1..=3_u32,
            mcp: bool,
            aec: bool,
            partial_stt: bool,
            plays_at_once: bool,
            rate in prop::sample::select(&AudioParams::SAMPLE_RATES),
            duration in prop::sample::select(&AudioParams::FRAME_DURATIONS),
        ) {
            let audio_params = AudioParams::opus(rate, duration);
            let text = json!({
                "type": "hello", "version": version, "transport": "websocket",
                "features": {"mcp": mcp, "aec": aec, "partial_stt": partial_stt, "plays_at_once": plays_at_once, "glyph_push": true},
                "audio_params": audio_params,
            });
            let features = Features { mcp, aec, partial_stt, plays_at_once };
            let hello = Hello { version: Some(version), features, audio_params };
            prop_assert_eq!(Uplink::decode(&text.to_string()), Ok(Uplink::Hello(hello)));
        }

        #[test]
        fn listen_messages_round_trip(mode in modes(), text in ".{0,40}", id in ".{0,9}") {
            let start = json!({"session_id": id, "type": "listen", "state": "start", "mode": mode.as_str()});
            prop_assert_eq!(Uplink::decode(&start.to_string()), Ok(Uplink::ListenStart { mode }));
            let detect = json!({"session_id": id, "type": "listen", "state": "detect", "text": text});
            prop_assert_eq!(Uplink::decode(&detect.to_string()), Ok(Uplink::ListenDetect { text }));
        }
    }
}
