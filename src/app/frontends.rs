//! Construction of the services for text clients and applications. Not for devices.

use std::sync::Arc;

use hearken_actors::actors::event_stream::WatchSettings;
use hearken_actors::chat::ChatService;
use hearken_actors::dialogue::SharedStyle;
use hearken_actors::gateway::{GatewayService, Sessions};
use hearken_actors::ports::{ChatStore, ImageDescriber, SessionStore};
use hearken_actors::tasks::Tasks;
use hearken_cluster::Cluster;
use hearken_providers::LlmSettings;
use hearken_providers::state;
use hearken_tool_sources::Sources;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::models::Models;
use super::{llm, local_time};
use crate::config::Config;
use crate::http::{Chats, MuseumClients, TextClients};

/// Builds the service for text clients. Their only timeout for the model is that of the whole
/// request, as in the gateway's document; there is no separate timeout for the first token.
pub(super) fn text_clients(
    config: &Config,
    (store, models): (Arc<dyn SessionStore>, &Models),
    tools: &Sources,
    describer: Option<Arc<dyn ImageDescriber>>,
    cluster: &Cluster,
    process: &CancellationToken,
) -> anyhow::Result<TextClients> {
    let settings = config.text_clients();
    let mut sessions = Sessions::new(store, settings.session_idle, settings.max_messages);
    if cluster.is_shared() {
        sessions = sessions.shared(cluster.locks());
    }
    let tools = tools.clone();
    let desk = GatewayService {
        llm: models.spoken(config, "gateway", patient)?,
        sessions: Arc::new(sessions),
        tools: Arc::new(move |session_id, style| tools.conversation(session_id.as_str(), style)),
        describer,
        now: local_time(config),
        settings: settings.into(),
    };
    Ok(TextClients {
        desk,
        places: Arc::new(Semaphore::new(config.gateway.max_connections)),
        token: config.gateway.token.clone(),
        process: process.clone(),
    })
}

/// Builds the service for applications. Timeouts for the model are those of text clients.
pub(super) fn chats(
    config: &Config,
    (store, models): (Arc<dyn ChatStore>, &Models),
    tools: &Sources,
    describer: Option<Arc<dyn ImageDescriber>>,
    cluster: &Cluster,
    tasks: &Tasks,
) -> anyhow::Result<Chats> {
    let (settings, tools) = (config.chat_sessions(), tools.clone());
    let watching =
        WatchSettings { ping_every: settings.ping_every, dead_after: settings.dead_after };
    let desk = ChatService {
        llm: models.patient(config, "chat", patient)?,
        store,
        state: state::state_server(&config.state)?,
        events: cluster.events(),
        locks: cluster.locks(),
        tools: Arc::new(move |session_id| {
            tools.conversation(session_id.as_str(), &SharedStyle::default())
        }),
        describer,
        now: local_time(config),
        settings: settings.into(),
        tasks: tasks.clone(),
    };
    let places = Arc::new(Semaphore::new(config.chat.max_watchers));
    Ok(Chats { desk, token: config.chat.token.clone(), places, watching })
}

/// Returns model settings whose only timeout is that of the whole request.
pub(super) fn patient(config: &Config) -> LlmSettings {
    let total = config.llm.timeout_ms;
    LlmSettings { first_token_timeout_ms: total, idle_timeout_ms: total, ..llm(config) }
}

/// Starts the task that purges chat sessions deleted long ago.
pub(super) fn purge(chats: &Chats) -> tokio::task::JoinHandle<()> {
    let desk = chats.desk.clone();
    tokio::spawn(async move { desk.keep_purging().await })
}

/// Starts the task that removes expired sessions of museum clients.
pub(super) fn visits(clients: &MuseumClients) -> tokio::task::JoinHandle<()> {
    let museum = Arc::clone(&clients.museum);
    tokio::spawn(async move { museum.keep_sweeping().await })
}

/// Starts the task that removes expired sessions of text clients.
pub(super) fn sweep(clients: &TextClients) -> tokio::task::JoinHandle<()> {
    let (sessions, every) =
        (Arc::clone(&clients.desk.sessions), clients.desk.settings.get().sweep_every);
    tokio::spawn(async move { sessions.keep_sweeping(every).await })
}
