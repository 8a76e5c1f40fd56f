//! Choices of sources, instructions and roles for single devices, of sources for running sessions,
//! and all roles, in memory, because a conversation must not wait for the store. Not for
//! persistence; choices for a session end with it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hearken_dialogue::role::{AssignedRole, assigned};
use hearken_ports::store::Device;
use hearken_proto::ids::{DeviceId, SessionId};

use super::DEFAULT_AGENT;

/// Choices for a device, or for a session of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overrides {
    /// Agent whose tool clients are used.
    pub(super) agent: String,
    /// Names of the sources that are switched off.
    pub(super) off: Vec<String>,
    /// Instructions to the model; empty for the deployment's own.
    pub(super) system_prompt: String,
    /// Id of the role; empty for none.
    pub(super) role_id: String,
}

impl Default for Overrides {
    fn default() -> Self {
        Self {
            agent: DEFAULT_AGENT.into(),
            off: Vec::new(),
            system_prompt: String::new(),
            role_id: String::new(),
        }
    }
}

impl Overrides {
    /// Reads the choices from the device's record.
    pub(super) fn from_device(device: &Device) -> Self {
        Self {
            agent: device.agent.clone(),
            off: device.tools_off.clone(),
            system_prompt: device.system_prompt.clone(),
            role_id: device.role_id.clone(),
        }
    }

    /// Returns true if this source is switched off.
    pub(super) fn is_off(&self, name: &str) -> bool {
        self.off.iter().any(|off| off == name)
    }
}

/// Choices for all devices and running sessions; clones share them.
#[derive(Clone, Default)]
pub(super) struct OverrideTable(Arc<RwLock<Tables>>);

#[derive(Default)]
struct Tables {
    devices: HashMap<DeviceId, Arc<Overrides>>,
    roles: HashMap<String, Arc<AssignedRole>>,
    sessions: HashMap<SessionId, Session>,
    /// True until the choices and roles are those of the store.
    awaits_store: bool,
}

/// Running session.
struct Session {
    device: DeviceId,
    /// Names of the sources that are switched off for the session; `None` to use those of its
    /// device.
    off: Option<Vec<String>>,
}

impl Tables {
    fn of_device(&self, id: &DeviceId) -> Arc<Overrides> {
        self.devices.get(id).cloned().unwrap_or_default()
    }

    fn of_session(&self, id: &SessionId) -> Option<(DeviceId, Arc<Overrides>)> {
        let Session { device, off } = self.sessions.get(id)?;
        let mut overrides = self.of_device(device);
        if let Some(off) = off {
            overrides = Arc::new(Overrides { off: off.clone(), ..Overrides::clone(&overrides) });
        }
        Some((device.clone(), overrides))
    }
}

impl OverrideTable {
    /// Returns the choices for a device.
    pub(super) fn of_device(&self, id: &DeviceId) -> Arc<Overrides> {
        self.read().of_device(id)
    }

    /// Records that the choices and roles are in a store that is still to be read: until then, every
    /// device is answered in a missing role, because its own may withhold anything.
    pub(super) fn await_store(&self) {
        self.write().awaits_store = true;
    }

    /// Records that the choices and roles are those of the store.
    pub(super) fn store_was_read(&self) {
        self.write().awaits_store = false;
    }

    /// Returns true until the choices and roles are those of the store.
    pub(super) fn awaits_store(&self) -> bool {
        self.read().awaits_store
    }

    /// Returns the role that is assigned by these choices.
    pub(super) fn role_of(&self, overrides: &Overrides) -> Option<Arc<AssignedRole>> {
        if self.awaits_store() {
            return Some(Arc::new(AssignedRole::missing()));
        }
        assigned(&overrides.role_id, |role_id| self.role(role_id))
    }

    /// Returns a role.
    pub(super) fn role(&self, role_id: &str) -> Option<Arc<AssignedRole>> {
        self.read().roles.get(role_id).cloned()
    }

