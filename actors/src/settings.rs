//! Settings of the actors, one struct for each section of the configuration, with the defaults. If
//! a number has an external reason, its doc names it. Times are durations here and milliseconds in
//! the file ([`ms`]). Not for the bounds of values, which the configuration checks.

pub mod days;
pub mod ms;
mod secret;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admission::AdmissionSettings;
use crate::dialogue::phrases::{Language, bare};
use crate::dialogue::{DialogueSettings, Phrases};
use crate::interruption::InterruptionSettings;
use crate::speculation::SpeculationSettings;
use crate::tools::ToolSettings;
use crate::turn_detection::TurnDetectionSettings;

pub use secret::Secret;

/// Settings of the actors of one connection.
#[derive(Debug, Clone, Default)]
pub struct PipelineSettings {
    /// Timers and wake words of the socket.
    pub device: DeviceSettings,
    /// Voice activity and utterances.
    pub hearing: HearingSettings,
    /// When a turn is over.
    pub turn_detection: TurnDetectionSettings,
    /// Answers attempted before a turn is over.
    pub speculation: SpeculationSettings,
    /// Voice while a reply is played.
    pub interruption: InterruptionSettings,
    /// Synthesis, encoding and pacing.
    pub speaking: SpeakingSettings,
    /// The model's instructions and the session's memory.
    pub dialogue: DialogueSettings,
    /// Fixed phrases.
    pub phrases: Phrases,
    /// Offering and calling of tools.
    pub tools: ToolSettings,
    /// Bounds of the data queues.
    pub lanes: LaneSizes,
    /// Admission control: limits on the turns that run at once.
    pub admission: AdmissionSettings,
}

/// Section `[device]`: a device's connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSettings {
    /// Longest wait for a hello before the connection is closed; firmware waits 10 s for our
    /// answer.
    #[serde(rename = "hello_timeout_ms", with = "ms")]
    pub hello_timeout: Duration,
    /// Time without speech after which a connection is closed.
    #[serde(rename = "no_voice_timeout_ms", with = "ms")]
    pub no_voice_timeout: Duration,
    /// Interval of WebSocket pings.
    #[serde(rename = "ping_every_ms", with = "ms")]
    pub ping_every: Duration,
    /// Time without any data, not even a Pong, after which a connection is dropped.
    #[serde(rename = "dead_after_ms", with = "ms")]
    pub dead_after: Duration,
    /// Delay between a wake word and its greeting: a person who goes on speaking within it, as in
    /// "hi, what time is it?", is heard instead of greeted.
    #[serde(rename = "greeting_grace_ms", with = "ms")]
    pub greeting_grace: Duration,
    /// Texts of `listen detect` that are wake words, compared without case, spaces and punctuation;
    /// any other text is a question.
    pub wake_words: Vec<String>,
}

impl Default for DeviceSettings {
    fn default() -> Self {
        let wake_words =
            ["你好小智", "小智小智", "嗨小智", "小爱同学", "hi esp", "hey xiaozhi", "hey hearken"];
        Self {
            hello_timeout: Duration::from_secs(10),
            no_voice_timeout: Duration::from_secs(120),
            ping_every: Duration::from_secs(30),
            dead_after: Duration::from_secs(60),
            greeting_grace: Duration::from_millis(400),
            wake_words: wake_words.map(str::to_owned).to_vec(),
        }
    }
}

impl DeviceSettings {
    /// Returns true if the text is one of the wake words, whatever its case, spaces and
    /// punctuation.
    pub fn is_wake_word(&self, text: &str) -> bool {
        let text = bare(text);
        self.wake_words.iter().any(|w| bare(w) == text)
    }
}

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
    pub cushion: Duration,
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
            cushion: Duration::from_millis(720),
            stop_margin: Duration::from_millis(120),
            ahead_packets: 250,
        }
    }
}

impl Default for DialogueSettings {
    fn default() -> Self {
        Self {
            system_prompt: "You are a friendly voice assistant in a loudspeaker, without eyes or \
                            hands. Answer in the language that the user speaks, in one or two \
                            short spoken sentences, in plain text without Markdown. If you do not \
                            know or cannot do something, say so."
                .into(),
            emotion_prompt: "Begin your answer with one emoji that shows how you feel.".into(),
            max_messages: 10,
            max_tokens: 200,
            temperature: 0.6,
            language: Language::Chinese,
        }
    }
}

/// Section `[lanes]`: bounds of the data lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaneSizes {
    /// Maximum number of packets from a device that wait for the VadActor; above it the newest is
    /// dropped. A few more slots are reserved for listening orders, which are never dropped.
    pub uplink: usize,
    /// Maximum number of audio pieces of an utterance (60 ms each) that wait for the AsrActor;
    /// above it the newest is dropped, and the utterance has a gap.
    pub utterance: usize,
    /// Maximum number of sentences that wait for the TtsActor; above it the model's stream is not
    /// read (backpressure).
    pub sentences: usize,
    /// Maximum number of playback steps that wait for the socket; above it pacing waits
    /// (backpressure).
    pub playback: usize,
}

impl Default for LaneSizes {
    fn default() -> Self {
        Self { uplink: 64, utterance: 128, sentences: 4, playback: 8 }
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
