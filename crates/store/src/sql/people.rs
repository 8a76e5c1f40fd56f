//! SQL of enrolled people. Not for recognising them.
//!
//! Deleted data is erased at once from a SQLite file and the files beside it: it is overwritten,
//! and deleting a person empties the write-ahead log. A PostgreSQL server no longer returns deleted
//! rows, and overwrites them when it reuses their space; its log and its backups contain them for
//! their configured retention.

use std::fmt::Write as _;

use async_trait::async_trait;
use hearken_base::names::are_same;
use hearken_base::wall_clock;
use hearken_ports::people::{MOST_EXCHANGES, MOST_FACTS, MOST_PEOPLE, MOST_VOICES};
use hearken_ports::{
    BoxError, Exchange, Person, PersonId, PersonMemory, PersonOutcome, PersonStore,
};
use serde::{Deserialize, Serialize};
use sqlx::Row as _;

use super::error::SqlError;
use super::{Dialect, SqlStore, StoreTransaction, in_time_for_ports, text, unusable};

/// Memory as stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Stored {
    Fact(String),
    Exchange { said: String, answered: String },
}

/// Reads a stored memory.
pub(crate) fn memory(json: &str) -> Result<PersonMemory, serde_json::Error> {
    Ok(match serde_json::from_str(json)? {
        Stored::Fact(fact) => PersonMemory::Fact(fact),
        Stored::Exchange { said, answered } => PersonMemory::Exchange(Exchange { said, answered }),
    })
}

