//! A user with a virtual device who speaks and listens. Not for assertions.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::{AudioParams, ListenMode};
use hearken_virtual_device::firmware::{Event, Fact, Firmware, Loss};
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::report::{Entry, Observation, Report};
use hearken_virtual_device::socket::{Device, Endpoint, SocketError};
use hearken_virtual_device::toolbox::{Board, Toolbox};
use tokio::time::Instant;

use super::PATIENCE;

/// Interval between packets: speech here is six times as fast as real time.
const PACE: Duration = Duration::from_millis(10);

/// A user, their device, and the position up to which its report was read.
pub(crate) struct Person {
    device: Device,
    mode: ListenMode,
    read: usize,
}

/// One answer, as the user perceived it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// Transcripts on the display.
    pub(crate) heard: Vec<String>,
    /// Sentences on the display.
    pub(crate) sentences: Vec<String>,
    /// Number of received packets.
    pub(crate) packets: usize,
    /// Number of played packets.
    pub(crate) played: usize,
}

/// Each user has a separate device: a second connection of the same one would replace the first.
fn mac() -> String {
    static LAST: AtomicU16 = AtomicU16::new(0);
    let [high, low] = (LAST.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes();
    format!("02:00:00:00:{high:02x}:{low:02x}")
}

/// The endpoint of a separate device.
fn endpoint(url: &str, framing: u32) -> Endpoint {
    Endpoint {
        url: url.to_owned(),
        device_id: mac(),
        client_id: "00000000-0000-4000-8000-000000000001".into(),
        token: None,
        framing,
    }
}

impl Person {
    /// Connects and opens the microphone.
    pub(crate) async fn meet(url: &str, framing: u32, mode: ListenMode) -> Self {
        Self::try_meet(url, framing, mode).await.expect("the server accepts the device")
    }

    /// The same for a server that may refuse the connection.
    pub(crate) async fn try_meet(
        url: &str,
        framing: u32,
        mode: ListenMode,
    ) -> Result<Self, SocketError> {
        let endpoint = endpoint(url, framing);
        let uplink = AudioParams::default();
        let firmware = Firmware::new(Profile::default(), mode, framing, &uplink);
        Self::with(endpoint, firmware, mode).await
    }

    /// Connects the device with this id and opens the microphone.
    pub(crate) async fn meet_as(url: &str, device_id: &str) -> Self {
        let endpoint = Endpoint { device_id: device_id.to_owned(), ..endpoint(url, 1) };
        let mode = ListenMode::Auto;
        let firmware = Firmware::new(Profile::default(), mode, 1, &AudioParams::default());
        Self::with(endpoint, firmware, mode).await.expect("the server accepts the device")
    }

    /// Connects a device with these tools and opens the microphone.
    pub(crate) async fn meet_with_tools(url: &str, tools: Toolbox) -> Self {
        Self::meet_at(endpoint(url, 1), tools, ListenMode::Auto).await
    }

    /// Connects a device with these tools at this endpoint and opens the microphone.
    pub(crate) async fn meet_at(endpoint: Endpoint, tools: Toolbox, mode: ListenMode) -> Self {
        let audio = AudioParams::default();
        let firmware = Firmware::new(Profile::default(), mode, endpoint.framing, &audio);
        let met = Self::with(endpoint, firmware.with_tools(tools), mode).await;
        met.expect("the server accepts the device")
    }

    async fn with(
        endpoint: Endpoint,
        firmware: Firmware,
        mode: ListenMode,
    ) -> Result<Self, SocketError> {
        let mut person = Self { device: Device::new(endpoint, firmware), mode, read: 0 };
        person.open_microphone().await?;
        Ok(person)
    }

    /// Waits until the device has sent a message that contains these words.
    pub(crate) async fn until_sent(&mut self, words: &str) {
        let says =
            |entry: &Entry| matches!(&entry.what, Observation::Sent(text) if text.contains(words));
        self.until(|report, _| report.entries().iter().any(says)).await;
    }

    async fn open_microphone(&mut self) -> Result<(), SocketError> {
        let manual = self.mode == ListenMode::Manual;
        let event = if manual { Event::TalkPressed } else { Event::Wake { word: None } };
        self.device.handle(event).await?;
        self.until(|_, firmware| firmware.microphone_open()).await;
        Ok(())
    }

    async fn until(&mut self, done: impl Fn(&Report, &Firmware) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        self.device.run_until(deadline, &done).await.expect("the server is reachable");
        let report = self.device.report();
        assert!(done(report, self.device.firmware()), "in vain: {:?}", report.entries());
    }

    /// Sends these packets as speech.
    pub(crate) async fn say(&mut self, packets: &[Bytes]) {
        if !self.device.firmware().microphone_open() {
            self.open_microphone().await.expect("the server is reachable");
        }
        let mut due = Instant::now();
        for packet in packets {
            self.device.handle(Event::Microphone(packet.clone())).await.unwrap();
            due += PACE;
            self.device.run_until(due, |_, _| false).await.unwrap();
        }
        if self.mode == ListenMode::Manual {
            self.device.handle(Event::TalkReleased).await.unwrap();
        }
    }

    /// Waits for the end of an answer and its playback; returns everything since the last answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        let before = self.stops();
        self.until(move |report, firmware| {
            let stops = report.messages("tts stop").count();
            // Firmware plays the rest of its audio before it listens again.
            stops > before && firmware.due().is_none()
        })
        .await;
        self.read_on()
    }

    fn stops(&self) -> usize {
        let read = self.device.report().facts().take(self.read);
        read.filter(|(_, f)| matches!(f, Fact::Message { kind, .. } if kind == "tts stop")).count()
    }

    fn read_on(&mut self) -> Answer {
        let mut answer = Answer::default();
        for (_, fact) in self.device.report().facts().skip(self.read) {
            match fact {
                Fact::Message { kind, text } => {
                    let text = text.clone().unwrap_or_default();
                    match kind.as_str() {
                        "stt" => answer.heard.push(text),
                        "tts sentence_start" => answer.sentences.push(text),
                        _ => {}
                    }
                }
                Fact::PacketReceived => answer.packets += 1,
                // A busy machine reads `tts start` together with the packets after it. The server's
                // wait between them is tested in virtual time.
                Fact::PacketPlayed { .. } | Fact::PacketLost(Loss::ClearedAtStart) => {
                    answer.played += 1;
                }
                Fact::PacketLost(loss) => {
                    panic!("a packet was lost: {loss:?}: {:?}", self.report().entries())
                }
                Fact::Offence(offence) => panic!("the server offends: {offence}"),
                _ => {}
            }
        }
        self.read = self.device.report().facts().count();
        answer
    }

    /// The board that the device's tools have changed.
    pub(crate) fn board(&self) -> &Board {
        self.device.firmware().board()
    }

    /// The observations of the device.
    pub(crate) fn report(&self) -> &Report {
        self.device.report()
    }
}
