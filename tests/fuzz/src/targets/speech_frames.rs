//! Frames of the speech services: audio frames, and the text messages of both sides. Any input is
//! read or refused, and a value that is read survives a round trip.

use bytes::Bytes;
use hearken_proto::speech::asr::{AsrCommand, AsrEvent};
use hearken_proto::speech::tts::{AudioFrame, TtsCommand, TtsEvent};

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    if let Ok(frame) = AudioFrame::decode(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(AudioFrame::decode(&frame.encode()), Ok(frame));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(command) = AsrCommand::decode(text) {
        assert_eq!(AsrCommand::decode(&command.encode()), Ok(command));
    }
    if let Ok(event) = AsrEvent::decode(text) {
        assert_eq!(AsrEvent::decode(&event.encode()), Ok(event));
    }
    if let Ok(command) = TtsCommand::decode(text) {
        assert_eq!(TtsCommand::decode(&command.encode()), Ok(command));
    }
    if let Ok(event) = TtsEvent::decode(text) {
        assert_eq!(TtsEvent::decode(&event.encode()), Ok(event));
    }
}
