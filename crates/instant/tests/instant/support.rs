//! Houses of tools, what they answer, and the time for the tests. Not for sentences.

use hearken_instant::{
    Answers, Bindings, Call, Context, Next, OfferedTool, Outcome, Plan, Referent,
};
use jiff::Zoned;
use serde_json::{Value, json};

/// Returns the time of all tests: Sunday, 29 November 2026, 18:30 in Shanghai.
pub(crate) fn now() -> Zoned {
    "2026-11-29T18:30:00+08:00[Asia/Shanghai]".parse().unwrap()
}

/// Tool of a test.
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
}

/// Finds what tools do.
pub(crate) fn bind(tools: &[Tool]) -> Bindings {
    let offered = tools.iter().map(|tool| OfferedTool {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.parameters,
    });
    Bindings::of(&offered.collect::<Vec<_>>())
}

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> Tool {
    Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    }
}

/// Returns the tools of a house of the tests.
pub(crate) fn house(name: &str) -> Vec<Tool> {
    match name {
        "bare" => Vec::new(),
        "panel" => panel(),
        "flat" => flat(),
        "hub" => hub(),
        "radio" => radio(),
        "guan" => guan(),
        "sky" => sky(),
        "porch" => porch(),
        "dial" => dial(),
        "zhuo" => zhuo(),
        "loft" => loft(),
        name => panic!("no house {name}"),
    }
}

fn percent() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": 100})
}

fn volume() -> Tool {
    let description = "Changes how loud the device is: volume in percent";
    tool("speaker.loudness", description, json!({"percent": percent()}), &["percent"])
}

fn state() -> Tool {
    let description = "Current state of the device: volume, brightness, battery";
    tool("device.read_state", description, json!({}), &[])
}

fn panel() -> Vec<Tool> {
    vec![
        state(),
        volume(),
        tool(
            "panel_backlight",
            "Brightness of the display",
            json!({"value": percent()}),
            &["value"],
        ),
        tool(
            "panel_look",
            "Choose the look (theme) of the display",
            json!({"look": {"type": "string", "enum": ["day", "night"]}}),
            &["look"],
        ),
    ]
}

fn flat() -> Vec<Tool> {
    vec![
        state(),
        volume(),
        tool(
            "lights_switch",
            "Switches the lights of one room",
            json!({"where": {"type": "string", "description": "room: dining room, office, balcony, garage or guest room"},
                       "place": {"type": "string", "enum": ["dining_room", "office", "balcony", "garage", "guest_room"]},
                       "power": {"type": "string", "enum": ["on", "off"]}}),
            &["place", "power"],
        ),
        tool(
            "lights_dim",
            "Brightness of the lights of a room in percent",
            json!({"place": {"type": "string", "enum": ["dining_room", "office", "balcony", "garage", "guest_room"]}, "percent": percent()}),
            &["place", "percent"],
        ),
        tool("lights_report", "List all lights with state and brightness", json!({}), &[]),
        tool(
            "heating_target",
            "Target temperature of the heating of a room in degrees",
            json!({"place": {"type": "string", "enum": ["dining_room", "office"]}, "celsius": {"type": "number", "minimum": 5, "maximum": 32}}),
            &["place", "celsius"],
        ),
        tool(
            "blinds_move",
            "Moves the blinds of a room: 0 is closed and 100 is open",
            json!({"place": {"type": "string", "enum": ["dining_room", "office"]}, "position": percent()}),
            &["place", "position"],
        ),
        tool(
            "scenes_start",
            "Starts a scene of the house",
            json!({"name": {"type": "string", "enum": ["film", "dinner", "away"]}}),
            &["name"],
        ),
    ]
}

fn hub() -> Vec<Tool> {
    vec![
        tool("assist__HassTurnOn", "Turns on or opens a device", entity(json!({})), &[]),
        tool("assist__HassTurnOff", "Turns off or closes a device", entity(json!({})), &[]),
        tool(
            "assist__HassLightSet",
            "Sets the brightness of a light",
            json!({"name": {"type": "string"}, "area": {"type": "string"}, "brightness": percent()}),
            &[],
        ),
        tool(
            "assist__HassClimateSetTemperature",
            "Sets the target temperature of a climate device",
            json!({"name": {"type": "string"}, "area": {"type": "string"}, "temperature": {"type": "number"}}),
            &["temperature"],
        ),
        tool("script__breakfast_time", "Breakfast: lights and radio", json!({}), &[]),
        tool(
            "assist__GetLiveContext",
            "Real-time information about the state of devices and areas",
            json!({}),
            &[],
        ),
    ]
}

