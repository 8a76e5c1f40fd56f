//! The speech service: recognition (port 9200) and synthesis (port 9300) over the protocols of
//! `hearken_proto::speech`. Independent of devices, dialogue and sessions: it can run alone on
//! another machine.
//!
//! Reading order: [`engine`] (the traits of an engine), [`asr_service`], [`tts_service`]. The
//! program `hearken-engines` combines them.

pub mod asr_service;
pub mod engine;
pub mod page;
pub mod phrase_cache;
pub mod plan;
pub mod pool;
pub mod socket;
pub mod start_delay;
pub mod text;
mod tts_request;
pub mod tts_service;
pub mod voice_speeds;

pub use tts_request::OUTPUT_RATE_HZ;
