//! Implementations of the language model's port, and the choice between them.

mod answering;
pub mod anthropic;
mod chat_json;
pub mod choice;
mod clock;
mod extra;
pub mod ledger;
mod messages_json;
mod offered;
pub mod openai;
