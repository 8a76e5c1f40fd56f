//! Emulated microphone and the firmware's encoder: room noise, sounds and the echo of the
//! loudspeaker, encoded as Opus with DTX. When the microphone is open is up to the firmware.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearken_audio::opus::Encoder;
use hearken_audio::pcm;
use hearken_virtual_device::dtx::Dtx;
use hearken_virtual_device::sound::{PACKET, UPLINK_RATE_HZ};

use super::Echo;
use crate::echo::room;

/// Encoder settings of the firmware.
const BITRATE_BPS: i32 = 24_000;
const COMPLEXITY: u8 = 0;

/// Microphone of one device.
pub(super) struct Microphone {
    encoder: Encoder,
    dtx: Dtx,
    chance: fastrand::Rng,
    noise: f64,
    echo: Option<Echo>,
    /// Sounds, each with the index of its first sample.
    sounds: Vec<(usize, Arc<[i16]>)>,
    /// Number of packets recorded.
    heard: u32,
    /// Recorded audio, if requested.
    pub(super) recorded: Option<Vec<i16>>,
}

impl Microphone {
    pub(super) fn new(noise: f64, echo: Option<Echo>, seed: u64, keeps: bool) -> Self {
        Self {
            encoder: Encoder::new(UPLINK_RATE_HZ, BITRATE_BPS, COMPLEXITY)
                .expect("libopus supports 16 kHz"),
            dtx: Dtx::default(),
            chance: fastrand::Rng::with_seed(seed),
            noise,
            echo,
            sounds: Vec::new(),
            heard: 0,
            recorded: keeps.then(Vec::new),
        }
    }

    /// Starts a sound at the first sample that is not yet recorded, at the earliest now; returns its start.
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

    /// Returns the next packet. `played` is the audio of the loudspeaker up to now.
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
        let opus = self.encoder.encode(&frame).expect("60 ms is a legal frame length");
        self.dtx.packet(opus, &frame)
    }

    /// Returns the echo in these samples; the echo lags what is played by the delay of the room.
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
