//! Request about the tool sources of a running session, executed at the instance with the session.
//! Not for the routes, nor for finding the instance.

use hearken_ports::Unreachable;
use hearken_proto::ids::SessionId;
use hearken_tool_sources::Registry;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::http::tools::tool_bodies::SessionToolsShown;

/// Request about the tool sources of a session; also the request between instances.
#[derive(Serialize, Deserialize)]
pub(crate) struct SessionToolsRequest {
    pub(crate) session_id: SessionId,
    /// Names of the sources to disable; `None` changes nothing.
    pub(crate) off: Option<Vec<String>>,
}

impl SessionToolsRequest {
    /// Executes the request. `None` if the session does not run at this instance.
    pub(crate) fn carry_out(&self, registry: &Registry) -> Option<SessionToolsShown> {
        let tools = match &self.off {
            None => registry.tools_of_session(&self.session_id),
            Some(off) => registry.set_session_off(&self.session_id, off.clone()),
        };
        tools.map(SessionToolsShown::from)
    }
}

/// Executes the request of another instance, and returns the tool sources of the session.
///
/// # Errors
/// The session has ended, or the request cannot be read.
pub(crate) fn requested(
    registry: &Registry,
    request: Map<String, Value>,
) -> Result<Value, Unreachable> {
    let request: SessionToolsRequest =
        serde_json::from_value(Value::Object(request)).map_err(|_| Unreachable::Busy)?;
    let tools = request.carry_out(registry).ok_or(Unreachable::NotConnected)?;
    Ok(json!(tools))
}
