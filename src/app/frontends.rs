//! The frontends of the server, with one builder each, and the routes of the enabled ones. Not for
//! devices and museum clients, which have their own files.

use std::sync::Arc;

use actix_web::web::{Data, ServiceConfig};
use hearken_base::slots::Slots;
use hearken_base::tasks::Tasks;
use hearken_chat::event_stream::WatchSettings;
use hearken_chat::{ChatService, HeldCalls, PublishedEvents, TouchedSessions};
use hearken_ports::store::SettingsStore;
use hearken_providers::{CallLog, state};
use hearken_text_gateway::{Sessions, TextGateway};

use super::models::patient;
use super::parts::Parts;
use super::rules::{self, Frontend};
use super::{admin, devices, local_time, museum};
use crate::history::History;
use crate::history::trial::Trials;
use crate::http::{
    self, AccessRule, Admin, Backups, CONSOLE_PATH, Chats, DeviceEndpoint, Health, LiteMcp,
    MuseumClients, PAGE_PATH, PeopleApi, TextClients, ToolsApi, Turns,
};
use crate::service_tests::ServiceTests;
use crate::usage::DailyUsage;

/// Builds the service of text clients. Their model has the timeout of the whole request only: the
/// gateway's document defines no timeout for the first words.
fn text_clients(parts: &Parts<'_>) -> anyhow::Result<TextClients> {
    let Parts { config, models, tooling, cluster, process, records, .. } = parts;
    let store = Arc::clone(&parts.store) as _;
    let settings = config.text_clients(tooling.api.policies());
    let mut sessions = Sessions::new(store, settings.session_idle, settings.max_messages);
    if cluster.is_shared() {
        sessions = sessions.with_locks(cluster.locks());
    }
    let tools = tooling.sources.clone();
    let service = TextGateway {
        llm: rules::before(
            models.spoken(config, "gateway", patient)?,
            config,
            Frontend::TextClients,
        )?,
        sessions: Arc::new(sessions),
        tools: Arc::new(move |session_id, style| tools.conversation(session_id.as_str(), style)),
        describer: tooling.api.describer(),
        now: local_time(config),
        settings: settings.into(),
        roles: tooling.sources.roles_by_id_or_name(),
        turn_journal: records.turn_journal.clone(),
        rates: parts.rates.clone(),
    };
    Ok(TextClients {
        service,
        connection_slots: Slots::with_share(
            config.gateway.max_connections,
            config.http.address_percent,
        )
        .with_memory_pool(&parts.memory_pool),
        access: AccessRule {
            section: "gateway",
            token: config.gateway.token.clone(),
            open_to_all: config.gateway.open_to_all,
        },
        page: if config.console.enabled { CONSOLE_PATH } else { PAGE_PATH },
        process: process.clone(),
    })
}

/// Builds the service of applications, with the same timeouts as text clients.
fn chats(parts: &Parts<'_>) -> anyhow::Result<Chats> {
    let Parts { config, models, tooling, cluster, tasks, records, .. } = parts;
    let settings = config.chat_sessions(tooling.api.policies());
    let tools = tooling.sources.clone();
    let roles = tools.roles_by_id_or_name();
    let calls = models.calls().clone();
    let watching =
        WatchSettings { ping_every: settings.ping_every, dead_after: settings.dead_after };
    let service = ChatService {
        llm: models.patient(config, "chat", patient)?,
        store: Arc::clone(&parts.store) as _,
        state: state::state_server(&config.state)?,
        events: cluster.events(),
        locks: cluster.locks(),
        tools: Arc::new(move |_| tools.chat_session()),
        describer: tooling.api.describer(),
        now: local_time(config),
        settings: settings.into(),
        roles,
        tasks: tasks.clone(),
        held: HeldCalls::default(),
        touched: TouchedSessions::default(),
        published: PublishedEvents::default(),
        turn_journal: records.turn_journal.clone(),
        forget_calls: Arc::new(move |until| calls.forget(until)),
    };
    let watch_slots = Slots::with_share(config.chat.max_watchers, config.http.address_percent);
    let access = AccessRule {
        section: "chat",
        token: config.chat.token.clone(),
        open_to_all: config.chat.open_to_all,
    };
    Ok(Chats { service, access, watch_slots, watching })
}

/// Frontends of the server, built whether enabled or not: settings can be changed before a restart enables them.
pub(super) struct Frontends {
    pub(super) devices: DeviceEndpoint,
    pub(super) clients: TextClients,
    pub(super) chats: Chats,
    pub(super) museum: MuseumClients,
    pub(super) admin: Arc<Admin>,
    people: Arc<PeopleApi>,
    trials: Trials,
    service_tests: Arc<ServiceTests>,
    backups: Arc<Backups>,
}

