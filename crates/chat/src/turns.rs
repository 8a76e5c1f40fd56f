//! One message in a chat session, from request to answer: locks the session, builds the prompt,
//! runs the rounds, and stores the turn. A task of the server does this; the request only waits for
//! it. Not for managing sessions.

use std::sync::{Arc, OnceLock};

use hearken_audio::playout::PlayedBack;
use hearken_base::wall_clock::now;
use hearken_dialogue::parts::Parts;
use hearken_dialogue::role::usable;
use hearken_dialogue::run_turn::answer;
use hearken_dialogue::tools::{ConversationVersion, SourceProvider, ToolSettings, Toolbox};
use hearken_dialogue::turn_trace::{ClientKind, Outcome};
use hearken_dialogue::without_earlier::WithoutEarlier;
use hearken_dialogue::{Memory, Turn, TurnEnd, TurnError, TurnRecord};
use hearken_ports::{
    ChatMessage, KeptMessage, KeptTurn, Prompt, RefusedUntil, RequestKey, SessionLock, StateError,
    StateServer, ToolSource, source_names,
};
use hearken_proto::chat::{
    AnswerUsage, ChatContext, ChatRequest, ChatResponse, ChatSession, ChatStatus, ContextTool,
    TurnInfo,
};
use hearken_proto::ids::{SessionId, TurnId};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use super::chat_output::ChatOutput;
use super::context::{instructions_have_state, prompt, to_stored_message};
use super::earlier_messages::{earlier_messages, not_refused};
use super::events::event;
use super::piece::ChatPiece;
use super::rolls::asks_to_roll;
use super::running::{RequestRecord, RunningMessage, check_stored};
use super::state_tools::{StateTools, empty_state, version_of};
use super::{Asker, ChatError, ChatService, budget};

/// What to do if the state server has no world of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissingWorld {
    /// Create it, for a turn, which holds the session's lock.
    Create,
    /// Take an empty state: a request that stores nothing must not create a world that a purge has
    /// just deleted.
    Empty,
}

/// Inputs of a turn.
struct TurnInputs {
    session: ChatSession,
    /// Messages read from the store, oldest first.
    before: Vec<KeptMessage>,
    /// Message up to which the model refuses them.
    refused: Option<RefusedUntil>,
    state: Map<String, Value>,
    state_tools: Option<StateTools>,
    toolbox: Toolbox,
}

/// Request about a session: its idempotency key and the channel for the streamed answer.
#[derive(Debug, Default)]
pub struct RequestOptions {
    /// Idempotency key of the request, unique within the session.
    pub key: Option<RequestKey>,
    /// Channel for the streamed answer.
    pub out: Option<mpsc::Sender<ChatPiece>>,
    /// Client that sends the request, for its storage limits.
    pub asker: Asker,
    /// Receives the id of the turn, which is also its trace id, once a turn has started.
    pub turn_id: Arc<OnceLock<Uuid>>,
}

/// Stored record of a request.
enum StoredRequest {
    /// No record.
    Not,
    /// The request called tools, and has no answer, or none yet.
    Begun,
    Answered(Box<ChatResponse>),
}

/// Message with its request, until it is answered.
struct PendingMessage {
    id: SessionId,
    request: ChatRequest,
    options: RequestOptions,
    running: RunningMessage,
}

impl ChatService {
    /// Answers a validated message. Dropping the future cancels the work only if no tool was called
    /// and the request has no idempotency key. Otherwise the work runs to its end and is stored.
    ///
    /// # Errors
    /// See [`ChatError`]. Then nothing of the turn is stored.
    pub async fn chat(
        &self,
        id: &SessionId,
        request: &ChatRequest,
        options: RequestOptions,
    ) -> Result<ChatResponse, ChatError> {
        if request.context_only {
            let session = self.active(id).await?;
            if let StoredRequest::Answered(answered) = self.known(id, &options).await? {
                return Ok(*answered);
            }
            let inputs = self.inputs(session, None, MissingWorld::Empty).await?;
            return Ok(self.context(&inputs, request));
        }
        let permit = self.tasks.try_begin().map_err(ChatError::Full)?;
        let left = CancellationToken::new();
        let running = RunningMessage::new(self.tasks.clone(), left.clone(), options.key.is_some());
        let pending = PendingMessage { id: id.clone(), request: request.clone(), options, running };
        let service = self.clone();
        let work = async move {
            let _permit = permit;
            // The work and `may_be_dropped` share a task: after the check that the message is not
            // marked as begun, it cannot be marked before the work is dropped.
            tokio::select! {
                biased;
                () = pending.running.may_be_dropped() => Err(ChatError::GoingAway),
                answered = Box::pin(service.answer_locked(&pending)) => answered,
            }
        };
        let _leaving = left.drop_guard();
        match tokio::spawn(work.in_current_span()).await {
            Ok(answered) => answered,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(ChatError::GoingAway),
        }
    }

