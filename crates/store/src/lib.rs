//! Persistent data: devices, their binding and the codes of waiting ones, the tool servers that
//! were added, and all sessions. Contains the ports and their types; the SQL is behind them. Not
//! for access control.

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
pub use sql::{FILE_NAME, SqlStore};
pub use tools::{KeptPin, KeptServer, ToolStore};

/// Most stored devices that nobody bound, named or configured. Beyond, those not seen for the
/// longest time are deleted.
pub const MAX_STRANGERS: u32 = 50_000;

/// Most codes that may wait at once: more would make one easy to guess.
pub const MAX_CODES: u32 = 5_000;

/// Device as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// MAC address, lower case.
    pub device_id: DeviceId,
    /// UUID that the firmware created at its first boot. For a bound device, the one that was
    /// bound.
    pub client_id: String,
    /// Name given by people; empty if there is none.
    pub name: String,
    /// Type of the board, such as `bread-compact-wifi`; empty if unknown.
    pub board: String,
    /// Model of the chip; empty if unknown.
    pub chip: String,
    /// Serial number burned into the device, which few have; empty if unknown.
    pub serial_number: String,
    /// Version of the firmware; empty if unknown.
    pub firmware_version: String,
    /// Time of the device's first report.
    pub first_seen: Timestamp,
    /// Last time that it asked for its settings, or connected while binding is on.
    pub last_seen: Timestamp,
    /// True after somebody entered its code.
    pub bound: bool,
    /// Agent whose tool clients its conversations use.
    pub agent: String,
    /// Names of tool sources that are switched off in its conversations.
    pub tools_off: Vec<String>,
    /// System prompt of its conversations; empty for the deployment's own.
    pub system_prompt: String,
}

impl Device {
    /// Returns true if this device was bound with this client id. A device that was reset has
    /// another one, and so has an impostor that only knows its address: both need a code again.
    pub fn is_bound_as(&self, client_id: &str) -> bool {
        self.bound && self.client_id == client_id
    }
}

/// Data that a device sends about itself when it asks for its settings; empty if it sends none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceReport {
    /// MAC address, lower case.
    pub device_id: DeviceId,
    /// UUID of the client.
    pub client_id: String,
    /// Type of the board.
    pub board: String,
    /// Model of the chip.
    pub chip: String,
    /// Serial number of the device.
    pub serial_number: String,
    /// Version of the firmware.
    pub firmware_version: String,
}

/// Activation of a device that waits to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// Six digits; none after somebody entered them.
    pub code: Option<String>,
    /// Challenge that a device with a key signs.
    pub challenge: String,
    /// End of the code's lifetime.
    pub expires: Timestamp,
}

/// Page of the list of devices, ordered by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePage {
    /// Devices of this page.
    pub devices: Vec<Device>,
    /// True if there are more devices after the last one.
    pub more: bool,
}

/// Storage of devices. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait DeviceStore: Send + Sync {
    /// Stores a device's report and returns the device. For a bound device, a report of another
    /// client changes nothing.
    async fn report(&self, report: &DeviceReport, now: Timestamp) -> Result<Device, StoreError>;

    /// Records that the device was seen at this time, and returns it.
    async fn seen(&self, id: &DeviceId, now: Timestamp) -> Result<Option<Device>, StoreError>;

    /// Returns a device.
    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError>;

    /// Returns at most `limit` devices with ids greater than `after`.
    async fn devices(&self, after: &str, limit: u32) -> Result<DevicePage, StoreError>;

    /// Returns the code of this device and client: the existing one while it is valid, else a new
    /// one.
    async fn activation(
        &self,
        id: &DeviceId,
        client_id: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Activation, StoreError>;

    /// Returns the activation of this device and client, also after binding, if it has not expired.
    async fn waiting(
        &self,
        id: &DeviceId,
        client_id: &str,
        now: Timestamp,
    ) -> Result<Option<Activation>, StoreError>;

    /// Binds the device that waits with this code, and names it; none if no device has this code.
    async fn bind(
        &self,
        code: &str,
        name: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Device>, StoreError>;

    /// Names a device; none if there is no such device.
    async fn rename(&self, id: &DeviceId, name: &str) -> Result<Option<Device>, StoreError>;

    /// Deletes a device and its binding. Returns false if there is no such device.
    async fn forget(&self, id: &DeviceId) -> Result<bool, StoreError>;

    /// Stores the key that is burned into the device with this serial number.
    async fn provision(&self, serial_number: &str, key: &[u8]) -> Result<(), StoreError>;

    /// Deletes the key of this serial number. Returns false if there is none.
    async fn unprovision(&self, serial_number: &str) -> Result<bool, StoreError>;

    /// Returns the key of this serial number.
    async fn key(&self, serial_number: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Closes the store's connections.
    async fn close(&self);

    /// Checks that it can be read and written now.
    async fn check_usable(&self) -> Result<(), StoreError>;
}

/// Opens the store at this address; empty is `hearken.db` in the data folder. The connection is
/// made at first use, and again after a failure: a server starts without it.
///
/// # Errors
/// The address cannot be parsed, or is of an unknown kind.
pub fn open(url: &Secret, data_dir: &Path) -> Result<Arc<SqlStore>, StoreError> {
    Ok(Arc::new(SqlStore::configured(url.expose(), data_dir)?))
}
