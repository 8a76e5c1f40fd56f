//! Builds the service of museum clients. Not for its functions.

use std::num::NonZeroU32;
use std::sync::Arc;

use hearken_base::wall_clock;
use hearken_museum::{Museum, MuseumPorts};

use super::local_time;
use super::models::patient;
use super::parts::Parts;
use super::rules::{self, Frontend};
use crate::http::{AccessRule, MuseumClients};

/// Builds the service. Museum clients wait for the model until the request times out.
pub(super) fn build(parts: &Parts<'_>) -> anyhow::Result<MuseumClients> {
    let Parts { config, models, cluster, .. } = parts;
    let ports = MuseumPorts {
        clock: Arc::new(wall_clock::now),
        expiry_clock: Arc::new(wall_clock::earliest),
        llm: rules::before(models.patient(config, "museum", patient)?, config, Frontend::Museum)?,
        store: Arc::clone(&parts.store) as _,
        locks: cluster.locks(),
        answers: cluster.cache("museum"),
        model: format!("{} {}", config.llm.base_url, config.llm.model),
        now: local_time(config),
        memory_pool: parts.memory_pool.clone(),
        usage: parts.records.usage.meter().clone(),
    };
    let limit = NonZeroU32::new(config.museum.requests_per_minute);
    Ok(MuseumClients {
        museum: Arc::new(Museum::new(ports, config.museum.clone())),
        access: AccessRule {
            section: "museum",
            token: config.museum.token.clone(),
            open_to_all: config.museum.open_to_all,
        },
        limit: limit.map(|n| cluster.limit("museum", n)),
    })
}
