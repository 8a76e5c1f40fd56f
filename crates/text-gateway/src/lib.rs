//! The text gateway: the actor of a text client's socket, its requests, sessions and tools. Not for devices.
//!
//! Reading order: [`text_client`], `outbox`, [`requests`], `conversation`, `text_output`, `failures`,
//! `client_tools`, [`sessions`], [`session`].

mod client_tools;
mod conversation;
mod failures;
mod outbox;
pub mod requests;
pub mod session;
pub mod sessions;
mod settings;
pub mod text_client;
mod text_output;

use std::sync::Arc;

use hearken_dialogue::SharedStyle;
use hearken_ports::ToolSource;
use hearken_proto::ids::SessionId;

pub use requests::TextGateway;
pub use session::{InUse, TextSession};
pub use sessions::Sessions;
pub use settings::TextGatewaySettings;

/// Returns the server's tool sources for a session. Called before each round of a turn; must not
/// block.
pub type ConversationSources =
    Arc<dyn Fn(&SessionId, &SharedStyle) -> Vec<Arc<dyn ToolSource>> + Send + Sync>;
