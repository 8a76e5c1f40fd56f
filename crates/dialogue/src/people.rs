//! People with an enrolled voice: their recognition, their settings, their enrolment and what is
//! remembered of them. A voice identifies a name and a memory, never a permission. Not for the
//! speaker embedder nor for the store, which are ports.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearken_audio::pcm;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_base::ms;
use hearken_ports::{
    BoxError, Person, PersonId, PersonMemory, PersonOutcome, PersonStore, SpeakerEmbedder,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Number of sentences that enrol a person.
pub const SENTENCES: usize = 3;
/// Maximum number of recordings in one enrolment.
pub const MOST_SENTENCES: usize = 10;
/// Maximum length of a name, in characters.
pub const MOST_NAME_CHARS: usize = 40;
/// Maximum length of a fact, in characters.
pub const MOST_FACT_CHARS: usize = 300;
/// Maximum length of a remembered question or answer, in characters.
const MOST_EXCHANGE_CHARS: usize = 500;

/// Number of samples over which a level is measured: 20 ms.
const FRAME: usize = 320;
/// Level below which there is no speech, as a fraction of the loudest level: -30 dB.
const QUIET: f64 = 0.03;

/// Section `[speakers]`: who speaks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpeakerSettings {
    /// Name of the speaker recognition model in the catalogue: `cam-plus-plus`, once it has
    /// been downloaded with `hearken models fetch cam-plus-plus` (81 MB). Empty disables
    /// speaker recognition; no voices are analysed.
    pub model: String,
    /// Minimum similarity to match an enrolled speaker. Higher values confuse people less
    /// often, and fail to recognise them more often.
    #[schemars(range(min = 0.1, max = 0.95))]
    pub threshold: f64,
    /// Minimum amount of speech for recognising a speaker. Shorter utterances are
    /// attributed to the last speaker.
    #[serde(rename = "min_speech_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 500, max = 5_000))]
    pub min_speech: Duration,
    /// Share of one core that the model may use; beyond it, speakers are not recognised. An
    /// utterance takes about 80 ms.
    #[schemars(range(min = 1, max = 100))]
    pub cpu_percent: u32,
    /// Maximum wait for the speaker to be recognised, from the end of the speech. Later
    /// results are not used, and the speaker counts as unknown.
    #[serde(rename = "deadline_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 100, max = 5_000))]
    pub deadline: Duration,
    /// Ignore other voices while a device talks with a person whose voice is enrolled.
    /// People can also request this for one conversation.
    pub ignore_others: bool,
}

impl Default for SpeakerSettings {
    fn default() -> Self {
        Self {
            model: String::new(),
            threshold: 0.45,
            min_speech: Duration::from_millis(1_500),
            cpu_percent: 10,
            deadline: Duration::from_millis(500),
            ignore_others: false,
        }
    }
}

/// Embedding of a voice: a vector of length 1.
pub type Voice = Arc<[f32]>;

/// The speaker of an utterance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Speaker {
    /// Their voice; `None` if too little was said, or no voice was computed.
    pub voice: Option<Voice>,
    /// The person, if the voice is enrolled.
    pub person: Option<Arc<Person>>,
    /// Reason why they are no known person. Without a voice and without a reason, too little was
    /// said, and they are assumed to be the last speaker.
    pub unknown: Option<UnknownSpeaker>,
}

/// Reason why the speaker of words is unknown, whatever their length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownSpeaker {
    /// The model that describes voices was busy, late or failed.
    Busy,
    /// The words were typed.
    Typed,
}

impl Speaker {
    /// Creates the speaker of words whose voice was not computed in time.
    pub fn unknown() -> Self {
        Self { unknown: Some(UnknownSpeaker::Busy), ..Self::default() }
    }

    /// Creates the speaker of typed words, which any person may have written.
    pub fn of_typed_words() -> Self {
        Self { unknown: Some(UnknownSpeaker::Typed), ..Self::default() }
    }

    /// Reports whether this is certainly another person: a voice was computed, and does not match.
    pub fn is_other_than(&self, person: &PersonId) -> bool {
        let same = self.person.as_ref().is_some_and(|known| known.id == *person);
        self.voice.is_some() && !same
    }
}

