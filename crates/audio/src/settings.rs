//! Settings of hearing and speaking, one struct for each section of the configuration, with the defaults. If a number has an
//! external reason, its doc names it. Not for the bounds of values, which the configuration checks.

use std::time::Duration;

use hearken_base::ms;
use serde::{Deserialize, Serialize};

/// Section `[hearing]`: voice activity and utterances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HearingSettings {
    /// Length of voice that starts an utterance.
    #[serde(rename = "min_speech_ms", with = "ms")]
    pub min_speech: Duration,
    /// Length of silence that ends an utterance.
    #[serde(rename = "silence_ms", with = "ms")]
    pub silence: Duration,
    /// Longest utterance; a longer one is ended there.
    #[serde(rename = "max_utterance_ms", with = "ms")]
    pub max_utterance: Duration,
    /// Length of voice that interrupts our speech in realtime mode; a shorter sound, such as a
    /// click, does not.
    #[serde(rename = "barge_in_ms", with = "ms")]
    pub barge_in: Duration,
    /// The same where echo is cancelled or guarded against here: what is left of it may pass for voice.
    #[serde(rename = "barge_in_echo_ms", with = "ms")]
    pub barge_in_echo: Duration,
    /// Length of audio before the first voice that is part of the utterance.
    #[serde(rename = "pre_roll_ms", with = "ms")]
    pub pre_roll: Duration,
    /// Mode of libfvad, 0 (all but silence is voice) to 3.
    pub aggressiveness: u8,
    /// Level (of 32,768) below which sound is never voice.
    pub min_rms: f64,
    /// Least ratio of the level of voice to the noise floor.
    pub over_noise: f64,
    /// True if the echo of devices that leave it to the server is cancelled.
    pub cancel_echo: bool,
    /// True if sound that may be nothing but the echo of our speech is not taken for voice, of devices whose echo is not
    /// cancelled.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpeakingSettings {
    /// Downlink sample rate: 8000, 12000, 16000, 24000 or 48000 Hz; 0 derives it from the
    /// synthesiser's own.
    pub sample_rate_hz: u32,
    /// Length of a downlink packet: 20, 40 or 60 ms.
    #[serde(rename = "packet_ms", with = "ms")]
    pub packet: Duration,
    /// Opus bitrate, in bits per second.
    pub bitrate_bps: i32,
    /// Opus complexity, 0 to 10.
    pub complexity: u8,
    /// Opus complexity while the server is strained (near its capacity).
    pub strained_complexity: u8,
    /// Packets sent ahead of the playback clock. Firmware 1.6.0 queues 5 and drops more; boards
    /// with an ESP32-C3 misbehave at bursts of 5.
    pub lead_packets: u32,
    /// Minimum delay between `tts start` and the first audio: firmware clears its queue one loop
    /// turn after that message, and a network may delay the message more than the audio.
    #[serde(rename = "start_guard_ms", with = "ms")]
    pub start_guard: Duration,
    /// Length of audio that is gathered before speech begins, to hide stalls of the synthesiser.
    /// Speech also begins when the sentence is complete, or nothing more has come for this long. A
    /// synthesiser faster than playback fills it in a fraction of the time.
    #[serde(rename = "cushion_ms", with = "ms")]
    pub prebuffer: Duration,
    /// Delay between the end of the last packet's playback and `tts stop`: firmware up to 2.0 cuts
    /// the tail otherwise.
    #[serde(rename = "stop_margin_ms", with = "ms")]
    pub stop_margin: Duration,
    /// Maximum number of packets synthesised ahead of the one that is sent.
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
