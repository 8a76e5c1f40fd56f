//! What one connection asks for, carried out one request after the other: each is answered in a
//! session, which remembers it. Exactly one message ends a request. Not for the socket.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use hearken_proto::gateway::{CallShown, Configure, ErrorCode, ServerMessage, Status};
use hearken_proto::ids::SessionId;
use tokio::sync::mpsc;

use super::client_tools::ClientTools;
use super::sessions::{SessionLost, Sessions, TextSession};
use super::writing::{Writing, code_of};
use super::{ConversationDesk, GatewaySettings};
use crate::audio::playout::Heard;
use crate::dialogue::parts::Parts;
use crate::dialogue::run_turn::answer;
use crate::dialogue::{LocalTime, Memory, Turn, TurnEnd, TurnError, TurnRecord};
use crate::live::Live;
use crate::meters::meters;
use crate::ports::{
    ChatMessage, Llm, Prompt, ProviderErrorKind, Role, Sight, ToolError, ToolSource,
};
use crate::tools::{Others, Toolbox};

/// What all connections share.
#[derive(Clone)]
pub struct GatewayDesk {
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// The server's tools for each session.
    pub tools: ConversationDesk,
    /// What looks at pictures that tools answer with, where there is any.
    pub sight: Option<Arc<dyn Sight>>,
    /// The date and time that the model is told.
    pub now: LocalTime,
    /// How text clients are served.
    pub settings: Live<GatewaySettings>,
}

/// How a connection wants its requests answered; what it did not choose is the server's.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Preferences {
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    enable_context: Option<bool>,
    pub(super) stream: bool,
}

impl Preferences {
    pub(super) fn change(&mut self, wanted: &Configure) {
        self.temperature = wanted.temperature.or(self.temperature);
        self.max_tokens = wanted.max_tokens.or(self.max_tokens);
        self.enable_context = wanted.enable_context.or(self.enable_context);
        self.stream = wanted.stream.unwrap_or(self.stream);
    }
}

/// Something that is done in a session, in its turn.
#[derive(Debug)]
pub(super) enum Request {
    /// Answer this, in the connection's session or another.
    Answer { text: String, session_id: Option<SessionId>, preferences: Preferences },
    /// Go on with this session, or a new one.
    Start { session_id: Option<SessionId> },
    /// End the session.
    End,
    /// Talk after these instructions in this session.
    Instruct { system_prompt: String },
}

/// A session as one connection has it. Calls that are to finish though their turn is cut live as
/// long as this does.
#[derive(Clone)]
pub(super) struct Conversation {
    session: Arc<TextSession>,
    /// The client's tools, and the server's for this session.
    toolbox: Arc<Toolbox>,
}

impl Conversation {
    pub(super) fn session_id(&self) -> SessionId {
        self.session.id().clone()
    }
}

/// One connection's end of the work.
pub(super) struct Counter {
    pub(super) desk: GatewayDesk,
    pub(super) tools: ClientTools,
    pub(super) outbox: mpsc::Sender<ServerMessage>,
}

impl Counter {
    /// Carries out one request, and gives the conversation that the connection has then.
    pub(super) async fn serve(
        &self,
        own: Conversation,
        turn: &Turn,
        request: Request,
    ) -> Conversation {
        let sessions = &self.desk.sessions;
        match request {
            Request::Answer { text, session_id, preferences } => {
                let own = match self.session(&own.session, session_id).await {
                    Ok(session) => self.go_on(own, session),
                    Err(lost) => {
                        self.tell(lost_session(&lost)).await;
                        return own;
                    }
                };
                self.tell(ServerMessage::Status(Status::Processing)).await;
                let work = AssertUnwindSafe(self.answer(&own, turn, text, preferences));
                let last = work.catch_unwind().await.unwrap_or_else(|_| {
                    tracing::error!(session = %own.session.id(), "a request broke off");
                    let message = "Something went wrong inside the server";
                    ServerMessage::error(ErrorCode::InternalError, message)
                });
                self.tell(last).await;
                own
            }
            Request::Start { session_id: None } => self.connected(own, sessions.begin()).await,
            Request::Start { session_id: Some(id) } => match sessions.find(&id).await {
                Ok(found) => self.connected(own, found).await,
                Err(lost) => {
                    self.tell(lost_session(&lost)).await;
                    own
                }
            },
            Request::End => {
                let next = self.end(&own.session).await;
                self.go_on(own, next)
            }
            Request::Instruct { system_prompt } => {
                let session = self.session(&own.session, None).await;
                let session = session.unwrap_or_else(|_| Arc::clone(&own.session));
                let memory = sessions.enter(&session).await;
                session.manner().system_prompt = system_prompt;
                self.keep(&session, &memory).await;
                drop(memory);
                self.go_on(own, session)
            }
        }
    }

