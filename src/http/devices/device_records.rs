//! REST API of devices: listing, binding, naming, deleting, and provisioning of keys. Not for devices themselves.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_actors::device_registry::DeviceRegistry;
use hearken_base::wall_clock;
use hearken_cluster::Cluster;
use hearken_ports::Devices as _;
use hearken_ports::store::{Device, HistoryPart};
use hearken_proto::fault::Fault;
use hearken_proto::ids::{DeviceId, SessionId};
use hearken_proto::json;
use hearken_proto::text_gateway::MAX_SYSTEM_PROMPT_CHARS;
use hearken_tool_sources::DEFAULT_AGENT;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::admin::rights::Right;
use crate::auth::bytes_of_hex;
use crate::history::History;
use crate::http::devices::device::unbound;
use crate::http::devices::device_identity::{agent_of, id_of, no_such_device};
use crate::http::devices::device_orders;
use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};
use crate::http::middleware::address_of;
use crate::http::request_identity::{bearer, query};
use crate::http::tools::roles;
use crate::http::{AccessControl, DeviceEndpoint, ToolsApi, params};
use crate::usage::DailyUsage;

/// Default page size.
const PAGE: u32 = 100;
/// Maximum page size.
const MAX_PAGE: u32 = 1_000;
/// Maximum length of a device's name, in characters.
const MAX_NAME_CHARS: usize = 64;
/// Maximum number of wrong codes of one user within [`GUESSES_FOR`]; further ones are refused.
const MAX_GUESSES: u32 = 10;
/// The same of all users together. Administrators neither count nor are refused by it: they need no
/// code to bind a device.
const MAX_GUESSES_OF_ALL: u32 = 100;
/// Period in which wrong codes are counted.
const GUESSES_FOR: Duration = Duration::from_secs(60);

/// Counter of wrong codes, which prevents guessing: of a million codes, at most 5,000 are valid.
#[derive(Debug)]
pub(crate) struct Guesses(Mutex<Guessed>);

/// Wrong codes, and codes that are being checked, of one period.
#[derive(Debug)]
struct Guessed {
    since: Instant,
    /// Number of those of all users except administrators.
    all: u32,
    by: HashMap<Guesser, u32>,
}

/// User who enters codes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Guesser {
    /// Administrator, by name.
    Administrator(String),
    /// Other user, by name.
    User(String),
    /// Caller without a credential, where none is required, by address.
    Anyone(String),
}

impl Guesses {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Guessed::since(Instant::now())))
    }

    fn lock(&self) -> MutexGuard<'_, Guessed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a code before it is checked, since several may be checked at once. Returns false if
    /// it must not be checked.
    fn count(&self, guesser: &Guesser, now: Instant) -> bool {
        let mut guessed = self.lock();
        if now.saturating_duration_since(guessed.since) >= GUESSES_FOR {
            *guessed = Guessed::since(now);
        }
        let own = guessed.by.get(guesser).copied().unwrap_or_default();
        let is_full = guesser.is_limited() && guessed.all >= MAX_GUESSES_OF_ALL;
        if is_full || own >= MAX_GUESSES {
            return false;
        }
        guessed.by.insert(guesser.clone(), own + 1);
        guessed.all += u32::from(guesser.is_limited());
        true
    }

    /// Takes back a counted code that was not wrong.
    fn take_back(&self, guesser: &Guesser) {
        let mut guessed = self.lock();
        let Some(own) = guessed.by.remove(guesser) else { return };
        if own > 1 {
            guessed.by.insert(guesser.clone(), own - 1);
        }
        guessed.all = guessed.all.saturating_sub(u32::from(guesser.is_limited()));
    }
}

impl Guessed {
    fn since(since: Instant) -> Self {
        Self { since, all: 0, by: HashMap::new() }
    }
}

