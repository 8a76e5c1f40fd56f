//! Audit entries of changing requests: who, method, route, the ids in the path, and the status. Not
//! for bodies, which may contain secrets, nor for the entries that a change itself writes.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::Next;
use actix_web::{Error, FromRequest as _, HttpMessage as _, HttpRequest, web};
use futures_util::FutureExt as _;
use hearken_ports::store::{AuditEntry, SettingsStore};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

/// Methods of changing requests.
pub(crate) const CHANGING: [Method; 4] = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
/// Maximum length of an id of the path in an entry, in characters.
const MAX_ID_CHARS: usize = 128;
/// Status of a request that came too often. Such requests are not noted: whoever sends them could
/// push all other entries out of the log.
const TOO_OFTEN: u16 = 429;
/// Statuses of requests that their caller may not make, whatever the ids in the path.
const NOT_ALLOWED: [u16; 2] = [401, 403];
/// Interval at which the same refused request of one caller is noted.
const REFUSALS_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of refused requests whose repetitions are recognised.
const MAX_REFUSALS: usize = 1_024;
/// Status in the entry of a request whose route panicked.
const PANICKED: u16 = 500;

/// Routes that write a more detailed entry with their change. Only their failures are noted here.
const WITH_OWN_ENTRY: [(&str, &str); 12] = [
    ("DELETE", "/api/accounts/{name}"),
    ("DELETE", "/api/admin/sessions/{id}"),
    ("DELETE", "/api/devices/{id}/tokens"),
    ("DELETE", "/api/tools/tokens/{serial}"),
    ("PATCH", "/api/accounts/{name}"),
    ("PATCH", "/api/admin/config"),
    ("POST", "/api/accounts"),
    ("POST", "/api/admin/logout"),
    ("POST", "/api/admin/password"),
    ("POST", "/api/devices/{id}/tokens"),
    ("POST", "/api/tools/tokens"),
    ("PUT", "/api/admin/config"),
];

/// Changing request of a caller whose right was checked.
struct Change {
    who: String,
    method: Method,
    pattern: String,
    path: BTreeMap<String, String>,
}

/// Place in which the check of a caller's right records the request.
#[derive(Clone, Default)]
struct Admitted(Rc<OnceCell<Change>>);

/// Records that this caller may send this request, which is noted in the audit log with its status
/// if its method changes something. Called wherever a right of administration is checked, so that
/// no route can be forgotten.
pub(crate) fn admitted(request: &HttpRequest, who: &str) {
    let Some(place) = request.extensions().get::<Admitted>().cloned() else { return };
    // A request with several extractors is recorded once.
    place.0.get_or_init(|| {
        let ids = web::Path::<Vec<String>>::extract(request).into_inner();
        let ids = ids.map(web::Path::into_inner).unwrap_or_default();
        let names = request.match_info().iter().map(|(name, _)| name.to_owned());
        let short = |id: String| id.chars().take(MAX_ID_CHARS).collect();
        Change {
            who: who.to_owned(),
            method: request.method().clone(),
            pattern: request.match_pattern().unwrap_or_default(),
            path: names.zip(ids.into_iter().map(short)).collect(),
        }
    });
}

/// Refused requests that were noted recently, by caller and request, so that repetitions do not
/// push other entries out of the log.
#[derive(Default)]
pub(crate) struct NotedRefusals(Mutex<HashMap<String, Instant>>);

impl NotedRefusals {
    /// Reports whether this entry is to be noted.
    fn is_due(&self, entry: &AuditEntry) -> bool {
        let status = entry.details["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let Some(status @ 400..500) = status else { return true };
        if status == TOO_OFTEN {
            return false;
        }
        let AuditEntry { who, what, details, .. } = entry;
        let request = if NOT_ALLOWED.contains(&status) {
            format!("{who}\n{what}\n{status}")
        } else {
            format!("{who}\n{what}\n{status}\n{}", details["path"])
        };
        let now = Instant::now();
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|_, at| now.duration_since(*at) < REFUSALS_EVERY);
        if noted.contains_key(&request) || noted.len() >= MAX_REFUSALS {
            return false;
        }
        noted.insert(request, now);
        true
    }
}

impl Change {
    /// Returns the entry for this status; `None` if the route has written its own.
    fn entry(&self, status: u16) -> Option<AuditEntry> {
        let Self { who, method, pattern, path } = self;
        let has_own = WITH_OWN_ENTRY.contains(&(method.as_str(), pattern.as_str()));
        if has_own && (200..300).contains(&status) {
            return None;
        }
        let what = format!("{method} {pattern}");
        let details = json!({"path": path, "status": status});
        Some(AuditEntry { number: 0, at: Timestamp::now(), who: who.clone(), what, details })
    }
}

