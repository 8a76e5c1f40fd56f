//! One message in a chat session, from request to answer: locks the session, builds the prompt,
//! runs the rounds, and stores the turn. A task of the server does this; the request only waits for
//! it. Not for managing sessions.

use std::sync::Arc;

use hearken_proto::chat::{
    AnswerUsage, ChatContext, ChatRequest, ChatResponse, ChatSession, ChatStatus, ContextTool,
    Event, TurnInfo,
};
use hearken_proto::ids::{SessionId, TurnId};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::api_output::{ApiOutput, ChatPiece};
use super::context::{as_kept, prompt};
use super::rolls::asks_to_roll;
use super::running::{Beginning, Running, kept};
use super::state_tools::{World, nowhere, version_of};
use super::{ChatError, ChatService, budget};
use crate::audio::playout::PlayedBack;
use crate::dialogue::parts::Parts;
use crate::dialogue::run_turn::answer;
use crate::dialogue::{Memory, Turn, TurnEnd, TurnError, TurnRecord};
use crate::metrics::meters;
use crate::ports::{
    ChatMessage, KeptMessage, KeptTurn, Prompt, RequestKey, SessionLock, StateError, ToolSource,
};
use crate::tools::{SourceProvider, ToolSettings, Toolbox};
use crate::wall_clock::now;

/// Inputs of a turn.
struct Scene {
    session: ChatSession,
    /// Messages that were read from the store, oldest first.
    before: Vec<KeptMessage>,
    state: Map<String, Value>,
    world: Option<World>,
    toolbox: Toolbox,
}

/// Request about a session: its idempotency key and the channel for the streamed answer.
#[derive(Debug, Default)]
pub struct Ask {
    /// Idempotency key of the request, unique within the session.
    pub key: Option<RequestKey>,
    /// Channel for the streamed answer.
    pub out: Option<mpsc::Sender<ChatPiece>>,
}

/// Stored knowledge about a request.
enum Known {
    /// Unknown request.
    Not,
    /// The request called tools, and has no answer, or none yet.
    Begun,
    Answered(Box<ChatResponse>),
}

/// Message with its request, until it is answered.
struct Said {
    id: SessionId,
    request: ChatRequest,
    ask: Ask,
    running: Running,
}

