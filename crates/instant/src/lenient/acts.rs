//! What a command may say beside its own act: one that says the verb of another act, or of the opposite, is for the model. Not for
//! how an act is made of the mentions.

use hearken_base::language::Language;

use super::Command;
use crate::mentions::Mention;
use crate::value::Value;

/// Lists of words that tell an act.
const ACTS: [&str; 22] = [
    "on", "off", "start", "stop", "open", "close", "up", "down", "louder", "quieter", "brighter",
    "darker", "warmer", "cooler", "mute", "next", "pause", "halt", "play", "cancel", "remove",
    "timer",
];
/// Lists of words for what is done with something that is there, whatever else they mean: to raise is also to open.
const CHANGES: [&str; 2] = ["extend", "handle"];

/// Lists of acts and changes that a command of one kind may say.
type Acts = &'static [&'static str];

/// What a command of one kind may say beside fillers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) acts: Acts,
    /// Further lists, of what is changed and how far.
    pub(super) nouns: &'static [&'static str],
    pub(super) values: &'static [Sort],
}

/// Sort of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Device,
    Rooms,
    Scene,
    Level,
    Duration,
    Clock,
    Day,
}

impl Sort {
    /// Returns the sort of a value; `None` if it is of none.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Device(_) => Some(Self::Device),
            Value::Rooms(_) => Some(Self::Rooms),
            Value::Scene(_) => Some(Self::Scene),
            Value::Level(..) | Value::Number(_) => Some(Self::Level),
            Value::Duration(_) => Some(Self::Duration),
            Value::Clock(_) => Some(Self::Clock),
            Value::Day(_) => Some(Self::Day),
            _ => None,
        }
    }
}

const SET: Acts = &["on", "start", "up", "down", "brighter", "darker", "extend", "handle"];
/// What is complained of, such as `too dark`, is the reason of what is switched.
const MOVE: Acts = &[
    "on", "off", "start", "stop", "open", "close", "up", "down", "louder", "quieter", "brighter",
    "darker", "warmer", "cooler", "extend", "handle",
];
const BEGIN: Acts = &["on", "start", "up", "down", "timer"];

pub(super) const TIMER: Said = Said { acts: BEGIN, nouns: &[], values: &[Sort::Duration] };
pub(super) const ALARM: Said =
    Said { acts: BEGIN, nouns: &["wake", "later"], values: &[Sort::Clock, Sort::Day] };
pub(super) const THEME: Said =
    Said { acts: SET, nouns: &["theme", "dark", "light", "screen", "mode", "it"], values: &[] };
pub(super) const SCENE: Said = Said { acts: SET, nouns: &["mode", "it"], values: &[Sort::Scene] };
pub(super) const SCREEN: Said = Said {
    acts: SET,
    nouns: &["screen", "brightness", "max", "half", "small", "large", "by", "percent", "it"],
    values: &[Sort::Level],
};
pub(super) const LIGHT: Said = Said {
    acts: SET,
    nouns: &[
        "brightness",
        "max",
        "half",
        "small",
        "large",
        "by",
        "percent",
        "it",
        "lamp",
        "also",
        "take",
    ],
    values: &[Sort::Device, Sort::Rooms, Sort::Level],
};
pub(super) const VOLUME: Said = Said {
    acts: &["on", "start", "up", "down", "louder", "quieter", "mute", "extend", "handle"],
    nouns: &["volume", "music", "max", "half", "small", "large", "by", "percent", "it"],
    values: &[Sort::Device, Sort::Level],
};
pub(super) const COVER: Said = Said {
    acts: MOVE,
    nouns: &["half", "percent", "it", "also"],
    values: &[Sort::Device, Sort::Rooms, Sort::Level],
};
pub(super) const CLIMATE: Said = Said {
    acts: &["on", "start", "up", "down", "warmer", "cooler", "extend", "handle"],
    nouns: &["heat", "degrees", "small", "large", "by", "it"],
    values: &[Sort::Device, Sort::Rooms, Sort::Level],
};
pub(super) const SWITCH: Said =
    Said { acts: MOVE, nouns: &["lamp", "it", "also"], values: &[Sort::Device, Sort::Rooms] };
pub(super) const MEDIA: Said = Said {
    acts: &["off", "stop", "next", "pause", "halt", "play", "handle"],
    nouns: &["music", "it"],
    values: &[Sort::Device],
};
pub(super) const PLAY: Said = Said { acts: &["on", "start", "play"], nouns: &[], values: &[] };
pub(super) const TIMER_CANCEL: Said = Said {
    acts: &["off", "stop", "cancel", "remove", "timer", "handle"],
    nouns: &["it"],
    values: &[],
};
/// What is spoken of is what was changed before.
pub(super) const REFERENCE: Said = Said {
    acts: MOVE,
    nouns: &["it", "also", "small", "large", "by", "percent", "degrees"],
    values: &[Sort::Rooms, Sort::Level],
};
/// Call of a tool that no topic knows: what it does with the words for acts is decided there.
pub(super) const TOOL: Said = Said {
    acts: &[
        "on", "off", "start", "stop", "open", "close", "up", "down", "pause", "halt", "cancel",
        "remove", "extend", "handle",
    ],
    nouns: &["it", "percent", "degrees", "max"],
    values: &[Sort::Level, Sort::Duration],
};

impl Command<'_> {
    /// Reports whether no act is said but these.
    pub(super) fn says_only(&self, said: &Said) -> bool {
        self.says_only_up_to(self.mentions.all.len(), said)
    }

    /// Reports whether the mentions before one say no act but these.
    pub(super) fn says_only_up_to(&self, end: usize, said: &Said) -> bool {
        let acts = said.acts;
        self.mentions.all.iter().take(end).enumerate().all(|(at, one)| {
            let is_own = |list: &&str| one.is(list) && acts.contains(list);
            let is_other = self.is_act(at, one) && !ACTS.iter().any(is_own);
            !is_other && !CHANGES.iter().any(|list| one.is(list) && !acts.contains(list))
        })
    }

    /// Reports whether what is there is to be taken away, or made longer or shorter, and nothing is to be begun.
    pub(crate) fn is_about_what_is_there(&self) -> bool {
        ["cancel", "remove", "extend"].iter().any(|list| self.has(list))
    }

    /// Reports whether what runs is to pause or to stop.
    pub(crate) fn halts(&self) -> bool {
        self.has("pause") || self.has("halt")
    }

    /// Reports whether a mention tells an act: `on` and `off` may be prepositions, and 点 is `a bit`.
    fn is_act(&self, at: usize, one: &Mention) -> bool {
        let is_preposition = self.setting.language == Language::English
            && (one.is("on") || one.is("off"))
            && !self.is_particle(at);
        ACTS.iter().any(|list| one.is(list)) && !one.is("small") && !is_preposition
    }
}
