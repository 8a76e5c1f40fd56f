//! Storage of roles, with what they were before, and of which device has which: the port and its types. Not for what a role does.

use async_trait::async_trait;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;

use super::{Device, StoreError};
use crate::role::RoleSettings;

/// Most roles that are stored.
pub const MAX_ROLES: u32 = 100;
/// Most versions of a role that are stored; the oldest beyond are deleted.
pub const MAX_ROLE_VERSIONS: u32 = 50;

/// A role, or what it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Role {
    /// Id that never changes: a UUID.
    pub role_id: String,
    /// Name; no two have the same.
    pub name: String,
    /// Number of the version, from 1.
    pub version: i64,
    /// When this version was made, to the millisecond.
    pub updated: Timestamp,
    /// What differs from the configuration.
    pub settings: RoleSettings,
}

/// Outcome of a change of a role.
#[derive(Debug, Clone, PartialEq)]
pub enum RoleOutcome {
    /// It is this now.
    Done(Box<Role>),
    /// Another role has the name.
    NameTaken,
    /// There are [`MAX_ROLES`] already.
    TooMany,
    /// There is no such role.
    Unknown,
}

/// Storage of roles. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait RoleStore: Send + Sync {
    /// Returns all roles, by name.
    async fn roles(&self) -> Result<Vec<Role>, StoreError>;

    /// Adds a role, as its first version.
    async fn add_role(&self, role: &Role) -> Result<RoleOutcome, StoreError>;

    /// Makes the next version of a role, with this name and these settings; if they are those that it has, nothing changes.
    async fn change_role(
        &self,
        role_id: &str,
        name: &str,
        settings: &RoleSettings,
        now: Timestamp,
    ) -> Result<RoleOutcome, StoreError>;

    /// Deletes a role with its versions; devices and people that have it have none then. Returns false if there is none.
    async fn delete_role(&self, role_id: &str) -> Result<bool, StoreError>;

    /// Returns the versions of a role, newest first.
    async fn role_versions(&self, role_id: &str) -> Result<Vec<Role>, StoreError>;

    /// Gives a device a role; empty for none. Returns none if there is no such device.
    async fn set_role(&self, id: &DeviceId, role_id: &str) -> Result<Option<Device>, StoreError>;
}
