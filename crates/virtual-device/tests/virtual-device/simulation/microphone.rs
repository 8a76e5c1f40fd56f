//! Sound at a microphone and its encoding by firmware: voice, some real silence after it, and then
//! DTX. Packets are encoded in advance. Not for whether it is open.

use std::time::Duration;

use bytes::Bytes;
use hearken_audio::opus::Encoder;
use hearken_audio::pcm;

/// A narrow band is cheaper to decode than that of firmware, and sufficient for voice.
const RATE_HZ: u32 = 8_000;
const BITRATE_BPS: i32 = 8_000;
/// Length of the encoded voice; longer speech repeats it.
const KEPT: Duration = Duration::from_secs(3);
/// Length of a pause in speech ...
const PAUSE: Duration = Duration::from_millis(120);
/// ... after this much voice.
const PHRASE: Duration = Duration::from_millis(780);
/// Time after voice before the encoder switches to DTX (libopus: ten frames of 20 ms).
const BEFORE_DTX: Duration = Duration::from_millis(400);
/// Interval of whole packets during silence.
const REFRESH: Duration = Duration::from_millis(400);

/// A sound at the microphone.
#[derive(Debug, Clone, Copy)]
struct Noise {
    from: Duration,
    to: Duration,
}

/// One device's microphone. Times are on the device's clock.
pub(crate) struct Microphone {
    packet: Duration,
    voice: Vec<Bytes>,
    silence: Bytes,
    noise: Option<Noise>,
    /// Number of packets so far, including those that were not sent.
    next: u32,
    last_voice: Option<Duration>,
    last_whole: Option<Duration>,
}

impl Microphone {
    /// Creates a microphone with packets of this length.
    pub(crate) fn new(packet: Duration) -> Self {
        let voice = encoded(&buzz(KEPT), packet);
        let silence = encoded(&vec![0; pcm::samples_in(KEPT, RATE_HZ)], packet);
        let silence = silence.last().expect("three seconds are many packets").clone();
        Self { packet, voice, silence, noise: None, next: 1, last_voice: None, last_whole: None }
    }

    /// A person makes a sound, from one time to another.
    pub(crate) fn voice(&mut self, from: Duration, to: Duration) {
        self.noise = Some(Noise { from, to });
    }

    /// The person stops.
    pub(crate) fn hush(&mut self) {
        self.noise = None;
    }

    /// Time at which the next packet is complete.
    pub(crate) fn due(&self) -> Duration {
        self.packet * self.next
    }

    /// Skips the packets until now.
    pub(crate) fn skip_to(&mut self, now: Duration) {
        let heard = now.as_nanos() / self.packet.as_nanos();
        self.next = self.next.max(u32::try_from(heard).unwrap_or(u32::MAX - 1) + 1);
    }

    /// The next packet, and whether it is voice.
    pub(crate) fn hear(&mut self) -> (Bytes, bool) {
        let end = self.due();
        self.next += 1;
        let middle = end - self.packet / 2;
        let spoken = self.noise.filter(|n| (n.from..n.to).contains(&middle));
        if let Some(noise) = spoken
            && (middle - noise.from).as_nanos() % (PHRASE + PAUSE).as_nanos() < PHRASE.as_nanos()
        {
            self.last_voice = Some(end);
            let place = self.next as usize % self.voice.len();
            return (self.voice[place].clone(), true);
        }
        let lately =
            |at: Option<Duration>, span| at.is_some_and(|at| end.saturating_sub(at) < span);
        if lately(self.last_voice, BEFORE_DTX) || !lately(self.last_whole, REFRESH) {
            self.last_whole = Some(end);
            return (self.silence.clone(), false);
        }
        // Firmware sends both kinds.
        let empty: &[u8] = if self.next.is_multiple_of(2) { &[] } else { &self.silence[..1] };
        (Bytes::copy_from_slice(empty), false)
    }
}

/// A buzzing voice.
fn buzz(length: Duration) -> Vec<i16> {
    let samples = pcm::samples_in(length, RATE_HZ);
    let mut sound = vec![0_i16; samples];
    for harmonic in [150.0, 300.0, 450.0, 900.0] {
        for (s, t) in sound.iter_mut().zip(pcm::tone(harmonic, samples, RATE_HZ)) {
            *s = s.saturating_add(t / 2);
        }
    }
    sound
}

fn encoded(sound: &[i16], packet: Duration) -> Vec<Bytes> {
    let mut encoder = Encoder::new(RATE_HZ, BITRATE_BPS, 0).expect("libopus runs at 8 kHz");
    sound
        .chunks_exact(pcm::samples_in(packet, RATE_HZ))
        .map(|frame| encoder.encode(frame).expect("20, 40 and 60 ms are legal"))
        .collect()
}
