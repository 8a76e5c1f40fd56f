//! A device that leaves its echo to the server, by the rules of its firmware, and the server's hearing behind a network.
//! Not for the room.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use hearken_actors::audio::echo_canceller::SentPackets;
use hearken_actors::audio::endpointer::Endpoint;
use hearken_actors::audio::opus::{Decoder, Encoder};
use hearken_actors::audio::pcm;
use hearken_actors::audio::utterance_detector::UtteranceDetector;
use hearken_actors::settings::{HearingSettings, SpeakingSettings};
use hearken_proto::device::{AudioPacket, AudioParams, Framing, ListenMode};
use hearken_virtual_device::clock::Drift;
use hearken_virtual_device::firmware::{Event, Fact, Firmware};
use hearken_virtual_device::observer::{Observation, Observer};
use hearken_virtual_device::profile::{Build, Profile};
use hearken_virtual_device::sound::{PACKET, UPLINK_RATE_HZ};
use hearken_virtual_device::virtual_device::{LinkAction, VirtualDevice};

use super::room::{self, Room};

/// Shortest way of a packet.
const WAY: Duration = Duration::from_millis(20);
/// Longest additional delay of a packet to the device.
const JITTER_MS: u64 = 50;
/// One stamp in so many is lost.
const LOST_STAMPS: u32 = 20;
const HELLO: &str = r#"{"type":"hello","transport":"websocket","session_id":"s","audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}"#;
const START: &str = r#"{"type":"tts","state":"start"}"#;

/// Somebody who speaks over the reply.
#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) from: Duration,
    pub(super) until: Duration,
    pub(super) sound: Vec<i16>,
}

/// What happens around the device.
pub(super) struct Scene {
    /// What it plays.
    pub(super) reply: Vec<i16>,
    pub(super) persons: Vec<Person>,
    pub(super) room: Room,
    pub(super) seed: u64,
    /// Level of the reply at the microphone, of 32,768.
    pub(super) level: f64,
}

/// What the server made of it.
#[derive(Default)]
pub(super) struct Seen {
    /// When it took somebody to be speaking.
    pub(super) starts: Vec<Duration>,
    /// What it heard.
    pub(super) sound: Vec<i16>,
}

/// What the loudspeaker plays, from the beginning.
#[derive(Clone)]
struct Speaker(Arc<Mutex<(Decoder, Vec<i16>)>>);

impl Observer for Speaker {
    fn observe(&mut self, at: Duration, what: Observation) {
        let Observation::Noticed(Fact::PacketPlayed { opus, .. }) = what else { return };
        let mut speaker = self.0.lock().expect("nobody panics with it");
        let (decoder, played) = &mut *speaker;
        let from = pcm::samples_in(at, UPLINK_RATE_HZ).max(played.len());
        played.resize(from, 0);
        // What does not decode is silent.
        decoder.decode(&opus, played).unwrap_or_default();
    }
}

/// Plays a scene. Times are from its beginning; the reply begins with it.
///
/// # Errors
/// Fails if libopus cannot be used.
pub(super) fn play(scene: &Scene, cancels: bool) -> anyhow::Result<Seen> {
    let played = Arc::new(Mutex::new((Decoder::new(UPLINK_RATE_HZ)?, Vec::new())));
    let mut device = connected(Speaker(Arc::clone(&played)));
    let mut server = Server::new(cancels);
    let mut encoder = Encoder::new(UPLINK_RATE_HZ, 24_000, 0)?;
    let mut chance = fastrand::Rng::with_seed(scene.seed ^ 7);
    let mut arrivals = server.sends(&scene.reply, &mut chance)?.into_iter().peekable();
    let block = pcm::samples_in(PACKET, UPLINK_RATE_HZ);
    for tick in 1..=scene.reply.len() / block {
        let now = PACKET * tick as u32;
        while let Some((at, frame)) = arrivals.next_if(|(at, _)| *at <= now) {
            advance(&mut device, at);
            device.at(at, Event::Binary(frame));
        }
        advance(&mut device, now);
        let heard =
            microphone(scene, &played.lock().expect("nobody panics with it").1, now, &mut chance);
        for action in device.at(now, Event::Microphone(encoder.encode(&heard)?)) {
            if let LinkAction::Binary(frame) = action {
                server.hears(&frame, now, &mut chance)?;
            }
        }
    }
    Ok(server.seen)
}

/// Returns a device that is connected, listens and is told that a reply comes.
fn connected(speaker: Speaker) -> VirtualDevice<Speaker> {
    let build = Build { server_aec: true, ..Build::default() };
    let audio = AudioParams::opus(UPLINK_RATE_HZ, 60);
    let firmware = Firmware::built(Profile::default(), build, ListenMode::Realtime, 2, &audio);
    let mut device = VirtualDevice::new(firmware, speaker, Drift::ppm(0));
    for event in
        [Event::Button, Event::SocketOpen, Event::Text(HELLO.into()), Event::Text(START.into())]
    {
        device.at(Duration::ZERO, event);
    }
    device
}

/// Lets happen what is due by now.
fn advance(device: &mut VirtualDevice<Speaker>, now: Duration) {
    while let Some(due) = device.due().filter(|due| *due <= now) {
        device.at(due, Event::Nothing);
    }
}

