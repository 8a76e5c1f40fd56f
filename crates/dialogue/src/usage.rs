//! Daily usage of models, recognisers and synthesisers, and its limits. Not for the storage of the
//! sums, nor for the phrase at a limit.

mod model_usage;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearken_base::reloadable::Reloadable;
use hearken_ports::usage::{DailyLimits, LimitOf, LimitReached, Limited, UsageKey, Used, nano};
use hearken_ports::{Llm, Prompt, Usage};
use jiff::Timestamp;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::role::AssignedRole;
use crate::turn_trace::traced_turn::TracedTurn;

pub use self::model_usage::ModelUsage;

/// Maximum number of clients with separate sums until these are stored, and with watched limits.
/// Usage of further clients counts without their name.
const MAX_CLIENTS: usize = 10_000;
/// Section `[usage]`: prices of usage, retention of the daily sums, and daily limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UsageSettings {
    /// Name of the currency of all prices, at most 16 characters, for display only. The
    /// prices of language models are set in `[llm]`.
    pub currency: String,
    /// Age at which daily usage totals are deleted. `0` never deletes them.
    #[schemars(range(max = 36_500))]
    pub retention_days: u32,
    /// Maximum number of input and output tokens per device and day; `0` disables the
    /// limit. Once any daily limit is reached, the phrase `limit` is spoken and no model is
    /// called. An answer in progress is not cut off.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub device_tokens: u64,
    /// Maximum speech per device and day, heard and spoken, in seconds. `0` disables the
    /// limit.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub device_seconds: u64,
    /// Maximum cost per device and day, in the currency of the prices. `0` disables the
    /// limit.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub device_cost: f64,
    /// Maximum number of input and output tokens per day of all clients together. `0`
    /// disables the limit.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub total_tokens: u64,
    /// Maximum speech per day of all devices together, heard and spoken, in seconds. `0`
    /// disables the limit.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub total_seconds: u64,
    /// Maximum cost per day of all clients together, in the currency of the prices. `0`
    /// disables the limit.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub total_cost: f64,
    /// Price of one hour of recognised speech, for costs and cost limits.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub asr_price_per_hour: f64,
    /// Price of a million synthesised characters, for costs and cost limits.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub tts_price_per_million_chars: f64,
}

impl Default for UsageSettings {
    fn default() -> Self {
        Self {
            currency: String::new(),
            retention_days: 400,
            device_tokens: 0,
            device_seconds: 0,
            device_cost: 0.0,
            total_tokens: 0,
            total_seconds: 0,
            total_cost: 0.0,
            asr_price_per_hour: 0.0,
            tts_price_per_million_chars: 0.0,
        }
    }
}

impl UsageSettings {
    /// Returns the limits of one device.
    pub fn of_device(&self) -> DailyLimits {
        limits(self.device_tokens, self.device_seconds, self.device_cost)
    }

    /// Returns the limits of all clients together.
    pub fn of_all(&self) -> DailyLimits {
        limits(self.total_tokens, self.total_seconds, self.total_cost)
    }

    /// Returns the cost of speech, in billionths of the currency.
    #[allow(clippy::cast_precision_loss, reason = "no turn lasts 2^52 milliseconds")]
    fn speech_nano(&self, used: &Used) -> u64 {
        let heard = used.heard_ms as f64 / 3_600_000.0 * self.asr_price_per_hour;
        nano(heard + used.said_chars as f64 / 1e6 * self.tts_price_per_million_chars)
    }
}

fn limits(tokens: u64, seconds: u64, cost: f64) -> DailyLimits {
    DailyLimits {
        tokens: (tokens > 0).then_some(tokens),
        seconds: (seconds > 0).then_some(seconds),
        cost: (cost > 0.0).then_some(cost),
    }
}

/// Usage that is not stored yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnsavedUsage {
    /// Sums by day and client.
    pub rows: Vec<(UsageKey, Used)>,
    /// Start of the first of its turns.
    pub since: Option<Timestamp>,
}

/// Counts usage, and checks today's limits. Clones share it.
#[derive(Clone)]
pub struct UsageMeter(Arc<Shared>);

struct Shared {
    today: Box<dyn Fn() -> Date + Send + Sync>,
    settings: Reloadable<UsageSettings>,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    unsaved: HashMap<UsageKey, Used>,
    /// Start of the first turn in `unsaved`.
    since: Option<Timestamp>,
    /// Sums of `day`, stored or not.
    day: Date,
    total: Used,
    devices: HashMap<String, Used>,
    roles: HashMap<String, Used>,
}