fn radio() -> Vec<Tool> {
    vec![
        volume(),
        tool(
            "radio_play",
            "Plays music by title",
            json!({"title": {"type": "string"}}),
            &["title"],
        ),
        tool("radio_skip", "Skip to the next song", json!({}), &[]),
        tool(
            "radio_hold",
            "Control of the music: pause or go on",
            json!({"action": {"type": "string", "enum": ["pause", "resume"]}}),
            &["action"],
        ),
        tool(
            "countdown_begin",
            "Begins a countdown",
            json!({"length_seconds": {"type": "integer", "description": "seconds"}}),
            &["length_seconds"],
        ),
        tool("countdown_cancel", "Cancels the countdown", json!({}), &[]),
        tool(
            "alarm_create",
            "Creates an alarm",
            json!({"at": {"type": "string", "description": "time of day as HH:MM"}}),
            &["at"],
        ),
    ]
}

fn guan() -> Vec<Tool> {
    vec![
        tool(
            "appliance",
            "控制家里的电器",
            json!({"action": {"type": "string", "description": "动作", "enum": ["开", "关"]},
                       "appliance": {"type": "string", "description": "电器名称：deng（灯）、fengshan（风扇）、kongtiao（空调）"}}),
            &["action", "appliance"],
        ),
        tool(
            "yinliang",
            "设置音量，0到100",
            json!({"zhi": {"type": "integer", "minimum": 0, "maximum": 100, "description": "音量"}}),
            &["zhi"],
        ),
    ]
}

fn sky() -> Vec<Tool> {
    vec![tool(
        "outlook_lookup",
        "Weather forecast of a town",
        json!({"town": {"type": "string", "description": "name of the town; leave it out for here"},
               "date": {"type": "string", "description": "day as YYYY-MM-DD"}}),
        &[],
    )]
}

fn porch() -> Vec<Tool> {
    vec![
        tool(
            "conditions_read",
            "Current weather in a town",
            json!({"town": {"type": "string"}}),
            &["town"],
        ),
        tool("jukebox_start", "Play music", json!({"keyword": {"type": "string"}}), &[]),
        tool("jukebox_stop", "Stop the music", json!({}), &[]),
    ]
}

fn dial() -> Vec<Tool> {
    let entities =
        json!({"type": "string", "enum": ["light.garage", "light.dining_table", "light.pantry"]});
    vec![
        tool("status_all", "State of the box", json!({}), &[]),
        tool(
            "sound_step",
            "Volume as a step of 0 to 10",
            json!({"step": {"type": "integer", "minimum": 0, "maximum": 10}}),
            &["step"],
        ),
        tool(
            "glass_glow",
            "Backlight of the display as a byte",
            json!({"byte": {"type": "integer", "minimum": 0, "maximum": 255}}),
            &["byte"],
        ),
        tool(
            "glass_scheme",
            "Colour scheme of the display",
            json!({"scheme": {"type": "string", "enum": ["bright", "dim"]}}),
            &["scheme"],
        ),
        tool("bulb_light_on", "Turns a light on", json!({"entity_id": entities}), &["entity_id"]),
        tool("bulb_light_off", "Turns a light off", json!({"entity_id": entities}), &["entity_id"]),
        tool(
            "wake_alarm_add",
            "Add an alarm",
            json!({"hour": {"type": "integer"}, "minute": {"type": "integer"}}),
            &["hour", "minute"],
        ),
        tool(
            "note_later",
            "Remind of something later",
            json!({"text": {"type": "string"}, "delay_minutes": {"type": "integer"}}),
            &["text", "delay_minutes"],
        ),
        tool("mcp-box-quiet_hour_routine", "Quiet hour: all lights off", json!({}), &[]),
    ]
}

fn zhuo() -> Vec<Tool> {
    vec![
        tool(
            "dengguang",
            "控制房间的灯：开关和亮度",
            json!({"weizhi": {"type": "string", "description": "房间：餐厅、阳台、车库"},
                       "dongzuo": {"type": "string", "enum": ["kai", "guan"]},
                       "liang": {"type": "integer", "minimum": 0, "maximum": 255, "description": "亮度"}}),
            &["weizhi"],
        ),
        tool(
            "dingshi",
            "开始计时",
            json!({"miaoshu": {"type": "integer", "description": "秒数"}}),
            &["miaoshu"],
        ),
        tool("dingshi_che", "取消计时", json!({}), &[]),
        tool(
            "nao_she",
            "设置闹钟",
            json!({"dian": {"type": "string", "description": "二十四小时制，如 06:30"}}),
            &["dian"],
        ),
        tool("ting_yin", "停止播放音乐", json!({}), &[]),
        tool("huan_qu", "切到下一首", json!({}), &[]),
    ]
}