/// Returns what the microphone has recorded by now.
fn microphone(
    scene: &Scene,
    played: &[i16],
    now: Duration,
    chance: &mut fastrand::Rng,
) -> Vec<i16> {
    let block = pcm::samples_in(PACKET, UPLINK_RATE_HZ);
    let end = pcm::samples_in(now, UPLINK_RATE_HZ);
    // What was played so long ago is heard now; the device's own buffers are the delay.
    let until = end.saturating_sub(scene.room.delay);
    let from = until.saturating_sub(block + Room::reach());
    let known = |n: usize| played.get(n).copied().unwrap_or_default();
    let speaker: Vec<i16> = (from..until).map(known).collect();
    let gain = scene.level / 3_000.0;
    let echo = scene.room.echo(&speaker, block);
    let mut heard: Vec<f64> = echo.iter().map(|s| s * gain).collect();
    for person in &scene.persons {
        let begun = pcm::samples_in(person.from, UPLINK_RATE_HZ);
        for (n, sample) in heard.iter_mut().enumerate() {
            let at = (end - block + n).checked_sub(begun);
            *sample += at.and_then(|at| person.sound.get(at)).map_or(0.0, |s| f64::from(*s));
        }
    }
    let mut noise = || (chance.f64() * 2.0 - 1.0) * scene.room.noise;
    heard.iter().map(|s| room::sample(s + noise())).collect()
}

/// The server's side.
struct Server {
    detector: UtteranceDetector,
    sent: SentPackets,
    /// Packets of the reply with their stamps, and when they are sent.
    stamped: Vec<(Duration, u32, Bytes)>,
    told: usize,
    seen: Seen,
}

impl Server {
    fn new(cancels: bool) -> Self {
        let mut detector = UtteranceDetector::new(HearingSettings::default());
        detector.set_speaking(true);
        let sent = SentPackets::default();
        if cancels {
            detector.cancel_echo(sent.clone());
        }
        Self { detector, sent, stamped: Vec::new(), told: 0, seen: Seen::default() }
    }

    /// Encodes the reply, and returns its frames with the times at which they arrive.
    fn sends(
        &mut self,
        reply: &[i16],
        chance: &mut fastrand::Rng,
    ) -> anyhow::Result<Vec<(Duration, Bytes)>> {
        let speaking = SpeakingSettings::default();
        let mut encoder = Encoder::new(UPLINK_RATE_HZ, speaking.bitrate_bps, speaking.complexity)?;
        let block = pcm::samples_in(PACKET, UPLINK_RATE_HZ);
        let (mut frames, mut last) = (Vec::new(), Duration::ZERO);
        for (n, samples) in reply.chunks_exact(block).enumerate() {
            let n = u32::try_from(n).context("a reply of days")?;
            let plays_at = Duration::from_millis(100) + PACKET * n;
            let at = plays_at.saturating_sub(PACKET * (speaking.lead_packets - 1));
            let opus = encoder.encode(samples)?;
            let timestamp_ms = u32::try_from(plays_at.as_millis())?;
            last = last.max(at + WAY + Duration::from_millis(chance.u64(..JITTER_MS)));
            frames.push((
                last,
                Framing::V2.encode(&AudioPacket { opus: opus.clone(), timestamp_ms }),
            ));
            self.stamped.push((at, timestamp_ms, opus));
        }
        Ok(frames)
    }

    /// A packet of the microphone that was sent then has come.
    fn hears(
        &mut self,
        frame: &Bytes,
        sent: Duration,
        chance: &mut fastrand::Rng,
    ) -> anyhow::Result<()> {
        let now = sent + WAY;
        while let Some((_, stamp, opus)) = self.stamped.get(self.told).filter(|(at, ..)| *at <= now)
        {
            self.sent.push(*stamp, opus.clone());
            self.told += 1;
        }
        let packet = Framing::V2.decode(frame)?;
        let stamp = if chance.u32(..LOST_STAMPS) == 0 { 0 } else { packet.timestamp_ms };
        let before = self.detector.unclassified().len();
        self.detector.decode(&packet.opus, stamp)?;
        self.seen.sound.extend_from_slice(&self.detector.unclassified()[before..]);
        while let Some(classified) = self.detector.classify() {
            if let Some(Endpoint::Started { .. }) = classified.endpoint {
                self.seen.starts.push(sent);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hearken_actors::testkit::sound;

    use super::*;

    #[test]
    fn a_device_that_hears_its_reply_is_a_person_until_its_echo_is_cancelled() {
        let recorded = sound::decoded(&sound::recorded("zh_trade_stalls"));
        let reply = recorded.into_iter().cycle().take(8 * UPLINK_RATE_HZ as usize).collect();
        let room = Room::new(&mut fastrand::Rng::with_seed(3));
        let scene = Scene { reply, persons: Vec::new(), room, seed: 3, level: 1_500.0 };
        let [plain, cleaned] = [false, true].map(|cancels| play(&scene, cancels).unwrap());
        assert!(!plain.starts.is_empty());
        let energy = |seen: &Seen| {
            let last = &seen.sound[seen.sound.len() / 2..];
            last.iter().map(|s| f64::from(*s) * f64::from(*s)).sum::<f64>()
        };
        let reduction = 10.0 * (energy(&plain) / energy(&cleaned).max(1.0)).log10();
        assert!(reduction > 20.0, "{reduction:.1} dB");
    }
}
