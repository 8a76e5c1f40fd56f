//! The voice actors: six for each device connection. Their decision logic is in `hearken_dialogue`
//! and `hearken_audio`; external services are behind `hearken_ports`.
//!
//! Reading order: [`messages`] (every message between them), [`pipeline`] (starts those of a
//! connection), [`device`], [`vad`], [`asr`], [`session`], [`tts`], [`mcp_host`] with
//! [`device_tools`].
#![doc = include_str!("../README.md")]

pub mod asr;
pub mod device;
pub mod device_registry;
pub mod device_tools;
pub mod interruption;
mod lifetime;
pub mod mcp_host;
pub mod messages;
pub mod pipeline;
pub mod session;
pub mod settings;
pub mod speculation;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod tts;
pub mod turn_detection;
pub mod unfinished;
pub mod utterance_channel;
pub mod vad;
