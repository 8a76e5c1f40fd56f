//! The settings of one remote server, and whether they make sense. Not where they are read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hearken_base::Secret;
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use url::Url;

use super::elicitation::Questions;

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

/// Names of sources that are always there.
pub(super) const RESERVED: [&str; 4] =
    ["device", "things", super::agent::NAME, super::builtin::NAME];

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolProtocol {
    /// The Model Context Protocol, over HTTP or as a program.
    #[default]
    Mcp,
    /// LiteMCP 1.0.0, one tool: over WebSocket, HTTP or as a program.
    LiteMcp,
}

/// A remote MCP server, or a LiteMCP tool: an address, or a program that is started and spoken to over its standard
/// input and output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolServer {
    /// Its name, unique among them; also the name of the source.
    pub name: String,
    /// False keeps the settings and does not connect.
    pub enabled: bool,
    /// What it speaks.
    pub protocol: ToolProtocol,
    /// The ids of the devices whose conversations have its tools; empty: all.
    pub devices: Vec<String>,
    /// `http(s)://...` of a server that speaks Streamable HTTP, or also `ws(s)://...` of a LiteMCP
    /// tool; empty where a program is named.
    pub url: String,
    /// The program; empty where an address is named.
    pub command: String,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The program's variables. Of ours it gets `PATH`, `HOME` and `LANG` only.
    pub env: BTreeMap<String, String>,
    /// Headers of every request to the address.
    pub headers: BTreeMap<String, Secret>,
    /// Sent to the address as a bearer token; empty sends none. A LiteMCP tool gets it as
    /// `Authorization` and as `Authentication`, but for those that `headers` has.
    pub bearer: Secret,
    /// The environment variable that holds the bearer token.
    pub bearer_env: String,
    /// The file that holds the bearer token.
    pub bearer_file: PathBuf,
    /// Longest wait for the result of a call.
    pub timeout_ms: u64,
    /// Longest wait for the program or address to say what tools it has.
    pub start_timeout_ms: u64,
    /// A form that the server wants filled in during a call is filled with the defaults that it
    /// proposes. False tells the server that nobody can be asked; a LiteMCP tool asks nothing.
    pub accept_defaults: bool,
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
        }
    }
}

/// Why the settings of a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`tools.servers`, {server}: {reason}")]
pub struct ToolServerError {
    /// The server, by name or place.
    pub server: String,
    /// What is wrong, and what may stand there.
    pub reason: String,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// At an address.
    Http {
        /// The address.
        url: Url,
        /// Headers of every request.
        headers: Vec<(HeaderName, HeaderValue)>,
        /// Bearer token, if any.
        bearer: Option<Secret>,
    },
    /// As a child process.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables, beside those that every child gets.
        env: BTreeMap<String, String>,
    },
}

