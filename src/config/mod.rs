//! Every key of the configuration, with its default. Read by [`load()`], environment over file over
//! defaults; not passed around whole: each part gets its own small settings.

mod chat;
pub mod check;
mod desk;
mod door;
pub mod env;
mod gateway;
mod llm;
pub mod log;
mod museum;
mod pipeline;
pub mod reader;
mod tool_servers;
mod tools;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hearken_cluster::RedisConfig;
use hearken_providers::VisionSettings;
use hearken_providers::state::StateConfig;
use hearken_providers::{AsrSettings, LlmSettings, TtsSettings};
use serde::{Deserialize, Serialize};

/// Keys that hold secrets, in whatever section.
const SECRETS: [&str; 5] = ["api_key", "secret", "admin_token", "token", "password"];

/// A time as keys hold it, in milliseconds.
fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Masks the secrets of one table.
fn mask(table: &mut toml::Table) {
    for name in SECRETS {
        if let Some(key) = table.get_mut(name).filter(|k| k.as_str() != Some("")) {
            *key = "***".into();
        }
    }
}

/// The whole configuration as TOML, secrets masked.
pub fn masked(config: &Config) -> String {
    let mut table = toml::Table::try_from(config).expect("a configuration is plain TOML");
    for section in table.iter_mut().filter_map(|(_, v)| v.as_table_mut()) {
        mask(section);
    }
    llm::mask(&mut table);
    tool_servers::mask(&mut table);
    door::mask_address(&mut table, "store");
    door::mask_address(&mut table, "redis");
    table.to_string()
}

pub use chat::ChatConfig;
pub use desk::{AdminConfig, HttpConfig, TlsConfig};
pub use door::{AuthConfig, AuthRequired, OtaConfig, StoreConfig};
pub use env::{EnvVars, ProcessEnv};
pub use gateway::GatewayConfig;
pub use museum::MuseumConfig;
pub use reader::{ConfigError, load};
pub use tools::ToolsConfig;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Addresses, threads and limits of the server.
    pub server: ServerConfig,
    /// How often clients may ask, and from which sites' pages.
    pub http: HttpConfig,
    /// The certificate of the server's port.
    pub tls: TlsConfig,
    /// Who is let in.
    pub auth: AuthConfig,
    /// The administrator.
    pub admin: AdminConfig,
    /// What devices are told when they boot.
    pub ota: OtaConfig,
    /// Where devices, bindings and sessions are kept.
    pub store: StoreConfig,
    /// What several instances of the server share.
    pub redis: RedisConfig,
    /// Engines that run beside the server, where no other is named.
    pub embedded: EmbeddedConfig,
    /// The recogniser.
    pub asr: AsrSettings,
    /// The language model.
    pub llm: LlmSettings,
    /// The synthesiser.
    pub tts: TtsSettings,
    /// The model that describes devices' pictures.
    pub vision: VisionSettings,
    /// What the model is told, and what is remembered.
    pub dialogue: DialogueConfig,
    /// Fixed phrases, in both languages.
    pub phrases: PhrasesConfig,
    /// When an utterance starts and ends.
    pub hearing: HearingConfig,
    /// Shape and pace of the audio to devices.
    pub speaking: SpeakingConfig,
    /// How tools are offered to the model and called, and where they are.
    pub tools: ToolsConfig,
    /// Text clients of the LLM gateway.
    pub gateway: GatewayConfig,
    /// Chat sessions of applications.
    pub chat: ChatConfig,
    /// The server of chat sessions' worlds.
    pub state: StateConfig,
    /// Museum clients.
    pub museum: MuseumConfig,
    /// Timers and wake words of devices' connections.
    pub device: DeviceConfig,
    /// Bounds of the queues within a connection.
    pub lanes: LanesConfig,
    /// How many turns may run at once.
    pub admission: AdmissionConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Keys that the environment set, which wins over changes at run time.
    #[serde(skip)]
    pub from_environment: BTreeSet<String>,
}

