//! Which client an id of a device belongs to: the first that asks for its token, until somebody
//! enters the code of another. Who only knows the id of a device, which is its MAC address, gets a
//! code instead of a token. Not for the format of tokens, nor for storing devices.

use actix_web::HttpRequest;
use hearken_ports::store::{
    Activation, ClientRule, CodeRequest, Device, DeviceReport, TokenHolder,
};
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use jiff::{SignedDuration, Timestamp};

use crate::auth::{TokenError, same};
use crate::http::AccessControl;
use crate::http::fault::{Refusal, refusal, store_failed};
use crate::http::middleware::address_of;
use crate::http::request_identity::{Caller, bearer_in};

/// What a booting device receives.
pub(crate) enum Boot {
    /// It may talk, with this token; empty if it needs none.
    Admitted(String),
    /// It has to be bound first.
    Waiting(Activation),
    /// The store does not tell which client the id belongs to: the device keeps the token that it
    /// has.
    Unknown,
}

/// Returns true if the device belongs to the client of this caller.
pub(crate) fn is_of(device: &Device, caller: &Caller) -> bool {
    // The `Client-Id` cannot be guessed, while a MAC address is printed on boards and visible in each network.
    // Decision 0053.
    same(device.client_id.expose(), caller.client_id.expose())
}

impl AccessControl {
    /// Returns true if a device may talk: its client is this one and, where devices are bound, it
    /// was bound.
    pub(crate) fn may_talk(&self, device: &Device, caller: &Caller) -> bool {
        is_of(device, caller) && (device.bound || !self.ota.binding)
    }

    /// Records a booting device that needs a token or a binding, and decides what it receives.
    pub(crate) async fn boot(
        &self,
        request: &HttpRequest,
        caller: &Caller,
        report: &DeviceReport,
        now: Timestamp,
    ) -> Result<Boot, Refusal> {
        // Where devices are bound, a report gives no token.
        let rule = if self.ota.binding { ClientRule::Latest } else { ClientRule::First };
        let device = match self.store.report(report, rule, now).await {
            Ok(device) => device,
            Err(error) if self.ota.binding => return Err(store_failed(&error)),
            Err(error) => {
                tracing::warn!(%error, "cannot record a device, which gets no new token");
                return Ok(Boot::Unknown);
            }
        };
        if !self.may_talk(&device, caller) {
            return self.code_of(request, caller, now).await.map(Boot::Waiting);
        }
        let holder = self.store.token_holder(&caller.device_id).await;
        let at = next_token_at(holder.map_err(|e| store_failed(&e))?.revoked_until, now);
        Ok(Boot::Admitted(self.auth.mint(request, caller, at)))
    }

    /// Returns the code with which a device waits to be bound.
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

    /// Checks the token of a device, unless it needs none. If the store fails, the token alone
    /// decides: a device that was admitted before works without the store.
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
        let other =
            |client: hearken_base::Secret| !same(client.expose(), caller.client_id.expose());
        let revoked = is_revoked(&holder, made) || holder.client_id.is_some_and(other);
        if revoked { Err(TokenError::Revoked) } else { Ok(()) }
    }

    /// Returns true if tokens of the device that were made at this time were revoked.
    pub(crate) async fn has_revoked(&self, id: &DeviceId, made: Timestamp) -> bool {
        is_revoked(&self.token_holder(id).await, made)
    }

    /// Returns what decides about tokens of a device; nothing if the store fails.
    async fn token_holder(&self, id: &DeviceId) -> TokenHolder {
        self.store.token_holder(id).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot check if a device's token was revoked");
            TokenHolder::default()
        })
    }

    /// Checks that the request may use our tools: with the admin token, or a device's own token, in
    /// one of these headers.
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
                    return self.auth.allows(&caller.device_id);
                }
            }
        }
        let about = "use the admin token, or a device's token with its Device-Id";
        Err(refusal(Fault::Forbidden, about))
    }
}

/// Returns the time of a token that is made now: later than what was revoked, which tokens tell by their second.
pub(crate) fn next_token_at(revoked_until: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let next = revoked_until.and_then(|at| at.checked_add(SignedDuration::from_secs(1)).ok());
    next.map_or(now, |next| next.max(now))
}

fn is_revoked(holder: &TokenHolder, made: Timestamp) -> bool {
    holder.revoked_until.is_some_and(|until| made <= until)
}
