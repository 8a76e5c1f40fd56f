//! Port for recording a device's socket: receives every frame in both directions. Never delays
//! speech.

use bytes::Bytes;

/// Recorder of one connection. Dropped when the connection ends.
pub trait RecordingSink: Send {
    /// Receives a frame of the socket. Must not block: an implementation that cannot keep up drops
    /// frames and reports it.
    fn frame(&mut self, frame: RecordedFrame);
}

/// One WebSocket frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedFrame {
    /// JSON from the device.
    UpText(String),
    /// Audio from the device: the Opus packet without its header.
    UpAudio(Bytes),
    /// JSON to the device.
    DownText(String),
    /// Audio to the device: the Opus packet without its header.
    DownAudio(Bytes),
}
