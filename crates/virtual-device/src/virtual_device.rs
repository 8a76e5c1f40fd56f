//! One virtual device without a socket: its rules, its clock and who watches it. [`super::socket`]
//! drives it over TCP in real time, a simulation over a ring in memory in virtual time. Not for
//! what the device decides, which is in [`super::firmware`].
//!
//! ```text
//! let mut bench = Bench::new(firmware, Tally::default(), Drift::ppm(200));
//! loop {
//!     sleep until bench.due(), the next packet of the microphone, or something from the server;
//!     for what in bench.at(now, event) { open, drop or send }
//! }
//! ```

use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::AudioPacket;

use super::clock::Drift;
use super::events::{Event, Output, Upload};
use super::firmware::Firmware;
use super::observer::{Observer, What};
use super::report::Report;

/// What the link has to do for the device.
#[derive(Debug, Clone, PartialEq)]
pub enum ToWire {
    /// Open a socket, then report [`Event::SocketOpen`] or [`Event::SocketClosed`].
    Open,
    /// Drop the socket without a close frame; nothing is to be reported.
    Drop,
    /// Send a text frame.
    Text(String),
    /// Send a binary frame.
    Binary(Bytes),
    /// Send a picture over HTTP, then report [`Event::Uploaded`]; [`super::upload`] does so.
    Upload(Upload),
}

/// A device, its clock and its watcher. All times are the caller's, since the device was switched
/// on, and must not go back.
#[derive(Debug)]
pub struct VirtualDevice<W = Report> {
    firmware: Firmware,
    drift: Drift,
    watcher: W,
}

impl<W: Observer> VirtualDevice<W> {
    /// A device that is switched on at time zero.
    pub fn new(firmware: Firmware, watcher: W, drift: Drift) -> Self {
        Self { firmware, drift, watcher }
    }

    /// The device's rules and state.
    pub fn firmware(&self) -> &Firmware {
        &self.firmware
    }

    /// Who watches.
    pub fn watcher(&self) -> &W {
        &self.watcher
    }

    /// Who watches.
    pub fn watcher_mut(&mut self) -> &mut W {
        &mut self.watcher
    }

    /// Ends the device.
    pub fn into_watcher(self) -> W {
        self.watcher
    }

    /// When the device must be looked at again, if nothing happens before.
    pub fn due(&self) -> Option<Duration> {
        self.firmware.due().map(|at| self.drift.at_caller(at))
    }

    /// When the device's clock shows this time: its microphone, for one, is clocked by it.
    pub fn when(&self, on_device: Duration) -> Duration {
        self.drift.at_caller(on_device)
    }

    /// Something happens to the device.
    pub fn at(&mut self, now: Duration, event: Event) -> Vec<ToWire> {
        let outputs = self.firmware.step(self.drift.on_device(now), event);
        outputs.into_iter().filter_map(|output| self.carry(now, output)).collect()
    }

    /// The person speaks over the reply. In realtime mode the server has to find out by itself.
    pub fn spoken_over(&mut self, now: Duration) {
        self.watcher.saw(now, What::SpokenOver);
    }

    /// A text frame past the firmware's rules.
    pub fn raw_text(&mut self, now: Duration, text: String) -> ToWire {
        self.watcher.saw(now, What::Sent(text.clone()));
        ToWire::Text(text)
    }

    /// An Opus packet past the firmware's rules.
    pub fn raw_audio(&mut self, now: Duration, opus: Bytes) -> ToWire {
        self.watcher.saw(now, What::SentAudio);
        let packet = AudioPacket { opus, timestamp_ms: 0 };
        ToWire::Binary(self.firmware.framing().encode(&packet))
    }

    fn carry(&mut self, now: Duration, output: Output) -> Option<ToWire> {
        Some(match output {
            Output::Connect => ToWire::Open,
            Output::Disconnect => ToWire::Drop,
            Output::Text(text) => {
                self.watcher.saw(now, What::Sent(text.clone()));
                ToWire::Text(text)
            }
            Output::Binary(frame) => {
                self.watcher.saw(now, What::SentAudio);
                ToWire::Binary(frame)
            }
            Output::Upload(upload) => ToWire::Upload(upload),
            Output::Note(note) => {
                self.watcher.saw(self.drift.at_caller(note.at), What::Noticed(note.fact));
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

    fn bench(ppm: i32) -> VirtualDevice<Tally> {
        let uplink = AudioParams::default();
        let firmware = Firmware::new(Profile::default(), ListenMode::Auto, 3, &uplink);
        VirtualDevice::new(firmware, Tally::default(), Drift::ppm(ppm))
    }

    #[test]
    fn a_device_is_driven_without_a_socket() {
        let mut bench = bench(0);
        let now = Duration::from_secs(1);
        assert_eq!(bench.at(now, Event::Button), [ToWire::Open]);
        assert!(matches!(&bench.at(now, Event::SocketOpen)[..], [ToWire::Text(_)]));
        assert_eq!(bench.due(), Some(Duration::from_secs(11)));
        let listens = bench.at(now, Event::Text(HELLO.into()));
        assert!(matches!(&listens[..], [ToWire::Text(text)] if text.contains("start")));
        let packet = Bytes::from_static(b"abc");
        let sent = bench.at(now, Event::Microphone(packet.clone()));
        assert_eq!(sent, [ToWire::Binary(Bytes::from_static(b"\0\0\0\x03abc"))]);
        assert_eq!(bench.raw_audio(now, packet), sent[0].clone());
        assert_eq!(bench.watcher().packets.sent, 2);
    }

    #[test]
    fn a_fast_clock_plays_faster() {
        let mut bench = bench(100_000);
        let at = Duration::from_millis;
        bench.at(at(0), Event::Button);
        bench.at(at(0), Event::SocketOpen);
        bench.at(at(0), Event::Text(HELLO.into()));
        bench.at(at(0), Event::Text(r#"{"type":"tts","state":"start"}"#.into()));
        let packet = Bytes::from_static(&[0, 0, 0, 1, 3 << 3]);
        bench.at(at(100), Event::Binary(packet));
        // A packet of 60 ms lasts 54.5 ms; it began at 110 ms of the device's clock.
        let ends = bench.due().expect("a packet plays");
        assert_eq!(ends, Duration::from_nanos(154_545_455));
        assert_eq!(bench.when(at(170)), ends);
        bench.at(ends, Event::Nothing);
        assert_eq!(bench.due(), None);
    }
}
