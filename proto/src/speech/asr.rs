//! Messages of the recognition service. Text frames are JSON. Binary frames are PCM (s16le, 16 kHz,
//! mono, any length) or, after `set_audio_format opus`, one Opus packet each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::DecodeError;
use crate::json::{self, JsonError};

/// Sample rate of all audio in this protocol.
pub const SAMPLE_RATE_HZ: u32 = 16_000;

/// Encoding of the binary frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AudioFormat {
    /// s16le samples, mono.
    #[default]
    Pcm,
    /// One Opus packet per binary frame.
    Opus,
}

/// Text message from the client.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum AsrCommand {
    /// Asks for a `pong`.
    Ping,
    /// Drops buffered audio, and returns to streaming mode and to PCM.
    Reset,
    /// Sets the encoding of binary frames.
    SetAudioFormat {
        /// New encoding.
        format: AudioFormat,
    },
    /// Opens one utterance. The following audio is one piece, without server-side endpointing.
    BatchStart {
        /// Always 16000.
        sample_rate: u32,
        /// Name of the language in Chinese (`中文`, `英文`). Absent means automatic detection.
        #[serde(skip_serializing_if = "Option::is_none")]
        language: Option<String>,
    },
    /// Ends the utterance and starts recognition.
    BatchEnd,
}

fn default_rate() -> u32 {
    SAMPLE_RATE_HZ
}

/// State of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// Receiving audio.
    Receiving,
    /// The recogniser is running.
    Recognizing,
    /// The result has been sent.
    Complete,
}

/// Text message from the service. Timestamps are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AsrEvent {
    /// Answers `ping`.
    Pong,
    /// Answers `reset`.
    Reset {
        /// Text for people.
        #[serde(default)]
        message: String,
    },
    /// Answers `set_audio_format`.
    AudioFormatSet {
        /// Current encoding.
        format: AudioFormat,
        /// Time of the message.
        #[serde(default)]
        timestamp: u64,
    },
    /// Reports a new state of a batch.
    BatchProgress {
        /// State of the batch.
        state: BatchState,
        /// Text for people.
        #[serde(default)]
        message: String,
    },
    /// Transcript of a batch; `text` may be empty.
    BatchResult {
        /// The transcript.
        text: String,
        /// Length of the audio in seconds.
        #[serde(default, deserialize_with = "json::float")]
        duration: f64,
        /// Number of samples recognised.
        #[serde(default)]
        samples: u64,
        /// Time of the message.
        #[serde(default)]
        timestamp: u64,
    },
    /// Streaming mode: start or end of speech.
    Vad {
        /// `speech_start` or `speech_end`.
        event: VadEvent,
        /// Length of the segment in seconds, at its end.
        #[serde(
            default,
            deserialize_with = "json::optional_float",
            skip_serializing_if = "Option::is_none"
        )]
        duration: Option<f64>,
        /// Samples in the segment, at its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        samples: Option<u64>,
        /// Time of the message.
        #[serde(default)]
        timestamp: u64,
    },
    /// Streaming mode: transcript of a segment. May never arrive for noise.
    Result {
        /// The transcript.
        text: String,
        /// Always true.
        #[serde(default)]
        is_final: bool,
        /// Spelling of the original protocol.
        #[serde(default)]
        is_speeching: bool,
        /// Time of the message.
        #[serde(default)]
        timestamp: u64,
        /// Number of the segment, from 1.
        #[serde(default)]
        segment_id: u64,
    },
    /// Error of the last command or its audio.
    Error {
        /// Text for people.
        message: String,
        /// One of [`code`].
        code: u32,
        /// Time of the message.
        #[serde(default)]
        timestamp: u64,
    },
}

/// Kind of a `vad` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VadEvent {
    /// Speech started.
    SpeechStart,
    /// Speech ended.
    SpeechEnd,
}

/// Error codes of the recognition service.
pub mod code {
    /// The text frame is not JSON.
    pub const BAD_JSON: u32 = 1;
    /// The service failed or is too busy.
    pub const EXCEPTION: u32 = 2;
    /// The command is unknown.
    pub const UNKNOWN_COMMAND: u32 = 3;
    /// `batch_end` without `batch_start`.
    pub const BATCH_NOT_STARTED: u32 = 4;
    /// The batch contains no audio.
    pub const NO_AUDIO: u32 = 5;
    /// The batch is shorter than 0.3 s.
    pub const TOO_SHORT: u32 = 6;
    /// The audio format is not supported, or a packet does not decode.
    pub const FORMAT: u32 = 17;
}

