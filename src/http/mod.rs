//! The route table. Each route parses a request, calls one function and renders the result; no
//! dialogue, no SQL, no retries here.

mod administration;
mod auth;
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
mod peer;
mod request_identity;
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
use self::tools::{roles, tokens, tool_servers, tools_api};
use crate::history::History;
use crate::history::trial::Trials;
use crate::service_tests::ServiceTests;
use crate::usage::DailyUsage;

pub use administration::admin::{Admin, Figures};
pub use administration::backup::Backups;
pub use administration::people::PeopleApi;
pub use auth::{ADMIN_TOKEN_FILE, AccessRule, Auth, SECRET_FILE, admin_token, secret, tokens};
pub use clients::console::PATH as CONSOLE_PATH;
pub use clients::litemcp::{LiteMcp, litemcp_routes};
pub use clients::museum::MuseumClients;
pub use clients::text_gateway::{PAGE_PATH, TextClients};
pub use conversations::chat::Chats;
pub use conversations::turns::Turns;
pub use devices::device::DeviceEndpoint;
pub use devices::device_orders::{follow_revocations, order_handler};
pub use devices::ota::{OtaConfigError, OtaRules};
pub use devices::vision::PATH as VISION_PATH;
pub use health::{Dependencies, Health};
pub use middleware::{MiddlewareState, behind};
pub use peer::{Peer, network_of};
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
    services
        .app_data(web::Data::new(clients))
        .route("/", web::get().to(text_gateway::connect))
        .route(text_gateway::PAGE_PATH, web::get().to(text_gateway::page));
}

/// Adds the routes of chat sessions.
pub fn chat_routes(services: &mut ServiceConfig, chats: Chats) {
    let one = "/api/sessions/{id}";
    let of = |part: &str| format!("{one}/{part}");
    services
        .app_data(web::Data::new(chats))
        .route("/api/sessions", web::post().to(chat::create))
        .route("/api/sessions", web::get().to(chat::list))
        .route(one, web::get().to(chat::get))
        .route(one, web::delete().to(chat::delete))
        .route(&of("archive"), web::post().to(chat::archive))
        .route(&of("restore"), web::post().to(chat::restore))
        .route(&of("chat"), web::post().to(chat::chat))
        .route(&of("messages"), web::get().to(chat::messages))
        .route(&of("state"), web::get().to(chat_worlds::state))
        .route(&of("characters"), web::get().to(chat_worlds::characters))
        .route(&of("combat"), web::get().to(chat_worlds::combat))
        .route(&of("snapshots"), web::get().to(chat_worlds::snapshots))
        .route(&of("snapshots"), web::post().to(chat_worlds::make_snapshot))
        .route(&of("snapshots/{snapshot_id}/restore"), web::post().to(chat_worlds::go_back))
        .route(&of("ws"), web::get().to(chat_worlds::watch));
}

/// Adds the routes of museum clients.
pub fn museum_routes(services: &mut ServiceConfig, clients: MuseumClients) {
    services
        .app_data(web::Data::new(clients))
        .route("/api/session/register", web::post().to(museum::register))
        .route("/api/session/heartbeat", web::post().to(museum::heartbeat))
        .route("/api/session/unregister", web::delete().to(museum::unregister))
        .route("/api/session/info", web::get().to(museum::info))
        .route("/api/session/stats", web::get().to(museum::stats))
        .route("/api/agent/parse", web::post().to(museum::parse));
}

