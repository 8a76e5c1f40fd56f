//! Executes the requests of one connection one after the other. Each is answered in a session,
//! which remembers it. Exactly one message ends a request. Not for the socket.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use hearken_audio::playout::PlayedBack;
use hearken_base::paced_log::PacedLog;
use hearken_base::reloadable::Reloadable;
use hearken_dialogue::metrics::actor_metrics;
use hearken_dialogue::parts::Parts;
use hearken_dialogue::role::{AssignedRole, RoleLookup, assigned, usable};
use hearken_dialogue::run_turn::answer;
use hearken_dialogue::tools::{SourceProvider, Toolbox};
use hearken_dialogue::turn_rate::TurnRates;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_dialogue::{
    ConversationStyle, LocalTime, Memory, Turn, TurnEnd, TurnError, TurnRecord,
};
use hearken_ports::{
    BoxError, ChatMessage, EarlierWords, ImageDescriber, Llm, Prompt, Role, ToolSource,
    TurnLanguage,
};
use hearken_proto::ids::SessionId;
use hearken_proto::text_gateway::{CallShown, Configure, ErrorCode, ServerMessage, Status};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::client_tools::ClientTools;
use super::conversation::{Conversation, LeftConversations};
use super::failures::failure_message;
use super::outbox::Outbox;
use super::session::{InUse, TextSession};
use super::sessions::{SessionUnavailable, Sessions};
use super::text_output::TextOutput;
use super::{ConversationSources, TextGatewaySettings};

/// Maximum number of newer copies of a session by other instances; above it, this instance's copy
/// is not stored.
const MOST_COPIES: usize = 4;

/// Shared dependencies of all connections.
#[derive(Clone)]
pub struct TextGateway {
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// Text sessions.
    pub sessions: Arc<Sessions>,
    /// Server's tools for each session.
    pub tools: ConversationSources,
    /// Describer of pictures in tool results, if any.
    pub describer: Option<Arc<dyn ImageDescriber>>,
    /// Clock that returns the date and time for the model.
    pub now: LocalTime,
    /// Settings of text clients.
    pub settings: Reloadable<TextGatewaySettings>,
    /// Lookup of roles by id or name.
    pub roles: RoleLookup,
    /// Journal of the last turns.
    pub turn_journal: TurnJournal,
    /// Rates of turns.
    pub rates: TurnRates,
}

impl TextGateway {
    /// Returns the current role of text clients.
    pub(crate) fn role(&self) -> Option<Arc<AssignedRole>> {
        assigned(&self.settings.get().role, &*self.roles)
    }
}

/// Preferences of a connection. Unset values use the server's settings.
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

/// Request that is executed in a session, in order.
#[derive(Debug)]
pub(crate) enum Request {
    /// Answers a text, in the connection's session or another.
    Answer { text: String, session_id: Option<SessionId>, preferences: Preferences },
    /// Resumes this session, or starts a new one.
    Start { session_id: Option<SessionId> },
    /// Ends the session.
    End,
    /// Sets the instructions of the session.
    Instruct { system_prompt: String },
}

impl Request {
    /// Returns the session that the request names.
    pub(crate) fn named(&self) -> Option<&SessionId> {
        match self {
            Self::Answer { session_id, .. } | Self::Start { session_id } => session_id.as_ref(),
            Self::End | Self::Instruct { .. } => None,
        }
    }
}

/// Text to answer.
struct Question<'a> {
    turn: &'a Turn,
    text: String,
    session_id: Option<SessionId>,
    preferences: Preferences,
}

/// Executor of one connection's requests.
pub(crate) struct RequestExecutor {
    pub(crate) service: TextGateway,
    pub(crate) tools: ClientTools,
    /// Conversations that the connection has left for another session.
    pub(crate) left: LeftConversations,
    pub(crate) outbox: Outbox,
    /// Cancelled when the client has left.
    pub(crate) connection: CancellationToken,
    /// Warnings about requests of this connection.
    pub(crate) warnings: PacedLog,
}

