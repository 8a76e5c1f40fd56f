//! Rights of users who log in, and the minimum right for each route. Not for who has which right.

use actix_web::http::Method;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Right of a user who logs in; each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// May talk, and list the devices.
    Guest,
    /// May also manage devices, people and the history, and see usage.
    Member,
    /// May do everything.
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

/// Routes open to guests.
const GUEST: [(&str, &str); 6] = [
    ("GET", "/metrics"),
    ("GET", "/api/account"),
    ("POST", "/api/admin/logout"),
    ("POST", "/api/admin/password"),
    ("GET", "/api/devices"),
    ("GET", "/api/devices/{id}"),
];

/// Additional routes open to members.
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

/// Returns the minimum right for a route, by its method and the pattern of its path.
pub fn least(method: &Method, pattern: &str) -> Right {
    let route = (method.as_str(), pattern);
    if GUEST.contains(&route) {
        Right::Guest
    } else if MEMBER.contains(&route) {
        Right::Member
    } else {
        // A new route is closed until it is listed here. Decision 0075.
        Right::Administrator
    }
}
