//! Traits that other crates implement, and the data that they carry. Implementations and callers do
//! not depend on each other:
//!
//! ```text
//!      proto, base  <--  ports  <--  dialogue, actors, chat, text-gateway   (they call)
//!                               <--  providers, store, tool-sources, cluster (they implement)
//! ```
//!
//! Rules for every port: object safe; futures are `Send`; dropping a stream or future cancels the
//! work behind it; user text is never logged. Retry and fallback are implementations that wrap
//! others, invisible to callers.

pub mod asr;
pub mod chat;
mod devices;
pub mod error;
pub mod events;
pub mod image_describer;
pub mod llm;
pub mod locks;
pub mod people;
mod provider_metrics;
pub mod recording_sink;
pub mod reply_language;
pub mod role;
pub mod service_state;
pub mod sessions;
pub mod source_names;
pub mod speaker_embedder;
pub mod state;
pub mod store;
pub mod token_estimate;
pub mod tool_clients;
pub mod tool_limits;
pub mod tools;
pub mod tts;
pub mod turn_detector;
pub mod usage;
pub mod vendor_fields;

pub use asr::{Asr, AsrStream, Transcript, UtteranceSpec, within_transcript};
pub use chat::{
    ChatStore, KeptMessage, KeptTurn, KnownRequest, PendingEvent, RefusedUntil, RequestKey,
    SessionFilter, SessionPage, StorageUsage, StoreOutcome,
};
pub use devices::{ConnectedDevice, Devices, Unreachable};
pub use error::{BoxError, ProviderError, ProviderErrorKind};
pub use events::{
    EVENTS_KEPT_FOR, EventBus, KEPT_EVENT_BYTES, KEPT_EVENTS, MAX_EVENT_BYTES, Published, Watch,
};
pub use image_describer::{Described, ImageDescriber, Picture};
pub use llm::{
    ChatMessage, EarlierWords, InstantScope, Llm, LlmDelta, OfferedTool, Prompt, Role, ToolChoice,
    ToolRequest, TurnLanguage, Usage,
};
pub use locks::{SessionLock, SessionLocks};
pub use people::{Exchange, Person, PersonId, PersonMemory, PersonOutcome, PersonStore};
pub use provider_metrics::{PROVIDER_SECONDS, ProviderEnd, ProviderMetrics};
pub use recording_sink::{RecordedFrame, RecordingSink};
pub use service_state::{ServiceHealth, ServiceState};
pub use sessions::{KeptSession, SessionStore};
pub use speaker_embedder::SpeakerEmbedder;
pub use state::{StateError, StateEvent, StateOutcome, StateServer};
pub use tool_clients::{LocalToolClient, RemoteCall, RemoteToolClient, ToolClients};
pub use tools::{
    NOT_CALLED, Provenance, Tool, ToolCall, ToolContent, ToolError, ToolOutput, ToolSource,
};
pub use tts::{Line, Pcm, Tts};
pub use turn_detector::TurnDetector;