    /// Waits for the session's lock, and answers.
    async fn answer_locked(&self, pending: &PendingMessage) -> Result<ChatResponse, ChatError> {
        let PendingMessage { id, options, .. } = pending;
        // The first look-up comes before the lock: a repeated request gets its stored answer while
        // another message is in progress.
        self.active(id).await?;
        if let StoredRequest::Answered(answered) = self.known(id, options).await? {
            return Ok(*answered);
        }
        let lock = self.lock(id).await?;
        // This may be a repeated request whose first attempt has ended meanwhile.
        match self.known(id, options).await? {
            StoredRequest::Answered(answered) => return Ok(*answered),
            StoredRequest::Begun => {
                let about = "the request with this Idempotency-Key called tools and has no \
                             answer: read the session, and use another key";
                return Err(ChatError::Status(about.into()));
            }
            StoredRequest::Not => {}
        }
        // The session is read for each message, under the lock: another instance may have answered
        // the previous one. Decision 0039.
        let session = self.active(id).await?;
        // A stored answer needs no storage, so the limits are checked after the look-up.
        self.check_share(&options.asker).await?;
        let inputs = self.inputs(session, options.out.clone(), MissingWorld::Create).await?;
        let request_record = RequestRecord {
            store: &*self.store,
            running: &pending.running,
            session: id,
            key: options.key.as_ref(),
            fence: lock.fence,
        };
        let answered = self.answer_in_time(pending, &inputs, &lock, request_record).await;
        if matches!(answered, Err(ChatError::Overtaken)) {
            self.observe_fences().await;
        }
        // The lock is still held: a running call may change the state that the next message reads.
        // The changes of this request are complete only when all calls have ended.
        if let Some(state_tools) = &inputs.state_tools {
            state_tools.settled().await;
        }
        if answered.is_err() {
            let changed = inputs
                .state_tools
                .as_ref()
                .is_some_and(|state_tools| state_tools.effects().changed);
            request_record.failed(changed || pending.running.has_acted()).await;
        }
        answered
    }

    /// Answers, or cuts the turn when it must end.
    async fn answer_in_time(
        &self,
        pending: &PendingMessage,
        inputs: &TurnInputs,
        lock: &SessionLock,
        request_record: RequestRecord<'_>,
    ) -> Result<ChatResponse, ChatError> {
        let client = inputs.session.id.as_str();
        let trace = self.turn_journal.begin_as(ClientKind::Chat, client, self.role());
        if let Some(id) = trace.id() {
            pending.options.turn_id.get_or_init(|| id);
        }
        let turn = Turn::new(TurnId(1), &CancellationToken::new()).traced(trace);
        let answering = self.answer(pending, inputs, &turn, request_record);
        let mut answering = std::pin::pin!(answering.instrument(turn.trace().log_span()));
        let why = tokio::select! {
            biased;
            why = pending.running.must_end(lock, self.settings.get().turn_limit) => why,
            answered = &mut answering => return answered,
        };
        // The work is cut and awaited, not dropped: a turn that is being stored is stored
        // completely, and is then the answer.
        turn.cut();
        match answering.await {
            Err(ChatError::GoingAway) => Err(why),
            other => other,
        }
    }

    /// Locks the session for one request.
    pub(super) async fn lock(&self, id: &SessionId) -> Result<SessionLock, ChatError> {
        let lock = self.locks.lock(id.as_str(), self.settings.get().lock_wait).await?;
        lock.ok_or(ChatError::Busy)
    }

    /// Makes fences of later locks greater than all stored ones. Needed at the start, and after the
    /// store has refused a fence: the clock may have been set back since.
    pub async fn observe_fences(&self) {
        match self.store.last_fence().await {
            Ok(fence) => self.locks.observe(fence),
            Err(error) => tracing::warn!(error, "cannot read the last fence of the store"),
        }
    }

