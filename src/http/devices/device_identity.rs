//! Ownership of device ids: an id belongs to the first client that requests its token, until the
//! code of another client is entered. A client that only knows the id, which is the device's MAC
//! address, gets a code instead of a token. Not for the format of tokens, nor for storing devices.

use actix_web::HttpRequest;
use hearken_base::Secret;
use hearken_ports::store::{
    Activation, ClientRule, CodeRequest, Device, DeviceReport, StoreError, TokenHolder,
};
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use hearken_tool_sources::MAX_AGENT_BYTES;
use jiff::Timestamp;

use crate::auth::{TokenError, next_token_at, same};
use crate::config::DeviceAdmission;
use crate::http::AccessControl;
use crate::http::fault::{Refusal, refusal, store_failed};
use crate::http::middleware::address_of;
use crate::http::params;
use crate::http::peer::Peer;
use crate::http::request_identity::{Caller, bearer_in, client_of};

/// Result of a boot request.
pub(crate) enum Boot {
    /// The device may talk, with this token; empty if it needs none.
    Admitted(String),
    /// The device must be bound first.
    Waiting(Activation),
    /// The device gets neither a token nor a code for binding it.
    Refused,
    /// The store failed, so the owner of the id is unknown: the device continues with its current token.
    Unknown,
}

/// Requirement for a device's session, besides a token if one is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionRule {
    /// Nothing: the OTA address gives a token to the first client of an id.
    Open,
    /// A user must have entered its code (`ota.binding`).
    Code,
    // Decision 0084.
    /// For devices from outside: bound, or stored before binding was required (`devices.admit`).
    Bound,
    /// A token, which the OTA address gives to bound devices only.
    Token,
    /// Cannot be met: the caller is from outside and sends no client id, so it is known only by its
    /// MAC address, which is not secret. It gets neither a session nor a code.
    NoClientId,
}

impl AdmissionRule {
    /// Returns true if the device belongs to this caller, and may have a session or a new token.
    pub(crate) fn admits(self, device: &Device, caller: &Caller) -> bool {
        let admitted = match self {
            Self::Open => true,
            Self::Code => device.bound,
            Self::Bound | Self::Token => counts_as_bound(device),
            Self::NoClientId => false,
        };
        admitted && is_of(device, caller)
    }
}

fn counts_as_bound(device: &Device) -> bool {
    device.bound || device.needs_review
}

/// Returns true if the device belongs to the caller's client.
pub(crate) fn is_of(device: &Device, caller: &Caller) -> bool {
    // The `Client-Id` cannot be guessed, while a MAC address is printed on boards and visible in
    // each network. Decision 0053.
    same(device.client_id.expose(), caller.client_id.expose())
}

impl AccessControl {
    /// Returns the requirement for a device that sends this request.
    pub(crate) fn admission_rule(&self, request: &HttpRequest) -> AdmissionRule {
        let rule = match self.ota.admit {
            _ if self.ota.binding => AdmissionRule::Code,
            _ if !self.auth.is_from_outside(request) => AdmissionRule::Open,
            DeviceAdmission::Anyone => AdmissionRule::Open,
            DeviceAdmission::Bound => AdmissionRule::Bound,
            DeviceAdmission::Token => AdmissionRule::Token,
        };
        // Independent of `auth.required`: a code binds a device even if no device needs a token.
        let is_outside = Peer::of(request) == Peer::Elsewhere;
        if rule != AdmissionRule::Open && is_outside && client_of(request).is_empty() {
            return AdmissionRule::NoClientId;
        }
        rule
    }