    /// The conversation in this session: the connection's own, where it is the same.
    fn go_on(&self, own: Conversation, session: Arc<TextSession>) -> Conversation {
        if Arc::ptr_eq(&own.session, &session) { own } else { self.converse(session) }
    }

    async fn tell(&self, message: ServerMessage) {
        // Who has left needs no answer.
        self.outbox.send(message).await.unwrap_or_default();
    }

    async fn connected(&self, own: Conversation, session: Arc<TextSession>) -> Conversation {
        self.tell(ServerMessage::Status(Status::Connected(session.id().clone()))).await;
        self.go_on(own, session)
    }

    async fn end(&self, session: &TextSession) -> Arc<TextSession> {
        if let Err(error) = self.desk.sessions.end(session).await {
            tracing::warn!(error, session = %session.id(), "a session that ended is still kept");
        }
        let next = self.desk.sessions.begin();
        let (session_id, ended_session_id) = (next.id().clone(), session.id().clone());
        self.tell(ServerMessage::Status(Status::Idle { session_id, ended_session_id })).await;
        next
    }

    /// The session that a request is for. A connection whose own session is over begins another,
    /// unless the request names it.
    async fn session(
        &self,
        own: &Arc<TextSession>,
        wanted: Option<SessionId>,
    ) -> Result<Arc<TextSession>, SessionLost> {
        let sessions = &self.desk.sessions;
        match wanted {
            Some(id) if id != *own.id() || !sessions.is_alive(own) => sessions.find(&id).await,
            None if !sessions.is_alive(own) => Ok(sessions.begin()),
            _ => Ok(Arc::clone(own)),
        }
    }

    async fn keep(&self, session: &TextSession, memory: &Memory) {
        if let Err(error) = self.desk.sessions.keep(session, memory).await {
            tracing::warn!(error, session = %session.id(), "a session cannot be kept");
        }
    }

    /// Answers, and gives the message that ends the request.
    async fn answer(
        &self,
        Conversation { session, toolbox }: &Conversation,
        turn: &Turn,
        text: String,
        preferences: Preferences,
    ) -> ServerMessage {
        let mut memory = tokio::select! {
            biased;
            () = turn.cancelled() => return cancelled(String::new(), Vec::new()),
            memory = self.desk.sessions.enter(session) => memory,
        };
        if session.has_ended() {
            return lost_session(&SessionLost::Unknown(session.id().clone()));
        }
        let prompt = self.prompt(session, &memory, &text, preferences);
        let mut writing = Writing::new(turn, &self.outbox, preferences.stream);
        let mut rounds = Vec::new();
        let outcome = answer(&mut writing, prompt, &*self.desk.llm, toolbox, &mut rounds).await;
        let outcome = match outcome {
            Ok(()) if writing.parts.content.is_empty() && turn.is_live() => Err(TurnError::NoWords),
            other => other,
        };
        let Writing { parts: Parts { content, said, .. }, calls, .. } = writing;
        let (end, last) = match outcome {
            _ if !turn.is_live() => (TurnEnd::Interrupted, cancelled(content, calls)),
            Ok(()) => {
                let last =
                    ServerMessage::LlmResponse { content, tool_calls: calls, cancelled: false };
                (TurnEnd::Completed, last)
            }
            Err(error) => {
                let last = failed(&error, &calls);
                (TurnEnd::Failed(error), last)
            }
        };
        meters().turns.count(&end);
        if !matches!(end, TurnEnd::Failed(_)) {
            let record = TurnRecord { user: Some(text), said, rounds, end };
            memory.commit(&record, Heard::ALL);
            // On disk before the client hears of it.
            self.keep(session, &memory).await;
        }
        last
    }

