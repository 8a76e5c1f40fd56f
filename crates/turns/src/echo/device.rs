//! Emulated device that leaves its echo to the server, behind a network: which part of a reply it
//! plays when, and the timestamps that it reports. How the server hears it is elsewhere.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use hearken_audio::opus::{Decoder, Encoder};
use hearken_audio::{SpeakingSettings, pcm};
use hearken_proto::device::{AudioPacket, AudioParams, Framing, ListenMode};
use hearken_virtual_device::clock::Drift;
use hearken_virtual_device::firmware::{Event, Fact, Firmware};
use hearken_virtual_device::observer::{Observation, Observer};
use hearken_virtual_device::profile::{Build, Profile};
use hearken_virtual_device::sound::{PACKET, UPLINK_RATE_HZ};
use hearken_virtual_device::virtual_device::{LinkAction, VirtualDevice};

use super::conditions::Condition;

/// Shortest delay of a packet.
pub(super) const WAY: Duration = Duration::from_millis(20);
/// Longest additional delay of a packet.
pub(super) const JITTER_MS: u64 = 50;
/// Length of a playback underrun, in milliseconds.
const GAP_MS: std::ops::Range<u64> = 60..120;
const HELLO: &str = r#"{"type":"hello","transport":"websocket","session_id":"s","audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}"#;
const START: &str = r#"{"type":"tts","state":"start"}"#;

/// Packet of the reply.
pub(super) struct Sent {
    pub(super) at: Duration,
    pub(super) stamp: u32,
    pub(super) opus: Bytes,
}

/// Packet of the microphone, without its audio.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// Time at which it was sent.
    pub(super) at: Duration,
    /// Timestamp in it.
    pub(super) stamp: u32,
}

/// Result of a reply on a device.
pub(super) struct Played {
    pub(super) sent: Vec<Sent>,
    /// Audio of the loudspeaker, from the start.
    pub(super) sound: Vec<i16>,
    pub(super) told: Vec<Told>,
}

/// Audio of the loudspeaker, from the start.
#[derive(Clone)]
struct Speaker(Arc<Mutex<(Decoder, Vec<i16>)>>);

impl Observer for Speaker {
    fn observe(&mut self, at: Duration, what: Observation) {
        let Observation::Noticed(Fact::PacketPlayed { opus, .. }) = what else { return };
        let mut speaker = self.0.lock().expect("no panic while locked");
        let (decoder, played) = &mut *speaker;
        let from = pcm::samples_in(at, UPLINK_RATE_HZ).max(played.len());
        played.resize(from, 0);
        // Packets that do not decode are silent.
        decoder.decode(&opus, played).unwrap_or_default();
    }
}

/// Plays a reply on a device. Times count from its start; `drift_ppm` is how much faster its microphone is.
///
/// # Errors
/// Fails if libopus cannot be used.
pub(super) fn play(
    reply: &[i16],
    condition: &Condition,
    drift_ppm: f64,
    chance: &mut fastrand::Rng,
) -> anyhow::Result<Played> {
    let speaker = Speaker(Arc::new(Mutex::new((Decoder::new(UPLINK_RATE_HZ)?, Vec::new()))));
    let mut device = connected(speaker.clone());
    let (sent, arrivals) = send(reply, condition, chance)?;
    let mut arrivals = arrivals.into_iter().peekable();
    let mut told = Vec::new();
    let packets = reply.len() / pcm::samples_in(PACKET, UPLINK_RATE_HZ);
    for packet in 1..=packets {
        let at = (PACKET * u32::try_from(packet)?).div_f64(1.0 + drift_ppm * 1e-6);
        while let Some((at, frame)) = arrivals.next_if(|(arrives, _)| *arrives <= at) {
            advance(&mut device, at);
            device.at(at, Event::Binary(frame));
        }
        advance(&mut device, at);
        // The device does not read the audio in the packet.
        for action in device.at(at, Event::Microphone(Bytes::from_static(&[0]))) {
            if let LinkAction::Binary(frame) = action {
                told.push(Told { at, stamp: Framing::V2.decode(&frame)?.timestamp_ms });
            }
        }
    }
    let sound = std::mem::take(&mut speaker.0.lock().expect("no panic while locked").1);
    Ok(Played { sent, sound, told })
}

/// Returns a connected device that listens and has received the start of a reply.
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

/// Processes everything that is due by now.
fn advance(device: &mut VirtualDevice<Speaker>, now: Duration) {
    while let Some(due) = device.due().filter(|due| *due <= now) {
        device.at(due, Event::Nothing);
    }
}

/// Frames of a reply with their times of arrival.
type Arrivals = Vec<(Duration, Bytes)>;

