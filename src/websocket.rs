//! How much WebSocket connections other than devices' may take. Not for whom they are with, nor for
//! devices' and clients' own, which are actix's.

use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// What is read at once. Each connection has all of it, zeroed when it is made; a longer message
/// takes as much as it needs.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// A connection that takes messages up to this length.
pub(crate) fn limited(longest_message: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(longest_message))
        .max_frame_size(Some(longest_message))
        .read_buffer_size(READ_BUFFER_BYTES)
}
