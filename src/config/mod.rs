//! Every key of the configuration, with its default: the sections of the server itself, and those
//! whose structs stand with their owners. Read by [`load`], environment over file over defaults;
//! not passed around whole: each part gets its own small settings.
//!
//! A new key is a field of its section's struct with its default there, a line in `config.toml`,
//! and its bounds, if it has any, in [`mod@check`].

mod admin;
mod auth;
pub mod check;
mod compose;
mod embedded;
pub mod env;
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

use std::collections::BTreeSet;

use hearken_actors::admission::AdmissionSettings;
use hearken_actors::chat::ChatSettings;
use hearken_actors::dialogue::{DialogueSettings, Phrases};
use hearken_actors::gateway::GatewaySettings;
use hearken_actors::settings::{DeviceSettings, HearingSettings, LaneSizes, SpeakingSettings};
use hearken_cluster::RedisConfig;
use hearken_providers::state::StateConfig;
use hearken_providers::{AsrSettings, LlmSettings, TtsSettings, VisionSettings};
use hearken_store::StoreConfig;
use serde::{Deserialize, Serialize};

use crate::museum::MuseumSettings;

pub use admin::AdminConfig;
pub use auth::{AuthConfig, AuthRequired};
pub use embedded::EmbeddedConfig;
pub use env::{EnvVars, ProcessEnv};
pub use http::HttpConfig;
pub use log::{LogConfig, LogFormat};
pub use mask::masked;
pub use ota::OtaConfig;
pub use reader::{ConfigError, load};
pub use server::ServerConfig;
pub use tls::TlsConfig;
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
    pub dialogue: DialogueSettings,
    /// Fixed phrases, in both languages.
    pub phrases: Phrases,
    /// When an utterance starts and ends.
    pub hearing: HearingSettings,
    /// Shape and pace of the audio to devices.
    pub speaking: SpeakingSettings,
    /// How tools are offered to the model and called, and where they are.
    pub tools: ToolsConfig,
    /// Text clients of the LLM gateway.
    pub gateway: GatewaySettings,
    /// Chat sessions of applications.
    pub chat: ChatSettings,
    /// The server of chat sessions' worlds.
    pub state: StateConfig,
    /// Museum clients.
    pub museum: MuseumSettings,
    /// Timers and wake words of devices' connections.
    pub device: DeviceSettings,
    /// Bounds of the queues within a connection.
    pub lanes: LaneSizes,
    /// How many turns may run at once.
    pub admission: AdmissionSettings,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Keys that the environment set, which wins over changes at run time.
    #[serde(skip)]
    pub from_environment: BTreeSet<String>,
}