impl Guesser {
    fn of(operator: &Operator, request: &HttpRequest, access: &AccessControl) -> Self {
        let name = operator.name().to_owned();
        match &operator.0 {
            Some(who) if who.right == Right::Administrator => Self::Administrator(name),
            Some(_) => Self::User(name),
            None if access.auth.has_admin_token(&[bearer(request)]) => Self::Administrator(name),
            None => Self::Anyone(address_of(request)),
        }
    }

    /// Returns true if the codes of all users limit those of this one.
    fn is_limited(&self) -> bool {
        !matches!(self, Self::Administrator(_))
    }
}

/// Device.
#[derive(Serialize, ToSchema)]
struct DeviceShown {
    /// Device id, in lower case.
    device_id: String,
    /// Name; empty for none.
    name: String,
    /// Board type, as reported by the firmware; empty if unknown.
    board: String,
    /// Chip model, as reported by the firmware; empty if unknown.
    chip: String,
    /// Serial number; empty if unknown, and for guests.
    serial_number: String,
    /// Firmware version at the last boot; empty if unknown.
    firmware_version: String,
    /// Time of the first contact, RFC 3339; null for a device that connected without ever requesting its settings.
    #[schema(required)]
    first_seen: Option<String>,
    /// Time of the last contact, RFC 3339; null like `first_seen`.
    #[schema(required)]
    last_seen: Option<String>,
    /// True if the device is bound to its client.
    bound: bool,
    /// True if the device counts as bound outside the private networks only because it was stored
    /// before binding was required: confirm it with `bound`, or delete it.
    needs_review: bool,
    /// Agent whose tool clients the device uses.
    agent: String,
    /// Instructions for the model; empty for none, and for guests.
    system_prompt: String,
    /// Id of the device's role; null for none.
    #[schema(required)]
    role: Option<String>,
    /// True if the device is connected to any instance.
    connected: bool,
    /// Session id of the connection; null for none, and for guests.
    #[schema(required)]
    session_id: Option<String>,
}

impl DeviceShown {
    fn stored(device: Device, connected: Option<&SessionId>) -> Self {
        Self {
            device_id: device.device_id.as_str().to_owned(),
            name: device.name,
            board: device.board,
            chip: device.chip,
            serial_number: device.serial_number,
            firmware_version: device.firmware_version,
            first_seen: Some(device.first_seen.to_string()),
            last_seen: Some(device.last_seen.to_string()),
            bound: device.bound,
            needs_review: device.needs_review,
            agent: device.agent,
            system_prompt: device.system_prompt,
            role: Some(device.role_id).filter(|role| !role.is_empty()),
            connected: connected.is_some(),
            session_id: connected.map(ToString::to_string),
        }
    }

    /// Removes the fields that are hidden from guests.
    fn to(self, operator: &Operator) -> Self {
        let is_guest = operator.0.as_ref().is_some_and(|who| who.right == Right::Guest);
        if !is_guest {
            return self;
        }
        let system_prompt = String::new();
        let serial_number = String::new();
        Self { system_prompt, serial_number, session_id: None, ..self }
    }

    /// Represents a connected device that is not in the store.
    fn stranger(device_id: &str, session_id: &SessionId) -> Self {
        Self {
            device_id: device_id.to_owned(),
            name: String::new(),
            board: String::new(),
            chip: String::new(),
            serial_number: String::new(),
            firmware_version: String::new(),
            first_seen: None,
            last_seen: None,
            bound: false,
            needs_review: false,
            agent: DEFAULT_AGENT.into(),
            system_prompt: String::new(),
            role: None,
            connected: true,
            session_id: Some(session_id.to_string()),
        }
    }
}

/// Page of devices.
#[derive(Serialize, ToSchema)]
struct DevicesShown {
    /// Devices, sorted by id.
    devices: Vec<DeviceShown>,
    /// Value of `after` for the next page; null on the last page.
    #[schema(required)]
    next: Option<String>,
}

