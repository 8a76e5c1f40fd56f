//! Museum clients, put together. Not for what is done for them.

use std::num::NonZeroU32;
use std::sync::Arc;

use hearken_actors::wall_clock;
use hearken_base::SettingError;
use hearken_cluster::Cluster;
use hearken_store::MuseumStore;

use super::frontends::patient;
use super::local_time;
use super::models::Models;
use crate::config::Config;
use crate::http::MuseumClients;
use crate::museum::{Museum, MuseumPorts};

/// Lets museum clients in. They wait for the model as long as a request may take.
pub(super) fn museum(
    config: &Config,
    store: Arc<dyn MuseumStore>,
    models: &Models,
    fleet: &Cluster,
) -> Result<MuseumClients, SettingError> {
    let ports = MuseumPorts {
        clock: Arc::new(wall_clock::now),
        llm: models.patient(config, "museum", patient)?,
        store,
        locks: fleet.locks(),
        answers: fleet.cache("museum"),
        model: format!("{} {}", config.llm.base_url, config.llm.model),
        now: local_time(config),
    };
    let limit = NonZeroU32::new(config.museum.requests_per_minute);
    Ok(MuseumClients {
        museum: Arc::new(Museum::new(ports, config.museum.clone())),
        token: config.museum.token.clone(),
        limit: limit.map(|n| fleet.limit("museum", n)),
    })
}
