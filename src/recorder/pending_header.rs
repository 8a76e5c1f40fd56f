//! Recording whose header is not written yet, because the hellos may still correct it, and the
//! frames until then. Not for later frames.

use hearken_ports::RecordedFrame;
use hearken_proto::device::Uplink;
use hearken_proto::json::weighed_within;
use serde_json::Value;

use super::NewFile;
use super::frames::TimedFrame;

/// Maximum number of frames held until both hellos have arrived, and their maximum size in bytes;
/// after that, the header is written without them.
const MAX_HELD: usize = 64;
const MAX_HELD_BYTES: usize = 16 << 10;
/// Maximum weight of a hello, in bytes of memory when parsed. No other text is parsed here.
const MAX_HELLO_WEIGHT: usize = 64 << 10;

/// Recording whose header is not written yet.
pub(super) struct PendingHeader {
    pub(super) file: NewFile,
    pub(super) held: Vec<TimedFrame>,
    held_bytes: usize,
}

impl PendingHeader {
    /// Creates the header of a file that holds no frame yet.
    pub(super) fn new(file: NewFile) -> Self {
        Self { file, held: Vec::new(), held_bytes: 0 }
    }

    /// Copies framing and audio formats from a hello to the header. Returns true once both hellos
    /// have arrived.
    pub(super) fn learn(&mut self, frame: &RecordedFrame) -> bool {
        let header = &mut self.file.header;
        match frame {
            RecordedFrame::UpText(text) => {
                let read = Uplink::decode_within(text, MAX_HELLO_WEIGHT);
                if let Ok(Uplink::Hello(hello)) = read.map(|read| read.0) {
                    header.framing = hello.version.unwrap_or(header.framing);
                    header.uplink = hello.audio_params;
                }
                false
            }
            RecordedFrame::DownText(text) => {
                let json = weighed_within::<Value>(text, MAX_HELLO_WEIGHT).unwrap_or_default();
                let is_hello = json["type"] == "hello";
                if is_hello && let Ok(audio) = serde_json::from_value(json["audio_params"].clone())
                {
                    header.downlink = audio;
                }
                is_hello
            }
            RecordedFrame::UpAudio(_) | RecordedFrame::DownAudio(_) => false,
        }
    }

    /// Holds a frame. Returns it if those that are held take too much memory with it.
    pub(super) fn hold(&mut self, frame: TimedFrame) -> Option<TimedFrame> {
        let held_bytes = self.held_bytes.saturating_add(frame.size());
        if self.held.len() >= MAX_HELD || held_bytes > MAX_HELD_BYTES {
            return Some(frame);
        }
        self.held_bytes = held_bytes;
        self.held.push(frame);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;

    use hearken_proto::recording::Header;

    use super::*;

    #[test]
    fn frames_that_are_held_are_bounded_in_number_and_in_bytes() {
        let pending = || {
            let header = Box::new(Header::default());
            PendingHeader::new(NewFile { path: PathBuf::new(), header, is_deleted: Arc::default() })
        };
        for (bytes, most) in [(1, MAX_HELD), (1_000, 14), (4_000, 3), (60_000, 0)] {
            let mut pending = pending();
            let packet = RecordedFrame::UpAudio(vec![0_u8; bytes].into());
            let frame = || TimedFrame::new(Duration::ZERO, packet.clone());
            let held = (0..100).take_while(|_| pending.hold(frame()).is_none()).count();
            assert_eq!(held, most, "{bytes}");
            assert!(pending.held_bytes <= MAX_HELD_BYTES, "{bytes}");
        }
    }
}
