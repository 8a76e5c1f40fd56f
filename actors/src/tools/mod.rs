//! Tools between the model and wherever they live: names and descriptions, checking and running
//! of calls, and what devices need beyond the protocol. Not for when a model may call, which is
//! the turn's part; nor for sources outside a device.
//!
//! Reading order: [`toolbox`], [`interner`], [`names`], [`calls`], [`finishing`], [`schema`], `looking`, [`outcome`], then the device: [`device`],
//! [`link`], [`repair`], [`iot`].

pub mod calls;
pub mod device;
pub mod finishing;
mod image_description;
pub mod iot;
pub mod link;
pub mod names;
pub mod outcome;
pub mod repair;
pub mod schema;
pub mod toolbox;
pub mod toolset_interner;

use std::sync::Arc;
use std::time::Duration;

use hearken_proto::ids::{DeviceId, SessionId};

pub use finishing::Finishing;
pub use toolbox::{Offer, SourceProvider, Toolbox};
pub use toolset_interner::ToolsetInterner;

/// How tools are offered and called.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSettings {
    /// Rounds of calls in a turn; then the model must answer with what it has.
    pub max_rounds: usize,
    /// Most tools offered to the model; OpenAI takes 128, and 0 offers none.
    pub max_tools: usize,
    /// Calls that begin in a turn end within this time of its first.
    pub turn_total: Duration,
    /// Longest wait for an answer of a device; its camera takes up to 30 s (its own HTTP limit).
    pub device_timeout: Duration,
    /// Devices are asked for the tools meant for people too, such as a restart.
    pub user_tools: bool,
    /// As whom devices are greeted.
    pub introduction: Introduction,
    /// Longest result given to the model, in bytes; what is beyond is cut.
    pub max_result_bytes: usize,
    /// A tool that takes longer is bridged by a phrase.
    pub filler_after: Duration,
    /// Silence after which another phrase follows.
    pub filler_again: Duration,
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            max_rounds: 10,
            max_tools: 128,
            turn_total: Duration::from_secs(120),
            device_timeout: Duration::from_secs(30),
            user_tools: false,
            introduction: Introduction::default(),
            max_result_bytes: 8_192,
            filler_after: Duration::from_millis(1_500),
            filler_again: Duration::from_millis(3_000),
        }
    }
}

/// As whom devices' MCP servers are greeted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// What we call ourselves.
    pub name: String,
    /// The version of MCP that we ask for.
    pub protocol_version: String,
}

impl Default for Introduction {
    /// In the version that devices' firmware speaks.
    fn default() -> Self {
        Self { name: "hearken".into(), protocol_version: "2024-11-05".into() }
    }
}

/// Where a device's camera sends its pictures, and what lets it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vision {
    /// The endpoint's URL.
    pub url: String,
    /// Bearer token of this device.
    pub token: String,
}

/// Gives each conversation, when it begins, what gives the sources of tools that it has beside the
/// device's own. That is dropped when the conversation is over; it is asked before each round of a
/// turn, so that it must not wait for anything.
pub type SourceLookup = Arc<dyn Fn(&DeviceId, &SessionId) -> SourceProvider + Send + Sync>;

/// Gives each device its way to the vision endpoint.
pub type VisionLookup = Arc<dyn Fn(&DeviceId) -> Vision + Send + Sync>;
