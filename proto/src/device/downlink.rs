//! Text messages from the server to a device. Each carries the session id and `type`; a `tts`
//! message always has `state`, since firmware up to 2.2 crashes without.

use serde::Serialize;
use serde_json::{Map, Value};

use super::iot::Command;
use super::{AudioParams, Emotion};
use crate::ids::SessionId;

/// Answer to a device's hello. `transport` is not optional: firmware that misses it crashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHello {
    /// Shape of the downlink audio that we really send.
    pub audio_params: AudioParams,
    /// The device's tools will be used: said as `features`, which firmware does not read.
    pub mcp: bool,
}

/// What a device can be told to do as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemCommand {
    /// Start anew; the socket is dropped.
    Reboot,
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
    /// An order to the device as a whole.
    System {
        /// What to do.
        command: SystemCommand,
    },
    /// Anything for firmware built with `CONFIG_RECEIVE_CUSTOM_MESSAGE`, which shows it.
    Custom {
        /// An object: firmware ignores anything else.
        payload: Map<String, Value>,
    },
    /// Orders to the things of firmware up to 1.7.
    Iot {
        /// Carried out in this order.
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
    /// The JSON text of the message.
    pub fn encode(&self, session_id: &SessionId) -> String {
        let tts = |state, text| ("tts", Body::Tts { state, text });
        let (kind, body) = match self {
            Self::Hello(ServerHello { audio_params, mcp }) => {
                let features = mcp.then_some(Features { mcp: true });
                ("hello", Body::Hello { transport: "websocket", features, audio_params })
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
            Self::System { command } => ("system", Body::System { command: *command }),
            Self::Custom { payload } => ("custom", Body::Custom { payload }),
            Self::Iot { commands } => ("iot", Body::Iot { commands }),
        };
        serde_json::to_string(&Envelope { session_id, kind, body })
            .expect("a message of strings, numbers and JSON values always serialises")
    }
}
