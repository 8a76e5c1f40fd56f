//! The LLM gateway's dialogue for text clients: their requests, sessions and tools. Not for their
//! socket, which is [`crate::actors::text_client`], nor for devices.
//!
//! Reading order: [`requests`], `text_output`, `failures`, `client_tools`, [`sessions`], [`session`].

pub(crate) mod client_tools;
mod failures;
pub mod requests;
pub mod session;
pub mod sessions;
mod settings;
mod text_output;

use std::sync::Arc;

use hearken_dialogue::SharedStyle;
use hearken_ports::ToolSource;
use hearken_proto::ids::SessionId;

pub use requests::GatewayService;
pub use session::{InUse, TextSession};
pub use sessions::Sessions;
pub use settings::GatewaySettings;

/// Returns the server's tool sources for a session. Called before each round of a turn; must not
/// block.
pub type ConversationSources =
    Arc<dyn Fn(&SessionId, &SharedStyle) -> Vec<Arc<dyn ToolSource>> + Send + Sync>;
