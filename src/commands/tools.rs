//! `hearken tools`: lists the sources of tools of a server, changes them, calls a tool, creates
//! tokens for tool clients, and offers a tool of the server to programs. Not for decisions, which
//! the server takes.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use hearken_base::output::one_line;
use hearken_tool_sources::litemcp::LiteMcpServer;
use hearken_tool_sources::{AgentTokens, DEFAULT_AGENT};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::fs::File;

use super::server::{Server, ServerArgs, TIMEOUT};
use super::tool_servers::Change;
use crate::config::{self, EnvVars};
use crate::http;

/// List the tools of a server, call one, or create tokens for tool clients
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hearken tools\n  hearken tools list --json\n  \
    hearken tools call weather forecast '{\"city\": \"Berlin\"}'\n  \
    hearken tools add weather https://example.com/mcp --bearer-env WEATHER_TOKEN\n  \
    hearken tools disable weather --device aa:bb:cc:dd:ee:ff\n  \
    hearken tools token --agent default\n  hearken tools revoke 0123456789ab\n  hearken tools serve get_weather --url http://127.0.0.1:9400\n  \
    MCP_ENDPOINT=\"ws://127.0.0.1:9400/mcp_endpoint/mcp/?token=$(hearken tools token)\" xiaozhi-mcp NAME")]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List all sources, with their states and tools [default]
    List {
        /// Agent whose tool clients are listed
        #[arg(long, value_name = "NAME", default_value = DEFAULT_AGENT)]
        agent: String,
        /// Print JSON, including the arguments of tools, instead of a list
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Change(Change),
    /// Show the changed definitions of a source's tools, and accept exactly these; asks before at a
    /// terminal
    #[command(after_help = "Examples:\n  hearken tools accept weather\n  \
        hearken tools accept files delete_file\n  hearken tools accept files --yes")]
    Accept {
        /// Name of the source
        source: String,
        /// Name of one tool at its source [default: all]
        tool: Option<String>,
        /// Agent of a tool client
        #[arg(long, value_name = "NAME", default_value = DEFAULT_AGENT)]
        agent: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Call a tool and print its answer
    Call {
        /// Name of the source
        source: String,
        /// Name of the tool at its source
        tool: String,
        /// Arguments: a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        /// Agent whose tool clients are called
        #[arg(long, value_name = "NAME", default_value = DEFAULT_AGENT)]
        agent: String,
    },
    /// Print a token for the tool clients of an agent, also while no server runs; standard error gets
    /// its serial
    Token {
        /// Agent
        #[arg(long, value_name = "NAME", default_value = DEFAULT_AGENT)]
        agent: String,
    },
    /// List the tokens that were made in the console or are revoked
    Tokens,
    /// Revoke a token for good, and end its connections
    #[command(after_help = "Example:\n  hearken tools revoke 0123456789ab")]
    Revoke {
        /// Serial of the token
        serial: String,
    },
    /// Offer one of the server's own tools to a program: uses LiteMCP on standard input and output,
    /// and exits at the end of its input
    #[command(after_help = "Examples:\n  hearken tools serve get_weather\n  \
        printf '{\"version\":[1,0,0],\"id\":1,\"type\":\"get\",\"data\":{}}\\n\\n\\n' | hearken tools serve get_current_time")]
    Serve {
        /// Name of the tool
        tool: String,
    },
}

/// Sends one request to the server, or creates a token.
///
/// # Errors
/// Fails with the reason if the server cannot be reached or refuses the request.
pub async fn run(args: Args, env: &dyn EnvVars) -> anyhow::Result<()> {
    let list = Command::List { agent: DEFAULT_AGENT.into(), json: false };
    match args.command.unwrap_or(list) {
        Command::List { agent, json } => {
            let server = Server::new(&args.server, env)?;
            let query = [("agent", agent.as_str())];
            let inventory = server.get(&["api", "tools"], &query).await?;
            let text =
                if json { serde_json::to_string_pretty(&inventory)? } else { listed(&inventory) };
            super::print(&text)
        }
        Command::Change(change) => {
            let server = Server::new(&args.server, env)?;
            super::tool_servers::run(change, &server, env).await
        }
        Command::Accept { source, tool, agent, yes } => {
            let server = Server::new(&args.server, env)?;
            accept(&server, &source, tool.as_deref(), &agent, yes).await
        }
        Command::Call { source, tool, arguments, agent } => {
            let arguments: Value = serde_json::from_str(&arguments)
                .context("the arguments are not JSON: use '{\"name\": \"value\"}'")?;
            if !arguments.is_object() {
                bail!("the arguments are not a JSON object: use '{{\"name\": \"value\"}}'");
            }
            let body =
                json!({"source": source, "tool": tool, "arguments": arguments, "agent": agent});
            let server = Server::new(&args.server, env)?;
            let path = ["api", "tools", "call"].map(str::to_owned);
            let answer = server.ask(Method::POST, &path, Some(body)).await?;
            let told = render(&answer);
            if answer["failed"] == true {
                bail!("the tool reported a failure: {told}");
            }
            super::print(&told)
        }
        Command::Tokens => {
            let answer =
                Server::new(&args.server, env)?.get(&["api", "tools", "tokens"], &[]).await?;
            super::print(&tokens(&answer))
        }
        Command::Revoke { serial } => {
            let path = ["api", "tools", "tokens", &serial].map(str::to_owned);
            Server::new(&args.server, env)?.ask(Method::DELETE, &path, None).await?;
            super::print(&format!("revoked {serial}"))
        }
        Command::Serve { tool } => serve(tool, &Server::new(&args.server, env)?).await,
        Command::Token { agent } => token(&agent, args.server.config.as_ref(), env),
    }
}

/// Shows the changed definitions of a source's tools, or of one of them, and accepts them. The server
/// refuses if one of them is another one by then. Asks the user before, unless `is_agreed`.
async fn accept(
    server: &Server,
    source: &str,
    tool: Option<&str>,
    agent: &str,
    is_agreed: bool,
) -> anyhow::Result<()> {
    let inventory = server.get(&["api", "tools"], &[("agent", agent)]).await?;
    let tools = tools_of(&inventory, source, tool);
    let changed: Vec<&Value> = tools.iter().copied().filter(|t| t["changed"] == true).collect();
    for definition in &changed {
        defined(source, definition).iter().try_for_each(|line| super::note(line))?;
    }
    if !changed.is_empty() && !is_agreed && io::stdin().is_terminal() && !agrees()? {
        bail!("nothing was accepted");
    }
    let hash =
        |tool: &&Value| Some((tool["name"].as_str()?.to_owned(), tool["definition_hash"].clone()));
    let hashes: Map<String, Value> = tools.iter().filter_map(hash).collect();
    let body = json!({"source": source, "tool": tool, "agent": agent, "definition_hashes": hashes});
    let path = ["api", "tools", "accept"].map(str::to_owned);
    let answer = server.ask(Method::POST, &path, Some(body)).await?;
    super::print(&format!("accepted {} changed definitions", answer["accepted"]))
}

/// Returns the tools of a source, or one of them.
fn tools_of<'a>(inventory: &'a Value, source: &str, tool: Option<&str>) -> Vec<&'a Value> {
    let sources = inventory["sources"].as_array().into_iter().flatten();
    let own = sources.filter(|one| one["name"] == source);
    let tools = own.flat_map(|one| one["tools"].as_array().into_iter().flatten());
    tools.filter(|one| tool.is_none_or(|name| one["name"] == name)).collect()
}

