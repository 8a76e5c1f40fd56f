//! REST API of tool servers: listing, adding, removing, enabling and disabling at run time. Not for
//! the validation of changes, which is in the registry.

use actix_web::{HttpResponse, web};
use hearken_tool_sources::ToolServer;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, RouteResult};
use crate::http::tools::tool_bodies::{ServerShown, ServersShown, ToolServerSettings};
use crate::http::tools::tools_api::{ToolsApi, refusal_of};

/// Path of one server.
pub(crate) const ONE: &str = "/api/tools/servers/{name}";
/// Path for enabling and disabling one server.
pub(crate) const ENABLED: &str = "/api/tools/servers/{name}/enabled";

/// Lists all tool servers with their settings, including disabled ones.
#[utoipa::path(get, path = "/api/tools/servers", tag = "tools",
    responses((status = 200, body = ServersShown), Faults))]
pub(crate) async fn list(_: Operator, api: web::Data<ToolsApi>) -> RouteResult {
    Ok(HttpResponse::Ok().json(ServersShown::new(api.registry.servers(), &api.policies.get())))
}

/// Adds a tool server permanently.
#[utoipa::path(post, path = "/api/tools/servers", tag = "tools",
    request_body = ToolServerSettings,
    responses((status = 201, body = ServerShown), Faults))]
pub(crate) async fn add(
    _: Operator,
    settings: JsonBody<ToolServer>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let server = api.registry.add(settings.0).await.map_err(refusal_of)?;
    Ok(HttpResponse::Created().json(ServerShown::new(server, &api.policies.get())))
}

/// Returns a tool server.
#[utoipa::path(get, path = "/api/tools/servers/{name}", tag = "tools", params(("name" = String, Path,)),
    responses((status = 200, body = ServerShown), Faults))]
pub(crate) async fn get(
    _: Operator,
    name: web::Path<String>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let server = api.registry.server(&name).map_err(refusal_of)?;
    Ok(HttpResponse::Ok().json(ServerShown::new(server, &api.policies.get())))
}

/// Removes a tool server that was added over the API.
#[utoipa::path(delete, path = "/api/tools/servers/{name}", tag = "tools", params(("name" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn remove(
    _: Operator,
    name: web::Path<String>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    api.registry.remove(&name).await.map_err(refusal_of)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Body of the request to enable or disable a server.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switch {
    /// True to enable the server.
    enabled: bool,
}

/// Enables or disables a tool server.
#[utoipa::path(put, path = "/api/tools/servers/{name}/enabled", tag = "tools", params(("name" = String, Path,)),
    request_body = Switch,
    responses((status = 200, body = ServerShown), Faults))]
pub(crate) async fn switch(
    _: Operator,
    name: web::Path<String>,
    asked: JsonBody<Switch>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let server = api.registry.switch(&name, asked.0.enabled).await.map_err(refusal_of)?;
    Ok(HttpResponse::Ok().json(ServerShown::new(server, &api.policies.get())))
}
