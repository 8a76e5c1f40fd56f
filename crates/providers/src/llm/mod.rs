//! Implementations of the language model's port, and the choice between them.

mod answering;
pub mod anthropic;
mod base;
mod chat_json;
pub mod choice;
mod clock;
pub(crate) mod extra;
pub(crate) mod fields;
pub mod ledger;
pub(crate) mod markup;
mod messages_json;
mod offered;
pub mod openai;

pub(crate) use chat_json::words;
