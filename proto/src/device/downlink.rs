//! Text messages from the server to a device. Each carries the session id and `type`; a `tts`
//! message always has `state`, since firmware up to 2.2 crashes without.

use serde::Serialize;
use serde_json::Value;

use super::{AudioParams, Emotion};
use crate::ids::SessionId;

/// Answer to a device's hello. `transport` is not optional: firmware that misses it crashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHello {
    /// Shape of the downlink audio that we really send.
    pub audio_params: AudioParams,
}

/// One text message to a device.
#[derive(Debug, Clone, PartialEq)]
pub enum Downlink {
    /// Answers the device's hello.
    Hello(ServerHello),
    /// What the person was understood to say.
    Stt {
        /// The transcript.
        text: String,
    },
    /// The face to show.
    Llm {
        /// One of the 21 faces.
        emotion: Emotion,
    },
    /// Speech is about to come: the device goes to its speaking state.
    TtsStart,
    /// A sentence's audio follows.
    SentenceStart {
        /// The sentence, shown as subtitle.
        text: String,
    },
    /// A sentence's audio is complete.
    SentenceEnd {
        /// The sentence that ended.
        text: String,
    },
    /// No more speech: the device goes back to listening or idle.
    TtsStop,
    /// A JSON-RPC message to the device's MCP server.
    Mcp {
        /// The JSON-RPC message.
        payload: Value,
    },
    /// A notice with vibration and sound.
    Alert {
        /// Head line.
        status: String,
        /// Text.
        message: String,
        /// Face shown with it.
        emotion: Emotion,
    },
}

#[derive(Serialize)]
struct Envelope<'a> {
    session_id: &'a SessionId,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Hello {
        transport: &'static str,
        audio_params: &'a AudioParams,
    },
    Stt {
        text: &'a str,
    },
    Llm {
        emotion: &'static str,
        text: &'static str,
    },
    Tts {
        state: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
    },
    Mcp {
        payload: &'a Value,
    },
    Alert {
        status: &'a str,
        message: &'a str,
        emotion: &'static str,
    },
}

impl Downlink {
    /// The JSON text of the message.
    pub fn encode(&self, session_id: &SessionId) -> String {
        let tts = |state, text| ("tts", Body::Tts { state, text });
        let (kind, body) = match self {
            Self::Hello(hello) => {
                ("hello", Body::Hello { transport: "websocket", audio_params: &hello.audio_params })
            }
            Self::Stt { text } => ("stt", Body::Stt { text }),
            Self::Llm { emotion } => {
                ("llm", Body::Llm { emotion: emotion.as_str(), text: emotion.emoji() })
            }
            Self::TtsStart => tts("start", None),
            Self::SentenceStart { text } => tts("sentence_start", Some(text.as_str())),
            Self::SentenceEnd { text } => tts("sentence_end", Some(text.as_str())),
            Self::TtsStop => tts("stop", None),
            Self::Mcp { payload } => ("mcp", Body::Mcp { payload }),
            Self::Alert { status, message, emotion } => {
                ("alert", Body::Alert { status, message, emotion: emotion.as_str() })
            }
        };
        serde_json::to_string(&Envelope { session_id, kind, body })
            .expect("a message of strings, numbers and JSON values always serialises")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn every_message_has_its_wire_form() {
        let id = SessionId::new("s1");
        let lines: Vec<String> = [
            Downlink::Hello(ServerHello { audio_params: AudioParams::opus(24_000, 60) }),
            Downlink::Stt { text: "你好".into() },
            Downlink::Llm { emotion: Emotion::Happy },
            Downlink::TtsStart,
            Downlink::SentenceStart { text: "say \"hi\"".into() },
            Downlink::SentenceEnd { text: "hi".into() },
            Downlink::TtsStop,
            Downlink::Mcp { payload: serde_json::json!({"jsonrpc": "2.0", "id": 1}) },
            Downlink::Alert { status: "a".into(), message: "b".into(), emotion: Emotion::Sad },
        ]
        .iter()
        .map(|m| m.encode(&id))
        .collect();
        expect![[r#"
            {"session_id":"s1","type":"hello","transport":"websocket","audio_params":{"format":"opus","sample_rate":24000,"channels":1,"frame_duration":60}}
            {"session_id":"s1","type":"stt","text":"你好"}
            {"session_id":"s1","type":"llm","emotion":"happy","text":"🙂"}
            {"session_id":"s1","type":"tts","state":"start"}
            {"session_id":"s1","type":"tts","state":"sentence_start","text":"say \"hi\""}
            {"session_id":"s1","type":"tts","state":"sentence_end","text":"hi"}
            {"session_id":"s1","type":"tts","state":"stop"}
            {"session_id":"s1","type":"mcp","payload":{"id":1,"jsonrpc":"2.0"}}
            {"session_id":"s1","type":"alert","status":"a","message":"b","emotion":"sad"}"#]]
        .assert_eq(&lines.join("\n"));
    }
}
