//! Tool clients of other instances. Each instance announces its own tool clients, caches the list
//! of the others', and calls their tools by RPC. Not for tool clients themselves.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{
    RemoteToolClient, Tool, ToolCall, ToolClients, ToolContent, ToolError, ToolOutput,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::rpc::{NoAnswer, Rpc, RpcHandler};
use super::shared::{PRESENCE_LEASE, RedisUnavailable, Shared, millis};

/// RPC method that calls a tool.
pub(super) const CALL: &str = "call";
/// Time for the transport of an answer, added to the tool's own time limit.
const TRANSPORT_TIME: Duration = Duration::from_secs(2);

/// Tool, as an instance announces it.
#[derive(Serialize, Deserialize)]
struct AnnouncedTool {
    name: String,
    description: String,
    parameters: Value,
    finishes: bool,
    #[serde(default)]
    destructive: bool,
}

/// Tool client, as its instance announces it.
#[derive(Serialize, Deserialize)]
struct AnnouncedClient {
    agent: String,
    name: String,
    /// Empty from an instance of an earlier version.
    #[serde(default)]
    serial: String,
    /// 0 from an instance of an earlier version, which calls by name.
    #[serde(default)]
    connection: u64,
    tools: Vec<AnnouncedTool>,
}

/// Tool clients of one instance, as it announces them.
#[derive(Serialize, Deserialize)]
struct SharedClientList {
    version: String,
    clients: Vec<AnnouncedClient>,
}

/// Arguments of a remote tool call.
#[derive(Serialize, Deserialize)]
struct CallRequest {
    agent: String,
    client: String,
    /// 0 from an instance of an earlier version.
    #[serde(default)]
    connection: u64,
    id: String,
    tool: String,
    arguments: Map<String, Value>,
}

/// Content part of a remote tool call's answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RemoteContent {
    Text(String),
    Image { mime_type: String, base64: String },
}

/// Outcome of a remote tool call.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RemoteOutcome {
    Answered { content: Vec<RemoteContent>, failed: bool },
    Unknown(String),
    Arguments(String),
    TimedOut(u64),
    Unavailable(String),
    Failed(String),
}

/// Tool clients of this instance and of the others.
pub(super) struct SharedToolClients {
    shared: Shared,
    rpc: Rpc,
    tool_clients: Arc<dyn ToolClients>,
    /// Version of the list that this instance announced last.
    version: u64,
    /// True if Redis has the current list of this instance.
    announced: bool,
    /// Tool clients by instance, with the version of its list.
    others: HashMap<String, (String, Vec<RemoteToolClient>)>,
}

impl SharedToolClients {
    pub(super) fn new(shared: Shared, rpc: Rpc, tool_clients: Arc<dyn ToolClients>) -> Self {
        rpc.register(CALL, call_handler(Arc::clone(&tool_clients)));
        Self { shared, rpc, tool_clients, version: 0, announced: false, others: HashMap::new() }
    }

