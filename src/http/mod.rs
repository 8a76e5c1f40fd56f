//! The route table. Each route parses a request, calls one function and renders the result; it
//! contains no dialogue, no SQL and no retries.

mod admin_access;
mod administration;
mod audit;
mod auth;
mod chat_access;
mod clients;
mod conversations;
mod devices;
mod extract;
mod fault;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod health;
mod held_body;
pub mod kept_connections;
mod lasting_access;
pub mod middleware;
pub mod openapi;
mod params;
mod paths;
mod peer;
mod request_identity;
mod route_table;
mod tools;
pub(crate) mod wav;
mod websocket_bridge;

use std::sync::Arc;

use actix_web::web::{self, ServiceConfig};
use hearken_ports::store::DeviceStore;
use hearken_providers::CallLog;

use self::administration::{accounts, admin, backup, password, people, service_calls, services};
use self::clients::{console, mcp_endpoint, museum, text_gateway};
use self::conversations::{chat, chat_worlds, history, turns, usage, waiting};
use self::devices::{
    device, device_orders, device_records, device_status, device_tools, firmware, ota, vision,
};
use self::route_table::RouteTable;
use self::tools::{roles, tokens, tool_servers, tools_api};
use crate::history::History;
use crate::history::trial::Trials;
use crate::service_tests::ServiceTests;
use crate::usage::DailyUsage;

pub use admin_access::{Admin, Figures};
pub use administration::backup::Backups;
pub use administration::people::PeopleApi;
pub use auth::{ADMIN_TOKEN_FILE, AccessRule, Auth, SECRET_FILE, admin_token, secret, tokens};
pub use chat_access::Chats;
pub use clients::console::PATH as CONSOLE_PATH;
pub use clients::litemcp::{LiteMcp, litemcp_routes};
pub use clients::museum::MuseumClients;
pub use clients::text_gateway::{PAGE_PATH, TextClients};
pub use conversations::turns::Turns;
pub use devices::device::DeviceEndpoint;
pub use devices::device_orders::{follow_revocations, order_handler};
pub use devices::ota::{OtaConfigError, OtaRules};
pub use health::{Dependencies, Health};
pub use middleware::{MiddlewareState, behind};
pub use paths::VISION as VISION_PATH;
pub use peer::{Peer, is_trusted_proxy, network_of};
pub use tools::tools_api::{ToolTokens, ToolsApi};

/// Access control of devices and users, and the rules of the OTA responses.
pub struct AccessControl {
    auth: Auth,
    ota: OtaRules,
    store: Arc<dyn DeviceStore>,
    guesses: device_records::Guesses,
}

impl AccessControl {
    /// Creates the access control of a server.
    pub fn new(auth: Auth, ota: OtaRules, store: Arc<dyn DeviceStore>) -> Self {
        Self { auth, ota, store, guesses: device_records::Guesses::new() }
    }
}

/// Adds the routes of text clients.
pub fn text_gateway_routes(services: &mut ServiceConfig, clients: TextClients) {
    services.app_data(web::Data::new(clients));
    RouteTable::default()
        .get("/", text_gateway::connect)
        .get(text_gateway::PAGE_PATH, text_gateway::page)
        .register(services);
}

/// Adds the routes of chat sessions.
pub fn chat_routes(services: &mut ServiceConfig, chats: Chats) {
    let one = "/api/sessions/{id}";
    let of = |part: &str| format!("{one}/{part}");
    services.app_data(web::Data::new(chats));
    RouteTable::default()
        .post("/api/sessions", chat::create)
        .get("/api/sessions", chat::list)
        .get(one, chat::get)
        .delete(one, chat::delete)
        .post(&of("archive"), chat::archive)
        .post(&of("restore"), chat::restore)
        .post(&of("chat"), chat::chat)
        .get(&of("messages"), chat::messages)
        .get(&of("state"), chat_worlds::state)
        .get(&of("characters"), chat_worlds::characters)
        .get(&of("combat"), chat_worlds::combat)
        .get(&of("snapshots"), chat_worlds::snapshots)
        .post(&of("snapshots"), chat_worlds::make_snapshot)
        .post(&of("snapshots/{snapshot_id}/restore"), chat_worlds::go_back)
        .get(&of("ws"), chat_worlds::watch)
        .register(services);
}