/// Adds the routes of the administrator.
pub fn admin_routes(services: &mut ServiceConfig, admin: Arc<Admin>, backups: Arc<Backups>) {
    let config = "/api/admin/config";
    services
        .app_data(web::Data::from(admin))
        .app_data(web::Data::from(backups))
        .route("/api/admin/backup", web::get().to(backup::download))
        .route("/api/admin/login", web::post().to(admin::log_in))
        .route(password::SETUP, web::get().to(password::state))
        .route(password::SETUP, web::post().to(password::choose_first))
        .route("/api/admin/password", web::post().to(password::change))
        .route("/api/admin/refresh", web::post().to(admin::refresh))
        .route("/api/admin/logout", web::post().to(admin::log_out))
        .route(config, web::get().to(admin::config))
        .route(config, web::put().to(admin::change))
        .route(config, web::patch().to(admin::change))
        .route("/api/admin/sessions", web::get().to(admin::sessions))
        .route("/api/admin/sessions/{id}", web::delete().to(admin::end_session))
        .route("/api/admin/metrics", web::get().to(admin::metrics))
        .route("/api/admin/audit", web::get().to(admin::audit))
        .route("/api/account", web::get().to(accounts::asking))
        .route("/api/accounts", web::get().to(accounts::list))
        .route("/api/accounts", web::post().to(accounts::add))
        .route(accounts::ONE, web::patch().to(accounts::change))
        .route(accounts::ONE, web::delete().to(accounts::delete));
}

/// Adds the routes about people whose voices are known.
pub fn person_routes(services: &mut ServiceConfig, api: Arc<PeopleApi>) {
    services
        .app_data(web::Data::from(api))
        .route("/api/persons", web::get().to(people::list))
        .route("/api/persons", web::post().to(people::enrol))
        .route(people::ONE, web::get().to(people::get))
        .route(people::ONE, web::patch().to(people::change))
        .route(people::ONE, web::delete().to(people::delete))
        .route(people::MEMORIES, web::delete().to(people::forget));
}

/// Adds the files of the web console.
pub fn console_routes(services: &mut ServiceConfig) {
    services
        .route("/console", web::get().to(console::redirect))
        .route(console::FILES, web::get().to(console::file))
        .route(console::FILES, web::head().to(console::file));
}

/// Adds the routes about the last turns, and their calls that wait for a yes.
pub fn turn_routes(services: &mut ServiceConfig, turns: Turns) {
    services
        .app_data(web::Data::new(turns.waiting()))
        .app_data(web::Data::new(turns))
        .route(waiting::PATH, web::get().to(waiting::list))
        .route(waiting::PATH, web::post().to(waiting::drop_one))
        .route("/api/turns", web::get().to(turns::list))
        .route(turns::LIVE, web::get().to(turns::live));
}

/// Adds the routes of what is kept of conversations.
pub fn history_routes(services: &mut ServiceConfig, history: History, trials: Trials) {
    services
        .app_data(web::Data::new(history))
        .app_data(web::Data::new(trials))
        .route("/api/history", web::get().to(history::list))
        .route("/api/history", web::delete().to(history::delete_many))
        .route("/api/history/summary", web::get().to(history::summary))
        .route("/api/history/export", web::get().to(history::export))
        .route(history::ONE, web::get().to(history::get))
        .route(history::ONE, web::delete().to(history::delete))
        .route("/api/history/{id}/heard.wav", web::get().to(history::heard))
        .route("/api/history/{id}/said.wav", web::get().to(history::said))
        .route("/api/history/{id}/recording.jsonl", web::get().to(history::recording))
        .route("/api/history/{id}/again", web::post().to(history::again));
}

/// Adds the route of what was used.
pub fn usage_routes(services: &mut ServiceConfig, usage: DailyUsage) {
    services.app_data(web::Data::new(usage)).route("/api/usage", web::get().to(usage::report));
}

/// Adds the routes of tests of the services, and of their last calls.
pub fn service_routes(services: &mut ServiceConfig, tests: Arc<ServiceTests>, calls: CallLog) {
    services
        .app_data(web::Data::from(tests))
        .app_data(web::Data::new(calls))
        .route("/api/services/calls", web::get().to(service_calls::list))
        .route("/api/services/test", web::post().to(services::test));
}

