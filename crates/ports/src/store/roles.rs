//! Storage of roles, their versions and their assignment to devices: the port and its types. Not
//! for the effects of a role.

use async_trait::async_trait;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;

use super::{Device, StoreError};
use crate::role::RoleSettings;

/// Maximum number of stored roles.
pub const MAX_ROLES: u32 = 100;
/// Maximum number of stored versions per role; beyond it, the oldest are deleted.
pub const MAX_ROLE_VERSIONS: u32 = 50;

/// Role, or an earlier version of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Role {
    /// Id that never changes: a UUID.
    pub role_id: String,
    /// Name, unique among roles.
    pub name: String,
    /// Number of the version, from 1.
    pub version: i64,
    /// Time of this version, to the millisecond.
    pub updated: Timestamp,
    /// Settings that differ from the configuration.
    pub settings: RoleSettings,
}

/// Outcome of a change of a role.
#[derive(Debug, Clone, PartialEq)]
pub enum RoleOutcome {
    /// The change was made; the current version.
    Done(Box<Role>),
    /// Another role has the name.
    NameTaken,
    /// The maximum of [`MAX_ROLES`] is reached.
    TooMany,
    /// There is no such role.
    Unknown,
    /// The role has another version than the one that was changed; nothing has changed.
    Overtaken,
}

/// Storage of roles. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait RoleStore: Send + Sync {
    /// Returns all roles, by name.
    async fn roles(&self) -> Result<Vec<Role>, StoreError>;

    /// Adds a role, as its first version.
    async fn add_role(&self, role: &Role) -> Result<RoleOutcome, StoreError>;

    /// Adds a version of a role, with this name and these settings, if its current version has this
    /// number. Changes nothing if they equal the current ones.
    async fn change_role(
        &self,
        role_id: &str,
        version: i64,
        name: &str,
        settings: &RoleSettings,
        now: Timestamp,
    ) -> Result<RoleOutcome, StoreError>;

    /// Deletes a role with its versions. Devices and people with this role keep its id, which then
    /// names no role. Returns false if there is none.
    async fn delete_role(&self, role_id: &str) -> Result<bool, StoreError>;

    /// Returns the versions of a role, newest first.
    async fn role_versions(&self, role_id: &str) -> Result<Vec<Role>, StoreError>;

    /// Sets the role of a device; empty for none. Returns `None` if there is no such device.
    async fn set_role(&self, id: &DeviceId, role_id: &str) -> Result<Option<Device>, StoreError>;
}
