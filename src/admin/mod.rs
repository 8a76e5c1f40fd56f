//! Administration: sessions of the administrator, settings that change at run time, and the audit
//! log. Not for HTTP.
//!
//! Reading order: `keys`, [`settings`], [`model`], [`sessions`].

mod keys;
pub mod model;
pub mod sessions;
pub mod settings;

pub use keys::CHANGEABLE;
pub use model::LiveLlm;
pub use sessions::{AdminSessions, SeatError, TokenPair};
pub use settings::{ChangeError, RunTime, Source, Use};