/// Returns the devices that are connected to any instance and may talk, with their sessions.
/// Excludes connections that only play a code, which have other ids.
async fn connected(
    cluster: &Cluster,
    device_registry: &DeviceRegistry,
) -> HashMap<String, SessionId> {
    let mut all = cluster.devices().await;
    all.extend(device_registry.connected().into_iter().map(|c| (c.device_id, c.session_id)));
    let all = all.into_iter().map(|(device, session)| (device.as_str().to_owned(), session));
    all.filter(|(device, _)| !device.contains('|')).collect()
}

/// Lists devices, sorted by id; `limit` is 1 to 1,000, and 100 if omitted.
#[utoipa::path(get, path = "/api/devices", tag = "devices", params(("after" = Option<String>, Query,), ("limit" = Option<u32>, Query,)),
    responses((status = 200, body = DevicesShown), Faults))]
pub(crate) async fn list(
    operator: Operator,
    request: HttpRequest,
    access: web::Data<AccessControl>,
    device_endpoint: web::Data<DeviceEndpoint>,
    cluster: web::Data<Cluster>,
) -> RouteResult {
    let limit = params::number(&request, "limit", 1..=MAX_PAGE, Fault::BadRequest)?;
    let limit = limit.unwrap_or(PAGE);
    // A blank cursor means: from the start.
    let after = query(&request, "after").unwrap_or_default().to_lowercase();
    let page = access.store.devices(&after, limit).await.map_err(|e| store_failed(&e))?;
    let mut here = connected(&cluster, device_endpoint.pipeline.device_registry()).await;
    let mut shown: Vec<DeviceShown> = Vec::new();
    for device in page.devices {
        let connected = here.remove(device.device_id.as_str());
        shown.push(DeviceShown::stored(device, connected.as_ref()));
    }
    // Adds devices that are only in the registry, within the range of this page.
    let last = shown.last().map(|d| d.device_id.clone()).filter(|_| page.more);
    let within = |id: &str| id > after.as_str() && last.as_deref().is_none_or(|last| id < last);
    let strangers = here.iter().filter(|(id, _)| within(id));
    shown.extend(
        strangers.map(|(id, session)| DeviceShown::stranger(id, session)).collect::<Vec<_>>(),
    );
    shown.sort_by(|a, b| a.device_id.cmp(&b.device_id));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = page.more || shown.len() > limit;
    shown.truncate(limit);
    let next = shown.last().map(|d| d.device_id.clone()).filter(|_| more);
    let devices = shown.into_iter().map(|device| device.to(&operator)).collect();
    Ok(HttpResponse::Ok().json(DevicesShown { devices, next }))
}

/// Returns a device (`GET /api/devices/{id}`).
#[utoipa::path(get, path = "/api/devices/{id}", tag = "devices", params(("id" = String, Path,)),
    responses((status = 200, body = DeviceShown), Faults))]
pub(crate) async fn get(
    operator: Operator,
    id: web::Path<String>,
    access: web::Data<AccessControl>,
    device_endpoint: web::Data<DeviceEndpoint>,
    cluster: web::Data<Cluster>,
) -> RouteResult {
    let id = id_of(&id);
    let device = access.store.device(&id).await.map_err(|e| store_failed(&e))?;
    let here =
        connected(&cluster, device_endpoint.pipeline.device_registry()).await.remove(id.as_str());
    let shown = match (device, here) {
        (Some(device), here) => DeviceShown::stored(device, here.as_ref()),
        (None, Some(here)) => DeviceShown::stranger(id.as_str(), &here),
        (None, None) => return Err(no_such_device()),
    };
    Ok(HttpResponse::Ok().json(shown.to(&operator)))
}

/// Request to bind a device.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bind {
    /// Code of the device; characters other than digits are ignored.
    code: String,
    /// Name for the device, 1 to 64 characters.
    name: Option<String>,
}

/// Binds the device that is pending with this code.
#[utoipa::path(post, path = "/api/devices/bind", tag = "devices",
    request_body = Bind,
    responses((status = 200, body = DeviceShown), Faults))]