/// Adds the routes of museum clients.
pub fn museum_routes(services: &mut ServiceConfig, clients: MuseumClients) {
    services.app_data(web::Data::new(clients));
    RouteTable::default()
        .post("/api/session/register", museum::register)
        .post("/api/session/heartbeat", museum::heartbeat)
        .delete("/api/session/unregister", museum::unregister)
        .get("/api/session/info", museum::info)
        .get("/api/session/stats", museum::stats)
        .post("/api/agent/parse", museum::parse)
        .register(services);
}

/// Adds the routes of the administrator.
pub fn admin_routes(services: &mut ServiceConfig, admin: Arc<Admin>, backups: Arc<Backups>) {
    let config = "/api/admin/config";
    services.app_data(web::Data::from(admin)).app_data(web::Data::from(backups));
    RouteTable::default()
        .get("/api/admin/backup", backup::download)
        .post("/api/admin/login", admin::log_in)
        .get(password::SETUP, password::state)
        .post(password::SETUP, password::choose_first)
        .post("/api/admin/password", password::change)
        .post("/api/admin/refresh", admin::refresh)
        .post("/api/admin/logout", admin::log_out)
        .get(config, admin::config)
        .put(config, admin::change)
        .patch(config, admin::change)
        .get("/api/admin/sessions", admin::sessions)
        .delete("/api/admin/sessions/{id}", admin::end_session)
        .get("/api/admin/metrics", admin::metrics)
        .get("/api/admin/audit", admin::audit)
        .get("/api/account", accounts::asking)
        .get("/api/accounts", accounts::list)
        .post("/api/accounts", accounts::add)
        .patch(accounts::ONE, accounts::change)
        .delete(accounts::ONE, accounts::delete)
        .register(services);
}

/// Adds the routes of people.
pub fn person_routes(services: &mut ServiceConfig, api: Arc<PeopleApi>) {
    services.app_data(web::Data::from(api));
    RouteTable::default()
        .get("/api/persons", people::list)
        .post("/api/persons", people::enrol)
        .get(people::ONE, people::get)
        .patch(people::ONE, people::change)
        .delete(people::ONE, people::delete)
        .delete(people::MEMORIES, people::forget)
        .register(services);
}

/// Adds the files of the web console.
pub fn console_routes(services: &mut ServiceConfig) {
    RouteTable::default()
        .get("/console", console::redirect)
        .get(console::FILES, console::file)
        .register(services);
}

/// Adds the routes of recent turns, and of their calls pending confirmation.
pub fn turn_routes(services: &mut ServiceConfig, turns: Turns) {
    services.app_data(web::Data::new(turns.waiting())).app_data(web::Data::new(turns));
    RouteTable::default()
        .get(waiting::PATH, waiting::list)
        .post(waiting::PATH, waiting::drop_one)
        .get("/api/turns", turns::list)
        .get(turns::LIVE, turns::live)
        .register(services);
}

/// Adds the routes of the history.
pub fn history_routes(services: &mut ServiceConfig, history: History, trials: Trials) {
    services.app_data(web::Data::new(history)).app_data(web::Data::new(trials));
    RouteTable::default()
        .get("/api/history", history::list)
        .delete("/api/history", history::delete_many)
        .get("/api/history/summary", history::summary)
        .get("/api/history/export", history::export)
        .get(history::ONE, history::get)
        .delete(history::ONE, history::delete)
        .get("/api/history/{id}/heard.wav", history::heard)
        .get("/api/history/{id}/said.wav", history::said)
        .get("/api/history/{id}/recording.jsonl", history::recording)
        .post("/api/history/{id}/again", history::again)
        .register(services);
}

/// Adds the route of usage.
pub fn usage_routes(services: &mut ServiceConfig, usage: DailyUsage) {
    services.app_data(web::Data::new(usage));
    RouteTable::default().get("/api/usage", usage::report).register(services);
}

