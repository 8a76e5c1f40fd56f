//! What a microphone hears and how firmware encodes it: the room's noise, sounds, and the echo of what is played; Opus
//! of the firmware's encoder, with DTX. Not for when it is open.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearken_audio::opus::Encoder;
use hearken_audio::pcm;
use hearken_virtual_device::dtx::Dtx;
use hearken_virtual_device::sound::{PACKET, UPLINK_RATE_HZ};

use super::Echo;
use crate::echo::room;

/// As firmware's encoder is set up.
const BITRATE_BPS: i32 = 24_000;
const COMPLEXITY: u8 = 0;

/// One device's microphone.
pub(super) struct Microphone {
    encoder: Encoder,
    dtx: Dtx,
    chance: fastrand::Rng,
    noise: f64,
    echo: Option<Echo>,
    /// Sounds, each with the sample at which it begins.
    sounds: Vec<(usize, Arc<[i16]>)>,
    /// Packets heard so far.
    heard: u32,
    /// What was recorded, where it is kept.
    pub(super) recorded: Option<Vec<i16>>,
}

impl Microphone {
    pub(super) fn new(noise: f64, echo: Option<Echo>, seed: u64, keeps: bool) -> Self {
        Self {
            encoder: Encoder::new(UPLINK_RATE_HZ, BITRATE_BPS, COMPLEXITY)
                .expect("libopus runs at its own rates"),
            dtx: Dtx::default(),
            chance: fastrand::Rng::with_seed(seed),
            noise,
            echo,
            sounds: Vec::new(),
            heard: 0,
            recorded: keeps.then(Vec::new),
        }
    }

    /// Lets a sound begin now, and returns when that is: at a sample that was not recorded yet.
    pub(super) fn begin(&mut self, now: Duration, sound: Arc<[i16]>) -> Duration {
        let recorded = pcm::samples_in(PACKET, UPLINK_RATE_HZ) * self.heard as usize;
        let from = pcm::samples_in(now, UPLINK_RATE_HZ).max(recorded);
        self.sounds.push((from, sound));
        pcm::duration(from, UPLINK_RATE_HZ)
    }

    /// Returns when the next packet is complete.
    pub(super) fn due(&self) -> Duration {
        PACKET * (self.heard + 1)
    }

    /// Returns the next packet. What was played until now is echoed.
    pub(super) fn hear(&mut self, played: &[i16]) -> Bytes {
        let block = pcm::samples_in(PACKET, UPLINK_RATE_HZ);
        let start = block * self.heard as usize;
        self.heard += 1;
        let mut mix = self.echo(played, start, block);
        self.sounds.retain(|(from, sound)| from + sound.len() > start);
        for (from, sound) in &self.sounds {
            for (n, sample) in mix.iter_mut().enumerate() {
                let heard = (start + n).checked_sub(*from).and_then(|at| sound.get(at));
                *sample += heard.map_or(0.0, |s| f64::from(*s));
            }
        }
        let frame: Vec<i16> = mix
            .into_iter()
            .map(|s| room::sample(s + (self.chance.f64() * 2.0 - 1.0) * self.noise))
            .collect();
        if let Some(recorded) = &mut self.recorded {
            recorded.extend_from_slice(&frame);
        }
        let opus = self.encoder.encode(&frame).expect("60 ms are a legal frame");
        self.dtx.packet(opus, &frame)
    }

    /// Returns the echo in these samples. What is played now is heard later, by the delay of the room.
    fn echo(&self, played: &[i16], start: usize, block: usize) -> Vec<f64> {
        let silence = || vec![0.0; block];
        let Some(Echo { room, gain, .. }) = &self.echo else { return silence() };
        let from = start.saturating_sub(room.delay + room::TAPS);
        let known = |n: usize| played.get(n).copied().unwrap_or_default();
        let speaker: Vec<i16> = (from..start + block).map(known).collect();
        if speaker.iter().all(|sample| *sample == 0) {
            return silence();
        }
        let heard = room.echo(&speaker, speaker.len());
        heard[speaker.len() - block..].iter().map(|s| f64::from(*s) * gain).collect()
    }
}
