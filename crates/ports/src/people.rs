//! Port of the store of people whose voices are known, and of what is remembered of each. Not for recognising them.

use async_trait::async_trait;

use super::BoxError;

/// Most people that are stored.
pub const MOST_PEOPLE: usize = 100;
/// Most voices of a person that are stored; the oldest beyond are dropped.
pub const MOST_VOICES: usize = 10;
/// Most facts about a person that are stored; the oldest beyond are dropped.
pub const MOST_FACTS: usize = 50;
/// Most exchanges with a person that are stored; the oldest beyond are dropped.
pub const MOST_EXCHANGES: usize = 20;

/// Id of a person: a UUID.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PersonId(pub String);

/// Person as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Person {
    /// Id that never changes.
    pub id: PersonId,
    /// Name; no two have the same.
    pub name: String,
    /// Id of the role that answers them; empty for that of the device.
    pub role_id: String,
    /// What is typical of their voice, for each sentence that they were enrolled with: vectors of length 1.
    pub voices: Vec<Vec<f32>>,
    /// What they asked to be remembered, oldest first.
    pub facts: Vec<String>,
    /// Their last exchanges, oldest first.
    pub exchanges: Vec<Exchange>,
}

/// What a person said and was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Words of the person.
    pub said: String,
    /// Part of the answer that they heard. Empty if it may repeat what a stranger wrote, in a result of a tool.
    pub answered: String,
}

/// Something to remember of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonMemory {
    /// What they asked to be remembered.
    Fact(String),
    /// What they said and were answered.
    Exchange(Exchange),
}

/// Outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonOutcome {
    /// It was made.
    Done,
    /// Another person has the name.
    NameTaken,
    /// There are [`MOST_PEOPLE`] already.
    TooMany,
    /// There is no such person.
    Unknown,
}

/// Store of people. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait PersonStore: Send + Sync {
    /// Returns all people, in the order in which they were added.
    async fn people(&self) -> Result<Vec<Person>, BoxError>;

    /// Adds a person with all that is known of them.
    async fn add_person(&self, person: &Person) -> Result<PersonOutcome, BoxError>;

    /// Gives a person another name.
    async fn rename_person(&self, id: &PersonId, name: &str) -> Result<PersonOutcome, BoxError>;

    /// Gives a person a role; empty for none.
    async fn set_person_role(
        &self,
        id: &PersonId,
        role_id: &str,
    ) -> Result<PersonOutcome, BoxError>;

    /// Adds a voice of a person.
    async fn add_voice(&self, id: &PersonId, voice: &[f32]) -> Result<PersonOutcome, BoxError>;

    /// Remembers something of a person.
    async fn remember(
        &self,
        id: &PersonId,
        memory: &PersonMemory,
    ) -> Result<PersonOutcome, BoxError>;

    /// Forgets all facts about a person and all exchanges with them, at once and for good; their voice stays known.
    /// Returns false if there is no such person.
    async fn forget_memories(&self, id: &PersonId) -> Result<bool, BoxError>;

    /// Deletes a person with all that is known of them, at once and for good. Returns false if there is no such person.
    async fn delete_person(&self, id: &PersonId) -> Result<bool, BoxError>;
}