/// Adds the routes of service tests, and of recent calls of services.
pub fn service_routes(services: &mut ServiceConfig, tests: Arc<ServiceTests>, calls: CallLog) {
    services.app_data(web::Data::from(tests)).app_data(web::Data::new(calls));
    RouteTable::default()
        .get("/api/services/calls", service_calls::list)
        .post("/api/services/test", services::test)
        .register(services);
}

/// Adds the routes of roles, whose state is that of the tool routes.
fn role_routes(services: &mut ServiceConfig) {
    RouteTable::default()
        .get("/api/roles", roles::list)
        .post("/api/roles", roles::add)
        .post("/api/roles/try", roles::try_out)
        .get(roles::ONE, roles::get)
        .patch(roles::ONE, roles::change)
        .delete(roles::ONE, roles::delete)
        .get("/api/roles/{id}/versions", roles::versions)
        .post("/api/roles/{id}/restore", roles::restore)
        .register(services);
}

/// Adds all other routes to an application; used by `main` and by the tests.
pub fn routes(
    services: &mut ServiceConfig,
    device_endpoint: DeviceEndpoint,
    health: Health,
    tools: Arc<ToolsApi>,
) {
    services.configure(openapi::routes);
    services.app_data(web::Data::from(tools)).configure(tool_routes).configure(role_routes);
    services.app_data(web::Data::from(Arc::clone(&device_endpoint.access)));
    for ota in ["/xiaozhi/ota", "/xiaozhi/ota/"] {
        RouteTable::default().get(ota, ota::check).post(ota, ota::check).register(services);
    }
    for activate in ["/xiaozhi/ota/activate", "/xiaozhi/ota/activate/"] {
        RouteTable::default().post(activate, ota::activate).register(services);
    }
    let image = "/xiaozhi/ota/firmware/{file}";
    let one = "/api/devices/{id}";
    let key = "/api/provisioning/{serial_number}";
    services.app_data(web::Data::new(device_endpoint)).app_data(web::Data::new(health));
    RouteTable::default()
        .get("/xiaozhi/v1", device::connect)
        .get("/xiaozhi/v1/", device::connect)
        .get(image, firmware::download)
        .get("/api/devices", device_records::list)
        .post("/api/devices/bind", device_records::bind)
        .get(one, device_records::get)
        .patch(one, device_records::change)
        .delete(one, device_records::forget)
        .get("/api/devices/{id}/status", device_status::status)
        .get(device_tools::PATH, device_tools::get)
        .put(device_tools::PATH, device_tools::put)
        .get(device_tools::OF_SESSION, device_tools::get_session)
        .put(device_tools::OF_SESSION, device_tools::put_session)
        .post(tokens::OF_DEVICE, tokens::make_for_device)
        .delete(tokens::OF_DEVICE, tokens::revoke_of_device)
        .post("/api/devices/{id}/{order}", device_orders::order)
        .put(key, device_records::provision)
        .delete(key, device_records::unprovision)
        .get("/healthz", health::healthz)
        .get("/readyz", health::readyz)
        .get("/metrics", health::metrics)
        .register(services);
    services.default_service(web::to(fault::not_found));
}

fn tool_routes(services: &mut ServiceConfig) {
    for dial_in in ["/mcp_endpoint/mcp", "/mcp_endpoint/mcp/"] {
        RouteTable::default().get(dial_in, mcp_endpoint::connect).register(services);
    }
    RouteTable::default()
        .get("/mcp_endpoint/health", mcp_endpoint::health)
        .get("/api/tools", tools_api::list)
        .post("/api/tools/call", tools_api::call)
        .post("/api/tools/accept", tools_api::accept)
        .get(tokens::OF_TOOLS, tokens::list)
        .post(tokens::OF_TOOLS, tokens::make_for_tools)
        .delete(tokens::OF_TOOL, tokens::revoke_of_tools)
        .get("/api/tools/servers", tool_servers::list)
        .post("/api/tools/servers", tool_servers::add)
        .get(tool_servers::ONE, tool_servers::get)
        .delete(tool_servers::ONE, tool_servers::remove)
        .put(tool_servers::ENABLED, tool_servers::switch)
        .post(VISION_PATH, vision::explain)
        .register(services);
}
