//! What one connection asks for, carried out one request after the other: each is answered in a
//! session, which remembers it. Exactly one message ends a request. Not for the socket.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use hearken_proto::gateway::{CallShown, Configure, ErrorCode, ServerMessage, Status};
use hearken_proto::ids::SessionId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::client_tools::ClientTools;
use super::session::{InUse, TextSession};
use super::sessions::{SessionLost, Sessions};
use super::text_output::{TextOutput, code_of};
use super::{ConversationSources, GatewaySettings};
use crate::audio::playout::PlayedBack;
use crate::dialogue::parts::Parts;
use crate::dialogue::run_turn::answer;
use crate::dialogue::{LocalTime, Memory, Turn, TurnEnd, TurnError, TurnRecord};
use crate::metrics::meters;
use crate::ports::{
    ChatMessage, ImageDescriber, Llm, Prompt, ProviderErrorKind, Role, ToolError, ToolSource,
};
use crate::reloadable::Reloadable;
use crate::tools::{SourceProvider, Toolbox};

/// What all connections share.
#[derive(Clone)]
pub struct GatewayService {
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// The server's tools for each session.
    pub tools: ConversationSources,
    /// What looks at pictures that tools answer with, where there is any.
    pub describer: Option<Arc<dyn ImageDescriber>>,
    /// The date and time that the model is told.
    pub now: LocalTime,
    /// How text clients are served.
    pub settings: Reloadable<GatewaySettings>,
}

/// How a connection wants its requests answered; what it did not choose is the server's.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Preferences {
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    enable_context: Option<bool>,
    pub(crate) stream: bool,
}

impl Preferences {
    pub(crate) fn change(&mut self, wanted: &Configure) {
        self.temperature = wanted.temperature.or(self.temperature);
        self.max_tokens = wanted.max_tokens.or(self.max_tokens);
        self.enable_context = wanted.enable_context.or(self.enable_context);
        self.stream = wanted.stream.unwrap_or(self.stream);
    }
}

/// Something that is done in a session, in its turn.
#[derive(Debug)]
pub(crate) enum Request {
    /// Answer this, in the connection's session or another.
    Answer { text: String, session_id: Option<SessionId>, preferences: Preferences },
    /// Go on with this session, or a new one.
    Start { session_id: Option<SessionId> },
    /// End the session.
    End,
    /// Talk after these instructions in this session.
    Instruct { system_prompt: String },
}

impl Request {
    /// The session that it names.
    pub(crate) fn named(&self) -> Option<&SessionId> {
        match self {
            Self::Answer { session_id, .. } | Self::Start { session_id } => session_id.as_ref(),
            Self::End | Self::Instruct { .. } => None,
        }
    }
}

/// What somebody wants answered.
struct Question<'a> {
    turn: &'a Turn,
    text: String,
    session_id: Option<SessionId>,
    preferences: Preferences,
}

/// A session as one connection has it. Calls that are to finish though their turn is cut live as
/// long as this does.
#[derive(Clone)]
pub(crate) struct Conversation {
    session: Arc<TextSession>,
    /// The client's tools, and the server's for this session.
    toolbox: Arc<Toolbox>,
}

impl Conversation {
    pub(crate) fn session_id(&self) -> SessionId {
        self.session.id().clone()
    }
}

/// One connection's end of the work.
pub(crate) struct RequestExecutor {
    pub(crate) service: GatewayService,
    pub(crate) tools: ClientTools,
    pub(crate) outbox: mpsc::Sender<ServerMessage>,
    /// Cancelled when the client has left.
    pub(crate) connection: CancellationToken,
}

impl RequestExecutor {
    /// Carries out one request, and gives the conversation that the connection has then.
    pub(crate) async fn serve(
        &self,
        own: Conversation,
        turn: &Turn,
        request: Request,
    ) -> Conversation {
        let sessions = &self.service.sessions;
        match request {
            Request::Answer { text, session_id, preferences } => {
                self.respond(own, Question { turn, text, session_id, preferences }).await
            }
            Request::Start { session_id: None } => self.connected(own, &sessions.begin()).await,
            Request::Start { session_id: Some(id) } => {
                let lost = match sessions.find(&id).await {
                    Ok(found) => {
                        self.note_use(&found).await;
                        if !found.has_ended() {
                            return self.connected(own, &found).await;
                        }
                        SessionLost::Unknown(id)
                    }
                    Err(lost) => lost,
                };
                self.tell(lost_session(&lost)).await;
                own
            }
            Request::End => {
                let next = self.end(&own.session).await;
                self.go_on(own, &next)
            }
            Request::Instruct { system_prompt } => self.instruct(own, system_prompt).await,
        }
    }

