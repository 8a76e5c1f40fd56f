//! One vendor API per file behind one port each. Knows nothing of sessions, devices or actors.

pub mod asr;
pub mod llm;
pub mod tts;
