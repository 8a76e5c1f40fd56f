//! Answers the words of a turn again, or words that somebody writes, as a role would, to compare. Not a turn: nothing is kept,
//! spoken or called.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use hearken_base::reloadable::Reloadable;
use hearken_dialogue::role::AssignedRole;
use hearken_dialogue::usage::UsageMeter;
use hearken_dialogue::{ConversationStyle, DialogueSettings, LocalTime};
use hearken_ports::role::RoleSettings;
use hearken_ports::store::{HistoryFilter, HistoryStore, HistoryTurn, StoreError};
use hearken_ports::usage::{LimitReached, Used};
use hearken_ports::{ChatMessage, Llm, LlmDelta, Prompt, ProviderError, Role};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Kind of them in the sums of what was used.
const USAGE_KIND: &str = "trial";
/// Trials at a time.
const AT_ONCE: usize = 4;
/// Most turns before the one that is tried that the model is told of.
const MOST_EARLIER: u32 = 6;
/// A longer pause between two turns ends a conversation.
const PAUSE: SignedDuration = SignedDuration::from_mins(10);
/// Longest answer, in bytes.
const MOST_BYTES: usize = 32 << 10;

/// Answer of a trial.
#[derive(Debug)]
pub struct TrialAnswer {
    /// What the model wrote.
    pub text: String,
    /// Time until its first word.
    pub first_word: Option<Duration>,
    /// Time until its end.
    pub total: Duration,
    /// Number of earlier turns that it was told of.
    pub earlier: usize,
}

/// Reason why a trial has no answer.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Other trials run.
    #[error("other trials run: try again later")]
    Busy,
    /// What the person said is not kept.
    #[error("what was said is not kept of this turn")]
    NoWords,
    /// Today's limit is reached.
    #[error(transparent)]
    LimitReached(LimitReached),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The model failed.
    #[error("the model failed")]
    Model(#[from] ProviderError),
}

/// Trials of turns. Clones share the limit.
#[derive(Clone)]
pub struct Trials {
    llm: Arc<dyn Llm>,
    dialogue: Reloadable<DialogueSettings>,
    now: LocalTime,
    free: Arc<Semaphore>,
    usage: UsageMeter,
}

impl Trials {
    /// Creates the trials with this model and these settings of conversations.
    pub fn new(
        llm: Arc<dyn Llm>,
        dialogue: Reloadable<DialogueSettings>,
        now: LocalTime,
        usage: UsageMeter,
    ) -> Self {
        Self { llm, dialogue, now, free: Arc::new(Semaphore::new(AT_ONCE)), usage }
    }

    /// Answers the words of this turn again, as this role would.
    ///
    /// # Errors
    /// See [`TrialError`].
    pub async fn repeat(
        &self,
        store: &dyn HistoryStore,
        turn: &HistoryTurn,
        role: RoleSettings,
    ) -> Result<TrialAnswer, TrialError> {
        let _free = self.free.try_acquire().map_err(|_| TrialError::Busy)?;
        if turn.heard.is_empty() {
            return Err(TrialError::NoWords);
        }
        let earlier = earlier(store, turn).await?;
        self.answer(&earlier, &turn.heard, role).await
    }

    /// Answers these words as this role would.
    ///
    /// # Errors
    /// See [`TrialError`].
    pub async fn ask(&self, words: &str, role: RoleSettings) -> Result<TrialAnswer, TrialError> {
        let _free = self.free.try_acquire().map_err(|_| TrialError::Busy)?;
        self.answer(&[], words, role).await
    }

    /// Returns an error if a limit of the day is reached.
    pub(crate) fn check_limits(&self) -> Result<(), TrialError> {
        self.usage
            .reached("", None)
            .map_or(Ok(()), |reached| Err(TrialError::LimitReached(reached)))
    }

    /// Counts speech of this length, of so many characters.
    pub(crate) fn count_speech(&self, length: Duration, characters: usize) {
        let said_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let used = Used { said_ms, said_chars: characters as u64, ..Used::default() };
        self.usage.count(USAGE_KIND, "", "", &used);
    }

    async fn answer(
        &self,
        earlier: &[HistoryTurn],
        words: &str,
        role: RoleSettings,
    ) -> Result<TrialAnswer, TrialError> {
        self.check_limits()?;
        let prompt = self.prompt(earlier, words, role);
        self.usage.count(USAGE_KIND, "", "", &Used { turns: 1, ..Used::default() });
        let mut usage = self.usage.counts_model(USAGE_KIND, &prompt, &*self.llm);
        let begun = Instant::now();
        let mut first_word = None;
        let mut answer = self.llm.reply(prompt);
        let mut text = String::new();
        while let Some(delta) = answer.next().await {
            usage.read(&delta);
            if let LlmDelta::Text(words) = delta? {
                first_word.get_or_insert_with(|| begun.elapsed());
                text.push_str(&words);
            }
            if text.len() > MOST_BYTES {
                break;
            }
        }
        Ok(TrialAnswer { text, first_word, total: begun.elapsed(), earlier: earlier.len() })
    }

    fn prompt(&self, earlier: &[HistoryTurn], words: &str, role: RoleSettings) -> Prompt {
        let settings = self.dialogue.get();
        let role = Arc::new(AssignedRole { settings: role, ..AssignedRole::default() });
        let style = ConversationStyle::default().with_role(Some(Arc::clone(&role)));
        let system = style.instructions(&settings.system_prompt, &(self.now)());
        let mut messages = vec![ChatMessage::new(Role::System, system)];
        for turn in earlier {
            messages.push(ChatMessage::new(Role::User, &*turn.heard));
            messages.push(ChatMessage::new(Role::Assistant, &*turn.said));
        }
        messages.push(ChatMessage::new(Role::User, words));
        Prompt {
            messages,
            max_tokens: role.max_tokens.unwrap_or(settings.max_tokens),
            temperature: role.temperature.unwrap_or(settings.temperature),
            model: role.model.clone(),
            ..Prompt::default()
        }
    }
}

/// Returns the turns of the same conversation before this one, oldest first.
async fn earlier(
    store: &dyn HistoryStore,
    turn: &HistoryTurn,
) -> Result<Vec<HistoryTurn>, StoreError> {
    let filter = HistoryFilter {
        client: turn.client.clone(),
        kind: turn.kind.clone(),
        before: Some(turn.number),
        ..HistoryFilter::default()
    };
    let mut next = turn.began;
    let mut found = store.turns(&filter, MOST_EARLIER).await?;
    let goes_on = |began: &Timestamp| {
        let near = next.duration_since(*began) <= PAUSE;
        next = *began;
        near
    };
    let near = found.iter().map(|found| found.began).take_while(goes_on).count();
    found.truncate(near);
    found.retain(|found| !found.heard.is_empty() && !found.said.is_empty());
    found.reverse();
    Ok(found)
}
