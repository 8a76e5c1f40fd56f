//! Speakers in one conversation: the current person, a voice that is being enrolled, and voices
//! that are ignored. Also the corresponding instructions for the model. Not for recognising voices,
//! nor for storage: see `crate::people`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearken_ports::{Exchange, Person, PersonId};
use tokio::time::Instant;

use crate::people::{People, PeopleError, SENTENCES, Speaker, UnknownSpeaker, Voice};

/// Maximum number of earlier exchanges in the model's instructions.
const EXCHANGES_TOLD: usize = 5;
/// Time after the last sentence of an enrolment until it lapses: later sentences of its voice, in
/// another conversation, are not meant for it.
const ENROLMENT_LASTS: Duration = Duration::from_secs(300);

/// Tracker of the speakers in one conversation.
pub struct SpeakerTracker {
    people: People,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// Most recent voice of words long enough to identify a speaker.
    voice: Option<Voice>,
    /// Person with that voice, if enrolled.
    person: Option<PersonId>,
    /// Reason why the last speaker is unknown: words followed that were typed, or long enough for a
    /// voice that was not computed.
    unknown: Option<UnknownSpeaker>,
    /// Whether the last words, or those before the question that they answer, were long enough to
    /// identify a speaker.
    told: bool,
    /// Whether the last words belong to words of another voice: they continue them, or decide about
    /// a call for them.
    is_mixed: bool,
    ignores_others: bool,
    /// True from the start of a conversation by a wake word or a text until a voice is recorded:
    /// whoever speaks is the one that is spoken to.
    admits_anyone: bool,
    enrolment: Option<Enrolment>,
    /// Reason why the last enrolment failed, and whether the next words have arrived since: their
    /// prompt contains the reason.
    failed: Option<(String, bool)>,
    /// Exchanges of each person before this conversation.
    before: HashMap<PersonId, Vec<Exchange>>,
}

/// Purpose of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordsFor {
    /// A question or statement of their own.
    Themselves,
    /// The answer to a question about a call.
    Decision,
    /// A continuation of earlier words that were not answered: both are answered together.
    Continuation,
}

/// Enrolment in progress.
#[derive(Debug, Clone)]
pub struct Enrolment {
    /// Name of the person.
    pub name: String,
    /// Voices of their sentences so far.
    pub voices: Vec<Voice>,
    /// Time of the last of these sentences.
    pub heard_at: Instant,
}

/// What was forgotten at a person's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// An enrolled person with all their data.
    Person,
    /// An enrolment in progress, of which nothing was stored.
    Enrolment,
}

