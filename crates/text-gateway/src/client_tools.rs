//! Tool source of the tools that one client registered on its connection. A call is sent as a
//! callback and waits for the client's result. The tools end with the connection. Not for handling
//! results.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use hearken_base::memory_pool::{PeerMemory, Reserved};
use hearken_dialogue::tools::schema::{Schema, off_worker};
use hearken_ports::tool_limits::{cut_description, tool_weight};
use hearken_ports::{Tool, ToolCall, ToolError, ToolOutput, ToolSource, source_names};
use hearken_proto::json::weight;
use hearken_proto::text_gateway::{
    ErrorCode, RegisteredTool, Registration, ServerMessage, ToolRefusal, ToolResult,
};
use serde_json::Value;
use tokio::sync::oneshot;

use super::TextGatewaySettings;
use super::outbox::Outbox;

/// Approximate memory limit for a connection's tools, in bytes.
const MAX_TOOLS_BYTES: usize = 2 * 1024 * 1024;

type Outcome = Result<Value, String>;

/// Tools of one connection. Clones share them.
#[derive(Clone)]
pub(crate) struct ClientTools {
    settings: Arc<TextGatewaySettings>,
    outbox: Outbox,
    /// Memory reserved for the connection.
    memory: PeerMemory,
    tools: Arc<Mutex<KeptTools>>,
    pending: PendingCalls,
}

/// Tools of a connection, with their memory reservation; none before the first registration.
type KeptTools = Option<Reserved<Arc<[Tool]>>>;

/// Calls waiting for a result, by call id.
type PendingCalls = Arc<Mutex<HashMap<String, oneshot::Sender<Outcome>>>>;

impl ClientTools {
    pub(crate) fn new(
        settings: Arc<TextGatewaySettings>,
        outbox: Outbox,
        memory: PeerMemory,
    ) -> Self {
        let tools = Arc::default();
        Self { settings, outbox, memory, tools, pending: PendingCalls::default() }
    }

    /// Registers the valid tools. Returns one result for each tool. Only one registration of a
    /// connection may run at a time.
    pub(crate) async fn register(
        self,
        wanted: Vec<Result<RegisteredTool, ToolRefusal>>,
    ) -> Vec<Registration> {
        let names = names(&wanted);
        self.check_and_keep(wanted).await.unwrap_or_else(|error| {
            names.into_iter().map(|name| failed_registration(name, &error)).collect()
        })
    }

    /// Checks the tools, taking turns with other addresses, and stores them. Queued tools also
    /// count towards the connection's memory.
    async fn check_and_keep(
        self,
        wanted: Vec<Result<RegisteredTool, ToolRefusal>>,
    ) -> Result<Vec<Registration>, String> {
        let weighs = wanted.iter().flatten().map(|tool| weight(&tool.parameters)).sum();
        let waiting = self.memory.reserve(weighs).map_err(|error| error.to_string())?;
        let known = self.tools().to_vec();
        let settings = Arc::clone(&self.settings);
        let address = self.memory.address();
        let checked =
            off_worker(address, move |until| check_all(wanted, known, &settings, until)).await;
        drop(waiting);
        let (tools, registrations) = checked.map_err(|busy| busy.to_string())?;
        let weighs: usize = tools.iter().map(tool_weight).sum();
        // Twice the weight: an offer is built from them.
        let kept = self.memory.keep(tools.into(), 2 * weighs).map_err(|error| error.to_string())?;
        *locked(&self.tools) = Some(kept);
        Ok(registrations)
    }

    /// Delivers a result to the call that waits for it. Returns false if no call waits.
    pub(crate) fn answer(&self, result: ToolResult) -> bool {
        let waits = locked(&self.pending).remove(&result.call_id);
        waits.is_some_and(|waits| waits.send(result.outcome).is_ok())
    }
}

/// Returns the names of the tools that a client wants to register.
fn names(wanted: &[Result<RegisteredTool, ToolRefusal>]) -> Vec<String> {
    let name = |tool: &Result<RegisteredTool, ToolRefusal>| match tool {
        Ok(tool) => tool.name.clone(),
        Err(refusal) => refusal.name.clone(),
    };
    wanted.iter().map(name).collect()
}

fn failed_registration(name: String, error: &str) -> Registration {
    let code = Some(ErrorCode::ToolRegistrationFailed);
    Registration { name, status: "failed", error: Some(error.to_owned()), code }
}

