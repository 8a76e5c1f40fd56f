//! All remote servers, from the configuration and added at run time: list, state and reports. Not
//! for maintaining a connection, nor for access control.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearken_ports::ToolSource as _;
use hearken_proto::ids::DeviceId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connected_source::ConnectedSource;
use super::pins::Pins;
use super::report::{Origin, SourceKind, SourceReport};
use super::server_connection::{keep, kind};
use super::settings::{Server, ToolServer, ToolServerError};
use super::stdio_process::Environment;

/// Remote servers: connected, connecting, disabled, or refused.
pub struct Servers {
    kept: Mutex<Vec<ServerEntry>>,
    environment: Environment,
    token: CancellationToken,
    pins: Pins,
}

struct ServerEntry {
    settings: ToolServer,
    origin: Origin,
    source: ConnectedSource,
    run: Option<ServerTask>,
    /// Reason why it cannot run here, whether it is enabled or not.
    refused: Option<String>,
}

/// Task that maintains the connection of a server. Dropping it aborts the task and kills its child
/// process.
pub(super) struct ServerTask {
    source: ConnectedSource,
    token: CancellationToken,
    tasks: JoinSet<()>,
}

impl ServerTask {
    fn start(
        server: Server,
        source: ConnectedSource,
        environment: &Environment,
        process: &CancellationToken,
    ) -> Self {
        let token = process.child_token();
        let mut tasks = JoinSet::new();
        tasks.spawn(keep(server, environment.clone(), source.clone(), token.clone()));
        Self { source, token, tasks }
    }

    /// Cancels the calls at once, then closes the connection, ends the child process, and waits for
    /// them.
    pub(super) async fn end(mut self, reason: &str) {
        self.source.set_ended(reason.to_owned());
        self.token.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "the task of a tool server failed");
            }
        }
    }
}

impl ServerEntry {
    fn new(settings: ToolServer, origin: Origin, all: &Servers) -> Result<Self, ToolServerError> {
        let server = settings.checked()?;
        let name = server.name.clone();
        let kind = kind(&server.transport);
        let pins = all.pins.of("", &name);
        let source = ConnectedSource::of_server(name, kind, server.timeout, pins, settings.trust);
        let run = if settings.enabled {
            Some(ServerTask::start(server, source.clone(), &all.environment, &all.token))
        } else {
            source.set_disabled();
            None
        };
        Ok(Self { settings, origin, source, run, refused: None })
    }

    /// Creates the entry of an added server that cannot run here, for this reason.
    fn refused(settings: ToolServer, reason: String, all: &Servers) -> Self {
        let name = settings.name.clone();
        let timeout = Duration::from_millis(settings.timeout_ms);
        let pins = all.pins.of("", &name);
        let kind = kind_of(&settings);
        let source = ConnectedSource::of_server(name, kind, timeout, pins, settings.trust);
        source.set_ended(reason.clone());
        Self { settings, origin: Origin::Api, source, run: None, refused: Some(reason) }
    }

    fn is_for(&self, device: &DeviceId) -> bool {
        let devices = &self.settings.devices;
        devices.is_empty() || devices.iter().any(|d| d.eq_ignore_ascii_case(device.as_str()))
    }

    fn report(&self) -> ServerReport {
        let mut source = self.source.report();
        source.origin = self.origin;
        source.devices.clone_from(&self.settings.devices);
        let refused = self.refused.clone();
        ServerReport { source, settings: self.settings.clone(), refused }
    }
}

/// Returns the connection type of a server, also if its settings cannot be used.
fn kind_of(settings: &ToolServer) -> SourceKind {
    match settings.checked() {
        Ok(server) => kind(&server.transport),
        Err(_) if settings.command.is_empty() => SourceKind::Http,
        Err(_) => SourceKind::Stdio,
    }
}

fn taken(server: &ToolServer) -> ToolServerError {
    let reason = "another server has this `name` already".into();
    ToolServerError { server: server.name.clone(), reason }
}

/// Report on a remote server. Its settings contain secrets: mask them before they are shown.
pub(super) struct ServerReport {
    pub(super) source: SourceReport,
    pub(super) settings: ToolServer,
    /// Reason why the server cannot run here.
    pub(super) refused: Option<String>,
}

