//! Description of the HTTP API, generated from its routes, and the pages that display it. Not for
//! the routes themselves, nor for WebSockets, which OpenAPI cannot describe.

use actix_web::web::ServiceConfig;
use hearken_proto::museum::Refused;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi as Description};
use utoipa::{Modify, OpenApi};
use utoipa_swagger_ui::SwaggerUi;

use crate::http::administration::{
    accounts, admin, backup, password, people, service_calls, services,
};
use crate::http::clients::{mcp_endpoint, museum};
use crate::http::conversations::{chat, chat_worlds, history, turns, usage, waiting};
use crate::http::devices::{device_orders, device_records, device_status, device_tools};
use crate::http::fault::FaultBody;
use crate::http::health;
use crate::http::paths::{DOCS, OPENAPI};
use crate::http::tools::{roles, tokens, tool_servers, tools_api};

#[derive(OpenApi)]
#[openapi(
    info(title = "Hearken", description = "A voice server: chat sessions, devices, tools and the server itself. \
        Every path below /api is also below /api/v1."),
    modifiers(&Security),
    security((), ("token" = [])),
    components(schemas(FaultBody, Refused)),
    paths(
        chat::create, chat::list, chat::get, chat::delete, chat::archive, chat::restore,
        chat::messages, chat::chat,
        chat_worlds::state, chat_worlds::characters, chat_worlds::combat,
        chat_worlds::make_snapshot, chat_worlds::snapshots, chat_worlds::go_back,
        museum::register, museum::heartbeat, museum::unregister, museum::info, museum::stats,
        museum::parse,
        password::state, password::choose_first, password::change,
        admin::log_in, admin::refresh, admin::log_out, admin::config, admin::change,
        admin::sessions, admin::end_session, admin::metrics, admin::audit,
        device_records::list, device_records::get, device_records::bind, device_records::change, device_records::forget,
        device_records::provision, device_records::unprovision, device_orders::order,
        device_status::status, device_tools::get, device_tools::put, device_tools::get_session, device_tools::put_session,
        people::list, people::enrol, people::get, people::change, people::delete,
        people::forget,
        roles::list, roles::get, roles::add, roles::change, roles::delete, roles::versions,
        roles::restore, roles::try_out,
        tools_api::list, tools_api::call, tools_api::accept,
        tokens::make_for_device, tokens::revoke_of_device, tokens::list, tokens::make_for_tools, tokens::revoke_of_tools,
        tool_servers::list, tool_servers::add, tool_servers::get, tool_servers::remove,
        tool_servers::switch, turns::list, turns::live,
        history::summary, history::list, history::get, history::heard, history::said, history::recording,
        history::delete, history::delete_many, history::again, history::export,
        waiting::list, waiting::drop_one, services::test, service_calls::list, usage::report, backup::download,
        accounts::asking, accounts::list, accounts::add, accounts::change, accounts::delete,
        health::healthz, health::readyz, health::metrics, mcp_endpoint::health,
    )
)]
struct Api;

/// Authentication schemes of requests.
struct Security;

impl Modify for Security {
    fn modify(&self, api: &mut Description) {
        let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = api.components.get_or_insert_with(Components::new);
        components.add_security_scheme("token", SecurityScheme::Http(token));
    }
}

/// Returns the description of the whole API, OpenAPI 3.1.
pub fn description() -> Description {
    Api::openapi()
}

/// Adds the routes of the description and of Swagger UI at `/api/docs/`, which is embedded in the
/// program and loads nothing from other servers.
pub(crate) fn routes(services: &mut ServiceConfig) {
    services.service(SwaggerUi::new(format!("{DOCS}/{{page:.*}}")).url(OPENAPI, description()));
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::http::request_identity::UNNAMED;

    /// Segments of routes that stand where another route has an id. They win: an object with such
    /// an id could not be named.
    #[test]
    fn no_id_can_be_the_segment_of_a_route_beside_it() {
        let paths: Vec<String> = description().paths.paths.into_keys().collect();
        let mut beside = BTreeMap::<String, BTreeSet<&str>>::new();
        for path in &paths {
            let Some((parent, id)) = path.rsplit_once('/') else { continue };
            if !id.starts_with('{') {
                continue;
            }
            for other in &paths {
                let rest = other.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/'));
                let segment = rest.map(|rest| rest.split('/').next().unwrap_or(rest));
                if let Some(segment) = segment.filter(|segment| !segment.starts_with('{')) {
                    beside.entry(path.clone()).or_default().insert(segment);
                }
            }
        }
        // Ids of turns and roles are UUIDs, and orders are a fixed list.
        for (path, segments) in [
            ("/api/history/{id}", &["export", "summary"][..]),
            ("/api/roles/{id}", &["try"][..]),
            ("/api/devices/{id}/{order}", &["status", "tokens", "tools"][..]),
        ] {
            let found = beside.remove(path).unwrap_or_default();
            assert_eq!(found.into_iter().collect::<Vec<_>>(), segments, "{path}");
        }
        let devices = beside.remove("/api/devices/{id}").unwrap_or_default();
        assert!(devices.iter().all(|segment| UNNAMED.contains(segment)), "{devices:?}");
        assert!(beside.is_empty(), "ids of these can be segments: {beside:?}");
    }
}