    /// Handles a refusal by the store, which holds a greater fence.
    pub(super) async fn overtaken(&self) -> ChatError {
        self.observe_fences().await;
        ChatError::Overtaken
    }

    /// Looks up the request by its idempotency key.
    async fn known(
        &self,
        id: &SessionId,
        options: &RequestOptions,
    ) -> Result<StoredRequest, ChatError> {
        let Some(key) = &options.key else { return Ok(StoredRequest::Not) };
        let Some(known) = self.store.request(id, &key.name).await? else {
            return Ok(StoredRequest::Not);
        };
        if !known.hash.is_empty() && known.hash != key.hash {
            let about = "this Idempotency-Key was used for another request";
            return Err(ChatError::Status(about.into()));
        }
        let Some(answer) = known.answer else { return Ok(StoredRequest::Begun) };
        let answer = serde_json::from_str(&answer).map_err(|e| ChatError::Store(e.into()))?;
        Ok(StoredRequest::Answered(answer))
    }

    /// Returns the session if it is active.
    pub(super) async fn active(&self, id: &SessionId) -> Result<ChatSession, ChatError> {
        let session = self.session(id).await?;
        match session.status {
            ChatStatus::Active => Ok(session),
            other => {
                let about = format!("the session is {}: restore it first", other.as_str());
                Err(ChatError::Status(about))
            }
        }
    }

    /// Loads all inputs of the turn.
    async fn inputs(
        &self,
        session: ChatSession,
        out: Option<mpsc::Sender<ChatPiece>>,
        missing: MissingWorld,
    ) -> Result<TurnInputs, ChatError> {
        let id = &session.id;
        let settings = self.settings.get();
        let before =
            earlier_messages(&*self.store, id, settings.history, settings.token_budget).await?;
        let refused = if before.is_empty() { None } else { self.store.refused_until(id).await? };
        let (state, state_tools) = match &self.state {
            None => (empty_state(id), None),
            Some(server) => {
                let tools = server.tools().await.map_err(ChatError::State)?;
                let state = self.world(&**server, &session, missing).await?;
                let server = Arc::clone(server);
                let events = Arc::clone(&self.events);
                let version = version_of(&state);
                (state, Some(StateTools::new(server, id.clone(), tools, events, out, version)))
            }
        };
        let toolbox = self.toolbox(id, state_tools.as_ref());
        Ok(TurnInputs { session, before, refused, state, state_tools, toolbox })
    }

    /// Returns the state of a session's world.
    async fn world(
        &self,
        server: &dyn StateServer,
        session: &ChatSession,
        missing: MissingWorld,
    ) -> Result<Map<String, Value>, ChatError> {
        let id = &session.id;
        match server.state(id).await {
            Err(StateError::Unknown(_)) if missing == MissingWorld::Empty => Ok(empty_state(id)),
            Err(StateError::Unknown(_)) => {
                let created = server.create(id, &session.name).await;
                if created.as_ref().map_or_else(StateError::may_be_done, |()| true) {
                    self.delete_world_of_purged(id).await?;
                }
                created.map_err(ChatError::State)?;
                server.state(id).await.map_err(ChatError::State)
            }
            other => other.map_err(ChatError::State),
        }
    }

    fn toolbox(&self, id: &SessionId, state_tools: Option<&StateTools>) -> Toolbox {
        let own =
            state_tools.map(|state_tools| Arc::new(state_tools.clone()) as Arc<dyn ToolSource>);
        let others: SourceProvider = if self.settings.get().server_tools {
            let service = self.clone();
            let id = id.clone();
            Arc::new(move || usable((service.tools)(&id), service.role().as_deref()))
        } else {
            Arc::new(Vec::new)
        };
        let chat = self.settings.get();
        let settings = ToolSettings { max_rounds: chat.max_iterations, ..chat.tools.clone() };
        let reads_state = state_tools.is_some() && instructions_have_state(self);
        let toolbox = Toolbox::new(own.into_iter().collect(), others, settings)
            .with_describer(self.describer.clone());
        if reads_state { toolbox.with_instructions_from(source_names::STATE) } else { toolbox }
    }

    fn prompt(&self, inputs: &TurnInputs, request: &ChatRequest) -> Prompt {
        let offer = inputs.toolbox.offer();
        let TurnInputs { session, state, before, refused, .. } = inputs;
        let before = not_refused(before, *refused);
        prompt(self, session, state, offer.tools(), before, request)
    }

