//! What people who log in may do: their rights, and the least right that opens a route. Not for who has which.

use actix_web::http::Method;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Right of somebody who logs in; each contains those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Talks, and sees which devices there are.
    Guest,
    /// Uses the household: its devices, its people, what was said.
    Member,
    /// Everything.
    Administrator,
}

impl Right {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Member => "member",
            Self::Administrator => "administrator",
        }
    }
}

/// Routes that a guest may use.
const GUEST: [(&str, &str); 6] = [
    ("GET", "/metrics"),
    ("GET", "/api/account"),
    ("POST", "/api/admin/logout"),
    ("POST", "/api/admin/password"),
    ("GET", "/api/devices"),
    ("GET", "/api/devices/{id}"),
];

/// Routes that a member may use, too.
const MEMBER: [(&str, &str); 35] = [
    ("GET", "/api/turns"),
    ("GET", "/api/turns/live"),
    ("GET", "/api/history"),
    ("DELETE", "/api/history"),
    ("GET", "/api/history/summary"),
    ("GET", "/api/history/export"),
    ("GET", "/api/history/{id}"),
    ("DELETE", "/api/history/{id}"),
    ("GET", "/api/history/{id}/heard.wav"),
    ("GET", "/api/history/{id}/said.wav"),
    ("GET", "/api/history/{id}/recording.jsonl"),
    ("POST", "/api/history/{id}/again"),
    ("POST", "/api/devices/bind"),
    ("PATCH", "/api/devices/{id}"),
    ("POST", "/api/devices/{id}/{order}"),
    ("GET", "/api/devices/{id}/status"),
    ("GET", "/api/devices/{id}/tools"),
    ("PUT", "/api/devices/{id}/tools"),
    ("GET", "/api/sessions/{id}/tools"),
    ("PUT", "/api/sessions/{id}/tools"),
    ("GET", "/api/persons"),
    ("POST", "/api/persons"),
    ("GET", "/api/persons/{id}"),
    ("PATCH", "/api/persons/{id}"),
    ("DELETE", "/api/persons/{id}"),
    ("DELETE", "/api/persons/{id}/memories"),
    ("GET", "/api/roles"),
    ("GET", "/api/roles/{id}"),
    ("GET", "/api/roles/{id}/versions"),
    ("POST", "/api/roles/try"),
    ("POST", "/api/services/test"),
    ("GET", "/api/tools"),
    ("GET", "/api/tools/waiting"),
    ("POST", "/api/tools/waiting"),
    ("GET", "/api/usage"),
];

/// Returns the least right that opens a route, by its method and the pattern of its path.
pub fn least(method: &Method, pattern: &str) -> Right {
    let route = (method.as_str(), pattern);
    if GUEST.contains(&route) {
        Right::Guest
    } else if MEMBER.contains(&route) {
        Right::Member
    } else {
        // A new route is closed until somebody opens it. Decision 0075.
        Right::Administrator
    }
}
