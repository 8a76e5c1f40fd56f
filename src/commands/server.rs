//! Client of a running server's REST API, with the admin token. Not for the requests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_base::Secret;
use reqwest::Method;
use serde_json::Value;
use url::{Host, Url};

use crate::config::{self, Config, EnvVars};
use crate::http::ADMIN_TOKEN_FILE;

/// Longest wait for a server's answer; a called tool may take long.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Address and admin token of a server.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// Address of the server
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:9400")]
    pub url: String,
    /// Admin token of the server [default at this machine's own addresses: `auth.admin_token`, else
    /// `admin_token` in the data folder; none elsewhere]
    #[arg(long, global = true, value_name = "TOKEN")]
    pub admin_token: Option<String>,
    /// File that contains the admin token, to keep it out of the process list
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "admin_token")]
    pub admin_token_file: Option<PathBuf>,
    /// Configuration file [default: config.toml here, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Client of a server.
pub(super) struct Server {
    base: Url,
    token: Option<String>,
    /// True if the token of this machine's server was not used, because `base` is another one.
    is_foreign: bool,
    client: reqwest::Client,
}

impl Server {
    pub(super) fn new(args: &ServerArgs, env: &dyn EnvVars) -> anyhow::Result<Self> {
        let base = Url::parse(&args.url).ok();
        let base = base.filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(base) = base else { bail!("--url is {}: use http://HOST:PORT", args.url) };
        let client =
            reqwest::Client::builder().timeout(TIMEOUT).connect_timeout(CONNECT_WITHIN).build()?;
        let given = given_token(args)?;
        let config = match given {
            Some(_) => None,
            None => Some(super::configuration(args.config.as_deref(), env)?),
        };
        let is_foreign = config.as_ref().is_some_and(|config| !is_own(&base, config));
        let own = config.filter(|_| !is_foreign).and_then(|config| own_token(&config, env));
        Ok(Self { base, token: given.or(own), is_foreign, client })
    }

    /// Requests this path with these parameters.
    pub(super) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> anyhow::Result<Value> {
        let path: Vec<String> = path.iter().map(|p| (*p).to_owned()).collect();
        let mut url = self.at(&path);
        url.query_pairs_mut().extend_pairs(query);
        self.send(Method::GET, url, None).await
    }

    /// Returns the admin token, if it is known.
    pub(super) fn token(&self) -> Option<Secret> {
        self.token.as_ref().map(Secret::new)
    }

    /// Sends a request and returns the response.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &[String],
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        self.send(method, self.at(path), body).await
    }

    /// Returns the URL of this path.
    pub(super) fn at(&self, path: &[String]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        url
    }

    async fn send(&self, method: Method, url: Url, body: Option<Value>) -> anyhow::Result<Value> {
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.with_context(|| {
            format!("no answer from {}: is the server running there? (--url)", self.base)
        })?;
        let status = answer.status();
        let text = answer.text().await.context("the answer breaks off")?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(body);
        }
        let hint = match (status.as_u16(), self.is_foreign) {
            (401, true) => {
                ": the token of this machine's server is not sent to another address: use \
                 --admin-token-file or --admin-token"
            }
            (401, false) => " (--admin-token)",
            _ => "",
        };
        match body["error"]["message"].as_str() {
            Some(message) => bail!("{message}{hint}"),
            None => bail!("{} answered {status}: is it a Hearken server? (--url)", self.base),
        }
    }
}

/// Returns the token of the arguments.
fn given_token(args: &ServerArgs) -> anyhow::Result<Option<String>> {
    if args.admin_token.is_some() {
        return Ok(args.admin_token.clone());
    }
    args.admin_token_file.as_deref().map(read).transpose()
}

/// Returns the configured token, else the one stored by a server of this user. With `None`, the
/// server reports whether one is needed.
fn own_token(config: &Config, env: &dyn EnvVars) -> Option<String> {
    if !config.auth.admin_token.is_empty() {
        return Some(config.auth.admin_token.expose().to_owned());
    }
    let file = config::env::data_dir(&config.server.data_dir, env).join(ADMIN_TOKEN_FILE);
    // Where there is none, or it is somebody else's, the server reports what is missing.
    read(&file).ok()
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    text.map(|t| t.trim().to_owned()).with_context(|| format!("cannot read {}", file.display()))
}

/// Returns true if the address is on this machine, or a configured one of its server: only there
/// may its token be sent unasked.
fn is_own(base: &Url, config: &Config) -> bool {
    let is_here = match base.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let host = base.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let names = config.http.host_names.iter().chain([&config.server.host]);
    is_here || names.into_iter().any(|name| name.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_this_machine_is_sent_to_its_own_addresses_only() {
        let mut config = Config::default();
        config.server.host = "192.0.2.7".into();
        config.http.host_names = vec!["*".into(), "voice.example.com".into()];
        for (url, own) in [
            ("http://127.0.0.1:9400", true),
            ("http://127.8.9.1", true),
            ("http://[::1]:9400", true),
            ("https://localhost:9443", true),
            ("http://192.0.2.7:9400", true),
            ("https://Voice.example.com/", true),
            ("http://192.0.2.8:9400", false),
            ("http://10.0.0.1", false),
            ("https://voice.example.com.attacker.example", false),
            ("https://localhost.attacker.example", false),
            ("https://127.0.0.1.attacker.example", false),
            ("https://localhost@attacker.example", false),
            ("http://[2001:db8::1]:9400", false),
        ] {
            assert_eq!(is_own(&Url::parse(url).unwrap(), &config), own, "{url}");
        }
    }
}
