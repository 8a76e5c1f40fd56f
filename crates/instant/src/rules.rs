//! The rules by name, and what each of them makes of the slots of a sentence. Each module has those of a topic. Not for sentences,
//! which are in the files of templates.

mod calculation;
mod chat;
mod decline;
pub(crate) mod devices;
mod fact;
mod general;
mod language;
mod medicine;
mod play;
mod reference;
mod states;
mod talk;
mod time;
mod timers;
mod weather;

use hearken_base::language::Language;

use crate::Context;
use crate::act::Act;
use crate::referent::Referent;
use crate::template::Slots;
use crate::value::{Room, Value};

/// Topic of a rule, on which depends where it is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Time and date: always.
    Time,
    /// Numbers alone: always.
    Arithmetic,
    /// The end of a reply: always.
    Stop,
    /// Command with all that it needs: always, if it reads nothing.
    Command,
    /// All others: only where every rule is allowed.
    Other,
}

/// What a rule may look at beside its slots.
pub(crate) struct Setting<'a> {
    pub(crate) language: Language,
    pub(crate) context: &'a Context<'a>,
    /// Referent that is not too old.
    pub(crate) last: Option<&'a Referent>,
}

impl Setting<'_> {
    /// Returns the text of the language.
    pub(crate) fn say(&self, zh: String, en: String) -> String {
        if self.language == Language::Chinese { zh } else { en }
    }

    /// Returns the rooms of a slot.
    pub(crate) fn rooms(slots: &Slots) -> Vec<Room> {
        match slots.get("rooms") {
            Some(Value::Rooms(rooms)) => rooms.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns an act that says a text.
    pub(crate) fn answer(text: String) -> Vec<Act> {
        vec![Act::Say { text, referent: None }]
    }
}

type Make = fn(&Slots, &Setting<'_>) -> Option<Vec<Act>>;

/// The rules: name, topic, and what makes the acts.
const RULES: [(&str, Class, Make); 60] = [
    ("time", Class::Time, time::time),
    ("date", Class::Time, time::date),
    ("weekday", Class::Time, time::weekday),
    ("month", Class::Time, time::month),
    ("year", Class::Time, time::year),
    ("days_until", Class::Time, time::days_until),
    ("time_after", Class::Time, time::time_after),
    ("time_until", Class::Time, time::time_until),
    ("calculate", Class::Arithmetic, calculation::calculate),
    ("calculate_on", Class::Other, calculation::calculate),
    ("share", Class::Other, calculation::share),
    ("discount", Class::Other, calculation::discount),
    ("convert", Class::Other, calculation::convert),
    ("volume", Class::Command, devices::volume),
    ("volume_change", Class::Other, devices::volume_change),
    ("brightness", Class::Command, devices::brightness),
    ("brightness_change", Class::Other, devices::brightness_change),
    ("theme", Class::Command, devices::theme),
    ("switch", Class::Command, devices::switch),
    ("cover", Class::Command, devices::cover),
    ("climate", Class::Command, devices::climate),
    ("climate_change", Class::Other, devices::climate_change),
    ("scene", Class::Command, devices::scene),
    ("media", Class::Command, devices::media),
    ("timer", Class::Command, devices::timer),
    ("timer_cancel", Class::Command, timers::cancel),
    ("alarm", Class::Command, devices::alarm),
    ("reminder", Class::Other, devices::reminder),
    ("it_switch", Class::Other, reference::it_switch),
    ("more", Class::Other, reference::more),
    ("correct", Class::Other, reference::correct),
    ("also", Class::Other, reference::also),
    ("again", Class::Other, reference::again),
    ("stop", Class::Stop, talk::stop),
    ("thanks", Class::Other, talk::thanks),
    ("goodbye", Class::Other, talk::goodbye),
    ("greeting", Class::Other, talk::greeting),
    ("identity", Class::Other, talk::identity),
    ("maker", Class::Other, talk::maker),
    ("capability", Class::Other, talk::capability),
    ("weather", Class::Other, weather::weather),
    ("play", Class::Command, play::play),
    ("play_any", Class::Command, play::play_any),
    ("chat", Class::Other, chat::chat),
    ("unclear", Class::Other, chat::unclear),
    ("joke", Class::Other, chat::joke),
    ("spell", Class::Other, language::spell),
    ("translate", Class::Other, language::translate),
    ("unable", Class::Other, decline::decline),
    ("unknown", Class::Other, decline::decline),
    ("no_weather", Class::Other, decline::decline),
    ("reason", Class::Other, chat::reason),
    ("time_there", Class::Other, general::time_there),
    ("calculate_it", Class::Other, general::calculate_it),
    ("cost", Class::Other, general::cost),
    ("set_it", Class::Other, general::set_it),
    ("timer_number", Class::Other, general::timer_number),
    ("state", Class::Other, states::state),
    ("fact", Class::Other, fact::fact),
    ("medicine", Class::Other, medicine::medicine),
];

/// Returns the topic of a rule; `None` if there is no such rule.
pub(crate) fn class(rule: &str) -> Option<Class> {
    RULES.iter().find(|entry| entry.0 == rule).map(|entry| entry.1)
}

/// Returns the names of all rules, for messages.
pub(crate) fn names() -> String {
    RULES.map(|entry| entry.0).join(", ")
}

/// Returns what a rule makes of the slots; `None` if it does not apply.
pub(crate) fn acts(rule: &str, slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let entry = RULES.iter().find(|entry| entry.0 == rule)?;
    (entry.2)(slots, setting).filter(|acts| !acts.is_empty())
}
