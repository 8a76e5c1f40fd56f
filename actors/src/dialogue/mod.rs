//! Dialogue logic: the order of spoken sentences and the remembered messages. No actix, no audio
//! codecs, no SQL, no vendor's JSON.
//!
//! Reading order: [`turn`], [`mod@run_turn`], `spoken_output`, `spoken`, [`speakable`],
//! [`sentence`], [`message_repair`], [`memory`], [`history`], [`style`], [`phrases`].

pub mod history;
pub mod memory;
pub mod message_repair;
pub(crate) mod parts;
pub mod phrases;
pub mod run_turn;
pub mod sentence;
pub mod speakable;
mod spoken;
pub mod spoken_language;
mod spoken_output;
pub mod style;
pub mod template;
pub mod turn;

pub use history::{Dialogue, DialogueSettings};
pub use memory::Memory;
pub use phrases::{Phrase, Phrases};
pub use run_turn::{TurnDependencies, run_turn};
pub use speakable::Cleaner;
pub use spoken_language::SpokenLanguage;
pub use style::{CURRENT_TIME, Character, ConversationStyle, CurrentStyle, LocalTime, SharedStyle};
pub use turn::{Sentence, Turn, TurnEnd, TurnError, TurnEvent, TurnInput, TurnRecord, TurnSink};