    /// Returns the context that the model would receive, without calling the model.
    fn context(&self, inputs: &TurnInputs, request: &ChatRequest) -> ChatResponse {
        let offer = inputs.toolbox.offer();
        let mut prompt = self.prompt(inputs, request);
        prompt.tools = Arc::clone(offer.tools());
        let prompt_tokens = budget::fit(&mut prompt, self.settings.get().token_budget) as u64;
        let at = now();
        let mut messages = prompt.messages.into_iter();
        let system_prompt = messages.next().map(|m| m.content).unwrap_or_default();
        let tools = offer.tools().iter().map(|tool| ContextTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        });
        let context = ChatContext {
            system_prompt,
            messages: messages.map(|m| to_stored_message(&m, None, at)).collect(),
            tools: tools.collect(),
            prompt_tokens,
        };
        ChatResponse {
            turn_info: turn_info(&inputs.state),
            usage: AnswerUsage { prompt_tokens, completion_tokens: 0, total_tokens: prompt_tokens },
            context: Some(context),
            ..ChatResponse::default()
        }
    }

    /// Runs the rounds, and stores the turn before answering.
    async fn answer(
        &self,
        pending: &PendingMessage,
        inputs: &TurnInputs,
        turn: &Turn,
        request_record: RequestRecord<'_>,
    ) -> Result<ChatResponse, ChatError> {
        let PendingMessage { request, options, .. } = pending;
        let mut rounds = Vec::new();
        let budget = self.settings.get().token_budget;
        let state_tools = inputs.state_tools.as_ref();
        let out = options.out.as_ref();
        let message = &request.message;
        let player = request.player_id.as_deref();
        let mut output =
            ChatOutput::new(turn, state_tools, out, budget, request_record, message, player);
        turn.trace().answers(&request.message);
        if let Some(held) = self.held.take(&inputs.session.id) {
            inputs.toolbox.hold(held);
            // Another instance may have handled the person's next words, a rollback or a deletion.
            let session = &inputs.session;
            inputs.toolbox.drop_outdated(version(session.message_count, session.updated_at));
        }
        let llm = WithoutEarlier::new(Arc::clone(&self.llm));
        let prompt = self.prompt(inputs, request);
        let outcome = answer(&mut output, prompt, &llm, &inputs.toolbox, &mut rounds).await;
        // No words are needed after successful calls: the client receives the changes.
        let silent = output.parts.content.trim().is_empty() && !output.worked;
        let outcome = match outcome {
            Ok(()) if silent && turn.is_live() => Err(TurnError::NoWords),
            other => other,
        };
        let ChatOutput {
            parts: Parts { content, said: words, .. }, usage, refused, read_from, ..
        } = output;
        let failure = match (refused, outcome) {
            // The refusal takes precedence: the error of the rounds says that calls were not made,
            // but not why.
            (Some(error), _) => Some((Outcome::Interrupted, error)),
            _ if !turn.is_live() => Some((Outcome::Interrupted, ChatError::GoingAway)),
            (None, Err(TurnError::LimitReached(reached))) => {
                Some((Outcome::Refused, ChatError::LimitReached(reached)))
            }
            (None, Err(error)) => Some((Outcome::Failed, self.failed(error, inputs))),
            (None, Ok(())) => None,
        };
        if let Some((outcome, error)) = failure {
            turn.trace().finish(outcome);
            return Err(error);
        }
        let record = TurnRecord {
            user: Some(request.message.clone()),
            said: words,
            rounds,
            end: TurnEnd::Completed,
        };
        let response = self.response(inputs, content, usage).await;
        let fence = request_record.fence;
        let messages = messages_of(&record, read_from);
        // Later prompts with the messages before would be refused as well.
        let refused = inputs.before.last().filter(|_| llm.has_refused_earlier());
        let refused = refused.map(RefusedUntil::message);
        let kept = self.keep(inputs, pending, fence, &messages, refused, &response).await;
        let version = kept.inspect_err(|_| {
            // The client gets an error, so trace, metrics and history must not record an answer.
            turn.trace().finish(Outcome::Failed);
        })?;
        turn.record(&record);
        // If the turn is not stored, its question counts as not asked, so the call is held after
        // `keep`.
        inputs.toolbox.note_version(version);
        if let Some(held) = inputs.toolbox.take_held() {
            self.held.put(&inputs.session.id, options.asker.owner(), held);
        }
        Ok(response)
    }

    fn failed(&self, error: TurnError, inputs: &TurnInputs) -> ChatError {
        tracing::warn!(%error, cause = std::error::Error::source(&error).map(tracing::field::display), session = inputs.session.id.short(), "cannot answer a message");
        match error {
            TurnError::TooManyRounds => {
                ChatError::TooManyRounds(self.settings.get().max_iterations)
            }
            TurnError::Tool { .. } => ChatError::State(StateError::Conflict(None)),
            error @ (TurnError::Llm(_)
            | TurnError::NoWords
            | TurnError::Recognition
            | TurnError::LimitReached(_)) => ChatError::Llm(error),
        }
    }

    async fn response(
        &self,
        inputs: &TurnInputs,
        content: String,
        usage: hearken_ports::Usage,
    ) -> ChatResponse {
        let effects = inputs
            .state_tools
            .as_ref()
            .map(|state_tools| state_tools.effects().clone())
            .unwrap_or_default();
        let after = match &self.state {
            // Changes of this turn may have started or ended a fight.
            Some(server) if effects.touched => server.state(&inputs.session.id).await.ok(),
            _ => None,
        };
        ChatResponse {
            requires_roll: effects.requires_roll || asks_to_roll(&content),
            response: content,
            state_changes: effects.changes,
            turn_info: turn_info(after.as_ref().unwrap_or(&inputs.state)),
            usage: AnswerUsage {
                prompt_tokens: usage.prompt_tokens,
                completion_tokens: usage.completion_tokens,
                total_tokens: usage.prompt_tokens + usage.completion_tokens,
            },
            context: None,
        }
    }

    /// Stores a turn, and returns the version of the session after it.
    async fn keep(
        &self,
        inputs: &TurnInputs,
        pending: &PendingMessage,
        fence: i64,
        messages: &[ChatMessage],
        refused: Option<RefusedUntil>,
        response: &ChatResponse,
    ) -> Result<ConversationVersion, ChatError> {
        let PendingMessage { request, options, .. } = pending;
        let id = &inputs.session.id;
        let at = now();
        let player = request.player_id.as_deref();
        let messages: Vec<_> = messages.iter().map(|m| to_stored_message(m, player, at)).collect();
        let after = inputs.before.last().map_or(0, |kept| kept.number);
        let version = version(after.saturating_add_unsigned(messages.len() as u64), at);
        let effects = inputs.state_tools.as_ref().map(|state_tools| state_tools.effects().version);
        let told = json!({
            "player_id": request.player_id,
            "message": request.message,
            "response": response.response,
        });
        let turn = KeptTurn {
            session_id: id.clone(),
            after,
            fence,
            key: options.key.clone(),
            answer: serde_json::to_string(response).map_err(|e| ChatError::Store(e.into()))?,
            messages,
            state_version: effects.flatten(),
            refused,
            at,
            event: Some(event(id, "chat.answered", told)),
        };
        // A stored turn is answered, so it is not dropped after this.
        pending.running.mark_begun();
        check_stored(self.store.keep_turn(&turn).await?)?;
        // Events are published from the store: those that an instance leaves when it dies are
        // published by another one. Decision 0057.
        self.publish_pending(id).await;
        Ok(version)
    }
}

/// Returns the version of a session with this number of messages, last changed at this time.
fn version(number: i64, changed: Timestamp) -> ConversationVersion {
    ConversationVersion { number, changed_ms: changed.as_millisecond() }
}

/// Returns all messages of a turn, in order. An application reads all of them. `read_from` are the
/// tools whose results the model has read before the person's words.
fn messages_of(record: &TurnRecord, read_from: Vec<String>) -> Vec<ChatMessage> {
    let mut memory = Memory::new(usize::MAX, Vec::new());
    memory.commit(record, PlayedBack::ALL);
    let mut messages = memory.messages().to_vec();
    if let Some(asked) = messages.first_mut() {
        asked.note_read(read_from);
    }
    messages
}

/// Returns the current turn in a fight, if there is one.
fn turn_info(state: &Map<String, Value>) -> Option<TurnInfo> {
    let combat = state.get("combat")?;
    let active = combat.get("active")?.as_bool()?;
    let current = combat.get("current_turn").and_then(Value::as_str);
    active.then(|| TurnInfo {
        active,
        round: combat.get("round").and_then(Value::as_i64),
        current_turn: current.map(str::to_owned),
    })
}
