//! Words of fixed sets in responses for which no described type exists: those of enums in crates
//! without OpenAPI, and of columns of the store. For the API description only: responses are built
//! from the enums themselves, or from stored values.

use hearken_ports::ProviderErrorKind;
use serde::Serialize;
use utoipa::ToSchema;

/// State of a service that the server depends on.
// The crates of these enums are free of OpenAPI, so their words are repeated here. Decision 0080.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceState {
    /// The service works.
    Ready,
    /// Part of the service failed.
    Degraded,
    /// The service failed.
    Down,
}

/// Reason why a service does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceFailure {
    /// The service refuses the key.
    Unauthorized,
    /// The service receives too many requests.
    RateLimited,
    /// The service refuses requests that another service accepts.
    BadRequest,
    /// The service refuses requests of this length.
    TooLarge,
    /// The service does not serve this account, or has no such model or address.
    NotServed,
    /// The service does not answer in time.
    Timeout,
    /// The service cannot be reached, or is down or full.
    Unavailable,
    /// The service has an internal error (status 500).
    Fault,
    /// The service violates its protocol.
    Protocol,
}

impl From<ProviderErrorKind> for ServiceFailure {
    fn from(kind: ProviderErrorKind) -> Self {
        match kind {
            ProviderErrorKind::Unauthorized => Self::Unauthorized,
            ProviderErrorKind::RateLimited => Self::RateLimited,
            ProviderErrorKind::BadRequest => Self::BadRequest,
            ProviderErrorKind::TooLarge => Self::TooLarge,
            ProviderErrorKind::NotServed => Self::NotServed,
            ProviderErrorKind::Timeout => Self::Timeout,
            ProviderErrorKind::Unavailable => Self::Unavailable,
            ProviderErrorKind::Fault => Self::Fault,
            ProviderErrorKind::Protocol => Self::Protocol,
        }
    }
}

/// State of an engine that the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineState {
    /// Started, not yet ready.
    Starting,
    /// Ready.
    Ready,
    /// Terminated; about to be restarted.
    Restarting,
}

/// State of the Redis that instances share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RedisState {
    /// Redis answers.
    Ok,
    /// Redis does not answer: this instance works alone.
    Lost,
}

/// Policy for a model's calls of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolPolicy {
    /// Called without confirmation.
    Allow,
    /// Called after the user has confirmed.
    Ask,
    /// Never called: not offered to the model.
    Never,
}

/// Kind of a turn's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnKind {
    /// Device.
    Voice,
    /// Client of the text gateway.
    Text,
    /// Application with a chat session.
    Chat,
}

/// State of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// The user is speaking.
    Listening,
    /// The user waits for an answer.
    Thinking,
    /// The answer is being played or sent.
    Speaking,
    /// The turn has ended.
    Ended,
}

/// Outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnOutcome {
    /// The turn was answered.
    Answered,
    /// The answer was interrupted.
    Interrupted,
    /// There was nothing to answer.
    Silent,
    /// A stage failed.
    Failed,
    /// The server was at capacity, or a usage limit was reached.
    Refused,
}

/// Content of turns that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Nothing.
    Off,
    /// Text.
    Text,
    /// Text and audio.
    Audio,
}

/// Effect of speech during an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterruptionManner {
    /// The answer pauses until the words are recognised.
    Pause,
    /// The answer ends.
    Cut,
}

/// Rules that may answer in place of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstantScope {
    /// None.
    Off,
    /// Time, date, arithmetic, "stop" and unambiguous commands.
    Commands,
    /// All.
    #[serde(rename = "all")]
    Whole,
}

/// Scope of a usage limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitOf {
    /// One device.
    Device,
    /// All devices and people with one role, together.
    Role,
    /// All clients together.
    Total,
}

/// Limited quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limited {
    /// Prompt and completion tokens.
    Tokens,
    /// Seconds of speech, recognised and synthesised.
    Seconds,
    /// Cost.
    Cost,
}

/// Kind of clients in usage records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageKind {
    /// Devices.
    Voice,
    /// Clients of the text gateway.
    Text,
    /// Applications with chat sessions.
    Chat,
    /// Museum clients.
    Museum,
    /// Trials of roles and of turns.
    Trial,
}

/// Connection type of a source of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The server connects to it over HTTP.
    Http,
    /// The server connects to it over WebSocket.
    WebSocket,
    /// The server runs it as a child process.
    Stdio,
    /// It connected to the server's endpoint.
    Endpoint,
    /// Built into the server.
    Builtin,
}

/// Origin of a source of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SourceOrigin)]
pub enum Origin {
    /// Defined in the configuration.
    Configuration,
    /// Added over the API.
    Api,
    /// Connected to the server's endpoint.
    Endpoint,
    /// Built into the server.
    Builtin,
}

/// Protocol of a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolProtocol {
    /// The Model Context Protocol, over HTTP or as a program.
    Mcp,
    /// LiteMCP 1.0.0, one tool: over WebSocket, HTTP or as a program.
    LiteMcp,
}

#[cfg(test)]
mod tests {
    use hearken_cluster::RedisState;
    use hearken_dialogue::turn_trace::{ClientKind as TurnKind, Outcome as TurnOutcome, TurnState};
    use hearken_engines::supervise::EngineState;
    use hearken_ports::role::{InterruptionManner, Keep};
    use hearken_ports::usage::{LimitOf, Limited};
    use hearken_ports::{InstantScope, ServiceState};
    use hearken_tool_sources::{Origin, SourceKind, ToolProtocol};
    use serde_json::json;

    fn same<T>(word: T) -> T {
        word
    }

    /// Compares the words of enums of the same name. Does not compile if the server has a word that is not described.
    macro_rules! check {
        ($($of:ident, $word:expr => $($name:ident)*;)*) => {$({
            let described = |real: $of| match real {
                $($of::$name => json!(super::$of::$name)),*
            };
            $(assert_eq!(described($of::$name), json!($word($of::$name)));)*
        })*};
    }

    #[test]
    fn described_words_are_those_in_responses() {
        check! {
            ServiceState, same => Ready Degraded Down;
            EngineState, same => Starting Ready Restarting;
            RedisState, same => Ok Lost;
            TurnKind, TurnKind::name => Voice Text Chat;
            TurnState, TurnState::name => Listening Thinking Speaking Ended;
            TurnOutcome, TurnOutcome::name => Answered Interrupted Silent Failed Refused;
            Keep, same => Off Text Audio;
            InterruptionManner, same => Pause Cut;
            InstantScope, same => Off Commands Whole;
            LimitOf, same => Device Role Total;
            Limited, same => Tokens Seconds Cost;
            SourceKind, same => Http WebSocket Stdio Endpoint Builtin;
            Origin, same => Configuration Api Endpoint Builtin;
            ToolProtocol, same => Mcp LiteMcp;
        }
    }
}
