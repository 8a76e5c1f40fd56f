//! Role of a voice assistant as somebody has it. Not for what a role sets, nor for who has which role.

use std::ops::Deref;
use std::sync::Arc;

use hearken_ports::ToolSource;
use hearken_ports::role::RoleSettings;

/// Lookup of a role by its id, or also by its name; must not wait.
pub type RoleLookup = Arc<dyn Fn(&str) -> Option<Arc<AssignedRole>> + Send + Sync>;

/// Lookup of the role of a device as it is now; must not wait.
pub type CurrentRole = Arc<dyn Fn() -> Option<Arc<AssignedRole>> + Send + Sync>;

/// Role as somebody has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AssignedRole {
    /// Id of the role; empty for one that is only tried.
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

/// Returns the role that is configured for all clients of a kind, if there is one.
pub fn configured(roles: &RoleLookup, called: &str) -> Option<Arc<AssignedRole>> {
    (!called.is_empty()).then(|| roles(called)).flatten()
}

/// Returns the sources that clients in a configured role have; none while there is no such role: it may be there to keep
/// tools from them.
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