/// Renders a definition for people, whole: the user accepts what is shown.
fn defined(source: &str, tool: &Value) -> [String; 3] {
    let text = |key: &str| one_line(tool[key].as_str().unwrap_or_default());
    let mark = if tool["destructive"] == true { "  [destructive]" } else { "" };
    [
        format!("{}/{}{mark}", one_line(source), text("name")),
        format!("  {}", text("description")),
        format!("  arguments: {}", one_line(&tool["parameters"].to_string())),
    ]
}

/// Asks the user at the terminal whether to accept what was shown.
fn agrees() -> anyhow::Result<bool> {
    super::note("Accept these definitions? [y/N]")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("standard input")?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

async fn serve(tool: String, server: &Server) -> anyhow::Result<()> {
    let url = server.at(&["litemcp".to_owned(), tool]);
    let service = LiteMcpServer::connect(&url, server.token().as_ref(), TIMEOUT).await;
    let service = service.map_err(|reason| {
        anyhow!("no tool at {url}: {reason} (--url, --admin-token; is the server running?)")
    })?;
    let file = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().map(std::fs::File::from);
    let input = file(io::stdin().as_fd()).context("there is no standard input")?;
    let output = file(io::stdout().as_fd()).context("there is no standard output")?;
    let ended = service.over_streams(File::from_std(input), File::from_std(output)).await;
    ended.context("standard input or output failed")
}

fn token(agent: &str, file: Option<&PathBuf>, env: &dyn EnvVars) -> anyhow::Result<()> {
    let config = super::configuration(file.map(PathBuf::as_path), env)?;
    let folder = config::env::data_dir(&config.server.data_dir, env);
    let tokens = AgentTokens::new(&http::secret(&config.auth, &folder)?, &[]);
    let (token, serial) = tokens.mint(agent).context("--agent must have 1 to 64 bytes")?;
    super::print(&token)?;
    super::note(&format!("serial {serial}"))
}

/// Renders the tokens of tool clients for people.
fn tokens(answer: &Value) -> String {
    let line = |token: &Value| {
        let text = |key: &str| one_line(token[key].as_str().unwrap_or_default());
        let state = match token["revoked"].as_str() {
            Some(at) => format!("revoked {at}"),
            None => "good".into(),
        };
        let made = match token["made"].as_str() {
            Some(at) => format!("for {}, made {at} by {}", text("agent"), text("made_by")),
            None => "made by a command".into(),
        };
        let name = text("name");
        let name = if name.is_empty() { String::new() } else { format!("  {name}") };
        format!("{}{name}  ({made}; {state})", text("serial"))
    };
    let lines: Vec<String> = answer["tokens"].as_array().into_iter().flatten().map(line).collect();
    if lines.is_empty() {
        return "no tokens: `hearken tools token` prints one".into();
    }
    lines.join("\n")
}

/// Renders the sources and their tools for people.
fn listed(inventory: &Value) -> String {
    let mut lines = Vec::new();
    for source in inventory["sources"].as_array().into_iter().flatten() {
        let text = |key: &str| one_line(source[key].as_str().unwrap_or_default());
        let tools = source["tools"].as_array().cloned().unwrap_or_default();
        let reason = match text("reason").as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let name = text("name");
        let state = text("state");
        let from = match (text("origin").as_str(), text("kind")) {
            ("configuration", kind) => format!("configured, {kind}"),
            ("api", kind) => format!("added, {kind}"),
            ("endpoint", _) => match text("key").as_str() {
                "" => "dialled in".into(),
                key => format!("dialled in, {key}"),
            },
            _ => "built in".into(),
        };
        let devices: Vec<&str> =
            source["devices"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let whose = match devices.join(", ") {
            devices if devices.is_empty() => String::new(),
            devices => format!(", for {devices}"),
        };
        let used = used(&source["usage"]);
        let count = tools.len();
        lines.push(format!("{name}  ({from}, {state}{reason}, {count} tools{whose}{used})"));
        let warning = text("warning");
        if !warning.is_empty() {
            lines.push(format!("  warning: {warning}"));
        }
        for tool in tools {
            let about = tool["description"].as_str().unwrap_or_default();
            let about = one_line(about.lines().next().unwrap_or_default());
            let about: String = about.chars().take(80).collect();
            let mark = match (tool["changed"] == true, tool["destructive"] == true) {
                (true, _) => "[changed: `hearken tools accept` accepts it] ",
                (false, true) => "[destructive] ",
                (false, false) => "",
            };
            let name = one_line(tool["name"].as_str().unwrap_or_default());
            lines.push(format!("  {name}  {mark}{about}"));
        }
    }
    if lines.is_empty() {
        return "no sources of tools: add one with `hearken tools add`, or let a tool client dial in \
                with the token of `hearken tools token`"
            .into();
    }
    lines.join("\n")
}

/// Renders the calls of a source and what they took, if there were any.
fn used(usage: &Value) -> String {
    let calls = usage["calls"].as_u64().unwrap_or_default();
    if calls == 0 {
        return String::new();
    }
    let bytes = |key: &str| usage[key].as_u64().unwrap_or_default();
    let seconds = usage["seconds"].as_f64().unwrap_or_default();
    format!(
        "; {calls} calls, {} bytes sent, {} received, {seconds:.1} s",
        bytes("bytes_sent"),
        bytes("bytes_received")
    )
}

/// Renders a tool's answer for people.
fn render(answer: &Value) -> String {
    let parts = answer["content"].as_array().into_iter().flatten().map(|part| {
        match part["text"].as_str() {
            Some(text) => text.to_owned(),
            None => {
                let bytes = part["base64"].as_str().map_or(0, str::len) / 4 * 3;
                let kind = part["mime_type"].as_str().unwrap_or_default();
                format!("[a picture: {kind}, {bytes} bytes]")
            }
        }
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_or_description_hides_the_mark_of_a_tool() {
        let tool = json!({
            "name": "open\x1b[2K\r  safe\n  other", "description": "\x1b[1Aopens\r it\nmore",
            "changed": true,
        });
        let source = json!({
            "name": "a\nb\x1b[8m", "state": "ready", "reason": "\r", "origin": "endpoint",
            "devices": [], "usage": {}, "tools": [tool],
        });
        let mut part = source.clone();
        part["warning"] = json!("1 of its 9 tools\n\x1b[2K");
        assert!(
            super::listed(&json!({"sources": [part]})).contains("\n  warning: 1 of its 9 tools")
        );
        let listed = listed(&json!({"sources": [source]}));
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!(lines.len(), 2, "{listed:?}");
        assert!(lines[1].contains("[changed"), "{listed:?}");
        assert!(!listed.contains(['\x1b', '\r']), "{listed:?}");
        let token = json!({"serial": "1", "name": "x\n2", "agent": "\x1b[2K"});
        let tokens = tokens(&json!({"tokens": [token]}));
        assert!(!tokens.contains(['\x1b', '\n']), "{tokens:?}");
    }
}
