//! Changes of tools at run time: tool servers that users add, remove, enable and disable, and the
//! sources that are switched off for a device or a session. Changes are validated, stored and
//! applied at once. Not for HTTP requests, nor for connections to servers.

mod pinning;
mod roles;
mod tokens;

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hearken_base::Secret;
use hearken_base::names::are_same;
use hearken_base::redaction::{self, MASK};
use hearken_ports::source_names;
use hearken_ports::store::{Device, KeptServer, StoreError, ToolStore};
use hearken_proto::ids::{DeviceId, SessionId};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use super::Sources;
use super::report::{Origin, SourceKind, SourceReport, SourceState};
use super::servers::{ServerReport, ServerTask};
use super::settings::{ToolServer, ToolServerError};
use super::source_overrides::Overrides;

/// Maximum number of servers, including those of the configuration.
const MAX_SERVERS: usize = 64;
/// Wait before the store is queried again after an error.
const RETRY_WAIT: Duration = Duration::from_secs(5);
/// Interval at which the store is checked for changes of other instances.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Reason why a stored server is not used.
const UNREADABLE: &str = "its settings cannot be read: remove it and add it again";
const NO_PROGRAMS: &str = "programs that were added over the API may not run here: set `tools.allow_commands_over_api`, \
                           define it in `tools.servers`, or remove it";

/// Reason why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] ToolServerError),
    /// The settings would let the server read its own variables or files.
    #[error("`{0}` is allowed in the configuration file only: send the token itself as `bearer`")]
    OwnSecrets(&'static str),
    /// The name is in use.
    #[error(
        "the name `{0}` is in use by another source of tools: choose another name, or remove that source"
    )]
    Taken(String),
    /// The server is defined in the configuration.
    #[error(
        "`{0}` is defined in `tools.servers` of the configuration: remove it there, or disable it"
    )]
    Configured(String),
    /// There is no such server.
    #[error("there is no tool server `{0}`")]
    Unknown(String),
    /// There is no such source whose tools are pinned, or it has no such tool.
    #[error("there is no `{0}` to accept: use the names of `hearken tools list`")]
    NothingToAccept(String),
    /// The definition is not the one that was seen.
    #[error("the definition of `{0}` is not the one that you saw: list the tools again")]
    NotSeen(String),
    /// Programs may not be started over the API.
    #[error(
        "cannot add a program over the API: set `tools.allow_commands_over_api`, or define it in `tools.servers`"
    )]
    Programs,
    /// The maximum number of servers is reached.
    #[error("there are {MAX_SERVERS} tool servers, the maximum: remove one")]
    Full,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Tool server as shown to users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerView {
    /// Report on the source.
    #[serde(flatten)]
    pub source: SourceReport,
    /// True if the server is enabled.
    pub enabled: bool,
    /// Settings, with possible secrets masked.
    pub settings: Value,
}

/// Tools of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceToolsView {
    /// Id of the device.
    pub device_id: String,
    /// Agent whose tool clients the device uses.
    pub agent: String,
    /// Names of the sources that are switched off for the device.
    pub off: Vec<String>,
    /// Every source, and its use by the device's conversations.
    pub sources: Vec<SourceOfDevice>,
}

/// Tools of a running session; `off` is that of its device until it is set for the session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionToolsView {
    /// Id of the session.
    pub session_id: String,
    /// Tools, as for a device.
    #[serde(flatten)]
    pub tools: DeviceToolsView,
}

/// Source and its use by one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceOfDevice {
    /// Name of the source.
    pub name: String,
    /// Name of a tool client that it cannot choose: `token:` and the serial of its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Connection type.
    pub kind: SourceKind,
    /// True if conversations of the device have its tools.
    pub on: bool,
}

/// Registry that changes servers, one change at a time; clones share it.
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    sources: Sources,
    store: Arc<dyn ToolStore>,
    allow_commands: bool,
    loaded: OnceCell<()>,
    changing: Mutex<()>,
    /// Servers of the store that cannot run here and were already reported in the log.
    left_out: std::sync::Mutex<HashSet<String>>,
}

impl Registry {
    /// Creates a registry that changes these sources and records its changes in the store. Programs
    /// may be added only if `allow_commands` is true. Until the store was read, conversations have
    /// none of the sources that it may withhold.
    pub fn new(sources: Sources, store: Arc<dyn ToolStore>, allow_commands: bool) -> Self {
        let loaded = OnceCell::new();
        let changing = Mutex::new(());
        let left_out = std::sync::Mutex::default();
        sources.overrides.await_store();
        Self(Arc::new(Shared { sources, store, allow_commands, loaded, changing, left_out }))
    }

