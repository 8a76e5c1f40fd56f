//! The engines that come with the server, as services of their own: `hearken speech` and `hearken
//! llm`, the models that they load, and keeping them running as child processes. Native code is
//! known to this crate alone, behind the features `speech-engine` and `llm-engine`. Not for how the
//! server asks a recogniser, a model or a synthesiser: that is `hearken-providers`.

pub mod llm;
pub mod models;
pub mod speech;
pub mod supervise;
