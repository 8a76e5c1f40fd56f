//! LiteMCP: our client with our server over every transport, and our server with unusual clients.
//! This file has what they share: test tools and a server for them. Unusual servers are tested in
//! `crates/tool-sources/tests`.

mod looped;
mod server;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::{App, HttpServer, web};
use futures_util::future::BoxFuture;
use hearken::config::{AuthRequired, Config};
use hearken::http::{AccessControl, Auth, LiteMcp, OtaRules, litemcp_routes};
use hearken_base::Secret;
use hearken_ports::{Tool, ToolCall, ToolContent, ToolError, ToolOutput, ToolSource};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The admin token of servers that require one.
const ADMIN: &str = "the admin token of the tests";
/// The secret of their device tokens.
const SECRET: &str = "the secret of the tests' tokens";
/// Time limit of each test tool.
const TOOL_WITHIN: Duration = Duration::from_secs(2);

/// Records the start and end of calls of `waits`, which does not end by itself.
#[derive(Clone, Default)]
struct Marks(Arc<Mutex<Vec<&'static str>>>);

impl Marks {
    fn add(&self, mark: &'static str) {
        self.0.lock().unwrap().push(mark);
    }

    fn count(&self, mark: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|m| **m == mark).count()
    }
}

/// Records the drop of a call.
struct Ends(Marks);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.add("ended");
    }
}

/// The test tools: `subtract`, `say 好`, `picture`, `fail`, `waits`.
struct Own(Marks);

impl ToolSource for Own {
    fn name(&self) -> &str {
        "own"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let tool = |name: &str, parameters: Value| Tool {
            name: name.into(),
            description: format!("Does {name}"),
            parameters,
            finishes: false,
            destructive: false,
        };
        let number = json!({"type": "number", "description": "A number", "examples": [2]});
        let add = json!({
            "type": "object",
            "properties": {"a": number, "note": {"type": "string"}, "b": number},
            "required": ["b", "a"],
        });
        let say = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let nothing = json!({"type": "object"});
        let rest = ["picture", "fail", "waits"].map(|name| tool(name, nothing.clone()));
        [tool("subtract", add), tool("say 好", say)].into_iter().chain(rest).collect()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let marks = self.0.clone();
        Box::pin(async move {
            let text = |name: &str| call.arguments[name].as_str().unwrap_or_default().to_owned();
            match call.name.as_str() {
                "subtract" => {
                    let number = |name: &str| call.arguments[name].as_f64().unwrap();
                    Ok(ToolOutput::text((number("a") - number("b")).to_string()))
                }
                "say 好" => Ok(ToolOutput::text(text("text"))),
                "picture" => {
                    let mime_type = "image/png".into();
                    let base64 = "iVBORw==".into();
                    let content = vec![ToolContent::Image { mime_type, base64 }];
                    Ok(ToolOutput { content, failed: false })
                }
                "fail" => Err(ToolError::Failed("no rain".into())),
                _ => {
                    marks.add("begun");
                    let _ends = Ends(marks);
                    std::future::pending().await
                }
            }
        })
    }

    fn timeout(&self) -> Duration {
        TOOL_WITHIN
    }
}

/// A server of these tools only, in threads of its own; stops when dropped.
struct OwnServer {
    address: SocketAddr,
    marks: Marks,
    process: CancellationToken,
    ended: Option<std::thread::JoinHandle<()>>,
}

impl OwnServer {
    /// Starts a server that accepts all clients, or only clients with a token.
    async fn start(required: AuthRequired) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap(), required).await
    }

    async fn at(listener: TcpListener, required: AuthRequired) -> Self {
        hearken_outbound::tls::choose_provider();
        let address = listener.local_addr().unwrap();
        let marks = Marks::default();
        let process = CancellationToken::new();
        let own = Arc::new(Own(marks.clone()));
        let token = process.clone();
        let (tell, told) = oneshot::channel();
        let ended = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let folder = tempfile::tempdir().unwrap();
                let mut config = Config::default();
                config.auth.required = required;
                config.auth.admin_token = Secret::new(ADMIN);
                config.auth.secret = Secret::new(SECRET);
                let auth = Auth::new(&config.auth, "127.0.0.1", folder.path()).unwrap();
                let store = hearken_store::open(&Secret::default(), folder.path()).unwrap();
                let access = AccessControl::new(auth, OtaRules::new(&config.ota).unwrap(), store);
                let access = web::Data::new(access);
                let tools = Arc::new(LiteMcp::new(vec![own], 100, token.clone()));
                let app = move || {
                    let tools = Arc::clone(&tools);
                    App::new().app_data(access.clone()).configure(|s| litemcp_routes(s, tools))
                };
                let server = HttpServer::new(app).workers(1).disable_signals();
                let running = server.listen(listener).unwrap().run();
                let handle = running.handle();
                tell.send(()).unwrap();
                let end = async {
                    token.cancelled().await;
                    handle.stop(false).await;
                };
                let (served, ()) = tokio::join!(running, end);
                served.unwrap();
            });
        });
        told.await.unwrap();
        Self { address, marks, process, ended: Some(ended) }
    }

    fn url(&self, scheme: &str, tool: &str) -> String {
        format!("{scheme}://{}/litemcp/{tool}", self.address)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.process.cancel();
        let ended = self.ended.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server failed");
    }
}
