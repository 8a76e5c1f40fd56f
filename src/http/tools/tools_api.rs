//! REST API of tools: list of sources, and manual calls. Also the shared state of all tool routes.
//! Not for tools in a conversation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_base::pace::Pace;
use hearken_base::reloadable::Reloadable;
use hearken_base::slots::Slots;
use hearken_dialogue::tools::{ToolPolicies, ToolSettings};
use hearken_ports::{ImageDescriber, ToolCall, ToolError};
use hearken_proto::fault::Fault;
use hearken_providers::Vision;
use hearken_socket::SharedBudget;
use hearken_tool_sources::{
    AgentTokens, DEFAULT_AGENT, Registry, RegistryError, Sources, VisionTokens,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};
use crate::http::params;
use crate::http::tools::tool_bodies::{SourcesShown, ToolAnswer};

/// Maximum number of pictures described concurrently, each of at most 10 MiB.
const PICTURES_AT_ONCE: usize = 8;
/// Pictures that one device may upload per minute, and all devices of one address.
const PICTURES_OF_DEVICE: u32 = 20;
const PICTURES_OF_ADDRESS: u32 = 60;
/// Maximum size of the queued messages of all tool clients together, in bytes.
pub(crate) const ENDPOINT_BYTES: usize = 64 << 20;

/// State of the tool routes.
pub struct ToolsApi {
    /// All sources outside devices.
    pub(crate) sources: Sources,
    /// Registry that changes them.
    pub(crate) registry: Registry,
    /// Tokens of tool clients.
    pub(crate) agents: AgentTokens,
    /// Tokens of cameras.
    pub(crate) cameras: VisionTokens,
    /// Model that describes pictures.
    pub(crate) vision: Vision,
    /// Configured policies of tools.
    pub(crate) policies: Reloadable<ToolPolicies>,
    /// Maximum number of tools that a conversation is offered.
    max_tools: usize,
    /// Slots for pictures.
    pub(crate) pictures: Slots,
    /// Rate limits of pictures.
    pub(crate) picture_rates: PictureRates,
    /// Message budget of connected tool clients.
    pub(crate) endpoint_budget: Arc<SharedBudget>,
    /// Token of the process, cancelled at shutdown.
    pub(crate) process: CancellationToken,
}

/// Rate limits of uploaded pictures.
pub(crate) struct PictureRates {
    devices: Pace,
    addresses: Pace,
}

impl Default for PictureRates {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        let devices = Pace::new(PICTURES_OF_DEVICE, minute);
        Self { devices, addresses: Pace::new(PICTURES_OF_ADDRESS, minute) }
    }
}

impl PictureRates {
    /// Counts a picture.
    ///
    /// # Errors
    /// The time to wait, if the device or the address has sent too many; this one is not counted.
    pub(crate) fn admit(&self, device: &str, address: &str) -> Result<(), Duration> {
        let wait = self.devices.wait(device).max(self.addresses.wait(address));
        if !wait.is_zero() {
            return Err(wait);
        }
        self.devices.take(device, 1);
        self.addresses.take(address, 1);
        Ok(())
    }
}

/// Signers and verifiers of tokens.
pub struct ToolTokens {
    /// Tokens of tool clients.
    pub agents: AgentTokens,
    /// Tokens of devices' cameras.
    pub cameras: VisionTokens,
}

impl ToolsApi {
    /// Creates the state; `process` is cancelled at shutdown.
    pub fn new(
        sources: Sources,
        registry: Registry,
        tokens: ToolTokens,
        vision: Vision,
        policies: ToolPolicies,
        address_percent: u8,
        process: CancellationToken,
    ) -> Self {
        let pictures = Slots::with_share(PICTURES_AT_ONCE, address_percent);
        let policies = policies.into();
        let endpoint_budget = SharedBudget::new(ENDPOINT_BYTES);
        Self {
            sources,
            registry,
            agents: tokens.agents,
            cameras: tokens.cameras,
            vision,
            policies,
            max_tools: ToolSettings::default().max_tools,
            pictures,
            picture_rates: PictureRates::default(),
            endpoint_budget,
            process,
        }
    }

    /// Sets the maximum number of tools that a conversation is offered: sources beyond it have a
    /// warning.
    #[must_use]
    pub fn offering(self, max_tools: usize) -> Self {
        Self { max_tools, ..self }
    }

    /// Returns the policies of tools, which may be replaced at run time.
    pub fn policies(&self) -> &Reloadable<ToolPolicies> {
        &self.policies
    }

    /// Returns the model that describes pictures, also for conversations; `None` if none is configured.
    pub fn describer(&self) -> Option<Arc<dyn ImageDescriber>> {
        self.vision.describer()
    }
}