/// Reason why a change was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// The name is empty, too long, or not one line.
    #[error("a name has 1 to {MOST_NAME_CHARS} characters, on one line, without brackets")]
    Name,
    /// Another person has the name.
    #[error("another person has this name")]
    NameTaken,
    /// The maximum number of people is stored.
    #[error("{} people are known; delete one first", hearken_ports::people::MOST_PEOPLE)]
    TooMany,
    /// There is no such person.
    #[error("there is no such person")]
    Unknown,
    /// The voice is known under this name.
    #[error("this voice is known as {0}; another person has to ask with their own voice")]
    OtherName(String),
    /// Another person has spoken since.
    #[error("another person has spoken since; ask who it is for, and to say it again")]
    AnotherVoice,
    /// Too few or too many recordings.
    #[error("{SENTENCES} to {MOST_SENTENCES} recordings are needed")]
    Recordings,
    /// A recording holds too little speech.
    #[error("recording {0} holds too little speech")]
    TooShort(usize),
    /// The recordings do not hold one voice.
    #[error("the recordings are not of one voice")]
    NotAlike,
    /// The fact is empty or too long.
    #[error("a fact has 1 to {MOST_FACT_CHARS} characters")]
    Fact,
    /// The model is busy or failed.
    #[error("the model that describes voices is busy or failed; try again")]
    Busy,
    /// The words were typed: no voice belongs to them.
    #[error("the words were typed, so that it is not known whose they are; ask to say them")]
    Typed,
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] BoxError),
}

impl From<UnknownSpeaker> for PeopleError {
    fn from(unknown: UnknownSpeaker) -> Self {
        match unknown {
            UnknownSpeaker::Busy => Self::Busy,
            UnknownSpeaker::Typed => Self::Typed,
        }
    }
}

/// Polling interval for changes in the store.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of remembered names of deleted people.
const MOST_DELETED: usize = 256;

/// Reason why no voice could be computed.
enum NoVoice {
    /// Too little was said.
    TooShort,
    /// The model is busy or failed.
    Busy,
}

/// The enrolled people. Clones share them.
#[derive(Clone)]
pub struct People(Arc<Inner>);

struct Inner {
    store: Arc<dyn PersonStore>,
    embedder: Option<Arc<dyn SpeakerEmbedder>>,
    settings: SpeakerSettings,
    known: Mutex<Vec<Arc<Person>>>,
    /// Names of people who were deleted or renamed while the server runs: prompts no longer contain
    /// them.
    deleted: Mutex<HashSet<String>>,
    /// Version of the store from which `known` was read. Held while the store is read or changed
    /// together with `known`: a slow read must not undo a change.
    version: tokio::sync::Mutex<String>,
}

impl People {
    /// Starts empty; [`People::refresh`] reads the store. Without an embedder no speaker is
    /// recognised or enrolled.
    pub fn new(
        store: Arc<dyn PersonStore>,
        embedder: Option<Arc<dyn SpeakerEmbedder>>,
        settings: SpeakerSettings,
    ) -> Self {
        let known = Mutex::default();
        let deleted = Mutex::default();
        let version = tokio::sync::Mutex::default();
        Self(Arc::new(Inner { store, embedder, settings, known, deleted, version }))
    }

    fn known(&self) -> MutexGuard<'_, Vec<Arc<Person>>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether speaker recognition is enabled.
    pub fn recognises(&self) -> bool {
        self.0.embedder.is_some()
    }

    /// Returns the settings.
    pub fn settings(&self) -> &SpeakerSettings {
        &self.0.settings
    }

    /// Reads the enrolled people from the store. Other instances may have changed them.
    ///
    /// # Errors
    /// Fails if the store does; then the people are unchanged.
    pub async fn refresh(&self) -> Result<(), BoxError> {
        let mut version = self.0.version.lock().await;
        let latest = self.0.store.people_version().await?;
        self.read(&mut version, latest).await
    }