/// Notes the changing requests of administration in the audit log, before their response.
pub(super) async fn audited(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let audit =
        request.app_data::<web::Data<dyn SettingsStore>>().map(|audit| audit.clone().into_inner());
    let Some(audit) = audit.filter(|_| CHANGING.contains(request.method())) else {
        return next.call(request).await;
    };
    let refusals = request.app_data::<web::Data<NotedRefusals>>().cloned();
    let place = Admitted::default();
    request.extensions_mut().insert(place.clone());
    // A route may have changed something before it panicked.
    let outcome = AssertUnwindSafe(next.call(request)).catch_unwind().await;
    let status = match &outcome {
        Ok(Ok(response)) => response.status().as_u16(),
        Ok(Err(error)) => error.as_response_error().status_code().as_u16(),
        Err(_) => PANICKED,
    };
    let is_due = |entry: &AuditEntry| refusals.is_none_or(|refusals| refusals.is_due(entry));
    if let Some(entry) = place.0.get().and_then(|change| change.entry(status)).filter(is_due) {
        note(&audit, &entry).await;
    }
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Writes an entry. The request has had its effect: a failure is only logged, with the entry.
async fn note(audit: &Arc<dyn SettingsStore>, entry: &AuditEntry) {
    if let Err(error) = audit.note(entry).await {
        let AuditEntry { who, what, details, .. } = entry;
        tracing::warn!(%error, who, what, %details, "cannot write an entry of the audit log");
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::StatusCode;
    use actix_web::middleware::from_fn;
    use actix_web::test::{TestRequest, call_service, init_service};
    use actix_web::{App, HttpResponse};
    use hearken_store::SqlStore;

    use super::*;

    /// Route whose right is checked by two extractors; its outcome is that of the id.
    async fn guarded(request: HttpRequest, id: web::Path<String>) -> HttpResponse {
        admitted(&request, "anna");
        admitted(&request, "another");
        assert!(*id != "panic", "a route that panics");
        let is_known = *id != "unknown";
        HttpResponse::build(if is_known { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND })
            .finish()
    }

    #[actix_web::test]
    async fn each_changing_request_of_an_admitted_caller_is_noted_once() {
        let store: Arc<dyn SettingsStore> = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let app = App::new()
            .app_data(web::Data::from(Arc::clone(&store)))
            .wrap(from_fn(audited))
            .route("/api/accounts/{name}", web::to(guarded))
            .route("/api/things/{id}", web::to(guarded))
            .route("/api/open/{id}", web::to(|| async { HttpResponse::Ok().finish() }));
        let app = init_service(app).await;
        let long = format!("/api/things/{}", "x".repeat(300));
        for (method, path, noted) in [
            (Method::DELETE, "/api/things/a%20b", Some(("a b", 204))),
            (Method::PATCH, "/api/things/unknown", Some(("unknown", 404))),
            (Method::POST, "/api/things/panic", Some(("panic", 500))),
            (Method::PUT, &*long, Some((&long[12..12 + MAX_ID_CHARS], 204))),
            (Method::GET, "/api/things/a", None),
            (Method::DELETE, "/api/open/a", None),
            (Method::DELETE, "/api/accounts/a", None),
            (Method::DELETE, "/api/accounts/unknown", Some(("unknown", 404))),
        ] {
            let before = store.audit(None, 99).await.unwrap().len();
            let request = TestRequest::with_uri(path).method(method.clone()).to_request();
            let answered = AssertUnwindSafe(call_service(&app, request)).catch_unwind().await;
            assert_eq!(answered.is_err(), path.ends_with("panic"));
            let mut entries = store.audit(None, 99).await.unwrap();
            entries.truncate(entries.len() - before);
            let told = entries.iter().map(|entry| {
                assert!(
                    entry.who == "anna" && entry.what.starts_with(method.as_str()),
                    "{entry:?}"
                );
                let id = entry.details["path"].as_object().unwrap().values().next().unwrap();
                (id.as_str().unwrap(), entry.details["status"].as_u64().unwrap())
            });
            assert_eq!(told.collect::<Vec<_>>(), noted.into_iter().collect::<Vec<_>>(), "{path}");
        }
    }
    #[tokio::test(start_paused = true)]
    async fn refusals_do_not_push_other_entries_out_of_the_log() {
        let noted = NotedRefusals::default();
        let is_due = |who: &str, id: &str, status: u16| {
            let what = "POST /api/things/{id}".into();
            let details = json!({"path": {"id": id}, "status": status});
            let who = who.into();
            noted.is_due(&AuditEntry { number: 0, at: Timestamp::now(), who, what, details })
        };
        for (who, id, status, due) in [
            ("guest", "a", 429, false),
            ("guest", "a", 401, true),
            ("guest", "a", 401, false),
            ("guest", "b", 401, false),
            ("guest", "a", 403, true),
            ("anna", "a", 401, true),
            ("anna", "a", 404, true),
            ("anna", "a", 404, false),
            ("anna", "b", 404, true),
            ("anna", "a", 204, true),
            ("anna", "a", 204, true),
            ("anna", "a", 500, true),
            ("anna", "a", 500, true),
        ] {
            assert_eq!(is_due(who, id, status), due, "{who} {id} {status}");
        }
        tokio::time::advance(REFUSALS_EVERY).await;
        assert!(is_due("guest", "a", 401), "a minute later");
        for id in 0..2 * MAX_REFUSALS {
            is_due("guest", &id.to_string(), 404);
        }
        assert_eq!(noted.0.lock().unwrap().len(), MAX_REFUSALS);
        assert!(is_due("anna", "a", 204), "changes are always noted");
    }
}
