//! What the outside must supply, as traits; implementations live in the root package, scripted
//! doubles in `testkit`. This is where the cycle between the pipeline and its vendors is
//! broken:
//!
//! ```text
//!      proto  <----------  actors (these traits)  <----------  hearken (providers, recorder)
//! ```
//!
//! Rules for every port: object safe; futures are `Send`; dropping a stream or future cancels the
//! work behind it; user text is never logged; retry and fallback are implementations that wrap
//! others, so callers never see them.

pub mod asr;
pub mod error;
pub mod llm;
pub mod sessions;
pub mod sight;
pub mod tap;
pub mod tools;
pub mod tts;

pub use asr::{Asr, AsrStream, Transcript, UtteranceSpec};
pub use error::{BoxError, ProviderError, ProviderErrorKind};
pub use llm::{ChatMessage, Llm, LlmDelta, OfferedTool, Prompt, Role, ToolRequest};
pub use sessions::{KeptSession, SessionStore};
pub use sight::{Picture, Sight};
pub use tap::{SessionTap, TapFrame};
pub use tools::{Tool, ToolCall, ToolContent, ToolError, ToolOutput, ToolSource};
pub use tts::{Line, Pcm, Tts};
