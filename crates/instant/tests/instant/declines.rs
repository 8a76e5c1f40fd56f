//! What declines a request must not do: it is silent where an offered tool may serve, and a song whose name is a command makes
//! no call. Not for the sentences, which are in the corpora.

use hearken_instant::Answers;
use serde_json::json;

use crate::support::{Tool, bind, house, say, shown};

const HITS: [&str; 2] = [include_str!("hits_decline_zh.txt"), include_str!("hits_decline_en.txt")];
const RULES: [&str; 3] = ["unable", "unknown", "no_weather"];

fn tool(name: &str, description: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": {"request": {"type": "string"}}}),
    }
}

fn sentences() -> impl Iterator<Item = &'static str> {
    let lines = HITS.into_iter().flat_map(str::lines).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '=']))
}

#[test]
fn nothing_is_declined_where_a_tool_may_do_anything() {
    let answers = Answers::builtin();
    let bindings = bind(&[tool("run_agent", "Hands a task in words to another agent")]);
    for line in sentences() {
        if let Some(played) = say(&answers, &bindings, line, None) {
            let rule = played.plan.rule();
            assert!(!rule.split('+').any(|rule| RULES.contains(&rule)), "{line}: {rule}");
        }
    }
}

#[test]
fn a_tool_silences_what_it_may_serve_and_nothing_else() {
    let answers = Answers::builtin();
    let other = bind(&[tool("device.state", "Real-time state of this device")]);
    for (name, description, line) in [
        ("weather.now", "Weather of a city", "is it raining"),
        ("web_search", "", "what's the weather tomorrow"),
        ("web_search", "", "how is the stock market doing"),
        ("x", "查询天气", "明天会下雨吗"),
        ("phone_call", "Rings a contact", "call my mom"),
        ("x", "拨打电话", "给妈妈打电话"),
        ("x", "Plays a radio station", "play some jazz"),
        ("play_song", "", "放一首老歌"),
        ("news.read", "", "tell me the news"),
        ("x", "控制设备，如开关灯", "打开灯"),
        ("x", "Turns on, opens or presses a device or entity", "open the door"),
        ("x", "Turns on, opens or presses a device or entity", "turn on all the lights"),
        ("shopping_list_add", "", "add milk to the shopping list"),
        ("calendar", "Appointments of the family", "what is on my calendar today"),
        ("x", "查询快递物流", "我的快递到哪了"),
        ("take_photo", "", "拍张照"),
        ("timer_new", "", "set a timer"),
    ] {
        let bindings = bind(&[tool(name, description)]);
        assert!(say(&answers, &bindings, line, None).is_none(), "{line}: {name} {description}");
        let played = say(&answers, &other, line, None).unwrap();
        assert!(RULES.contains(&played.plan.rule()), "{line}: {}", played.plan.rule());
    }
}

#[test]
fn a_theme_is_no_light() {
    let answers = Answers::builtin();
    let bindings = bind(&house("panel"));
    for line in ["turn on the light", "把灯打开"] {
        assert_eq!(say(&answers, &bindings, line, None).unwrap().plan.rule(), "unable", "{line}");
    }
}

#[test]
fn a_song_whose_name_is_a_command_makes_no_call() {
    let answers = Answers::builtin();
    let is_song = |line: &&str| {
        ["play ", "put on the song", "播放", "放一首", "来一首"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    for name in ["flat", "hub", "guan"] {
        let bindings = bind(&house(name));
        for line in sentences().filter(is_song) {
            let calls = say(&answers, &bindings, line, None).map(|played| shown(&played.calls));
            assert_eq!(calls.unwrap_or_default(), "", "{name}: {line}");
        }
    }
}

#[test]
fn a_request_beside_a_command_is_declined_and_the_command_is_done() {
    let answers = Answers::builtin();
    let bindings = bind(&house("flat"));
    for (line, words) in [
        ("turn on the balcony light and call my mom", "phone calls"),
        ("打开阳台的灯然后给妈妈打电话", "不能打电话"),
    ] {
        let played = say(&answers, &bindings, line, None).unwrap();
        assert_eq!(played.plan.rule(), "switch+unable", "{line}");
        assert_eq!(shown(&played.calls), r#"lights_switch{"place":"balcony","power":"on"}"#);
        assert!(played.answer.contains(words), "{}", played.answer);
    }
    let played = say(&answers, &bindings, "order a pizza and turn on the balcony light", None);
    assert_eq!(played.unwrap().plan.rule(), "unable+switch");
}
