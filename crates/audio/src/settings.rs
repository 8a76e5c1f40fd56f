//! Settings of hearing and speaking, one struct for each section of the configuration, with the defaults. If a number has an
//! external reason, its doc names it. Not for the bounds of values, which the configuration checks.

use std::time::Duration;

use hearken_base::ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[hearing]`: voice activity and utterances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HearingSettings {
    /// Minimum duration of voice that starts an utterance. Shorter sounds, such as a cough,
    /// are ignored.
    #[serde(rename = "min_speech_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 20, max = 5_000))]
    pub min_speech: Duration,
    /// Silence that ends an utterance if the turn detection model is not used
    /// (`[turn_detection]`). Lower values answer sooner, but interrupt people who pause.
    #[serde(rename = "silence_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 100, max = 10_000))]
    pub silence: Duration,
    /// Maximum length of an utterance; a longer one is ended at this point.
    #[serde(rename = "max_utterance_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 300_000))]
    pub max_utterance: Duration,
    /// Minimum duration of voice that interrupts a reply in realtime mode.
    #[serde(rename = "barge_in_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 20, max = 5_000))]
    pub barge_in: Duration,
    /// Minimum duration of voice that interrupts a reply of a device to which `cancel_echo`
    /// or `guard_echo` applies. Residual echo can resemble voice: raise the value if such
    /// devices interrupt themselves.
    #[serde(rename = "barge_in_echo_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 20, max = 5_000))]
    pub barge_in_echo: Duration,
    /// Audio from before the detected start of speech that is added to the utterance, so
    /// that its first sound is not cut off.
    #[serde(rename = "pre_roll_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 2_000))]
    pub pre_roll: Duration,
    /// Strictness of the voice detector. `0` treats everything except silence as voice; `3`
    /// accepts only clear voice.
    #[schemars(range(max = 3))]
    pub aggressiveness: u8,
    /// Minimum level of voice, as RMS on a scale to 32768. Sound below it is never treated
    /// as voice.
    #[schemars(range(min = 0.0, max = 32_768.0))]
    pub min_rms: f64,
    /// Minimum ratio of the level of voice to the level of the background noise. Raise it
    /// if noise starts utterances.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub over_noise: f64,
    /// Cancel the echo of devices that delegate this to the server (`features.aec` in their
    /// hello, with framing 2), so that their own reply does not interrupt it. Costs about
    /// 0.5 ms of a core per packet during a reply, and 0.5 MB per such device.
    pub cancel_echo: bool,
    /// Guard devices in realtime mode against their own echo if it is not cancelled by the
    /// server: learn the possible loudness of the echo, and accept only louder sound as an
    /// interruption. Enable it for loudspeakers that interrupt themselves; about one
    /// interruption in fifty of the others is then a second late. Costs about 0.04 ms of a
    /// core per packet during a reply, and 30 kB per such device.
    pub guard_echo: bool,
}

impl Default for HearingSettings {
    fn default() -> Self {
        Self {
            min_speech: Duration::from_millis(160),
            silence: Duration::from_millis(700),
            max_utterance: Duration::from_secs(28),
            barge_in: Duration::from_millis(120),
            barge_in_echo: Duration::from_millis(180),
            pre_roll: Duration::from_millis(300),
            aggressiveness: 2,
            min_rms: 80.0,
            over_noise: 1.6,
            cancel_echo: true,
            guard_echo: false,
        }
    }
}

/// Section `[speaking]`: synthesis, encoding and pacing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpeakingSettings {
    /// Sample rate of the audio. `0` selects 16000 or 24000, depending on the synthesiser.
    #[schemars(extend("enum" = [0, 8_000, 12_000, 16_000, 24_000, 48_000]))]
    pub sample_rate_hz: u32,
    /// Length of an audio packet.
    #[serde(rename = "packet_ms", with = "ms")]
    #[schemars(with = "u64", extend("enum" = [20, 40, 60]))]
    pub packet: Duration,
    /// Bitrate of the Opus encoder. Lower it for devices on slow networks.
    #[schemars(range(min = 6_000, max = 128_000))]
    pub bitrate_bps: i32,
    /// Complexity of the Opus encoder: `0` uses the least CPU, `10` gives the best quality.
    #[schemars(range(max = 10))]
    pub complexity: u8,
    /// Complexity of the Opus encoder while most of the CPU is in use. A low value lets the
    /// server serve more people.
    #[schemars(range(max = 10))]
    pub strained_complexity: u8,
    /// Number of packets sent ahead of playback. More hide network jitter, but must fit
    /// into the device's buffer: firmware 1.6.0 buffers 5.
    #[schemars(range(min = 1, max = 5))]
    pub lead_packets: u32,
    /// Minimum delay between the message `tts start` and the first audio. Firmware clears
    /// its audio queue shortly after that message.
    #[serde(rename = "start_guard_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 20, max = 1_000))]
    pub start_guard: Duration,
    /// Amount of audio that is buffered before playback begins, to hide pauses of the
    /// synthesiser. Lower it for a fast synthesiser, raise it if speech stutters.
    #[serde(rename = "prebuffer_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 5_000))]
    pub prebuffer: Duration,
    /// Delay between the end of playback and the message `tts stop`. Firmware up to 2.0
    /// otherwise cuts off the end of the speech.
    #[serde(rename = "stop_margin_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 300))]
    pub stop_margin: Duration,
    /// Maximum number of packets synthesised ahead of the packet being sent. More use more
    /// memory, and waste more speech if a reply is interrupted.
    #[schemars(range(min = 1, max = 10_000))]
    pub ahead_packets: usize,
}

impl SpeakingSettings {
    /// Returns these settings with a sample rate. If none is set, a synthesiser of up to 16000 Hz
    /// gets 16000, and any other 24000, at which most boards' codec runs.
    pub fn for_rate(&self, synthesiser_hz: Option<u32>) -> Self {
        let chosen = if synthesiser_hz.is_some_and(|hz| hz <= 16_000) { 16_000 } else { 24_000 };
        let sample_rate_hz = if self.sample_rate_hz == 0 { chosen } else { self.sample_rate_hz };
        Self { sample_rate_hz, ..self.clone() }
    }
}

impl Default for SpeakingSettings {
    fn default() -> Self {
        Self {
            sample_rate_hz: 0,
            packet: Duration::from_millis(60),
            bitrate_bps: 48_000,
            complexity: 5,
            strained_complexity: 0,
            lead_packets: 3,
            start_guard: Duration::from_millis(100),
            prebuffer: Duration::from_millis(720),
            stop_margin: Duration::from_millis(120),
            ahead_packets: 250,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_synthesiser_unless_it_is_set() {
        let free = SpeakingSettings::default();
        let rate = |s: &SpeakingSettings, hz| s.for_rate(hz).sample_rate_hz;
        assert_eq!(
            [None, Some(8_000), Some(16_000)].map(|hz| rate(&free, hz)),
            [24_000, 16_000, 16_000]
        );
        assert_eq!([Some(22_050), Some(48_000)].map(|hz| rate(&free, hz)), [24_000; 2]);
        let set = SpeakingSettings { sample_rate_hz: 48_000, ..free };
        assert_eq!(rate(&set, Some(16_000)), 48_000);
    }
}