    /// Loads the servers and choices from the store. Retries until the store can be reached.
    pub async fn load(&self) {
        while let Err(error) = self.loaded().await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "cannot load the roles and tool servers from the store; until it answers, devices have no tools of the server and no history; trying again");
            tokio::time::sleep(RETRY_WAIT).await;
        }
    }

    /// Waits until the store was read, or could not be, but at most this long.
    pub async fn wait_for_store(&self, at_most: Duration) {
        let registry = self.clone();
        // The end of the wait does not cancel the reading, which starts servers.
        let reading = tokio::spawn(async move { registry.loaded().await.is_ok() });
        tokio::time::timeout(at_most, reading).await.ok();
    }

    /// Loads the state from the store unless that was done before.
    async fn loaded(&self) -> Result<(), StoreError> {
        self.0.loaded.get_or_try_init(|| self.sync_from_store()).await.map(drop)
    }

    /// Applies changes of other instances in the store. Never returns.
    pub async fn follow_store(&self) {
        self.load().await;
        let mut ticks = tokio::time::interval(CHECK_EVERY);
        loop {
            ticks.tick().await;
            let _one_at_a_time = self.0.changing.lock().await;
            if let Err(error) = self.sync_from_store().await {
                tracing::debug!(%error, "cannot load the changes of other instances from the store");
            }
        }
    }

    /// Makes the servers and choices equal to those of the store.
    async fn sync_from_store(&self) -> Result<(), StoreError> {
        // First of all: no failure may admit a revoked token.
        self.take_revoked_tokens().await?;
        let kept = self.0.store.tool_servers().await?;
        let with_overrides = self.0.store.devices_with_overrides().await?;
        self.0.sources.overrides.replace(&with_overrides);
        self.take_roles().await?;
        let servers = &self.0.sources.servers;
        let known = servers.reports();
        let added = known.iter().filter(|r| r.source.origin == Origin::Api);
        let gone = added.map(|r| &r.settings.name).filter(|n| !kept.iter().any(|k| k.name == **n));
        let mut over: Vec<ServerTask> = gone.filter_map(|name| servers.remove(name)).collect();
        self.left_out().retain(|name| kept.iter().any(|server| server.name == *name));
        for server in kept {
            let name = server.name.clone();
            match self.follow(server, &known) {
                Ok(run) => {
                    self.left_out().remove(&name);
                    over.extend(run);
                }
                Err(reason) if self.left_out().insert(name.clone()) => {
                    tracing::warn!(source = name, reason, "cannot use an added tool server");
                }
                Err(_) => {}
            }
        }
        self.0.sources.reserve();
        self.0.sources.overrides.store_was_read();
        for run in over {
            run.end("it was removed or changed").await;
        }
        Ok(())
    }

    fn left_out(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one server equal to its record in the store. Returns the task of a server that was
    /// replaced or disabled; the caller must end it.
    fn follow(
        &self,
        kept: KeptServer,
        known: &[ServerReport],
    ) -> Result<Option<ServerTask>, String> {
        let KeptServer { name, settings, enabled } = kept;
        let servers = &self.0.sources.servers;
        let Some(settings) = settings else {
            return servers.switch(&name, enabled).map_err(|e| e.to_string());
        };
        let read = serde_json::from_str::<ToolServer>(settings.expose());
        let refusal = match &read {
            // The text may contain a secret, and the error a part of the text.
            Err(_) => Some(UNREADABLE),
            Ok(read) if !read.command.is_empty() && !self.0.allow_commands => Some(NO_PROGRAMS),
            Ok(_) => None,
        };
        let settings = ToolServer { name, enabled, ..read.unwrap_or_default() };
        let is_same = |r: &&ServerReport| r.settings.name == settings.name;
        let known = known.iter().find(is_same).filter(|r| r.source.origin == Origin::Api);
        if known.is_some_and(|known| known.settings == settings) {
            return Ok(None);
        }
        let over = known.and_then(|_| servers.remove(&settings.name));
        self.start_kept(settings, refusal).map(|()| over)
    }

    /// Starts a server of the store. One that cannot run is listed with the reason, so that users
    /// can remove it.
    fn start_kept(&self, settings: ToolServer, refusal: Option<&str>) -> Result<(), String> {
        let servers = &self.0.sources.servers;
        let started = match refusal {
            Some(reason) => Err(reason.to_owned()),
            None => servers.add(settings.clone(), Origin::Api).map_err(|e| e.to_string()),
        };
        match started {
            Ok(true) => Ok(()),
            Ok(false) => Err("the configuration has one of the same name".into()),
            Err(reason) => {
                servers.refuse(settings, reason.clone());
                Err(reason)
            }
        }
    }

    /// Returns every server, including disabled ones and those that cannot run here.
    pub fn servers(&self) -> Vec<ServerView> {
        self.0.sources.servers.reports().into_iter().map(ServerView::from_report).collect()
    }

    /// Returns the server of this name.
    ///
    /// # Errors
    /// There is no such server.
    pub fn server(&self, name: &str) -> Result<ServerView, RegistryError> {
        let found = self.servers().into_iter().find(|s| s.source.name == name);
        found.ok_or_else(|| RegistryError::Unknown(name.to_owned()))
    }

    /// Adds a server, stores it and connects to it.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn add(&self, settings: ToolServer) -> Result<ServerView, RegistryError> {
        settings.checked()?;
        if !settings.bearer_env.is_empty() {
            return Err(RegistryError::OwnSecrets("bearer_env"));
        }
        if !settings.bearer_file.as_os_str().is_empty() {
            return Err(RegistryError::OwnSecrets("bearer_file"));
        }
        // An admin token alone must not run anything on the machine. Decision 0028.
        if !settings.command.is_empty() && !self.0.allow_commands {
            return Err(RegistryError::Programs);
        }
        let _one_at_a_time = self.0.changing.lock().await;
        self.loaded().await?;
        let Sources { servers, endpoint, .. } = &self.0.sources;
        let name = settings.name.clone();
        let names = servers.names();
        if names.iter().any(|other| are_same(other, &name)) || endpoint.has(&name) {
            return Err(RegistryError::Taken(name));
        }
        if names.len() >= MAX_SERVERS {
            return Err(RegistryError::Full);
        }
        if !self.keep(&settings).await? {
            // Another instance has just added one.
            self.sync_from_store().await?;
            return Err(RegistryError::Taken(name));
        }
        if !servers.add(settings, Origin::Api)? {
            return Err(RegistryError::Taken(name));
        }
        self.0.sources.reserve();
        tracing::info!(source = name, "added a tool server");
        self.server(&name)
    }

    /// Stores an added server. Returns false if there is an added one of its name.
    async fn keep(&self, settings: &ToolServer) -> Result<bool, RegistryError> {
        let unreadable = |e: serde_json::Error| ToolServerError {
            server: settings.name.clone(),
            reason: format!("cannot store its settings: {e}"),
        };
        let text = serde_json::to_string(settings).map_err(unreadable)?;
        let name = settings.name.clone();
        let enabled = settings.enabled;
        let kept = KeptServer { name, settings: Some(Secret::new(text)), enabled };
        Ok(self.0.store.add_tool_server(&kept).await?)
    }

    /// Removes a server that was added. Cancels its calls; its child process has ended when this
    /// returns.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn remove(&self, name: &str) -> Result<(), RegistryError> {
        let _one_at_a_time = self.0.changing.lock().await;
        self.loaded().await?;
        match self.0.sources.servers.origin(name) {
            None => return Err(RegistryError::Unknown(name.to_owned())),
            Some(Origin::Api) => {}
            Some(_) => return Err(RegistryError::Configured(name.to_owned())),
        }
        self.0.store.forget_tool_server(name).await?;
        self.0.store.forget_tool_pins(name).await?;
        let run = self.0.sources.servers.remove(name);
        self.0.sources.reserve();
        tracing::info!(source = name, "removed a tool server");
        if let Some(run) = run {
            run.end("it was removed").await;
        }
        self.0.sources.servers.pins().of("", name).forget();
        Ok(())
    }

    /// Enables or disables a server, including those of the configuration. Disabling ends it like a
    /// removal.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn switch(&self, name: &str, enabled: bool) -> Result<ServerView, RegistryError> {
        let _one_at_a_time = self.0.changing.lock().await;
        self.loaded().await?;
        let servers = &self.0.sources.servers;
        let unknown = || RegistryError::Unknown(name.to_owned());
        let report = servers.reports().into_iter().find(|r| r.settings.name == name);
        let report = report.ok_or_else(unknown)?;
        if let Some(reason) = report.refused {
            return Err(ToolServerError { server: name.to_owned(), reason }.into());
        }
        if report.source.origin != Origin::Api {
            self.0.store.switch_configured_server(name, enabled).await?;
        } else if !self.0.store.switch_tool_server(name, enabled).await? {
            // Another instance has just removed it.
            self.sync_from_store().await?;
            return Err(unknown());
        }
        if let Some(run) = servers.switch(name, enabled)? {
            run.end("it was switched off").await;
        }
        self.server(name)
    }

    /// Switches these sources off for the device from its next turn on. Returns `None` if there is
    /// no such device.
    ///
    /// # Errors
    /// The store failed.
    pub async fn set_off(
        &self,
        id: &DeviceId,
        off: &[String],
    ) -> Result<Option<Device>, StoreError> {
        let _one_at_a_time = self.0.changing.lock().await;
        self.loaded().await?;
        let device = self.0.store.set_tools_off(id, off).await?;
        self.take(device.as_ref());
        Ok(device)
    }

    /// Assigns the tool clients of this agent to the device from its next turn on. Returns `None`
    /// if there is no such device.
    ///
    /// # Errors
    /// The store failed.
    pub async fn assign(&self, id: &DeviceId, agent: &str) -> Result<Option<Device>, StoreError> {
        let _one_at_a_time = self.0.changing.lock().await;
        self.loaded().await?;
        let device = self.0.store.set_agent(id, agent).await?;
        self.take(device.as_ref());
        Ok(device)
    }

    /// Sets the instructions to the model for the device, from its next turn on; empty for the
    /// deployment's own instructions. Returns `None` if there is no such device.
    ///
    /// # Errors
    /// The store failed.
    pub async fn instruct(
        &self,
        id: &DeviceId,
        prompt: &str,
    ) -> Result<Option<Device>, StoreError> {
        let _one_at_a_time = self.0.changing.lock().await;
        self.loaded().await?;
        let device = self.0.store.set_system_prompt(id, prompt).await?;
        self.take(device.as_ref());
        Ok(device)
    }

    fn take(&self, device: Option<&Device>) {
        if let Some(device) = device {
            self.0.sources.overrides.take(device);
        }
    }

    /// Returns the tools of a device from its record.
    pub fn tools_of(&self, device: &Device) -> DeviceToolsView {
        self.shown(&device.device_id, &Overrides::from_device(device))
    }

    /// Returns the tools of a running session; `None` if it does not run.
    pub fn tools_of_session(&self, id: &SessionId) -> Option<SessionToolsView> {
        let (device, overrides) = self.0.sources.overrides.of_session(id)?;
        let session_id = id.as_str().to_owned();
        let tools = self.shown(&device, &overrides);
        Some(SessionToolsView { session_id, tools })
    }

    /// Switches these sources off for the session, in place of those of its device, from its next
    /// turn on and until it ends. Returns `None` if it does not run.
    pub fn set_session_off(&self, id: &SessionId, off: Vec<String>) -> Option<SessionToolsView> {
        self.0.sources.overrides.set_off(id, off).then(|| self.tools_of_session(id)).flatten()
    }

    fn shown(&self, device: &DeviceId, overrides: &Overrides) -> DeviceToolsView {
        let id = device.as_str();
        let off = &overrides.off;
        let role = self.0.sources.overrides.role_of(overrides);
        let is_off = |name: &str| {
            overrides.is_off(name)
                || role.as_ref().is_some_and(|role| role.is_missing || role.is_off(name))
        };
        let clients_off = is_off(source_names::ENDPOINT);
        let source = |s: SourceReport| SourceOfDevice {
            on: s.state != SourceState::Disabled
                && (s.devices.is_empty() || s.devices.iter().any(|d| d.eq_ignore_ascii_case(id)))
                && !(s.origin == Origin::Endpoint && clients_off)
                && !is_off(&s.name)
                && !s.key.as_deref().is_some_and(is_off),
            name: s.name,
            key: s.key,
            kind: s.kind,
        };
        let sources = self.0.sources.inventory(&overrides.agent).sources;
        let sources = sources.into_iter().map(source).collect();
        let agent = overrides.agent.clone();
        DeviceToolsView { device_id: id.to_owned(), agent, off: off.clone(), sources }
    }

    /// Removes the choices of a device whose record was deleted.
    pub fn forget(&self, id: &DeviceId) {
        self.0.sources.overrides.forget(id);
    }
}

