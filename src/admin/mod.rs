//! Administration: sessions of the administrator, settings that change at run time, and the audit
//! log. Not for HTTP.
//!
//! Reading order: `keys`, [`settings`], [`model`], [`sessions`].

mod keys;
pub mod model;
pub mod sessions;
pub mod settings;
mod token_signing;

pub use keys::CHANGEABLE;
pub use model::ReloadableLlm;
pub use sessions::{AdminSessions, LoginError, TokenPair};
pub use settings::{ChangeError, RuntimeSettings, SettingsUser, Source};
