//! All remote servers, of the configuration and those that were added since: which there are, on
//! or off, and their reports. Not for how one is kept connected, nor for who may change them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hearken_actors::ports::ToolSource as _;
use hearken_proto::ids::DeviceId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connected_source::{ConnectedSource, Origin, SourceReport};
use super::server_connection::{Environment, keep, kind};
use super::settings::{Server, ToolServer, ToolServerError};

/// The remote servers, connected, on their way, or off.
pub struct Servers {
    kept: Mutex<Vec<ServerEntry>>,
    environment: Environment,
    token: CancellationToken,
}

struct ServerEntry {
    settings: ToolServer,
    origin: Origin,
    live: ConnectedSource,
    run: Option<Run>,
}

/// The task that keeps a server connected. Dropped, it is aborted, and its child killed.
pub(super) struct Run {
    live: ConnectedSource,
    token: CancellationToken,
    tasks: JoinSet<()>,
}

impl Run {
    fn start(server: Server, environment: &Environment, process: &CancellationToken) -> Self {
        let live = ConnectedSource::new(server.name.clone(), kind(&server.way), server.timeout);
        let token = process.child_token();
        let mut tasks = JoinSet::new();
        tasks.spawn(keep(server, environment.clone(), live.clone(), token.clone()));
        Self { live, token, tasks }
    }

    /// Ends its calls at once, then its connection and its child, and waits for them.
    pub(super) async fn end(mut self, reason: &str) {
        self.live.ended(reason.to_owned());
        self.token.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "the keeper of a tool server failed");
            }
        }
    }
}

impl ServerEntry {
    fn new(
        settings: ToolServer,
        origin: Origin,
        environment: &Environment,
        process: &CancellationToken,
    ) -> Result<Self, ToolServerError> {
        let server = settings.checked()?;
        let (live, run) = if settings.enabled {
            let run = Run::start(server, environment, process);
            (run.live.clone(), Some(run))
        } else {
            (off(&server), None)
        };
        Ok(Self { settings, origin, live, run })
    }

    fn is_for(&self, device: &DeviceId) -> bool {
        let devices = &self.settings.devices;
        devices.is_empty() || devices.iter().any(|d| d.eq_ignore_ascii_case(device.as_str()))
    }

    fn report(&self) -> ServerReport {
        let mut source = self.live.report();
        source.origin = self.origin;
        source.devices.clone_from(&self.settings.devices);
        ServerReport { source, settings: self.settings.clone() }
    }
}

/// What stands for a server that is not connected to.
fn off(server: &Server) -> ConnectedSource {
    let live = ConnectedSource::new(server.name.clone(), kind(&server.way), server.timeout);
    live.disabled();
    live
}

/// A remote server, for people who masked its settings first.
pub(super) struct ServerReport {
    pub(super) source: SourceReport,
    pub(super) settings: ToolServer,
}

impl Servers {
    /// Connects to all that are enabled; they end with `process`. Needs a running runtime.
    ///
    /// # Errors
    /// The settings of a server cannot be used, or two have the same name.
    pub fn start(
        servers: &[ToolServer],
        environment: &Environment,
        process: &CancellationToken,
    ) -> Result<Self, ToolServerError> {
        let environment = environment.clone();
        let all = Self { kept: Mutex::default(), environment, token: process.child_token() };
        for server in servers {
            if !all.add(server.clone(), Origin::Configuration)? {
                let reason = "another server has this `name` already".into();
                return Err(ToolServerError { server: server.name.clone(), reason });
            }
        }
        Ok(all)
    }

    /// One more server; false where its name is taken. Needs a running runtime.
    pub(super) fn add(
        &self,
        settings: ToolServer,
        origin: Origin,
    ) -> Result<bool, ToolServerError> {
        let mut kept = self.lock();
        if kept.iter().any(|k| k.settings.name == settings.name) {
            return Ok(false);
        }
        kept.push(ServerEntry::new(settings, origin, &self.environment, &self.token)?);
        Ok(true)
    }

    /// Takes a server away; what is left of it is to be ended.
    pub(super) fn remove(&self, name: &str) -> Option<Run> {
        let mut kept = self.lock();
        let place = kept.iter().position(|k| k.settings.name == name)?;
        kept.remove(place).run
    }

    /// Switches a server on or off; what was running is to be ended.
    pub(super) fn switch(&self, name: &str, enabled: bool) -> Result<Option<Run>, ToolServerError> {
        let mut all = self.lock();
        let Some(kept) = all.iter_mut().find(|k| k.settings.name == name) else { return Ok(None) };
        if kept.settings.enabled == enabled {
            return Ok(None);
        }
        let settings = ToolServer { enabled, ..kept.settings.clone() };
        let fresh = ServerEntry::new(settings, kept.origin, &self.environment, &self.token)?;
        Ok(std::mem::replace(kept, fresh).run)
    }

    /// Where a server of this name comes from.
    pub(super) fn origin(&self, name: &str) -> Option<Origin> {
        self.lock().iter().find(|k| k.settings.name == name).map(|k| k.origin)
    }

    /// Every name that is taken.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().iter().map(|k| k.settings.name.clone()).collect()
    }

    /// Those that are on, in the order in which they came: those that a device may use, without a
    /// device those that are for all.
    pub(super) fn sources(&self, device: Option<&DeviceId>) -> Vec<ConnectedSource> {
        let kept = self.lock();
        let on = kept.iter().filter(|k| k.settings.enabled);
        let everybodys = |k: &ServerEntry| k.settings.devices.is_empty();
        let on = on.filter(|k| device.map_or_else(|| everybodys(k), |device| k.is_for(device)));
        on.map(|k| k.live.clone()).collect()
    }

    /// The server of this name, on or off.
    pub(super) fn named(&self, name: &str) -> Option<ConnectedSource> {
        let found = |k: &&ServerEntry| k.live.name() == name;
        self.lock().iter().find(found).map(|k| k.live.clone())
    }

    /// What is known of each, those that are off among them.
    pub(super) fn reports(&self) -> Vec<ServerReport> {
        self.lock().iter().map(ServerEntry::report).collect()
    }

    /// Ends every connection and child, and waits for them.
    pub async fn stop(&self) {
        self.token.cancel();
        let runs: Vec<Run> = self.lock().iter_mut().filter_map(|k| k.run.take()).collect();
        let ends = runs.into_iter().map(|run| run.end("the server is stopping"));
        futures_util::future::join_all(ends).await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ServerEntry>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
