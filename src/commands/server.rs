//! Client of a running server's REST API, with the admin token. Not for the requests.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_base::Secret;
use reqwest::Method;
use serde_json::Value;
use url::Url;

use crate::config::{self, EnvVars};
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
    /// Admin token of the server [default: `auth.admin_token`, else `admin_token` in the data
    /// folder]
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
    client: reqwest::Client,
}

impl Server {
    pub(super) fn new(args: &ServerArgs, env: &dyn EnvVars) -> anyhow::Result<Self> {
        let base = Url::parse(&args.url).ok();
        let base = base.filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(base) = base else { bail!("--url is {}: use http://HOST:PORT", args.url) };
        let client =
            reqwest::Client::builder().timeout(TIMEOUT).connect_timeout(CONNECT_WITHIN).build()?;
        Ok(Self { base, token: admin_token(args, env)?, client })
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
        let hint = match status.as_u16() {
            401 => " (--admin-token)",
            _ => "",
        };
        match body["error"]["message"].as_str() {
            Some(message) => bail!("{message}{hint}"),
            None => bail!("{} answered {status}: is it a Hearken server? (--url)", self.base),
        }
    }
}

/// Returns the given token, else the configured one, else the one stored by a server of this user.
/// With `None`, the server reports whether one is needed.
fn admin_token(args: &ServerArgs, env: &dyn EnvVars) -> anyhow::Result<Option<String>> {
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file);
        text.map(|t| t.trim().to_owned()).with_context(|| format!("cannot read {}", file.display()))
    };
    if let Some(token) = &args.admin_token {
        return Ok(Some(token.clone()));
    }
    if let Some(file) = &args.admin_token_file {
        return read(file).map(Some);
    }
    let config = super::configuration(args.config.as_deref(), env)?;
    if !config.auth.admin_token.is_empty() {
        return Ok(Some(config.auth.admin_token.expose().to_owned()));
    }
    let file = config::env::data_dir(&config.server.data_dir, env).join(ADMIN_TOKEN_FILE);
    // Where there is none, or it is somebody else's, the server reports what is missing.
    Ok(read(&file).ok())
}
