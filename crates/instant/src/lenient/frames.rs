//! The rules that mentions make, each with its slots: what is changed, where, and to what. Not for what
//! speaks against a command.

use hearken_base::language::Language;

use super::acts::{self, Said};
use super::{Command, Frame, OtherAct, Understood};
use crate::exact::Fraction;
use crate::mentions::{Mention, What};
use crate::names::NAMES;
use crate::referent::About;
use crate::rules::devices::is_cover;
use crate::template::Slots;
use crate::value::Value;

/// Most words of a title.
const MOST_TITLE: usize = 10;
/// Words of a question or a negation, which no title of a lenient command has.
const NO_TITLE: [&str; 12] =
    ["么", "吗", "嘛", "不", "没", "别", "甭", "无", "否", "谁", "哪", "几"];

/// Rules for a level.
#[derive(Debug, Clone, Copy)]
struct LevelRules {
    set: &'static str,
    change: &'static str,
}

const VOLUME: LevelRules = LevelRules { set: "volume", change: "volume_change" };
const BRIGHTNESS: LevelRules = LevelRules { set: "brightness", change: "brightness_change" };

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Way {
    fn text(self) -> &'static str {
        if self == Self::Up { "up" } else { "down" }
    }
}

/// Returns the text of a state.
fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// What makes a command of one kind, with what it may say.
type Kind<'a> = (Said, fn(&Command<'a>) -> Option<Frame>);

