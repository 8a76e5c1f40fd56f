//! Actions of a person at the device: wake word, button, push-to-talk. Not for messages of the
//! server, which are in [`super::messages`], nor for the resulting states, which are in
//! [`super::firmware`].

use std::time::Duration;

use super::events::{DeviceState, Fact, Output, note};
use super::firmware::{CHANNEL_IDLE, Firmware};
use super::uplink;

impl Firmware {
    pub(super) fn wake(&mut self, now: Duration, word: Option<String>, out: &mut Vec<Output>) {
        match self.state {
            DeviceState::Idle => {
                if self.profile.wake_lost_on_open_socket && self.channel_open(now) {
                    note(out, now, Fact::WakeLost);
                    return;
                }
                if word.is_none() {
                    self.pre_wake.clear();
                }
                self.wake_word = word;
                self.start(now, self.profile.new_socket_each_time, out);
            }
            DeviceState::Connecting => {}
            DeviceState::Listening => {
                if self.profile.wake_listens_at_once && self.build.wakes_while_listening {
                    self.abort(now, true, out);
                    self.forget_unsent(now, out);
                    self.listen_when_empty = false;
                    self.open_microphone(now, out);
                }
            }
            DeviceState::Speaking => {
                self.abort(now, true, out);
                if self.profile.wake_listens_at_once {
                    self.forget_unsent(now, out);
                    self.listen(now, true, out);
                }
            }
        }
    }

    pub(super) fn button(&mut self, now: Duration, out: &mut Vec<Output>) {
        match self.state {
            DeviceState::Idle => {
                self.pre_wake.clear();
                self.start(now, self.profile.new_socket_each_time, out);
            }
            DeviceState::Connecting => {}
            DeviceState::Speaking => self.abort(now, false, out),
            DeviceState::Listening => {
                out.push(Output::Disconnect);
                self.socket_closed(now, out);
            }
        }
    }

    pub(super) fn talk_pressed(&mut self, now: Duration, out: &mut Vec<Output>) {
        match self.state {
            DeviceState::Idle => {
                self.pre_wake.clear();
                self.start(now, false, out);
            }
            DeviceState::Speaking => {
                self.abort(now, false, out);
                self.listen(now, true, out);
            }
            DeviceState::Connecting | DeviceState::Listening => {}
        }
    }

    /// Starts a conversation from idle: over the open socket if it is still usable, else over a new
    /// one.
    fn start(&mut self, now: Duration, new_socket: bool, out: &mut Vec<Output>) {
        if self.channel_open(now) && !new_socket {
            self.begin_listening(now, out);
            return;
        }
        if self.socket_open {
            self.socket_open = false;
            self.outbox.reset();
            out.push(Output::Disconnect);
        }
        self.enter(now, DeviceState::Connecting, out);
        out.push(Output::Connect);
    }

    fn channel_open(&self, now: Duration) -> bool {
        self.socket_open && now.saturating_sub(self.last_incoming) <= CHANNEL_IDLE
    }

    fn abort(&mut self, now: Duration, by_wake_word: bool, out: &mut Vec<Output>) {
        let abort = uplink::abort(&self.session_id, by_wake_word);
        self.send(now, abort, out);
        note(out, now, Fact::Aborted);
        self.interrupted = true;
        if self.profile.abort_silences {
            self.drop_audio(now, out);
        }
    }

    fn forget_unsent(&mut self, now: Duration, out: &mut Vec<Output>) {
        for _ in 0..self.outbox.forget_audio() {
            note(out, now, Fact::UplinkDropped);
        }
    }
}
