//! Invariants of spoken turns. Not for stored messages.

use super::{FIRST_DEVICE, Judge, Message};

impl Judge {
    /// A person says this to a device.
    pub(crate) fn says(&self, message: Message) {
        self.notes().saying.insert(message.conversation, message);
    }

    /// A recogniser receives the speech of this device. Returns the transcript.
    pub(crate) fn heard(&self, device: Option<usize>) -> String {
        let conversation = device.and_then(|device| u16::try_from(device).ok());
        let conversation = conversation.map(|device| FIRST_DEVICE + device);
        let said = conversation.and_then(|of| self.notes().saying.get(&of).copied());
        match said {
            Some(message) => message.text(),
            None => {
                self.wrong(format!("a recogniser receives speech of the silent {device:?}"));
                String::new()
            }
        }
    }

    /// A device has received its answer.
    pub(crate) fn spoke(&self, message: Message, answer: &str) {
        self.notes().counts.spoken += 1;
        self.answered(message, answer);
    }

    /// A device's conversation has ended.
    pub(crate) fn device_ended(&self) {
        self.notes().counts.conversations += 1;
    }
}
