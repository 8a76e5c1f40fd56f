//! Words that answers take from a fixed set which no type with a description has: those of enums of crates that do not know
//! OpenAPI, and of columns of the store. For the description of the API only: answers are built of the enums themselves, or of
//! what is stored.

use hearken_ports::ProviderErrorKind;
use serde::Serialize;
use utoipa::ToSchema;

/// State of a service that the server depends on.
// The crates of these enums stay free of OpenAPI, so their words are here a second time. Decision 0080.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceState {
    /// It works.
    Ready,
    /// A part of it failed.
    Degraded,
    /// It failed.
    Down,
}

/// Why a service does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceFailure {
    /// It refuses the key.
    Unauthorized,
    /// It gets too many requests.
    RateLimited,
    /// It refuses requests that another service answers.
    BadRequest,
    /// It takes no requests of this length.
    TooLarge,
    /// It does not serve this account, or has no such model or address.
    NotServed,
    /// It does not answer in time.
    Timeout,
    /// It cannot be reached, or is down or full.
    Unavailable,
    /// It fails by itself (status 500).
    Fault,
    /// It answers what its protocol does not allow.
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
    /// Dead, about to be restarted.
    Restarting,
}

/// State of the Redis that instances share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RedisState {
    /// Redis answers.
    Ok,
    /// Redis is lost. This instance works alone.
    Lost,
}

/// What a model may do with a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolPolicy {
    /// Call it at once.
    Allow,
    /// Call it after the person has agreed.
    Ask,
    /// Nothing: it is not offered.
    Never,
}

/// Kind of a turn's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnKind {
    /// A device.
    Voice,
    /// A client of the LLM gateway.
    Text,
    /// An application with a chat session.
    Chat,
}

/// What a turn is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// The person speaks.
    Listening,
    /// They have no answer yet.
    Thinking,
    /// The answer is played, or sent.
    Speaking,
    /// Nothing more.
    Ended,
}

/// What became of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnOutcome {
    /// It was answered.
    Answered,
    /// Its answer was cut.
    Interrupted,
    /// There was nothing to answer.
    Silent,
    /// A stage failed.
    Failed,
    /// The server had no capacity, or a limit was reached.
    Refused,
}

/// How much is kept of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Nothing.
    Off,
    /// What was said, as text.
    Text,
    /// The sound, too.
    Audio,
}

/// What voice does while an answer is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterruptionManner {
    /// It pauses the answer until it is known what was said.
    Pause,
    /// It ends the answer.
    Cut,
}

/// Whose limit is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitOf {
    /// That of one device.
    Device,
    /// That of all that have a role, together.
    Role,
    /// That of everybody together.
    Total,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limited {
    /// Tokens read and written.
    Tokens,
    /// Seconds of speech, heard and said.
    Seconds,
    /// Money.
    Cost,
}

/// Kind of clients by which use is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageKind {
    /// Devices.
    Voice,
    /// Clients of the LLM gateway.
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
    /// It connected to the endpoint.
    Endpoint,
    /// It is this server itself.
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
    /// Connected by itself to the endpoint.
    Endpoint,
    /// Part of this server.
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
    use hearken_ports::ServiceState;
    use hearken_ports::role::{InterruptionManner, Keep};
    use hearken_ports::usage::{LimitOf, Limited};
    use hearken_tool_sources::{Origin, SourceKind, ToolProtocol};
    use serde_json::json;

    fn same<T>(word: T) -> T {
        word
    }

    /// Compares the words of enums of the same name. Does not compile while the server has one that is not described.
    macro_rules! check {
        ($($of:ident, $word:expr => $($name:ident)*;)*) => {$({
            let described = |real: $of| match real {
                $($of::$name => json!(super::$of::$name)),*
            };
            $(assert_eq!(described($of::$name), json!($word($of::$name)));)*
        })*};
    }

    #[test]
    fn words_are_those_that_are_sent() {
        check! {
            ServiceState, same => Ready Degraded Down;
            EngineState, same => Starting Ready Restarting;
            RedisState, same => Ok Lost;
            TurnKind, TurnKind::name => Voice Text Chat;
            TurnState, TurnState::name => Listening Thinking Speaking Ended;
            TurnOutcome, TurnOutcome::name => Answered Interrupted Silent Failed Refused;
            Keep, same => Off Text Audio;
            InterruptionManner, same => Pause Cut;
            LimitOf, same => Device Role Total;
            Limited, same => Tokens Seconds Cost;
            SourceKind, same => Http WebSocket Stdio Endpoint Builtin;
            Origin, same => Configuration Api Endpoint Builtin;
            ToolProtocol, same => Mcp LiteMcp;
        }
    }
}
