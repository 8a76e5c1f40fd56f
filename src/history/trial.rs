//! Trials: answers the words of a stored turn again, or any other words, as a role would, for
//! comparison. A trial is not a turn: it stores, speaks and calls nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use hearken_base::ms::in_ms;
use hearken_base::reloadable::Reloadable;
use hearken_dialogue::role::AssignedRole;
use hearken_dialogue::usage::UsageMeter;
use hearken_dialogue::{ConversationStyle, DialogueSettings, LocalTime};
use hearken_ports::role::RoleSettings;
use hearken_ports::store::{HistoryFilter, HistoryStore, HistoryTurn, StoreError};
use hearken_ports::usage::{LimitReached, Used};
use hearken_ports::{ChatMessage, Llm, LlmDelta, Prompt, ProviderError, Role, TurnLanguage};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Kind of trials in the usage records.
const USAGE_KIND: &str = "trial";
/// Maximum number of concurrent trials.
const AT_ONCE: usize = 4;
/// Maximum number of earlier turns in the prompt of a trial.
const MOST_EARLIER: u32 = 6;
/// Pause between two turns above which they belong to different conversations.
const PAUSE: SignedDuration = SignedDuration::from_mins(10);
/// Maximum length of an answer, in bytes; reading stops after it.
const MOST_BYTES: usize = 32 << 10;

/// Answer of a trial.
#[derive(Debug)]
pub struct TrialAnswer {
    /// Text of the model.
    pub text: String,
    /// Time to the first word; `None` if there was none.
    pub first_word: Option<Duration>,
    /// Time to the end of the answer.
    pub total: Duration,
    /// Number of earlier turns in the prompt.
    pub earlier: usize,
}

/// Reason why a trial has no answer.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Too many other trials are running.
    #[error("too many trials are running: try again later")]
    Busy,
    /// The words of the turn are not stored.
    #[error("the words of this turn are not stored: see `history.keep`")]
    NoWords,
    /// A daily limit is reached.
    #[error(transparent)]
    LimitReached(LimitReached),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The model failed.
    #[error("the model failed")]
    Model(#[from] ProviderError),
}

/// Trials of roles and of turns. Clones share the limit.
#[derive(Clone)]
pub struct Trials {
    llm: Arc<dyn Llm>,
    dialogue: Reloadable<DialogueSettings>,
    now: LocalTime,
    free: Arc<Semaphore>,
    usage: UsageMeter,
}

impl Trials {
    /// Creates the trials with this model and these conversation settings.
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

    /// Begins a use of a recogniser or a synthesiser.
    ///
    /// # Errors
    /// A daily limit is reached.
    pub(crate) fn begin_use(&self) -> Result<SpeechUse<'_>, TrialError> {
        self.check_limits()?;
        Ok(SpeechUse { usage: &self.usage, used: Used::default() })
    }

    fn check_limits(&self) -> Result<(), TrialError> {
        self.usage
            .reached("", None)
            .map_or(Ok(()), |reached| Err(TrialError::LimitReached(reached)))
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
            language: TurnLanguage::after(
                style.answer_language(),
                earlier.iter().map(|turn| &*turn.heard),
            ),
            ..Prompt::default()
        }
    }
}

/// Use of a recogniser or a synthesiser. Counted when dropped: a trial that fails or is cut counts
/// with what it has used.
pub(crate) struct SpeechUse<'a> {
    usage: &'a UsageMeter,
    used: Used,
}

impl SpeechUse<'_> {
    /// Adds a text for the synthesiser.
    pub(crate) fn synthesises(&mut self, text: &str) {
        let said_chars = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        self.used.add(&Used { said_chars, ..Used::default() });
    }

    /// Sets the length of the synthesised speech.
    pub(crate) fn has_said(&mut self, length: Duration) {
        self.used.said_ms = in_ms(length);
    }

    /// Sets the length of the audio for the recogniser.
    pub(crate) fn has_heard(&mut self, length: Duration) {
        self.used.heard_ms = in_ms(length);
    }
}

impl Drop for SpeechUse<'_> {
    fn drop(&mut self) {
        self.usage.count(USAGE_KIND, "", "", &self.used);
    }
}

/// Returns earlier turns of the same conversation, oldest first.
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