    /// Has the connection's own session talked in after these instructions; another, where that is
    /// over before.
    async fn instruct(&self, mut own: Conversation, system_prompt: String) -> Conversation {
        let sessions = &self.service.sessions;
        loop {
            let used;
            (own, used) = self.own(own).await;
            let memory = sessions.using(&used, sessions.enter(&used)).await;
            if used.has_ended() {
                continue;
            }
            used.style().system_prompt = system_prompt;
            self.keep(&used, &memory).await;
            return own;
        }
    }

    /// Answers in the session that is asked for. In place of the connection's own, where that is
    /// over before the answer begins, another is begun and told.
    async fn respond(&self, mut own: Conversation, question: Question<'_>) -> Conversation {
        let sessions = &self.service.sessions;
        let mut is_told = false;
        loop {
            let used;
            (own, used) = match &question.session_id {
                None => self.own(own).await,
                Some(id) => match sessions.find(id).await {
                    Ok(found) => (self.go_on(own, &found), found),
                    Err(lost) => {
                        self.tell(lost_session(&lost)).await;
                        return own;
                    }
                },
            };
            if !is_told {
                self.tell(ServerMessage::Status(Status::Processing)).await;
                is_told = true;
            }
            let work = sessions.using(&used, self.answer(&own, &question));
            let last = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(Some(last)) => last,
                Ok(None) if question.session_id.is_none() => continue,
                Ok(None) => lost_session(&SessionLost::Unknown(used.id().clone())),
                Err(_) => {
                    tracing::error!(session = %used.id(), "a request broke off");
                    let message = "Something went wrong inside the server";
                    ServerMessage::error(ErrorCode::InternalError, message)
                }
            };
            drop(used);
            self.tell(last).await;
            return own;
        }
    }

    /// The connection's own session in use; another, which is told, where it is over.
    async fn own(&self, own: Conversation) -> (Conversation, InUse) {
        match self.service.sessions.find(own.session.id()).await {
            Ok(found) => (self.go_on(own, &found), found),
            Err(lost) => {
                tracing::info!(%lost, "another session is begun");
                let next = self.service.sessions.begin();
                (self.connected(own, &next).await, next)
            }
        }
    }

    /// The conversation in this session: the connection's own, where it is the same.
    fn go_on(&self, own: Conversation, used: &InUse) -> Conversation {
        let session = used.session();
        if Arc::ptr_eq(&own.session, session) { own } else { self.converse(Arc::clone(session)) }
    }

    async fn tell(&self, message: ServerMessage) {
        // Who has left needs no answer.
        self.outbox.send(message).await.unwrap_or_default();
    }

    async fn connected(&self, own: Conversation, used: &InUse) -> Conversation {
        self.tell(ServerMessage::Status(Status::Connected(used.id().clone()))).await;
        self.go_on(own, used)
    }

    async fn end(&self, session: &TextSession) -> InUse {
        if let Err(error) = self.service.sessions.end(session).await {
            tracing::warn!(error, session = %session.id(), "a session that ended is still kept");
        }
        let next = self.service.sessions.begin();
        let (session_id, ended_session_id) = (next.id().clone(), session.id().clone());
        self.tell(ServerMessage::Status(Status::Idle { session_id, ended_session_id })).await;
        next
    }

    async fn note_use(&self, session: &TextSession) {
        if let Err(error) = self.service.sessions.note_use(session).await {
            tracing::warn!(error, session = %session.id(), "a use of a session cannot be kept");
        }
    }

    async fn keep(&self, session: &TextSession, memory: &Memory) {
        if let Err(error) = self.service.sessions.keep(session, memory).await {
            tracing::warn!(error, session = %session.id(), "a session cannot be kept");
        }
    }

    /// Answers, and gives the message that ends the request; none where somebody ended the session
    /// before.
    async fn answer(
        &self,
        Conversation { session, toolbox }: &Conversation,
        question: &Question<'_>,
    ) -> Option<ServerMessage> {
        let Question { turn, text, preferences, .. } = question;
        let mut memory = tokio::select! {
            biased;
            () = turn.cancelled() => return Some(cancelled(String::new(), Vec::new())),
            memory = self.service.sessions.enter(session) => memory,
        };
        if session.has_ended() {
            return None;
        }
        let prompt = self.prompt(session, &memory, text, *preferences);
        let (outbox, streams) = (&self.outbox, preferences.stream);
        let mut output = TextOutput::new(turn, &self.connection, outbox, streams);
        let mut rounds = Vec::new();
        let outcome = answer(&mut output, prompt, &*self.service.llm, toolbox, &mut rounds).await;
        let outcome = match outcome {
            // Who has done what was asked need not say so: the calls show.
            Ok(()) if output.calls.last().is_some_and(|call| call.success) => Ok(()),
            Ok(()) if output.parts.content.is_empty() && turn.is_live() => Err(TurnError::NoWords),
            other => other,
        };
        // What a cancelled request wrote last was told, too.
        output.parts.end_part();
        let TextOutput { parts: Parts { content, said, .. }, calls, .. } = output;
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
        let record = TurnRecord { user: Some(text.clone()), said, rounds, end };
        if self.remembers(&mut memory, &record, *preferences) {
            // On disk before the client hears of it.
            self.keep(session, &memory).await;
        } else {
            self.note_use(session).await;
        }
        Some(last)
    }

    /// Remembers what is to be remembered of a turn; false where that changes nothing.
    fn remembers(&self, memory: &mut Memory, record: &TurnRecord, wanted: Preferences) -> bool {
        if self.is_kept(record) {
            memory.commit(record, PlayedBack::ALL);
            return true;
        }
        // What the model was not told it cannot have refused.
        let before = memory.messages().len();
        if self.has_context(wanted) {
            memory.commit(record, PlayedBack::default());
        }
        memory.messages().len() != before
    }

    fn has_context(&self, wanted: Preferences) -> bool {
        wanted.enable_context.unwrap_or(self.service.settings.get().enable_context)
    }

    /// A turn is remembered where it was answered; one that was cancelled, where it wrote or called
    /// something; one whose client left, where it called something. Of others nothing is left that
    /// could be joined to the next.
    fn is_kept(&self, TurnRecord { said, rounds, end, .. }: &TurnRecord) -> bool {
        let has_left = self.connection.is_cancelled();
        match end {
            TurnEnd::Completed => true,
            TurnEnd::Interrupted => !rounds.is_empty() || (!said.is_empty() && !has_left),
            TurnEnd::Refused | TurnEnd::Failed(_) => false,
        }
    }

    /// A conversation in this session.
    pub(crate) fn converse(&self, session: Arc<TextSession>) -> Conversation {
        let service = &self.service;
        let (id, style) = (session.id().clone(), Arc::clone(session.shared_manner()));
        let others: SourceProvider = if service.settings.get().server_tools {
            let tools = Arc::clone(&service.tools);
            Arc::new(move || tools(&id, &style))
        } else {
            Arc::new(Vec::new)
        };
        let own: Vec<Arc<dyn ToolSource>> = vec![Arc::new(self.tools.clone())];
        let toolbox = Toolbox::new(own, others, service.settings.get().tools.clone());
        Conversation { session, toolbox: Arc::new(toolbox.with_sight(service.describer.clone())) }
    }

    fn prompt(
        &self,
        session: &TextSession,
        memory: &Memory,
        text: &str,
        preferences: Preferences,
    ) -> Prompt {
        let service = &self.service;
        let settings = service.settings.get();
        let system = session.style().instructions(&settings.system_prompt, &(service.now)());
        let mut messages = vec![ChatMessage::new(Role::System, system)];
        if self.has_context(preferences) {
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
pub(crate) fn lost_session(lost: &SessionLost) -> ServerMessage {
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
