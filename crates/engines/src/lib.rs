//! Engines that are shipped with the server and run as separate services, except for the native
//! code: the services of speech and of the language model behind traits, the models that they load,
//! and the supervisor that runs them as child processes. The program `hearken-engines` (crate
//! `hearken-engine-program`) implements the traits with the native engines. Not for the clients
//! with which the server calls a recogniser, a language model or a synthesiser: these are in
//! `hearken-providers`.

pub mod llm;
pub mod models;
pub mod speech;
pub mod supervise;
