//! Traits that the outside must implement. Implementations are in other crates, scripted test
//! doubles in `testkit`. These traits break the dependency cycle between the pipeline and its
//! vendors:
//!
//! ```text
//!      proto  <----------  actors (these traits)  <----------  hearken (providers, recorder)
//! ```
//!
//! Rules for every port: object safe; futures are `Send`; dropping a stream or future cancels the
//! work behind it; user text is never logged. Retry and fallback are implementations that wrap
//! others: callers do not notice them.

pub mod asr;
pub mod chat;
pub mod error;
pub mod events;
pub mod image_describer;
pub mod llm;
pub mod locks;
pub mod recording_sink;
pub mod service_state;
pub mod sessions;
pub mod speaker_embedder;
pub mod state;
pub mod tool_clients;
pub mod tools;
pub mod tts;
pub mod turn_detector;

pub use asr::{Asr, AsrStream, Transcript, UtteranceSpec};
pub use chat::{
    ChatStore, KeptMessage, KeptTurn, KnownRequest, PendingEvent, RequestKey, SessionFilter,
    SessionPage, StorageUsage, StoreOutcome,
};
pub use error::{BoxError, ProviderError, ProviderErrorKind};
pub use events::{EventBus, KEPT_EVENTS, Published, Watch};
pub use image_describer::{ImageDescriber, Picture};
pub use llm::{
    ChatMessage, Llm, LlmDelta, OfferedTool, Prompt, Role, ToolChoice, ToolRequest, Usage,
};
pub use locks::{SessionLock, SessionLocks};
pub use recording_sink::{RecordedFrame, RecordingSink};
pub use service_state::ServiceState;
pub use sessions::{KeptSession, SessionStore};
pub use speaker_embedder::SpeakerEmbedder;
pub use state::{StateError, StateEvent, StateOutcome, StateServer};
pub use tool_clients::{LocalToolClient, RemoteCall, RemoteToolClient, ToolClients};
pub use tools::{Provenance, Tool, ToolCall, ToolContent, ToolError, ToolOutput, ToolSource};
pub use tts::{Line, Pcm, Tts};
pub use turn_detector::TurnDetector;
