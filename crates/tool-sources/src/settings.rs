//! Settings of one remote server, and their check. Not for reading them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hearken_base::Secret;
use hearken_base::names::are_same;
use hearken_ports::source_names;
use http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::elicitation::ElicitationPolicy;

/// Headers that the protocol sets itself.
const OWN_HEADERS: [&str; 11] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-session-id",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-version",
    "upgrade",
];

/// Protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolProtocol {
    /// The Model Context Protocol, over HTTP or as a program.
    #[default]
    Mcp,
    /// LiteMCP 1.0.0, one tool: over WebSocket, HTTP or as a program.
    LiteMcp,
}

/// Table `[[tools.servers]]`: a remote MCP server or a LiteMCP tool, at an address or as a program
/// that is started and used over its standard streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolServer {
    /// Name of the server and of its tool source: 1 to 64 characters, unique, and not
    /// `device`, `things`, `endpoint`, `builtin`, `state`, `client` or `speakers`. Required.
    pub name: String,
    /// Connect to the server. `false` retains its settings without connecting.
    pub enabled: bool,
    /// Protocol of the server: `mcp` for the Model Context Protocol, `litemcp` for a single
    /// LiteMCP tool.
    pub protocol: ToolProtocol,
    /// Ids of the devices that may use the tools of this server. Empty allows all.
    pub devices: Vec<String>,
    /// Address of the server: `http://` or `https://` for MCP over Streamable HTTP;
    /// `ws://`, `wss://`, `http://` or `https://` for LiteMCP. Set either `url` or
    /// `command`.
    pub url: String,
    /// Program to start as a tool server, used over its standard streams. From the server's
    /// environment it inherits only `PATH`, `HOME`, `LANG`, `LC_*`, `TZ` and `TMPDIR`. Set
    /// either `command` or `url`.
    pub command: String,
    /// Arguments of the program. They are visible to administrators and to all users of the
    /// machine: put keys into `env` instead. Only with `command`.
    pub args: Vec<String>,
    /// Environment variables of the program: everything it needs beyond the inherited ones,
    /// such as keys and proxies. Only with `command`.
    pub env: BTreeMap<String, String>,
    /// HTTP headers of every request, such as `{ X-Key = "..." }`. Headers that the
    /// protocol sets are rejected. Only with `url`.
    pub headers: BTreeMap<String, Secret>,
    /// Bearer token. Use only one of `bearer`, `bearer_env` and `bearer_file`, and only
    /// with `url`; empty sends none.
    pub bearer: Secret,
    /// Name of an environment variable that contains the bearer token. The server does not
    /// start if the variable is not set.
    pub bearer_env: String,
    /// File that contains the bearer token.
    pub bearer_file: PathBuf,
    /// Maximum wait for the result of a tool call.
    #[schemars(range(min = 100, max = 600_000))]
    pub timeout_ms: u64,
    /// Maximum wait for the server's list of tools after it was started or connected.
    #[schemars(range(min = 100, max = 600_000))]
    pub start_timeout_ms: u64,
    /// Fill in forms that the server requests during a call with the defaults it proposes.
    /// `false` declines them, because no user can be asked. Only for MCP.
    pub accept_defaults: bool,
    /// Trust the server with its own tools: its results do not cause confirmation questions
    /// for them. Tools that concern locks, payments and the like still require
    /// confirmation.
    pub trust: bool,
}

impl Default for ToolServer {
    fn default() -> Self {
        Self {
            name: String::new(),
            enabled: true,
            protocol: ToolProtocol::Mcp,
            devices: Vec::new(),
            url: String::new(),
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            headers: BTreeMap::new(),
            bearer: Secret::default(),
            bearer_env: String::new(),
            bearer_file: PathBuf::new(),
            timeout_ms: 10_000,
            start_timeout_ms: 30_000,
            accept_defaults: false,
            trust: false,
        }
    }
}

/// Reason why the settings of a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`tools.servers`, {server}: {reason}")]
pub struct ToolServerError {
    /// Name of the server, or its position in the list.
    pub server: String,
    /// Description of the mistake and of the allowed values.
    pub reason: String,
}

/// Connection type of a server, with its parameters.
#[derive(Debug, Clone)]
pub(super) enum ServerTransport {
    /// Server at an address.
    Http {
        /// Address.
        url: Url,
        /// Headers of every request.
        headers: Vec<(HeaderName, HeaderValue)>,
        /// Bearer token, if any.
        bearer: Option<Secret>,
    },
    /// Server as a child process.
    Stdio {
        /// Program.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Environment variables, besides those of every child process.
        env: BTreeMap<String, String>,
    },
}

