//! File format of a recorded session: JSON lines. The first line is a header. Each other line is a
//! WebSocket frame with its direction and time. Not for reading or writing files.
//!
//! ```text
//! {"format":"hearken-recording","version":1,"device_id":"02:00:00:00:00:01","framing":1,...}
//! {"t":0.000,"up":{"type":"hello",...}}
//! {"t":0.004,"down":{"type":"hello",...}}
//! {"t":0.120,"up_audio":"SGVsbG8="}
//! ```
//!
//! - `t` is in seconds since the first frame, with three decimals.
//! - `up` is from the device, `down` from the server: the unchanged JSON message.
//! - `up_text` and `down_text` are text frames that are not JSON objects, as strings.
//! - `up_audio` and `down_audio` are single Opus packets in base64, without the framing header.
//!
//! Unknown fields are ignored, optional ones have defaults, blank lines are skipped. If the last
//! line has no line end and cannot be parsed, a crash has cut it off, and it is skipped.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::device::AudioParams;
use crate::json;

/// Value of `format` in every header.
pub const FORMAT: &str = "hearken-recording";
/// Highest supported `version`.
pub const VERSION: u32 = 1;

/// Maximum time of a frame, in seconds. Up to it, milliseconds remain exact.
const MAX_SECONDS: f64 = 1e9;

/// Recorded session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// Metadata of the recording and the expectations of a replay.
    pub header: Header,
    /// Frames in the order in which they passed the socket.
    pub frames: Vec<Frame>,
}

/// First line of a recording. All fields except `format` and `version` are optional.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// Short description of the recording, one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// MAC address of the device, as in its `Device-Id` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// UUID of the device, as in its `Client-Id` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Name of the firmware profile, for example `2.4.2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Version of the binary framing on the wire: 1, 2 or 3.
    pub framing: u32,
    /// Shape of the audio from the device.
    pub uplink: AudioParams,
    /// Shape of the audio to the device.
    pub downlink: AudioParams,
    /// Language spoken by the person, as an ISO 639-1 code: `zh`, `en`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Speaker, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// Origin of the speech and its processing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Licence of the speech.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// End of the person's speech, in seconds since the first frame. A replay measures the response
    /// time from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speech_end_s: Option<f64>,
    /// Further notes for readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Expectations of a replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            title: None,
            device_id: None,
            client_id: None,
            firmware: None,
            framing: 1,
            uplink: AudioParams::default(),
            downlink: AudioParams::opus(24_000, 60),
            language: None,
            speaker: None,
            origin: None,
            licence: None,
            speech_end_s: None,
            notes: None,
            expect: None,
        }
    }
}

/// Expectations of a replay. Absent fields are not checked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Expect {
    /// Words of the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// Maximum error rate of the transcript, as a fraction of its length (0.2 = 20 %): characters
    /// for Chinese, words for other languages. 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_error: Option<f64>,
    /// True if words and audio must be returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<bool>,
    /// Minimum fraction of the reply's words (characters for Chinese) that speech recognition reads
    /// from its audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readback: Option<f64>,
    /// Messages that must arrive in this order, others between them allowed: `hello`, `stt`, `llm`,
    /// `tts start`, `tts sentence_start`, `audio`, `tts stop`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Calls of the device's tools that must occur, others allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ExpectedCall>,
}

/// Expected call of one of the device's tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectedCall {
    /// Name of the tool on the device.
    pub name: String,
    /// All arguments, including those with defaults.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// WebSocket frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Time since the first frame; whole milliseconds in a file.
    pub at: Duration,
    /// Content and direction of the frame.
    pub content: Content,
}

/// Content of a frame. `Up` is from the device, `Down` to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// JSON object from the device.
    Up(Value),
    /// Text frame from the device that is not a JSON object.
    UpText(String),
    /// Opus packet from the device.
    UpAudio(Bytes),
    /// JSON object to the device.
    Down(Value),
    /// Text frame to the device that is not a JSON object.
    DownText(String),
    /// Opus packet to the device.
    DownAudio(Bytes),
}

impl Content {
    /// Creates a text frame from the device.
    pub fn up(text: &str) -> Self {
        object(text).map_or_else(|| Self::UpText(text.to_owned()), Self::Up)
    }

    /// Creates a text frame to the device.
    pub fn down(text: &str) -> Self {
        object(text).map_or_else(|| Self::DownText(text.to_owned()), Self::Down)
    }
}

fn object(text: &str) -> Option<Value> {
    serde_json::from_str::<Value>(text).ok().filter(Value::is_object)
}

/// Reason for which a file is not a recording, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {}{reason}", field.map(|f| format!("field `{f}`: ")).unwrap_or_default())]
pub struct RecordingError {
    /// Line in the file, from 1.
    pub line: usize,
    /// Name of the wrong field, if the mistake is in a field.
    pub field: Option<&'static str>,
    /// Expected content.
    pub reason: String,
}

