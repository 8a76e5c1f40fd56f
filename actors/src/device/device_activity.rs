//! Activity of a connected device, for metrics. Not for decisions.

use hearken_dialogue::metrics::{DeviceActivity, actor_metrics};

use super::DeviceActor;

/// Count of one device in the gauge of its state, until dropped.
#[derive(Debug)]
pub(super) struct Counted(DeviceActivity);

impl Counted {
    pub(super) fn new(activity: DeviceActivity) -> Self {
        actor_metrics().devices.at(activity).increment(1);
        Self(activity)
    }

    /// Moves the device to this state.
    fn moved(&mut self, activity: DeviceActivity) {
        if self.0 != activity {
            *self = Self::new(activity);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        actor_metrics().devices.at(self.0).decrement(1);
    }
}

impl DeviceActor {
    /// Counts the device in its current state.
    pub(super) fn count(&mut self) {
        let activity = match &self.live {
            Some(live) if live.speaking => DeviceActivity::Speaking,
            Some(live) if !live.hearing => DeviceActivity::Thinking,
            Some(_) => DeviceActivity::Listening,
            None if self.state.microphone_open => DeviceActivity::Listening,
            None => DeviceActivity::Idle,
        };
        self.counted.moved(activity);
    }
}