/// Encodes the reply and sends it over the network.
fn send(
    reply: &[i16],
    condition: &Condition,
    chance: &mut fastrand::Rng,
) -> anyhow::Result<(Vec<Sent>, Arrivals)> {
    let speaking = SpeakingSettings::default();
    let mut encoder = Encoder::new(UPLINK_RATE_HZ, speaking.bitrate_bps, speaking.complexity)?;
    let block = pcm::samples_in(PACKET, UPLINK_RATE_HZ);
    let length = pcm::duration(reply.len(), UPLINK_RATE_HZ);
    let mut gaps = moments(condition.jumps, length, &mut chance.fork()).into_iter().peekable();
    let mut gap = chance.fork();
    let mut sent = Vec::new();
    let mut arrivals = Vec::new();
    let mut last = Duration::ZERO;
    let mut over = Duration::ZERO;
    for (n, samples) in reply.chunks_exact(block).enumerate() {
        let n = u32::try_from(n).context("too many packets")?;
        let plays_at = Duration::from_millis(100) + PACKET * n;
        let at = plays_at.saturating_sub(PACKET * (speaking.lead_packets - 1));
        let opus = encoder.encode(samples)?;
        let stamp = u32::try_from(plays_at.as_millis())?;
        last = last.max(at + WAY + Duration::from_millis(chance.u64(..JITTER_MS)));
        if gaps.next_if(|gap| *gap <= over).is_some() {
            last = last.max(over + Duration::from_millis(gap.u64(GAP_MS)));
        }
        // Time at which the device has played the packet.
        over = over.max(last) + PACKET;
        let packet = AudioPacket { opus: opus.clone(), timestamp_ms: stamp };
        arrivals.push((last, Framing::V2.encode(&packet)));
        sent.push(Sent { at, stamp, opus });
    }
    Ok((sent, arrivals))
}

/// Drops timestamps, as a lossy network would.
pub(super) fn lose(told: &mut [Told], condition: &Condition, chance: &mut fastrand::Rng) {
    let length = told.last().map_or(Duration::ZERO, |told| told.at);
    let stretches: Vec<(Duration, Duration)> = moments(condition.stretches, length, chance)
        .into_iter()
        .map(|from| (from, from + Duration::from_millis(chance.u64(1_000..3_000))))
        .collect();
    for told in told {
        let stretch = stretches.iter().any(|(from, until)| (*from..*until).contains(&told.at));
        if stretch || (condition.lost_in > 0 && chance.u32(..condition.lost_in) == 0) {
            told.stamp = 0;
        }
    }
}

/// Returns random moments at this rate per minute, one in each equal part of the time.
fn moments(a_minute: usize, length: Duration, chance: &mut fastrand::Rng) -> Vec<Duration> {
    let count = (a_minute as f64 * length.as_secs_f64() / 60.0).round();
    (0..count as usize).map(|n| length.mul_f64((n as f64 + chance.f64()) / count)).collect()
}

#[cfg(test)]
mod tests {
    use hearken_audio::sound;

    use super::super::conditions;
    use super::*;

    fn played(condition: &str, drift_ppm: f64) -> Played {
        let recorded = sound::decoded(&sound::recorded("zh_trade_stalls"));
        let reply: Vec<i16> =
            recorded.into_iter().cycle().take(30 * UPLINK_RATE_HZ as usize).collect();
        let condition = conditions::named(condition).unwrap();
        let mut chance = fastrand::Rng::with_seed(3);
        let mut played = play(&reply, &condition, drift_ppm, &mut chance).unwrap();
        lose(&mut played.told, &condition, &mut chance);
        played
    }

    /// Returns for each reported timestamp how much earlier it is than its packet, in ms.
    fn told_after(played: &Played) -> Vec<i128> {
        let told = played.told.iter().filter(|told| told.stamp > 0);
        told.map(|told| told.at.as_millis() as i128 - i128::from(told.stamp)).collect()
    }

    #[test]
    fn timestamps_reflect_playback_underruns() {
        let [plain, jumps] = ["exact", "jumps"].map(|name| told_after(&played(name, 0.0)));
        let later = |told: &[i128]| told[told.len() - 1] - told[20];
        assert_eq!(later(&plain), 0);
        assert!((120..=360).contains(&later(&jumps)), "{}", later(&jumps));
    }

    #[test]
    fn timestamps_are_lost_singly_or_for_seconds() {
        let lost = |name| {
            let told = played(name, 0.0).told;
            let longest = told.split(|t| t.stamp > 0).map(<[Told]>::len).max().unwrap();
            (told.iter().filter(|t| t.stamp == 0).count() * 100 / told.len(), longest)
        };
        let [exact, plain, many, stretches] = ["exact", "plain", "lost", "stretches"].map(lost);
        assert!(exact.0 <= 1 && (2..10).contains(&plain.0), "{exact:?} {plain:?}");
        assert!((25..45).contains(&many.0) && many.1 < 16, "{many:?}");
        assert!(stretches.1 >= 16, "{stretches:?}");
    }

    #[test]
    fn a_microphone_with_a_fast_clock_records_sooner() {
        let at = |ppm| played("plain", ppm).told[499].at.as_micros();
        assert_eq!(at(0.0), 30_000_000);
        assert!((2_990..3_010).contains(&(at(0.0) - at(100.0))));
    }
}
