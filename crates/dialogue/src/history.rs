//! One dialogue: builds the prompt from instructions, language and remembered messages. Not for the
//! remembered messages themselves: see [`super::memory`].

use std::sync::Arc;

use hearken_audio::playout::PlayedBack;
use hearken_base::language::Language;
use hearken_base::reloadable::Reloadable;
use hearken_ports::{ChatMessage, Person, Prompt, Role, TurnLanguage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::memory::{Memory, join, push_user};
use super::recent_words::ClientWords;
use super::spoken_language::SpokenLanguage;
use super::style::{ConversationStyle, CurrentStyle, LocalTime};
use super::turn::TurnRecord;
use crate::role::{AssignedRole, RoleLookup, assigned};
use crate::speaker_tracker::{SpeakerTracker, attributed, unattributed, without_deleted};
use crate::tools::calls::StoppedCall;

/// Added after the instructions when the person speaks Chinese. Small models otherwise answer in
/// the language of their instructions.
const IN_CHINESE: &str = "\n请用中文回答。";

/// Section `[dialogue]`: how a session talks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DialogueSettings {
    /// System prompt for conversations with devices. `{current_time}` is replaced by the
    /// local date and time of the turn. `hearken devices instruct` sets separate
    /// instructions for one device.
    pub system_prompt: String,
    /// Instruction that makes the model begin with an emoji, which the device displays as
    /// its facial expression and never speaks. Empty requests none. The embedded model
    /// never gets this instruction.
    pub emotion_prompt: String,
    /// Maximum number of messages of a session that the model remembers, counting those of
    /// both sides, tool calls and tool results. More give the model more context and cost
    /// more input tokens.
    #[schemars(range(min = 2, max = 1_000))]
    pub max_messages: usize,
    /// Maximum length of a spoken answer, which ends at a sentence; 0 for no limit. Applies to the
    /// instructions of the deployment; a role has its own limit. Requested stories, poems and
    /// recipes may take 100 s.
    #[schemars(range(max = 3_600), extend("x-unit" = "seconds"))]
    pub answer_seconds: u32,
    /// Maximum length of a reply, in tokens; its key is in `[llm]`.
    #[serde(skip)]
    pub max_tokens: u32,
    /// Sampling temperature, 0.0 to 1.0; its key is in `[llm]`.
    #[serde(skip)]
    pub temperature: f64,
    /// Language assumed until the first words of the user are recognised, for fixed phrases
    /// and turn detection.
    pub language: Language,
}

impl Default for DialogueSettings {
    fn default() -> Self {
        Self {
            system_prompt: "You are a friendly voice assistant in a loudspeaker, without eyes or \
                            hands. Answer in the language that the user speaks, in one or two \
                            short spoken sentences, in plain text without Markdown. If you do not \
                            know or cannot do something, say so."
                .into(),
            emotion_prompt: "Begin your answer with one emoji that shows how you feel.".into(),
            max_messages: 10,
            answer_seconds: 30,
            max_tokens: 200,
            temperature: 0.6,
            language: Language::Chinese,
        }
    }
}

/// Dialogue of one session.
pub struct Dialogue {
    settings: Reloadable<DialogueSettings>,
    style: CurrentStyle,
    now: LocalTime,
    memory: Memory,
    /// Words of the last turns, also of those that are not remembered.
    recent: ClientWords,
    language: SpokenLanguage,
    speakers: Option<Arc<SpeakerTracker>>,
    roles: RoleLookup,
}

impl Dialogue {
    /// Creates an empty dialogue with this conversation style. If the style has no instructions,
    /// each prompt uses the current ones of the settings.
    pub fn new(
        settings: impl Into<Reloadable<DialogueSettings>>,
        style: CurrentStyle,
        now: LocalTime,
    ) -> Self {
        let settings = settings.into();
        let language = SpokenLanguage::new(settings.get().language);
        let memory = Memory::new(settings.get().max_messages, Vec::new());
        let recent = ClientWords::default();
        let roles: RoleLookup = Arc::new(|_| None);
        Self { settings, style, now, memory, recent, language, speakers: None, roles }
    }

    /// Names the speaker in the prompts, as this tracker recognises them.
    #[must_use]
    pub fn with_speakers(self, speakers: Option<Arc<SpeakerTracker>>) -> Self {
        Self { speakers, ..self }
    }

    /// Sets the lookup of people's roles.
    #[must_use]
    pub fn with_roles(self, roles: RoleLookup) -> Self {
        Self { roles, ..self }
    }

    /// Continues the words of the client's earlier dialogues, for rules about people in danger.
    #[must_use]
    pub fn with_recent_words(self, recent: ClientWords) -> Self {
        Self { recent, ..self }
    }

    /// Returns the tracker of the speakers, if voices are recognised.
    pub fn speakers(&self) -> Option<&Arc<SpeakerTracker>> {
        self.speakers.as_ref()
    }

    /// Returns the language that the person last spoke.
    pub fn language(&self) -> Language {
        self.language.get()
    }

    /// Returns the language of these words, or the current language if the words do not determine
    /// one.
    pub fn language_of(&self, words: &str) -> Language {
        Language::of_words(words, self.language.heard()).unwrap_or_else(|| self.language())
    }

    /// Returns a handle to the current language.
    pub fn spoken_language(&self) -> SpokenLanguage {
        self.language.clone()
    }

    /// Records the language of the person's words.
    pub fn note_language(&mut self, text: &str) {
        if let Some(language) = Language::of_words(text, self.language.heard()) {
            self.language.set(language);
        }
    }

    /// Remembers words that will be answered together with the next ones.
    pub fn keep_words(&mut self, words: &str) {
        self.note_language(words);
        self.memory.push_words(words);
    }

