//! Every key of the configuration, with its default: the sections of the server itself, and those
//! whose structs are defined by their owners. [`load`] reads it: the environment takes precedence
//! over the file, and the file over the defaults. It is not passed around as a whole: each part of
//! the server gets its own settings.
//!
//! A new key is a field of its section's struct, with its meaning as the doc comment, its range in
//! `#[schemars(range(...))]` and its default in `Default`. `docs/configuration.md` and
//! `hearken config explain` follow from them. A limit that depends on another key is in
//! [`mod@check`]; a renamed key is in [`names`].

mod admin;
mod auth;
pub mod check;
mod compose;
mod console;
mod devices;
mod document;
mod embedded;
pub mod env;
pub mod error;
mod history;
mod http;
mod instant;
mod llm;
pub mod log;
mod mask;
pub mod names;
mod ota;
mod proxies;
pub mod reader;
pub mod reference;
pub mod schema;
mod server;
pub mod shown;
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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::document::unknown as unknown_key;
pub use admin::AdminConfig;
pub use auth::{AuthConfig, AuthRequired};
pub use console::ConsoleConfig;
pub use devices::{DeviceAdmission, DevicesConfig};
pub use embedded::EmbeddedConfig;
pub use env::{EnvVars, ProcessEnv};
pub use error::ConfigError;
pub use history::HistoryConfig;
pub use http::HttpConfig;
pub use instant::{InstantConfig, InstantMode};
pub use log::{LogConfig, LogFormat};
pub use mask::masked;
pub use ota::OtaConfig;
pub use proxies::{Network, NotANetwork, TrustedProxies};
pub use reader::{Loaded, load, load_text, load_with_origins};
pub use server::ServerConfig;
pub use tls::TlsConfig;
pub use tools::ToolsConfig;
pub use traces::TracesConfig;

/// Whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Listening address, threads, connection limit and data folders of the server process.
    pub server: ServerConfig,
    /// Per-address rate limits, cross-origin access and accepted host names. An IPv6
    /// address counts as its /64 network. Programs on this machine and clients that send
    /// the admin token, `gateway.token`, `chat.token` or `museum.token` are subject to
    /// `requests_per_minute` only. Behind a proxy, set `server.trusted_proxies`;
    /// otherwise all of its clients count as one address.
    pub http: HttpConfig,
    /// TLS for all clients. Without a certificate, the server speaks plain HTTP only. The
    /// files are reloaded when they change and on SIGHUP; open connections are not
    /// interrupted.
    pub tls: TlsConfig,
    /// Access control: device tokens and the admin token.
    pub auth: AuthConfig,
    /// Administrator API at `/api/admin`. `POST /login` with `{"username": "admin",
    /// "password": ...}` returns tokens; `GET` and `PUT /config` read and change some
    /// settings at run time. Such changes take precedence over the configuration file;
    /// environment variables take precedence over both.
    pub admin: AdminConfig,
    /// Web console for administrators, at `/console/`.
    pub console: ConsoleConfig,
    /// Admission of devices that connect from outside this machine and its private
    /// networks, or through a proxy.
    pub devices: DevicesConfig,
    /// Response to devices that boot (OTA address): binding, time zone, WebSocket address
    /// and firmware.
    pub ota: OtaConfig,
    /// Database of devices, bindings and sessions.
    pub store: StoreConfig,
    /// Redis server shared by several instances, so that any instance can handle any
    /// request; see `docs/several-instances.md`.
    pub redis: RedisConfig,
    /// Embedded engines, which run as child processes of the server. An engine is started
    /// only if a URL of `[asr]`, `[tts]` or `[llm]` points at its address.
    pub embedded: EmbeddedConfig,
    /// Speech recognition service (ASR) and its timeouts.
    pub asr: AsrSettings,
    /// Language model service (LLM), its timeouts, prices and fallback models.
    pub llm: LlmSettings,
    /// Speech synthesis service (TTS), its timeouts and its cache.
    pub tts: TtsSettings,
    /// Vision model that describes pictures from device cameras and from tool results.
    pub vision: VisionSettings,
    /// Answers by rule in place of the model, for common commands and for people in danger.
    pub instant: InstantConfig,
    /// Conversations with devices: instructions and memory.
    pub dialogue: DialogueSettings,
    /// Fixed phrases in Chinese and English. An empty phrase is not spoken; the questions
    /// `ask_camera` and `ask_tool` must not be empty.
    pub phrases: Phrases,
    /// Voice activity detection (VAD) and echo handling: when an utterance starts and ends.
    pub hearing: HearingSettings,
    /// End-of-turn detection: in a silence, a model judges from the sound of the speech
    /// whether the person has finished, and selects how long the silence must last. Without
    /// a judgement (no model, or high load), `hearing.silence_ms` applies.
    pub turn_detection: TurnDetectionSettings,
    /// Speaker recognition. People enrol their voice by asking a device, with three
    /// recordings and `hearken people enrol`, or at `/api/persons`; the model then knows
    /// their name, the facts they asked to have remembered, and their last exchanges. A
    /// voice provides a name and a memory, never a permission: recordings and imitations
    /// pass.
    pub speakers: SpeakerSettings,
    /// Speculative answers: in a pause, the recogniser, the language model and the synthesiser
    /// begin to work as if the person had finished. The answer is held back until the turn
    /// is over, and discarded if the person continues; no tool is called before. Early
    /// answers are suspended under high load.
    pub speculation: SpeculationSettings,
    /// Voice during a reply, for devices that listen meanwhile (realtime mode). Voice
    /// pauses the reply, and words end it and are answered; without words, or with words
    /// that only signal listening, it resumes with the first sentence that was not heard.
    /// After a question, and in the last second of a reply, such words count as an answer.
    pub interruption: InterruptionSettings,
    /// Format and timing of the audio that is sent to devices.
    pub speaking: SpeakingSettings,
    /// Tools of the model: limits, calls, confirmation, and remote tool servers.
    pub tools: ToolsConfig,
    /// Text clients of the text gateway, at `ws://HOST:9400/`.
    pub gateway: TextGatewaySettings,
    /// Chat sessions of applications, at `/api/sessions`.
    pub chat: ChatSettings,
    /// State server, which stores the state of the worlds of chat sessions and offers tools
    /// that change it. `hearken-dev state-server` is an example.
    pub state: StateConfig,
    /// Museum clients (MuseumAgent), at `/api/session/register` and `/api/agent/parse`.
    pub museum: MuseumSettings,
    /// Device connections: timeouts, pings and wake words.
    pub device: DeviceSettings,
    /// Queue sizes within a device connection. Larger queues absorb longer stalls and use
    /// more memory.
    pub lanes: LaneSizes,
    /// Overload protection: the number of concurrent device turns, and the rate of turns.
    pub admission: AdmissionSettings,
    /// Journal of the last turns, with their stages and times, for `GET /api/turns` and the
    /// console. It is in memory only.
    pub journal: JournalSettings,
    /// Stored conversations, for `GET /api/history` and the console. All keys can be
    /// changed at run time.
    pub history: HistoryConfig,
    /// Usage accounting and daily limits, for `GET /api/usage` and the console: tokens,
    /// speech and cost by day, device, role and kind of client. Days are those of the
    /// server's time zone (`ota.timezone`). All keys can be changed at run time.
    pub usage: UsageSettings,
    /// OpenTelemetry export: one trace per turn, with a span for each stage. Traces do not
    /// contain what was said.
    pub traces: TracesConfig,
    /// Level and format of the log. It contains neither spoken words nor keys at any level.
    pub log: LogConfig,
    /// Keys set by the environment, which takes precedence over changes at run time.
    #[serde(skip)]
    pub from_environment: BTreeSet<String>,
}
