//! Frames on their way to the recorder's writer: their size while they wait, and their content
//! without secrets. Not for the queue, nor for files.

use std::time::Duration;

use bytes::Bytes;
use hearken_base::redaction::redact;
use hearken_ports::RecordedFrame;
use hearken_proto::json::weight_of_text;
use hearken_proto::recording::{Content, Frame};

/// Maximum weight of a recorded text, in bytes of memory when parsed: that of the messages of a
/// device.
const MAX_TEXT_WEIGHT: usize = 1 << 20;
/// Approximate weight of an object with one field, in bytes.
const OBJECT_BYTES: usize = 800;
/// Approximate size of a waiting frame besides its content, in bytes.
const FRAME_BYTES: usize = 128;

/// Frame that is not parsed yet.
pub(super) struct TimedFrame {
    /// Time since the first frame.
    at: Duration,
    content: RecordedFrame,
}

impl TimedFrame {
    /// Creates a frame with memory of its own: a packet keeps alive all that was read from the
    /// socket at once.
    pub(super) fn new(at: Duration, content: RecordedFrame) -> Self {
        let content = match content {
            RecordedFrame::UpAudio(opus) => RecordedFrame::UpAudio(Bytes::copy_from_slice(&opus)),
            RecordedFrame::DownAudio(opus) => {
                RecordedFrame::DownAudio(Bytes::copy_from_slice(&opus))
            }
            text => text,
        };
        Self { at, content }
    }

    /// Returns the memory of this frame, in bytes.
    pub(super) fn size(&self) -> usize {
        let content = match &self.content {
            RecordedFrame::UpText(text) | RecordedFrame::DownText(text) => text.capacity(),
            RecordedFrame::UpAudio(opus) | RecordedFrame::DownAudio(opus) => opus.len(),
        };
        FRAME_BYTES.saturating_add(content)
    }

    /// Parses the frame, and masks the secrets in it. `None` for a text that takes too much memory
    /// when parsed: its secrets cannot be masked.
    pub(super) fn parse(self) -> Option<Frame> {
        let mut content = match self.content {
            RecordedFrame::UpText(text) if is_light(&text) => Content::up(&text),
            RecordedFrame::DownText(text) if is_light(&text) => Content::down(&text),
            RecordedFrame::UpText(_) | RecordedFrame::DownText(_) => return None,
            RecordedFrame::UpAudio(opus) => Content::UpAudio(opus),
            RecordedFrame::DownAudio(opus) => Content::DownAudio(opus),
        };
        if let Content::Up(json) | Content::Down(json) = &mut content {
            redact(json);
        }
        Some(Frame { at: self.at, content })
    }
}

/// Returns true if a text, and the JSON in its strings, in which secrets are masked, too, take
/// little memory when parsed.
fn is_light(text: &str) -> bool {
    let objects = text.bytes().filter(|byte| *byte == b'{').count();
    objects <= MAX_TEXT_WEIGHT / OBJECT_BYTES
        && weight_of_text(text.as_bytes(), MAX_TEXT_WEIGHT).is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use hearken_ports::RecordingSink as _;
    use serde_json::json;

    use super::super::{QUEUE_BYTES, QUEUE_FRAMES, Recorder, RecordingMeta, WriterMessage};
    use super::*;

    fn parsed(text: &str) -> Option<Content> {
        let frame = TimedFrame::new(Duration::ZERO, RecordedFrame::UpText(text.into()));
        frame.parse().map(|frame| frame.content)
    }

    #[test]
    fn texts_that_take_too_much_memory_are_not_parsed() {
        let many = format!("[{}]", vec![r#"{"a":0}"#; 8_000].join(","));
        let heavy = format!(r#"{{"payload":{{"id":1,"result":{many}}}}}"#);
        let inner_json = json!({"payload": {"id": 1, "result": many}}).to_string();
        let list = format!(r#"{{"a":[{}]}}"#, vec!["0"; 30_000].join(","));
        for text in [heavy, inner_json, list] {
            assert!(text.len() < 100_000);
            assert_eq!(parsed(&text), None, "{text:.40}");
        }
        // The largest message of firmware is a page of its tools.
        let tool = json!({"name": "self.lamp", "description": "x".repeat(80), "inputSchema": {
            "type": "object", "properties": {"level": {"type": "integer", "maximum": 100}}}});
        let page = json!({"type": "mcp", "payload": {"result": {"tools": vec![tool; 50]}}});
        assert_eq!(parsed(&page.to_string()), Some(Content::Up(page)));
        assert_eq!(parsed(&"{".repeat(900)), Some(Content::UpText("{".repeat(900))));
    }

    #[test]
    fn secrets_are_masked_also_in_texts_that_are_json() {
        let message = json!({"token": "sk-1", "text": "{\"token\":\"sk-2\"}"}).to_string();
        let masked = json!({"token": "***", "text": "{\"token\":\"***\"}"});
        assert_eq!(parsed(&message), Some(Content::Up(masked)));
    }

    #[test]
    fn frames_that_wait_for_the_disk_are_bounded_in_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (queue, lines) = sync_channel(QUEUE_FRAMES);
        let recorder = Recorder::new(folder.path(), 1 << 30).unwrap();
        let mut sink = recorder.new_sink(RecordingMeta { device_id: None, framing: 1 });
        sink.queue = Some(queue);
        // Before the hello.
        for _ in 0..300 {
            sink.frame(RecordedFrame::UpText("x".repeat(65_500)));
        }
        assert!(sink.opening.is_none() && sink.lossy);
        let is_frame = |line: &WriterMessage| matches!(line, WriterMessage::Frame { .. });
        let most = QUEUE_BYTES / (65_500 + FRAME_BYTES);
        assert_eq!(lines.try_iter().filter(is_frame).count(), most);
        assert_eq!(sink.room.available_permits(), QUEUE_BYTES, "those that were read make room");
        sink.frame(RecordedFrame::UpText("x".into()));
        assert_eq!(lines.try_iter().filter(is_frame).count(), 1);
    }

    #[test]
    fn a_packet_does_not_keep_the_memory_that_it_was_cut_from() {
        let read = Bytes::from(vec![7; 65_536]);
        let packet = read.slice(10..20);
        let frame = TimedFrame::new(Duration::ZERO, RecordedFrame::UpAudio(packet));
        assert!(read.is_unique(), "the frame has its own memory");
        assert_eq!(frame.size(), FRAME_BYTES + 10);
    }
}
