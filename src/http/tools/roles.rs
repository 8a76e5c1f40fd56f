//! REST API of roles: listing, adding, changing, restoring, trying and deleting. Not for the
//! effects of a role, nor for assigning it to devices and people.

use actix_web::{HttpResponse, web};
use hearken_ports::reply_language::ReplyLanguage;
use hearken_ports::role::RoleSettings;
use hearken_ports::store::{Role, RoleOutcome, StoreError};
use hearken_proto::fault::Fault;
use hearken_proto::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::history::trial::Trials;
use crate::http::ToolsApi;
use crate::http::conversations::history::{TrialAnswered, not_answered};
use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};
use crate::http::params;
use crate::http::tools::role_bodies::{NewRole, RoleChange, RoleFields, RoleTrial};

/// Path of one role.
pub(crate) const ONE: &str = "/api/roles/{id}";
/// Maximum length of a role's name, in characters.
const MAX_NAME_CHARS: usize = 64;
/// Maximum length of the words of a trial, in characters.
const MAX_WORDS: usize = 4_000;

/// Role. Empty texts and `null` stand for the configuration.
#[derive(Serialize, ToSchema)]
struct RoleShown {
    /// Id, which never changes.
    id: String,
    /// Name, unique among roles.
    name: String,
    /// Number of the version, from 1.
    version: i64,
    /// Creation time of this version, RFC 3339.
    updated: String,
    #[serde(flatten)]
    #[schema(value_type = RoleFields)]
    settings: RoleSettings,
}

/// All roles.
#[derive(Serialize, ToSchema)]
struct Roles {
    /// Roles, sorted by name.
    roles: Vec<RoleShown>,
    /// Codes of the languages that a role can have.
    languages: Vec<&'static str>,
}

/// Versions of a role.
#[derive(Serialize, ToSchema)]
struct Versions {
    /// Versions, newest first.
    versions: Vec<VersionShown>,
}

/// Version of a role.
#[derive(Serialize, ToSchema)]
struct VersionShown {
    /// Number of the version, from 1.
    version: i64,
    /// Creation time of the version, RFC 3339.
    at: String,
    /// The role in this version.
    role: RoleShown,
}

impl From<Role> for RoleShown {
    fn from(role: Role) -> Self {
        let Role { role_id, name, version, updated, settings } = role;
        Self { id: role_id, name, version, updated: updated.to_string(), settings }
    }
}

