//! Conversation core of the server: speech recognition, dialogue and speech synthesis, as actors
//! between two sockets. The outside (vendors, HTTP, files) is behind [`ports`].
//!
//! Reading order: [`actors`] with its messages and the pipeline, the text clients' [`gateway`], the
//! applications' [`chat`], then the pure parts [`audio`], [`dialogue`] and [`tools`].
#![doc = include_str!("../README.md")]

pub mod actors;
pub mod chat;
pub mod device_registry;
pub mod device_tools;
pub mod gateway;
pub mod interruption;
mod lifetime;
pub mod settings;
pub mod speculation;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod turn_detection;
pub mod unfinished;
pub mod utterance_channel;
