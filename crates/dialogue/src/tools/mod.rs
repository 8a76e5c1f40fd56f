//! Tools between the model and their sources: names and descriptions, checking and executing calls.
//! Not for deciding when a model may call, which is up to the turn. Not for sources.
//!
//! Reading order: [`definition`], `offer`, `allotment`, [`toolbox`], [`toolset_interner`], [`names`], [`risk`],
//! [`held_call`], [`tools_read`], [`policy`], [`consent`], `act`, `arguments`, `secret_arguments`,
//! [`parsed_arguments`], [`calls`], [`finishing`], [`schema`], `image_description`, [`outcome`].

mod act;
mod allotment;
mod arguments;
pub mod calls;
pub mod consent;
pub mod definition;
pub mod finishing;
pub mod held_call;
mod image_description;
pub mod names;
mod offer;
pub mod outcome;
pub mod parsed_arguments;
pub mod policy;
pub mod risk;
pub mod schema;
mod secret_arguments;
pub mod speakers;
pub mod toolbox;
pub mod tools_read;
pub mod toolset_interner;
pub mod waiting;

use std::sync::Arc;
use std::time::Duration;

use hearken_base::reloadable::Reloadable;
use hearken_proto::ids::{DeviceId, SessionId};

pub use allotment::allot;
pub use consent::ConsentSettings;
pub use finishing::FinishingCalls;
pub use held_call::{ConversationVersion, HeldCall};
pub use offer::Offer;
pub use policy::{ToolPolicies, ToolPolicy};
pub use toolbox::{SourceProvider, Toolbox};
pub use toolset_interner::{PeerTools, ToolsetInterner};

/// Settings for offering and calling tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSettings {
    /// Maximum number of rounds of calls in a turn. After that, the model must answer with the
    /// results so far.
    pub max_rounds: usize,
    /// Maximum number of tools offered to the model. OpenAI accepts 128; 0 offers none.
    pub max_tools: usize,
    /// Time limit for all calls of a turn, from its first call.
    pub turn_total: Duration,
    /// Maximum wait for an answer of a device. Its camera takes up to 30 s (its own HTTP limit).
    pub device_timeout: Duration,
    /// Set to also request the device's tools that are meant for people, such as a restart.
    pub user_tools: bool,
    /// Identity in the greeting of devices.
    pub introduction: Introduction,
    /// Maximum size of a result for the model, in bytes. Longer results are cut.
    pub max_result_bytes: usize,
    /// Silence during a tool call before the first filler phrase.
    pub filler_after: Duration,
    /// Silence before a further filler phrase.
    pub filler_again: Duration,
    /// Which tools a model may call, and which need the person's consent; may change at run time.
    pub policies: Reloadable<ToolPolicies>,
    /// Questions for consent, and the words that agree.
    pub consent: ConsentSettings,
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
            policies: Reloadable::default(),
            consent: ConsentSettings::default(),
        }
    }
}

/// Identity in the greeting of devices' MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Client name.
    pub name: String,
    /// Requested MCP version.
    pub protocol_version: String,
}

impl Default for Introduction {
    /// Uses the version of the devices' firmware.
    fn default() -> Self {
        Self { name: "hearken".into(), protocol_version: "2024-11-05".into() }
    }
}

/// Returns the provider of extra tool sources for a conversation when it starts. The provider is
/// dropped when the conversation ends. It is called before each round of a turn and must not block.
pub type SourceLookup = Arc<dyn Fn(&DeviceId, &SessionId) -> SourceProvider + Send + Sync>;

/// Endpoint for a device's camera pictures, with its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vision {
    /// URL of the endpoint.
    pub url: String,
    /// Bearer token of this device.
    pub token: String,
}

/// Returns the vision endpoint of a device.
pub type VisionLookup = Arc<dyn Fn(&DeviceId) -> Vision + Send + Sync>;
