//! REST API of people: listing, enrolling from recordings, renaming, deleting memories and people.
//! Not for recognising them. Voices are never returned.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hearken_base::slots::Slots;
use hearken_dialogue::people::{MOST_SENTENCES, People, PeopleError};
use hearken_ports::store::{RoleStore, StoreError};
use hearken_ports::{BoxError, Exchange, Person, PersonId};
use hearken_proto::fault::Fault;
use hearken_proto::json;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, log_outage, refusal, store_failed};
use crate::http::tools::roles;
use crate::http::wav;

/// Path of one person.
pub(crate) const ONE: &str = "/api/persons/{id}";
/// Path of a person's memories.
pub(crate) const MEMORIES: &str = "/api/persons/{id}/memories";
/// Maximum size of a request, in bytes: ten of the longest recordings, mono at 48 kHz, in base64.
const MAX_BYTES: usize = 40 << 20;
/// Maximum size of a body that is parsed again for a detailed error, in bytes.
const EXPLAINED_BYTES: usize = 128 << 10;
/// Maximum number of requests whose recordings are in memory, and of those of one member.
const BODIES: usize = 4;
const BODIES_OF_MEMBER: usize = 2;
/// Maximum time for the recordings to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// State of the people routes.
pub struct PeopleApi {
    people: People,
    roles: Arc<dyn RoleStore>,
    /// Slots for recordings, which are large, by the name of the member.
    bodies: Slots,
    /// Allows one enrolment at a time.
    enrolling: Semaphore,
}

impl PeopleApi {
    /// Creates the state. Without a speaker embedder, stored people can still be listed, changed and deleted.
    pub fn new(people: People, roles: Arc<dyn RoleStore>) -> Self {
        let bodies = Slots::new(BODIES, BODIES_OF_MEMBER);
        Self { people, roles, bodies, enrolling: Semaphore::new(1) }
    }

    /// Returns the people who are recognised; refuses the request if no speaker embedder is configured.
    fn recognised(&self) -> Result<&People, Refusal> {
        let about = "speaker recognition is off: set `speakers.model` and restart the server";
        let recognises = self.people.recognises();
        recognises.then_some(&self.people).ok_or_else(|| refusal(Fault::Conflict, about))
    }

    /// Returns all people.
    async fn all(&self) -> Result<Vec<Arc<Person>>, Refusal> {
        self.people.refresh().await.map_err(|error| failure_of(&error))?;
        Ok(self.people.all())
    }
}

/// Builds the response to a store error.
fn failure_of(error: &BoxError) -> Refusal {
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return store_failed(error);
    }
    log_outage(error.as_ref());
    refusal(Fault::Unavailable, "the store failed")
}

/// Converts the reason of a refusal to a response.
fn refusal_of(error: &PeopleError) -> Refusal {
    let (fault, remedy) = match error {
        PeopleError::Store(error) => return failure_of(error),
        PeopleError::Name
        | PeopleError::Recordings
        | PeopleError::Fact
        | PeopleError::OtherName(_)
        | PeopleError::AnotherVoice
        | PeopleError::Typed => (Fault::BadRequest, ""),
        PeopleError::TooShort(_) => (Fault::BadRequest, ": give one of a whole sentence"),
        PeopleError::NotAlike => {
            (Fault::BadRequest, ": record one person alone, close by and in a quiet place")
        }
        PeopleError::NameTaken => (Fault::Conflict, ": choose another"),
        PeopleError::TooMany => (Fault::Conflict, ""),
        PeopleError::Unknown => return no_such_person(),
        PeopleError::Busy => (Fault::Busy, ""),
    };
    refusal(fault, &format!("{error}{remedy}"))
}

fn no_such_person() -> Refusal {
    refusal(Fault::NotFound, "no such person")
}

fn id_of(path: &str) -> PersonId {
    PersonId(path.to_lowercase())
}

/// A person, without their voice.
#[derive(Serialize, ToSchema)]
struct PersonShown {
    /// Facts that the person asked to be remembered, oldest first.
    facts: Vec<String>,
    /// Id, which never changes.
    id: String,
    /// Name, unique among people.
    name: String,
    /// Number of enrolled recordings.
    recordings: usize,
    /// Id of the role that answers the person; null for the device's role.
    #[schema(required)]
    role: Option<String>,
}

impl From<&Person> for PersonShown {
    fn from(person: &Person) -> Self {
        Self {
            facts: person.facts.clone(),
            id: person.id.0.clone(),
            name: person.name.clone(),
            recordings: person.voices.len(),
            role: Some(person.role_id.clone()).filter(|role| !role.is_empty()),
        }
    }
}

