//! Builds the administrator's service, with the parts whose settings can change at run time. Not for changing them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hearken_actors::device_registry::DeviceRegistry;
use hearken_base::Secret;
use hearken_base::reloadable::Reloadable;
use hearken_base::slots::Slots;
use hearken_chat::ChatSettings;
use hearken_dialogue::DialogueSettings;
use hearken_dialogue::tools::ToolPolicies;
use hearken_dialogue::usage::UsageMeter;
use hearken_museum::Museum;
use hearken_ports::Devices as _;
use hearken_ports::store::SettingsStore;
use hearken_providers::CostTracker;
use hearken_text_gateway::TextGatewaySettings;

use super::parts::Parts;
use super::settings;
use crate::admin::password::Passwords;
use crate::admin::setup_code::SetupCode;
use crate::admin::{AdminSessions, RuntimeSettings, SettingsUser};
use crate::config::Config;
use crate::history::History;
use crate::http::{self, Admin, Chats, DeviceEndpoint, Figures, MuseumClients, TextClients};
use crate::telemetry;

/// Maximum number of login attempts per address and minute.
const ATTEMPTS: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");

/// Parts whose settings can change at run time, except the language models.
pub(super) struct Changing {
    /// Settings of devices' conversations, and the function that computes them from the configuration.
    pub(super) dialogue: Reloadable<DialogueSettings>,
    pub(super) dialogue_of: fn(&Config) -> DialogueSettings,
    /// Policies of tools in all conversations.
    pub(super) tool_policies: Reloadable<ToolPolicies>,
    /// Settings of text clients, and the idle timeout of their sessions.
    pub(super) gateway: Reloadable<TextGatewaySettings>,
    pub(super) gateway_idle: Reloadable<Duration>,
    /// Settings of chat sessions.
    pub(super) chat: Reloadable<ChatSettings>,
    /// Museum clients, with their settings.
    pub(super) museum: Arc<Museum>,
    /// History of conversations.
    pub(super) history: History,
    /// Usage meter.
    pub(super) usage: UsageMeter,
    /// Registry of devices and connection slots of text clients, used only to count connections.
    pub(super) devices: DeviceRegistry,
    pub(super) text_slots: Slots,
}

impl Changing {
    /// Collects them from the frontends.
    pub(super) fn of(
        parts: &Parts<'_>,
        devices: &DeviceEndpoint,
        clients: &TextClients,
        chats: &Chats,
        museum: &MuseumClients,
    ) -> Self {
        Self {
            dialogue: devices.pipeline.dialogue_settings().clone(),
            dialogue_of: |config| settings(config).dialogue,
            tool_policies: parts.tooling.api.policies().clone(),
            gateway: clients.service.settings.clone(),
            gateway_idle: clients.service.sessions.idle().clone(),
            chat: chats.service.settings.clone(),
            museum: Arc::clone(&museum.museum),
            history: parts.records.history.clone(),
            usage: parts.records.usage.meter().clone(),
            devices: devices.pipeline.device_registry().clone(),
            text_slots: clients.connection_slots.clone(),
        }
    }

    fn uses(self) -> [SettingsUser; 8] {
        let Self {
            dialogue,
            dialogue_of,
            tool_policies,
            gateway,
            gateway_idle,
            chat,
            museum,
            history,
            usage,
            ..
        } = self;
        // All conversations share the policies.
        let of_text = tool_policies.clone();
        let of_chats = tool_policies.clone();
        [
            Box::new(|config| Ok(Box::new(telemetry::changed(&config.log.level)?))),
            Box::new(move |config| {
                let dialogue = dialogue.clone();
                let settings = dialogue_of(config);
                Ok(Box::new(move || dialogue.set(settings)))
            }),
            Box::new(move |config| {
                let gateway = gateway.clone();
                let idle = gateway_idle.clone();
                let settings = config.text_clients(&of_text);
                Ok(Box::new(move || {
                    idle.set(settings.session_idle);
                    gateway.set(settings);
                }))
            }),
            Box::new(move |config| {
                let chat = chat.clone();
                let settings = config.chat_sessions(&of_chats);
                Ok(Box::new(move || chat.set(settings)))
            }),
            Box::new(move |config| {
                let policies = tool_policies.clone();
                let new = config.tools.policies();
                Ok(Box::new(move || policies.set(new)))
            }),
            Box::new(move |config| {
                let museum = Arc::clone(&museum);
                let settings = config.museum.clone();
                Ok(Box::new(move || museum.change(settings)))
            }),
            Box::new(move |config| {
                let history = history.clone();
                let settings = config.history.clone();
                Ok(Box::new(move || history.change(settings)))
            }),
            Box::new(move |config| {
                let usage = usage.clone();
                let settings = config.usage.clone();
                Ok(Box::new(move || usage.settings().set(settings)))
            }),
        ]
    }
}

/// Builds the administrator's service. The models apply changed settings first, then all other parts.
pub(super) fn build(parts: &Parts<'_>, changing: Changing) -> anyhow::Result<Admin> {
    let Parts { config, models, .. } = parts;
    let store: Arc<dyn SettingsStore> = Arc::clone(&parts.store) as _;
    let a = &config.admin;
    let secret = http::secret(&config.auth, &config.server.data_dir)?;
    let token = if a.password.is_empty() {
        http::admin_token(&config.auth, &config.server.data_dir)?
    } else {
        Secret::default()
    };
    let passwords = Passwords::new(a.password.clone(), token, Arc::clone(&store));
    let [access, refresh] = [a.access_token_ms, a.refresh_token_ms].map(Duration::from_millis);
    let admin_sessions =
        AdminSessions::new(&secret, passwords, access, refresh, Arc::clone(&store));
    let figures = figures(&changing, models.costs());
    let museum = Arc::clone(&changing.museum);
    let policies = changing.tool_policies.clone();
    let uses = models.take_uses().into_iter().chain(changing.uses()).collect();
    let settings = RuntimeSettings::new((*config).clone(), Arc::clone(&store), uses);
    let settings = settings.on_first_read(move || {
        let read = ToolPolicies { awaits_store: false, ..(*policies.get()).clone() };
        policies.set(read);
    });
    let settings = Arc::new(settings);
    let attempts = parts.cluster.limit("log-ins", ATTEMPTS);
    let setup_code = SetupCode::default();
    Ok(Admin { admin_sessions, setup_code, settings, store, museum, figures, attempts })
}

/// Returns a function for the numbers of connections, and the models' cost by frontend.
fn figures(changing: &Changing, costs: &CostTracker) -> Arc<dyn Fn() -> Figures + Send + Sync> {
    let devices = changing.devices.clone();
    let slots = changing.text_slots.clone();
    let costs = costs.clone();
    Arc::new(move || Figures {
        devices: devices.connected().len(),
        text_clients: slots.in_use(),
        llm: costs.figures(),
    })
}