impl RequestExecutor {
    /// Executes one request and returns the connection's conversation after it.
    pub(crate) async fn serve(
        &self,
        own: Conversation,
        turn: &Turn,
        request: Request,
    ) -> Conversation {
        let sessions = &self.service.sessions;
        // A turn has its own rate. The others read or write the store.
        if !matches!(request, Request::Answer { .. }) {
            Self::wait_for_pace(turn).await;
        }
        match request {
            Request::Answer { text, session_id, preferences } => {
                self.respond(own, Question { turn, text, session_id, preferences }).await
            }
            Request::Start { session_id: None } => self.connected(own, &sessions.begin()).await,
            Request::Start { session_id: Some(id) } => {
                let unavailable = match sessions.find(&id).await {
                    Ok(found) => {
                        self.note_use(&found).await;
                        // `note_use` may detect that another instance has ended the session.
                        if !found.has_ended() {
                            return self.connected(own, &found).await;
                        }
                        SessionUnavailable::Unknown(id)
                    }
                    Err(unavailable) => unavailable,
                };
                self.send(self.unavailable_session(&unavailable)).await;
                own
            }
            Request::End => {
                let next = self.end(&own.session).await;
                self.conversation_in(own, &next)
            }
            Request::Instruct { system_prompt } => self.instruct(own, system_prompt).await,
        }
    }

    /// Sets the instructions of the connection's session. If that session has ended, starts
    /// another. Nothing of a session is stored before its first turn. Decision 0046.
    async fn instruct(&self, mut own: Conversation, system_prompt: String) -> Conversation {
        let sessions = &self.service.sessions;
        loop {
            let used;
            (own, used) = self.own(own).await;
            let mut memory = sessions.run_in(&used, sessions.lock_memory(&used)).await;
            // Another connection may have ended the session while this request waited for its
            // memory.
            if used.has_ended() {
                continue;
            }
            let instruct = |_: &mut Memory| used.style().system_prompt.clone_from(&system_prompt);
            instruct(&mut memory);
            if used.is_stored() {
                self.keep(&used, &mut memory, instruct).await;
            }
            return own;
        }
    }

    /// Waits until a request that counts in no rate of turns may be carried out. Not even the
    /// cancellation of the request ends the wait: others of its address wait behind it.
    async fn wait_for_pace(turn: &Turn) {
        let wait = turn.take_request();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Reports whether a request is answered in spite of its rate, because a person may be in danger.
    async fn is_urgent(&self, Question { turn, text, .. }: &Question<'_>) -> bool {
        // The words of each request are judged, however many there are: those of other connections
        // at the same address delay a person in danger by seconds, and cannot hide them.
        Self::wait_for_pace(turn).await;
        let messages = vec![ChatMessage::new(Role::User, text.clone())];
        let prompt = Prompt { messages, ..Prompt::default() };
        self.service.llm.is_urgent(&prompt) && turn.take_urgent()
    }

    /// Answers in the requested session. If the connection's own session ends before the answer
    /// starts, starts another and reports it to the client.
    async fn respond(&self, mut own: Conversation, question: Question<'_>) -> Conversation {
        if let Err(wait) = question.turn.take_rate()
            && !self.is_urgent(&question).await
        {
            question.turn.trace().discard();
            let seconds = wait.as_secs() + 1;
            let message = format!("Too many requests: try again in {seconds} s");
            self.send(ServerMessage::error(ErrorCode::SessionError, message)).await;
            return own;
        }
        let sessions = &self.service.sessions;
        let mut is_told = false;
        loop {
            let used;
            (own, used) = match &question.session_id {
                None => self.own(own).await,
                Some(id) => match sessions.find(id).await {
                    Ok(found) => (self.conversation_in(own, &found), found),
                    Err(unavailable) => {
                        question.turn.trace().discard();
                        self.send(self.unavailable_session(&unavailable)).await;
                        return own;
                    }
                },
            };
            if !is_told {
                self.send(ServerMessage::Status(Status::Processing)).await;
                is_told = true;
            }
            let work = sessions
                .run_in(&used, self.answer(&own, &question))
                .instrument(question.turn.trace().log_span());
            // Even after a panic, the client must receive the one message that ends its request.
            let last = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(Some(last)) => last,
                Ok(None) if question.session_id.is_none() => continue,
                Ok(None) => {
                    self.unavailable_session(&SessionUnavailable::Unknown(used.id().clone()))
                }
                Err(_) => {
                    tracing::error!(session = %used.id().short(), "a request panicked");
                    let message = "Something went wrong inside the server";
                    ServerMessage::error(ErrorCode::InternalError, message)
                }
            };
            drop(used);
            self.send(last).await;
            return own;
        }
    }