impl Frontends {
    /// Builds all frontends.
    pub(super) fn build(parts: &Parts<'_>) -> anyhow::Result<Self> {
        let Parts { config, store, ports, .. } = parts;
        let devices = devices::build(parts)?;
        let clients = text_clients(parts)?;
        let chats = chats(parts)?;
        let museum = museum::build(parts)?;
        let trials = Trials::new(
            parts.models.patient(config, "trial", patient)?,
            devices.pipeline.dialogue_settings().clone(),
            local_time(config),
            parts.records.usage.meter().clone(),
        );
        let asr = Arc::clone(&ports.asr);
        let tts = Arc::clone(&ports.tts);
        let language = config.dialogue.language;
        let service_tests = Arc::new(ServiceTests::new(asr, tts, trials.clone(), language));
        let changing = admin::Changing::of(parts, &devices, &clients, &chats, &museum);
        let admin = Arc::new(admin::build(parts, changing)?);
        let people = Arc::new(PeopleApi::new(parts.people.clone(), Arc::clone(store) as _));
        let url = config.store.url.clone();
        let folder = config.server.data_dir.clone();
        let backups = Arc::new(Backups::new(url, folder, Arc::clone(store) as _));
        Ok(Self { devices, clients, chats, museum, admin, people, trials, service_tests, backups })
    }

    /// Combines them for the routes, without the disabled ones.
    pub(super) fn routes(self, parts: &Parts<'_>, health: Health) -> FrontendRoutes {
        let Parts { config, tooling, records, .. } = parts;
        FrontendRoutes {
            device_endpoint: self.devices,
            health,
            tools_api: Arc::clone(&tooling.api),
            own_tools: own_tools(parts),
            clients: Some(self.clients).filter(|_| config.gateway.enabled),
            chats: Some(self.chats).filter(|_| config.chat.enabled),
            museum: Some(self.museum).filter(|_| config.museum.enabled),
            admin: Some(self.admin).filter(|_| config.admin.enabled),
            people: self.people,
            console: config.console.enabled,
            turns: Turns::new(records.turn_journal.clone(), parts.process.clone()),
            history: records.history.clone(),
            trials: self.trials,
            service_tests: self.service_tests,
            usage: records.usage.clone(),
            tasks: parts.tasks.clone(),
            backups: self.backups,
            audit: Arc::clone(&parts.store) as _,
            calls: parts.models.calls().clone(),
        }
    }
}

/// Services behind the HTTP routes.
#[derive(Clone)]
pub(super) struct FrontendRoutes {
    device_endpoint: DeviceEndpoint,
    pub(super) health: Health,
    tools_api: Arc<ToolsApi>,
    own_tools: Arc<LiteMcp>,
    clients: Option<TextClients>,
    chats: Option<Chats>,
    museum: Option<MuseumClients>,
    admin: Option<Arc<Admin>>,
    people: Arc<PeopleApi>,
    turns: Turns,
    history: History,
    trials: Trials,
    service_tests: Arc<ServiceTests>,
    usage: DailyUsage,
    backups: Arc<Backups>,
    /// Store with the audit log; actions with the admin token are logged there too.
    audit: Arc<dyn SettingsStore>,
    calls: CallLog,
    console: bool,
    tasks: Tasks,
}

impl FrontendRoutes {
    pub(super) fn configure(self, services: &mut ServiceConfig) {
        if let Some(clients) = self.clients {
            http::text_gateway_routes(services, clients);
        }
        if let Some(chats) = self.chats {
            http::chat_routes(services, chats);
        }
        if let Some(clients) = self.museum {
            http::museum_routes(services, clients);
        }
        if let Some(admin) = self.admin {
            http::admin_routes(services, admin, self.backups);
        }
        if self.console {
            http::console_routes(services);
        }
        http::person_routes(services, self.people);
        http::turn_routes(services, self.turns);
        http::service_routes(services, self.service_tests, self.calls);
        http::history_routes(services, self.history, self.trials);
        http::usage_routes(services, self.usage);
        services.app_data(Data::from(self.audit)).app_data(Data::new(self.tasks));
        services.app_data(Data::new(self.health.cluster.clone()));
        http::litemcp_routes(services, self.own_tools);
        http::routes(services, self.device_endpoint, self.health, self.tools_api);
    }
}

/// Creates the LiteMCP service of the built-in tools.
fn own_tools(parts: &Parts<'_>) -> Arc<LiteMcp> {
    let builtin = Arc::new(parts.tooling.sources.builtin().clone());
    let percent = parts.config.http.address_percent;
    Arc::new(LiteMcp::new(vec![builtin], percent, parts.process.clone()))
}