/// Reason why a change of a role is refused.
enum Refused {
    Store(StoreError),
    Request(Refusal),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn refusal_of(why: Refused) -> Refusal {
    match why {
        Refused::Store(error) => store_failed(&error),
        Refused::Request(refusal) => refusal,
    }
}

fn no_such_role() -> Refusal {
    refusal(Fault::NotFound, "no such role")
}

fn name_of(text: &str) -> Result<String, Refusal> {
    let about = format!("`name` has 1 to {MAX_NAME_CHARS} characters");
    params::text_of(text, MAX_NAME_CHARS, &about)
}

/// Applies the fields of a request to settings; `null` restores the configured value.
fn changed(settings: &RoleSettings, fields: Map<String, Value>) -> Result<RoleSettings, Refusal> {
    let told = serde_json::to_value(settings).unwrap_or_default();
    let mut all = told.as_object().cloned().unwrap_or_default();
    let usual = serde_json::to_value(RoleSettings::default()).unwrap_or_default();
    for (name, value) in fields {
        let value = if value.is_null() { usual[&name].clone() } else { value };
        all.insert(name, value);
    }
    let read: Result<RoleSettings, _> = json::typed(all);
    let mut settings =
        read.map_err(|error| refusal(Fault::BadRequest, &error.about("the body")))?;
    for text in [&mut settings.model, &mut settings.voice] {
        *text = text.trim().to_owned();
    }
    settings.system_prompt = settings.system_prompt.trim().replace('\0', "");
    settings.check().map_err(|about| refusal(Fault::BadRequest, &about))?;
    Ok(settings)
}

/// Builds the response to a change.
fn told(outcome: RoleOutcome, mut made: actix_web::HttpResponseBuilder) -> RouteResult {
    match outcome {
        RoleOutcome::Done(role) => Ok(made.json(RoleShown::from(*role))),
        RoleOutcome::NameTaken => {
            Err(refusal(Fault::Conflict, "another role has this `name`: choose another"))
        }
        RoleOutcome::TooMany => {
            Err(refusal(Fault::Conflict, "there are 100 roles, the maximum: delete one"))
        }
        RoleOutcome::Unknown => Err(no_such_role()),
        RoleOutcome::Overtaken => {
            Err(refusal(Fault::Conflict, "others are changing the role: try again"))
        }
    }
}

/// Lists all roles.
#[utoipa::path(get, path = "/api/roles", tag = "roles", responses((status = 200, body = Roles), Faults))]
pub(crate) async fn list(_: Operator, api: web::Data<ToolsApi>) -> RouteResult {
    let roles = api.registry.roles().await.map_err(|e| store_failed(&e))?;
    let languages = ReplyLanguage::ALL.map(ReplyLanguage::code).to_vec();
    let roles = roles.into_iter().map(RoleShown::from).collect();
    Ok(HttpResponse::Ok().json(Roles { roles, languages }))
}

/// Returns a role.
#[utoipa::path(get, path = "/api/roles/{id}", tag = "roles", params(("id" = String, Path,)),
    responses((status = 200, body = RoleShown), Faults))]
pub(crate) async fn get(
    _: Operator,
    id: web::Path<String>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let roles = api.registry.roles().await.map_err(|e| store_failed(&e))?;
    let found = roles.into_iter().find(|role| role.role_id == *id).ok_or_else(no_such_role)?;
    Ok(HttpResponse::Ok().json(RoleShown::from(found)))
}

/// Removes the name from the fields of a request.
fn take_name(fields: &mut Map<String, Value>) -> Result<Option<String>, Refusal> {
    match fields.remove("name") {
        None => Ok(None),
        Some(Value::String(name)) => name_of(&name).map(Some),
        Some(_) => Err(refusal(Fault::BadRequest, "`name` must be text")),
    }
}

/// Adds a role with a name and the settings that differ from the configuration.
#[utoipa::path(post, path = "/api/roles", tag = "roles", request_body = NewRole,
    responses((status = 201, body = RoleShown), Faults))]
pub(crate) async fn add(
    _: Operator,
    fields: JsonBody<Map<String, Value>>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let mut fields = fields.0;
    let name = take_name(&mut fields)?;
    let name = name.ok_or_else(|| refusal(Fault::BadRequest, "give the role a `name`"))?;
    let settings = changed(&RoleSettings::default(), fields)?;
    let outcome = api.registry.add_role(name, settings).await.map_err(|e| store_failed(&e))?;
    told(outcome, HttpResponse::Created())
}

/// Changes a role by adding a version of it, which applies from the next turn of each conversation;
/// omitted fields stay as they are.
#[utoipa::path(patch, path = "/api/roles/{id}", tag = "roles", params(("id" = String, Path,)),
    request_body = RoleChange, responses((status = 200, body = RoleShown), Faults))]
pub(crate) async fn change(
    _: Operator,
    id: web::Path<String>,
    fields: JsonBody<Map<String, Value>>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let mut fields = fields.0;
    let name = take_name(&mut fields)?;
    let change = |role: &Role| {
        let settings = changed(&role.settings, fields.clone()).map_err(Refused::Request)?;
        Ok((name.clone().unwrap_or_else(|| role.name.clone()), settings))
    };
    let outcome = api.registry.change_role(&id, change).await.map_err(refusal_of)?;
    told(outcome, HttpResponse::Ok())
}

