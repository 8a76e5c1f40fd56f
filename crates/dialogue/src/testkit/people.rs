//! People in memory, and an embedder that follows a script.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hearken_ports::people::{MOST_EXCHANGES, MOST_FACTS, MOST_PEOPLE, MOST_VOICES};
use hearken_ports::{
    BoxError, Person, PersonId, PersonMemory, PersonOutcome, PersonStore, SpeakerEmbedder,
};

use crate::people::{People, SpeakerSettings, keep_last};

/// Number of distinct voices.
const VOICES: usize = 8;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Store of people in memory.
#[derive(Debug, Default)]
pub struct MemoryPeople {
    persons: Mutex<Vec<Person>>,
    /// Set to make all calls fail.
    pub fails: Mutex<bool>,
}

impl MemoryPeople {
    fn people(&self) -> Result<MutexGuard<'_, Vec<Person>>, BoxError> {
        if *lock(&self.fails) { Err("the store is down".into()) } else { Ok(lock(&self.persons)) }
    }

    fn change(
        &self,
        id: &PersonId,
        change: impl FnOnce(&mut Person),
    ) -> Result<PersonOutcome, BoxError> {
        let mut persons = self.people()?;
        let Some(person) = persons.iter_mut().find(|person| person.id == *id) else {
            return Ok(PersonOutcome::Unknown);
        };
        change(person);
        keep_last(&mut person.voices, MOST_VOICES);
        keep_last(&mut person.facts, MOST_FACTS);
        keep_last(&mut person.exchanges, MOST_EXCHANGES);
        Ok(PersonOutcome::Done)
    }
}

#[async_trait]
impl PersonStore for MemoryPeople {
    async fn people(&self) -> Result<Vec<Person>, BoxError> {
        Ok(self.people()?.clone())
    }

    async fn people_version(&self) -> Result<String, BoxError> {
        Ok(format!("{:?}", self.people()?))
    }

    async fn add_person(&self, person: &Person) -> Result<PersonOutcome, BoxError> {
        let mut persons = self.people()?;
        if persons.iter().any(|known| known.name == person.name) {
            return Ok(PersonOutcome::NameTaken);
        }
        if persons.len() >= MOST_PEOPLE {
            return Ok(PersonOutcome::TooMany);
        }
        persons.push(person.clone());
        Ok(PersonOutcome::Done)
    }

    async fn rename_person(&self, id: &PersonId, name: &str) -> Result<PersonOutcome, BoxError> {
        let taken = self.people()?.iter().any(|known| known.name == name && known.id != *id);
        if taken {
            return Ok(PersonOutcome::NameTaken);
        }
        self.change(id, |person| name.clone_into(&mut person.name))
    }

    async fn set_person_role(
        &self,
        id: &PersonId,
        role_id: &str,
    ) -> Result<PersonOutcome, BoxError> {
        self.change(id, |person| role_id.clone_into(&mut person.role_id))
    }

    async fn add_voice(&self, id: &PersonId, voice: &[f32]) -> Result<PersonOutcome, BoxError> {
        self.change(id, |person| person.voices.push(voice.to_vec()))
    }

    async fn remember(
        &self,
        id: &PersonId,
        memory: &PersonMemory,
    ) -> Result<PersonOutcome, BoxError> {
        self.change(id, |person| match memory.clone() {
            PersonMemory::Fact(fact) => person.facts.push(fact),
            PersonMemory::Exchange(exchange) => person.exchanges.push(exchange),
        })
    }

    async fn forget_memories(&self, id: &PersonId) -> Result<bool, BoxError> {
        let outcome = self.change(id, |person| {
            person.facts.clear();
            person.exchanges.clear();
        });
        Ok(outcome? == PersonOutcome::Done)
    }

    async fn delete_person(&self, id: &PersonId) -> Result<bool, BoxError> {
        let mut persons = self.people()?;
        let before = persons.len();
        persons.retain(|person| person.id != *id);
        Ok(persons.len() < before)
    }
}

/// Embedder that returns a scripted voice, by a number below 8.
#[derive(Debug, Default)]
pub struct ScriptedVoices {
    voice: Mutex<Option<usize>>,
    /// Simulated duration of an embedding.
    pub takes: Mutex<Duration>,
    /// Number of samples of each request.
    pub asked: Mutex<Vec<usize>>,
}

impl ScriptedVoices {
    /// Sets the voice of subsequent speech; `None` simulates a busy model.
    pub fn hears(&self, voice: Option<usize>) {
        *lock(&self.voice) = voice;
    }
}

#[async_trait]
impl SpeakerEmbedder for ScriptedVoices {
    async fn embed(&self, speech: Vec<i16>) -> Option<Vec<f32>> {
        lock(&self.asked).push(speech.len());
        let voice = *lock(&self.voice);
        let takes = *lock(&self.takes);
        tokio::time::sleep(takes).await;
        let voice = voice?;
        Some((0..VOICES).map(|n| if n == voice { 1.0 } else { 0.0 }).collect())
    }
}

/// Creates people with their in-memory store and their scripted embedder.
pub fn people(settings: SpeakerSettings) -> (People, Arc<MemoryPeople>, Arc<ScriptedVoices>) {
    let store = Arc::<MemoryPeople>::default();
    let voices = Arc::<ScriptedVoices>::default();
    (People::new(store.clone(), Some(voices.clone()), settings), store, voices)
}
