//! What a command may say beside its own act: one that says the verb of another act, or of the opposite, is for the model. Not for
//! how an act is made of the mentions.

use hearken_base::language::Language;

use super::Command;
use crate::mentions::Mention;

/// Lists of words that tell an act.
const ACTS: [&str; 22] = [
    "on", "off", "start", "stop", "open", "close", "up", "down", "louder", "quieter", "brighter",
    "darker", "warmer", "cooler", "mute", "next", "pause", "halt", "play", "cancel", "remove",
    "timer",
];
/// Lists of words for what is done with something that is there, whatever else they mean: to raise is also to open.
const CHANGES: [&str; 2] = ["extend", "handle"];

/// Lists of acts and changes that a command of one kind may say.
pub(super) type Acts = &'static [&'static str];

pub(super) const TIMER: Acts = &["on", "start", "up", "down", "timer"];
pub(super) const ALARM: Acts = TIMER;
pub(super) const THEME: Acts =
    &["on", "start", "up", "down", "brighter", "darker", "extend", "handle"];
pub(super) const SCENE: Acts = THEME;
pub(super) const LIGHT: Acts = THEME;
pub(super) const VOLUME: Acts =
    &["on", "start", "up", "down", "louder", "quieter", "mute", "extend", "handle"];
pub(super) const CLIMATE: Acts =
    &["on", "start", "up", "down", "warmer", "cooler", "extend", "handle"];
/// What is complained of, such as `too dark`, is the reason of what is switched.
pub(super) const SWITCH: Acts = &[
    "on", "off", "start", "stop", "open", "close", "up", "down", "louder", "quieter", "brighter",
    "darker", "warmer", "cooler", "extend", "handle",
];
pub(super) const MEDIA: Acts = &["off", "stop", "next", "pause", "halt", "play", "handle"];
pub(super) const PLAY: Acts = &["on", "start", "play"];
pub(super) const TIMER_CANCEL: Acts = &["off", "stop", "cancel", "remove", "timer", "handle"];

impl Command<'_> {
    /// Reports whether no act is said but these.
    pub(super) fn says_only(&self, acts: Acts) -> bool {
        self.says_only_up_to(self.mentions.all.len(), acts)
    }

    /// Reports whether the mentions before one say no act but these.
    pub(super) fn says_only_up_to(&self, end: usize, acts: Acts) -> bool {
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