impl<'a> Command<'a> {
    /// Returns the rule and the slots of the command, if it is of a known kind.
    ///
    /// # Errors
    /// If it is of such a kind, but says the verb of another act, too.
    pub(crate) fn frame(&self) -> Result<Option<Understood>, OtherAct> {
        let only = |found: (Said, Frame)| {
            let is_own = self.says_only(&found.0);
            is_own.then(|| self.understood(&found.0, found.1)).ok_or(OtherAct)
        };
        let at_a_time: [Kind<'a>; 2] = [(acts::TIMER, Self::timer), (acts::ALARM, Self::alarm)];
        if let Some(found) = at_a_time.iter().find_map(|kind| self.of_kind(kind)) {
            return if self.is_about_length() { Err(OtherAct) } else { only(found) };
        }
        let is_at_a_time = !self.values.durations.is_empty() || !self.values.clocks.is_empty();
        if self.is_later() || is_at_a_time {
            return Ok(None);
        }
        let now: [Kind<'a>; 9] = [
            (acts::THEME, Self::theme),
            (acts::VOLUME, Self::volume),
            (acts::SCREEN, Self::screen),
            (acts::COVER, Self::cover),
            (acts::CLIMATE, Self::climate),
            (acts::LIGHT, Self::light),
            (acts::SWITCH, Self::switch),
            (acts::SCENE, Self::scene),
            (acts::MEDIA, Self::media),
        ];
        let found = now.iter().find_map(|kind| self.of_kind(kind));
        found.map_or_else(|| Ok(self.play()), only)
    }

    /// Returns what a kind of command makes of the mentions, with what it may say.
    fn of_kind(&self, kind: &Kind<'a>) -> Option<(Said, Frame)> {
        Some((kind.0, kind.1(self)?))
    }

    /// Returns a command with the words that it leaves; `None` if a mention is of no use for it.
    fn understood(&self, said: &Said, frame: Frame) -> Option<Understood> {
        Some(Understood { frame, left: self.left_by(said)? })
    }

    /// Returns the direction of words such as `up` and `down`.
    fn way(&self, up: &[&str], down: &[&str]) -> Option<Way> {
        let has = |lists: &[&str]| lists.iter().any(|list| self.has(list));
        match (has(up), has(down)) {
            (true, false) => Some(Way::Up),
            (false, true) => Some(Way::Down),
            _ => None,
        }
    }

    /// Adds the size and the direction of a change; a number is added or taken away only after `by` or its like.
    fn change(&self, mut slots: Slots, way: Way) -> Slots {
        slots.push_text("way", way.text());
        if let Some((level, is_share)) = self.level() {
            slots.push("level", Value::Level(level, is_share));
        } else if self.has("large") {
            slots.push_text("size", "large");
        } else if self.has("small") {
            slots.push_text("size", "small");
        }
        slots
    }

    /// Returns a rule that sets a level or the end of its range, or else the rule that changes it.
    fn level_or_change(
        &self,
        mut slots: Slots,
        rules: LevelRules,
        way: Option<Way>,
    ) -> Option<Frame> {
        let is_set = self.is_set_to();
        let is_by = self.has("by") || way.is_some() && !is_set;
        // `louder fifty`: no word says what the number is.
        let is_bare = !self.has("by") && !is_set && self.level().is_some_and(|level| !level.1);
        if is_bare && way.is_some() {
            return None;
        }
        if self.has("half") && way == Some(Way::Down) || self.has("take") && self.has("half") {
            return None;
        }
        if let Some((level, is_share)) = self.level().filter(|_| !is_by) {
            slots.push("level", Value::Level(level, is_share));
            return Some((rules.set, slots));
        }
        if self.values.levels.is_empty() && (self.has("max") || self.has("half")) {
            let end = if self.has("max") { "max" } else { "half" };
            slots.push_text("to", end);
            return Some((rules.set, slots));
        }
        Some((rules.change, self.change(slots, way?)))
    }

    /// Reports whether a number is what something is set to, and no step.
    fn is_set_to(&self) -> bool {
        let word = |at: usize| self.words.get(at).map_or("", String::as_str);
        let is_number =
            |one: &&Mention| matches!(one.what, What::Slot(Value::Level(..) | Value::Number(_)));
        self.mentions.all.iter().filter(is_number).any(|one| {
            let before = one.from.checked_sub(1).map_or("", word);
            matches!(before, "to" | "at" | "到" | "成" | "为" | "在" | "给")
        }) || self.is_corrected
    }

    fn theme(&self) -> Option<Frame> {
        // 这白底晃眼换成夜里用的: the last one is wanted.
        let dark = self.mentions.places("dark").last();
        let light = self.mentions.places("light").last();
        if dark.is_none() && light.is_none() {
            return None;
        }
        let is_dark = dark > light;
        if !self.has("theme") || !self.values.devices.is_empty() || !self.values.levels.is_empty() {
            return None;
        }
        let mut slots = Slots::default();
        slots.push_text("theme", if is_dark { "dark" } else { "light" });
        Some(("theme", slots))
    }

    fn volume(&self) -> Option<Frame> {
        let is_other = self.has("screen") || self.has("brightness") || self.has("heat");
        let is_speaker = self.is_kind(&["speaker", "radio", "tv"]);
        let is_device = !(self.values.devices.is_empty() || is_speaker);
        if is_other || is_device || !self.values.rooms.is_empty() {
            return None;
        }
        let is_zh = self.setting.language == Language::Chinese;
        let has_way = ["louder", "quieter", "up", "down"].iter().any(|list| self.has(list));
        if self.has("mute") && has_way {
            return None;
        }
        if self.has("mute") && !self.has("music") && self.values.levels.is_empty() {
            let mut slots = Slots::default();
            slots.push_text("to", "none");
            return Some(("volume", slots));
        }
        let is_command = self.has("volume")
            || self.has("small")
            || self.has("large")
            || self.has("verb")
            || self.has("music");
        let way = self.way(&["louder"], &["quieter"]).filter(|_| is_zh || is_command);
        let is_named = self.has("volume") || is_speaker && !self.values.levels.is_empty();
        if way.is_none() && !is_named || self.has("mute") {
            return None;
        }
        let way = way.or_else(|| self.way(&["up"], &["down"]));
        self.level_or_change(Slots::default(), VOLUME, way)
    }

    fn screen(&self) -> Option<Frame> {
        if !self.has("screen") || !self.values.devices.is_empty() || !self.values.rooms.is_empty() {
            return None;
        }
        let mut slots = Slots::default();
        slots.push_text("of", "screen");
        let way = self.way(&["brighter", "up"], &["darker", "down"]);
        self.level_or_change(slots, BRIGHTNESS, way)
    }

    fn cover(&self) -> Option<Frame> {
        let kind = self.values.device()?.filter(|kind| is_cover(*kind))?;
        let mut slots = self.slots()?;
        slots.push("device", Value::Device(kind));
        if let Some((level, is_share)) = self.level() {
            slots.push("level", Value::Level(level, is_share));
            return (is_share || self.is_set_to()).then_some(("cover", slots));
        }
        if self.has("half") {
            slots.push_text("to", "half");
            return Some(("cover", slots));
        }
        let is_open = self.has("open") || self.state() == Some(true);
        let is_closed = self.has("close") || self.state() == Some(false);
        if is_open == is_closed || !self.values.levels.is_empty() {
            return None;
        }
        slots.push_text("state", on_or_off(is_open));
        Some(("switch", slots))
    }

    fn climate(&self) -> Option<Frame> {
        let is_heater = self.is_kind(&["ac", "heating"]);
        let is_named = self.has("heat") || is_heater;
        if !(self.values.devices.is_empty() || is_heater)
            || self.has("volume")
            || self.has("screen")
        {
            return None;
        }
        let way = self.way(&["warmer"], &["cooler"]);
        if !is_named && way.is_none() {
            return None;
        }
        let mut slots = self.slots()?;
        let (degrees, is_share) = match self.level() {
            Some(level) => level,
            None if !self.values.levels.is_empty() => return None,
            None => {
                let way = way.or_else(|| self.way(&["up"], &["down"]))?;
                slots.push_text("way", way.text());
                return Some(("climate_change", slots));
            }
        };
        if is_share {
            return None;
        }
        slots.push("number", Value::Number(degrees));
        let is_step = degrees < Fraction::whole(10) && self.has("degrees");
        if is_step || self.has("by") {
            let way = way.or_else(|| self.way(&["up"], &["down"]))?;
            slots.push_text("way", way.text());
            return Some(("climate_change", slots));
        }
        // A temperature that is told is no target: 卧室温度三十度.
        let has_way = way.is_some() || self.has("up") || self.has("down");
        let is_wanted = self.is_set_to() || self.has("verb") && !has_way;
        is_wanted.then_some(("climate", slots))
    }

    fn light(&self) -> Option<Frame> {
        let is_light = self.is_kind(&["light"]);
        let is_share = self.level().is_some_and(|level| level.1);
        if !(is_share || self.values.levels.is_empty() || is_light && self.is_set_to()) {
            return None;
        }
        // A percentage beside a room is its humidity as well.
        let is_place = self.values.devices.is_empty()
            && !self.values.rooms.is_empty()
            && is_share
            && self.has("brightness");
        if !is_light && !is_place || self.has("volume") || self.has("heat") || self.has("screen") {
            return None;
        }
        let way = self.way(&["brighter"], &["darker"]);
        if self.values.levels.is_empty() && way.is_none() && !self.has("max") {
            return None;
        }
        let mut slots = self.slots()?;
        slots.push_text("of", "light");
        // `take twenty percent off the lamp`
        if let Some((level, true)) = self.level()
            && self.has("take")
        {
            slots.push("level", Value::Level(level, true));
            slots.push_text("way", Way::Down.text());
            return Some(("brightness_change", slots));
        }
        self.level_or_change(slots, BRIGHTNESS, way)
    }

    fn switch(&self) -> Option<Frame> {
        let kind = match self.values.device()? {
            Some(kind) => kind,
            None if self.has("lamp") && !self.values.rooms.is_empty() => NAMES.device("light")?,
            None => return None,
        };
        if self.numbers() > 0 {
            return None;
        }
        let is_on = self.state()?;
        let mut slots = self.slots()?;
        slots.push("device", Value::Device(kind));
        slots.push_text("state", on_or_off(is_on));
        Some(("switch", slots))
    }

    /// Returns whether an entity that no list knows is switched on or off, and the words of its name: `fairy lights off`.
    pub(crate) fn named_switch(&self) -> Option<(bool, Vec<String>)> {
        let is_on = self.state().or_else(|| self.switches_at_the_end())?;
        let name = self.left_by(&acts::SWITCH)?;
        let has_name = !name.is_empty() || !self.values.devices.is_empty();
        let is_now = self.numbers() == 0 && !self.is_later();
        (is_now && has_name && !self.has("it") && self.says_only(&acts::SWITCH))
            .then_some((is_on, name))
    }

    /// Returns whether English words end with on or off: the name before is not known.
    fn switches_at_the_end(&self) -> Option<bool> {
        let last = self.words.last()?;
        match last.as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }

    fn scene(&self) -> Option<Frame> {
        let scene = self.values.scenes.first()?;
        let group = |scene: &Value| match scene {
            Value::Scene(named) => named.group,
            _ => None,
        };
        if self.values.scenes.iter().any(|other| group(other) != group(scene)) {
            return None;
        }
        let is_asked =
            self.has("mode") && self.values.levels.is_empty() && self.values.devices.is_empty();
        if !is_asked || self.has("theme") && self.has("screen") {
            return None;
        }
        let mut slots = Slots::default();
        slots.push("scene", scene.clone());
        Some(("scene", slots))
    }

    fn media(&self) -> Option<Frame> {
        let is_music = self.has("music") || self.is_kind(&["radio"]);
        if !(self.values.devices.is_empty() || self.is_kind(&["radio"]))
            || !self.values.levels.is_empty()
        {
            return None;
        }
        let is_pause = self.has("pause");
        let actions = [
            ("stop", self.has("halt") || is_music && self.state() == Some(false) && !is_pause),
            ("next", self.has("next")),
            ("pause", is_pause),
        ];
        let mut said = actions.iter().filter(|action| action.1).map(|action| action.0);
        let action = said.next().filter(|_| said.next().is_none())?;
        let mut slots = Slots::default();
        slots.push_text("action", action);
        Some(("media", slots))
    }

    /// Returns the music behind 放点儿 or 想听.
    fn play(&self) -> Option<Understood> {
        self.setting.context.bindings.play()?;
        let at = self.mentions.places("play").last()?;
        let verb = self.mentions.all.get(at)?;
        let title = self.words.get(verb.to..)?;
        // 把想听的歌删掉: the verb is a piece of another sentence.
        let is_piece = title.first().is_some_and(|word| word == "的")
            || self.words.iter().take(verb.from).any(|word| matches!(word.as_str(), "把" | "将"));
        let is_long = title.is_empty() || title.len() > MOST_TITLE;
        let is_said = title.iter().any(|word| NO_TITLE.contains(&word.as_str()));
        if is_long || is_piece || is_said || !self.says_only_up_to(at, &acts::PLAY) {
            return None;
        }
        let mut slots = Slots::default();
        slots.push_text("title", &crate::value::written(title));
        let left = self.left_within(at + 1, verb.to, &acts::PLAY)?;
        Some(Understood { frame: ("play", slots), left })
    }

    /// Returns a change of what was spoken of before: `flick it off again`.
    pub(crate) fn reference(&self) -> Option<Understood> {
        let is_timer = matches!(self.setting.last?.about, About::Timer(_));
        let said =
            if is_timer && self.has("cancel") { acts::TIMER_CANCEL } else { acts::REFERENCE };
        let frame = self.of_reference(&said)?;
        self.understood(&said, frame)
    }

    fn of_reference(&self, said: &Said) -> Option<Frame> {
        let is_zh = self.setting.language == Language::Chinese;
        let ends =
            |at: usize| self.words.get(at).is_none_or(|word| matches!(word.as_str(), "吧" | "了"));
        let is_long = |one: &&Mention| one.is("off") && one.to - one.from > 1 && ends(one.to);
        // 可以关了 is said of what is on.
        let asks = |word: &String| matches!(word.as_str(), "可" | "吧" | "得" | "该");
        let is_short =
            |one: &&Mention| one.is("off") && self.words.iter().any(asks) && ends(one.to);
        let is_named = is_zh && self.mentions.all.iter().any(|one| is_short(&one))
            || self.has("it")
            || self.has("also")
            || is_zh && self.mentions.all.iter().any(|one| is_long(&one));
        if !(is_named || self.has("cancel")) || !self.says_only(said) {
            return None;
        }
        if !self.values.devices.is_empty() || !self.values.durations.is_empty() {
            return None;
        }
        if self.is_later() || !self.values.clocks.is_empty() {
            return None;
        }
        if self.has("cancel") {
            return Some(("timer_cancel", Slots::default()));
        }
        let mut slots = self.slots()?;
        if !self.values.rooms.is_empty() {
            if !self.has("also") {
                return None;
            }
            return Some(("also", slots));
        }
        if let Some((level, is_share)) = self.level() {
            slots.push("level", Value::Level(level, is_share));
            return (is_share || self.is_set_to()).then_some(("correct", slots));
        }
        if let Some(is_on) = self.state() {
            slots.push_text("state", on_or_off(is_on));
            return Some(("it_switch", slots));
        }
        if !(self.has("small")
            || self.has("large")
            || self.has("verb")
            || !self.values.levels.is_empty())
        {
            return None;
        }
        let way = self.way(
            &["up", "louder", "brighter", "warmer"],
            &["down", "quieter", "darker", "cooler"],
        )?;
        slots.push_text("of", "any");
        Some(("more", self.change(slots, way)))
    }
}
