//! The embedded language model, served over the OpenAI HTTP API on a loopback port. Nothing of
//! dialogues or devices lives here: to the gateway this is one more base URL.
//!
//! Reading order: [`generation`] (the port between HTTP and a model), [`engine`] (one model on one
//! thread behind a bounded queue), [`request`] and [`reply`] (OpenAI's JSON), [`http`] (the
//! routes), [`two_pass`] (how often a model is asked where there are tools). Pure parts: [`chatml`]
//! (the prompt), [`grammar`] (what the model may write when it has tools), [`answer`] (model bytes
//! to text and tool calls). `llama` is the model itself, in builds with the feature `llm-engine`
//! only.

pub mod answer;
pub mod chatml;
pub mod engine;
pub mod generation;
pub mod grammar;
pub mod http;
#[cfg(feature = "llm-engine")]
pub mod llama;
pub mod reply;
pub mod request;
pub mod two_pass;