impl Sums {
    fn begin(&mut self, day: Date) {
        if self.day != day {
            (self.day, self.total) = (day, Used::default());
            self.devices.clear();
            self.roles.clear();
        }
    }

    /// Adds to today's sums. A device above the limit is counted without its name, so that unknown
    /// devices with ever new ids take no room.
    fn count(&mut self, key: &mut UsageKey, used: &Used) {
        if self.devices.len() >= MAX_CLIENTS && !self.devices.contains_key(&key.client) {
            key.client.clear();
        }
        self.total.add(used);
        for (sums, name) in [(&mut self.devices, &key.client), (&mut self.roles, &key.role_id)] {
            if name.is_empty() {
                continue;
            }
            if let Some(sum) = sums.get_mut(name) {
                sum.add(used);
            } else if sums.len() < MAX_CLIENTS {
                sums.insert(name.clone(), *used);
            }
        }
    }

    fn save_later(&mut self, mut key: UsageKey, used: &Used, began: Option<Timestamp>) {
        self.since = [self.since, began].into_iter().flatten().min();
        let is_full = self.unsaved.len() >= MAX_CLIENTS;
        if is_full && !self.unsaved.contains_key(&key) {
            key.client.clear();
        }
        match self.unsaved.entry(key) {
            Entry::Occupied(mut sum) => sum.get_mut().add(used),
            Entry::Vacant(place) => drop(place.insert(*used)),
        }
    }
}

impl UsageMeter {
    /// Creates a meter with a function for the local day.
    pub fn new(settings: UsageSettings, today: impl Fn() -> Date + Send + Sync + 'static) -> Self {
        let today = Box::new(today);
        let settings = Reloadable::new(settings);
        Self(Arc::new(Shared { today, settings, sums: Mutex::default() }))
    }

    /// Returns the settings, which may be replaced.
    pub fn settings(&self) -> &Reloadable<UsageSettings> {
        &self.0.settings
    }

    /// Returns the local day.
    pub fn today(&self) -> Date {
        (self.0.today)()
    }

    /// Counts a turn that has ended. A device's turn without usage does not count: there was no
    /// speech.
    pub fn count_turn(&self, turn: &TracedTurn, role: Option<&AssignedRole>) {
        let device = turn.device();
        if !device.is_empty() && turn.used == Used::default() {
            return;
        }
        let used = Used { turns: 1, ..turn.used };
        let role_id = role.map_or("", |role| &role.role_id);
        self.count_since(turn.began, turn.kind.name(), device, role_id, &used);
    }

    /// Counts the usage of a turn that was refused before it started.
    pub fn count_refused(&self, turn: &TracedTurn, role: Option<&AssignedRole>) {
        let used = Used { refused: 1, ..turn.used };
        let role_id = role.map_or("", |role| &role.role_id);
        self.count_since(turn.began, turn.kind.name(), turn.device(), role_id, &used);
    }

    /// Counts usage of a client at the current time. Only the ids of devices are retained.
    pub fn count(&self, kind: &str, device: &str, role_id: &str, used: &Used) {
        self.count_since(Timestamp::now(), kind, device, role_id, used);
    }

    fn count_since(&self, began: Timestamp, kind: &str, device: &str, role_id: &str, used: &Used) {
        let mut used = *used;
        let speech = self.0.settings.get().speech_nano(&used);
        used.cost_nano = used.cost_nano.saturating_add(speech);
        let mut key = UsageKey {
            day: self.today(),
            kind: kind.to_owned(),
            client: device.to_owned(),
            role_id: role_id.to_owned(),
        };
        let mut sums = self.sums();
        sums.begin(key.day);
        sums.count(&mut key, &used);
        sums.save_later(key, &used, Some(began));
    }

    /// Counts a response of this model to this prompt, of clients of a kind.
    pub fn counts_model(&self, kind: &'static str, prompt: &Prompt, llm: &dyn Llm) -> ModelUsage {
        let meter = self.clone();
        ModelUsage::new(prompt, llm, move |usage| meter.count(kind, "", "", &(*usage).into()))
    }

