//! Construction of the services for text clients and applications. Not for devices.

use std::sync::Arc;

use hearken_actors::actors::event_stream::WatchSettings;
use hearken_actors::chat::{ChatService, HeldCalls, PublishedEvents};
use hearken_actors::dialogue::SharedStyle;
use hearken_actors::gateway::{GatewayService, Sessions};
use hearken_actors::ports::{ChatStore, SessionStore};
use hearken_actors::slots::Slots;
use hearken_providers::LlmSettings;
use hearken_providers::state;

use super::{Shared, llm, local_time};
use crate::config::Config;
use crate::http::{Chats, Face, TextClients};

/// Builds the service of text clients. They wait for the model as long as the request may take: the
/// timeout of the gateway's document is for the whole request, and there is none for the first
/// words.
pub(super) fn build_text_clients(
    shared: &Shared<'_>,
    store: Arc<dyn SessionStore>,
) -> anyhow::Result<TextClients> {
    let Shared { config, models, tooling, cluster, process, .. } = shared;
    let settings = config.text_clients();
    let mut sessions = Sessions::new(store, settings.session_idle, settings.max_messages);
    if cluster.is_shared() {
        sessions = sessions.with_locks(cluster.locks());
    }
    let tools = tooling.sources.clone();
    let service = GatewayService {
        llm: models.spoken(config, "gateway", patient)?,
        sessions: Arc::new(sessions),
        tools: Arc::new(move |session_id, style| tools.conversation(session_id.as_str(), style)),
        describer: tooling.api.describer(),
        now: local_time(config),
        settings: settings.into(),
    };
    Ok(TextClients {
        service,
        connection_slots: Slots::with_share(
            config.gateway.max_connections,
            config.http.address_percent,
        ),
        face: Face {
            section: "gateway",
            token: config.gateway.token.clone(),
            open_to_all: config.gateway.open_to_all,
        },
        process: (*process).clone(),
    })
}

/// Builds the service of applications. They wait for the model as text clients do.
pub(super) fn build_chats(shared: &Shared<'_>, store: Arc<dyn ChatStore>) -> anyhow::Result<Chats> {
    let Shared { config, models, tooling, cluster, tasks, .. } = shared;
    let (settings, tools) = (config.chat_sessions(), tooling.sources.clone());
    let watching =
        WatchSettings { ping_every: settings.ping_every, dead_after: settings.dead_after };
    let service = ChatService {
        llm: models.patient(config, "chat", patient)?,
        store,
        state: state::state_server(&config.state)?,
        events: cluster.events(),
        locks: cluster.locks(),
        tools: Arc::new(move |session_id| {
            tools.conversation(session_id.as_str(), &SharedStyle::default())
        }),
        describer: tooling.api.describer(),
        now: local_time(config),
        settings: settings.into(),
        tasks: (*tasks).clone(),
        held: HeldCalls::default(),
        published: PublishedEvents::default(),
    };
    let watch_slots = Slots::with_share(config.chat.max_watchers, config.http.address_percent);
    let face = Face {
        section: "chat",
        token: config.chat.token.clone(),
        open_to_all: config.chat.open_to_all,
    };
    Ok(Chats { service, face, watch_slots, watching })
}

/// Returns model settings whose only timeout is that of the whole request.
pub(super) fn patient(config: &Config) -> LlmSettings {
    let total = config.llm.timeout_ms;
    LlmSettings { first_token_timeout_ms: total, idle_timeout_ms: total, ..llm(config) }
}
