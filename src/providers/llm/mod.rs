//! Implementations of the language model's port. Not for choosing between them: that is
//! [`super::llm()`].

mod chat_json;
pub mod openai;
