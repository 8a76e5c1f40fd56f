//! Part of `hearken tools` that changes the tools: adds, removes, enables and disables servers, for
//! everybody, one device or one session. Not for decisions, which the server takes.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::server::Server;
use crate::config::EnvVars;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Change {
    /// Add a remote MCP server or a LiteMCP tool permanently
    #[command(after_help = "Examples:\n  \
        hearken tools add weather https://example.com/mcp --bearer-env WEATHER_TOKEN\n  \
        hearken tools add home http://192.168.1.5:8123/mcp --header X-Key=secret --device aa:bb:cc:dd:ee:ff\n  \
        hearken tools add files --env ROOT=/srv -- npx -y some-server   (needs tools.allow_commands_over_api)")]
    Add {
        /// Name
        name: String,
        /// Address: http://... or https://..., of a LiteMCP tool also ws://... or wss://...
        #[arg(
            value_name = "ADDRESS",
            required_unless_present = "program",
            conflicts_with = "program"
        )]
        address: Option<String>,
        /// Program for the server to start, instead of an address
        #[arg(last = true, value_name = "PROGRAM")]
        program: Vec<String>,
        /// Send the bearer token from this variable of this terminal
        #[arg(long, value_name = "VARIABLE")]
        bearer_env: Option<String>,
        /// Send the bearer token from this file on this machine
        #[arg(long, value_name = "FILE", conflicts_with = "bearer_env")]
        bearer_file: Option<PathBuf>,
        /// Header of every request; may be repeated
        #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
        headers: Vec<(String, String)>,
        /// Variable of the program; may be repeated
        #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
        env: Vec<(String, String)>,
        /// Protocol: mcp or litemcp
        #[arg(long, default_value = "mcp", value_parser = ["mcp", "litemcp"])]
        protocol: String,
        /// Device whose conversations may use its tools; may be repeated [default: all]
        #[arg(long = "device", value_name = "ID")]
        devices: Vec<String>,
        /// Longest wait for the result of a call, in milliseconds
        #[arg(long, value_name = "MS")]
        timeout_ms: Option<u64>,
        /// Trust it with its own tools: what it answers makes none of them ask, except locks, payments and the like
        #[arg(long)]
        trust: bool,
    },
    /// Remove a server that was added
    Remove {
        /// Name of the server
        name: String,
    },
    /// Enable a server, or enable a source of tools for a device or session again
    #[command(after_help = "Examples:\n  hearken tools enable weather\n  \
        hearken tools enable weather --device aa:bb:cc:dd:ee:ff")]
    Enable(Switch),
    /// Disable a server, or disable a source of tools for a device or session
    #[command(after_help = "Examples:\n  hearken tools disable weather\n  \
        hearken tools disable builtin --device aa:bb:cc:dd:ee:ff\n  \
        hearken tools disable builtin --session 01234567-89ab-4cde-8f01-23456789abcd\n  \
        hearken tools disable token:0123456789ab --device aa:bb:cc:dd:ee:ff   (tool clients with this token, whatever their names)")]
    Disable(Switch),
}

/// Source to enable or disable, and the scope of it.
#[derive(Debug, clap::Args)]
pub(super) struct Switch {
    /// Name of the server; with a device or session also of any other source, such as builtin, or
    /// token:SERIAL for the tool clients with this token
    name: String,
    /// For this device only
    #[arg(long, value_name = "ID")]
    device: Option<String>,
    /// For this running session only, until it ends; `hearken devices list --json` shows its id
    #[arg(long, value_name = "ID", conflicts_with = "device")]
    session: Option<String>,
}

/// Parses `NAME=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or("use NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn at(parts: &[&str]) -> Vec<String> {
    let path = ["api", "tools", "servers"].iter().chain(parts);
    path.map(|part| (*part).to_owned()).collect()
}

/// Makes the change and prints a confirmation.
///
/// # Errors
/// Fails with the reason if the server cannot be reached or refuses the request.
pub(super) async fn run(change: Change, server: &Server, env: &dyn EnvVars) -> anyhow::Result<()> {
    let done = match change {
        Change::Remove { name } => {
            server.ask(Method::DELETE, &at(&[&name]), None).await?;
            format!("removed {name}")
        }
        Change::Enable(what) => switch(server, &what, true).await?,
        Change::Disable(what) => switch(server, &what, false).await?,
        add => {
            let settings = settings(add, env)?;
            let added = server.ask(Method::POST, &at(&[]), Some(settings)).await?;
            let name = added["name"].as_str().unwrap_or_default();
            format!("added {name}; `hearken tools` shows when it is ready")
        }
    };
    super::print(&done)
}

/// Returns the settings of an added server. Its token is read here, on the machine of the user.
fn settings(add: Change, vars: &dyn EnvVars) -> anyhow::Result<Value> {
    let Change::Add {
        name,
        address,
        program,
        bearer_env,
        bearer_file,
        headers,
        env,
        protocol,
        devices,
        timeout_ms,
        trust,
    } = add
    else {
        bail!("there is nothing to add");
    };
    let mut settings = json!({"name": name, "protocol": protocol, "devices": devices});
    if let Some(address) = address {
        settings["url"] = address.into();
    }
    if let [command, args @ ..] = &program[..] {
        settings["command"] = command.as_str().into();
        settings["args"] = json!(args);
    }
    let bearer = match (bearer_env, bearer_file) {
        (Some(name), _) => {
            Some(vars.get(&name).with_context(|| format!("the variable {name} is not set"))?)
        }
        (None, Some(file)) => Some(
            std::fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?,
        ),
        (None, None) => None,
    };
    if let Some(bearer) = bearer {
        settings["bearer"] = bearer.trim().into();
    }
    let table = |pairs: Vec<(String, String)>| -> Map<String, Value> {
        pairs.into_iter().map(|(name, value)| (name, value.into())).collect()
    };
    settings["headers"] = table(headers).into();
    settings["env"] = table(env).into();
    if let Some(timeout_ms) = timeout_ms {
        settings["timeout_ms"] = timeout_ms.into();
    }
    if trust {
        settings["trust"] = true.into();
    }
    Ok(settings)
}

/// Enables or disables a server, or a source for a device or session.
async fn switch(server: &Server, what: &Switch, on: bool) -> anyhow::Result<String> {
    let word = if on { "enabled" } else { "disabled" };
    let Switch { name, device, session } = what;
    let (whose, id) = match (device, session) {
        (Some(device), _) => ("devices", device.as_str()),
        (None, Some(session)) => ("sessions", session.as_str()),
        (None, None) => {
            let body = json!({"enabled": on});
            server.ask(Method::PUT, &at(&[name, "enabled"]), Some(body)).await?;
            return Ok(format!("{word} {name}"));
        }
    };
    let path = ["api", whose, id, "tools"];
    let now = server.get(&path, &[]).await?;
    let mut off = names(&now["off"]);
    let sources: Vec<String> = now["sources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|s| Some(s["name"].as_str()?.to_owned()))
        .collect();
    // The tool clients with a token need not be connected.
    let is_group = name == "endpoint" || name.starts_with("token:");
    let known = is_group || sources.iter().any(|s| s == name);
    if !on && !known {
        bail!("there is no source of tools `{name}`: use one of {}", sources.join(", "));
    }
    off.retain(|n| n != name);
    if !on {
        off.push(name.clone());
    }
    let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
    server.ask(Method::PUT, &path, Some(json!({"off": off}))).await?;
    Ok(format!("{word} {name} for {id}"))
}

fn names(list: &Value) -> Vec<String> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
