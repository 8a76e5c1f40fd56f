//! Tools for people: what sources there are, and a call by hand. Also what the routes about tools
//! share. Not for tools in a conversation.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_actors::ports::{ImageDescriber, ToolCall, ToolContent, ToolError, ToolOutput};
use hearken_proto::fault::Fault;
use hearken_providers::Vision;
use hearken_tool_sources::{AgentTokens, DEFAULT_AGENT, Registry, Sources, VisionTokens};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::fault::{Answer, Faults, refusal, rendered};
use super::request_identity::json as json_body;
use super::{AccessControl, params};

/// Pictures that are looked at at once, each of at most 10 MiB.
const PICTURES_AT_ONCE: usize = 8;

/// What the routes about tools need.
pub struct ToolsApi {
    /// Every source outside devices.
    pub(super) sources: Sources,
    /// What changes them.
    pub(super) registry: Registry,
    /// Who may dial in.
    pub(super) agents: AgentTokens,
    /// Whose camera may send.
    pub(super) cameras: VisionTokens,
    /// What looks at pictures.
    pub(super) vision: Vision,
    /// One permit for each picture.
    pub(super) pictures: Arc<Semaphore>,
    /// The end of everything.
    pub(super) process: CancellationToken,
}

impl ToolsApi {
    /// The desk of a server that ends with `process`.
    pub fn new(
        sources: Sources,
        registry: Registry,
        agents: AgentTokens,
        cameras: VisionTokens,
        vision: Vision,
        process: CancellationToken,
    ) -> Self {
        let pictures = Arc::new(Semaphore::new(PICTURES_AT_ONCE));
        Self { sources, registry, agents, cameras, vision, pictures, process }
    }

    /// What looks at pictures, for conversations too; none where no model is configured.
    pub fn describer(&self) -> Option<Arc<dyn ImageDescriber>> {
        self.vision.describer()
    }
}

/// A call by hand.
#[derive(Deserialize, ToSchema)]
pub(super) struct Call {
    source: String,
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    agent: Option<String>,
}

/// `GET /api/tools[?agent=NAME]`: the sources of an agent, where they stand, and their tools.
#[utoipa::path(get, path = "/api/tools", tag = "tools", params(("agent" = Option<String>, Query,)),
    responses((status = 200, body = Object), Faults))]
pub(super) async fn list(
    request: HttpRequest,
    desk: web::Data<ToolsApi>,
    access: web::Data<AccessControl>,
) -> HttpResponse {
    let listed = || {
        access.auth.admin(&request)?;
        let agent = params::text(&request, "agent", Fault::BadRequest)?;
        let agent = agent.unwrap_or_else(|| DEFAULT_AGENT.into());
        Ok(HttpResponse::Ok().json(desk.sources.inventory(&agent)))
    };
    rendered(listed())
}

/// `POST /api/tools/call` with `{"source", "tool", "arguments"}`: calls it and tells the answer.
#[utoipa::path(post, path = "/api/tools/call", tag = "tools",
    request_body = Call,
    responses((status = 200, body = Object), Faults))]
pub(super) async fn call(
    request: HttpRequest,
    payload: web::Payload,
    desk: web::Data<ToolsApi>,
    access: web::Data<AccessControl>,
) -> HttpResponse {
    rendered(called(&request, payload, &desk, &access).await)
}

async fn called(
    request: &HttpRequest,
    payload: web::Payload,
    desk: &ToolsApi,
    access: &AccessControl,
) -> Answer {
    access.auth.admin(request)?;
    let call: Call = json_body(payload).await?;
    let agent = call.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let Some(source) = desk.sources.named(agent, &call.source) else {
        let about = format!("no source of tools is called `{}`", call.source);
        return Err(refusal(Fault::NotFound, &about));
    };
    let id = uuid::Uuid::new_v4().to_string();
    let call = ToolCall { id, name: call.tool, arguments: call.arguments };
    match source.call(call).await {
        Ok(output) => Ok(HttpResponse::Ok().json(shown(&output))),
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

fn shown(output: &ToolOutput) -> Value {
    let content = output.content.iter().map(|part| match part {
        ToolContent::Text(text) => json!({"type": "text", "text": text}),
        ToolContent::Image { mime_type, base64 } => {
            json!({"type": "image", "mime_type": mime_type, "base64": base64})
        }
    });
    json!({"failed": output.failed, "content": content.collect::<Vec<Value>>()})
}
