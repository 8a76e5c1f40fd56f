//! Assigned role of a voice assistant. Not for the settings of a role, nor for the assignment.

use std::ops::Deref;
use std::sync::Arc;

use hearken_ports::ToolSource;
use hearken_ports::role::RoleSettings;

/// Lookup of a role by its id, or also by its name; must not wait.
pub type RoleLookup = Arc<dyn Fn(&str) -> Option<Arc<AssignedRole>> + Send + Sync>;

/// Lookup of the current role of a device; must not wait.
pub type CurrentRole = Arc<dyn Fn() -> Option<Arc<AssignedRole>> + Send + Sync>;

/// Role that is assigned to a device, a person or a kind of client.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AssignedRole {
    /// Id of the role; empty for one that is only tried out.
    pub role_id: String,
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: RoleSettings,
}

impl Deref for AssignedRole {
    type Target = RoleSettings;

    fn deref(&self) -> &RoleSettings {
        &self.settings
    }
}

/// Returns the role that is configured for all clients of a kind, if it exists.
pub fn configured(roles: &RoleLookup, called: &str) -> Option<Arc<AssignedRole>> {
    (!called.is_empty()).then(|| roles(called)).flatten()
}

/// Returns the sources available to clients in a configured role; none while that role does not
/// exist: its purpose may be to withhold tools from them.
pub fn usable(
    mut sources: Vec<Arc<dyn ToolSource>>,
    configured: &str,
    role: Option<Arc<AssignedRole>>,
) -> Vec<Arc<dyn ToolSource>> {
    match role {
        Some(role) => {
            sources.retain(|source| !role.is_off(source.name()));
            for source in &mut sources {
                if let Some(rest) = source.without(&role.tools_off) {
                    *source = rest;
                }
            }
        }
        None if !configured.is_empty() => sources.clear(),
        None => {}
    }
    sources
}
