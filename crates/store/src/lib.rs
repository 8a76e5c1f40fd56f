//! What outlives a restart: devices, who is bound and with which codes others wait, the tool
//! servers that were added, and everybody's sessions. The ports and their types; the SQL is behind
//! them. Not for deciding who is let in.

mod backup;
mod check;
mod config;
mod error;
mod museum;
mod restore;
mod settings;
mod sql;
mod tables;
mod tools;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hearken_base::Secret;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;

pub use backup::{BackupError, Progress, RowCounts};
pub use check::CheckReport;
pub use config::StoreConfig;
pub use error::{StoreError, StoreErrorKind};
pub use museum::{MuseumSession, MuseumStore};
pub use settings::{AuditEntry, SettingsStore};
pub use sql::SqlStore;
pub use tools::{KeptServer, ToolStore};

/// Devices that nobody bound, named or chose for and that are kept; beyond, the ones not seen for longest go.
pub const MAX_STRANGERS: u32 = 50_000;

/// Codes that may wait at once: more would make one easy to guess.
pub const MAX_CODES: u32 = 5_000;

/// A device as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its MAC address, lower case.
    pub device_id: DeviceId,
    /// The UUID that the firmware made at its first boot; of a bound device the one that was
    /// bound.
    pub client_id: String,
    /// What people call it; empty until somebody named it.
    pub name: String,
    /// The board's type, such as `bread-compact-wifi`; empty where unknown, as are the next three.
    pub board: String,
    /// The chip's model.
    pub chip: String,
    /// The serial number burned into the device, which few have.
    pub serial_number: String,
    /// The firmware's version.
    pub firmware_version: String,
    /// When it came first.
    pub first_seen: Timestamp,
    /// When it last asked for its settings, or connected while binding is on.
    pub last_seen: Timestamp,
    /// Somebody entered its code.
    pub bound: bool,
    /// The agent whose tool clients its conversations have.
    pub agent: String,
    /// Names of the sources of tools that its conversations go without.
    pub tools_off: Vec<String>,
    /// What the model is told of how to behave with it; empty for the deployment's own.
    pub system_prompt: String,
}

impl Device {
    /// Somebody bound this device while it had this client id. A device that was reset has
    /// another, and so has an impostor who only knows its address: both need a code again.
    pub fn is_bound_as(&self, client_id: &str) -> bool {
        self.bound && self.client_id == client_id
    }
}

/// What a device tells of itself when it asks for its settings; empty where it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceReport {
    /// Its MAC address, lower case.
    pub device_id: DeviceId,
    /// Its UUID.
    pub client_id: String,
    /// The board's type.
    pub board: String,
    /// The chip's model.
    pub chip: String,
    /// The serial number.
    pub serial_number: String,
    /// The firmware's version.
    pub firmware_version: String,
}

/// How a device waits to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// Six digits; none once somebody entered them.
    pub code: Option<String>,
    /// What a device with a key signs.
    pub challenge: String,
    /// The code is good until then.
    pub expires: Timestamp,
}

/// Part of the list of devices, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePage {
    /// The devices.
    pub devices: Vec<Device>,
    /// There are more after the last of them.
    pub more: bool,
}

/// Where devices are kept. Every call ends within seconds, with an error where the store is down.
#[async_trait]
pub trait DeviceStore: Send + Sync {
    /// Takes what a device told of itself, and gives what is known of it. Of a bound device
    /// nothing is taken from another client.
    async fn report(&self, report: &DeviceReport, now: Timestamp) -> Result<Device, StoreError>;

    /// The device was there at this time; gives what is known of it.
    async fn seen(&self, id: &DeviceId, now: Timestamp) -> Result<Option<Device>, StoreError>;

    /// A device.
    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError>;

    /// At most this many devices, those with ids greater than `after`.
    async fn devices(&self, after: &str, limit: u32) -> Result<DevicePage, StoreError>;

    /// The code that this device and client waits with: its own while that is good, else a new
    /// one.
    async fn activation(
        &self,
        id: &DeviceId,
        client_id: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Activation, StoreError>;

    /// How this device and client waits, or waited until it was bound, if that is not over.
    async fn waiting(
        &self,
        id: &DeviceId,
        client_id: &str,
        now: Timestamp,
    ) -> Result<Option<Activation>, StoreError>;

    /// Binds the device that waits with this code, and names it. None where no device does.
    async fn bind(
        &self,
        code: &str,
        name: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Device>, StoreError>;

    /// Names a device. None where there is no such.
    async fn rename(&self, id: &DeviceId, name: &str) -> Result<Option<Device>, StoreError>;

    /// Forgets a device, and that it was bound. False where there is no such.
    async fn forget(&self, id: &DeviceId) -> Result<bool, StoreError>;

    /// Keeps the key that is burned into the device of this serial number.
    async fn provision(&self, serial_number: &str, key: &[u8]) -> Result<(), StoreError>;

    /// Forgets the key of this serial number. False where there is none.
    async fn unprovision(&self, serial_number: &str) -> Result<bool, StoreError>;

    /// The key of this serial number.
    async fn key(&self, serial_number: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Ends the store's connections.
    async fn close(&self);
}

/// The store at this address; empty is `hearken.db` in the data folder. It is opened when it is
/// first used, and tried again after a failure, so that a server starts without it.
///
/// # Errors
/// The address cannot be read, or is of a kind that we do not know.
pub fn open(url: &Secret, data_dir: &Path) -> Result<Arc<SqlStore>, StoreError> {
    Ok(Arc::new(SqlStore::configured(url.expose(), data_dir)?))
}