/// Deletes a role with its versions; its devices and people keep its id, and have no tools of the server
/// until they get another role or none.
#[utoipa::path(delete, path = "/api/roles/{id}", tag = "roles", params(("id" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn delete(
    _: Operator,
    id: web::Path<String>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    if !api.registry.delete_role(&id).await.map_err(|e| store_failed(&e))? {
        return Err(no_such_role());
    }
    tracing::info!(role = %id, "deleted a role");
    Ok(HttpResponse::NoContent().finish())
}

/// Lists the last 50 versions of a role, newest first.
#[utoipa::path(get, path = "/api/roles/{id}/versions", tag = "roles", params(("id" = String, Path,)),
    responses((status = 200, body = Versions), Faults))]
pub(crate) async fn versions(
    _: Operator,
    id: web::Path<String>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let all = api.registry.role_versions(&id).await.map_err(|e| store_failed(&e))?;
    if all.is_empty() {
        return Err(no_such_role());
    }
    let shown = |role: Role| VersionShown {
        version: role.version,
        at: role.updated.to_string(),
        role: role.into(),
    };
    Ok(HttpResponse::Ok().json(Versions { versions: all.into_iter().map(shown).collect() }))
}

/// Request to restore a version of a role.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restore {
    /// Number of the version to restore.
    version: i64,
}

/// Restores an earlier version of a role, by adding it as a new version.
#[utoipa::path(post, path = "/api/roles/{id}/restore", tag = "roles", params(("id" = String, Path,)),
    request_body = Restore, responses((status = 200, body = RoleShown), Faults))]
pub(crate) async fn restore(
    _: Operator,
    id: web::Path<String>,
    asked: JsonBody<Restore>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let all = api.registry.role_versions(&id).await.map_err(|e| store_failed(&e))?;
    let found = all.into_iter().find(|role| role.version == asked.0.version);
    let Some(was) = found else {
        return Err(refusal(Fault::NotFound, "no such version of a role"));
    };
    let change = |_: &Role| Ok::<_, Refused>((was.name.clone(), was.settings.clone()));
    let outcome = api.registry.change_role(&id, change).await.map_err(refusal_of)?;
    told(outcome, HttpResponse::Ok())
}

/// Answers a text as a role with these settings would, without tools; nothing is stored.
#[utoipa::path(post, path = "/api/roles/try", tag = "roles", request_body = RoleTrial,
    responses((status = 200, body = TrialAnswered), Faults))]
pub(crate) async fn try_out(
    _: Operator,
    fields: JsonBody<Map<String, Value>>,
    trials: web::Data<Trials>,
) -> RouteResult {
    let mut fields = fields.0;
    let about = format!("`text` has 1 to {MAX_WORDS} characters");
    let words = match fields.remove("text") {
        Some(Value::String(words)) => params::text_of(&words, MAX_WORDS, &about)?,
        _ => return Err(refusal(Fault::BadRequest, &about)),
    };
    let role = changed(&RoleSettings::default(), fields)?;
    let model = role.model.clone();
    let done = trials.ask(&words, role).await.map_err(|e| not_answered(&e))?;
    Ok(HttpResponse::Ok().json(TrialAnswered::new(done, model)))
}

/// Parses the role in a request about a device or a person: an id, or `null` for none.
pub(crate) fn given(role: &Value, all: Result<Vec<Role>, StoreError>) -> Result<String, Refusal> {
    let id = match role {
        Value::Null => return Ok(String::new()),
        Value::String(id) => id,
        _ => return Err(refusal(Fault::BadRequest, "`role` is the id of a role, or null")),
    };
    let known = all.map_err(|e| store_failed(&e))?.iter().any(|role| role.role_id == *id);
    known.then(|| id.clone()).ok_or_else(|| {
        refusal(Fault::BadRequest, "`role` is not a role's id: list them with `GET /api/roles`")
    })
}
