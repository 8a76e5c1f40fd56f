//! The embedded language model, served over the OpenAI HTTP API on a loopback port. Not for
//! dialogues or devices: for the server it is another base URL.
//!
//! Reading order: [`generation`] (the port between HTTP and a model), [`engine`] (one model on one
//! thread behind a bounded queue), [`request`] and [`reply`] (OpenAI's JSON), [`http`] (the
//! routes), [`two_pass`] (several model runs for a request with tools). Pure parts: [`chatml`] (the
//! prompt), [`grammar`] (the form of answers with tools), [`answer`] (model bytes to text and tool
//! calls). [`prompt_cache`] stores prompts across restarts. The model itself is in the program
//! `hearken-engines`.

pub mod answer;
pub mod args;
pub mod chatml;
pub mod engine;
pub mod generation;
pub mod grammar;
pub mod http;
pub mod prompt_cache;
pub mod reply;
pub mod request;
pub mod two_pass;