/// A server whose settings are checked.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) protocol: ToolProtocol,
    pub(super) way: Way,
    pub(super) timeout: Duration,
    pub(super) start_timeout: Duration,
    pub(super) elicitation: Questions,
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
        if RESERVED.contains(&self.name.as_str()) {
            return Err(wrong(format!("`name` may not be one of {}", RESERVED.join(", "))));
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
            let why =
                "`accept_defaults` is for MCP: a LiteMCP tool asks for no forms; leave it out";
            return Err(wrong(why.into()));
        }
        let way = match (self.url.is_empty(), self.command.is_empty()) {
            (false, true) => self.at_an_address().map_err(wrong)?,
            (true, false) => self.as_a_child().map_err(wrong)?,
            _ => return Err(wrong("name either `url` or `command`".into())),
        };
        Ok(Server {
            name: self.name.clone(),
            protocol: self.protocol,
            way,
            timeout: Duration::from_millis(self.timeout_ms),
            start_timeout: Duration::from_millis(self.start_timeout_ms),
            elicitation: if self.accept_defaults {
                Questions::Defaults
            } else {
                Questions::Declined
            },
        })
    }

    fn at_an_address(&self) -> Result<Way, String> {
        if !self.args.is_empty() || !self.env.is_empty() {
            return Err("`args` and `env` are for programs, not for a `url`".into());
        }
        let url: Url = self.url.parse().map_err(|e| format!("`url` cannot be read: {e}"))?;
        let (schemes, told): (&[&str], _) = match self.protocol {
            ToolProtocol::Mcp => (&["http", "https"], "http:// or https://"),
            ToolProtocol::LiteMcp => {
                (&["ws", "wss", "http", "https"], "ws://, wss://, http:// or https://")
            }
        };
        if !schemes.contains(&url.scheme()) || url.host().is_none() {
            return Err(format!("`url` must be {told} and name a host"));
        }
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            let header: HeaderName =
                name.parse().map_err(|_| format!("`headers`: `{name}` is no header name"))?;
            if OWN_HEADERS.contains(&header.as_str()) {
                return Err(format!("`headers`: `{name}` is set by the protocol itself"));
            }
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| format!("`headers`: the value of `{name}` cannot be sent"))?;
            value.set_sensitive(true);
            headers.push((header, value));
        }
        let sendable = HeaderValue::from_str(self.bearer.expose()).is_ok();
        if !sendable {
            return Err("`bearer` has characters that no header may have".into());
        }
        let bearer = (!self.bearer.is_empty()).then(|| self.bearer.clone());
        Ok(Way::Http { url, headers, bearer })
    }

    fn as_a_child(&self) -> Result<Way, String> {
        if !self.headers.is_empty() || !self.bearer.is_empty() {
            return Err("`headers` and `bearer` are for a `url`, not for programs".into());
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
        let (command, args, env) = (self.command.clone(), self.args.clone(), self.env.clone());
        Ok(Way::Stdio { command, args, env })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let server: ToolServer = toml::from_str(text).unwrap();
        server.checked().unwrap_err().to_string()
    }

    #[test]
    fn wrong_settings_are_named_with_their_remedy() {
        for (text, says) in [
            ("url = 'http://a/'", "`name` must have"),
            ("name = 'builtin'\nurl = 'http://a/'", "`name` may not be one of device,"),
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
                "by the protocol itself",
            ),
            ("name = 'a'\nurl = 'http://a/'\nargs = ['b']", "`args` and `env` are for programs"),
            ("name = 'a'\nurl = 'http://a/'\nheaders = { Accept = 'b' }", "by the protocol itself"),
            ("name = 'a'\nurl = 'http://a/'\nbearer = \"b\\n\"", "that no header may have"),
            ("name = 'a'\ncommand = 'b'\nbearer = 'c'", "are for a `url`"),
            ("name = 'a'\ncommand = 'b'\nenv = { 'x=y' = 'c' }", "`env`: `x=y`"),
            ("name = 'a'\ncommand = 'b'\ntimeout_ms = 1", "`timeout_ms` is 1"),
            (
                "name = 'a'\ncommand = 'b'\nprotocol = 'litemcp'\naccept_defaults = true",
                "`accept_defaults` is for MCP",
            ),
        ] {
            let told = told(text);
            assert!(told.starts_with("`tools.servers`, ") && told.contains(says), "{told}");
        }
    }

    #[test]
    fn all_ways_to_a_litemcp_tool_are_accepted() {
        for way in ["url = 'ws://a'", "url = 'wss://a/b?c=d'", "url = 'http://a'", "command = 'c'"]
        {
            let text = format!("name = 'a'\nprotocol = 'litemcp'\n{way}");
            let server: ToolServer = toml::from_str(&text).unwrap();
            assert_eq!(server.checked().unwrap().protocol, ToolProtocol::LiteMcp);
        }
    }

    #[test]
    fn both_ways_are_accepted() {
        let text = "name = 'a'\nurl = 'https://a/mcp'\nheaders = { X-Key = 'k' }\nbearer = 'b'";
        let server: ToolServer = toml::from_str(text).unwrap();
        assert!(matches!(server.checked().unwrap().way, Way::Http { bearer: Some(_), .. }));
        let text = "name = 'a'\ncommand = 'npx'\nargs = ['-y', 'server']\nenv = { KEY = 'k' }";
        let server: ToolServer = toml::from_str(text).unwrap();
        assert!(matches!(server.checked().unwrap().way, Way::Stdio { .. }));
    }
}