    /// A conversation in this session.
    pub(super) fn converse(&self, session: Arc<TextSession>) -> Conversation {
        let desk = &self.desk;
        let (id, manner) = (session.id().clone(), Arc::clone(session.shared_manner()));
        let others: Others = if desk.settings.get().server_tools {
            let tools = Arc::clone(&desk.tools);
            Arc::new(move || tools(&id, &manner))
        } else {
            Arc::new(Vec::new)
        };
        let own: Vec<Arc<dyn ToolSource>> = vec![Arc::new(self.tools.clone())];
        let toolbox = Toolbox::new(own, others, desk.settings.get().tools.clone());
        Conversation { session, toolbox: Arc::new(toolbox.with_sight(desk.sight.clone())) }
    }

    fn prompt(
        &self,
        session: &TextSession,
        memory: &Memory,
        text: &str,
        preferences: Preferences,
    ) -> Prompt {
        let desk = &self.desk;
        let settings = desk.settings.get();
        let system = session.manner().instructions(&settings.system_prompt, &(desk.now)());
        let mut messages = vec![ChatMessage::new(Role::System, system)];
        if preferences.enable_context.unwrap_or(settings.enable_context) {
            messages.extend(memory.messages().iter().cloned());
        }
        messages.push(ChatMessage::new(Role::User, text));
        let temperature = preferences.temperature.unwrap_or(settings.temperature);
        let max_tokens = preferences.max_tokens.unwrap_or(settings.max_tokens);
        Prompt { messages, max_tokens, temperature, ..Prompt::default() }
    }
}

fn cancelled(content: String, tool_calls: Vec<CallShown>) -> ServerMessage {
    ServerMessage::LlmResponse { content, tool_calls, cancelled: true }
}

/// What a client is told of a session that it cannot have.
pub(super) fn lost_session(lost: &SessionLost) -> ServerMessage {
    match lost {
        SessionLost::Unknown(_) => ServerMessage::error(ErrorCode::SessionError, lost.to_string()),
        SessionLost::Store(error) => {
            tracing::warn!(error, "a session cannot be looked up");
            ServerMessage::error(ErrorCode::InternalError, lost.to_string())
        }
    }
}

/// What a client is told of a turn that failed. One without words after a tool failed is that
/// tool's failure.
fn failed(error: &TurnError, calls: &[hearken_proto::gateway::CallShown]) -> ServerMessage {
    tracing::warn!(%error, cause = std::error::Error::source(error).map(tracing::field::display), "a request failed");
    let failure = calls.last().filter(|call| matches!(error, TurnError::NoWords) && !call.success);
    if let Some(call) = failure {
        return ServerMessage::Error {
            code: call.code.unwrap_or(ErrorCode::ToolExecutionFailed),
            message: format!("Tool `{}` failed", call.tool_name),
            details: call.error.clone().unwrap_or_default(),
        };
    }
    let (code, message) = match error {
        TurnError::Llm(e) if e.kind == ProviderErrorKind::Timeout => {
            (ErrorCode::Timeout, "The language model did not answer in time".to_owned())
        }
        TurnError::Tool { tool, error } => {
            let source = calls.iter().rfind(|c| c.tool_name == *tool).map(|c| c.source.as_str());
            let code = code_of(error, source.unwrap_or_default());
            (code, timed_out(tool, error, code))
        }
        TurnError::Llm(_)
        | TurnError::NoWords
        | TurnError::TooManyRounds
        | TurnError::Recognition => (ErrorCode::LlmError, "Failed to process request".to_owned()),
    };
    // The log tells more; a client need not know where the model is.
    let details = match error {
        TurnError::Llm(e) => e.kind.to_string(),
        TurnError::Tool { error, .. } => error.to_string(),
        other => other.to_string(),
    };
    ServerMessage::Error { code, message, details }
}

fn timed_out(tool: &str, error: &ToolError, code: ErrorCode) -> String {
    match code {
        ErrorCode::ToolResultTimeout => format!("Tool execution timeout: `{tool}`"),
        _ => format!("Tool `{tool}` failed: {error}"),
    }
}
