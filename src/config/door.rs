//! Keys of who is let in: tokens, bindings, the OTA answer and the store. Not for what happens
//! once a device is in.

use std::path::PathBuf;

use hearken_base::Secret;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Who is let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether devices need a token, and people the admin token.
    pub required: AuthRequired,
    /// Signs the tokens of devices; empty takes one made at the first start, kept in `secret` in
    /// the data folder.
    pub secret: Secret,
    /// How long a device's token is good; a device gets a new one at each boot.
    pub token_days: u32,
    /// Ids of the devices that are let in; empty lets in all.
    pub allowed_devices: Vec<String>,
    /// What people and programs show to `/api`; empty takes one made at the first start, kept in
    /// `admin_token` in the data folder.
    pub admin_token: Secret,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            required: AuthRequired::Auto,
            secret: Secret::default(),
            token_days: 30,
            allowed_devices: Vec::new(),
            admin_token: Secret::default(),
        }
    }
}

/// Whether tokens are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthRequired {
    /// Unless the server listens on a loopback address only.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: whoever reaches the port is let in.
    Never,
}

/// What devices are told when they boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtaConfig {
    /// A new device must be bound by somebody who enters its code before it may talk.
    pub binding: bool,
    /// How long a code is good.
    pub code_lifetime_ms: u64,
    /// IANA name of the time zone of all clocks, such as `Asia/Shanghai`: what devices show, what
    /// models are told, the time tool and the log. Empty is the system's.
    pub timezone: String,
    /// Address of the device endpoint; empty builds it from the `Host` that the device asked.
    pub websocket_url: String,
    /// Folder with firmware images named `BOARD_VERSION.bin`; empty offers none.
    pub firmware_dir: PathBuf,
    /// A proxy stands before us: its `X-Forwarded-*` headers say what the device asked.
    pub trust_proxy: bool,
}

impl Default for OtaConfig {
    fn default() -> Self {
        Self {
            binding: false,
            code_lifetime_ms: 1_800_000,
            timezone: String::new(),
            websocket_url: String::new(),
            firmware_dir: PathBuf::new(),
            trust_proxy: false,
        }
    }
}

impl OtaConfig {
    /// The time zone; none where there is none of this name.
    pub fn time_zone(&self) -> Option<TimeZone> {
        match self.timezone.as_str() {
            "" => Some(TimeZone::system()),
            name => TimeZone::get(name).ok(),
        }
    }
}

/// Where devices, bindings and sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// A `sqlite:` or `postgres:` address; empty is `hearken.db` in the data folder.
    pub url: Secret,
}

/// Masks the password within a section's address; all of it where it cannot be read.
pub(super) fn mask_address(table: &mut toml::Table, section: &str) {
    let Some(url) = table.get_mut(section).and_then(|s| s.get_mut("url")) else { return };
    let Some(shown) = url.as_str().filter(|u| !u.is_empty()) else { return };
    *url = without_password(shown).unwrap_or_else(|| "***".into()).into();
}

/// An address in which no password stands; none where there may be one that is not found.
fn without_password(url: &str) -> Option<String> {
    if url.starts_with("sqlite:") {
        return Some(url.to_owned());
    }
    let mut url = url::Url::parse(url).ok().filter(url::Url::has_authority)?;
    if url.password().is_some() {
        url.set_password(Some("***")).ok()?;
    }
    if url.query_pairs().any(|(key, _)| key.contains("password")) {
        url.set_query(None);
    }
    Some(url.into())
}