/// All people.
#[derive(Serialize, ToSchema)]
struct PersonsShown {
    /// People, in the order in which they were added.
    persons: Vec<PersonShown>,
}

/// One exchange with a person.
#[derive(Serialize, ToSchema)]
struct ExchangeShown {
    /// Part of the answer that was played.
    answered: String,
    /// Words of the person.
    said: String,
}

/// A person with all their memories.
#[derive(Serialize, ToSchema)]
struct PersonDetail {
    /// Last exchanges, oldest first.
    exchanges: Vec<ExchangeShown>,
    #[serde(flatten)]
    person: PersonShown,
}

/// Lists all people, in the order in which they were added.
#[utoipa::path(get, path = "/api/persons", tag = "persons",
    responses((status = 200, body = PersonsShown), Faults))]
pub(crate) async fn list(_: Operator, api: web::Data<PeopleApi>) -> RouteResult {
    let all = api.all().await?;
    let persons = all.iter().map(|person| PersonShown::from(&**person)).collect();
    Ok(HttpResponse::Ok().json(PersonsShown { persons }))
}

/// Returns a person with all their memories.
#[utoipa::path(get, path = "/api/persons/{id}", tag = "persons", params(("id" = String, Path,)),
    responses((status = 200, body = PersonDetail), Faults))]
pub(crate) async fn get(
    _: Operator,
    id: web::Path<String>,
    api: web::Data<PeopleApi>,
) -> RouteResult {
    let id = id_of(&id);
    let all = api.all().await?;
    let person = all.iter().find(|person| person.id == id).ok_or_else(no_such_person)?;
    let shown = |exchange: &Exchange| ExchangeShown {
        answered: exchange.answered.clone(),
        said: exchange.said.clone(),
    };
    let exchanges = person.exchanges.iter().map(shown).collect();
    let person = PersonShown::from(&**person);
    Ok(HttpResponse::Ok().json(PersonDetail { exchanges, person }))
}

/// Request to enrol a person.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Enrol {
    /// Name, unique among people.
    name: String,
    /// Recordings, 3 to 10, each one sentence of at most 30 s: WAV files in base64, 16-bit PCM,
    /// mono or stereo, 8 to 48 kHz.
    #[schema(value_type = Vec<String>)]
    recordings: Recordings,
}

/// Recordings in base64; parsing fails above the maximum number.
struct Recordings(Vec<String>);

impl<'de> Deserialize<'de> for Recordings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Few;
        impl<'de> Visitor<'de> for Few {
            type Value = Recordings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Recordings, A::Error> {
                let mut all = Vec::new();
                while let Some(recording) = list.next_element()? {
                    if all.len() == MOST_SENTENCES {
                        return Err(serde::de::Error::custom(PeopleError::Recordings));
                    }
                    all.push(recording);
                }
                Ok(Recordings(all))
            }
        }
        deserializer.deserialize_seq(Few)
    }
}

/// Enrols a person from recordings of their voice.
#[utoipa::path(post, path = "/api/persons", tag = "persons",
    request_body = Enrol,
    responses((status = 201, body = PersonShown), Faults))]
pub(crate) async fn enrol(
    operator: Operator,
    payload: web::Payload,
    api: web::Data<PeopleApi>,
) -> RouteResult {
    let busy = || refusal(Fault::Busy, "another person is being enrolled");
    let _held = api.bodies.take(Some(operator.name())).map_err(|_| busy())?;
    let body = read(payload).await?;
    // Not while the body arrives: one slow line would keep all members from enrolling.
    let _alone = api.enrolling.try_acquire().map_err(|_| busy())?;
    let Enrol { name, recordings } = blocking(move || parse(&body)).await?;
    let people = api.recognised()?;
    let recordings = blocking(move || decode(recordings.0)).await?;
    let person = people.enrol_recordings(&name, recordings).await.map_err(|e| refusal_of(&e))?;
    tracing::info!(person = person.id.0, "enrolled a person");
    Ok(HttpResponse::Created().json(PersonShown::from(&*person)))
}

async fn read(payload: web::Payload) -> Result<Bytes, Refusal> {
    let reading = payload.to_bytes_limited(MAX_BYTES);
    match tokio::time::timeout(BODY_WITHIN, reading).await {
        Err(_) => Err(refusal(Fault::Idle, "the recordings did not arrive in time")),
        Ok(Err(_)) => {
            let about = "all recordings together have at most 40 MiB in base64: give shorter ones";
            Err(refusal(Fault::TooLarge, about))
        }
        Ok(Ok(Err(_))) => Err(refusal(Fault::BadRequest, "the body is incomplete")),
        Ok(Ok(Ok(bytes))) => Ok(bytes),
    }
}

