//! Vocabulary of turn traces: stages, events, states and outcomes, and the kinds of clients. Not
//! for the times.

/// Stage of the work on a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The person speaks.
    Speech,
    /// They are silent, but may not have finished.
    Silence,
    /// The recogniser finishes after that.
    Recognition,
    /// A speculative answer is in progress.
    Speculation,
    /// The turn waits for the previous one.
    Admission,
    /// The prompt is built.
    Prompt,
    /// The model has not produced any output yet.
    ModelFirstWord,
    /// The model continues.
    Model,
    /// A rule answers in place of the model.
    Rule,
    /// Tools are running.
    Tool,
    /// The synthesiser has not produced any audio of a sentence yet.
    VoiceFirstSound,
    /// The synthesiser continues the sentence.
    Voice,
    /// Audio is buffered, so that stalls of the synthesiser are not heard.
    Prebuffer,
    /// The device prepares to play.
    StartGuard,
    /// The device plays.
    Playback,
}

impl Stage {
    /// Returns its name in JSON and in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Speech => "speech",
            Self::Silence => "silence",
            Self::Recognition => "recognition",
            Self::Speculation => "speculation",
            Self::Admission => "admission",
            Self::Prompt => "prompt",
            Self::ModelFirstWord => "model_first_word",
            Self::Model => "model",
            Self::Rule => "rule",
            Self::Tool => "tool",
            Self::VoiceFirstSound => "voice_first_sound",
            Self::Voice => "voice",
            Self::Prebuffer => "prebuffer",
            Self::StartGuard => "start_guard",
            Self::Playback => "playback",
        }
    }
}

/// Event at one point of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceEvent {
    /// The first packet of its speech was sent, or the first words of its text.
    FirstPacket,
    /// A person speaks during playback.
    Interrupted,
    /// Playback resumes after that.
    Resumed,
    /// It was cut.
    Cut,
}

impl TraceEvent {
    /// Returns its name in JSON and in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstPacket => "first_packet",
            Self::Interrupted => "interrupted",
            Self::Resumed => "resumed",
            Self::Cut => "cut",
        }
    }
}

/// Kind of a turn's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientKind {
    /// A device, which speaks and plays.
    Voice,
    /// A client of the text gateway.
    Text,
    /// An application with a chat session.
    Chat,
}

impl ClientKind {
    /// Returns its name in JSON and in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Voice => "voice",
            Self::Text => "text",
            Self::Chat => "chat",
        }
    }
}

/// Current activity of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnState {
    /// The person speaks.
    Listening,
    /// They have no answer yet.
    Thinking,
    /// The answer is being played, or sent.
    Speaking,
    /// The turn has ended.
    Ended,
}

impl TurnState {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Listening => "listening",
            Self::Thinking => "thinking",
            Self::Speaking => "speaking",
            Self::Ended => "ended",
        }
    }
}

/// Outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// Its answer was cut.
    Interrupted,
    /// There was nothing to answer, or its words were answered with the next ones.
    Silent,
    /// A stage failed.
    Failed,
    /// The server had no capacity.
    Refused,
}

impl Outcome {
    /// Returns its name in JSON and in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Interrupted => "interrupted",
            Self::Silent => "silent",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}
