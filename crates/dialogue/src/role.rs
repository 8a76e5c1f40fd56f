//! Assigned role of a voice assistant. Not for the settings of a role, nor for the assignment.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use hearken_base::paced_log::PacedLog;
use hearken_ports::ToolSource;
use hearken_ports::role::{Keep, RoleSettings};

/// Warnings about assigned roles that do not exist.
static MISSING: LazyLock<PacedLog> = LazyLock::new(PacedLog::default);

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
    /// True if the assigned role does not exist: its holders have no tools of the server.
    pub is_missing: bool,
}

impl AssignedRole {
    /// Returns what applies in place of a role that does not exist: talk as configured, without the
    /// tools of the server and without a history. The role may have withheld any of them.
    #[must_use]
    pub fn missing() -> Self {
        let settings = RoleSettings { history: Some(Keep::Off), ..RoleSettings::default() };
        Self { settings, is_missing: true, ..Self::default() }
    }
}

impl Deref for AssignedRole {
    type Target = RoleSettings;

    fn deref(&self) -> &RoleSettings {
        &self.settings
    }
}

/// Returns the role that is assigned by its id, or also by its name; [`AssignedRole::missing`] if
/// `find` does not find it, and `None` if no role is assigned.
pub fn assigned(
    called: &str,
    find: impl FnOnce(&str) -> Option<Arc<AssignedRole>>,
) -> Option<Arc<AssignedRole>> {
    if called.is_empty() {
        return None;
    }
    Some(find(called).unwrap_or_else(|| {
        MISSING.log(|left_out| {
            tracing::warn!(
                role = called,
                left_out,
                "an assigned role does not exist: its holders have no tools of the server and no \
                 history; assign another role, or none"
            );
        });
        Arc::new(AssignedRole::missing())
    }))
}

/// Returns the sources available to clients in this role.
pub fn usable(
    mut sources: Vec<Arc<dyn ToolSource>>,
    role: Option<&AssignedRole>,
) -> Vec<Arc<dyn ToolSource>> {
    match role {
        Some(role) if role.is_missing => sources.clear(),
        Some(role) => {
            sources.retain(|source| !role.is_off(source.name()));
            for source in &mut sources {
                if let Some(rest) = source.without(&role.tools_off) {
                    *source = rest;
                }
            }
        }
        None => {}
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assigned_role_that_does_not_exist_allows_nothing_but_talk() {
        let calm = Arc::new(AssignedRole { name: "calm".into(), ..AssignedRole::default() });
        let find = |called: &str| (called == "calm").then(|| Arc::clone(&calm));
        assert_eq!(assigned("", find), None);
        assert_eq!(assigned("calm", find).unwrap().name, "calm");
        for gone in ["Calm", "calm ", "deleted"] {
            let role = assigned(gone, find).unwrap();
            assert!(role.is_missing && role.history == Some(Keep::Off), "{gone}");
        }
    }
}
