//! State of the administrator's routes, and the log-in behind a request. Not for the routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpRequest;
use hearken_cluster::RateLimit;
use hearken_museum::Museum;
use hearken_ports::store::SettingsStore;
use hearken_proto::fault::Fault;
use hearken_providers::LlmFigures;
use jiff::Timestamp;

use crate::admin::rights::least;
use crate::admin::sessions::LoggedIn;
use crate::admin::setup_code::SetupCode;
use crate::admin::{AdminSessions, LoginError, RuntimeSettings};
use crate::http::fault::{Refusal, refusal, store_failed};
use crate::http::middleware::{address_of, too_often};
use crate::http::request_identity::bearer;

/// Numbers of connections, and the models' cost.
pub struct Figures {
    /// Number of connected devices.
    pub devices: usize,
    /// Number of connected text clients.
    pub text_clients: usize,
    /// Usage of the language models, by frontend.
    pub llm: BTreeMap<&'static str, LlmFigures>,
}

/// Kind of a rate-limited attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attempt {
    /// Login.
    LogIn,
    /// Exchange of a refresh token.
    Refresh,
    /// Setting the first password with a code.
    Setup,
    /// Change of a password.
    Password,
}

/// State of the administrator's routes.
pub struct Admin {
    /// Sessions of users.
    pub admin_sessions: AdminSessions,
    /// Code for setting the first password.
    pub setup_code: SetupCode,
    /// Settings that can change at run time.
    pub settings: Arc<RuntimeSettings>,
    /// Store with the audit log.
    pub store: Arc<dyn SettingsStore>,
    /// Museum clients.
    pub museum: Arc<Museum>,
    /// Numbers of connections, and the models' cost.
    pub figures: Arc<dyn Fn() -> Figures + Send + Sync>,
    /// Rate limit of login attempts, by address.
    pub attempts: Arc<dyn RateLimit>,
}

pub(crate) fn not_logged_in(error: &LoginError) -> Refusal {
    match error {
        LoginError::Store(error) => store_failed(error),
        LoginError::HasPassword | LoginError::Configured => {
            refusal(Fault::Conflict, &error.to_string())
        }
        error => refusal(Fault::Unauthorized, &error.to_string()),
    }
}

impl Admin {
    /// Returns the user of the request's access token, if their right opens this route.
    pub(crate) async fn verified(&self, request: &HttpRequest) -> Result<LoggedIn, Refusal> {
        let token = bearer(request);
        if token.is_empty() {
            let about = "log in at /api/admin/login, and send the access token";
            return Err(refusal(Fault::Unauthorized, about));
        }
        let verified = self.admin_sessions.verify(&token, Timestamp::now()).await;
        let who = verified.map_err(|error| not_logged_in(&error))?;
        let pattern = request.match_pattern().unwrap_or_default();
        let least = least(request.method(), &pattern);
        if who.right < least {
            let about =
                format!("this needs the right `{}`, you have `{}`", least.name(), who.right.name());
            return Err(refusal(Fault::Forbidden, &about));
        }
        Ok(who)
    }

    /// Counts an attempt of this kind against the client's address. Kinds have separate limits:
    /// behind one proxy, clients that guess passwords must not prevent others from refreshing their
    /// tokens.
    pub(crate) async fn attempt(
        &self,
        request: &HttpRequest,
        kind: Attempt,
    ) -> Result<(), Refusal> {
        let counted = format!("{kind:?} {}", address_of(request));
        self.attempts.take(&counted).await.map_err(|wait| too_often(wait).into())
    }
}