impl RecordingError {
    fn new(line: usize, field: Option<&'static str>, reason: impl Into<String>) -> Self {
        Self { line, field, reason: reason.into() }
    }
}

impl Recording {
    /// Parses a whole file.
    ///
    /// # Errors
    /// Returns an error if the first line is not a header of this format, or a frame's line is
    /// unreadable. It names the line and the field.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text
            .split_inclusive('\n')
            .enumerate()
            .map(|(at, line)| (at + 1, line))
            .filter(|(_, line)| !line.trim().is_empty());
        let (number, first) = lines.next().ok_or_else(|| {
            RecordingError::new(1, None, "the file is empty; a recording starts with a header")
        })?;
        let header = Header::parse(number, first)?;
        let mut frames = Vec::new();
        for (number, line) in lines {
            match Frame::parse(number, line.trim()) {
                Ok(frame) => frames.push(frame),
                Err(_) if !line.ends_with('\n') => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Self { header, frames })
    }

    /// Returns the text of the file.
    pub fn render(&self) -> String {
        let mut out = self.header.to_line();
        for frame in &self.frames {
            out.push_str(&frame.to_line());
        }
        out
    }
}

impl Header {
    fn parse(number: usize, line: &str) -> Result<Self, RecordingError> {
        let value = json::object(line.as_bytes()).map_err(|e| {
            RecordingError::new(number, None, format!("the header is not a JSON object: {e}"))
        })?;
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(RecordingError::new(number, Some("format"), format!("must be `{FORMAT}`")));
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(1) => {}
            Some(other) => {
                let reason = format!("is {other}, but only version {VERSION} is known");
                return Err(RecordingError::new(number, Some("version"), reason));
            }
            None => {
                return Err(RecordingError::new(number, Some("version"), "must be a number"));
            }
        }
        json::typed(value)
            .map_err(|e| RecordingError::new(number, None, format!("in the header: {e}")))
    }

    /// Returns the header's line, with its line end.
    pub fn to_line(&self) -> String {
        let mut line =
            serde_json::to_string(self).expect("strings, numbers and booleans always serialise");
        line.push('\n');
        line
    }
}

impl Frame {
    fn parse(number: usize, line: &str) -> Result<Self, RecordingError> {
        let err = |field, reason: String| RecordingError::new(number, field, reason);
        let mut value: Value =
            serde_json::from_str(line).map_err(|e| err(None, format!("not JSON: {e}")))?;
        let fields =
            value.as_object_mut().ok_or_else(|| err(None, "must be a JSON object".into()))?;
        let seconds = fields
            .get("t")
            .and_then(Value::as_f64)
            .ok_or_else(|| err(Some("t"), "must be a number of seconds".into()))?;
        if !(0.0..=MAX_SECONDS).contains(&seconds) {
            return Err(err(Some("t"), format!("must be between 0 and {MAX_SECONDS} seconds")));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        let at = Duration::from_millis((seconds * 1_000.0).round() as u64);
        for (name, read) in FIELDS {
            if let Some(value) = fields.remove(name) {
                let content = read(value).map_err(|reason| err(Some(name), reason))?;
                return Ok(Self { at, content });
            }
        }
        let names = FIELDS.map(|(name, _)| name).join(", ");
        Err(err(None, format!("contains none of {names}")))
    }

    /// Returns the frame's line, with its line end.
    pub fn to_line(&self) -> String {
        let ms = self.at.as_millis();
        let mut line = format!("{{\"t\":{}.{:03},", ms / 1_000, ms % 1_000);
        let text = |text: &String| Value::String(text.clone()).to_string();
        let audio = |opus: &Bytes| format!("\"{}\"", STANDARD.encode(opus));
        let (name, value) = match &self.content {
            Content::Up(value) => ("up", value.to_string()),
            Content::UpText(t) => ("up_text", text(t)),
            Content::UpAudio(opus) => ("up_audio", audio(opus)),
            Content::Down(value) => ("down", value.to_string()),
            Content::DownText(t) => ("down_text", text(t)),
            Content::DownAudio(opus) => ("down_audio", audio(opus)),
        };
        writeln!(line, "\"{name}\":{value}}}").expect("writing to a string cannot fail");
        line
    }
}

type Read = fn(Value) -> Result<Content, String>;

const FIELDS: [(&str, Read); 6] = [
    ("up", |v| json(v).map(Content::Up)),
    ("up_text", |v| string(v).map(Content::UpText)),
    ("up_audio", |v| opus(v).map(Content::UpAudio)),
    ("down", |v| json(v).map(Content::Down)),
    ("down_text", |v| string(v).map(Content::DownText)),
    ("down_audio", |v| opus(v).map(Content::DownAudio)),
];

fn json(value: Value) -> Result<Value, String> {
    if value.is_object() { Ok(value) } else { Err("must be a JSON object".into()) }
}

fn string(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err("must be a string".into()),
    }
}