pub(crate) async fn bind(
    operator: Operator,
    request: HttpRequest,
    asked: JsonBody<Bind>,
    access: web::Data<AccessControl>,
    device_endpoint: web::Data<DeviceEndpoint>,
    cluster: web::Data<Cluster>,
) -> RouteResult {
    let name = asked.0.name.as_deref().map(name_of).transpose()?;
    let guesser = Guesser::of(&operator, &request, &access);
    if !access.guesses.count(&guesser, Instant::now()) {
        return Err(refusal(Fault::TooMany, "wait a minute before the next code"));
    }
    let code: String = asked.0.code.chars().filter(char::is_ascii_digit).collect();
    let found = access.store.bind(&code, name.as_deref(), Timestamp::now()).await;
    if !matches!(found, Ok(None)) {
        access.guesses.take_back(&guesser);
    }
    let Some(device) = found.map_err(|e| store_failed(&e))? else {
        return Err(refusal(Fault::NotFound, "no device waits with this code"));
    };
    tracing::info!(device = %device.device_id, "bound a device");
    // A connection under this id belongs to the previous client.
    disconnect(&cluster, &device_endpoint, &device.device_id).await?;
    // The device's own connection only plays its code: closed, the device reconnects as bound.
    disconnect(&cluster, &device_endpoint, &unbound(&device.device_id)).await?;
    Ok(HttpResponse::Ok().json(DeviceShown::stored(device, None)))
}

fn name_of(text: &str) -> Result<String, Refusal> {
    let about = format!("a name has 1 to {MAX_NAME_CHARS} characters");
    params::text_of(text, MAX_NAME_CHARS, &about)
}

/// Changes to a device; at least one field is required.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeviceChange)]
struct Change {
    /// Name, 1 to 64 characters.
    name: Option<String>,
    /// `true` to bind the device without its code; `false` is refused.
    bound: Option<bool>,
    /// Agent whose tool clients the device uses, 1 to 64 bytes.
    agent: Option<String>,
    /// Instructions for the model, at most 8,000 characters; an empty text or null removes them.
    system_prompt: Option<String>,
    /// Id of the device's role; null for none.
    #[schema(value_type = Option<String>)]
    role: Option<Value>,
}

impl Change {
    fn read(mut fields: Map<String, Value>) -> Result<Self, Refusal> {
        if let Some(prompt) = fields.get_mut("system_prompt").filter(|prompt| prompt.is_null()) {
            *prompt = "".into();
        }
        let role = fields.remove("role");
        let read = json::typed(fields);
        let read: Self = read.map_err(|e| refusal(Fault::BadRequest, &e.about("the body")))?;
        Ok(Self { role, ..read })
    }
}

/// Changes the name, binding, agent, instructions or role of a device.
#[utoipa::path(patch, path = "/api/devices/{id}", tag = "devices", params(("id" = String, Path,)),
    request_body = Change,
    responses((status = 200, body = DeviceShown), Faults))]
pub(crate) async fn change(
    _: Operator,
    id: web::Path<String>,
    fields: JsonBody<Map<String, Value>>,
    access: web::Data<AccessControl>,
    device_endpoint: web::Data<DeviceEndpoint>,
    cluster: web::Data<Cluster>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let asked = Change::read(fields.0)?;
    let id = id_of(&id);
    let name = asked.name.as_deref().map(name_of).transpose()?;
    let agent = asked.agent.as_deref().map(agent_of).transpose()?;
    let prompt = asked.system_prompt.as_deref().map(prompt_of).transpose()?;
    let role = match &asked.role {
        Some(role) => Some(roles::given(role, api.registry.roles().await)?),
        None => None,
    };
    if asked.bound == Some(false) {
        let about = "`bound` can only become true: delete the device to end its binding";
        return Err(refusal(Fault::BadRequest, about));
    }
    if asked.bound.is_some() {
        confirm(&access, &id).await?;
    }
    let mut device = match (&name, &agent, &prompt, &role, asked.bound) {
        (None, None, None, None, None) => {
            let about = "give a `name`, `bound`, an `agent`, a `system_prompt` or a `role`";
            return Err(refusal(Fault::BadRequest, about));
        }
        (Some(name), ..) => access.store.rename(&id, name).await,
        (None, ..) => access.store.device(&id).await,
    };
    if let (Some(agent), Ok(Some(_))) = (agent, &device) {
        device = api.registry.assign(&id, &agent).await;
    }
    if let (Some(prompt), Ok(Some(_))) = (prompt, &device) {
        device = api.registry.instruct(&id, &prompt).await;
    }
    if let (Some(role), Ok(Some(_))) = (role, &device) {
        device = api.registry.give_role(&id, &role).await;
    }
    let device = device.map_err(|e| store_failed(&e))?.ok_or_else(no_such_device)?;
    let mut here = connected(&cluster, device_endpoint.pipeline.device_registry()).await;
    let here = here.remove(device.device_id.as_str());
    Ok(HttpResponse::Ok().json(DeviceShown::stored(device, here.as_ref())))
}