    /// Returns a receiver that is notified when tool clients of this instance connect, disconnect,
    /// or change their tools.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.tool_clients.changes()
    }

    /// Announces the tool clients of this instance.
    pub(super) async fn announce(&mut self) {
        self.version += 1;
        let version = self.version.to_string();
        let clients = self.tool_clients.local().into_iter().map(|client| AnnouncedClient {
            agent: client.agent,
            name: client.name,
            serial: client.serial,
            connection: client.connection,
            tools: client.tools.iter().map(describe).collect(),
        });
        let tool_clients =
            SharedClientList { version: version.clone(), clients: clients.collect() };
        let Ok(tool_clients) = serde_json::to_string(&tool_clients) else { return };
        let me = self.shared.instance();
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(self.shared.key(&format!("guests:{me}"))).arg(tool_clients);
        pipe.arg("PX").arg(millis(PRESENCE_LEASE)).ignore();
        pipe.hset(self.shared.key("guests-versions"), me, version).ignore();
        pipe.publish(self.shared.key("guests"), me).ignore();
        let pipe = &pipe;
        let sent: Result<(), RedisUnavailable> =
            self.shared.run(|mut redis| async move { pipe.query_async(&mut redis).await }).await;
        self.announced = sent.is_ok();
    }

    /// Updates the cached lists: drops those of instances that are gone, reads those with a new
    /// version. Announces this instance's list again if Redis has lost it.
    pub(super) async fn heartbeat(&mut self, others: &[(&str, &str)]) {
        if !self.announced || !self.is_announced().await {
            self.announce().await;
        }
        let before = self.others.len();
        self.others.retain(|other, _| others.iter().any(|(there, _)| there == other));
        let gone = before != self.others.len();
        for (other, version) in others {
            if *version != "0" && self.others.get(*other).is_none_or(|(v, _)| v != version) {
                self.read(other).await;
            }
        }
        if gone {
            self.publish_remote();
        }
    }

    /// Returns true if Redis still has the list of this instance.
    async fn is_announced(&self) -> bool {
        let key = self.shared.key(&format!("guests:{}", self.shared.instance()));
        let known: Result<bool, RedisUnavailable> =
            self.shared
                .run(|mut redis| async move {
                    redis::cmd("EXISTS").arg(key).query_async(&mut redis).await
                })
                .await;
        known.unwrap_or(true)
    }

    /// Reads the list of another instance that has announced a change.
    pub(super) async fn list_changed(&mut self, other: &str) {
        if other != self.shared.instance() {
            self.read(other).await;
        }
    }

    /// Drops the lists of all other instances: Redis is lost, and no other instance can be reached.
    pub(super) fn clear_remote(&mut self) {
        self.others.clear();
        self.announced = false;
        self.publish_remote();
    }

    async fn read(&mut self, other: &str) {
        let key = self.shared.key(&format!("guests:{other}"));
        let read: Result<Option<String>, RedisUnavailable> = self
            .shared
            .run(
                |mut redis| async move { redis::cmd("GET").arg(key).query_async(&mut redis).await },
            )
            .await;
        let Ok(read) = read else { return };
        match read.map(|text| serde_json::from_str::<SharedClientList>(&text)) {
            None => {
                self.others.remove(other);
            }
            Some(Ok(tool_clients)) => {
                let clients =
                    tool_clients.clients.into_iter().map(|client| self.client(other, client));
                let clients = clients.collect();
                self.others.insert(other.to_owned(), (tool_clients.version, clients));
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot read the tool clients of another instance")
            }
        }
        self.publish_remote();
    }

    fn publish_remote(&self) {
        let mut others: Vec<_> = self.others.iter().collect();
        others.sort_unstable_by_key(|(instance, _)| *instance);
        let all = others.into_iter().flat_map(|(_, (_, clients))| clients.iter().cloned());
        self.tool_clients.set_remote(all.collect());
    }

    fn client(&self, instance: &str, client: AnnouncedClient) -> RemoteToolClient {
        let AnnouncedClient { agent, name, serial, connection, tools } = client;
        let rpc = self.rpc.clone();
        let instance = instance.to_owned();
        let within = self.tool_clients.call_timeout();
        let to_agent = agent.clone();
        let to_client = name.clone();
        let call = move |call: ToolCall| -> BoxFuture<'static, _> {
            let rpc = rpc.clone();
            let instance = instance.clone();
            let called = CallRequest {
                agent: to_agent.clone(),
                client: to_client.clone(),
                connection,
                id: call.id,
                tool: call.name,
                arguments: call.arguments,
            };
            Box::pin(async move {
                let body = json!(called);
                match rpc.call(&instance, CALL, body, within + TRANSPORT_TIME).await {
                    Ok(answer) => outcome_from_wire(answer),
                    Err(NoAnswer::Late) => Err(ToolError::Timeout(within)),
                    Err(error) => Err(ToolError::Unavailable(error.to_string())),
                }
            })
        };
        let tools = tools.into_iter().map(|tool| Tool {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters,
            finishes: tool.finishes,
            destructive: tool.destructive,
        });
        RemoteToolClient {
            agent,
            name,
            serial,
            connection,
            tools: tools.collect(),
            timeout: within,
            call: Arc::new(call),
        }
    }
}