    /// Returns the last words if they were not answered.
    pub fn unanswered(&self) -> Option<&str> {
        self.memory.unanswered()
    }

    /// Removes and returns the last words if they were not answered.
    pub fn take_unanswered(&mut self) -> Option<String> {
        self.memory.take_unanswered().map(|words| self.without_deleted(words))
    }

    /// Forgets the last words if they were not answered: they will not be. Remembers the calls that
    /// were made for them, `stopped` with these results.
    pub fn forget_unanswered(&mut self, stopped: &[StoppedCall]) {
        if let Some(words) = self.memory.unanswered() {
            self.recent.add(words.to_owned());
        }
        self.memory.forget_unanswered(stopped);
    }

    /// Records words of a turn that was cut before it started: they are neither answered nor
    /// remembered.
    pub fn note_words(&mut self, words: String) {
        self.recent.add(words);
    }

    /// Returns the prompt for the model when this person, if their voice is recognised, says
    /// `words`. Earlier words that were not answered, because the person went on speaking, come
    /// first in the same message.
    pub fn prompt(&self, words: &str, person: Option<&Arc<Person>>) -> Prompt {
        let mut prompt = self.opening_for(person, self.language_of(words));
        push_user(&mut prompt.messages, &self.attributed(person, words));
        prompt.messages.extend(self.memory.made());
        prompt.since_last = self.memory.since_last();
        // A person in danger asks "what now?" whatever the model remembers or the person has heard.
        prompt.earlier = self.recent.earlier();
        prompt
    }

    /// Returns the words of a person as the model receives them and the dialogue remembers them.
    /// Words that continue others are part of the same message, whose mark is at its start.
    pub fn attributed(&self, person: Option<&Arc<Person>>, words: &str) -> String {
        match self.memory.unanswered() {
            Some(_) => unattributed(person, words).to_owned(),
            None => attributed(person, words),
        }
    }

    /// Returns the start of the next prompt, assuming that the last speaker goes on. It does not
    /// depend on the person's next words.
    pub fn opening(&self) -> Prompt {
        let person = self.speakers.as_ref().and_then(|speakers| speakers.person());
        self.opening_for(person.as_ref(), self.language())
    }

    /// Returns the style of a turn of this person.
    fn style_for(&self, person: Option<&Arc<Person>>) -> ConversationStyle {
        let own = person.and_then(|person| assigned(&person.role_id, &*self.roles));
        (self.style)().with_role(own)
    }

    /// Returns the role in which this person is answered.
    pub fn role(&self, person: Option<&Arc<Person>>) -> Option<Arc<AssignedRole>> {
        self.style_for(person).role
    }

    fn opening_for(&self, person: Option<&Arc<Person>>, language: Language) -> Prompt {
        let settings = self.settings.get();
        // Each turn reads its role from memory: a change applies at once, and no conversation waits
        // for the store. Decision 0072.
        let style = self.style_for(person);
        let mut system = style.instructions(&settings.system_prompt, &(self.now)());
        let instant = style.instant();
        let answer_seconds = Some(style.answer_seconds(settings.answer_seconds));
        let fixed = style.answer_language();
        let role = style.role.unwrap_or_default();
        if !settings.emotion_prompt.is_empty() {
            system.push(' ');
            system.push_str(&settings.emotion_prompt);
        }
        if let Some(speakers) = &self.speakers {
            system.push_str(&speakers.instructions(person, role.memory));
        }
        // A fixed language has its own instruction.
        if language == Language::Chinese && fixed.is_none() {
            system.push_str(IN_CHINESE);
        }
        let mut messages = vec![ChatMessage::new(Role::System, system)];
        let remembered = self.memory.messages();
        // The first half of a question belongs to the prompt even without memory.
        let begun = remembered.len() - usize::from(self.memory.unanswered().is_some());
        let from = if role.memory { 0 } else { begun };
        messages.extend(remembered[from..].iter().map(|message| self.told(message)));
        Prompt {
            messages,
            max_tokens: role.max_tokens.unwrap_or(settings.max_tokens),
            answer_seconds,
            temperature: role.temperature.unwrap_or(settings.temperature),
            model: role.model.clone(),
            language: TurnLanguage { fixed, spoken: Some(language) },
            instant,
            ..Prompt::default()
        }
    }

    /// Returns a remembered message as the prompt contains it: without the names of deleted people.
    fn told(&self, message: &ChatMessage) -> ChatMessage {
        let mut told = message.clone();
        if message.role == Role::User {
            told.content = self.without_deleted(told.content);
        }
        told
    }

    /// Returns remembered words without the marks of deleted people.
    fn without_deleted(&self, words: String) -> String {
        match &self.speakers {
            Some(speakers) => without_deleted(speakers.people(), &words),
            None => words,
        }
    }

    /// Remembers the played-back part of a finished turn. Words that got no answer are forgotten,
    /// except when the person went on speaking before the answer (`continued`): then they are
    /// retained and answered together with the next words. Reports whether there was an answer to
    /// remember.
    pub fn commit(&mut self, record: &TurnRecord, heard: PlayedBack, continued: bool) -> bool {
        let continued = continued && !record.is_refused();
        if continued && self.memory.keep_made(record, &heard) {
            return false;
        }
        let before = self.memory.unanswered().map(str::to_owned);
        let remembered = self.memory.commit(record, heard);
        let said = before.iter().chain(&record.user);
        if !remembered && continued {
            said.for_each(|words| self.memory.push_words(words));
        } else {
            let mut all = String::new();
            said.for_each(|words| join(&mut all, words));
            self.recent.add(all);
        }
        remembered
    }

    /// Returns the remembered messages, oldest first.
    pub fn messages(&self) -> &[ChatMessage] {
        self.memory.messages()
    }
}

#[cfg(test)]
mod tests;