    /// Returns the connection's own session, in use. If it has ended, starts another and reports it
    /// to the client.
    async fn own(&self, own: Conversation) -> (Conversation, InUse) {
        match self.service.sessions.find(own.session.id()).await {
            Ok(found) => (self.conversation_in(own, &found), found),
            Err(unavailable) => {
                tracing::info!(%unavailable, "started another session");
                let next = self.service.sessions.begin();
                (self.connected(own, &next).await, next)
            }
        }
    }

    /// Returns the connection's conversation in this session. The current one can be continued
    /// later, if it is another: a call may wait for the person's consent in it.
    fn conversation_in(&self, own: Conversation, used: &InUse) -> Conversation {
        let session = used.session();
        self.left.change(own, session, || self.conversation(Arc::clone(session)))
    }

    async fn send(&self, message: ServerMessage) {
        // A client that has left needs no answer.
        let _sent = self.outbox.send(message).await;
    }

    async fn connected(&self, own: Conversation, used: &InUse) -> Conversation {
        self.send(ServerMessage::Status(Status::Connected(used.id().clone()))).await;
        self.conversation_in(own, used)
    }

    async fn end(&self, session: &TextSession) -> InUse {
        if let Err(error) = self.service.sessions.end(session).await {
            self.warnings.log(|left_out| {
                tracing::warn!(error, session = %session.id().short(), left_out, "cannot delete an ended session from the store");
            });
        }
        let next = self.service.sessions.begin();
        let session_id = next.id().clone();
        let ended_session_id = session.id().clone();
        self.send(ServerMessage::Status(Status::Idle { session_id, ended_session_id })).await;
        next
    }

    async fn note_use(&self, session: &TextSession) {
        if let Err(error) = self.service.sessions.note_use(session).await {
            self.warnings.log(|left_out| {
                tracing::warn!(error, session = %session.id().short(), left_out, "cannot store the time of use of a session");
            });
        }
    }

    /// Stores a session after a change; repeats the change on a newer copy of another instance.
    /// Returns false if the store failed: the session continues in memory only.
    async fn keep(
        &self,
        session: &TextSession,
        memory: &mut Memory,
        mut change: impl FnMut(&mut Memory),
    ) -> bool {
        let keeping = async {
            // A session is stored as a whole: a blind write would remove data that another instance
            // has stored and acknowledged. Decision 0060.
            for _ in 0..MOST_COPIES {
                if self.service.sessions.keep(session, memory).await? {
                    return Ok(());
                }
                if self.service.sessions.reload(session, memory).await? {
                    change(memory);
                }
            }
            Err(BoxError::from("other instances stored newer copies repeatedly"))
        };
        let Err(error) = keeping.await else { return true };
        actor_metrics().unstored.increment(1);
        self.warnings.log(|left_out| {
            tracing::warn!(error, session = %session.id().short(), left_out, "cannot store a session");
        });
        false
    }

