//! Language models behind the `Llm` port, and the choice between them.

mod answering;
pub mod anthropic;
mod base;
pub mod by_name;
mod call_assembler;
mod call_ids;
pub mod call_limit;
mod chat_json;
mod clock;
pub mod cost_tracker;
mod event_json;
mod event_reader;
pub(crate) mod extra;
pub(crate) mod fields;
mod finish_reason;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub(crate) mod markup;
mod message_fields;
mod messages_json;
pub mod model_chain;
pub(crate) mod model_metrics;
mod offered;
pub mod openai;
mod tool_schema;

pub(crate) use chat_json::{usage, words};