impl AsrEvent {
    /// Parses one text frame of the service.
    ///
    /// # Errors
    /// Returns an error for text that is not JSON, an unknown `type`, or a field of the wrong type.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        Ok(json::weighed_within(text, json::MAX_SPEECH_WEIGHT)?)
    }

    /// Returns the event as JSON text.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always serialise")
    }
}

impl AsrCommand {
    const NAMES: [&str; 5] = ["ping", "reset", "set_audio_format", "batch_start", "batch_end"];

    /// Parses one text frame of a client.
    ///
    /// # Errors
    /// Returns an error for text that is not a JSON object, an unknown `command`, or a field that
    /// is missing or of the wrong type.
    pub fn decode(text: &str) -> Result<Self, JsonError> {
        Self::from_fields(json::object(text.as_bytes())?)
    }

    /// Parses the fields of one text frame.
    ///
    /// # Errors
    /// Returns the errors of [`AsrCommand::decode`].
    pub fn from_fields(mut fields: Map<String, Value>) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct Format {
            format: AudioFormat,
        }
        #[derive(Deserialize)]
        struct Start {
            #[serde(default = "default_rate")]
            sample_rate: u32,
            language: Option<String>,
        }
        Ok(match json::take_text(&mut fields, "command")?.as_str() {
            "ping" => Self::Ping,
            "reset" => Self::Reset,
            "set_audio_format" => {
                let Format { format } = json::typed(fields)?;
                Self::SetAudioFormat { format }
            }
            "batch_start" => {
                let Start { sample_rate, language } = json::typed(fields)?;
                Self::BatchStart { sample_rate, language }
            }
            "batch_end" => Self::BatchEnd,
            other => return Err(json::unknown("command", &Self::NAMES, other)),
        })
    }

    /// Returns the command as JSON text.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always serialise")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn commands_have_their_wire_form() {
        let text = [
            AsrCommand::Ping,
            AsrCommand::Reset,
            AsrCommand::SetAudioFormat { format: AudioFormat::Opus },
            AsrCommand::BatchStart { sample_rate: 16_000, language: None },
            AsrCommand::BatchEnd,
        ]
        .map(|c| c.encode())
        .join("\n");
        expect![[r#"
            {"command":"ping"}
            {"command":"reset"}
            {"command":"set_audio_format","format":"opus"}
            {"command":"batch_start","sample_rate":16000}
            {"command":"batch_end"}"#]]
        .assert_eq(&text);
        assert_eq!(
            AsrCommand::decode(r#"{"command":"batch_start","language":"中文"}"#).unwrap(),
            AsrCommand::BatchStart { sample_rate: 16_000, language: Some("中文".into()) }
        );
    }

    #[test]
    fn events_of_the_original_service_are_read() {
        let result =
            r#"{"type":"batch_result","text":"你好","duration":1.2,"samples":19200,"timestamp":5}"#;
        assert!(matches!(
            AsrEvent::decode(result),
            Ok(AsrEvent::BatchResult { samples: 19_200, .. })
        ));
        let vad =
            r#"{"type":"vad","event":"speech_end","duration":1.5,"samples":24000,"timestamp":9}"#;
        assert!(matches!(
            AsrEvent::decode(vad),
            Ok(AsrEvent::Vad { event: VadEvent::SpeechEnd, samples: Some(24_000), .. })
        ));
        assert!(AsrEvent::decode(r#"{"type":"weather"}"#).is_err());
        for (written, seconds) in [("1", 1.0), ("1.50", 1.5), ("15e-1", 1.5), ("0.1", 0.1)] {
            let text = format!(r#"{{"type":"batch_result","text":"","duration":{written}}}"#);
            let Ok(AsrEvent::BatchResult { duration, .. }) = AsrEvent::decode(&text) else {
                panic!("{text}")
            };
            assert!((duration - seconds).abs() < 1e-9, "{text}");
        }
    }
}
