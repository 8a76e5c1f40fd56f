//! Messages of the two speech services: recognition ([`asr`], port 9200) and synthesis ([`tts`],
//! port 9300), in the ListenAI protocols. Both ends use these types: our clients and our own
//! service. Not for other vendors' protocols, which live beside their providers.

pub mod asr;
pub mod tts;