/// Addresses, threads and limits of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Threads that serve sockets; 0 means one a core.
    pub workers: usize,
    /// Threads that encode speech; 0 means two for each three cores.
    pub audio_threads: usize,
    /// Connections of devices at once; one more is refused with 503.
    pub max_connections: usize,
    /// Time that open connections have to end when the server stops.
    pub shutdown_timeout_ms: u64,
    /// Folder where every session is recorded; empty records none.
    pub record_dir: PathBuf,
    /// Folder of what the server keeps; empty is `hearken` in the user's folder for such.
    pub data_dir: PathBuf,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: "0.0.0.0".into(),
            port: 9400,
            workers: 0,
            audio_threads: 0,
            max_connections: 10_000,
            shutdown_timeout_ms: 8_000,
            record_dir: PathBuf::new(),
            data_dir: PathBuf::new(),
        }
    }
}

/// Engines that run beside the server, each as a child process. An engine is started only where
/// one of the section's URLs points at the address that it would listen on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddedConfig {
    /// False never starts an engine.
    pub enabled: bool,
    /// Where the embedded recogniser listens.
    pub asr_listen: SocketAddr,
    /// Its try-it page.
    pub asr_page: SocketAddr,
    /// Where the embedded synthesiser listens.
    pub tts_listen: SocketAddr,
    /// Its try-it page.
    pub tts_page: SocketAddr,
    /// Where the embedded language model listens.
    pub llm_listen: SocketAddr,
    /// The embedded language model: a name of the catalogue, or a GGUF file.
    pub llm_model: String,
    /// The embedded model is offered tools. It reads them ahead, about 10 s of one core for six.
    pub llm_tools: bool,
    /// Folder of the models; empty means `HEARKEN_MODELS`, else `hearken/models` in the user's
    /// cache folder.
    pub models_dir: PathBuf,
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            enabled: true,
            asr_listen: local(9200),
            asr_page: local(9201),
            tts_listen: local(9300),
            tts_page: local(9301),
            llm_listen: local(9401),
            llm_model: "qwen2.5-coder-0.5b".into(),
            llm_tools: true,
            models_dir: PathBuf::new(),
        }
    }
}

/// What the model is told, and what is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DialogueConfig {
    /// How the model is to behave; `{current_time}` becomes the local date and time of the turn.
    pub system_prompt: String,
    /// Asks the model for an emoji, shown as the device's face and never spoken; may be empty.
    pub emotion_prompt: String,
    /// Messages that a session remembers: of both sides, and the tools' calls and results.
    pub max_messages: usize,
    /// Language before the first words are known: `zh` or `en`.
    pub language: LanguageConfig,
}

/// A language that we have phrases for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LanguageConfig {
    /// Chinese.
    #[default]
    Zh,
    /// English.
    En,
}

/// Fixed phrases, in both languages; an empty one is not spoken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PhrasesConfig {
    /// Answers a wake word.
    pub greeting_zh: String,
    /// Answers a wake word.
    pub greeting_en: String,
    /// Said when a provider failed.
    pub apology_zh: String,
    /// Said when a provider failed.
    pub apology_en: String,
    /// Said before a quiet connection is closed.
    pub farewell_zh: String,
    /// Said before a quiet connection is closed.
    pub farewell_en: String,
    /// Said while a tool takes its time.
    pub filler_zh: String,
    /// Said while a tool takes its time.
    pub filler_en: String,
    /// Said while a tool goes on taking its time.
    pub filler_again_zh: String,
    /// Said while a tool goes on taking its time.
    pub filler_again_en: String,
    /// Said where tools did what was asked and the model says nothing more.
    pub done_zh: String,
    /// Said where tools did what was asked and the model says nothing more.
    pub done_en: String,
    /// Said instead of an answer where the server has more to do than it can.
    pub busy_zh: String,
    /// Said instead of an answer where the server has more to do than it can.
    pub busy_en: String,
}

