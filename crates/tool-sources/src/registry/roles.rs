//! Changes of roles at run time: they are stored, and apply from each conversation's next turn on.
//! Not for the effects of a role.

use std::sync::Arc;

use hearken_dialogue::role::AssignedRole;
use hearken_ports::role::RoleSettings;
use hearken_ports::store::{Device, Role, RoleOutcome, StoreError};
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use uuid::Uuid;

use super::Registry;

/// Maximum number of attempts to change a role that other instances change, too.
const CHANGE_ATTEMPTS: usize = 5;

impl Registry {
    /// Returns all roles, by name.
    ///
    /// # Errors
    /// The store failed.
    pub async fn roles(&self) -> Result<Vec<Role>, StoreError> {
        self.0.store.roles().await
    }

    /// Returns the versions of a role, newest first; none if there is no such role.
    ///
    /// # Errors
    /// The store failed.
    pub async fn role_versions(&self, role_id: &str) -> Result<Vec<Role>, StoreError> {
        self.0.store.role_versions(role_id).await
    }

    /// Adds a role, which no device has yet.
    ///
    /// # Errors
    /// The store failed.
    pub async fn add_role(
        &self,
        name: String,
        settings: RoleSettings,
    ) -> Result<RoleOutcome, StoreError> {
        let _one_at_a_time = self.0.changing.lock().await;
        let role_id = Uuid::new_v4().to_string();
        let role = Role { role_id, name, version: 1, updated: Timestamp::now(), settings };
        let outcome = self.0.store.add_role(&role).await?;
        self.take_roles().await?;
        Ok(outcome)
    }

    /// Changes a role with this function, which returns its new name and settings from the current
    /// version. It is called again if another instance has changed the role meanwhile.
    ///
    /// # Errors
    /// The store failed, or the function refuses.
    pub async fn change_role<E: From<StoreError>>(
        &self,
        role_id: &str,
        change: impl Fn(&Role) -> Result<(String, RoleSettings), E>,
    ) -> Result<RoleOutcome, E> {
        let _one_at_a_time = self.0.changing.lock().await;
        let store = &self.0.store;
        for _ in 0..CHANGE_ATTEMPTS {
            let all = store.roles().await?;
            let Some(role) = all.iter().find(|role| role.role_id == role_id) else {
                return Ok(RoleOutcome::Unknown);
            };
            let (name, settings) = change(role)?;
            let now = Timestamp::now();
            let outcome = store.change_role(role_id, role.version, &name, &settings, now).await?;
            if outcome != RoleOutcome::Overtaken {
                self.take_roles().await?;
                return Ok(outcome);
            }
        }
        Ok(RoleOutcome::Overtaken)
    }

    /// Deletes a role; its devices and people have no tools of the server until they get another.
    /// Returns false if there is no such role.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete_role(&self, role_id: &str) -> Result<bool, StoreError> {
        let _one_at_a_time = self.0.changing.lock().await;
        let deleted = self.0.store.delete_role(role_id).await?;
        self.take_roles().await?;
        Ok(deleted)
    }

    /// Assigns a role to a device; empty for none. Returns none if there is no such device.
    ///
    /// # Errors
    /// The store failed.
    pub async fn give_role(
        &self,
        id: &DeviceId,
        role_id: &str,
    ) -> Result<Option<Device>, StoreError> {
        let _one_at_a_time = self.0.changing.lock().await;
        self.loaded().await?;
        let device = self.0.store.set_role(id, role_id).await?;
        self.take(device.as_ref());
        Ok(device)
    }

    /// Uses the roles of the store.
    pub(super) async fn take_roles(&self) -> Result<(), StoreError> {
        let roles = self.0.store.roles().await?;
        let assigned = roles.into_iter().map(|Role { role_id, name, settings, .. }| {
            (
                role_id.clone(),
                Arc::new(AssignedRole { role_id, name, settings, ..AssignedRole::default() }),
            )
        });
        self.0.sources.set_roles(assigned.collect());
        Ok(())
    }
}