/// Returns tools that only read.
fn loft() -> Vec<Tool> {
    vec![
        tool("device.read_state", "Current state of the device: volume, battery", json!({}), &[]),
        tool(
            "sensor_report",
            "Measured temperature and humidity of a room",
            json!({"spot": {"type": "string", "description": "room: office, garage or balcony"}}),
            &["spot"],
        ),
        tool("countdown_report", "Lists the countdowns with what is left", json!({}), &[]),
        tool("player_report", "What the music player is playing", json!({}), &[]),
        tool("fan_report", "列出风扇和窗帘的状态", json!({"detail": {"type": "boolean"}}), &[]),
    ]
}

fn entity(mut more: Value) -> Value {
    let all = json!({"name": {"type": "string"}, "area": {"type": "string"}, "domain": {"type": "array", "items": {"type": "string"}}});
    for (key, value) in all.as_object().unwrap() {
        more[key] = value.clone();
    }
    more
}

/// Returns what a reading tool of the houses answers.
pub(crate) fn state_of(tool: &str) -> Option<&'static str> {
    match tool {
        "device.read_state" => {
            Some(r#"{"audio":{"volume":40},"display":{"brightness":70},"battery":81}"#)
        }
        "sensor_report" => Some(r#"{"spot":"office","celsius":21.5,"humidity":48}"#),
        "countdown_report" => {
            Some(r#"{"countdowns":[{"name":"tea","seconds":600,"seconds_left":250}]}"#)
        }
        "player_report" => Some(r#"{"playing":true,"title":"Blue Moon","artist":"Ella"}"#),
        "fan_report" => Some(
            r#"[{"name":"书架风扇","room":"办公室","state":"on"},{"name":"窗帘","room":"阳台","position":0}]"#,
        ),
        "lights_report" => Some(
            r#"{"dining_room":{"on":true,"brightness":70},"office":{"on":false,"brightness":30}}"#,
        ),
        "assist__GetLiveContext" => Some(
            "Live Context:\n- names: Office Light\n  domain: light\n  state: 'on'\n  areas: Office\n  brightness: '60'\n- names: Office Fan\n  domain: fan\n  state: 'off'\n  areas: Office\n- names: 餐厅灯\n  domain: light\n  state: 'on'\n  areas: 餐厅\n- names: Big Blind\n  domain: cover\n  state: open\n  areas: Dining Room\n",
        ),
        "status_all" => Some(r#"{"loudness":4,"backlight":128}"#),
        "outlook_lookup" => Some(
            r#"{"temperature":12,"temperature_max":14,"temperature_min":8,"condition":"Light rain","rain_probability":80,"wind_kmh":20}"#,
        ),
        "conditions_read" => Some(r#"{"temp":21,"condition":"Sunny"}"#),
        _ => None,
    }
}

/// What a plan came to.
pub(crate) struct Played {
    pub(crate) plan: Plan,
    /// Calls other than those that read without an argument.
    pub(crate) calls: Vec<Call>,
    pub(crate) answer: String,
    pub(crate) referent: Option<Referent>,
}

/// Plays a plan: reads get the state, other calls succeed.
pub(crate) fn play(plan: Plan, state: &dyn Fn(&str) -> Option<String>) -> Option<Played> {
    let mut calls = Vec::new();
    let mut now = plan.clone();
    for _ in 0..3 {
        let mut outcomes: Vec<Outcome> = Vec::new();
        for call in now.calls() {
            match state(&call.tool) {
                Some(text) => {
                    outcomes.push(Ok(text));
                    if !call.arguments.is_empty() {
                        calls.push(call);
                    }
                }
                None => {
                    calls.push(call);
                    outcomes.push(Ok("true".to_owned()));
                }
            }
        }
        match now.next(&outcomes) {
            Next::Calls(next) => now = next,
            Next::Answer(answer) => {
                return Some(Played {
                    plan,
                    calls,
                    answer: answer.text,
                    referent: answer.referent,
                });
            }
            Next::GiveUp => return None,
        }
    }
    None
}

/// Plans and plays one sentence.
pub(crate) fn say(
    answers: &Answers,
    bindings: &Bindings,
    text: &str,
    last: Option<&Referent>,
) -> Option<Played> {
    say_as(answers, bindings, text, last, false)
}

/// Plays an utterance; `is_lenient` says whether commands among other words are understood.
pub(crate) fn say_as(
    answers: &Answers,
    bindings: &Bindings,
    text: &str,
    last: Option<&Referent>,
    is_lenient: bool,
) -> Option<Played> {
    let context = Context {
        last,
        is_lenient,
        name: "Mira",
        last_answer: Some("It is five."),
        ..Context::new(now(), bindings)
    };
    play(answers.plan(text, &context)?, &|tool| state_of(tool).map(str::to_owned))
}

/// Writes calls as `tool{"argument":1}`, joined with `;`.
pub(crate) fn shown(calls: &[Call]) -> String {
    let one =
        |call: &Call| format!("{}{}", call.tool, serde_json::to_string(&call.arguments).unwrap());
    calls.iter().map(one).collect::<Vec<_>>().join(";")
}
