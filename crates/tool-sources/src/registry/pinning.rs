//! Part of the registry that stores the pins of tools' definitions, and accepts changed ones. Not for
//! comparing definitions: see [`crate::pins`].

use std::collections::BTreeMap;
use std::time::Duration;

use hearken_ports::Tool;
use hearken_ports::store::{KeptPin, StoreError};

use super::{RETRY_WAIT, Registry, RegistryError};

/// Interval at which the pins of other instances are read from the store.
const CHECK_PINS_EVERY: Duration = Duration::from_secs(30);

impl Registry {
    /// Stores the pins of definitions that are seen for the first time. If there are `others`, also
    /// applies their pins and acceptances. Never returns.
    pub async fn keep_pins(&self, others: bool) {
        let [servers, clients] = self.0.sources.all_pins();
        loop {
            while let Err(error) = self.sync_pins().await {
                tracing::warn!(%error, "cannot store the pins of tools; trying again");
                tokio::time::sleep(RETRY_WAIT).await;
            }
            let periodic = async {
                match others {
                    true => tokio::time::sleep(CHECK_PINS_EVERY).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                () = servers.added() => {}
                () = clients.added() => {}
                () = periodic => {}
            }
        }
    }

    /// Stores new pins, and applies those of the store.
    async fn sync_pins(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.0.changing.lock().await;
        let [servers, clients] = self.0.sources.all_pins();
        let new = [servers.unstored(), clients.unstored()].concat();
        self.0.store.add_tool_pins(&new).await?;
        let kept = self.0.store.tool_pins().await?;
        let (of_servers, of_clients): (Vec<KeptPin>, Vec<KeptPin>) =
            kept.into_iter().partition(|pin| pin.agent.is_empty());
        servers.replace(of_servers);
        clients.replace(of_clients);
        Ok(())
    }

    /// Accepts the current definitions of a source's tools, or of one of them. If there is `seen`,
    /// it has the hashes of the definitions that were shown, by the name of the tool, and only these
    /// are accepted. Returns the number of changed ones.
    ///
    /// # Errors
    /// There is no such source or tool, a definition was not seen, or the store failed.
    pub async fn accept(
        &self,
        agent: &str,
        source: &str,
        tool: Option<&str>,
        seen: Option<&BTreeMap<String, String>>,
    ) -> Result<usize, RegistryError> {
        let _one_at_a_time = self.0.changing.lock().await;
        self.loaded().await?;
        let unknown = |name: String| RegistryError::NothingToAccept(name);
        let found = self.0.sources.pinned(agent, source);
        let (tools, pins) = found.ok_or_else(|| unknown(source.to_owned()))?;
        let is_meant = |known: &&Tool| tool.is_none_or(|name| known.name == name);
        let meant: Vec<Tool> = tools.iter().filter(is_meant).cloned().collect();
        if let (Some(name), true) = (tool, meant.is_empty()) {
            return Err(unknown(format!("{source}/{name}")));
        }
        if let Some(unseen) = seen.and_then(|seen| pins.first_unseen(&meant, seen)) {
            return Err(RegistryError::NotSeen(unseen.to_owned()));
        }
        let changed = meant.iter().filter(|tool| pins.is_changed(tool) == Some(true)).count();
        let accepted = pins.pins_for(&meant);
        self.0.store.set_tool_pins(&accepted).await?;
        pins.set(accepted);
        tracing::info!(source, tool, changed, "accepted the definitions of tools");
        Ok(changed)
    }
}