/// Binds a device to its client, without its code.
async fn confirm(access: &AccessControl, id: &DeviceId) -> Result<(), Refusal> {
    let known = access.store.device(id).await.map_err(|e| store_failed(&e))?;
    let device = known.ok_or_else(no_such_device)?;
    let client = &device.client_id;
    if client.is_empty() {
        let about = "the owner of this id is unknown: enter the device's code, or create a token";
        return Err(refusal(Fault::Conflict, about));
    }
    let now = Timestamp::now();
    access.check_recorded_client(&device, now).await?;
    let bound = access.store.confirm(id, client, now).await;
    bound.map_err(|e| store_failed(&e))?.map(|_| ()).ok_or_else(|| {
        refusal(Fault::Conflict, "another client just claimed the device: try again")
    })
}

/// Validates instructions, which may have several lines; empty if there are none.
fn prompt_of(text: &str) -> Result<String, Refusal> {
    let text = text.trim();
    if text.chars().count() > MAX_SYSTEM_PROMPT_CHARS {
        let most = MAX_SYSTEM_PROMPT_CHARS;
        let about = format!("a `system_prompt` has at most {most} characters");
        return Err(refusal(Fault::BadRequest, &about));
    }
    Ok(text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect())
}

/// Deletes a device, its history and its recordings, and ends its connection.
#[utoipa::path(delete, path = "/api/devices/{id}", tag = "devices", params(("id" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn forget(
    _: Operator,
    id: web::Path<String>,
    device_endpoint: web::Data<DeviceEndpoint>,
    cluster: web::Data<Cluster>,
    api: web::Data<ToolsApi>,
    history: web::Data<History>,
    usage: web::Data<DailyUsage>,
) -> RouteResult {
    let id = id_of(&id);
    let forgotten = device_endpoint.access.store.forget(&id, wall_clock::dates().latest).await;
    let was_known = forgotten.map_err(|e| store_failed(&e))?;
    if was_known {
        api.registry.forget(&id);
        tracing::info!(device = %id, "deleted a device");
    }
    // Also for a device without a row, because the store failed or devices need no token.
    disconnect(&cluster, &device_endpoint, &id).await?;
    // Also for an unknown device: an earlier request may have failed at this point.
    let said = HistoryPart::Client(id.to_string());
    let turns = history.delete(&said).await.map_err(|e| store_failed(&e))?;
    usage.forget(&id).await.map_err(|e| store_failed(&e))?;
    let recordings = match &device_endpoint.recorder {
        Some(recorder) => recorder.delete(id.as_str()).await.map_err(|error| {
            tracing::warn!(%error, device = %id, "cannot delete the recordings of a device");
            refusal(Fault::Unavailable, "a recording of the device cannot be deleted: see the log")
        })?,
        None => 0,
    };
    if !was_known && turns == 0 && recordings == 0 {
        return Err(no_such_device());
    }
    Ok(HttpResponse::NoContent().finish())
}

