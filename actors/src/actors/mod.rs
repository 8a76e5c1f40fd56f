//! The actors: six for each device connection, one for each text client's socket, one for each
//! socket that watches a session's events. Not for what they decide by: that is in `audio`,
//! `dialogue`, `tools`, `gateway` and `chat`.
//!
//! Reading order: [`messages`] (every message between them), [`pipeline`] (starts those of a
//! connection), [`device`], [`vad`], [`asr`], [`session`], [`tts`], [`mcp_host`]; [`text_client`];
//! [`event_stream`].

pub mod asr;
pub mod device;
pub mod event_stream;
pub mod mcp_host;
pub mod messages;
pub mod pipeline;
pub mod session;
pub mod text_client;
pub mod tts;
pub mod vad;