/// Converts the reason of a refusal to a response.
pub(crate) fn refusal_of(error: RegistryError) -> Refusal {
    let fault = match &error {
        RegistryError::Store(error) => return store_failed(error),
        RegistryError::Settings(_) | RegistryError::OwnSecrets(_) => Fault::BadRequest,
        RegistryError::Taken(_)
        | RegistryError::Configured(_)
        | RegistryError::NotSeen(_)
        | RegistryError::Full => Fault::Conflict,
        RegistryError::Unknown(_) | RegistryError::NothingToAccept(_) => Fault::NotFound,
        RegistryError::Programs => Fault::Forbidden,
    };
    refusal(fault, &error.to_string())
}

/// Manual call of a tool.
#[derive(Deserialize, ToSchema)]
pub(crate) struct Call {
    /// Name of the tool's source.
    source: String,
    /// Name of the tool at its source.
    tool: String,
    /// Arguments; none if omitted.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Agent whose tool clients are included; `default` if omitted.
    agent: Option<String>,
}

/// Body of the request to accept changed definitions.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accept {
    /// Name of the source.
    source: String,
    /// Name of the tool; if omitted, all tools of the source.
    tool: Option<String>,
    /// Agent whose tool clients are included; `default` if omitted.
    agent: Option<String>,
    /// `definition_hash` of each tool as `GET /api/tools` showed it, by the name of the tool. A
    /// changed definition with another hash is refused, and nothing is accepted. If omitted, the
    /// current definitions are accepted, whatever they are.
    definition_hashes: Option<BTreeMap<String, String>>,
}

/// Result of accepting definitions.
#[derive(Serialize, ToSchema)]
struct Accepted {
    /// Number of definitions that had changed.
    accepted: usize,
}

/// Accepts the current definitions of a source's tools, or of one tool.
#[utoipa::path(post, path = "/api/tools/accept", tag = "tools",
    request_body = Accept,
    responses((status = 200, body = Accepted), Faults))]
pub(crate) async fn accept(
    _: Operator,
    body: JsonBody<Accept>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let Accept { source, tool, agent, definition_hashes: seen } = body.0;
    let agent = agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let accepted = api.registry.accept(agent, &source, tool.as_deref(), seen.as_ref()).await;
    let accepted = accepted.map_err(refusal_of)?;
    Ok(HttpResponse::Ok().json(Accepted { accepted }))
}

/// Lists the tool sources of an agent, with their states and tools.
#[utoipa::path(get, path = "/api/tools", tag = "tools", params(("agent" = Option<String>, Query,)),
    responses((status = 200, body = SourcesShown), Faults))]
pub(crate) async fn list(
    _: Operator,
    request: HttpRequest,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let agent = params::text(&request, "agent", Fault::BadRequest)?;
    let agent = agent.unwrap_or_else(|| DEFAULT_AGENT.into());
    let inventory = api.sources.inventory(&agent).warn_beyond(api.max_tools);
    let shown = SourcesShown::new(inventory, &api.policies.get());
    Ok(HttpResponse::Ok().json(shown))
}

/// Calls a tool and returns its result.
#[utoipa::path(post, path = "/api/tools/call", tag = "tools",
    request_body = Call,
    responses((status = 200, body = ToolAnswer), Faults))]
pub(crate) async fn call(
    _: Operator,
    call: JsonBody<Call>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let call = call.0;
    let agent = call.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let Some(source) = api.sources.named(agent, &call.source) else {
        let about = format!("there is no source of tools `{}`", call.source);
        return Err(refusal(Fault::NotFound, &about));
    };
    let id = uuid::Uuid::new_v4().to_string();
    let call = ToolCall { id, name: call.tool, arguments: call.arguments };
    match source.call(call).await {
        Ok(output) => Ok(HttpResponse::Ok().json(ToolAnswer::from(output))),
        Err(error) => Err(refusal(fault_of(&error), &error.to_string())),
    }
}

fn fault_of(error: &ToolError) -> Fault {
    match error {
        ToolError::Unknown(_) => Fault::NotFound,
        ToolError::Arguments(_) => Fault::BadRequest,
        ToolError::Timeout(_) | ToolError::Unavailable(_) | ToolError::Failed(_) => {
            Fault::Unavailable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pictures_have_a_rate_per_device_and_address() {
        let rates = PictureRates::default();
        let admitted = |device: &str, address: &str| {
            (0..100).filter(|_| rates.admit(device, address).is_ok()).count()
        };
        assert_eq!(admitted("a", "192.0.2.1"), 20);
        assert_eq!(admitted("a", "192.0.2.2"), 0, "another address does not help");
        let others: usize =
            ["b", "c", "d"].map(|device| admitted(device, "192.0.2.1")).iter().sum();
        assert_eq!(others, 40, "an address has a rate for all of its devices");
        assert_eq!(admitted("e", "192.0.2.3"), 20);
        let wait = rates.admit("a", "192.0.2.3").unwrap_err();
        tokio::time::advance(wait).await;
        assert_eq!(admitted("a", "192.0.2.3"), 1);
    }
}
