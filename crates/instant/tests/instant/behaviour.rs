//! What a plan does beside its sentence: scopes, failures, states that say nothing, referents that grow old, sentences of a user,
//! and any text at all. Not for the corpora.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use hearken_base::language::Language;
use hearken_instant::{Answers, Bindings, Context, Next, Plan, Referent, Scope};
use proptest::prelude::*;

use crate::support::{Tool, bind, house, now, say, say_as};

static ANSWERS: LazyLock<Answers> = LazyLock::new(Answers::builtin);
static FLAT: LazyLock<Bindings> = LazyLock::new(|| bind(&house("flat")));

fn answer(plan: Plan, outcomes: &[Result<String, String>]) -> (String, bool) {
    match plan.next(outcomes) {
        Next::Answer(answer) => (answer.text, answer.is_done),
        next => panic!("{next:?}"),
    }
}

fn plan(text: &str, name: &str, change: impl Fn(&mut Context<'_>)) -> Option<Plan> {
    let bindings = bind(&house(name));
    let mut context = Context::new(now(), &bindings);
    change(&mut context);
    ANSWERS.plan(text, &context)
}

#[test]
fn a_failed_call_is_never_told_as_done() {
    for (text, words) in
        [("打开阳台的灯", "没能打开"), ("turn on the balcony light", "couldn't turn on")]
    {
        for outcomes in [
            vec![Err("offline".to_owned())],
            vec![Ok(r#"{"success":false}"#.to_owned())],
            Vec::new(),
        ] {
            let (said, is_done) = answer(plan(text, "flat", |_| {}).unwrap(), &outcomes);
            assert!(said.contains(words) && !is_done, "{said}");
        }
    }
    let two =
        plan("turn off the garage light and set the volume to twenty", "flat", |_| {}).unwrap();
    let (said, is_done) = answer(two, &[Err(String::new()), Ok("true".to_owned())]);
    assert_eq!(said, "The volume is now set to 20. Sorry, I couldn't turn off the garage light.");
    assert!(!is_done);
}

#[test]
fn a_temperature_that_may_be_that_of_a_person_is_left_to_the_model() {
    for text in [
        "temperature 39 degrees",
        "set the office heating to thirty nine degrees",
        "office heating thirty nine",
        "办公室的暖气调到三十九度",
        "办公室暖气三十九度",
    ] {
        for is_lenient in [false, true] {
            let plan = plan(text, "flat", |context| context.is_lenient = is_lenient);
            assert!(plan.is_none(), "{text}: {plan:?}");
        }
    }
    for text in ["set the office heating to 32 degrees", "办公室的暖气调到三十二度"] {
        assert!(plan(text, "flat", |_| {}).is_some(), "{text}");
    }
}

#[test]
fn a_state_that_says_nothing_is_left_to_the_model() {
    for outcome in [Err("offline".to_owned()), Ok("{}".to_owned()), Ok("fine".to_owned())] {
        let louder = plan("louder", "panel", |_| {}).unwrap();
        assert_eq!(louder.calls().len(), 1);
        assert!(matches!(louder.next(&[outcome]), Next::GiveUp));
    }
    assert!(plan("louder", "guan", |_| {}).is_none());
}

#[test]
fn the_weather_comes_from_the_result_alone() {
    let asked = || plan("what is the weather like", "sky", |_| {}).unwrap();
    for outcomes in
        [vec![Err("offline".to_owned())], vec![Ok(r#"{"error":"x"}"#.to_owned())], Vec::new()]
    {
        let (said, is_done) = answer(asked(), &outcomes);
        assert_eq!((said.as_str(), is_done), ("Sorry, I couldn't get the weather.", false));
    }
    for text in ["{}", "true", "今天晴，21度。", "[1,2]"] {
        assert!(matches!(asked().next(&[Ok(text.to_owned())]), Next::GiveUp), "{text}");
    }
    let (said, _) = answer(asked(), &[Ok("Sunny, 21 degrees.".to_owned())]);
    assert_eq!(said, "Sunny, 21 degrees.");
}

#[test]
fn a_tool_for_the_weather_replaces_that_of_the_server() {
    let mut tools = house("porch");
    tools.push(Tool {
        name: "get_weather".to_owned(),
        description: "Get the weather of a city".to_owned(),
        parameters: serde_json::json!({"type": "object", "properties": {"city": {"type": "string"}}}),
    });
    let bindings = bind(&tools);
    let called = |text: &str| {
        let plan = ANSWERS.plan(text, &Context::new(now(), &bindings)).unwrap();
        plan.calls().remove(0).tool
    };
    assert_eq!(called("what is the weather in oslo"), "conditions_read");
    assert_eq!(called("what is the weather"), "get_weather");
}

#[test]
fn words_of_every_speaker_are_answered_in_the_language_of_the_conversation() {
    let zh = Some(Language::Chinese);
    let en = Some(Language::English);
    for (known, answered) in [(zh, zh), (en, en), (None, en)] {
        for text in ["Hello!", "hi", "hey", "Bye.", "bye bye"] {
            let plan = plan(text, "flat", |context| context.language = known).unwrap();
            let (said, _) = answer(plan, &[]);
            assert_eq!(Language::from_key(&said), answered, "{text}: {said}");
        }
    }
}

#[test]
fn another_joke_follows_only_a_joke() {
    let told = |last: Option<&str>| {
        let context = Context { last_answer: last, ..Context::new(now(), &FLAT) };
        ANSWERS.plan("another one", &context).map(|plan| answer(plan, &[]).0)
    };
    let (first, _) = answer(plan("tell me a joke", "flat", |_| {}).unwrap(), &[]);
    assert!(told(Some(&first)).is_some_and(|next| next != first));
    assert_eq!(told(Some("It is five.")), None);
}

#[test]
fn a_value_at_its_end_is_not_set_again() {
    let louder = plan("louder", "panel", |_| {}).unwrap();
    let (said, _) = answer(louder, &[Ok(r#"{"volume":100}"#.to_owned())]);
    assert_eq!(said, "It's already at its highest.");
}

#[test]
fn a_scope_of_commands_leaves_the_rest_to_the_model() {
    let commands = |text: &str, house: &str| {
        plan(text, house, |context| context.scope = Scope::Commands).is_some()
    };
    for text in [
        "what time is it",
        "今天星期几",
        "seven times eight",
        "stop",
        "volume thirty five",
        "打开阳台的灯",
    ] {
        assert!(commands(text, "flat"), "{text}");
    }
    for text in [
        "louder",
        "thank you",
        "who are you",
        "what can you do",
        "how many grams are in a pound",
        "turn it off",
        "hello",
    ] {
        assert!(!commands(text, "flat"), "{text}");
    }
    assert!(plan("what time is it", "flat", |context| context.scope = Scope::Off).is_none());
    assert!(plan("what time is it", "flat", |context| context.after_question = true).is_none());
    assert!(plan("what time is it", "flat", |context| context.in_character = true).is_none());
}

#[test]
fn alarms_of_the_night_are_in_the_night() {
    let bindings = bind(&house("radio"));
    for (text, at, words) in [
        ("今晚十二点叫我", "00:00", "明天凌晨"),
        ("今晚两点叫我", "02:00", "明天凌晨"),
        ("今天晚上十二点叫我", "00:00", "明天凌晨"),
        ("设一个今晚九点的闹钟", "21:00", "今天晚上"),
        ("wake me up at three at night", "03:00", "tomorrow"),
        ("alarm for 12 tonight", "00:00", "tomorrow"),
        ("set an alarm for nine tonight", "21:00", "today"),
    ] {
        for is_lenient in [false, true] {
            let played = say_as(&ANSWERS, &bindings, text, None, is_lenient).expect(text);
            let arguments = played.calls.iter().map(|call| &call.arguments["at"]);
            assert_eq!(arguments.collect::<Vec<_>>(), [at], "{text}");
            assert!(played.answer.contains(words), "{text}: {}", played.answer);
        }
    }
    // What is after the next midnight, or in an unknown half of the day, is for the model.
    for text in [
        "明天晚上十二点叫我",
        "明晚两点叫我",
        "明晚八点叫我",
        "差一刻一点叫我",
        "今晚看球赛八点叫我",
        "我明天晚上八点要看球叫我",
        "wake me up tomorrow at two at night",
        "wake me up at quarter to one",
        "tonight is my show so wake me up at eight thirty",
    ] {
        let played = say_as(&ANSWERS, &bindings, text, None, true);
        assert!(played.is_none_or(|played| played.calls.is_empty()), "{text}");
    }
}

#[test]
fn approximate_numbers_are_left_to_the_model() {
    let houses = ["radio", "flat", "zhuo"].map(|name| bind(&house(name)));
    for text in [
        "五六分钟后叫我",
        "定个两三分钟的计时器",
        "定个十五六分钟的计时器",
        "倒计时二三十秒",
        "倒计时一两个小时",
        "两三点叫我",
        "设一个早上七八点的闹钟",
        "八点二三十分叫我起床",
        "过两三分钟提醒我关火",
        "音量调到五六十",
        "音量调到二三十",
        "餐厅灯亮度调到三四十",
    ] {
        for (bindings, is_lenient) in
            houses.iter().flat_map(|house| [(house, false), (house, true)])
        {
            let played = say_as(&ANSWERS, bindings, text, None, is_lenient);
            let calls = played.map(|played| played.calls).unwrap_or_default();
            assert!(calls.is_empty(), "{text}: {calls:?}");
        }
    }
}

#[test]
fn a_referent_is_forgotten_after_two_minutes() {
    let answers = Answers::builtin();
    let bindings = bind(&house("flat"));
    let mut last: Referent =
        say(&answers, &bindings, "turn on the balcony light", None).unwrap().referent.unwrap();
    assert!(say(&answers, &bindings, "turn it off please", Some(&last)).is_some());
    last.age = Duration::from_secs(121);
    assert!(say(&answers, &bindings, "turn it off please", Some(&last)).is_none());
}

#[test]
fn a_room_that_no_tool_knows_is_left_to_the_model() {
    for text in
        ["打开浴室的灯", "turn on the bathroom light", "打开餐厅和浴室的灯", "turn on the light"]
    {
        assert!(plan(text, "flat", |_| {}).is_none(), "{text}");
    }
}

#[test]
fn a_tool_for_one_sort_is_not_called_for_another() {
    let switch = |name: &str| Tool {
        name: name.to_owned(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}),
    };
    let position = |name: &str| Tool {
        name: name.to_owned(),
        description: "0 is closed and 100 is open".to_owned(),
        parameters: serde_json::json!({"type": "object", "properties": {"percent": {"type": "integer", "minimum": 0, "maximum": 100}}, "required": ["percent"]}),
    };
    for (tool, text, is_called) in [
        (switch("desk_lamp_power"), "turn on the desk lamp", true),
        (switch("desk_lamp_power"), "turn on the light", true),
        (switch("desk_lamp_power"), "turn on the floor lamp", false),
        (switch("kettle_power"), "turn on the kettle", true),
        (switch("kettle_power"), "turn on the coffee machine", false),
        (switch("range_hood_power"), "turn on the extractor fan", false),
        (position("blinds_position"), "close the curtains", true),
        (position("blinds_position"), "close the blinds", true),
        (position("blinds_position"), "close the sheer curtains", false),
        (position("garage_door_position"), "close the curtains", false),
    ] {
        let bindings = bind(std::slice::from_ref(&tool));
        for is_lenient in [false, true] {
            let played = say_as(&ANSWERS, &bindings, text, None, is_lenient);
            let has_calls = played.is_some_and(|played| !played.calls.is_empty());
            assert_eq!(has_calls, is_called, "{}: {text}", tool.name);
        }
    }
}

#[test]
fn the_configured_name_is_spoken_and_left_out() {
    let named = |text: &str| plan(text, "panel", |context| context.name = "Robin");
    assert_eq!(answer(named("who are you").unwrap(), &[]).0, "I'm Robin, a voice assistant.");
    assert_eq!(named("robin volume thirty").unwrap().rule(), "volume");
    assert!(plan("robin volume thirty", "panel", |_| {}).is_none());
}

#[test]
fn sentences_of_a_user_are_added() {
    let text = "[[rules]]\nrule = \"switch\"\nwith = { state = \"on\" }\nsay = [\"let there be {device} in {rooms}\", \"{rooms} 亮起来\"]\n";
    let answers = Answers::with_templates(Path::new("mine.toml"), text).unwrap();
    let bindings = bind(&house("flat"));
    for said in ["let there be light in the garage", "车库亮起来"] {
        assert_eq!(say(&answers, &bindings, said, None).unwrap().calls.len(), 1, "{said}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_its_line_and_a_remedy() {
    for (text, line, words) in [
        ("[[rules]]\nrule = \"swich\"\nsay = []\n", 2, "the rules are"),
        ("[[rules]]\nrule = \"switch\"\nsay = [\n  \"a\",\n  \"turn (on\",\n]\n", 5, "add `)`"),
        ("[[rules]]\nrule = \"switch\"\nsay = [\"turn {thing}\"]\n", 3, "the slots are"),
        ("[[rules]]\nrule = \"switch\"\nsay = [\"turn <verb>\"]\n", 3, "add it to [words]"),
        ("[[rules]]\nrule = \"switch\"\nsay = [\"[turn]\"]\n", 3, "no longer optional"),
        ("[[rules]]\nrule = \"switch\"\nsay = [\"turn] on\"]\n", 3, "remove it"),
        ("[words]\na = \"<a>\"\n[[rules]]\nrule = \"switch\"\nsay = [\"<a>\"]\n", 5, "nested"),
        ("[[rules]\n", 1, "README"),
        ("[[rules]]\nrule = \"switch\"\nsaid = []\n", 3, "README"),
    ] {
        let error = Answers::with_templates(Path::new("mine.toml"), text).unwrap_err();
        assert_eq!((error.line, error.message.contains(words)), (line, true), "{error}");
        assert!(error.to_string().starts_with("mine.toml:"), "{error}");
    }
}

#[test]
fn plans_are_made_within_milliseconds() {
    let answers = Answers::builtin();
    let bindings = bind(&house("flat"));
    let texts = [
        "打开阳台的灯",
        "what time is it in london",
        "tell me a long story about a dragon who lived by the sea",
        "今天天气怎么样",
    ];
    let start = Instant::now();
    for _ in 0..25 {
        for text in texts {
            let _ = answers.plan(text, &Context::new(now(), &bindings));
        }
    }
    let took = start.elapsed();
    println!("100 plans took {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = ANSWERS.plan(&text, &Context::new(now(), &FLAT));
    }

    #[test]
    fn no_sequence_of_known_words_panics(words in prop::collection::vec(0_usize..60, 1..12)) {
        const WORDS: [&str; 60] = [
            "把", "灯", "打开", "音量", "调到", "百分之", "三", "十", "百", "万", "亿", "点", "半", "两", "零", "分之", "的", "平方", "加", "除以", "后", "天",
            "小时", "几点", "离", "圣诞节", "现在", "然后", "再", "负", "turn", "on", "off", "the", "light", "to", "half", "past", "five", "hundred",
            "and", "million", "percent", "of", "what", "time", "is", "it", "in", "minus", "times", "point", "square root of", "99999999999", "0", "^",
            "days until", "february", "29", "day",
        ];
        let text: Vec<&str> = words.iter().map(|at| WORDS[*at]).collect();
        let _ = ANSWERS.plan(&text.join(" "), &Context::new(now(), &FLAT));
    }
}
