//! Messages of the synthesis service: JSON text frames in both directions, and audio as binary
//! frames from the service. A request ends with `complete` (or `error`), never with a flag in a
//! frame.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::DecodeError;
use crate::json::{self, JsonError};

/// Maximum length of the text of one request, in characters.
pub const MAX_TEXT_CHARS: usize = 5_000;

/// Text message from the client.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TtsCommand {
    /// Requests speech.
    TtsRequest {
        /// Id chosen by the client, unique on its connection.
        request_id: String,
        /// Text and voice parameters.
        params: TtsParams,
    },
    /// Ends a request early. The answer is `complete` with `cancelled`.
    Cancel {
        /// Id of the request to end.
        request_id: String,
    },
    /// Asks for a `pong`.
    Ping {
        /// Timestamp, echoed in the `pong`.
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<Value>,
    },
}

/// Text and voice parameters. Fields of the original protocol that have no effect here are
/// accepted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TtsParams {
    /// Text of up to 5,000 characters.
    pub text: String,
    /// Delivery of frames: streamed, or one at the end.
    #[serde(default)]
    pub mode: TtsMode,
    /// Voice of the service. Omit it for the default (`null` is an error there).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice_id: Option<String>,
    /// Speaking rate; 1.0 is normal. An extension of Hearken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
}

/// Delivery of the audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TtsMode {
    /// Frames as they are produced.
    #[default]
    Streaming,
    /// One frame with all audio.
    NonStreaming,
}

/// Text message from the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TtsEvent {
    /// Reports progress of a request.
    Progress {
        /// Id of the request.
        request_id: String,
        /// `queued`, `processing`, `generating` or `encoding`.
        state: String,
        /// Progress, 0 to 1.
        #[serde(default, deserialize_with = "json::float")]
        progress: f64,
        /// Text for people.
        #[serde(default)]
        message: String,
    },
    /// A request was completed or cancelled.
    Complete {
        /// Id of the request.
        request_id: String,
        /// Statistics of the audio.
        #[serde(default)]
        result: TtsResult,
    },
    /// A request failed, or a message was unreadable.
    Error {
        /// Id of the request. Absent if it could not be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// Reason for the failure.
        error: TtsFailure,
    },
    /// Answers `ping`.
    Pong {
        /// Timestamp of the `ping`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Value>,
    },
}

/// Statistics of a finished request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TtsResult {
    /// Duration of the audio, in seconds.
    #[serde(default, deserialize_with = "json::float")]
    pub duration: f64,
    /// Sample rate of the audio, in samples per second.
    #[serde(default)]
    pub sample_rate: u32,
    /// Number of samples.
    #[serde(default)]
    pub samples: u64,
    /// Number of binary frames.
    #[serde(default)]
    pub chunks: u64,
    /// True if the request was ended by `cancel`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

/// Reason for a failed request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TtsFailure {
    /// `INVALID_PARAMS`, `INVALID_JSON`, `TEXT_TOO_LONG`, `VOICE_NOT_FOUND`,
    /// `VOICE_MANAGER_NOT_AVAILABLE`, `QUEUE_FULL`, `TIMEOUT`, `RATE_LIMITED`,
    /// `UNSUPPORTED_FORMAT` or `INTERNAL_ERROR`.
    pub code: String,
    /// Text for people.
    #[serde(default)]
    pub message: String,
    /// Additional details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// Kind of a binary frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Part of a streamed answer (1).
    Stream,
    /// Complete answer (2).
    Whole,
    /// Metadata only (3).
    Meta,
}

/// Binary frame: `AA 55 | kind | 00 | u32 meta length | meta JSON | u32 payload length | PCM s16le
/// mono`, lengths big-endian.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioFrame {
    /// Kind of the frame.
    pub kind: FrameKind,
    /// Metadata of the frame.
    pub meta: FrameMeta,
    /// PCM, s16le, mono.
    pub pcm: Bytes,
}

/// Metadata of a binary frame.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FrameMeta {
    /// Id of the request that the frame answers.
    pub request_id: String,
    /// Number of the frame in its request, from 0.
    #[serde(default)]
    pub sequence: u64,
    /// Sample rate of the PCM, in samples per second.
    #[serde(default = "default_rate")]
    pub sample_rate: u32,
    /// Never true in the original protocol; does not mark the end of anything.
    #[serde(default)]
    pub is_final: bool,
}

fn default_rate() -> u32 {
    16_000
}

const MAGIC: [u8; 2] = [0xAA, 0x55];

impl AudioFrame {
    /// Parses one binary frame.
    ///
    /// # Errors
    /// Returns an error if the magic, kind or reserved byte is wrong, a length exceeds the frame,
    /// the metadata is not the expected JSON, or the PCM has an odd number of bytes.
    pub fn decode(frame: &Bytes) -> Result<Self, DecodeError> {
        if frame.len() < 8 {
            return Err(DecodeError::Short { what: "frame header", need: 8, have: frame.len() });
        }
        if frame[..2] != MAGIC {
            let value = u64::from(u16::from_be_bytes([frame[0], frame[1]]));
            return Err(DecodeError::Header { what: "frame magic", value });
        }
        let kind = match frame[2] {
            1 => FrameKind::Stream,
            2 => FrameKind::Whole,
            3 => FrameKind::Meta,
            other => return Err(DecodeError::Header { what: "frame kind", value: other.into() }),
        };
        if frame[3] != 0 {
            return Err(DecodeError::Header { what: "reserved byte", value: frame[3].into() });
        }
        let (meta, rest) = sized(frame, 4, "meta data")?;
        let meta = json::weighed(&meta)?;
        let (pcm, _) = sized(frame, rest, "payload")?;
        if pcm.len() % 2 != 0 {
            return Err(DecodeError::field("payload", "s16 audio has an even number of bytes"));
        }
        Ok(Self { kind, meta, pcm })
    }