    /// Returns the first reached limit: of the device, of its role, of all clients.
    pub fn reached(&self, device: &str, role: Option<&AssignedRole>) -> Option<LimitReached> {
        let settings = self.0.settings.get();
        let day = self.today();
        let mut sums = self.sums();
        sums.begin(day);
        let nothing = Used::default();
        let own = sums.devices.get(device).unwrap_or(&nothing);
        let of_device = (!device.is_empty()).then(|| settings.of_device().reached(own)).flatten();
        let of_role = role.and_then(|role| {
            role.settings.limits().reached(sums.roles.get(&role.role_id).unwrap_or(&nothing))
        });
        let found = [
            (LimitOf::Device, of_device),
            (LimitOf::Role, of_role),
            (LimitOf::Total, settings.of_all().reached(&sums.total)),
        ];
        found.into_iter().find_map(|(of, limit)| Some(LimitReached { of, limit: limit? }))
    }

    /// Returns today's usage of all clients.
    pub fn used_today(&self) -> Used {
        let day = self.today();
        let mut sums = self.sums();
        sums.begin(day);
        sums.total
    }

    /// Returns the first reached limit of each device, of these roles, and of all clients.
    pub fn all_reached(&self, roles: &[(String, DailyLimits)]) -> Vec<(LimitOf, String, Limited)> {
        let settings = self.0.settings.get();
        let day = self.today();
        let mut sums = self.sums();
        sums.begin(day);
        let of_device = settings.of_device();
        let devices = sums.devices.iter().map(|(id, used)| (LimitOf::Device, id, of_device, *used));
        let of_role = |id: &String| sums.roles.get(id).copied().unwrap_or_default();
        let roles = roles.iter().map(|(id, limits)| (LimitOf::Role, id, *limits, of_role(id)));
        let nobody = String::new();
        let all = [(LimitOf::Total, &nobody, settings.of_all(), sums.total)];
        let each = all.into_iter().chain(roles).chain(devices);
        each.filter_map(|(of, id, limits, used)| Some((of, id.clone(), limits.reached(&used)?)))
            .collect()
    }

    /// Forgets the id of a device: its usage stays in the sums.
    pub fn forget(&self, device: &str) {
        let mut sums = self.sums();
        sums.devices.remove(device);
        let own: Vec<_> = sums.unsaved.keys().filter(|key| key.client == device).cloned().collect();
        for key in own {
            if let Some(used) = sums.unsaved.remove(&key) {
                sums.save_later(UsageKey { client: String::new(), ..key }, &used, None);
            }
        }
    }

    /// Removes and returns the sums that are not stored.
    pub fn take_unsaved(&self) -> UnsavedUsage {
        let mut sums = self.sums();
        UnsavedUsage { since: sums.since.take(), rows: sums.unsaved.drain().collect() }
    }

    /// Replaces today's sums by the stored and the unsaved ones.
    pub fn set_stored(&self, day: Date, rows: &[(UsageKey, Used)]) {
        let mut sums = self.sums();
        let unsaved: Vec<_> = sums.unsaved.iter().map(|(key, used)| (key.clone(), *used)).collect();
        sums.begin(Date::ZERO);
        sums.begin(day);
        for (key, used) in rows.iter().chain(&unsaved).filter(|(key, _)| key.day == day) {
            sums.count(&mut key.clone(), used);
        }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Client whose usage beside the model of its turns is counted and limited, at once: such as that
/// of the model that describes pictures.
#[derive(Clone)]
pub struct UsageAccount {
    meter: UsageMeter,
    kind: &'static str,
    device: String,
    role: Option<Arc<AssignedRole>>,
    began: Timestamp,
}

impl UsageAccount {
    /// Creates the account of a client of this kind, with its role. `device` is empty for other
    /// clients than devices. Its usage counts from the time at which the client's request or turn
    /// `began`: the id of a device that was deleted since then is not stored again.
    pub fn new(
        meter: UsageMeter,
        kind: &'static str,
        device: &str,
        role: Option<Arc<AssignedRole>>,
        began: Timestamp,
    ) -> Self {
        Self { meter, kind, device: device.to_owned(), role, began }
    }

    /// Checks that no daily limit is reached.
    ///
    /// # Errors
    /// Returns the reached limit: nothing more may be used.
    pub fn check(&self) -> Result<(), LimitReached> {
        self.meter.reached(&self.device, self.role.as_deref()).map_or(Ok(()), Err)
    }

    /// Counts the usage of one answer.
    pub fn count(&self, usage: &Usage) {
        let used = Used::from(*usage);
        if used != Used::default() {
            let role_id = self.role.as_ref().map_or("", |role| &role.role_id);
            self.meter.count_since(self.began, self.kind, &self.device, role_id, &used);
        }
    }
}

#[cfg(test)]
mod tests;
