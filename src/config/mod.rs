//! Every key of the configuration, with its default: the sections of the server itself, and those
//! whose structs are defined by their owners. [`load`] reads it: the environment takes precedence
//! over the file, and the file over the defaults. It is not passed around as a whole: each part of
//! the server gets its own settings.
//!
//! A new key is a field of its section's struct with its default there, a line in `config.toml`,
//! and its bounds, if it has any, in [`mod@check`].

mod admin;
mod auth;
pub mod check;
mod compose;
mod console;
mod devices;
mod embedded;
pub mod env;
pub mod error;
mod history;
mod http;
mod llm;
pub mod log;
mod mask;
mod ota;
pub mod reader;
mod server;
mod tls;
mod tool_servers;
mod tools;
mod traces;

use std::collections::BTreeSet;

use hearken_actors::interruption::InterruptionSettings;
use hearken_actors::settings::{DeviceSettings, LaneSizes};
use hearken_actors::speculation::SpeculationSettings;
use hearken_actors::turn_detection::TurnDetectionSettings;
use hearken_audio::{HearingSettings, SpeakingSettings};
use hearken_chat::ChatSettings;
use hearken_cluster::RedisConfig;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::people::SpeakerSettings;
use hearken_dialogue::turn_trace::JournalSettings;
use hearken_dialogue::usage::UsageSettings;
use hearken_dialogue::{DialogueSettings, Phrases};
use hearken_museum::MuseumSettings;
use hearken_providers::state::StateConfig;
use hearken_providers::{AsrSettings, LlmSettings, TtsSettings, VisionSettings};
use hearken_store::StoreConfig;
use hearken_text_gateway::TextGatewaySettings;
use serde::{Deserialize, Serialize};

pub use admin::AdminConfig;
pub use auth::{AuthConfig, AuthRequired};
pub use console::ConsoleConfig;
pub use devices::{DeviceAdmission, DevicesConfig};
pub use embedded::EmbeddedConfig;
pub use env::{EnvVars, ProcessEnv};
pub use error::ConfigError;
pub use history::HistoryConfig;
pub use http::HttpConfig;
pub use log::{LogConfig, LogFormat};
pub use mask::masked;
pub use ota::OtaConfig;
pub use reader::{load, load_text};
pub use server::ServerConfig;
pub use tls::TlsConfig;
pub use tools::ToolsConfig;
pub use traces::TracesConfig;

/// Whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Addresses, threads and limits of the server.
    pub server: ServerConfig,
    /// Rate limit and allowed origins of requests.
    pub http: HttpConfig,
    /// Certificate of the server's port.
    pub tls: TlsConfig,
    /// Access control.
    pub auth: AuthConfig,
    /// Administrator.
    pub admin: AdminConfig,
    /// Web console.
    pub console: ConsoleConfig,
    /// Devices from outside.
    pub devices: DevicesConfig,
    /// Responses to booting devices.
    pub ota: OtaConfig,
    /// Database of devices, bindings and sessions.
    pub store: StoreConfig,
    /// Redis that several instances share.
    pub redis: RedisConfig,
    /// Embedded engines.
    pub embedded: EmbeddedConfig,
    /// Recogniser.
    pub asr: AsrSettings,
    /// Language model.
    pub llm: LlmSettings,
    /// Synthesiser.
    pub tts: TtsSettings,
    /// Model that describes pictures.
    pub vision: VisionSettings,
    /// Instructions and memory of conversations.
    pub dialogue: DialogueSettings,
    /// Fixed phrases, in both languages.
    pub phrases: Phrases,
    /// Voice activity detection and endpointing.
    pub hearing: HearingSettings,
    /// When a turn is over.
    pub turn_detection: TurnDetectionSettings,
    /// Who speaks.
    pub speakers: SpeakerSettings,
    /// Answers attempted before a turn is over.
    pub speculation: SpeculationSettings,
    /// Voice while a reply is played.
    pub interruption: InterruptionSettings,
    /// Format and pacing of the audio to devices.
    pub speaking: SpeakingSettings,
    /// Offering and calling of tools, and their servers.
    pub tools: ToolsConfig,
    /// Text clients of the LLM gateway.
    pub gateway: TextGatewaySettings,
    /// Chat sessions of applications.
    pub chat: ChatSettings,
    /// State server of chat sessions.
    pub state: StateConfig,
    /// Museum clients.
    pub museum: MuseumSettings,
    /// Timers and wake words of devices' connections.
    pub device: DeviceSettings,
    /// Bounds of the queues within a connection.
    pub lanes: LaneSizes,
    /// Limits of the turns in progress.
    pub admission: AdmissionSettings,
    /// Journal of the last turns.
    pub journal: JournalSettings,
    /// What is kept of conversations.
    pub history: HistoryConfig,
    /// What is used in a day.
    pub usage: UsageSettings,
    /// Traces of turns.
    pub traces: TracesConfig,
    /// Level and format of the log.
    pub log: LogConfig,
    /// Keys set by the environment, which takes precedence over changes at run time.
    #[serde(skip)]
    pub from_environment: BTreeSet<String>,
}
