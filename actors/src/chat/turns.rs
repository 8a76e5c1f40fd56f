//! One message in a chat session, from the request to the answer: the session locked, the prompt
//! made, the rounds run, the turn kept. Not for sessions otherwise.

use std::sync::Arc;

use hearken_proto::chat::{
    AnswerUsage, ChatContext, ChatRequest, ChatResponse, ChatSession, ChatStatus, ContextTool,
    Event, TurnInfo,
};
use hearken_proto::ids::{SessionId, TurnId};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::context::{as_kept, prompt};
use super::narration::{ChatPiece, Narration};
use super::world::{World, nowhere, version_of};
use super::{ChatDesk, ChatError, budget};
use crate::audio::playout::Heard;
use crate::dialogue::parts::Parts;
use crate::dialogue::run_turn::answer;
use crate::dialogue::{Memory, Turn, TurnEnd, TurnError, TurnRecord};
use crate::meters::meters;
use crate::ports::{
    ChatMessage, KeptMessage, KeptTurn, Prompt, SessionLock, StateError, ToolSource, TurnKept,
};
use crate::tools::{Others, ToolSettings, Toolbox};
use crate::wall_clock::now;

/// Words that ask a player to roll dice, where no tool says so.
const ASKS_TO_ROLL: [&str; 9] = [
    "请投",
    "请掷",
    "投一次",
    "掷一次",
    "投个骰",
    "进行一次检定",
    "please roll",
    "roll a d",
    "make a roll",
];

/// What a turn begins from.
struct Scene {
    session: ChatSession,
    /// The messages that are read, oldest first.
    before: Vec<KeptMessage>,
    state: Map<String, Value>,
    world: Option<World>,
    toolbox: Toolbox,
}

/// A request about a session: what is said, how the client names it, and where pieces of the
/// answer go as they come.
#[derive(Debug, Default)]
pub struct Ask {
    /// By which a repeated request is known; within the session.
    pub key: Option<String>,
    /// Where the answer is told as it comes.
    pub out: Option<mpsc::Sender<ChatPiece>>,
}

impl ChatDesk {
    /// Answers a message that was checked. Dropping the future ends everything that was begun;
    /// what tools have done by then is done.
    ///
    /// # Errors
    /// See [`ChatError`]; nothing is kept of the turn then.
    pub async fn chat(
        &self,
        id: &SessionId,
        request: &ChatRequest,
        ask: Ask,
    ) -> Result<ChatResponse, ChatError> {
        let session = self.active(id).await?;
        if let Some(answered) = self.answered(id, ask.key.as_deref()).await? {
            return Ok(answered);
        }
        if request.context_only {
            let scene = self.scene(session, None).await?;
            return Ok(self.context(&scene, request));
        }
        let lock = self.locks.lock(id.as_str(), self.settings.get().lock_wait).await?;
        let lock = lock.ok_or(ChatError::Busy)?;
        // The request may be a repeated one whose first was just answered.
        if let Some(answered) = self.answered(id, ask.key.as_deref()).await? {
            return Ok(answered);
        }
        let scene = self.scene(self.active(id).await?, ask.out.clone()).await?;
        let lost = lock.lost.clone();
        tokio::select! {
            biased;
            () = lost.cancelled() => Err(ChatError::Overtaken),
            answered = self.answer(&scene, request, &ask, &lock) => answered,
        }
    }

    async fn answered(
        &self,
        id: &SessionId,
        key: Option<&str>,
    ) -> Result<Option<ChatResponse>, ChatError> {
        let Some(key) = key else { return Ok(None) };
        let Some(answer) = self.store.answered(id, key).await? else { return Ok(None) };
        let answer = serde_json::from_str(&answer).map_err(|e| ChatError::Store(e.into()))?;
        Ok(Some(answer))
    }

    /// A session that can be talked in.
    async fn active(&self, id: &SessionId) -> Result<ChatSession, ChatError> {
        let session = self.session(id).await?;
        match session.status {
            ChatStatus::Active => Ok(session),
            other => {
                let about = format!("the session is {}: restore it first", other.as_str());
                Err(ChatError::Status(about))
            }
        }
    }