/// Ends the connection of a device whose tokens were revoked, at whichever instance it is connected.
pub(crate) async fn disconnect(
    cluster: &Cluster,
    device_endpoint: &DeviceEndpoint,
    id: &DeviceId,
) -> Result<(), Refusal> {
    if let Err(error) = device_orders::revoked(cluster, device_endpoint, id).await? {
        tracing::debug!(%error, "no connection of a device had to be ended");
    }
    Ok(())
}

/// Request to provision a key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Provision {
    /// Key, 64 hexadecimal digits.
    key: String,
}

/// Stores the key that is burned into the device with this serial number.
#[utoipa::path(put, path = "/api/provisioning/{serial_number}", tag = "devices", params(("serial_number" = String, Path,)),
    request_body = Provision,
    responses((status = 204), Faults))]
pub(crate) async fn provision(
    _: Operator,
    serial_number: web::Path<String>,
    asked: JsonBody<Provision>,
    access: web::Data<AccessControl>,
) -> RouteResult {
    // Key 0 of the chip's HMAC peripheral has 256 bits.
    let key = bytes_of_hex(asked.0.key.trim()).filter(|key| key.len() == 32);
    let about = "`key` must be 64 hexadecimal digits";
    let key = key.ok_or_else(|| refusal(Fault::BadRequest, about))?;
    let about = "a serial number has 1 to 64 characters";
    let serial_number = params::text_of(&serial_number, MAX_NAME_CHARS, about)?;
    access.store.provision(&serial_number, &key).await.map_err(|e| store_failed(&e))?;
    Ok(HttpResponse::NoContent().finish())
}

/// Deletes the key of this serial number.
#[utoipa::path(delete, path = "/api/provisioning/{serial_number}", tag = "devices", params(("serial_number" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn unprovision(
    _: Operator,
    serial_number: web::Path<String>,
    access: web::Data<AccessControl>,
) -> RouteResult {
    if !access.store.unprovision(&serial_number).await.map_err(|e| store_failed(&e))? {
        return Err(refusal(Fault::NotFound, "there is no key for this serial number"));
    }
    Ok(HttpResponse::NoContent().finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_codes_are_counted_for_a_minute() {
        let guesses = Guesses::new();
        let now = Instant::now();
        let anna = Guesser::User("anna".into());
        for _ in 0..MAX_GUESSES {
            assert!(guesses.count(&anna, now));
        }
        assert!(!guesses.count(&anna, now));
        assert!(!guesses.count(&anna, now + Duration::from_secs(58)));
        assert!(guesses.count(&anna, now + Duration::from_secs(61)));
    }

    #[test]
    fn wrong_codes_of_a_user_stop_no_others_and_those_of_all_no_administrator() {
        let guesses = Guesses::new();
        let now = Instant::now();
        let user = |n: u32| Guesser::Anyone(format!("192.168.0.{n}"));
        let admin = Guesser::Administrator("admin".into());
        for _ in 0..MAX_GUESSES {
            assert!(guesses.count(&admin, now));
        }
        assert!(!guesses.count(&admin, now), "their own count");
        let users = MAX_GUESSES_OF_ALL / MAX_GUESSES;
        for n in 0..users {
            for _ in 0..MAX_GUESSES {
                assert!(guesses.count(&user(n), now), "{n}");
            }
            assert!(!guesses.count(&user(n), now), "{n}");
        }
        assert!(!guesses.count(&user(users), now), "all have guessed too often");
        assert!(guesses.count(&Guesser::Administrator("eve".into()), now));
        assert_eq!(guesses.lock().by.len(), 12, "refused codes need no memory");
    }

    #[test]
    fn right_codes_do_not_count() {
        let guesses = Guesses::new();
        let now = Instant::now();
        let anna = Guesser::User("anna".into());
        for _ in 0..2 * MAX_GUESSES_OF_ALL {
            assert!(guesses.count(&anna, now));
            guesses.take_back(&anna);
        }
        assert!(guesses.lock().by.is_empty() && guesses.lock().all == 0);
    }
}