/// Adds the valid ones of the wanted tools to the known ones. Returns all tools, and one result for
/// each wanted tool.
fn check_all(
    wanted: Vec<Result<RegisteredTool, ToolRefusal>>,
    mut tools: Vec<Tool>,
    settings: &TextGatewaySettings,
    until: Instant,
) -> (Vec<Tool>, Vec<Registration>) {
    let mut taken: usize = tools.iter().map(tool_weight).sum();
    let registrations = wanted
        .into_iter()
        .map(|tool| match tool.and_then(|tool| check(tool, &tools, taken, settings, until)) {
            Ok(tool) => {
                let name = tool.name.clone();
                taken += tool_weight(&tool);
                tools.push(tool);
                Registration { name, status: "registered", error: None, code: None }
            }
            Err(ToolRefusal { name, code, error }) => {
                Registration { name, status: "failed", error: Some(error), code: Some(code) }
            }
        })
        .collect();
    (tools, registrations)
}

/// Checks one tool of a client. `known` are its existing tools, and `taken` is their memory.
fn check(
    tool: RegisteredTool,
    known: &[Tool],
    taken: usize,
    settings: &TextGatewaySettings,
    until: Instant,
) -> Result<Tool, ToolRefusal> {
    let RegisteredTool { name, description, parameters } = tool;
    let refused = |code, error: String| Err(ToolRefusal { name: name.clone(), code, error });
    let failed = ErrorCode::ToolRegistrationFailed;
    if !settings.client_tools_enabled {
        return refused(failed, "Client tools are disabled on this server".into());
    }
    if known.iter().any(|t| t.name == name) {
        return refused(failed, "Tool name already exists".into());
    }
    if known.len() >= settings.client_tools_max_count {
        let most = settings.client_tools_max_count;
        return refused(failed, format!("Too many tools: at most {most} per connection"));
    }
    if Instant::now() >= until {
        return refused(failed, "The tools of this message take too long to check".into());
    }
    let name_kept = name.clone();
    let description = cut_description(&description);
    let tool =
        Tool { name: name_kept, description, parameters, finishes: false, destructive: false };
    if taken + tool_weight(&tool) > MAX_TOOLS_BYTES {
        let most = MAX_TOOLS_BYTES / 1_024;
        return refused(failed, format!("Too large: all tools take at most {most} KiB of memory"));
    }
    if let Err(error) = Schema::of_object(&tool.parameters) {
        return refused(ErrorCode::InvalidToolParameters, error);
    }
    Ok(tool)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds a client's tools")
}

impl ToolSource for ClientTools {
    fn name(&self) -> &str {
        source_names::CLIENT
    }

    fn kind(&self) -> &'static str {
        source_names::CLIENT
    }

    fn tools(&self) -> Arc<[Tool]> {
        locked(&self.tools).as_ref().map(|tools| Arc::clone(tools)).unwrap_or_default()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let outbox = self.outbox.clone();
        let pending = Arc::clone(&self.pending);
        Box::pin(async move {
            let call_id = uuid::Uuid::new_v4().to_string();
            let (waits, result) = oneshot::channel();
            locked(&pending).insert(call_id.clone(), waits);
            let _waited_for = WaitedFor { call_id: call_id.clone(), pending };
            let ToolCall { name: tool_name, arguments, .. } = call;
            let callback = ServerMessage::ToolCallback { call_id, tool_name, arguments };
            let gone = || ToolError::Unavailable("the client has left".into());
            if !outbox.send(callback).await {
                return Err(gone());
            }
            let result = tokio::select! {
                result = result => result.map_err(|_| gone())?,
                () = outbox.closed() => return Err(gone()),
            };
            match result {
                Ok(Value::String(text)) => Ok(ToolOutput::text(text)),
                Ok(Value::Null) => Ok(ToolOutput::default()),
                Ok(value) => Ok(ToolOutput::text(value.to_string())),
                Err(error) => Ok(ToolOutput { failed: true, ..ToolOutput::text(error) }),
            }
        })
    }

    fn timeout(&self) -> Duration {
        self.settings.client_tool_timeout
    }

    fn at_once(&self) -> usize {
        self.settings.client_tool_result_queue_size
    }
}