    /// Everything that the turn needs to know.
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
        let others: Others = if self.settings.get().server_tools {
            let (tools, id) = (Arc::clone(&self.tools), id.clone());
            Arc::new(move || tools(&id))
        } else {
            Arc::new(Vec::new)
        };
        let chat = self.settings.get();
        let settings = ToolSettings { max_rounds: chat.max_iterations, ..chat.tools.clone() };
        Toolbox::new(own.into_iter().collect(), others, settings).with_sight(self.sight.clone())
    }

    fn prompt(&self, scene: &Scene, request: &ChatRequest) -> Prompt {
        let offer = scene.toolbox.offer();
        let Scene { session, state, before, .. } = scene;
        prompt(self, session, state, offer.tools(), before, request)
    }

    /// What the model would be told.
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

    /// Runs the rounds, and keeps the turn before it is answered.
    async fn answer(
        &self,
        scene: &Scene,
        request: &ChatRequest,
        ask: &Ask,
        lock: &SessionLock,
    ) -> Result<ChatResponse, ChatError> {
        let turn = Turn::new(TurnId(1), &self.process);
        let mut rounds = Vec::new();
        let budget = self.settings.get().token_budget;
        let mut face = Narration::new(&turn, scene.world.as_ref(), ask.out.as_ref(), budget);
        let prompt = self.prompt(scene, request);
        let outcome = answer(&mut face, prompt, &*self.llm, &scene.toolbox, &mut rounds).await;
        let outcome = match outcome {
            Ok(()) if face.parts.content.trim().is_empty() && turn.is_live() => {
                Err(TurnError::NoWords)
            }
            other => other,
        };
        let Narration { parts: Parts { content, said, .. }, usage, .. } = face;
        if !turn.is_live() {
            meters().turns.count(&TurnEnd::Interrupted);
            return Err(ChatError::GoingAway);
        }
        if let Err(error) = outcome {
            return Err(self.failed(error, scene));
        }
        let record = TurnRecord {
            user: Some(request.message.clone()),
            said,
            rounds,
            end: TurnEnd::Completed,
        };
        meters().turns.count(&record.end);
        let response = self.response(scene, content, usage).await;
        self.keep(scene, request, ask, lock, &record, &response).await?;
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
        let deeds = scene.world.as_ref().map(|world| world.deeds().clone()).unwrap_or_default();
        let after = match &self.state {
            // What the turn itself has done may have begun a fight, or ended it.
            Some(server) if deeds.touched => server.state(&scene.session.id).await.ok(),
            _ => None,
        };
        let lower = content.to_lowercase();
        ChatResponse {
            requires_roll: deeds.requires_roll
                || ASKS_TO_ROLL.iter().any(|ask| lower.contains(ask)),
            response: content,
            state_changes: deeds.changes,
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
        request: &ChatRequest,
        ask: &Ask,
        lock: &SessionLock,
        record: &TurnRecord,
        response: &ChatResponse,
    ) -> Result<(), ChatError> {
        let id = &scene.session.id;
        let at = now();
        let player = request.player_id.as_deref();
        let messages = said(record).iter().map(|m| as_kept(m, player, at)).collect();
        let deeds = scene.world.as_ref().map(|world| world.deeds().version);
        let turn = KeptTurn {
            session_id: id.clone(),
            after: scene.before.last().map_or(0, |kept| kept.number),
            fence: lock.fence,
            key: ask.key.clone(),
            answer: serde_json::to_string(response).map_err(|e| ChatError::Store(e.into()))?,
            messages,
            state_version: deeds.flatten(),
            at,
        };
        match self.store.keep_turn(&turn).await? {
            TurnKept::Kept => {}
            TurnKept::Overtaken => return Err(ChatError::Overtaken),
            TurnKept::Closed => {
                let about = "the session was archived or deleted meanwhile";
                return Err(ChatError::Status(about.into()));
            }
        }
        let told = json!({
            "player_id": request.player_id,
            "message": request.message,
            "response": response.response,
        });
        self.tell(id, "chat.answered", told).await;
        Ok(())
    }

    /// Tells everybody who watches a session of something that we did.
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

/// Everything that was said in a turn, in order: an application reads all of it.
fn said(record: &TurnRecord) -> Vec<ChatMessage> {
    let mut memory = Memory::new(usize::MAX, Vec::new());
    memory.commit(record, Heard::ALL);
    memory.messages().to_vec()
}

/// Whose turn it is, where there is a fight.
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