impl SpeakerTracker {
    /// Creates the tracker of a conversation without a speaker so far.
    pub fn new(people: People) -> Self {
        let ignores_others = people.settings().ignore_others;
        Self { people, now: Mutex::new(Now { ignores_others, ..Now::default() }) }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the enrolled people.
    pub fn people(&self) -> &People {
        &self.people
    }

    /// Reads the enrolled people: other instances may have changed them.
    pub async fn refresh(&self) {
        if let Err(error) = self.people.refresh().await {
            tracing::warn!(error, "cannot read the enrolled people");
        }
    }

    /// Identifies the speaker of this speech (16 kHz, mono). Returns an unknown speaker after the
    /// deadline.
    pub async fn identify(&self, speech: Vec<i16>) -> Speaker {
        let deadline = self.people.settings().deadline;
        let identified = tokio::time::timeout(deadline, self.people.identify(speech)).await;
        identified.unwrap_or_else(|_| Speaker::unknown())
    }

    /// Reports whether words of this speaker are to be ignored: while a recognised person is spoken
    /// to, those of anyone else.
    pub fn ignores(&self, speaker: &Speaker) -> bool {
        let now = self.now();
        let others = now.person.as_ref().filter(|id| speaker.is_other_than(id));
        now.ignores_others
            && !now.admits_anyone
            && others.is_some_and(|id| self.people.get(id).is_some())
    }

    /// Starts another conversation, in which whoever speaks next is the one that is spoken to.
    /// Short words still belong to the last speaker.
    pub fn admit_anyone(&self) {
        self.now().admits_anyone = true;
    }

    /// Sets whether anyone but the person who is spoken to is ignored.
    pub fn ignore_others(&self, ignores: bool) {
        self.now().ignores_others = ignores;
    }

    /// Records the speaker of words that are answered. Returns the enrolment that is complete with
    /// them.
    ///
    /// A short confirmation does not identify a voice, and the confirmed action is done for the
    /// person who asked. A longer one whose voice was not computed in time leaves the speaker
    /// unknown. Another speaker who answers the question, or continues the words, has no effect on
    /// enrolment.
    pub fn heard(&self, speaker: &Speaker, words_for: WordsFor) -> Option<Enrolment> {
        let mut now = self.now();
        now.failed = now.failed.take().filter(|(_, told)| !told).map(|(why, _)| (why, true));
        let Some(voice) = &speaker.voice else {
            if words_for == WordsFor::Themselves {
                now.told = false;
                now.is_mixed = false;
            }
            // Another person may have said or typed them, a confirmation included: only a short one
            // is accepted without its voice.
            if speaker.unknown.is_some() {
                now.told = false;
                now.unknown = speaker.unknown;
            }
            return None;
        };
        let person = speaker.person.as_ref().map(|person| person.id.clone());
        let same = match (&now.person, &person) {
            (None, None) => now.voice.as_ref().is_none_or(|v| self.people.are_alike(v, voice)),
            (before, person) => before == person,
        };
        match words_for {
            WordsFor::Themselves => (now.told, now.is_mixed) = (true, false),
            WordsFor::Decision => now.told = same,
            WordsFor::Continuation => now.told &= same,
        }
        now.is_mixed |= !same && words_for != WordsFor::Themselves;
        now.voice = Some(Arc::clone(voice));
        now.person = person;
        now.admits_anyone = false;
        now.unknown = None;
        let enrolment = now.pending()?;
        if self.people.are_alike(&enrolment.voices[0], voice) {
            enrolment.voices.push(Arc::clone(voice));
            enrolment.heard_at = Instant::now();
        }
        now.enrolment.take_if(|enrolment| enrolment.voices.len() >= SENTENCES)
    }

    /// Reports whether the model's instructions mention an enrolment, and so change with each
    /// sentence.
    pub fn learns(&self) -> bool {
        let mut now = self.now();
        now.pending().is_some() || now.failed.is_some()
    }

    /// Stores a person whose voice was learned.
    pub async fn enrol(&self, Enrolment { name, voices, .. }: Enrolment) {
        let outcome = self.people.enrol(&name, &voices).await;
        let mut now = self.now();
        match outcome {
            // They are the last speaker, unless another person has spoken meanwhile.
            Ok(person) => {
                let same = now.voice.as_ref().is_some_and(|v| self.people.are_alike(v, &voices[0]));
                if same {
                    now.person = Some(person.id.clone());
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot enrol a person");
                now.failed =
                    Some((format!("The voice of {name} was not learned: {error}."), false));
            }
        }
    }

    /// Starts to enrol the voice of the last speaker. Returns the number of further sentences
    /// needed: none if the person is enrolled already under this name. Then the sentence improves
    /// their voice.
    ///
    /// # Errors
    /// Fails if too little was said to identify a voice, no voice was computed in time, or the
    /// person is enrolled under another name: they may have asked for somebody else.
    pub async fn learn(&self, name: &str) -> Result<usize, PeopleError> {
        self.check_one_voice()?;
        let (voice, known) = {
            let now = self.now();
            let voice = now.voice.clone().filter(|_| now.told);
            let known = now.person.as_ref().and_then(|id| self.people.get(id));
            (voice.ok_or_else(|| now.no_voice())?, known)
        };
        if let Some(person) = known {
            check_name(&person, name)?;
            return self.people.learn_more(&person.id, &voice).await.map(|()| 0);
        }
        let mut now = self.now();
        now.failed = None;
        let heard_at = Instant::now();
        now.enrolment = Some(Enrolment { name: name.to_owned(), voices: vec![voice], heard_at });
        Ok(SENTENCES - 1)
    }

    /// Gives the last speaker another name than their present one.
    ///
    /// # Errors
    /// Fails if the last speaker is not enrolled under the present name, too little was said to
    /// identify a voice, no voice was computed in time, or the other name cannot be given.
    pub async fn rename(&self, present: &str, name: &str) -> Result<(), PeopleError> {
        self.check_one_voice()?;
        let known = {
            let now = self.now();
            if !now.told {
                return Err(now.no_voice());
            }
            now.person.as_ref().and_then(|id| self.people.get(id))
        };
        let person = known.ok_or(PeopleError::Unknown)?;
        check_name(&person, present)?;
        self.people.rename(&person.id, name).await.map(drop)
    }

    fn person_id(&self) -> Option<PersonId> {
        let now = self.now();
        now.person.clone().filter(|_| now.unknown.is_none())
    }

    /// Returns the current data of the last speaker.
    pub fn person(&self) -> Option<Arc<Person>> {
        self.people.get(&self.person_id()?)
    }

    /// Stores a fact about the last speaker.
    ///
    /// # Errors
    /// Fails if the last speaker is not enrolled, the fact is empty or too long, or the store
    /// failed.
    pub async fn remember(&self, fact: &str) -> Result<(), PeopleError> {
        self.check_one_voice()?;
        let unknown = self.now().unknown;
        if let Some(unknown) = unknown {
            return Err(unknown.into());
        }
        let person = self.person().ok_or(PeopleError::Unknown)?;
        self.people.remember(&person.id, fact).await
    }

    /// Checks that one voice said the words that are answered: a tool about the speaker must not
    /// affect another person.
    fn check_one_voice(&self) -> Result<(), PeopleError> {
        if self.now().is_mixed { Err(PeopleError::AnotherVoice) } else { Ok(()) }
    }

    /// Stops an enrolment in progress, if it may be that of the last speaker's voice. Returns false
    /// if there is none, or the last speaker is another person.
    fn stop_enrolment(&self) -> bool {
        let mut now = self.now();
        let voice = now.voice.clone();
        let is_known = now.person.is_some() && now.unknown.is_none();
        let Some(enrolment) = now.pending() else { return false };
        let is_theirs =
            voice.is_some_and(|voice| self.people.are_alike(&enrolment.voices[0], &voice));
        let stops = is_theirs || !is_known;
        if stops {
            now.enrolment = None;
        }
        stops
    }

    /// Stops the enrolment of the last speaker's voice; without one, deletes the last speaker with
    /// all their data. Whose words stop an enrolment need not be certain: nothing is lost by it.
    ///
    /// # Errors
    /// Fails if the last speaker is not enrolled, too little was said to identify a voice, no voice
    /// was computed in time, or the store failed.
    pub async fn forget_person(&self) -> Result<Forgotten, PeopleError> {
        if self.stop_enrolment() {
            return Ok(Forgotten::Enrolment);
        }
        self.check_one_voice()?;
        {
            let now = self.now();
            if !now.told {
                return Err(now.no_voice());
            }
        }
        let id = self.person_id().ok_or(PeopleError::Unknown)?;
        self.people.delete(&id).await?;
        let mut now = self.now();
        now.before.remove(&id);
        now.person = None;
        Ok(Forgotten::Person)
    }

    /// Returns the person of these words; the last speaker if too little was said, and none if their
    /// voice was not computed in time or they were typed.
    pub fn who(&self, speaker: &Speaker) -> Option<Arc<Person>> {
        if speaker.voice.is_none() {
            return self.person().filter(|_| speaker.unknown.is_none());
        }
        speaker.person.as_ref().and_then(|person| self.people.get(&person.id))
    }

    /// Returns the model's instructions about the speaker, with earlier conversations if `memory`
    /// is set, and about an enrolment; may be empty.
    pub fn instructions(&self, person: Option<&Arc<Person>>, memory: bool) -> String {
        let mut told = String::new();
        if let Some(person) = person {
            self.introduce(person, memory, &mut told);
        }
        let mut now = self.now();
        if let Some(Enrolment { name, voices, .. }) = now.pending() {
            let left = SENTENCES.saturating_sub(voices.len());
            let sentences = if left == 1 { "one more sentence" } else { "two more sentences" };
            let ask = format!(
                "\nYou are learning the voice of {name}: ask for {sentences} of a few seconds."
            );
            told.push_str(&ask);
        }
        if let Some((failed, _)) = &now.failed {
            told.push('\n');
            told.push_str(failed);
        }
        told
    }

    fn introduce(
        &self,
        Person { id, name, facts, exchanges, .. }: &Person,
        memory: bool,
        told: &mut String,
    ) {
        let intro = format!(
            "\nYou hear that {name} speaks: their words begin with [{name}]. Never write such a mark yourself."
        );
        told.push_str(&intro);
        if !facts.is_empty() {
            write!(told, " You remember of {name}: {}.", facts.join("; ")).unwrap_or_default();
        }
        if !memory {
            return;
        }
        let mut now = self.now();
        let before = now.before.entry(id.clone()).or_insert_with(|| exchanges.clone());
        // Exchanges may have been deleted meanwhile.
        before.retain(|exchange| exchanges.contains(exchange));
        let skipped = before.len().saturating_sub(EXCHANGES_TOLD);
        for Exchange { said, answered } in &before[skipped..] {
            write!(told, "\nOn another day {name} said: {said}").unwrap_or_default();
            if !answered.is_empty() {
                write!(told, " You answered: {answered}").unwrap_or_default();
            }
        }
    }
}

impl Now {
    /// Returns the enrolment in progress, unless it has lapsed.
    fn pending(&mut self) -> Option<&mut Enrolment> {
        let has_lapsed = |enrolment: &Enrolment| enrolment.heard_at.elapsed() >= ENROLMENT_LASTS;
        if self.enrolment.as_ref().is_some_and(has_lapsed) {
            self.enrolment = None;
        }
        self.enrolment.as_mut()
    }

    /// Returns the reason why the last words have no voice.
    fn no_voice(&self) -> PeopleError {
        self.unknown.map_or(PeopleError::TooShort(1), PeopleError::from)
    }
}

/// Checks that a person has this name. Case is ignored: the name was heard.
fn check_name(person: &Person, name: &str) -> Result<(), PeopleError> {
    let is_same = person.name.to_lowercase() == name.trim().to_lowercase();
    if is_same { Ok(()) } else { Err(PeopleError::OtherName(person.name.clone())) }
}

/// Returns the words of a person as the model receives them. Retained words may have their mark
/// already.
pub fn attributed(person: Option<&Arc<Person>>, words: &str) -> String {
    match person {
        Some(person) => mark(person) + unattributed(Some(person), words),
        None => words.to_owned(),
    }
}

/// Returns the words of a remembered message without the marks of people who have been deleted
/// since, wherever they are: several people may have said the words.
pub fn without_deleted(people: &People, words: &str) -> String {
    let mut told = String::with_capacity(words.len());
    let mut rest = words;
    while let Some((before, after)) = rest.split_once('[') {
        told.push_str(before);
        let marked = after.split_once("] ").filter(|(name, _)| people.was_deleted(name));
        if marked.is_none() {
            told.push('[');
        }
        rest = marked.map_or(after, |(_, unmarked)| unmarked);
    }
    told.push_str(rest);
    told
}

/// Returns the words of a person without their mark.
pub fn unattributed<'a>(person: Option<&Arc<Person>>, words: &'a str) -> &'a str {
    person.and_then(|person| words.strip_prefix(&mark(person))).unwrap_or(words)
}

