//! Core of a turn: the rounds of the model with its tools, the order of spoken sentences,
//! remembered messages, roles, people, and the records of a turn: its trace, its metrics and its
//! usage. No actix, no audio codecs, no SQL, no vendor's JSON.
//!
//! Reading order: [`turn`], [`mod@run_turn`], `spoken_output`, `spoken`, [`speakable`],
//! [`sentence`], [`message_repair`], [`memory`], [`history`], [`style`], [`phrases`], [`tools`], [`admission`],
//! [`turn_trace`], [`usage`], [`role`], [`people`], [`recent_words`], [`without_earlier`].

pub mod admission;
pub mod history;
pub mod memory;
pub mod message_repair;
pub mod metrics;
pub mod parts;
pub mod people;
pub mod phrases;
pub mod recent_words;
pub mod role;
pub mod run_turn;
pub mod sentence;
pub mod speakable;
pub mod speaker_tracker;
mod spoken;
pub mod spoken_language;
mod spoken_output;
pub mod style;
pub mod template;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod tools;
pub mod turn;
pub mod turn_factory;
pub mod turn_output;
pub mod turn_rate;
pub mod turn_trace;
pub mod usage;
pub mod without_earlier;

pub use history::{Dialogue, DialogueSettings};
pub use memory::Memory;
pub use phrases::{Phrase, Phrases};
pub use run_turn::{TurnDependencies, run_turn};
pub use speakable::Cleaner;
pub use spoken_language::SpokenLanguage;
pub use style::{CURRENT_TIME, Character, ConversationStyle, CurrentStyle, LocalTime, SharedStyle};
pub use turn::{Sentence, Turn, TurnEnd, TurnError, TurnEvent, TurnInput, TurnRecord, TurnSink};