fn describe(tool: &Tool) -> AnnouncedTool {
    AnnouncedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        finishes: tool.finishes,
        destructive: tool.destructive,
    }
}

/// Converts the answer of another instance.
fn outcome_from_wire(answer: Value) -> Result<ToolOutput, ToolError> {
    let outcome = serde_json::from_value(answer);
    match outcome
        .map_err(|_| ToolError::Unavailable("its instance sent an invalid answer".into()))?
    {
        RemoteOutcome::Answered { content, failed } => {
            let content = content.into_iter().map(|part| match part {
                RemoteContent::Text(text) => ToolContent::Text(text),
                RemoteContent::Image { mime_type, base64 } => {
                    ToolContent::Image { mime_type, base64 }
                }
            });
            Ok(ToolOutput { content: content.collect(), failed })
        }
        RemoteOutcome::Unknown(tool) => Err(ToolError::Unknown(tool)),
        RemoteOutcome::Arguments(why) => Err(ToolError::Arguments(why)),
        RemoteOutcome::TimedOut(ms) => Err(ToolError::Timeout(Duration::from_millis(ms))),
        RemoteOutcome::Unavailable(why) => Err(ToolError::Unavailable(why)),
        RemoteOutcome::Failed(why) => Err(ToolError::Failed(why)),
    }
}

fn outcome_to_wire(result: Result<ToolOutput, ToolError>) -> RemoteOutcome {
    match result {
        Ok(ToolOutput { content, failed }) => {
            let content = content.into_iter().map(|part| match part {
                ToolContent::Text(text) => RemoteContent::Text(text),
                ToolContent::Image { mime_type, base64 } => {
                    RemoteContent::Image { mime_type, base64 }
                }
            });
            RemoteOutcome::Answered { content: content.collect(), failed }
        }
        Err(ToolError::Unknown(tool)) => RemoteOutcome::Unknown(tool),
        Err(ToolError::Arguments(why)) => RemoteOutcome::Arguments(why),
        Err(ToolError::Timeout(within)) => RemoteOutcome::TimedOut(millis(within)),
        Err(ToolError::Unavailable(why)) => RemoteOutcome::Unavailable(why),
        Err(ToolError::Failed(why)) => RemoteOutcome::Failed(why),
    }
}

/// Returns the handler for calls of this instance's tools by other instances.
fn call_handler(tool_clients: Arc<dyn ToolClients>) -> RpcHandler {
    Arc::new(move |question| {
        let tool_clients = Arc::clone(&tool_clients);
        Box::pin(async move {
            let outcome = match serde_json::from_value::<CallRequest>(question) {
                Ok(CallRequest { agent, client, connection, id, tool, arguments }) => {
                    let call = ToolCall { id, name: tool, arguments };
                    outcome_to_wire(tool_clients.call(agent, client, connection, call).await)
                }
                Err(_) => RemoteOutcome::Failed("the call cannot be read".into()),
            };
            json!(outcome)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_calls_survive_the_transport() {
        let image = ToolContent::Image { mime_type: "image/png".into(), base64: "AA==".into() };
        let both = vec![ToolContent::Text("words".into()), image];
        for result in [
            Ok(ToolOutput { content: both, failed: true }),
            Ok(ToolOutput::default()),
            Err(ToolError::Unknown("x".into())),
            Err(ToolError::Arguments("x".into())),
            Err(ToolError::Timeout(Duration::from_millis(1_500))),
            Err(ToolError::Unavailable("x".into())),
            Err(ToolError::Failed("x".into())),
        ] {
            assert_eq!(outcome_from_wire(json!(outcome_to_wire(result.clone()))), result);
        }
        assert!(matches!(outcome_from_wire(json!(7)), Err(ToolError::Unavailable(_))));
    }
}