impl Servers {
    /// Checks the settings of all servers, and that their names differ. Starts none.
    ///
    /// # Errors
    /// A setting cannot be used, as for [`Servers::start`].
    pub fn check(servers: &[ToolServer]) -> Result<(), ToolServerError> {
        let mut names = HashSet::new();
        for server in servers {
            server.checked()?;
            if !names.insert(&server.name) {
                return Err(taken(server));
            }
        }
        Ok(())
    }

    /// Connects to all enabled servers; they end with `process`. Needs a running runtime.
    ///
    /// # Errors
    /// The settings of a server cannot be used, or two servers have the same name.
    pub fn start(
        servers: &[ToolServer],
        environment: &Environment,
        process: &CancellationToken,
    ) -> Result<Self, ToolServerError> {
        let environment = environment.clone();
        let token = process.child_token();
        let all = Self { kept: Mutex::default(), environment, token, pins: Pins::default() };
        for server in servers {
            if !all.add(server.clone(), Origin::Configuration)? {
                return Err(taken(server));
            }
        }
        Ok(all)
    }

    /// Adds a server. Returns false if its name is in use. Needs a running runtime.
    pub(super) fn add(
        &self,
        settings: ToolServer,
        origin: Origin,
    ) -> Result<bool, ToolServerError> {
        let mut kept = self.lock();
        if kept.iter().any(|k| k.settings.name == settings.name) {
            return Ok(false);
        }
        kept.push(ServerEntry::new(settings, origin, self)?);
        Ok(true)
    }

    /// Lists an added server that cannot run here, for this reason, unless its name is in use.
    pub(super) fn refuse(&self, settings: ToolServer, reason: String) {
        let mut kept = self.lock();
        if !kept.iter().any(|k| k.settings.name == settings.name) {
            kept.push(ServerEntry::refused(settings, reason, self));
        }
    }

    /// Removes a server. Returns its task; the caller must end it.
    pub(super) fn remove(&self, name: &str) -> Option<ServerTask> {
        let mut kept = self.lock();
        let position = kept.iter().position(|k| k.settings.name == name)?;
        kept.remove(position).run
    }

    /// Enables or disables a server. Returns the task of the server that was running; the caller
    /// must end it.
    pub(super) fn switch(
        &self,
        name: &str,
        enabled: bool,
    ) -> Result<Option<ServerTask>, ToolServerError> {
        let mut all = self.lock();
        let Some(kept) = all.iter_mut().find(|k| k.settings.name == name) else { return Ok(None) };
        if kept.settings.enabled == enabled || kept.refused.is_some() {
            return Ok(None);
        }
        let settings = ToolServer { enabled, ..kept.settings.clone() };
        let fresh = ServerEntry::new(settings, kept.origin, self)?;
        Ok(std::mem::replace(kept, fresh).run)
    }

    /// Returns the origin of the server of this name.
    pub(super) fn origin(&self, name: &str) -> Option<Origin> {
        self.lock().iter().find(|k| k.settings.name == name).map(|k| k.origin)
    }

    /// Returns the pins of all servers' tools.
    pub(super) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Returns all names in use.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().iter().map(|k| k.settings.name.clone()).collect()
    }

    /// Returns the enabled servers that can run, in the order in which they were added: those that `device` may
    /// use, or without a device those that are for all devices.
    pub(super) fn sources(&self, device: Option<&DeviceId>) -> Vec<ConnectedSource> {
        let kept = self.lock();
        let on = kept.iter().filter(|k| k.settings.enabled && k.refused.is_none());
        let everybodys = |k: &ServerEntry| k.settings.devices.is_empty();
        let on = on.filter(|k| device.map_or_else(|| everybodys(k), |device| k.is_for(device)));
        on.map(|k| k.source.clone()).collect()
    }

    /// Returns the server of this name, enabled or not.
    pub(super) fn named(&self, name: &str) -> Option<ConnectedSource> {
        let found = |k: &&ServerEntry| k.source.name() == name;
        self.lock().iter().find(found).map(|k| k.source.clone())
    }

    /// Returns a report on each server, including disabled and refused ones.
    pub(super) fn reports(&self) -> Vec<ServerReport> {
        self.lock().iter().map(ServerEntry::report).collect()
    }

    /// Closes every connection, ends every child process, and waits for them.
    pub async fn stop(&self) {
        self.token.cancel();
        let runs: Vec<ServerTask> = self.lock().iter_mut().filter_map(|k| k.run.take()).collect();
        let ends = runs.into_iter().map(|run| run.end("the server is stopping"));
        futures_util::future::join_all(ends).await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ServerEntry>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
