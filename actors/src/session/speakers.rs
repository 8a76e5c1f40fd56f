//! Speakers of a session: whose turn it is, whose words are ignored, and what is remembered of
//! them. Not for recognising voices.

use std::sync::Arc;

use actix::fut::WrapFuture as _;
use actix::{AsyncContext as _, Context};
use hearken_audio::playout::PlayedBack;
use hearken_dialogue::Turn;
use hearken_dialogue::speaker_tracker::{WordsFor, unattributed};
use hearken_dialogue::turn::TurnRecord;
use hearken_ports::{Person, Role, Transcript};

use super::{SessionActor, spoken_words};

impl SessionActor {
    /// Returns the person who says the words of a turn, if their voice is known.
    pub(super) fn person(&self, turn: &Turn) -> Option<Arc<Person>> {
        self.dialogue.speakers().and_then(|speakers| speakers.who(&turn.speaker()))
    }

    /// Returns true if the words of a turn must be ignored, because they are addressed to another
    /// person.
    pub(super) fn ignores(&self, turn: &Turn) -> bool {
        self.dialogue.speakers().is_some_and(|speakers| speakers.ignores(&turn.speaker()))
    }

    /// Returns the words of a transcript, if there are any and they must not be ignored. Those of a
    /// person in danger never are, whatever the voice.
    pub(super) fn words(&self, turn: &Turn, transcript: &Transcript) -> Option<String> {
        let in_danger = |words: &str| self.llm.is_urgent(&self.dialogue.prompt(words, None));
        spoken_words(transcript).filter(|words| !self.ignores(turn) || in_danger(words))
    }

    /// Records the speaker of words that count, and stores a person whose voice was learned from
    /// them. An ignored voice, heard because of a danger, does not become the one that is spoken to.
    pub(super) fn note_speaker(&self, turn: &Turn, ctx: &mut Context<Self>) {
        if self.ignores(turn) {
            return;
        }
        let Some(speakers) = self.dialogue.speakers() else { return };
        let words_for = if self.awaits_answer() {
            WordsFor::Continuation
        } else if self.toolbox.holds_call() {
            WordsFor::Decision
        } else {
            WordsFor::Themselves
        };
        if let Some(enrolment) = speakers.heard(&turn.speaker(), words_for) {
            let speakers = Arc::clone(speakers);
            ctx.spawn(async move { speakers.enrol(enrolment).await }.into_actor(self));
        }
    }

    /// Stores a finished turn in the dialogue and in the memories of the person who was answered.
    pub(super) fn remember(
        &mut self,
        mut record: TurnRecord,
        heard: PlayedBack,
        continued: bool,
        person: Option<Arc<Person>>,
        ctx: &mut Context<Self>,
    ) {
        let said =
            record.user.as_deref().map(|said| unattributed(person.as_ref(), said).to_owned());
        if let Some(words) = &mut record.user {
            *words = self.dialogue.attributed(person.as_ref(), words);
        }
        // Text that a third party may have written must not return later as the server's own words.
        // What the dialogue forgets now was in the prompt of the answer as well.
        let had_read =
            person.is_some() && self.toolbox.has_read_untrusted(self.dialogue.messages());
        if !self.dialogue.commit(&record, heard, continued) {
            return;
        }
        if self.dialogue.role(person.as_ref()).is_some_and(|role| !role.memory) {
            return;
        }
        let answer = self.dialogue.messages().last().filter(|m| m.role == Role::Assistant);
        let is_own = !had_read && !self.toolbox.has_read_untrusted(self.dialogue.messages());
        let answered = answer.map(|m| if is_own { m.content.clone() } else { String::new() });
        let (Some(person), Some(said), Some(answered), Some(speakers)) =
            (person, said, answered, self.dialogue.speakers())
        else {
            return;
        };
        let speakers = Arc::clone(speakers);
        let remember = async move {
            if let Err(error) = speakers.people().converse(&person.id, &said, &answered).await {
                tracing::warn!(%error, "cannot remember what a person said");
            }
        };
        ctx.spawn(remember.into_actor(self));
    }
}