/// Guard of a pending call. Dropping it discards a late result.
struct WaitedFor {
    call_id: String,
    pending: PendingCalls,
}

impl Drop for WaitedFor {
    fn drop(&mut self) {
        locked(&self.pending).remove(&self.call_id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn tool(name: &str, parameters: Value) -> Result<RegisteredTool, ToolRefusal> {
        Ok(RegisteredTool { name: name.into(), description: "d".into(), parameters })
    }

    fn tools(max_count: usize) -> (ClientTools, mpsc::Receiver<ServerMessage>) {
        let (outbox, sent) = Outbox::new(CancellationToken::new());
        let settings = TextGatewaySettings {
            client_tools_max_count: max_count,
            ..TextGatewaySettings::default()
        };
        (ClientTools::new(Arc::new(settings), outbox, PeerMemory::default()), sent)
    }

    #[tokio::test]
    async fn tools_that_take_too_much_memory_are_refused() {
        let (tools, _sent) = tools(50);
        let properties: serde_json::Map<_, _> =
            (0..400).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        let large = |name: &str| tool(name, json!({"type": "object", "properties": properties}));
        let told = tools.clone().register(vec![large("a"), large("b")]).await;
        assert_eq!([told[0].status, told[1].status], ["registered"; 2]);
        // Tools from earlier messages count, too.
        let told = tools.clone().register(vec![large("c"), large("d"), large("e")]).await;
        let error = told[2].error.as_deref();
        assert_eq!(error, Some("Too large: all tools take at most 2048 KiB of memory"));
        let told = tools.register(vec![tool("f", json!({"type": "object"}))]).await;
        assert_eq!(told[0].status, "registered", "there is room for a small one");
    }

    #[test]
    fn tools_after_the_time_limit_of_their_message_are_refused() {
        let settings = TextGatewaySettings::default();
        let wanted = || ["a", "b"].map(|name| tool(name, json!({"type": "object"}))).into();
        let ended = Instant::now();
        let (tools, told) = check_all(wanted(), Vec::new(), &settings, ended);
        assert!(tools.is_empty());
        for registration in told {
            let error = registration.error.as_deref();
            assert_eq!(error, Some("The tools of this message take too long to check"));
        }
        let later = Instant::now() + Duration::from_secs(3_600);
        assert_eq!(check_all(wanted(), Vec::new(), &settings, later).0.len(), 2);
    }

    #[tokio::test]
    async fn each_tool_is_registered_or_refused_with_a_reason() {
        let (tools, _sent) = tools(2);
        let object = || json!({"type": "object"});
        let told = tools
            .clone()
            .register(vec![
                tool("a", object()),
                tool("a", object()),
                tool("b", json!({"type": "string"})),
                tool("b", json!({"type": "object", "properties": 5})),
                tool("b", object()),
                tool("c", object()),
            ])
            .await;
        let errors: Vec<_> = told.iter().map(|r| r.error.as_deref().unwrap_or(r.status)).collect();
        assert_eq!(
            errors[..3],
            [
                "registered",
                "Tool name already exists",
                "`parameters` must be a JSON Schema of type object"
            ]
        );
        assert!(
            errors[3].starts_with("`parameters` is not a JSON Schema: /properties"),
            "{errors:?}"
        );
        assert_eq!(errors[4..], ["registered", "Too many tools: at most 2 per connection"]);
        assert_eq!(tools.tools().len(), 2);
    }

    #[tokio::test]
    async fn a_result_reaches_its_call_once() {
        let (tools, mut sent) = tools(2);
        let call = ToolCall { id: "1".into(), name: "a".into(), arguments: Default::default() };
        let calling = tokio::spawn(tools.call(call.clone()));
        let Some(ServerMessage::ToolCallback { call_id, tool_name, .. }) = sent.recv().await else {
            panic!("no callback")
        };
        assert_eq!(tool_name, "a");
        let result = |call_id: &str| ToolResult {
            call_id: call_id.into(),
            outcome: Ok(json!({"level": 85})),
        };
        assert!(!tools.answer(result("another")));
        assert!(tools.answer(result(&call_id)));
        assert!(!tools.answer(result(&call_id)));
        assert_eq!(calling.await.unwrap(), Ok(ToolOutput::text(r#"{"level":85}"#)));
        let given_up = tools.call(call);
        drop(given_up);
        assert!(locked(&tools.pending).is_empty());
    }
}
