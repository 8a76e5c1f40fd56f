//! Port of the store of people with known voices, and of their memories. Not for recognising them.

use async_trait::async_trait;

use super::BoxError;

/// Maximum number of people.
pub const MOST_PEOPLE: usize = 100;
/// Maximum number of voices per person; beyond it, the oldest are dropped.
pub const MOST_VOICES: usize = 10;
/// Maximum number of facts per person; beyond it, the oldest are dropped.
pub const MOST_FACTS: usize = 50;
/// Maximum number of exchanges per person; beyond it, the oldest are dropped.
pub const MOST_EXCHANGES: usize = 20;

/// Id of a person: a UUID.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PersonId(pub String);

/// Person as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Person {
    /// Id that never changes.
    pub id: PersonId,
    /// Name, unique among people.
    pub name: String,
    /// Id of the role for their conversations; empty for the device's role.
    pub role_id: String,
    /// Voices, one for each sentence of enrolment: vectors of length 1.
    pub voices: Vec<Vec<f32>>,
    /// Facts that they asked to have remembered, oldest first.
    pub facts: Vec<String>,
    /// Their last exchanges, oldest first.
    pub exchanges: Vec<Exchange>,
}

/// One exchange: a person's words and the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Words of the person.
    pub said: String,
    /// The part of the answer that they heard. Empty if it may repeat a third party's text from the
    /// result of a tool.
    pub answered: String,
}

/// Memory of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonMemory {
    /// Fact that they asked to have remembered.
    Fact(String),
    /// Exchange with them.
    Exchange(Exchange),
}

/// Outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonOutcome {
    /// The change was made.
    Done,
    /// Another person has the name.
    NameTaken,
    /// The maximum of [`MOST_PEOPLE`] is reached.
    TooMany,
    /// There is no such person.
    Unknown,
}

/// Store of people. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait PersonStore: Send + Sync {
    /// Returns all people, in the order in which they were added.
    async fn people(&self) -> Result<Vec<Person>, BoxError>;

    /// Returns a text that differs after every change of the people, their voices and their
    /// memories. Reading it costs much less than reading the people.
    async fn people_version(&self) -> Result<String, BoxError>;

    /// Adds a person with all their data.
    async fn add_person(&self, person: &Person) -> Result<PersonOutcome, BoxError>;

    /// Changes the name of a person.
    async fn rename_person(&self, id: &PersonId, name: &str) -> Result<PersonOutcome, BoxError>;

    /// Changes the role of a person; empty for none.
    async fn set_person_role(
        &self,
        id: &PersonId,
        role_id: &str,
    ) -> Result<PersonOutcome, BoxError>;

    /// Adds a voice of a person.
    async fn add_voice(&self, id: &PersonId, voice: &[f32]) -> Result<PersonOutcome, BoxError>;

    /// Adds a memory to a person.
    async fn remember(
        &self,
        id: &PersonId,
        memory: &PersonMemory,
    ) -> Result<PersonOutcome, BoxError>;

    /// Permanently deletes all facts about a person and all exchanges with them; their voices stay.
    /// Returns false if there is no such person.
    async fn forget_memories(&self, id: &PersonId) -> Result<bool, BoxError>;

    /// Permanently deletes a person with all their data. Returns false if there is no such person.
    async fn delete_person(&self, id: &PersonId) -> Result<bool, BoxError>;
}