    /// Returns the error message for an unavailable session.
    fn unavailable_session(&self, unavailable: &SessionUnavailable) -> ServerMessage {
        match unavailable {
            SessionUnavailable::Unknown(_) => {
                ServerMessage::error(ErrorCode::SessionError, unavailable.to_string())
            }
            SessionUnavailable::Store(error) => {
                self.warnings.log(|left_out| {
                    tracing::warn!(error, left_out, "cannot load a session from the store");
                });
                ServerMessage::error(ErrorCode::InternalError, unavailable.to_string())
            }
        }
    }

    /// Answers, and returns the message that ends the request. Returns `None` if the session was
    /// ended before.
    async fn answer(
        &self,
        Conversation { session, toolbox }: &Conversation,
        question: &Question<'_>,
    ) -> Option<ServerMessage> {
        let Question { turn, text, preferences, .. } = question;
        let mut memory = tokio::select! {
            biased;
            () = turn.cancelled() => return Some(cancelled(String::new(), Vec::new())),
            memory = self.service.sessions.lock_memory(session) => memory,
        };
        if session.has_ended() {
            return None;
        }
        // The answer to a question is in the next turn of the session, at whichever connection or
        // instance.
        toolbox.drop_outdated(session.version());
        session.count_turn();
        turn.trace().of_client(session.id().as_str());
        turn.trace().answers(text);
        let style_before = session.style().clone();
        // The prompt is built under the lock: it contains the previous answer.
        let prompt = self.prompt(session, &memory, text, *preferences);
        let outbox = &self.outbox;
        let streams = preferences.stream;
        let mut output = TextOutput::new(turn, &self.connection, outbox, streams);
        let mut rounds = Vec::new();
        let outcome = answer(&mut output, prompt, &*self.service.llm, toolbox, &mut rounds).await;
        let outcome = match outcome {
            // No words are needed after a successful call: the client sees the calls.
            Ok(()) if output.calls.last().is_some_and(|call| call.success) => Ok(()),
            Ok(()) if output.is_empty() && turn.is_live() => Err(TurnError::NoWords),
            other => other,
        };
        // The last words of a cancelled request were sent, too.
        output.parts.end_part();
        let TextOutput { parts: Parts { content, said, .. }, calls, .. } = output;
        let (end, mut last) = match outcome {
            _ if !turn.is_live() => (TurnEnd::Interrupted, cancelled(content, calls)),
            Ok(()) => {
                let last = ServerMessage::LlmResponse {
                    content,
                    tool_calls: calls,
                    cancelled: false,
                    unstored: false,
                };
                (TurnEnd::Completed, last)
            }
            Err(error) => self.failure(error, &calls),
        };
        let record = TurnRecord { user: Some(text.clone()), said, rounds, end };
        turn.record(&record);
        if self.commit(&mut memory, &record, *preferences) {
            // Stored before the client receives the answer; if that fails, the answer says so.
            let style = session.style().clone();
            let again = |memory: &mut Memory| {
                self.commit(memory, &record, *preferences);
                // The newer copy has its own style, without what a tool has set in this turn.
                session.style().repeat_changes(&style_before, &style);
            };
            let is_stored = self.keep(session, &mut memory, again).await;
            if let ServerMessage::LlmResponse { unstored, .. } = &mut last {
                *unstored = !is_stored;
            }
        } else if self.service.sessions.are_shared() && session.is_stored() {
            // Nothing of it is remembered, but other instances must know that the conversation went
            // on: a question of before is no longer open.
            self.keep(session, &mut memory, |_| {}).await;
        } else {
            // Only the use is stored.
            self.note_use(session).await;
        }
        toolbox.note_version(session.version());
        Some(last)
    }

    /// Logs a failed turn, and returns its end and error message. A turn above a limit is not
    /// logged as a failure.
    fn failure(&self, error: TurnError, calls: &[CallShown]) -> (TurnEnd, ServerMessage) {
        let last = failure_message(&error, calls);
        if matches!(error, TurnError::LimitReached(_)) {
            return (TurnEnd::Refused, last);
        }
        let cause = std::error::Error::source(&error).map(tracing::field::display);
        self.warnings.log(|left_out| {
            tracing::warn!(%error, cause, left_out, "a request failed");
        });
        (TurnEnd::Failed(error), last)
    }

