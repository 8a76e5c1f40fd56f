//! Storage of devices, their binding and the codes of unbound ones: the port and its types. Not for
//! access control.

use std::time::Duration;

use async_trait::async_trait;
use hearken_base::Secret;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;

use super::StoreError;

/// Maximum number of stored devices without binding, name or settings. Beyond it, devices of the
/// address with the most are deleted, those unseen for longest first.
pub const MAX_STRANGERS: u32 = 50_000;

/// Maximum number of valid codes: with more, guessing one would be easy. Beyond it, the oldest of
/// the address with the most is dropped.
pub const MAX_CODES: u32 = 5_000;

/// Maximum number of valid codes per address. Beyond it, the oldest of the address is dropped.
pub const MAX_CODES_PER_ADDRESS: u32 = 500;

/// Maximum number of stored revocations. Beyond it, the oldest are deleted.
pub const MAX_REVOCATIONS: u32 = 10_000;

/// Device as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// MAC address, lower case.
    pub device_id: DeviceId,
    /// UUID that the firmware created at its first boot. It distinguishes the device from others
    /// that only know its address.
    pub client_id: Secret,
    /// Name given by people; empty if there is none.
    pub name: String,
    /// Type of the board, such as `bread-compact-wifi`; empty if unknown.
    pub board: String,
    /// Model of the chip; empty if unknown.
    pub chip: String,
    /// Serial number that is burned into the device; empty if unknown, as for most devices.
    pub serial_number: String,
    /// Version of the firmware; empty if unknown.
    pub firmware_version: String,
    /// Time of the device's first report.
    pub first_seen: Timestamp,
    /// Time when it last asked for its settings, or connected while binding was on.
    pub last_seen: Timestamp,
    /// True after a user entered its code, or confirmed it.
    pub bound: bool,
    /// True if it was stored before binding was required for devices from outside, and counts as
    /// bound for them until a user confirms or deletes it.
    pub needs_review: bool,
    /// Agent whose tool clients its conversations use.
    pub agent: String,
    /// Names of tool sources that are switched off in its conversations; `token:SERIAL` stands for
    /// the tool clients with this token.
    pub tools_off: Vec<String>,
    /// System prompt of its conversations; empty for the deployment's own.
    pub system_prompt: String,
    /// Id of its role; empty for none.
    pub role_id: String,
}

/// Data that a device sends about itself when it asks for its settings; empty if it sends none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceReport {
    /// MAC address, lower case.
    pub device_id: DeviceId,
    /// UUID of the client.
    pub client_id: Secret,
    /// Address to which it is attributed.
    pub address: String,
    /// Type of the board.
    pub board: String,
    /// Model of the chip.
    pub chip: String,
    /// Serial number of the device.
    pub serial_number: String,
    /// Version of the firmware.
    pub firmware_version: String,
}

/// Client to which a report assigns an unbound device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRule {
    /// The first client that reported; reports of others change nothing.
    First,
    /// The latest client that reported.
    Latest,
}

/// Data for deciding whether a token of a device is still valid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenHolder {
    /// Client to which the device belongs; `None` if the device is not stored.
    pub client_id: Option<Secret>,
    /// Time until which tokens were revoked.
    pub revoked_until: Option<Timestamp>,
}

/// Request for a code, with the address to which it is attributed.
#[derive(Debug, Clone, Copy)]
pub struct CodeRequest<'a> {
    /// Id of the device.
    pub device_id: &'a DeviceId,
    /// UUID of the client.
    pub client_id: &'a Secret,
    /// Address to which it is attributed.
    pub address: &'a str,
}

/// Activation of a device that is not bound yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// Code of six digits; `None` after a user entered it.
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
    /// Stores a device's report and returns the device. For a device that is bound or needs review,
    /// a report of another client changes nothing; for others, the rule decides. A device without a
    /// client id takes that of the report, unless it is bound.
    async fn report(
        &self,
        report: &DeviceReport,
        rule: ClientRule,
        now: Timestamp,
    ) -> Result<Device, StoreError>;

    /// Returns the data for deciding whether a token of this device is still valid.
    async fn token_holder(&self, id: &DeviceId) -> Result<TokenHolder, StoreError>;

    /// Records that the device was seen at this time, and returns it.
    async fn seen(&self, id: &DeviceId, now: Timestamp) -> Result<Option<Device>, StoreError>;

    /// Returns a device.
    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError>;

    /// Returns at most `limit` devices with ids greater than `after`.
    async fn devices(&self, after: &str, limit: u32) -> Result<DevicePage, StoreError>;

    /// Returns the code of this device and client: the existing one while it is valid, else a new
    /// one. A new code may drop another: see [`MAX_CODES`] and [`MAX_CODES_PER_ADDRESS`].
    async fn activation(
        &self,
        request: CodeRequest<'_>,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Activation, StoreError>;

    /// Returns the activation of this device and client if it has not expired, even after binding.
    async fn waiting(
        &self,
        id: &DeviceId,
        client_id: &Secret,
        now: Timestamp,
    ) -> Result<Option<Activation>, StoreError>;

    /// Returns true if a code that is valid is that of this device for another client than this one.
    async fn is_wanted_by_others(
        &self,
        id: &DeviceId,
        client_id: &Secret,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Binds the device with this code, and names it; `None` if no device has this code. If it
    /// belonged to another client, revokes its tokens.
    async fn bind(
        &self,
        code: &str,
        name: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Device>, StoreError>;

    /// Binds this device and client without a code; stores the device if it is new. Returns `None`
    /// and changes nothing if the device belongs to another client.
    async fn confirm(
        &self,
        id: &DeviceId,
        client_id: &Secret,
        now: Timestamp,
    ) -> Result<Option<Device>, StoreError>;

    /// Ends the review of all devices: those that are not bound no longer count as bound. Returns
    /// their number.
    async fn end_reviews(&self) -> Result<u64, StoreError>;

    /// Names a device; `None` if there is no such device.
    async fn rename(&self, id: &DeviceId, name: &str) -> Result<Option<Device>, StoreError>;

    /// Deletes a device and its binding, and revokes its tokens. Returns false if there is no such
    /// device.
    async fn forget(&self, id: &DeviceId, now: Timestamp) -> Result<bool, StoreError>;

    /// Revokes all tokens of a device that were issued until now, whether it is stored or not.
    async fn revoke_tokens(&self, id: &DeviceId, now: Timestamp) -> Result<(), StoreError>;

    /// Returns the devices whose tokens were revoked after this time, on any instance, with the
    /// times.
    async fn revoked_after(
        &self,
        after: Timestamp,
    ) -> Result<Vec<(DeviceId, Timestamp)>, StoreError>;

    /// Stores the key that is burned into the device with this serial number.
    async fn provision(&self, serial_number: &str, key: &[u8]) -> Result<(), StoreError>;

    /// Deletes the key of this serial number. Returns false if there is none.
    async fn unprovision(&self, serial_number: &str) -> Result<bool, StoreError>;

    /// Returns the key of this serial number.
    async fn key(&self, serial_number: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Closes the store's connections.
    async fn close(&self);

    /// Checks that the store can currently be read and written.
    async fn check_usable(&self) -> Result<(), StoreError>;
}
