//! The administrator: who that is, what may be changed while the server runs, and who did what.
//! Not for HTTP.
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