fn opus(value: Value) -> Result<Bytes, String> {
    let bytes = STANDARD.decode(string(value)?).map_err(|e| format!("must be base64: {e}"))?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    const HEAD: &str = "{\"format\":\"hearken-recording\",\"version\":1}\n";

    fn at(ms: u64, content: Content) -> Frame {
        Frame { at: Duration::from_millis(ms), content }
    }

    #[test]
    fn a_session_is_readable_text() {
        let recording = Recording {
            header: Header {
                device_id: Some("02:00:00:00:00:01".into()),
                language: Some("zh".into()),
                expect: Some(Expect {
                    transcript: Some("你好".into()),
                    max_error: Some(0.5),
                    ..Expect::default()
                }),
                ..Header::default()
            },
            frames: vec![
                at(0, Content::up("{\"type\":\"hello\"}")),
                at(61, Content::UpAudio(Bytes::from_static(b"Hello"))),
                at(61_005, Content::down("oops")),
            ],
        };
        let text = recording.render();
        expect![[r#"
            {"format":"hearken-recording","version":1,"device_id":"02:00:00:00:00:01","framing":1,"uplink":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60},"downlink":{"format":"opus","sample_rate":24000,"channels":1,"frame_duration":60},"language":"zh","expect":{"transcript":"你好","max_error":0.5}}
            {"t":0.000,"up":{"type":"hello"}}
            {"t":0.061,"up_audio":"SGVsbG8="}
            {"t":61.005,"down_text":"oops"}
        "#]]
        .assert_eq(&text);
        assert_eq!(Recording::parse(&text), Ok(recording));
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let fail = |text: &str| Recording::parse(text).unwrap_err().to_string();
        let frame = |line: &str| fail(&format!("{HEAD}\n{line}\n"));
        let said = [
            fail(""),
            fail("{\"format\":\"midi\"}"),
            fail("{\"format\":\"hearken-recording\",\"version\":9}"),
            frame("{\"t\":\"soon\",\"up\":{}}"),
            frame("{\"t\":-1,\"up\":{}}"),
            frame("{\"t\":1,\"up\":3}"),
            frame("{\"t\":1,\"down_audio\":\"!\"}"),
            frame("{\"t\":1}"),
            frame("[]"),
        ]
        .join("\n");
        expect![[r#"
            line 1: the file is empty; a recording starts with a header
            line 1: field `format`: must be `hearken-recording`
            line 1: field `version`: is 9, but only version 1 is known
            line 3: field `t`: must be a number of seconds
            line 3: field `t`: must be between 0 and 1000000000 seconds
            line 3: field `up`: must be a JSON object
            line 3: field `down_audio`: must be base64: Invalid symbol 33, offset 0.
            line 3: contains none of up, up_text, up_audio, down, down_text, down_audio
            line 3: must be a JSON object"#]]
        .assert_eq(&said);
    }

    #[test]
    fn times_are_whole_milliseconds_however_late() {
        let text = format!("{HEAD}{{\"t\":77777790.1,\"up\":{{}}}}\n");
        let recording = Recording::parse(&text).unwrap();
        assert_eq!(recording.frames[0].at, Duration::from_millis(77_777_790_100));
        assert_eq!(Recording::parse(&recording.render()), Ok(recording));
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_skipped() {
        let text = format!("{HEAD}{{\"t\":0,\"up\":{{}}}}\n{{\"t\":1,\"down_au");
        assert_eq!(Recording::parse(&text).unwrap().frames.len(), 1);
    }

    fn contents() -> impl Strategy<Value = Content> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..80).prop_map(Bytes::from);
        let object = || (".{0,9}", ".{0,20}", any::<i64>());
        prop_oneof![
            object().prop_map(|(k, v, n)| Content::Up(serde_json::json!({k: v, "n": n}))),
            object().prop_map(|(k, v, n)| Content::Down(serde_json::json!({k: [v], "n": n}))),
            ".{0,40}".prop_map(Content::UpText),
            ".{0,40}".prop_map(Content::DownText),
            bytes().prop_map(Content::UpAudio),
            bytes().prop_map(Content::DownAudio),
        ]
    }

    proptest! {
        #[test]
        fn recordings_round_trip(
            frames in prop::collection::vec((0_u64..10_000_000, contents()), 0..8),
            title in ".{0,20}",
        ) {
            let frames = frames.into_iter().map(|(ms, content)| at(ms, content)).collect();
            let header = Header { title: Some(title), ..Header::default() };
            let recording = Recording { header, frames };
            prop_assert_eq!(Recording::parse(&recording.render()), Ok(recording));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(.|\n){0,200}") {
            let with_head = Recording::parse(&format!("{HEAD}{text}"));
            prop_assert!(with_head.is_ok() || with_head.is_err_and(|e| e.line > 1));
        }
    }
}
