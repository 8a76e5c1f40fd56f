//! Messages of the two speech services: recognition ([`asr`], port 9200) and synthesis ([`tts`],
//! port 9300), in the ListenAI protocols. Both Hearken's clients and Hearken's own service use
//! these types. Not for other vendors' protocols, which are next to their providers.

pub mod asr;
pub mod tts;