/// Server with checked settings.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) protocol: ToolProtocol,
    pub(super) transport: ServerTransport,
    pub(super) timeout: Duration,
    pub(super) start_timeout: Duration,
    pub(super) elicitation: ElicitationPolicy,
}

impl ToolServer {
    /// Checks the settings.
    pub(super) fn checked(&self) -> Result<Server, ToolServerError> {
        let wrong = |reason: String| ToolServerError {
            server: if self.name.is_empty() { "one of them".into() } else { self.name.clone() },
            reason,
        };
        if self.name.is_empty() || self.name.len() > 64 || self.name.contains(char::is_control) {
            return Err(wrong("`name` must have 1 to 64 characters".into()));
        }
        if self.name.chars().all(|c| c == '.') {
            // Clients and proxies drop a part `.` or `..` of a path: nobody could remove such a server.
            return Err(wrong("`name` must have a character other than `.`".into()));
        }
        let own = source_names::ALL;
        if own.iter().any(|name| are_same(name, &self.name)) {
            return Err(wrong(format!("`name` may not be one of {}", own.join(", "))));
        }
        if self.devices.iter().any(|d| d.trim().is_empty()) {
            return Err(wrong("`devices` has an empty id".into()));
        }
        for (key, value) in
            [("timeout_ms", self.timeout_ms), ("start_timeout_ms", self.start_timeout_ms)]
        {
            if !(100..=600_000).contains(&value) {
                return Err(wrong(format!("`{key}` is {value}: use 100 to 600000")));
            }
        }
        if self.accept_defaults && self.protocol == ToolProtocol::LiteMcp {
            let why = "`accept_defaults` is for MCP servers only: remove it";
            return Err(wrong(why.into()));
        }
        let transport = match (self.url.is_empty(), self.command.is_empty()) {
            (false, true) => self.at_an_address().map_err(wrong)?,
            (true, false) => self.as_a_child().map_err(wrong)?,
            _ => return Err(wrong("name either `url` or `command`".into())),
        };
        Ok(Server {
            name: self.name.clone(),
            protocol: self.protocol,
            transport,
            timeout: Duration::from_millis(self.timeout_ms),
            start_timeout: Duration::from_millis(self.start_timeout_ms),
            elicitation: if self.accept_defaults {
                ElicitationPolicy::Defaults
            } else {
                ElicitationPolicy::Declined
            },
        })
    }