/// Adds the routes of roles, which the state of the routes about tools holds.
fn role_routes(services: &mut ServiceConfig) {
    services
        .route("/api/roles", web::get().to(roles::list))
        .route("/api/roles", web::post().to(roles::add))
        .route("/api/roles/try", web::post().to(roles::try_out))
        .route(roles::ONE, web::get().to(roles::get))
        .route(roles::ONE, web::patch().to(roles::change))
        .route(roles::ONE, web::delete().to(roles::delete))
        .route("/api/roles/{id}/versions", web::get().to(roles::versions))
        .route("/api/roles/{id}/restore", web::post().to(roles::restore));
}

/// Adds all other routes to an application; `main` and the tests use this function.
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
        services.route(ota, web::get().to(ota::check)).route(ota, web::post().to(ota::check));
    }
    for activate in ["/xiaozhi/ota/activate", "/xiaozhi/ota/activate/"] {
        services.route(activate, web::post().to(ota::activate));
    }
    let image = "/xiaozhi/ota/firmware/{file}";
    let one = "/api/devices/{id}";
    let key = "/api/provisioning/{serial_number}";
    services
        .app_data(web::Data::new(device_endpoint))
        .app_data(web::Data::new(health))
        .route("/xiaozhi/v1", web::get().to(device::connect))
        .route("/xiaozhi/v1/", web::get().to(device::connect))
        .route(image, web::get().to(firmware::download))
        .route(image, web::head().to(firmware::download))
        .route("/api/devices", web::get().to(device_records::list))
        .route("/api/devices/bind", web::post().to(device_records::bind))
        .route(one, web::get().to(device_records::get))
        .route(one, web::patch().to(device_records::change))
        .route(one, web::delete().to(device_records::forget))
        .route("/api/devices/{id}/status", web::get().to(device_status::status))
        .route(device_tools::PATH, web::get().to(device_tools::get))
        .route(device_tools::PATH, web::put().to(device_tools::put))
        .route(device_tools::OF_SESSION, web::get().to(device_tools::get_session))
        .route(device_tools::OF_SESSION, web::put().to(device_tools::put_session))
        .route(tokens::OF_DEVICE, web::post().to(tokens::make_for_device))
        .route(tokens::OF_DEVICE, web::delete().to(tokens::revoke_of_device))
        .route("/api/devices/{id}/{order}", web::post().to(device_orders::order))
        .route(key, web::put().to(device_records::provision))
        .route(key, web::delete().to(device_records::unprovision))
        .route("/healthz", web::get().to(health::healthz))
        .route("/readyz", web::get().to(health::readyz))
        .route("/metrics", web::get().to(health::metrics))
        .default_service(web::to(fault::not_found));
}

fn tool_routes(services: &mut ServiceConfig) {
    for dial_in in ["/mcp_endpoint/mcp", "/mcp_endpoint/mcp/"] {
        services.route(dial_in, web::get().to(mcp_endpoint::connect));
    }
    services
        .route("/mcp_endpoint/health", web::get().to(mcp_endpoint::health))
        .route("/api/tools", web::get().to(tools_api::list))
        .route("/api/tools/call", web::post().to(tools_api::call))
        .route("/api/tools/accept", web::post().to(tools_api::accept))
        .route(tokens::OF_TOOLS, web::get().to(tokens::list))
        .route(tokens::OF_TOOLS, web::post().to(tokens::make_for_tools))
        .route(tokens::OF_TOOL, web::delete().to(tokens::revoke_of_tools))
        .route("/api/tools/servers", web::get().to(tool_servers::list))
        .route("/api/tools/servers", web::post().to(tool_servers::add))
        .route(tool_servers::ONE, web::get().to(tool_servers::get))
        .route(tool_servers::ONE, web::delete().to(tool_servers::remove))
        .route(tool_servers::ENABLED, web::put().to(tool_servers::switch))
        .route(VISION_PATH, web::post().to(vision::explain));
}
