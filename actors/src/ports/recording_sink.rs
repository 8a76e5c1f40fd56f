//! A port for whoever watches a device's socket: every frame, both ways, as it crosses. Not on
//! any path that speech waits for.

use bytes::Bytes;

/// Watches one connection. Dropped when the connection ends.
pub trait RecordingSink: Send {
    /// A frame crossed the socket. Must not block: an implementation that cannot keep up drops
    /// frames and says so.
    fn frame(&mut self, frame: RecordedFrame);
}

/// One WebSocket frame as it crossed.
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