    fn at_an_address(&self) -> Result<ServerTransport, String> {
        if !self.args.is_empty() || !self.env.is_empty() {
            return Err(
                "`args` and `env` are for a `command` only: remove them, or use a `command`".into(),
            );
        }
        let url: Url = self.url.parse().map_err(|e| format!("cannot parse `url`: {e}"))?;
        let (schemes, allowed): (&[&str], _) = match self.protocol {
            ToolProtocol::Mcp => (&["http", "https"], "http:// or https://"),
            ToolProtocol::LiteMcp => {
                (&["ws", "wss", "http", "https"], "ws://, wss://, http:// or https://")
            }
        };
        if !schemes.contains(&url.scheme()) || url.host().is_none() {
            return Err(format!("`url` must be {allowed} and name a host"));
        }
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            let header: HeaderName =
                name.parse().map_err(|_| format!("`headers`: `{name}` is no header name"))?;
            if OWN_HEADERS.contains(&header.as_str()) {
                return Err(format!("`headers`: `{name}` is set by the protocol: remove it"));
            }
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| format!("`headers`: the value of `{name}` cannot be sent"))?;
            value.set_sensitive(true);
            headers.push((header, value));
        }
        let sendable = HeaderValue::from_str(self.bearer.expose()).is_ok();
        if !sendable {
            return Err(
                "`bearer` contains characters that a header cannot contain: use visible characters"
                    .into(),
            );
        }
        let bearer = (!self.bearer.is_empty()).then(|| self.bearer.clone());
        Ok(ServerTransport::Http { url, headers, bearer })
    }

    fn as_a_child(&self) -> Result<ServerTransport, String> {
        if !self.headers.is_empty() || !self.bearer.is_empty() {
            return Err(
                "`headers` and `bearer` are for a `url` only: remove them, or use a `url`".into()
            );
        }
        let bad = |text: &String| text.contains('\0');
        if bad(&self.command) || self.args.iter().any(bad) {
            return Err("`command` and `args` may not hold a null character".into());
        }
        if let Some(name) =
            self.env.iter().find(|(k, v)| k.is_empty() || k.contains(['=', '\0']) || bad(v))
        {
            return Err(format!("`env`: `{}` cannot be a variable", name.0));
        }
        let command = self.command.clone();
        let args = self.args.clone();
        let env = self.env.clone();
        Ok(ServerTransport::Stdio { command, args, env })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        let server: ToolServer = toml::from_str(text).unwrap();
        server.checked().unwrap_err().to_string()
    }

    #[test]
    fn wrong_settings_are_named_with_their_remedy() {
        for (text, says) in [
            ("url = 'http://a/'", "`name` must have"),
            ("name = 'builtin'\nurl = 'http://a/'", "`name` may not be one of device,"),
            ("name = '..'\nurl = 'http://a/'", "a character other than `.`"),
            ("name = 'a'\nurl = 'http://a/'\ndevices = ['']", "`devices` has an empty id"),
            ("name = 'a'", "either `url` or `command`"),
            ("name = 'a'\nurl = 'http://a/'\ncommand = 'b'", "either `url` or `command`"),
            ("name = 'a'\nurl = 'ws://a/'", "must be http:// or https://"),
            (
                "name = 'a'\nurl = 'ftp://a/'\nprotocol = 'litemcp'",
                "must be ws://, wss://, http://",
            ),
            (
                "name = 'a'\nurl = 'http://a/'\nheaders = { Upgrade = 'b' }",
                "set by the protocol: remove it",
            ),
            (
                "name = 'a'\nurl = 'http://a/'\nargs = ['b']",
                "`args` and `env` are for a `command` only",
            ),
            (
                "name = 'a'\nurl = 'http://a/'\nheaders = { Accept = 'b' }",
                "set by the protocol: remove it",
            ),
            ("name = 'a'\nurl = 'http://a/'\nbearer = \"b\\n\"", "that a header cannot contain"),
            ("name = 'a'\ncommand = 'b'\nbearer = 'c'", "are for a `url`"),
            ("name = 'a'\ncommand = 'b'\nenv = { 'x=y' = 'c' }", "`env`: `x=y`"),
            ("name = 'a'\ncommand = 'b'\ntimeout_ms = 1", "`timeout_ms` is 1"),
            (
                "name = 'a'\ncommand = 'b'\nprotocol = 'litemcp'\naccept_defaults = true",
                "`accept_defaults` is for MCP",
            ),
        ] {
            let message = message(text);
            assert!(
                message.starts_with("`tools.servers`, ") && message.contains(says),
                "{message}"
            );
        }
    }

    #[test]
    fn no_server_takes_the_name_of_a_source_of_this_server() {
        let generator = schemars::SchemaGenerator::default();
        let schema = generator.into_root_schema_for::<ToolServer>();
        let documented = schema.pointer("/properties/name/description");
        let documented = documented.and_then(|text| text.as_str()).unwrap();
        for name in source_names::ALL {
            assert!(documented.contains(&format!("`{name}`")), "{name}: {documented}");
            for like in [(*name).to_owned(), name.to_uppercase(), format!(" {name}\u{200b} ")] {
                let url = "http://a/".to_owned();
                let server = ToolServer { name: like.clone(), url, ..ToolServer::default() };
                let refused = server.checked().unwrap_err().to_string();
                assert!(refused.contains("`name` may not be one of device, "), "{like}: {refused}");
                assert!(refused.contains(name), "{like}: {refused}");
            }
        }
    }

    #[test]
    fn all_ways_to_a_litemcp_tool_are_accepted() {
        for transport in
            ["url = 'ws://a'", "url = 'wss://a/b?c=d'", "url = 'http://a'", "command = 'c'"]
        {
            let text = format!("name = 'a'\nprotocol = 'litemcp'\n{transport}");
            let server: ToolServer = toml::from_str(&text).unwrap();
            assert_eq!(server.checked().unwrap().protocol, ToolProtocol::LiteMcp);
        }
    }

    #[test]
    fn both_ways_are_accepted() {
        let text = "name = 'a'\nurl = 'https://a/mcp'\nheaders = { X-Key = 'k' }\nbearer = 'b'";
        let server: ToolServer = toml::from_str(text).unwrap();
        assert!(matches!(
            server.checked().unwrap().transport,
            ServerTransport::Http { bearer: Some(_), .. }
        ));
        let text = "name = 'a'\ncommand = 'npx'\nargs = ['-y', 'server']\nenv = { KEY = 'k' }";
        let server: ToolServer = toml::from_str(text).unwrap();
        assert!(matches!(server.checked().unwrap().transport, ServerTransport::Stdio { .. }));
    }
}