/// Runs slow work on a blocking thread. An error of the work becomes a 400 response.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Refusal> {
    let done = web::block(work).await;
    let done = done.map_err(|_| refusal(Fault::GoingAway, "the server is stopping"))?;
    done.map_err(|about| refusal(Fault::BadRequest, &about))
}

/// Parses the body without building a tree of all its values, which may take a hundred times as
/// much memory. Errors in a small body are reported in the same form as for all other bodies.
fn parse(body: &[u8]) -> Result<Enrol, String> {
    match serde_json::from_slice(body) {
        Ok(asked) if body.trim_ascii_start().starts_with(b"{") => Ok(asked),
        Err(error) if body.len() > EXPLAINED_BYTES => Err(format!("the body: {error}")),
        _ => json::read(body).map_err(|error| error.about("the body")),
    }
}

fn decode(recordings: Vec<String>) -> Result<Vec<Vec<i16>>, String> {
    let decode = |(n, recording): (usize, String)| {
        let file = STANDARD.decode(recording.trim_ascii());
        let file = file.map_err(|_| format!("recording {} is not base64", n + 1))?;
        wav::read(&file).map_err(|error| format!("recording {} cannot be used: {error}", n + 1))
    };
    recordings.into_iter().enumerate().map(decode).collect()
}

/// Changes to a person; at least one field is required.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PersonChange)]
struct Change {
    /// New name, unique among people.
    name: Option<String>,
    /// Id of the role that answers the person; null for the device's role.
    #[schema(value_type = Option<String>)]
    role: Option<Value>,
}

impl Change {
    fn read(mut fields: Map<String, Value>) -> Result<Self, Refusal> {
        // `null` is a valid value, so this field is read separately.
        let role = fields.remove("role");
        let read = json::typed(fields);
        let read: Self = read.map_err(|e| refusal(Fault::BadRequest, &e.about("the body")))?;
        if role.is_none() && read.name.is_none() {
            return Err(refusal(Fault::BadRequest, "give a `name` or a `role`"));
        }
        Ok(Self { role, ..read })
    }
}

/// Changes the name of a person, or the role that answers them.
#[utoipa::path(patch, path = "/api/persons/{id}", tag = "persons", params(("id" = String, Path,)),
    request_body = Change,
    responses((status = 200, body = PersonShown), Faults))]
pub(crate) async fn change(
    _: Operator,
    id: web::Path<String>,
    fields: JsonBody<Map<String, Value>>,
    api: web::Data<PeopleApi>,
) -> RouteResult {
    let asked = Change::read(fields.0)?;
    let people = &api.people;
    let id = id_of(&id);
    let role = match &asked.role {
        Some(role) => Some(roles::given(role, api.roles.roles().await)?),
        None => None,
    };
    // Another instance may have added the person.
    people.refresh().await.map_err(|error| failure_of(&error))?;
    let mut person = people.get(&id).ok_or_else(no_such_person)?;
    if let Some(name) = asked.name {
        person = people.rename(&id, &name).await.map_err(|e| refusal_of(&e))?;
    }
    if let Some(role) = role {
        person = people.give_role(&id, &role).await.map_err(|e| refusal_of(&e))?;
    }
    tracing::info!(person = person.id.0, "changed a person");
    Ok(HttpResponse::Ok().json(PersonShown::from(&*person)))
}

/// Deletes a person with all their memories.
#[utoipa::path(delete, path = "/api/persons/{id}", tag = "persons", params(("id" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn delete(
    _: Operator,
    id: web::Path<String>,
    api: web::Data<PeopleApi>,
) -> RouteResult {
    let id = id_of(&id);
    api.people.delete(&id).await.map_err(|e| refusal_of(&e))?;
    tracing::info!(person = id.0, "deleted a person");
    Ok(HttpResponse::NoContent().finish())
}

/// Deletes all memories of a person; their voice is still recognised.
#[utoipa::path(delete, path = "/api/persons/{id}/memories", tag = "persons", params(("id" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn forget(
    _: Operator,
    id: web::Path<String>,
    api: web::Data<PeopleApi>,
) -> RouteResult {
    let id = id_of(&id);
    api.people.forget_memories(&id).await.map_err(|e| refusal_of(&e))?;
    tracing::info!(person = id.0, "deleted the memories of a person");
    Ok(HttpResponse::NoContent().finish())
}

#[cfg(test)]
mod tests;
