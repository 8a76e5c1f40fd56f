//! Tools that are called with words of the speaker: those that know the weather, and those that play music by a title. Not for
//! values and switches, see `effects`, nor for what a result says.

use super::effects::is_read;
use super::schema::{Accepts, Parameter, Tool, mentions};

const WEATHER: [&str; 5] = ["weather", "forecast", "天气", "气象", "天气预报"];
/// Names of tools that have to do with the weather, and do not say how it is.
const NO_WEATHER: [&str; 14] = [
    "set",
    "turn",
    "switch",
    "control",
    "play",
    "add",
    "create",
    "warning",
    "warnings",
    "alert",
    "alerts",
    "subscribe",
    "预警",
    "设置",
];
const CITY: [&str; 10] =
    ["city", "location", "place", "town", "where", "城市", "地点", "地区", "位置", "地名"];
const DATE: [&str; 6] = ["date", "day", "when", "日期", "哪天", "哪一天"];
const AHEAD: [&str; 7] = ["forecast", "tomorrow", "daily", "weekly", "预报", "明天", "未来"];
const NOW: [&str; 7] = ["now", "today", "current", "现在", "今天", "当前", "实时"];

const PLAY: [&str; 6] = ["play", "plays", "播放", "点播", "点歌", "放歌"];
const SONG: [&str; 13] = [
    "music", "song", "songs", "track", "tracks", "media", "album", "音乐", "歌", "歌曲", "曲",
    "媒体", "曲目",
];
/// Names of tools that have to do with music, and do not start it by a title.
const NO_PLAY: [&str; 16] = [
    "pause",
    "stop",
    "next",
    "previous",
    "skip",
    "volume",
    "resume",
    "seek",
    "shuffle",
    "repeat",
    "video",
    "alarm",
    "暂停",
    "停止",
    "下一首",
    "上一首",
];
/// Names of the parameter for what is to be played, the likeliest first.
const TITLES: [&[&str]; 4] = [
    &["query", "search", "keyword", "keywords", "关键词", "搜索"],
    &["title", "song", "track", "music", "歌名", "歌曲", "曲名", "what"],
    &["name", "名称", "media", "content", "内容", "text"],
    &["artist", "singer", "歌手"],
];

/// How a tool receives a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DayInput {
    /// It has no parameter for a day: it reports today only.
    Today,
    /// Text; whether it may be a date as YYYY-MM-DD.
    Text { parameter: String, is_iso: bool, is_required: bool },
    /// One of these texts.
    Options { parameter: String, options: Vec<String>, is_required: bool },
}

/// Tool that knows the weather.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WeatherTool {
    pub(crate) tool: String,
    /// Parameter for the city, and whether it is required.
    pub(crate) city: Option<(String, bool)>,
    pub(crate) day: DayInput,
}

/// Tool that plays music by a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlayTool {
    pub(crate) tool: String,
    pub(crate) parameter: String,
    pub(crate) is_required: bool,
}

fn is_text(parameter: &Parameter) -> bool {
    matches!(parameter.accepts, Accepts::Text)
}

/// Returns the parameter that has one of `names` in its name, else in its description.
fn about<'a>(
    tool: &'a Tool,
    names: &[&str],
    fits: fn(&Parameter) -> bool,
) -> Option<&'a Parameter> {
    let named = tool.parameters.iter().find(|p| fits(p) && mentions(&p.name_words, names));
    named.or_else(|| tool.parameters.iter().find(|p| fits(p) && mentions(&p.words, names)))
}

fn day_input(tool: &Tool, city: Option<&Parameter>) -> Option<DayInput> {
    let fits = |p: &Parameter| matches!(p.accepts, Accepts::Text | Accepts::Options(_));
    let found = about(tool, &DATE, fits).filter(|p| city.is_none_or(|city| city.name != p.name));
    let Some(day) = found else {
        // Days ahead that cannot be chosen are for the model to read.
        let is_ahead = tool.mentions(&AHEAD) && !tool.mentions(&NOW);
        return (!is_ahead).then_some(DayInput::Today);
    };
    let parameter = day.name.clone();
    let is_required = day.is_required;
    Some(match &day.accepts {
        Accepts::Options(options) => {
            DayInput::Options { parameter, options: options.clone(), is_required }
        }
        _ => {
            let upper = day.description.to_uppercase();
            let is_iso = upper.contains("YYYY-MM-DD") || upper.contains("ISO");
            DayInput::Text { parameter, is_iso, is_required }
        }
    })
}

/// Returns how a tool is asked for the weather; `None` if it does not know it.
pub(super) fn weather(tool: &Tool) -> Option<WeatherTool> {
    let is_named = mentions(&tool.name_words, &WEATHER);
    if !(is_named
        || mentions(&tool.words, &WEATHER) && (is_read(tool) || tool.parameters.len() < 3))
        || mentions(&tool.name_words, &NO_WEATHER)
    {
        return None;
    }
    let city = about(tool, &CITY, is_text);
    let day = day_input(tool, city)?;
    let mut filled: Vec<&str> = city.iter().map(|city| city.name.as_str()).collect();
    if let DayInput::Text { parameter, .. } | DayInput::Options { parameter, .. } = &day {
        filled.push(parameter);
    }
    if tool.unfilled(&filled).next().is_some() {
        return None;
    }
    let city = city.map(|city| (city.name.clone(), city.is_required));
    Some(WeatherTool { tool: tool.name.clone(), city, day })
}

/// Returns how a tool is asked for music; `None` if it does not play by a title.
pub(super) fn play(tool: &Tool) -> Option<PlayTool> {
    if !tool.mentions(&PLAY) || !tool.mentions(&SONG) || mentions(&tool.name_words, &NO_PLAY) {
        return None;
    }
    if is_read(tool) && !mentions(&tool.name_words, &PLAY) {
        return None;
    }
    let named = |names: &&[&str]| {
        tool.parameters.iter().find(|p| is_text(p) && mentions(&p.name_words, names))
    };
    let parameter = TITLES.iter().find_map(named).or_else(|| {
        let mut texts = tool.parameters.iter().filter(|p| is_text(p) && p.mentions(&SONG));
        let first = texts.next()?;
        texts.next().is_none().then_some(first)
    });
    let parameter = parameter.or_else(|| match tool.parameters.as_slice() {
        [only] => Some(only).filter(|only| is_text(only) && only.is_required),
        _ => None,
    })?;
    if tool.unfilled(&[&parameter.name]).next().is_some() {
        return None;
    }
    Some(PlayTool {
        tool: tool.name.clone(),
        parameter: parameter.name.clone(),
        is_required: parameter.is_required,
    })
}