impl ServerView {
    fn from_report(report: ServerReport) -> Self {
        let enabled = report.settings.enabled;
        Self { source: report.source, enabled, settings: masked(&report.settings) }
    }
}

/// Renders the settings without possible secrets: masks the token, headers, variables, and the
/// password and query of the URL.
fn masked(settings: &ToolServer) -> Value {
    let mut settings = settings.clone();
    if !settings.bearer.is_empty() {
        settings.bearer = Secret::new(MASK);
    }
    settings.headers.values_mut().for_each(|value| *value = Secret::new(MASK));
    settings.env.values_mut().for_each(|value| *value = MASK.to_owned());
    if let Ok(url) = Url::parse(&settings.url) {
        settings.url = redaction::shown(&url);
    }
    serde_json::to_value(settings).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let text = "name = 'a'\nurl = 'https://me:sk-1@a/mcp?key=sk-2'\nbearer = 'sk-3'\n\
                    headers = { K = 'sk-4' }\nenv = { V = 'sk-5' }";
        let shown = masked(&toml::from_str(text).unwrap()).to_string();
        assert!(!shown.contains("sk-"), "{shown}");
        assert!(shown.contains(r#""url":"https://me:***@a/mcp?key=***""#), "{shown}");
        assert!(shown.contains(r#""K":"***""#) && shown.contains(r#""V":"***""#), "{shown}");
    }
}