fn mark(person: &Person) -> String {
    format!("[{}] ", person.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::SpeakerSettings;
    use crate::testkit::people::people;

    fn speaker(of: usize) -> Speaker {
        let mut voice = vec![0.0_f32; 8];
        voice[of] = 1.0;
        Speaker { voice: Some(voice.into()), ..Speaker::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_enrolment_lapses_some_minutes_after_its_last_sentence() {
        let tracker = SpeakerTracker::new(people(SpeakerSettings::default()).0);
        let says = || tracker.heard(&speaker(1), WordsFor::Themselves).is_some();
        says();
        assert_eq!(tracker.learn("Ben").await.unwrap(), 2);
        tokio::time::advance(ENROLMENT_LASTS - Duration::from_secs(1)).await;
        assert!(!says(), "the second sentence");
        tokio::time::advance(ENROLMENT_LASTS - Duration::from_secs(1)).await;
        assert!(tracker.learns() && tracker.instructions(None, false).contains("voice of Ben"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!tracker.learns() && tracker.instructions(None, false).is_empty());
        assert!(!says(), "a third sentence learns no voice");
        // A later request begins again.
        assert_eq!(tracker.learn("Ben").await.unwrap(), 2);
        assert!(!says() && says());
    }

    #[tokio::test]
    async fn whoever_may_be_the_one_whose_voice_is_learned_can_stop_it() {
        for other in [
            speaker(1),
            speaker(2),
            Speaker::of_typed_words(),
            Speaker::unknown(),
            Speaker::default(),
        ] {
            let tracker = SpeakerTracker::new(people(SpeakerSettings::default()).0);
            tracker.heard(&speaker(1), WordsFor::Themselves);
            tracker.learn("Ben").await.unwrap();
            tracker.heard(&other, WordsFor::Themselves);
            let forgotten = tracker.forget_person().await.unwrap();
            assert_eq!(forgotten, Forgotten::Enrolment, "{other:?}");
            assert!(!tracker.learns(), "{other:?}");
            assert!(tracker.forget_person().await.is_err(), "there is nobody to forget");
        }
    }
}