impl ChatService {
    /// Answers a validated message. Dropping the future cancels the work only if no tool was called
    /// and the request has no idempotency key. Otherwise the work runs to its end and is stored.
    ///
    /// # Errors
    /// See [`ChatError`]. Nothing of the turn is stored then.
    pub async fn chat(
        &self,
        id: &SessionId,
        request: &ChatRequest,
        ask: Ask,
    ) -> Result<ChatResponse, ChatError> {
        if request.context_only {
            let session = self.active(id).await?;
            if let Known::Answered(answered) = self.known(id, &ask).await? {
                return Ok(*answered);
            }
            let scene = self.scene(session, None).await?;
            return Ok(self.context(&scene, request));
        }
        let place = self.tasks.enter().map_err(ChatError::Full)?;
        let left = CancellationToken::new();
        let running = Running::new(self.tasks.clone(), left.clone(), ask.key.is_some());
        let said = Said { id: id.clone(), request: request.clone(), ask, running };
        let service = self.clone();
        let work = async move {
            let _place = place;
            tokio::select! {
                biased;
                () = said.running.dropped() => Err(ChatError::GoingAway),
                answered = Box::pin(service.in_turn(&said)) => answered,
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
    async fn in_turn(&self, said: &Said) -> Result<ChatResponse, ChatError> {
        let Said { id, ask, .. } = said;
        self.active(id).await?;
        if let Known::Answered(answered) = self.known(id, ask).await? {
            return Ok(*answered);
        }
        let lock = self.lock(id).await?;
        // This may be a repeated request whose first attempt has ended meanwhile.
        match self.known(id, ask).await? {
            Known::Answered(answered) => return Ok(*answered),
            Known::Begun => {
                let about = "the request with this Idempotency-Key called tools and brought no \
                             answer: look at the session, and ask with another key";
                return Err(ChatError::Status(about.into()));
            }
            Known::Not => {}
        }
        let scene = self.scene(self.active(id).await?, ask.out.clone()).await?;
        let beginning = Beginning {
            store: &*self.store,
            running: &said.running,
            session: id,
            key: ask.key.as_ref(),
            fence: lock.fence,
        };
        let answered = self.in_time(said, &scene, &lock, beginning).await;
        if let Some(world) = &scene.world {
            world.settled().await;
        }
        if answered.is_err() {
            let changed = scene.world.as_ref().is_some_and(|world| world.effects().changed);
            beginning.failed(changed || said.running.has_acted()).await;
        }
        answered
    }

    /// Answers, or cuts the turn when it must end.
    async fn in_time(
        &self,
        said: &Said,
        scene: &Scene,
        lock: &SessionLock,
        beginning: Beginning<'_>,
    ) -> Result<ChatResponse, ChatError> {
        let turn = Turn::new(TurnId(1), &CancellationToken::new());
        let mut answering = std::pin::pin!(self.answer(said, scene, &turn, beginning));
        let why = tokio::select! {
            biased;
            why = said.running.ends(lock, self.settings.get().turn_limit) => why,
            answered = &mut answering => return answered,
        };
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

    /// Looks up the request by its idempotency key.
    async fn known(&self, id: &SessionId, ask: &Ask) -> Result<Known, ChatError> {
        let Some(key) = &ask.key else { return Ok(Known::Not) };
        let Some(known) = self.store.request(id, &key.name).await? else { return Ok(Known::Not) };
        if !known.hash.is_empty() && known.hash != key.hash {
            let about = "this Idempotency-Key was used for another request";
            return Err(ChatError::Status(about.into()));
        }
        let Some(answer) = known.answer else { return Ok(Known::Begun) };
        let answer = serde_json::from_str(&answer).map_err(|e| ChatError::Store(e.into()))?;
        Ok(Known::Answered(answer))
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
    async fn scene(
        &self,
        session: ChatSession,
        out: Option<mpsc::Sender<ChatPiece>>,
    ) -> Result<Scene, ChatError> {
        let id = &session.id;
        let before = self.store.messages(id, None, self.settings.get().history).await?;
        let (state, world) = match &self.state {
            None => (nowhere(id), None),
            Some(server) => {
                let tools = server.tools().await.map_err(ChatError::State)?;
                let state = match server.state(id).await {
                    Err(StateError::Unknown(_)) => {
                        server.create(id, &session.name).await.map_err(ChatError::State)?;
                        server.state(id).await
                    }
                    other => other,
                };
                let state = state.map_err(ChatError::State)?;
                let (server, events) = (Arc::clone(server), Arc::clone(&self.events));
                let version = version_of(&state);
                (state, Some(World::new(server, id.clone(), tools, events, out, version)))
            }
        };
        let toolbox = self.toolbox(id, world.as_ref());
        Ok(Scene { session, before, state, world, toolbox })
    }

    fn toolbox(&self, id: &SessionId, world: Option<&World>) -> Toolbox {
        let own = world.map(|world| Arc::new(world.clone()) as Arc<dyn ToolSource>);
        let others: SourceProvider = if self.settings.get().server_tools {
            let (tools, id) = (Arc::clone(&self.tools), id.clone());
            Arc::new(move || tools(&id))
        } else {
            Arc::new(Vec::new)
        };
        let chat = self.settings.get();
        let settings = ToolSettings { max_rounds: chat.max_iterations, ..chat.tools.clone() };
        Toolbox::new(own.into_iter().collect(), others, settings).with_sight(self.describer.clone())
    }

    fn prompt(&self, scene: &Scene, request: &ChatRequest) -> Prompt {
        let offer = scene.toolbox.offer();
        let Scene { session, state, before, .. } = scene;
        prompt(self, session, state, offer.tools(), before, request)
    }

    /// Returns the context that the model would receive, without calling the model.
    fn context(&self, scene: &Scene, request: &ChatRequest) -> ChatResponse {
        let offer = scene.toolbox.offer();
        let mut prompt = self.prompt(scene, request);
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
            messages: messages.map(|m| as_kept(&m, None, at)).collect(),
            tools: tools.collect(),
            prompt_tokens,
        };
        ChatResponse {
            turn_info: turn_info(&scene.state),
            usage: AnswerUsage { prompt_tokens, completion_tokens: 0, total_tokens: prompt_tokens },
            context: Some(context),
            ..ChatResponse::default()
        }
    }

    /// Runs the rounds, and stores the turn before answering.
    async fn answer(
        &self,
        said: &Said,
        scene: &Scene,
        turn: &Turn,
        beginning: Beginning<'_>,
    ) -> Result<ChatResponse, ChatError> {
        let Said { request, ask, .. } = said;
        let mut rounds = Vec::new();
        let budget = self.settings.get().token_budget;
        let (world, out) = (scene.world.as_ref(), ask.out.as_ref());
        let mut output = ApiOutput::new(turn, world, out, budget, beginning);
        let prompt = self.prompt(scene, request);
        let outcome = answer(&mut output, prompt, &*self.llm, &scene.toolbox, &mut rounds).await;
        // No words are needed after successful calls: the client receives the changes.
        let silent = output.parts.content.trim().is_empty() && !output.worked;
        let outcome = match outcome {
            Ok(()) if silent && turn.is_live() => Err(TurnError::NoWords),
            other => other,
        };
        let ApiOutput { parts: Parts { content, said: words, .. }, usage, refused, .. } = output;
        if let Some(error) = refused {
            meters().turns.count(&TurnEnd::Interrupted);
            return Err(error);
        }
        if !turn.is_live() {
            meters().turns.count(&TurnEnd::Interrupted);
            return Err(ChatError::GoingAway);
        }
        if let Err(error) = outcome {
            return Err(self.failed(error, scene));
        }
        let record = TurnRecord {
            user: Some(request.message.clone()),
            said: words,
            rounds,
            end: TurnEnd::Completed,
        };
        meters().turns.count(&record.end);
        let response = self.response(scene, content, usage).await;
        self.keep(scene, said, beginning.fence, &record, &response).await?;
        Ok(response)
    }

    fn failed(&self, error: TurnError, scene: &Scene) -> ChatError {
        tracing::warn!(%error, cause = std::error::Error::source(&error).map(tracing::field::display), session = %scene.session.id, "a message was not answered");
        let told = match &error {
            TurnError::TooManyRounds => {
                ChatError::TooManyRounds(self.settings.get().max_iterations)
            }
            TurnError::Tool { .. } => ChatError::State(StateError::Conflict(None)),
            TurnError::Llm(_) | TurnError::NoWords | TurnError::Recognition => {
                return ChatError::Llm(error);
            }
        };
        meters().turns.count(&TurnEnd::Failed(error));
        told
    }

    async fn response(
        &self,
        scene: &Scene,
        content: String,
        usage: crate::ports::Usage,
    ) -> ChatResponse {
        let effects = scene.world.as_ref().map(|world| world.effects().clone()).unwrap_or_default();
        let after = match &self.state {
            // Changes of this turn may have started or ended a fight.
            Some(server) if effects.touched => server.state(&scene.session.id).await.ok(),
            _ => None,
        };
        ChatResponse {
            requires_roll: effects.requires_roll || asks_to_roll(&content),
            response: content,
            state_changes: effects.changes,
            turn_info: turn_info(after.as_ref().unwrap_or(&scene.state)),
            usage: AnswerUsage {
                prompt_tokens: usage.prompt_tokens,
                completion_tokens: usage.completion_tokens,
                total_tokens: usage.prompt_tokens + usage.completion_tokens,
            },
            context: None,
        }
    }

    async fn keep(
        &self,
        scene: &Scene,
        said: &Said,
        fence: i64,
        record: &TurnRecord,
        response: &ChatResponse,
    ) -> Result<(), ChatError> {
        let Said { request, ask, .. } = said;
        let id = &scene.session.id;
        let at = now();
        let player = request.player_id.as_deref();
        let messages = messages_of(record).iter().map(|m| as_kept(m, player, at)).collect();
        let effects = scene.world.as_ref().map(|world| world.effects().version);
        let turn = KeptTurn {
            session_id: id.clone(),
            after: scene.before.last().map_or(0, |kept| kept.number),
            fence,
            key: ask.key.clone(),
            answer: serde_json::to_string(response).map_err(|e| ChatError::Store(e.into()))?,
            messages,
            state_version: effects.flatten(),
            at,
        };
        // A stored turn must also be published, therefore it is not dropped from here on.
        said.running.begins();
        kept(self.store.keep_turn(&turn).await?)?;
        let told = json!({
            "player_id": request.player_id,
            "message": request.message,
            "response": response.response,
        });
        self.tell(id, "chat.answered", told).await;
        Ok(())
    }

    /// Publishes an event of the server to all watchers of a session.
    pub(super) async fn tell(&self, id: &SessionId, kind: &str, data: Value) {
        let event = Event {
            id: uuid::Uuid::now_v7().to_string(),
            session_id: id.clone(),
            kind: kind.into(),
            data: data.as_object().cloned().unwrap_or_default(),
            timestamp: now(),
        };
        if let Err(error) = self.events.publish(event).await {
            tracing::warn!(error, session = %id, "an event could not be told");
        }
    }
}

/// Returns everything that was said in a turn, in order. An application reads all of it.
fn messages_of(record: &TurnRecord) -> Vec<ChatMessage> {
    let mut memory = Memory::new(usize::MAX, Vec::new());
    memory.commit(record, PlayedBack::ALL);
    memory.messages().to_vec()
}

/// Returns whose turn it is in a fight, if there is one.
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