    /// Remembers the relevant parts of a turn. Returns false if the memory does not change.
    fn commit(&self, memory: &mut Memory, record: &TurnRecord, wanted: Preferences) -> bool {
        if self.is_kept(record) {
            memory.commit(record, PlayedBack::ALL);
            return true;
        }
        // The model cannot have refused messages that it did not receive.
        if record.is_refused() && !self.has_context(wanted) {
            return false;
        }
        let before = memory.clone();
        memory.commit(record, PlayedBack::default());
        // A refusal counts if there is something that the next one must forget.
        let is_refused = memory.is_after_refusal() && !before.is_after_refusal();
        memory.messages() != before.messages() || (is_refused && !memory.messages().is_empty())
    }

    fn has_context(&self, wanted: Preferences) -> bool {
        let by_role = self.service.role().is_none_or(|role| role.memory);
        let usual = self.service.settings.get().enable_context && by_role;
        wanted.enable_context.unwrap_or(usual)
    }

    /// Reports whether a turn is remembered. An answered turn is. A cancelled one is if it wrote or
    /// called something, and one whose client left if it called something. No other words are left
    /// for the next turn.
    fn is_kept(&self, TurnRecord { said, rounds, end, .. }: &TurnRecord) -> bool {
        let has_left = self.connection.is_cancelled();
        match end {
            TurnEnd::Completed => true,
            TurnEnd::Interrupted => !rounds.is_empty() || (!said.is_empty() && !has_left),
            TurnEnd::Refused | TurnEnd::Failed(_) => false,
        }
    }

    /// Creates a conversation in this session.
    pub(crate) fn conversation(&self, session: Arc<TextSession>) -> Conversation {
        let service = &self.service;
        let id = session.id().clone();
        let style = Arc::clone(session.shared_style());
        let others: SourceProvider = if service.settings.get().server_tools {
            let service = service.clone();
            Arc::new(move || usable((service.tools)(&id, &style), service.role().as_deref()))
        } else {
            Arc::new(Vec::new)
        };
        let own: Vec<Arc<dyn ToolSource>> = vec![Arc::new(self.tools.clone())];
        let toolbox = Toolbox::new(own, others, service.settings.get().tools.clone());
        Conversation {
            session,
            toolbox: Arc::new(toolbox.with_describer(service.describer.clone())),
        }
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
        let style = ConversationStyle { role: service.role(), ..session.style().clone() };
        let system = style.instructions(&settings.system_prompt, &(service.now)());
        let instant = style.instant();
        let language = TurnLanguage::after(style.answer_language(), memory.words());
        let mut messages = vec![ChatMessage::new(Role::System, system)];
        let mut earlier = EarlierWords::default();
        if self.has_context(preferences) {
            messages.extend(memory.messages().iter().cloned());
        } else {
            earlier = said(memory);
        }
        messages.push(ChatMessage::new(Role::User, text));
        let role = style.role.unwrap_or_default();
        let temperature = preferences.temperature.or(role.temperature);
        let max_tokens = preferences.max_tokens.or(role.max_tokens);
        Prompt {
            messages,
            max_tokens: max_tokens.unwrap_or(settings.max_tokens),
            answer_seconds: role.answer_seconds,
            temperature: temperature.unwrap_or(settings.temperature),
            model: role.model.clone(),
            language,
            instant,
            since_last: memory.since_last(),
            earlier,
            ..Prompt::default()
        }
    }
}

/// Returns the person's words in a memory that the model does not get.
fn said(memory: &Memory) -> EarlierWords {
    let words = memory.words().map(str::to_owned).collect();
    EarlierWords { words, passed: memory.since_last() }
}

fn cancelled(content: String, tool_calls: Vec<CallShown>) -> ServerMessage {
    ServerMessage::LlmResponse { content, tool_calls, cancelled: true, unstored: false }
}
