//! One virtual device without a socket: its rules, its clock and its observer. [`super::socket`]
//! drives it over TCP in real time, a simulation over a queue in memory in virtual time. Not for
//! the decisions of the device, which are in [`super::firmware`].
//!
//! ```text
//! let mut device = VirtualDevice::new(firmware, Tally::default(), Drift::ppm(200));
//! loop {
//!     sleep until device.due(), the next packet of the microphone, or a message of the server;
//!     for action in device.at(now, event) { open, drop or send }
//! }
//! ```

use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::AudioPacket;

use super::clock::Drift;
use super::events::{Event, Output, Upload};
use super::firmware::Firmware;
use super::observer::{Observation, Observer};
use super::report::Report;

/// Action that the link must perform for the device.
#[derive(Debug, Clone, PartialEq)]
pub enum LinkAction {
    /// Open a socket, then report [`Event::SocketOpen`] or [`Event::SocketClosed`].
    Open,
    /// Drop the socket without a close frame, and report nothing.
    Drop,
    /// Send a text frame.
    Text(String),
    /// Send a binary frame.
    Binary(Bytes),
    /// Send a picture over HTTP, then report [`Event::Uploaded`], as [`super::upload`] does.
    Upload(Upload),
}

/// Device with its clock and its observer. All times are on the caller's clock, since the device
/// was switched on, and must not decrease.
#[derive(Debug)]
pub struct VirtualDevice<W = Report> {
    firmware: Firmware,
    drift: Drift,
    observer: W,
}

impl<W: Observer> VirtualDevice<W> {
    /// Creates a device that is switched on at time zero.
    pub fn new(firmware: Firmware, observer: W, drift: Drift) -> Self {
        Self { firmware, drift, observer }
    }

    /// Returns the rules and the state of the device.
    pub fn firmware(&self) -> &Firmware {
        &self.firmware
    }

    /// Returns the observer.
    pub fn observer(&self) -> &W {
        &self.observer
    }

    /// Returns the observer.
    pub fn observer_mut(&mut self) -> &mut W {
        &mut self.observer
    }

    /// Ends the device and returns its observer.
    pub fn into_observer(self) -> W {
        self.observer
    }

    /// Returns the time at which [`Self::at`] must be called again, if nothing happens before.
    pub fn due(&self) -> Option<Duration> {
        self.firmware.due().map(|at| self.drift.at_caller(at))
    }

    /// Returns the caller's time at which the device's clock shows this time. The microphone runs
    /// on the device's clock.
    pub fn caller_time(&self, on_device: Duration) -> Duration {
        self.drift.at_caller(on_device)
    }

    /// Processes an event, and returns the actions for the link.
    pub fn at(&mut self, now: Duration, event: Event) -> Vec<LinkAction> {
        let outputs = self.firmware.step(self.drift.on_device(now), event);
        outputs.into_iter().filter_map(|output| self.link_action(now, output)).collect()
    }

    /// Notes that the person speaks over the reply. In realtime mode the server has to detect that
    /// by itself.
    pub fn mark_spoken_over(&mut self, now: Duration) {
        self.observer.observe(now, Observation::SpokenOver);
    }

    /// Returns a text frame that bypasses the rules of the firmware.
    pub fn raw_text(&mut self, now: Duration, text: String) -> LinkAction {
        self.observer.observe(now, Observation::Sent(text.clone()));
        LinkAction::Text(text)
    }

    /// Returns an Opus packet that bypasses the rules of the firmware.
    pub fn raw_audio(&mut self, now: Duration, opus: Bytes) -> LinkAction {
        self.observer.observe(now, Observation::SentAudio);
        let packet = AudioPacket { opus, timestamp_ms: 0 };
        LinkAction::Binary(self.firmware.framing().encode(&packet))
    }

    fn link_action(&mut self, now: Duration, output: Output) -> Option<LinkAction> {
        Some(match output {
            Output::Connect => LinkAction::Open,
            Output::Disconnect => LinkAction::Drop,
            Output::Text(text) => {
                self.observer.observe(now, Observation::Sent(text.clone()));
                LinkAction::Text(text)
            }
            Output::Binary(frame) => {
                self.observer.observe(now, Observation::SentAudio);
                LinkAction::Binary(frame)
            }
            Output::Upload(upload) => LinkAction::Upload(upload),
            Output::Note(note) => {
                self.observer
                    .observe(self.drift.at_caller(note.at), Observation::Noticed(note.fact));
                return None;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use hearken_proto::device::{AudioParams, ListenMode};

    use super::super::observer::Tally;
    use super::super::profile::Profile;
    use super::*;

    const HELLO: &str = r#"{"type":"hello","transport":"websocket"}"#;

    fn device(ppm: i32) -> VirtualDevice<Tally> {
        let uplink = AudioParams::default();
        let firmware = Firmware::new(Profile::default(), ListenMode::Auto, 3, &uplink);
        VirtualDevice::new(firmware, Tally::default(), Drift::ppm(ppm))
    }

    #[test]
    fn a_device_is_driven_without_a_socket() {
        let mut device = device(0);
        let now = Duration::from_secs(1);
        assert_eq!(device.at(now, Event::Button), [LinkAction::Open]);
        assert!(matches!(&device.at(now, Event::SocketOpen)[..], [LinkAction::Text(_)]));
        assert_eq!(device.due(), Some(Duration::from_secs(11)));
        let listens = device.at(now, Event::Text(HELLO.into()));
        assert!(matches!(&listens[..], [LinkAction::Text(text)] if text.contains("start")));
        let packet = Bytes::from_static(b"abc");
        let sent = device.at(now, Event::Microphone(packet.clone()));
        assert_eq!(sent, [LinkAction::Binary(Bytes::from_static(b"\0\0\0\x03abc"))]);
        assert_eq!(device.raw_audio(now, packet), sent[0].clone());
        assert_eq!(device.observer().packets.sent, 2);
    }

    #[test]
    fn a_fast_clock_plays_faster() {
        let mut device = device(100_000);
        let at = Duration::from_millis;
        device.at(at(0), Event::Button);
        device.at(at(0), Event::SocketOpen);
        device.at(at(0), Event::Text(HELLO.into()));
        device.at(at(0), Event::Text(r#"{"type":"tts","state":"start"}"#.into()));
        let packet = Bytes::from_static(&[0, 0, 0, 1, 3 << 3]);
        device.at(at(100), Event::Binary(packet));
        // A packet of 60 ms lasts 54.5 ms; it started at 110 ms of the device's clock.
        let ends = device.due().expect("a packet plays");
        assert_eq!(ends, Duration::from_nanos(154_545_455));
        assert_eq!(device.caller_time(at(170)), ends);
        device.at(ends, Event::Nothing);
        assert_eq!(device.due(), None);
    }
}
