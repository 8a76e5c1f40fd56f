//! Conversation core of the server: speech recognition, dialogue and speech synthesis, as actors
//! between two sockets. The outside (vendors, HTTP, files) is behind [`ports`].
//!
//! Reading order: [`messages`], [`pipeline`], [`device`], [`vad`], [`asr`], [`session`], [`tts`],
//! [`mcp_host`], the text clients' [`gateway`], the applications' [`chat`], then the pure parts
//! [`audio`], [`dialogue`] and [`tools`].
#![doc = include_str!("../README.md")]

pub mod admission;
pub mod asr;
pub mod audio;
pub mod chat;
pub mod device;
pub mod device_registry;
pub mod dialogue;
pub mod gateway;
mod lifetime;
pub mod mcp_host;
pub mod messages;
pub mod metrics;
pub mod pipeline;
pub mod ports;
pub mod reloadable;
pub mod session;
pub mod settings;
pub mod tasks;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod tools;
pub mod tts;
pub mod turn_factory;
pub mod utterance_channel;
pub mod vad;
pub mod wall_clock;
pub mod ws_link;
