//! Builds the endpoint of devices. Not for the ports of their conversations.

use std::sync::Arc;

use anyhow::Context as _;
use hearken_actors::pipeline::Pipeline;
use hearken_base::slots::Slots;
use hearken_ports::store::DeviceStore;

use super::parts::Parts;
use super::settings;
use crate::config::{Config, ServerConfig};
use crate::http::{AccessControl, Auth, DeviceEndpoint, OtaRules};
use crate::recorder::Recorder;

/// Maximum number of connections that only play a notice, and of those of one address. A board
/// without one still shows its code, which is in the response to its boot request.
const MAX_NOTICES: usize = 64;
const MAX_NOTICES_OF_ADDRESS: usize = 8;

/// Builds the endpoint of devices: the pipeline, the recorder and the access control.
pub(super) fn build(parts: &Parts<'_>) -> anyhow::Result<DeviceEndpoint> {
    let Parts { config, process, records, tooling, .. } = parts;
    let ports = parts.ports.clone();
    let audio_pool = parts.audio_pool.clone();
    let mut settings = settings(config);
    settings.tools.policies = tooling.api.policies().clone();
    let language = settings.dialogue.language;
    Ok(DeviceEndpoint {
        pipeline: Pipeline::new(ports, settings, audio_pool, process.clone())
            .traced(records.turn_journal.clone())
            .at_rates(parts.rates.clone())
            .with_recent_words(records.recent_words.clone()),
        connection_slots: Slots::with_share(
            config.server.max_connections,
            config.http.address_percent,
        )
        .with_memory_pool(&parts.memory_pool),
        notice_slots: Slots::new(MAX_NOTICES, MAX_NOTICES_OF_ADDRESS)
            .with_memory_pool(&parts.memory_pool),
        recorder: recorder(&config.server)?,
        access: access(config, Arc::clone(&parts.store) as _)?,
        language,
    })
}

/// Creates a recorder that records every session into the configured folder; `None` if there is none.
fn recorder(config: &ServerConfig) -> anyhow::Result<Option<Arc<Recorder>>> {
    let dir = &config.record_dir;
    if dir.as_os_str().is_empty() {
        return Ok(None);
    }
    let max_bytes = config.max_recordings_mib.saturating_mul(1 << 20);
    let recorder = Recorder::new(dir, max_bytes)
        .with_context(|| format!("`server.record_dir`: cannot record into {}", dir.display()))?;
    Ok(Some(Arc::new(recorder)))
}

/// Builds the access control. Creates the secrets that are needed and not configured.
fn access(config: &Config, store: Arc<dyn DeviceStore>) -> anyhow::Result<Arc<AccessControl>> {
    let auth = Auth::new(&config.auth, &config.server.host, &config.server.data_dir)?;
    let ota = OtaRules::new(&config.ota)?.admitting(config.devices.admit);
    Ok(Arc::new(AccessControl::new(auth, ota, store)))
}
