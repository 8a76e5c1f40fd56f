//! Text messages from the server to a device. Each contains the session id and `type`. A `tts`
//! message always contains `state`, because firmware up to 2.2 crashes without it.

use serde::Serialize;
use serde_json::{Map, Value};

use super::iot::Command;
use super::{AudioParams, Emotion};
use crate::ids::SessionId;

/// Answer to a device's hello. `transport` is mandatory: firmware crashes without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHello {
    /// Format of the downlink audio.
    pub audio_params: AudioParams,
    /// Set if the server will use the device's tools. Sent as `features`, which firmware does not
    /// read.
    pub mcp: bool,
}

/// Command for the whole device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemCommand {
    /// Restarts the device, which drops the socket.
    Reboot,
}

/// One text message to a device.
#[derive(Debug, Clone, PartialEq)]
pub enum Downlink {
    /// Answers the device's hello.
    Hello(ServerHello),
    /// Recognised words of the person.
    Stt {
        /// The transcript.
        text: String,
    },
    /// Words of the utterance so far, while the person speaks: `is_final` is false. Only for
    /// clients that requested them in their hello.
    PartialStt {
        /// All words of the utterance so far; later ones may correct them.
        text: String,
    },
    /// Shows an emotion.
    Llm {
        /// One of the 21 emotions.
        emotion: Emotion,
    },
    /// Announces speech: the device enters its speaking state.
    TtsStart,
    /// Announces a sentence's audio.
    SentenceStart {
        /// Text of the sentence, shown as subtitle.
        text: String,
    },
    /// Ends a sentence's audio.
    SentenceEnd {
        /// Text of the sentence that ended.
        text: String,
    },
    /// Ends speech: the device returns to listening or idle.
    TtsStop,
    /// Sends a JSON-RPC message to the device's MCP server.
    Mcp {
        /// The JSON-RPC message.
        payload: Value,
    },
    /// Shows a notice with vibration and sound.
    Alert {
        /// Headline.
        status: String,
        /// Text of the notice.
        message: String,
        /// Emotion shown with the notice.
        emotion: Emotion,
    },
    /// Sends a command for the whole device.
    System {
        /// Command to execute.
        command: SystemCommand,
    },
    /// Sends a custom object to firmware built with `CONFIG_RECEIVE_CUSTOM_MESSAGE`, which shows
    /// it.
    Custom {
        /// JSON object: firmware ignores anything else.
        payload: Map<String, Value>,
    },
    /// Sends commands to the things of firmware up to 1.7.
    Iot {
        /// Commands, executed in this order.
        commands: Vec<Command>,
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
        #[serde(skip_serializing_if = "Option::is_none")]
        features: Option<Features>,
        audio_params: &'a AudioParams,
    },
    Stt {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_final: Option<bool>,
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
    System {
        command: SystemCommand,
    },
    Custom {
        payload: &'a Map<String, Value>,
    },
    Iot {
        commands: &'a [Command],
    },
}

#[derive(Serialize)]
struct Features {
    mcp: bool,
}

impl Downlink {
    /// Returns the message as JSON text.
    pub fn encode(&self, session_id: &SessionId) -> String {
        let tts = |state, text| ("tts", Body::Tts { state, text });
        let (kind, body) = match self {
            Self::Hello(ServerHello { audio_params, mcp }) => {
                let features = mcp.then_some(Features { mcp: true });
                ("hello", Body::Hello { transport: "websocket", features, audio_params })
            }
            Self::Stt { text } => ("stt", Body::Stt { text, is_final: None }),
            Self::PartialStt { text } => ("stt", Body::Stt { text, is_final: Some(false) }),
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
            Self::System { command } => ("system", Body::System { command: *command }),
            Self::Custom { payload } => ("custom", Body::Custom { payload }),
            Self::Iot { commands } => ("iot", Body::Iot { commands }),
        };
        serde_json::to_string(&Envelope { session_id, kind, body })
            .expect("a message of strings, numbers and JSON values always serialises")
    }
}