    /// Reads the people again whenever the store has changed, by another instance or a command.
    /// Never returns.
    pub async fn follow_store(self) {
        let mut has_failed = false;
        loop {
            let failed = self.follow_once().await.err();
            // Once is enough for the log.
            if let Some(error) = failed.as_ref().filter(|_| !has_failed) {
                tracing::warn!(error, "cannot follow changes of the enrolled people");
            }
            has_failed = failed.is_some();
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
    }

    async fn follow_once(&self) -> Result<(), BoxError> {
        let mut version = self.0.version.lock().await;
        let latest = self.0.store.people_version().await?;
        if *version == latest { Ok(()) } else { self.read(&mut version, latest).await }
    }

    /// Reads the people. The version was read before them: they may be newer, but not older.
    async fn read(&self, version: &mut String, latest: String) -> Result<(), BoxError> {
        let read: Vec<Arc<Person>> =
            self.0.store.people().await?.into_iter().map(Arc::new).collect();
        let before = std::mem::replace(&mut *self.known(), read.clone());
        let has_name = |person: &Person| {
            read.iter().any(|other| other.id == person.id && other.name == person.name)
        };
        let gone = before.iter().filter(|person| !has_name(person));
        gone.for_each(|person| self.note_deleted(&person.name));
        *version = latest;
        Ok(())
    }

    fn deleted(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_deleted(&self, name: &str) {
        let mut deleted = self.deleted();
        if deleted.len() >= MOST_DELETED {
            deleted.clear();
        }
        deleted.insert(name.to_owned());
    }

    /// Reports whether a person of this name was deleted or renamed, and no other person has it.
    pub fn was_deleted(&self, name: &str) -> bool {
        self.deleted().contains(name) && !self.known().iter().any(|person| person.name == name)
    }

    /// Returns all people.
    pub fn all(&self) -> Vec<Arc<Person>> {
        self.known().clone()
    }

    /// Returns the current data of a person.
    pub fn get(&self, id: &PersonId) -> Option<Arc<Person>> {
        self.known().iter().find(|person| person.id == *id).cloned()
    }

    /// Identifies the speaker of this speech (16 kHz, mono). Returns a speaker without a voice if
    /// too little was said, and an unknown one if the model is busy.
    pub async fn identify(&self, speech: Vec<i16>) -> Speaker {
        match self.voice(&speech, false).await {
            Ok(voice) => Speaker { person: self.whose(&voice), voice: Some(voice), unknown: None },
            Err(NoVoice::TooShort) => Speaker::default(),
            Err(NoVoice::Busy) => Speaker::unknown(),
        }
    }

    /// Computes the embedding of this speech, which is a recording or was just said.
    async fn voice(&self, speech: &[i16], is_recording: bool) -> Result<Voice, NoVoice> {
        let speech = spoken(speech);
        if pcm::duration(speech.len(), SAMPLE_RATE_HZ) < self.0.settings.min_speech {
            return Err(NoVoice::TooShort);
        }
        let embedder = self.0.embedder.as_ref().ok_or(NoVoice::Busy)?;
        let speech = speech.to_vec();
        let voice = if is_recording {
            embedder.embed_recording(speech).await
        } else {
            embedder.embed(speech).await
        };
        voice.map(Voice::from).ok_or(NoVoice::Busy)
    }

    /// Returns the person with the most similar voice, if the similarity reaches the threshold.
    fn whose(&self, voice: &[f32]) -> Option<Arc<Person>> {
        let known = self.known();
        let scored = known.iter().map(|person| (alike(&mean(&person.voices), voice), person));
        let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
        best.filter(|(score, _)| *score >= self.0.settings.threshold).map(|(_, p)| Arc::clone(p))
    }

    /// Reports whether two voices belong to one person.
    pub fn are_alike(&self, one: &[f32], other: &[f32]) -> bool {
        alike(one, other) >= self.0.settings.threshold
    }

    /// Enrols a person by recordings of sentences (16 kHz, mono).
    ///
    /// # Errors
    /// Fails if the name is taken or invalid, or a recording is too short or of another voice; then
    /// nothing is stored.
    pub async fn enrol_recordings(
        &self,
        name: &str,
        recordings: Vec<Vec<i16>>,
    ) -> Result<Arc<Person>, PeopleError> {
        if !(SENTENCES..=MOST_SENTENCES).contains(&recordings.len()) {
            return Err(PeopleError::Recordings);
        }
        let mut voices = Vec::new();
        for (n, recording) in recordings.iter().enumerate() {
            let voice = self.voice(recording, true).await.map_err(|none| match none {
                NoVoice::TooShort => PeopleError::TooShort(n + 1),
                NoVoice::Busy => PeopleError::Busy,
            });
            voices.push(voice?);
        }
        self.enrol(name, &voices).await
    }

    /// Enrols a person with the voices of several sentences.
    ///
    /// # Errors
    /// Fails if the name is taken or invalid, or the voices differ; then nothing is stored.
    pub async fn enrol(&self, name: &str, voices: &[Voice]) -> Result<Arc<Person>, PeopleError> {
        let name = name_of(name)?;
        let alone = |voice: &Voice| voices.iter().any(|other| !self.are_alike(voice, other));
        if voices.len() < SENTENCES || voices.iter().any(alone) {
            return Err(PeopleError::NotAlike);
        }
        let person = Person {
            id: PersonId(Uuid::new_v4().to_string()),
            name,
            role_id: String::new(),
            voices: voices.iter().map(|voice| voice.to_vec()).collect(),
            facts: Vec::new(),
            exchanges: Vec::new(),
        };
        let _alone = self.0.version.lock().await;
        done(self.0.store.add_person(&person).await)?;
        self.deleted().remove(&person.name);
        let person = Arc::new(person);
        self.known().push(Arc::clone(&person));
        Ok(person)
    }

    /// Renames a person.
    ///
    /// # Errors
    /// Fails if the name is taken or invalid, or there is no such person.
    pub async fn rename(&self, id: &PersonId, name: &str) -> Result<Arc<Person>, PeopleError> {
        let name = name_of(name)?;
        let _alone = self.0.version.lock().await;
        self.done(id, self.0.store.rename_person(id, &name).await)?;
        let mut before = String::new();
        let renamed = self.changed(id, |person| before = std::mem::replace(&mut person.name, name));
        let renamed = renamed.ok_or(PeopleError::Unknown)?;
        // Remembered words under the old name would introduce a second person.
        self.note_deleted(&before);
        Ok(renamed)
    }

    /// Assigns a person the role that answers them; empty for none.
    ///
    /// # Errors
    /// Fails if there is no such person, or the store failed.
    pub async fn give_role(
        &self,
        id: &PersonId,
        role_id: &str,
    ) -> Result<Arc<Person>, PeopleError> {
        let _alone = self.0.version.lock().await;
        self.done(id, self.0.store.set_person_role(id, role_id).await)?;
        let give = |person: &mut Person| role_id.clone_into(&mut person.role_id);
        self.changed(id, give).ok_or(PeopleError::Unknown)
    }

    /// Improves a person's voice with another sentence.
    ///
    /// # Errors
    /// Fails if there is no such person, or the store failed.
    pub async fn learn_more(&self, id: &PersonId, voice: &Voice) -> Result<(), PeopleError> {
        let _alone = self.0.version.lock().await;
        self.done(id, self.0.store.add_voice(id, voice).await)?;
        self.changed(id, |person| {
            person.voices.push(voice.to_vec());
            keep_last(&mut person.voices, hearken_ports::people::MOST_VOICES);
        });
        Ok(())
    }

    /// Stores a fact about a person.
    ///
    /// # Errors
    /// Fails if the fact is empty or too long, or there is no such person.
    pub async fn remember(&self, id: &PersonId, fact: &str) -> Result<(), PeopleError> {
        let fact = fact.trim();
        if !(1..=MOST_FACT_CHARS).contains(&fact.chars().count()) {
            return Err(PeopleError::Fact);
        }
        let memory = PersonMemory::Fact(fact.to_owned());
        let _alone = self.0.version.lock().await;
        self.done(id, self.0.store.remember(id, &memory).await)?;
        self.changed(id, |person| {
            person.facts.push(fact.to_owned());
            keep_last(&mut person.facts, hearken_ports::people::MOST_FACTS);
        });
        Ok(())
    }

    /// Stores an exchange: the person's words and the answer.
    ///
    /// # Errors
    /// Fails if there is no such person, or the store failed.
    pub async fn converse(
        &self,
        id: &PersonId,
        said: &str,
        answered: &str,
    ) -> Result<(), PeopleError> {
        let short = |text: &str| text.chars().take(MOST_EXCHANGE_CHARS).collect();
        let exchange = hearken_ports::Exchange { said: short(said), answered: short(answered) };
        let _alone = self.0.version.lock().await;
        self.done(id, self.0.store.remember(id, &PersonMemory::Exchange(exchange.clone())).await)?;
        self.changed(id, |person| {
            person.exchanges.push(exchange);
            keep_last(&mut person.exchanges, hearken_ports::people::MOST_EXCHANGES);
        });
        Ok(())
    }

    /// Deletes all memories of a person; their voice stays enrolled.
    ///
    /// # Errors
    /// Fails if there is no such person, or the store failed.
    pub async fn forget_memories(&self, id: &PersonId) -> Result<(), PeopleError> {
        let _alone = self.0.version.lock().await;
        let was_there = self.0.store.forget_memories(id).await.map_err(PeopleError::Store)?;
        if !was_there {
            self.drop_known(id);
            return Err(PeopleError::Unknown);
        }
        self.changed(id, |person| {
            person.facts.clear();
            person.exchanges.clear();
        });
        Ok(())
    }

    /// Deletes a person with all their data, at once.
    ///
    /// # Errors
    /// Fails if there is no such person, or the store failed.
    pub async fn delete(&self, id: &PersonId) -> Result<(), PeopleError> {
        let _alone = self.0.version.lock().await;
        let was_there = self.0.store.delete_person(id).await.map_err(PeopleError::Store)?;
        self.drop_known(id);
        was_there.then_some(()).ok_or(PeopleError::Unknown)
    }

    /// Handles the store's outcome of a change. A person whom another instance has deleted is
    /// dropped here too.
    fn done(
        &self,
        id: &PersonId,
        outcome: Result<PersonOutcome, BoxError>,
    ) -> Result<(), PeopleError> {
        let outcome = done(outcome);
        if matches!(outcome, Err(PeopleError::Unknown)) {
            self.drop_known(id);
        }
        outcome
    }

    fn drop_known(&self, id: &PersonId) {
        let mut known = self.known();
        let Some(at) = known.iter().position(|person| person.id == *id) else { return };
        let person = known.remove(at);
        drop(known);
        self.note_deleted(&person.name);
    }

    /// Changes the cached data of a person.
    fn changed(&self, id: &PersonId, change: impl FnOnce(&mut Person)) -> Option<Arc<Person>> {
        let mut known = self.known();
        let person = known.iter_mut().find(|person| person.id == *id)?;
        change(Arc::make_mut(person));
        Some(Arc::clone(person))
    }
}

fn done(outcome: Result<PersonOutcome, BoxError>) -> Result<(), PeopleError> {
    match outcome.map_err(PeopleError::Store)? {
        PersonOutcome::Done => Ok(()),
        PersonOutcome::NameTaken => Err(PeopleError::NameTaken),
        PersonOutcome::TooMany => Err(PeopleError::TooMany),
        PersonOutcome::Unknown => Err(PeopleError::Unknown),
    }
}

/// Returns a name as it is stored. Brackets mark names in the words that the model receives.
fn name_of(name: &str) -> Result<String, PeopleError> {
    let name = name.trim();
    let odd = |c: char| c.is_control() || matches!(c, '[' | ']');
    let fits = (1..=MOST_NAME_CHARS).contains(&name.chars().count()) && !name.contains(odd);
    fits.then(|| name.to_owned()).ok_or(PeopleError::Name)
}

/// Drops the first elements above `most`.
pub fn keep_last<T>(all: &mut Vec<T>, most: usize) {
    all.drain(..all.len().saturating_sub(most));
}

/// Trims the parts before and after the speech that are much quieter.
fn spoken(speech: &[i16]) -> &[i16] {
    let levels: Vec<f64> = speech.chunks(FRAME).map(pcm::rms).collect();
    let loudest = levels.iter().copied().fold(0.0, f64::max);
    let is_spoken = |level: &f64| *level > loudest * QUIET;
    let first = levels.iter().position(is_spoken);
    let last = levels.iter().rposition(is_spoken);
    let (Some(first), Some(last)) = (first, last) else { return &[] };
    &speech[first * FRAME..speech.len().min((last + 1) * FRAME)]
}

/// Returns the cosine similarity of two voices, at most 1.
fn alike(one: &[f32], other: &[f32]) -> f64 {
    let squared = |v: &[f32]| v.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
    let lengths = (squared(one) * squared(other)).sqrt();
    let product: f64 = one.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    if one.len() == other.len() && lengths > 0.0 { product / lengths } else { 0.0 }
}

/// Returns the mean of voices; empty if there are none, or their lengths differ.
fn mean(voices: &[Vec<f32>]) -> Vec<f32> {
    let Some(first) = voices.first() else { return Vec::new() };
    let mut sum = vec![0.0; first.len()];
    for voice in voices.iter().filter(|voice| voice.len() == first.len()) {
        sum.iter_mut().zip(voice).for_each(|(sum, x)| *sum += x);
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testkit::people::people;

    #[test]
    fn quiet_parts_around_speech_are_trimmed() {
        let voice: Vec<i16> =
            (0..16_000_i16).map(|n| if n % 2 == 0 { 3_000 } else { -3_000 }).collect();
        let quiet = vec![20; 8_000];
        let speech = [quiet.clone(), voice.clone(), quiet.clone(), voice.clone(), quiet].concat();
        assert_eq!(spoken(&speech).len(), 16_000 * 2 + 8_000);
        assert!(spoken(&[0; 999]).is_empty() && spoken(&[]).is_empty());
    }

    #[test]
    fn names_are_one_line_without_brackets() {
        assert_eq!(name_of(" Anna-Lena ").unwrap(), "Anna-Lena");
        for name in ["", "  ", "a]b", "[a", "a\nb", &"x".repeat(41)] {
            assert!(matches!(name_of(name), Err(PeopleError::Name)), "{name}");
        }
    }

    #[tokio::test]
    async fn recordings_of_two_voices_are_rejected() {
        let (people, _, voices) = people(SpeakerSettings::default());
        voices.hears(Some(1));
        let embedder = people.0.embedder.clone().unwrap();
        let one = embedder.embed(vec![0; 9]).await.unwrap();
        voices.hears(Some(2));
        let other = embedder.embed(vec![0; 9]).await.unwrap();
        let voices: Vec<Voice> = [&one, &one, &other].map(|v| v.clone().into()).to_vec();
        assert!(matches!(people.enrol("Anna", &voices).await, Err(PeopleError::NotAlike)));
        assert!(matches!(people.enrol("Anna", &voices[..2]).await, Err(PeopleError::NotAlike)));
        assert!(people.enrol("Anna", &[&one; 3].map(|v| v.clone().into())).await.is_ok());
        let short = people.enrol_recordings("Ben", vec![vec![900; 8_000]; 3]).await;
        assert!(matches!(short, Err(PeopleError::TooShort(1))));
    }

    #[tokio::test]
    async fn the_name_of_a_deleted_person_is_remembered_until_another_person_has_it() {
        let (people, store, _) = people(SpeakerSettings::default());
        let voices: Vec<Voice> = vec![vec![1.0, 0.0].into(); SENTENCES];
        let anna = people.enrol("Anna", &voices).await.unwrap();
        assert!(!people.was_deleted("Anna"));
        people.delete(&anna.id).await.unwrap();
        assert!(people.was_deleted("Anna"));
        // Another instance deletes the next one.
        let anna = people.enrol("Anna", &voices).await.unwrap();
        assert!(!people.was_deleted("Anna"));
        store.delete_person(&anna.id).await.unwrap();
        people.refresh().await.unwrap();
        assert!(people.was_deleted("Anna"));
    }

    #[tokio::test(start_paused = true)]
    async fn every_change_of_another_instance_is_followed_within_two_seconds() {
        let (here, store, heard) = people(SpeakerSettings::default());
        let there = People::new(store.clone(), None, SpeakerSettings::default());
        let following = tokio::spawn(here.clone().follow_store());
        heard.hears(Some(0));
        let voice: Voice = (0..8).map(|n| if n == 0 { 1.0 } else { 0.0 }).collect();
        let later = async || tokio::time::sleep(2 * FOLLOW_EVERY).await;
        let recognised = async || here.identify(vec![3_000; 48_000]).await.person;
        let anna = there.enrol("Anna", &vec![voice.clone(); SENTENCES]).await.unwrap();
        later().await;
        assert_eq!(recognised().await.unwrap().name, "Anna");
        there.rename(&anna.id, "Hanna").await.unwrap();
        there.give_role(&anna.id, "calm").await.unwrap();
        there.remember(&anna.id, "likes tea").await.unwrap();
        there.converse(&anna.id, "hello", "hi").await.unwrap();
        there.learn_more(&anna.id, &voice).await.unwrap();
        later().await;
        assert_eq!(recognised().await, there.get(&anna.id));
        assert!(here.was_deleted("Anna"), "words under the old name lose their mark");
        there.forget_memories(&anna.id).await.unwrap();
        later().await;
        assert!(recognised().await.unwrap().facts.is_empty());
        there.delete(&anna.id).await.unwrap();
        // While the store fails, the last state remains; then it is followed again.
        *store.fails.lock().unwrap() = true;
        later().await;
        assert!(recognised().await.is_some());
        *store.fails.lock().unwrap() = false;
        later().await;
        assert!(recognised().await.is_none() && here.all().is_empty());
        following.abort();
    }

    proptest! {
        #[test]
        fn trimming_never_lengthens_speech(speech in proptest::collection::vec(any::<i16>(), 0..3_000)) {
            prop_assert!(spoken(&speech).len() <= speech.len());
        }

        #[test]
        fn any_vectors_can_be_compared(
            a in proptest::collection::vec(any::<f32>(), 0..9), b in proptest::collection::vec(any::<f32>(), 0..9),
        ) {
            let score = alike(&a, &b);
            prop_assert!(score.is_nan() || (-1.001..=1.001).contains(&score));
        }
    }
}