/// When an utterance starts and ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HearingConfig {
    /// Audio from before the first voice that belongs to the utterance.
    pub pre_roll_ms: u64,
    /// Voice needed before speech counts as started; a shorter cough does not.
    pub min_speech_ms: u64,
    /// Voice needed before a person who speaks over the reply, in realtime mode, cuts it.
    pub barge_in_ms: u64,
    /// Silence that ends an utterance.
    pub silence_ms: u64,
    /// Longest utterance.
    pub max_utterance_ms: u64,
    /// How strict the voice detector is, 0 to 3.
    pub aggressiveness: u8,
    /// Sound below this level (of 32768) is never voice.
    pub min_rms: f64,
    /// Voice is at least this many times louder than the noise around it.
    pub over_noise: f64,
}

/// Shape and pace of the audio to devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpeakingConfig {
    /// 8000, 12000, 16000, 24000 or 48000; 0 chooses 16000 or 24000 by the synthesiser.
    pub sample_rate_hz: u32,
    /// Length of a packet: 20, 40 or 60.
    pub packet_ms: u64,
    /// Opus bitrate, 6000 to 128000.
    pub bitrate_bps: i32,
    /// Opus complexity, 0 (cheap) to 10.
    pub complexity: u8,
    /// The same while most of the cores is in use, to serve more people.
    pub strained_complexity: u8,
    /// Packets sent ahead of the clock, 1 to 5; firmware 1.6.0 holds 5.
    pub lead_packets: u32,
    /// Audio follows `tts start` after this time at the earliest.
    pub start_guard_ms: u64,
    /// Speech begins when this much sound is there, so that stalls of synthesis are not heard.
    pub cushion_ms: u64,
    /// `tts stop` follows the end of playback after this time.
    pub stop_margin_ms: u64,
    /// Packets synthesised ahead of the one that is sent.
    pub ahead_packets: usize,
}

/// Timers and wake words of devices' connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceConfig {
    /// A connection that says no hello is closed after this.
    pub hello_timeout_ms: u64,
    /// A connection without speech is closed after this.
    pub no_voice_timeout_ms: u64,
    /// How often a connection is pinged.
    pub ping_every_ms: u64,
    /// A connection that sends nothing at all for this long is dropped.
    pub dead_after_ms: u64,
    /// From a wake word to its greeting; who goes on speaking within it is heard, not greeted.
    pub greeting_grace_ms: u64,
    /// Texts of `listen detect` that are greeted; any other text is answered.
    pub wake_words: Vec<String>,
}

/// Bounds of the queues within a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LanesConfig {
    /// Packets from a device; beyond, the newest is dropped.
    pub uplink: usize,
    /// Pieces of an utterance on their way to the recogniser; beyond, the newest is dropped.
    pub utterance: usize,
    /// Sentences on their way to the synthesiser; beyond, the model waits.
    pub sentences: usize,
    /// Packets on their way to the socket; beyond, pacing waits.
    pub playback: usize,
}

/// How many turns of devices may run at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionConfig {
    /// Turns that may run at once, however well it goes; one more is told that we are busy.
    pub max_turns: usize,
    /// A packet that leaves later than this is late; devices have some to play meanwhile.
    pub late_ms: u64,
    /// Packets that may be late, of all, %: beyond, fewer turns may run.
    pub late_percent: f64,
    /// How much of its time a thread that makes speech may be busy, %: beyond, fewer turns may run.
    pub busy_percent: f64,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`), or rules such as
    /// `info,hearken_actors=debug`.
    pub level: String,
    /// `text` or `json`.
    pub format: LogFormat,
}

/// Shape of the log's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    #[serde(alias = "TEXT", alias = "Text")]
    Text,
    /// One JSON object a line.
    #[serde(alias = "JSON", alias = "Json")]
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Text }
    }
}
