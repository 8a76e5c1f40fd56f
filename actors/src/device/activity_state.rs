//! Activity of a connected device, as the metrics count it. Not for deciding anything.

use hearken_dialogue::metrics::{ActivityState, actor_metrics};

use super::DeviceActor;

/// Count of one device in the gauge of its state, until dropped.
#[derive(Debug)]
pub(super) struct Counted(ActivityState);

impl Counted {
    pub(super) fn new(activity: ActivityState) -> Self {
        actor_metrics().devices.at(activity).increment(1);
        Self(activity)
    }

    /// Moves the device to this state.
    fn moved(&mut self, activity: ActivityState) {
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
            Some(live) if live.speaking => ActivityState::Speaking,
            Some(live) if !live.hearing => ActivityState::Thinking,
            Some(_) => ActivityState::Listening,
            None if self.state.microphone_open => ActivityState::Listening,
            None => ActivityState::Idle,
        };
        self.counted.moved(activity);
    }
}