    /// Returns the bytes of the frame.
    pub fn encode(&self) -> Bytes {
        let meta = serde_json::to_vec(&self.meta).expect("strings and numbers always serialise");
        let mut out = BytesMut::with_capacity(12 + meta.len() + self.pcm.len());
        out.put_slice(&MAGIC);
        out.put_u8(match self.kind {
            FrameKind::Stream => 1,
            FrameKind::Whole => 2,
            FrameKind::Meta => 3,
        });
        out.put_u8(0);
        for part in [&meta[..], &self.pcm[..]] {
            out.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
            out.put_slice(part);
        }
        out.freeze()
    }
}

/// Reads `u32 length | bytes` at `at`. Returns the bytes and their end position.
fn sized(frame: &Bytes, at: usize, what: &'static str) -> Result<(Bytes, usize), DecodeError> {
    let start = at + 4;
    let short =
        |need: usize| DecodeError::Short { what, need, have: frame.len().saturating_sub(at) };
    let length = frame.get(at..start).ok_or_else(|| short(4))?;
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let end = start.checked_add(length).ok_or_else(|| short(length))?;
    if end > frame.len() {
        return Err(short(4 + length));
    }
    Ok((frame.slice(start..end), end))
}

impl TtsEvent {
    /// Parses one text frame of the service.
    ///
    /// # Errors
    /// Returns an error for text that is not JSON, an unknown `type`, or a field of the wrong type.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        Ok(json::weighed(text)?)
    }

    /// Returns the event as JSON text.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("JSON values always serialise")
    }
}

impl TtsCommand {
    /// Parses one text frame of a client.
    ///
    /// # Errors
    /// Returns an error for text that is not a JSON object, an unknown `type`, or a field that is
    /// missing or of the wrong type.
    pub fn decode(text: &str) -> Result<Self, JsonError> {
        Self::from_fields(json::object(text.as_bytes())?)
    }

    /// Parses the fields of one text frame.
    ///
    /// # Errors
    /// Returns the errors of [`TtsCommand::decode`].
    pub fn from_fields(mut fields: Map<String, Value>) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct Request {
            request_id: String,
            params: TtsParams,
        }
        #[derive(Deserialize)]
        struct Cancel {
            request_id: String,
        }
        #[derive(Deserialize)]
        struct Ping {
            timestamp: Option<Value>,
        }
        Ok(match json::take_text(&mut fields, "type")?.as_str() {
            "tts_request" => {
                let Request { request_id, params } = json::typed(fields)?;
                Self::TtsRequest { request_id, params }
            }
            "cancel" => {
                let Cancel { request_id } = json::typed(fields)?;
                Self::Cancel { request_id }
            }
            "ping" => {
                let Ping { timestamp } = json::typed(fields)?;
                Self::Ping { timestamp }
            }
            other => return Err(json::unknown("type", &["tts_request", "cancel", "ping"], other)),
        })
    }

    /// Returns the command as JSON text.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("JSON values always serialise")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(pcm: &'static [u8]) -> AudioFrame {
        let meta =
            FrameMeta { request_id: "r".into(), sequence: 0, sample_rate: 24_000, is_final: false };
        AudioFrame { kind: FrameKind::Stream, meta, pcm: Bytes::from_static(pcm) }
    }

    #[test]
    fn the_frame_is_byte_exact() {
        let bytes = frame(&[1, 2]).encode();
        assert_eq!(&bytes[..4], [0xAA, 0x55, 1, 0]);
        let meta = br#"{"request_id":"r","sequence":0,"sample_rate":24000,"is_final":false}"#;
        assert_eq!(u32::from_be_bytes(bytes[4..8].try_into().unwrap()) as usize, meta.len());
        assert_eq!(&bytes[8..8 + meta.len()], meta);
        assert_eq!(&bytes[8 + meta.len()..], [0, 0, 0, 2, 1, 2]);
        assert_eq!(AudioFrame::decode(&bytes), Ok(frame(&[1, 2])));
    }

    #[test]
    fn invalid_frames_are_refused() {
        assert!(matches!(
            AudioFrame::decode(&frame(&[1]).encode()),
            Err(DecodeError::Field { .. })
        ));
        let swapped = Bytes::from_static(&[0xAA, 0x55, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(AudioFrame::decode(&swapped), Err(DecodeError::Header { .. })));
    }

    #[test]
    fn requests_leave_out_an_unset_voice() {
        let params = TtsParams { text: "hi".into(), ..TtsParams::default() };
        let request = TtsCommand::TtsRequest { request_id: "a".into(), params };
        assert_eq!(
            request.encode(),
            r#"{"type":"tts_request","request_id":"a","params":{"text":"hi","mode":"streaming"}}"#
        );
    }

    #[test]
    fn cancelled_requests_complete() {
        let text = r#"{"type":"complete","request_id":"a","result":{"cancelled":true}}"#;
        let Ok(TtsEvent::Complete { result, .. }) = TtsEvent::decode(text) else {
            panic!("{text}")
        };
        assert!(result.cancelled);
        let text = r#"{"type":"complete","request_id":"a","result":{"duration":1.50}}"#;
        let Ok(TtsEvent::Complete { result, .. }) = TtsEvent::decode(text) else {
            panic!("{text}")
        };
        assert!((result.duration - 1.5).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut whole = vec![0xAA, 0x55, 1, 0];
            whole.extend(&bytes);
            for bytes in [bytes, whole] {
                if let Ok(frame) = AudioFrame::decode(&bytes.into()) {
                    prop_assert_eq!(frame.pcm.len() % 2, 0);
                }
            }
        }
    }
}
