//! Administration: sessions of the administrator, settings that change at run time, and the audit
//! log. Not for HTTP.
//!
//! Reading order: `keys`, [`settings`], [`model`], [`password`], [`setup_code`], [`rights`],
//! [`sessions`].

mod keys;
pub mod model;
pub mod password;
pub mod rights;
pub mod sessions;
pub mod settings;
pub mod setup_code;
mod token_signing;

pub use keys::CHANGEABLE;
pub use model::ReloadableLlm;
pub use sessions::{AdminSessions, LoginError, TokenPair};
pub use settings::{
    ChangeError, RuntimeSettings, SettingsUser, Source, WithStored, stored_settings,
};