    /// Returns the role with this id or name.
    pub(super) fn role_called(&self, called: &str) -> Option<Arc<AssignedRole>> {
        let tables = self.read();
        let named = || tables.roles.values().find(|role| role.name == called);
        tables.roles.get(called).or_else(named).cloned()
    }

    /// Replaces all roles.
    pub(super) fn set_roles(&self, roles: HashMap<String, Arc<AssignedRole>>) {
        self.write().roles = roles;
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the choices from the device's record.
    pub(super) fn take(&self, device: &Device) {
        let overrides = Overrides::from_device(device);
        if overrides == Overrides::default() {
            self.forget(&device.device_id);
        } else {
            self.write().devices.insert(device.device_id.clone(), Arc::new(overrides));
        }
    }

    /// Replaces the choices of all devices with those of these records.
    pub(super) fn replace(&self, devices: &[Device]) {
        let of =
            |device: &Device| (device.device_id.clone(), Arc::new(Overrides::from_device(device)));
        self.write().devices = devices.iter().map(of).collect();
    }

    /// Removes the choices for this device.
    pub(super) fn forget(&self, id: &DeviceId) {
        self.write().devices.remove(id);
    }

    /// Registers a session of this device.
    pub(super) fn begin(&self, device: &DeviceId, session: &SessionId) -> RunningSession {
        let begun = Session { device: device.clone(), off: None };
        self.write().sessions.insert(session.clone(), begun);
        RunningSession { overrides: self.clone(), id: session.clone() }
    }

    /// Returns the device of a running session, and the choices for the session.
    pub(super) fn of_session(&self, id: &SessionId) -> Option<(DeviceId, Arc<Overrides>)> {
        self.read().of_session(id)
    }

    /// Switches these sources off for the session, independently of its device. Returns false if it
    /// does not run.
    pub(super) fn set_off(&self, id: &SessionId, off: Vec<String>) -> bool {
        let mut chosen = self.write();
        let Some(session) = chosen.sessions.get_mut(id) else { return false };
        session.off = Some(off);
        true
    }
}

/// Registration of a running session; removed when dropped.
pub(super) struct RunningSession {
    overrides: OverrideTable,
    id: SessionId,
}

impl RunningSession {
    /// Returns the session's device, and its current choices.
    pub(super) fn overrides(&self) -> Option<(DeviceId, Arc<Overrides>)> {
        self.overrides.of_session(&self.id)
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        self.overrides.write().sessions.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_whose_role_does_not_exist_is_answered_in_a_missing_role() {
        let table = OverrideTable::default();
        let calm =
            AssignedRole { role_id: "1".into(), name: "calm".into(), ..AssignedRole::default() };
        table.set_roles(HashMap::from([("1".into(), Arc::new(calm.clone()))]));
        let role_of = |role_id: &str| {
            let overrides = Overrides { role_id: role_id.into(), ..Overrides::default() };
            table.role_of(&overrides).map(Arc::unwrap_or_clone)
        };
        assert_eq!(role_of(""), None);
        assert_eq!(role_of("1"), Some(calm));
        // A device is given the id of a role, not its name.
        for gone in ["2", "calm"] {
            assert_eq!(role_of(gone), Some(AssignedRole::missing()), "{gone}");
        }
        table.set_roles(HashMap::new());
        assert_eq!(role_of("1"), Some(AssignedRole::missing()), "it was deleted");
    }

    #[test]
    fn until_the_store_was_read_every_device_is_answered_in_a_missing_role() {
        let table = OverrideTable::default();
        let role_of = |role_id: &str| {
            let overrides = Overrides { role_id: role_id.into(), ..Overrides::default() };
            table.role_of(&overrides).map(Arc::unwrap_or_clone)
        };
        assert_eq!(role_of(""), None, "there is no store");
        table.await_store();
        for role_id in ["", "1"] {
            assert_eq!(role_of(role_id), Some(AssignedRole::missing()), "{role_id}");
        }
        table.store_was_read();
        assert_eq!(role_of(""), None);
    }
}
