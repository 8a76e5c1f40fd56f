//! Wire formats of Hearken: messages, byte layouts, faults and the session recording format. Pure
//! data: no I/O, no clock, no behaviour and no defaults of behaviour.
//!
//! Reading order: [`ids`], [`json`], [`device`], [`jsonrpc`], [`litemcp`], [`text_gateway`], [`chat`],
//! [`museum`], [`speech`], [`recording`], [`fault`].
#![doc = include_str!("../README.md")]

pub mod chat;
pub mod decode;
pub mod device;
pub mod fault;
pub mod ids;
pub mod json;
pub mod jsonrpc;
pub mod litemcp;
pub mod museum;
pub mod recording;
pub mod speech;
pub mod text_gateway;

pub use decode::DecodeError;
