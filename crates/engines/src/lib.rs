//! Engines that are shipped with the server and run as separate services: `hearken speech` and
//! `hearken llm`; the models that they load; and the supervisor that runs them as child processes.
//! This is the only crate that calls native code, behind the features `speech-engine` and
//! `llm-engine`. Not for the clients with which the server calls a recogniser, a language model or
//! a synthesiser: these are in `hearken-providers`.

pub mod llm;
pub mod models;
pub mod speech;
pub mod supervise;