    /// Returns true if a device with a token belongs to the household and may use its tools: it is
    /// in a private network, or bound.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn is_of_household(
        &self,
        request: &HttpRequest,
        caller: &Caller,
    ) -> Result<bool, StoreError> {
        if !self.auth.is_from_outside(request) {
            return Ok(true);
        }
        if caller.client_id.is_empty() {
            return Ok(false);
        }
        let stored = self.store.device(&caller.device_id).await?;
        Ok(stored.is_some_and(|device| AdmissionRule::Bound.admits(&device, caller)))
    }

    /// Records a booting device that needs a token or a binding, and decides what it receives.
    pub(crate) async fn boot(
        &self,
        request: &HttpRequest,
        caller: &Caller,
        report: &DeviceReport,
        now: Timestamp,
    ) -> Result<Boot, Refusal> {
        let rule = self.admission_rule(request);
        if rule == AdmissionRule::NoClientId {
            // Nothing is stored either: the id may be that of a device at home.
            return Ok(Boot::Refused);
        }
        let stored = async {
            match rule {
                // With a code, too: an administrator may bind the recorded client without it.
                AdmissionRule::Open | AdmissionRule::Code => {
                    self.store.report(report, ClientRule::First, now).await
                }
                _ => self.report_from_outside(rule, caller, report, now).await,
            }
        };
        let device = match stored.await {
            Ok(device) => device,
            Err(error) if rule == AdmissionRule::Code => return Err(store_failed(&error)),
            Err(error) => {
                tracing::warn!(%error, "cannot record a device, which gets no new token");
                return Ok(Boot::Unknown);
            }
        };
        if !rule.admits(&device, caller) {
            if rule == AdmissionRule::Token {
                return Ok(Boot::Refused);
            }
            return self.code_of(request, caller, now).await.map(Boot::Waiting);
        }
        let holder = self.store.token_holder(&caller.device_id).await;
        let at = next_token_at(holder.map_err(|e| store_failed(&e))?.revoked_until, now);
        Ok(Boot::Admitted(self.auth.mint(request, caller, at)))
    }

    /// Records the report of a caller from outside. The id of one that is not admitted may be that
    /// of a device at home: it changes nothing of a stored device, and claims no new one.
    async fn report_from_outside(
        &self,
        rule: AdmissionRule,
        caller: &Caller,
        report: &DeviceReport,
        now: Timestamp,
    ) -> Result<Device, StoreError> {
        let mut report = report.clone();
        match self.store.device(&caller.device_id).await? {
            Some(known) if !rule.admits(&known, caller) => return Ok(known),
            Some(_) => {}
            None => report.client_id = Secret::default(),
        }
        self.store.report(&report, ClientRule::First, now).await
    }

    /// Returns the code for binding a device.
    pub(crate) async fn code_of(
        &self,
        request: &HttpRequest,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Activation, Refusal> {
        let address = address_of(request);
        let Caller { device_id, client_id } = caller;
        let asked = CodeRequest { device_id, client_id, address: &address };
        let waiting = self.store.activation(asked, self.ota.code_lifetime, now);
        waiting.await.map_err(|e| store_failed(&e))
    }

    /// Checks that an administrator who binds a device without a code, and names no client, can only
    /// mean its recorded client: a stranger may have asked first.
    pub(crate) async fn check_recorded_client(
        &self,
        device: &Device,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        // Strangers cannot hinder a device whose owner is known.
        if counts_as_bound(device) {
            return Ok(());
        }
        let others = self.store.is_wanted_by_others(&device.device_id, &device.client_id, now);
        if others.await.map_err(|e| store_failed(&e))? {
            let about = "several clients have asked for this device id: enter the code of the right one, or create \
                         a token for its `client_id`";
            return Err(refusal(Fault::Conflict, about));
        }
        Ok(())
    }

    /// Checks the token of a device, unless it needs none. If the store fails, only the token is
    /// checked: a device that was admitted before works without the store.
    pub(crate) async fn check_token(
        &self,
        request: &HttpRequest,
        caller: &Caller,
        token: &str,
    ) -> Result<(), TokenError> {
        let Some(made) = self.auth.token_made_at(request, caller, token)? else {
            return Ok(());
        };
        let holder = self.token_holder(&caller.device_id).await;
        let other = |client: Secret| !same(client.expose(), caller.client_id.expose());
        let revoked = is_revoked(&holder, made) || holder.client_id.is_some_and(other);
        if revoked { Err(TokenError::Revoked) } else { Ok(()) }
    }

    /// Returns true if a token of the device with this creation time was revoked.
    pub(crate) async fn has_revoked(&self, id: &DeviceId, made: Timestamp) -> bool {
        is_revoked(&self.token_holder(id).await, made)
    }

    /// Returns the owner and the revocation of a device's tokens; nothing if the store fails.
    async fn token_holder(&self, id: &DeviceId) -> TokenHolder {
        self.store.token_holder(id).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot check if a device's token was revoked");
            TokenHolder::default()
        })
    }

    /// Checks that the request may use the server's tools: with the admin token, or a device's own
    /// token, in one of these headers.
    pub(crate) async fn tool_user(
        &self,
        request: &HttpRequest,
        headers: &[&str],
    ) -> Result<(), Refusal> {
        if !self.auth.needs_token(request) {
            return Ok(());
        }
        let tokens = headers.iter().map(|name| bearer_in(request, name));
        let tokens: Vec<String> = tokens.filter(|token| !token.is_empty()).collect();
        if self.auth.has_admin_token(&tokens) {
            return Ok(());
        }
        if let Ok(caller) = Caller::from_request(request) {
            for token in &tokens {
                if self.check_token(request, &caller, token).await.is_ok() {
                    self.auth.allows(&caller.device_id)?;
                    let household = self.is_of_household(request, &caller).await;
                    // Not a refusal: it would end the sockets of devices that were admitted before.
                    if household.map_err(|e| store_failed(&e))? {
                        return Ok(());
                    }
                    let about = "a device from outside must be bound to use the tools";
                    return Err(refusal(Fault::Forbidden, about));
                }
            }
        }
        let about = "use the admin token, or a device's token with its Device-Id";
        Err(refusal(Fault::Forbidden, about))
    }
}

fn is_revoked(holder: &TokenHolder, made: Timestamp) -> bool {
    holder.revoked_until.is_some_and(|until| made <= until)
}

/// Returns the refusal of an unknown device.
pub(crate) fn no_such_device() -> Refusal {
    refusal(Fault::NotFound, "no such device")
}

/// Returns the device id in a path.
pub(crate) fn id_of(path: &str) -> DeviceId {
    DeviceId::new(path.to_lowercase())
}

/// Validates an agent's name, which must fit into a token.
pub(crate) fn agent_of(text: &str) -> Result<String, Refusal> {
    let about = format!("an agent's name has 1 to {MAX_AGENT_BYTES} bytes");
    let agent = params::text_of(text, MAX_AGENT_BYTES, &about)?;
    if agent.len() <= MAX_AGENT_BYTES { Ok(agent) } else { Err(refusal(Fault::BadRequest, &about)) }
}