/// Parses a stored voice. `None` if its length is not a multiple of four bytes.
pub(crate) fn voice(bytes: &[u8]) -> Option<Vec<f32>> {
    let (numbers, rest) = bytes.as_chunks();
    rest.is_empty().then(|| numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

/// Returns the kind of a memory, the maximum number of its kind, and its stored form.
fn stored(memory: &PersonMemory) -> Result<(&'static str, i64, String), SqlError> {
    let (kind, most, stored) = match memory {
        PersonMemory::Fact(fact) => ("fact", MOST_FACTS, Stored::Fact(fact.clone())),
        PersonMemory::Exchange(Exchange { said, answered }) => {
            let stored = Stored::Exchange { said: said.clone(), answered: answered.clone() };
            ("exchange", MOST_EXCHANGES, stored)
        }
    };
    Ok((kind, number(most), serde_json::to_string(&stored).map_err(unusable)?))
}

fn number(count: usize) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

#[async_trait]
impl PersonStore for SqlStore {
    async fn people(&self) -> Result<Vec<Person>, BoxError> {
        in_time_for_ports(self.all_people()).await
    }

    async fn people_version(&self) -> Result<String, BoxError> {
        in_time_for_ports(self.version_of_people()).await
    }

    async fn add_person(&self, person: &Person) -> Result<PersonOutcome, BoxError> {
        in_time_for_ports(self.insert_person(person)).await
    }

    async fn rename_person(&self, id: &PersonId, name: &str) -> Result<PersonOutcome, BoxError> {
        in_time_for_ports(async {
            let id = text(&id.0);
            let name = text(name);
            let mut work = self.begin_with_people().await?;
            let others = names_of_others(&mut work, &id).await?;
            if others.iter().any(|other| are_same(other, &name)) {
                work.rollback().await?;
                return Ok(PersonOutcome::NameTaken);
            }
            let sql = "UPDATE persons SET name = $2 WHERE person_id = $1";
            let renamed = sqlx::query(sql).bind(&id).bind(&name).execute(&mut *work).await?;
            work.commit().await?;
            Ok(match renamed.rows_affected() {
                0 => PersonOutcome::Unknown,
                _ => PersonOutcome::Done,
            })
        })
        .await
    }

    async fn set_person_role(
        &self,
        id: &PersonId,
        role_id: &str,
    ) -> Result<PersonOutcome, BoxError> {
        in_time_for_ports(async {
            let id = text(&id.0);
            let Some(mut work) = self.begin_with_person(&id).await? else {
                return Ok(PersonOutcome::Unknown);
            };
            sqlx::query("UPDATE persons SET role_id = $2 WHERE person_id = $1")
                .bind(&id)
                .bind(text(role_id))
                .execute(&mut *work)
                .await?;
            work.commit().await?;
            Ok(PersonOutcome::Done)
        })
        .await
    }

    async fn add_voice(&self, id: &PersonId, voice: &[f32]) -> Result<PersonOutcome, BoxError> {
        in_time_for_ports(async {
            let id = text(&id.0);
            let Some(mut work) = self.begin_with_person(&id).await? else {
                return Ok(PersonOutcome::Unknown);
            };
            insert_voice(&mut work, &id, voice).await?;
            work.commit().await?;
            Ok(PersonOutcome::Done)
        })
        .await
    }

    async fn remember(
        &self,
        id: &PersonId,
        memory: &PersonMemory,
    ) -> Result<PersonOutcome, BoxError> {
        in_time_for_ports(async {
            let id = text(&id.0);
            let Some(mut work) = self.begin_with_person(&id).await? else {
                return Ok(PersonOutcome::Unknown);
            };
            insert_memory(&mut work, &id, memory).await?;
            work.commit().await?;
            Ok(PersonOutcome::Done)
        })
        .await
    }

    async fn forget_memories(&self, id: &PersonId) -> Result<bool, BoxError> {
        in_time_for_ports(async {
            let id = text(&id.0);
            let Some(mut work) = self.begin_with_person(&id).await? else { return Ok(false) };
            sqlx::query("DELETE FROM person_memories WHERE person_id = $1")
                .bind(&id)
                .execute(&mut *work)
                .await?;
            work.commit().await?;
            self.empty_log().await;
            Ok(true)
        })
        .await
    }

    async fn delete_person(&self, id: &PersonId) -> Result<bool, BoxError> {
        in_time_for_ports(async {
            let mut work = self.begin_overwriting().await?;
            // With their voices and memories, which refer to them.
            let deleted = sqlx::query("DELETE FROM persons WHERE person_id = $1")
                .bind(text(&id.0))
                .execute(&mut *work)
                .await?;
            work.commit().await?;
            self.empty_log().await;
            Ok(deleted.rows_affected() > 0)
        })
        .await
    }
}

impl SqlStore {
    async fn all_people(&self) -> Result<Vec<Person>, SqlError> {
        self.pool().await?;
        let mut work = self.begin_reading().await?;
        let sql = "SELECT person_id, name, role_id FROM persons ORDER BY number";
        let mut all = Vec::new();
        for row in sqlx::query(sql).fetch_all(&mut *work).await? {
            all.push(Person {
                id: PersonId(row.try_get("person_id")?),
                name: row.try_get("name")?,
                role_id: row.try_get("role_id")?,
                voices: Vec::new(),
                facts: Vec::new(),
                exchanges: Vec::new(),
            });
        }
        let sql = "SELECT person_id, voice FROM person_voices ORDER BY number";
        for row in sqlx::query(sql).fetch_all(&mut *work).await? {
            let id: String = row.try_get("person_id")?;
            let bytes: Vec<u8> = row.try_get("voice")?;
            let voice = voice(&bytes).ok_or_else(|| unusable("a voice that cannot be read"))?;
            if let Some(person) = all.iter_mut().find(|person| person.id.0 == id) {
                person.voices.push(voice);
            }
        }
        let sql = "SELECT person_id, memory FROM person_memories ORDER BY number";
        for row in sqlx::query(sql).fetch_all(&mut *work).await? {
            let id: String = row.try_get("person_id")?;
            let json: String = row.try_get("memory")?;
            let memory = memory(&json).map_err(unusable)?;
            match (all.iter_mut().find(|person| person.id.0 == id), memory) {
                (Some(person), PersonMemory::Fact(fact)) => person.facts.push(fact),
                (Some(person), PersonMemory::Exchange(exchange)) => person.exchanges.push(exchange),
                (None, _) => {}
            }
        }
        work.rollback().await?;
        Ok(all)
    }

    /// Returns the rows of people, and the number and the highest number of the rows of each table
    /// about them: a row is added with a new number or deleted, and never changed.
    async fn version_of_people(&self) -> Result<String, SqlError> {
        self.pool().await?;
        let mut work = self.begin_reading().await?;
        let mut version = String::new();
        for sql in [
            "SELECT COUNT(*) AS rows_now, COALESCE(MAX(number), 0) AS latest FROM person_voices",
            "SELECT COUNT(*) AS rows_now, COALESCE(MAX(number), 0) AS latest FROM person_memories",
        ] {
            let row = sqlx::query(sql).fetch_one(&mut *work).await?;
            let rows: i64 = row.try_get("rows_now")?;
            let latest: i64 = row.try_get("latest")?;
            write!(version, "{rows} {latest} ").map_err(unusable)?;
        }
        let sql = "SELECT person_id, name, role_id FROM persons ORDER BY number";
        for row in sqlx::query(sql).fetch_all(&mut *work).await? {
            let person: [String; 3] =
                [row.try_get("person_id")?, row.try_get("name")?, row.try_get("role_id")?];
            write!(version, "{person:?}").map_err(unusable)?;
        }
        work.rollback().await?;
        Ok(version)
    }

    async fn insert_person(&self, person: &Person) -> Result<PersonOutcome, SqlError> {
        let id = text(&person.id.0);
        let name = text(&person.name);
        let mut work = self.begin_with_people().await?;
        let others = names_of_others(&mut work, &id).await?;
        let refused = if others.iter().any(|other| are_same(other, &name)) {
            Some(PersonOutcome::NameTaken)
        } else if others.len() >= MOST_PEOPLE {
            Some(PersonOutcome::TooMany)
        } else {
            None
        };
        if let Some(refused) = refused {
            work.rollback().await?;
            return Ok(refused);
        }
        sqlx::query(
            "INSERT INTO persons (person_id, name, role_id, created_ms) VALUES ($1, $2, $3, $4)",
        )
        .bind(&id)
        .bind(&name)
        .bind(text(&person.role_id))
        .bind(wall_clock::now().as_millisecond())
        .execute(&mut *work)
        .await?;
        for voice in &person.voices {
            insert_voice(&mut work, &id, voice).await?;
        }
        let facts = person.facts.iter().cloned().map(PersonMemory::Fact);
        let exchanges = person.exchanges.iter().cloned().map(PersonMemory::Exchange);
        for memory in facts.chain(exchanges) {
            insert_memory(&mut work, &id, &memory).await?;
        }
        work.commit().await?;
        Ok(PersonOutcome::Done)
    }

    /// Starts a transaction that overwrites deleted data. No other transaction adds or renames a
    /// person until it ends.
    async fn begin_with_people(&self) -> Result<StoreTransaction, SqlError> {
        let mut work = self.begin_alone(["persons"].into_iter()).await?;
        work.overwrite(self.dialect()).await?;
        Ok(work)
    }

    /// Starts a transaction that overwrites deleted data. No other transaction changes or deletes
    /// this person until it ends. `None` if there is no such person.
    async fn begin_with_person(&self, id: &str) -> Result<Option<StoreTransaction>, SqlError> {
        let mut work = self.begin_overwriting().await?;
        let sql = match self.dialect() {
            Dialect::Sqlite => "SELECT name FROM persons WHERE person_id = $1",
            Dialect::Postgres => "SELECT name FROM persons WHERE person_id = $1 FOR NO KEY UPDATE",
        };
        if sqlx::query(sql).bind(id).fetch_optional(&mut *work).await?.is_some() {
            return Ok(Some(work));
        }
        work.rollback().await?;
        Ok(None)
    }

    /// Empties the write-ahead log of a file, which contains deleted data. A long read such as a
    /// backup prevents this; the log is then overwritten afterwards.
    pub(super) async fn empty_log(&self) {
        if self.file.is_none() {
            return;
        }
        let busy = async {
            let writer = self.writer().await?;
            let mut connection = writer.pool.acquire().await?;
            // All writers wait while this waits for readers. The pool resets the setting.
            sqlx::raw_sql("PRAGMA busy_timeout = 100").execute(&mut *connection).await?;
            let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
            let emptied = sqlx::query(sql).fetch_one(&mut *connection).await?;
            Ok::<_, SqlError>(emptied.try_get::<i64, _>("busy")? != 0)
        };
        match busy.await {
            Ok(false) => {}
            Ok(true) => tracing::warn!("the store is being read: its log is emptied later"),
            Err(error) => tracing::warn!(%error, "cannot empty the log of the store"),
        }
    }
}

/// Returns the names of all other persons.
async fn names_of_others(work: &mut StoreTransaction, id: &str) -> Result<Vec<String>, SqlError> {
    let sql = "SELECT name FROM persons WHERE person_id <> $1";
    Ok(sqlx::query_scalar(sql).bind(text(id)).fetch_all(&mut **work).await?)
}

/// Adds a voice, and deletes the oldest beyond the limit.
async fn insert_voice(
    work: &mut StoreTransaction,
    id: &str,
    voice: &[f32],
) -> Result<(), SqlError> {
    let bytes: Vec<u8> = voice.iter().flat_map(|number| number.to_le_bytes()).collect();
    sqlx::query("INSERT INTO person_voices (person_id, voice) VALUES ($1, $2)")
        .bind(id)
        .bind(bytes)
        .execute(&mut **work)
        .await?;
    sqlx::query(
        "DELETE FROM person_voices WHERE person_id = $1 AND number <= (SELECT number \
         FROM person_voices WHERE person_id = $1 ORDER BY number DESC LIMIT 1 OFFSET $2)",
    )
    .bind(id)
    .bind(number(MOST_VOICES))
    .execute(&mut **work)
    .await?;
    Ok(())
}

/// Adds a memory, and deletes the oldest of its kind beyond the limit.
async fn insert_memory(
    work: &mut StoreTransaction,
    id: &str,
    memory: &PersonMemory,
) -> Result<(), SqlError> {
    let (kind, most, json) = stored(memory)?;
    sqlx::query("INSERT INTO person_memories (person_id, kind, memory) VALUES ($1, $2, $3)")
        .bind(id)
        .bind(kind)
        .bind(json)
        .execute(&mut **work)
        .await?;
    sqlx::query(
        "DELETE FROM person_memories WHERE person_id = $1 AND kind = $2 AND number <= \
         (SELECT number FROM person_memories WHERE person_id = $1 AND kind = $2 \
         ORDER BY number DESC LIMIT 1 OFFSET $3)",
    )
    .bind(id)
    .bind(kind)
    .bind(most)
    .execute(&mut **work)
    .await?;
    Ok(())
}
