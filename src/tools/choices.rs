//! What was chosen for single devices, in memory, since a conversation must not wait for the store.
//! Not for keeping it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use hearken_proto::ids::DeviceId;

use super::DEFAULT_AGENT;
use crate::store::Device;

/// What was chosen for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// The agent whose tool clients it has.
    pub(super) agent: String,
    /// Names of the sources that it goes without.
    pub(super) off: Vec<String>,
    /// What the model is told of how to behave with it; empty for the deployment's own.
    pub(super) system_prompt: String,
}

impl Default for Choice {
    fn default() -> Self {
        Self { agent: DEFAULT_AGENT.into(), off: Vec::new(), system_prompt: String::new() }
    }
}

impl Choice {
    /// The device goes without this source.
    pub(super) fn is_off(&self, name: &str) -> bool {
        self.off.iter().any(|off| off == name)
    }
}

/// The choices for all devices; clones share them.
#[derive(Clone, Default)]
pub(super) struct Choices(Arc<RwLock<HashMap<DeviceId, Arc<Choice>>>>);

impl Choices {
    /// What was chosen for this device.
    pub(super) fn of(&self, id: &DeviceId) -> Arc<Choice> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(id).cloned().unwrap_or_default()
    }

    /// Takes what is chosen from the device's record.
    pub(super) fn take(&self, device: &Device) {
        let choice = Choice {
            agent: device.agent.clone(),
            off: device.tools_off.clone(),
            system_prompt: device.system_prompt.clone(),
        };
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if choice == Choice::default() {
            all.remove(&device.device_id);
        } else {
            all.insert(device.device_id.clone(), Arc::new(choice));
        }
    }

    /// Nothing is chosen for this device any more.
    pub(super) fn forget(&self, id: &DeviceId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}
