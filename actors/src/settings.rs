//! Settings of the actors, one struct for each section of the configuration, with the defaults. If
//! a number has an external reason, its doc names it. Times are durations here and milliseconds in
//! the file ([`ms`]). Not for the bounds of values, which the configuration checks.

use std::time::Duration;

use hearken_audio::{HearingSettings, SpeakingSettings};
use hearken_base::language::bare;
use hearken_base::ms;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::tools::ToolSettings;
use hearken_dialogue::{DialogueSettings, Phrases};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interruption::InterruptionSettings;
use crate::speculation::SpeculationSettings;
use crate::turn_detection::TurnDetectionSettings;

/// Settings of the actors of one connection.
#[derive(Debug, Clone, Default)]
pub struct PipelineSettings {
    /// Timers and wake words of the socket.
    pub device: DeviceSettings,
    /// Voice activity and utterances.
    pub hearing: HearingSettings,
    /// When a turn is over.
    pub turn_detection: TurnDetectionSettings,
    /// Speculative answers before a turn is over.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSettings {
    /// Maximum wait for the hello of a new connection; then it is closed.
    #[serde(rename = "hello_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 60_000))]
    pub hello_timeout: Duration,
    /// Time without speech after which a connection is closed, with the phrase `farewell`.
    #[serde(rename = "no_voice_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 86_400_000))]
    pub no_voice_timeout: Duration,
    /// Interval of pings on a connection.
    #[serde(rename = "ping_every_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 600_000))]
    pub ping_every: Duration,
    /// Time without any data from the device after which a connection is dropped. Must
    /// exceed `ping_every_ms` by at least one second.
    #[serde(rename = "dead_after_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 3_600_000))]
    pub dead_after: Duration,
    /// Delay between a wake word and its greeting. A person who continues to speak within
    /// this time is heard instead of greeted.
    #[serde(rename = "greeting_grace_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 5_000))]
    pub greeting_grace: Duration,
    /// Wake words: texts of `listen detect` that get a greeting. Any other text is answered
    /// as a question. Case, spaces and punctuation are ignored.
    pub wake_words: Vec<String>,
}

/// Wake words of the stock firmware, of ESP-SR's models (its `Kconfig.projbuild`), and ours.
const WAKE_WORDS: [&str; 56] = [
    "你好小智",
    "小智小智",
    "嗨小智",
    "hey xiaozhi",
    "hey hearken",
    "小爱同学",
    "hi esp",
    "hi 乐鑫",
    "hi lexin",
    "alexa",
    "jarvis",
    "hey jarvis",
    "computer",
    "hey willow",
    "sophia",
    "mycroft",
    "hey mycroft",
    "hey printer",
    "hey wanda",
    "hi joy",
    "hi jason",
    "hi m five",
    "hi lily",
    "hi 莉莉",
    "hi telly",
    "hi 泰力",
    "hi wall e",
    "hi 瓦力",
    "hi 小巫",
    "hi 喵喵",
    "hey ily",
    "astrolabe",
    "你好喵伴",
    "喵喵同学",
    "小鹿小鹿",
    "小鸭小鸭",
    "小龙小龙",
    "小滨小滨",
    "小冰小冰",
    "小箭小箭",
    "小特小特",
    "小美同学",
    "小宇同学",
    "小明同学",
    "小康同学",
    "你好小鑫",
    "你好小益",
    "你好小安",
    "你好小脉",
    "你好小瑞",
    "你好百应",
    "你好东东",
    "璃奈板",
    "小酥肉",
    "小度小度",
    "天猫精灵",
];

impl Default for DeviceSettings {
    fn default() -> Self {
        Self {
            hello_timeout: Duration::from_secs(10),
            no_voice_timeout: Duration::from_secs(120),
            ping_every: Duration::from_secs(30),
            dead_after: Duration::from_secs(60),
            greeting_grace: Duration::from_millis(400),
            wake_words: WAKE_WORDS.map(str::to_owned).to_vec(),
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

/// Section `[lanes]`: bounds of the data lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LaneSizes {
    /// Queue of packets from the device. If it is full, the newest packet is dropped.
    #[schemars(range(min = 1, max = 10_000))]
    pub uplink: usize,
    /// Queue of audio pieces of an utterance (60 ms each) for the recogniser. If it is
    /// full, the newest piece is dropped.
    #[schemars(range(min = 1, max = 10_000))]
    pub utterance: usize,
    /// Queue of sentences for the synthesiser. If it is full, reading from the model
    /// pauses.
    #[schemars(range(min = 1, max = 10_000))]
    pub sentences: usize,
    /// Queue of packets for the socket. If it is full, sending pauses.
    #[schemars(range(min = 1, max = 10_000))]
    pub playback: usize,
}

impl Default for LaneSizes {
    fn default() -> Self {
        Self { uplink: 64, utterance: 128, sentences: 4, playback: 8 }
    }
}
