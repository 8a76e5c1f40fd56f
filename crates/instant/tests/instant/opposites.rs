//! Sentences that say another act than the one whose target they name, another day than an alarm can have, or a wait: no call is made
//! that they do not ask for, whoever understands commands among other words. Not for commands that are taken back, see `not_done`.

use hearken_instant::{Answers, Bindings, Context, Scope};
use serde_json::{Value, json};

use crate::support::{Tool, bind, house, now, play, say, say_as, shown, state_of};

const HOUSES: [&str; 11] =
    ["bare", "panel", "flat", "hub", "radio", "guan", "sky", "porch", "dial", "zhuo", "loft"];

/// What is done with a timer that runs, without the tool for it or in words of one's own.
const RUNNING_EN: [&str; 32] = [
    "pause the five minute timer",
    "add five minutes to the timer",
    "extend the timer by five minutes",
    "shorten the timer by two minutes",
    "take five minutes off the timer",
    "the eggs are nearly done so take two minutes off the timer",
    "give the timer an extra five minutes",
    "make the timer five minutes longer",
    "make the timer two minutes shorter",
    "put five minutes more on the timer",
    "increase the timer by ten minutes",
    "reduce the timer by ten minutes",
    "raise the timer to twelve minutes",
    "bring the timer down to four minutes",
    "turn the timer up by five minutes",
    "move the timer forward by five minutes",
    "change my timer to twenty minutes",
    "reset the ten minute timer",
    "restart the ten minute timer",
    "resume the ten minute timer",
    "continue with the ten minute timer",
    "hold the ten minute timer",
    "snooze the timer for ten minutes",
    "silence the ten minute timer",
    "rename the ten minute timer to pasta",
    "check the ten minute timer",
    "skip the ten minute timer",
    "could you maybe dismiss that ten minute countdown for the rice",
    "the rice is ready already so cancel the ten minute timer",
    "dinner is ready so delete the twelve minute countdown",
    "we are done here get rid of the ten minute timer",
    "undo that ten minute timer",
];
const RUNNING_ZH: [&str; 30] = [
    "暂停五分钟的计时器",
    "给计时器加五分钟",
    "计时器再加五分钟",
    "计时器延长五分钟",
    "把计时器延长五分钟",
    "计时器缩短两分钟",
    "计时器减两分钟",
    "计时器减掉两分钟",
    "计时器增加十分钟",
    "计时器多五分钟",
    "倒计时再多五分钟",
    "计时器改成二十分钟",
    "计时器改到二十分钟",
    "计时器推迟五分钟",
    "计时器提前五分钟",
    "重置十分钟的计时器",
    "重新开始十分钟的计时器",
    "继续十分钟的倒计时",
    "恢复十分钟的倒计时",
    "结束十分钟的倒计时",
    "终止十分钟的倒计时",
    "查一查十分钟的计时器",
    "看看十分钟的计时器",
    "跳过十分钟的计时器",
    "米饭好了就取消十分钟的计时器啦",
    "菜都熟透了十分钟的倒计时删掉得了",
    "鸡蛋熟了十分钟的计时器停掉好了",
    "计时器还有五分钟",
    "计时器还剩五分钟",
    "清掉那个十分钟的倒计时嘛",
];
/// A timer with its length, in seconds, is cancelled.
const CANCELLED: [(&str, i64); 22] = [
    ("cancel the ten minute timer", 600),
    ("cancel the timer for ten minutes", 600),
    ("stop my ten minute timer", 600),
    ("delete that eight minute countdown", 480),
    ("clear the half an hour timer", 1800),
    ("end the ninety second timer", 90),
    ("remove the twenty minute timer", 1200),
    ("kill the ten minute timer", 600),
    ("turn the ten minute timer off", 600),
    ("turn off the ten minute timer", 600),
    ("please scrap the five minute timer", 300),
    ("could you cancel my one hour timer please", 3600),
    ("取消十分钟的计时器", 600),
    ("取消那个十分钟的倒计时", 600),
    ("取消刚才那个五分钟的计时", 300),
    ("关掉半小时的计时器", 1800),
    ("停掉一刻钟的倒计时", 900),
    ("删除八分钟的定时", 480),
    ("把十分钟的计时器取消了", 600),
    ("把那个二十分钟的倒计时关掉", 1200),
    ("麻烦帮我取消九十秒的计时器", 90),
    ("把十分钟的计时撤掉", 600),
];

/// Houses, and sentences whose verb is not the one of the act that they would be taken for.
const OTHER_ACTS: [(&str, &str); 50] = [
    ("radio", "cancel the seven am alarm"),
    ("radio", "delete my alarm at six thirty tomorrow"),
    ("radio", "turn the six thirty alarm off would you"),
    ("radio", "move my alarm to half past eight"),
    ("radio", "change the alarm to eight am"),
    ("radio", "snooze the seven am alarm"),
    ("radio", "pause the alarm at seven am"),
    ("radio", "取消早上七点的闹钟"),
    ("radio", "早上七点的闹钟删掉"),
    ("radio", "把七点的闹钟给我关掉"),
    ("radio", "早上七点的闹钟推迟十分钟"),
    ("radio", "早上六点半的闹钟改到八点"),
    ("radio", "闹钟提前到早上六点"),
    ("radio", "unmute the sound and make it louder it is muted"),
    ("radio", "mute it no make it louder with the sound up"),
    ("radio", "pause the music skip this one it is dull"),
    ("radio", "the radio is dull pause it skip this one"),
    ("radio", "取消下一首暂停音乐"),
    ("radio", "取消播放爵士乐"),
    ("radio", "把想听的歌删掉"),
    ("radio", "cancel the volume at thirty percent"),
    ("radio", "声音大点暂停音乐切歌"),
    ("flat", "turn off the film mode it is over"),
    ("flat", "stop the music and start the film mode you lazy thing skip this"),
    ("flat", "cancel the film scene my dear friend"),
    ("flat", "delete the dinner scene"),
    ("flat", "关掉晚餐模式吃完了"),
    ("flat", "取消晚餐模式吃完了"),
    ("flat", "pause the blinds in the dining room"),
    ("flat", "cancel closing the blinds in the dining room"),
    ("flat", "暂停餐厅的窗帘关"),
    ("flat", "cancel the garage light switch on"),
    ("flat", "undo switching the garage light on"),
    ("flat", "取消打开车库的灯"),
    ("flat", "撤销关掉车库的灯"),
    ("flat", "turn the heating off in the office at twenty one degrees it is warm"),
    ("flat", "关掉办公室的暖气二十一度太热"),
    ("flat", "取消办公室暖气二十一度"),
    ("flat", "switch off the dining room light at twenty percent"),
    ("flat", "关掉餐厅的灯百分之二十太亮"),
    ("flat", "timer for the rice my dear garage light on in there"),
    ("flat", "定时打开车库的灯"),
    ("panel", "turn the dark mode off it is morning"),
    ("panel", "my eyes are fine so shut off the dark screen theme"),
    ("panel", "取消黑色的背景"),
    ("panel", "屏幕的黑色底关掉"),
    ("panel", "undo the screen at fifteen percent"),
    ("guan", "取消打开风扇"),
    ("guan", "暂停打开风扇"),
    ("guan", "删除打开空调"),
];

/// Alarms for a day that an alarm without a date cannot have; it is Sunday evening.
const OTHER_DAYS: [&str; 58] = [
    "set an alarm for seven am on Tuesday",
    "wake me at seven on Wednesday",
    "wake me at seven next Friday",
    "wake me up at six thirty this coming Saturday",
    "set an alarm for Thursday at seven am",
    "alarm for eight am on the twenty fifth of December",
    "wake me at seven on December 25th",
    "wake me at seven on the 25th",
    "wake me at seven on the third",
    "wake me at seven the day after tomorrow",
    "wake me at seven in three days",
    "wake me at seven three days from now",
    "wake me in two weeks at seven am",
    "wake me at seven next week",
    "wake me at seven next month",
    "wake me at seven every day",
    "wake me at seven am every morning",
    "wake me at seven on weekdays",
    "set a daily alarm for seven am",
    "set an alarm for seven am on Mondays",
    "wake me at seven each morning",
    "wake me at seven on Monday and Tuesday",
    "wake me at seven from Monday to Friday",
    "wake me at seven at the weekend",
    "wake me at eight on Christmas day",
    "wake me at eight on New Year's day",
    "wake me at five this afternoon please I nap",
    "wake me at seven from now on",
    "set an alarm for seven am starting on Thursday",
    "周二早上七点叫我起床",
    "星期三早上七点叫我",
    "礼拜四早上七点叫我起床",
    "下周二早上七点叫我起床",
    "周六早上七点叫我起床",
    "这周六早上七点喊我起床",
    "12月25日早上七点叫我",
    "十二月二十五号早上七点叫我起床",
    "25号早上七点叫我起床",
    "二十五日早上七点叫我起床",
    "后天早上七点叫我起床",
    "大后天早上七点叫我起床",
    "三天后早上七点叫我起床",
    "过两天早上七点叫我起床",
    "两周后早上七点叫我起床",
    "下个月早上七点叫我起床",
    "下下周早上七点叫我起床",
    "每天早上七点叫我起床",
    "天天早上七点叫我起床",
    "工作日早上七点叫我起床",
    "周一到周五早上七点叫我起床",
    "周一和周三早上七点叫我起床",
    "周一三五早上七点叫我起床",
    "周一周二早上七点叫我起床",
    "周末早上七点叫我起床",
    "圣诞节早上七点叫我起床",
    "元旦早上八点叫我起床",
    "今天下午五点喊我起床",
    "今早七点叫我起床",
];
/// Alarms for today or tomorrow.
const THESE_DAYS: [(&str, &str); 11] = [
    ("set an alarm for seven am on Monday", "07:00"),
    ("while you are at it set an alarm for seven am on Monday", "07:00"),
    ("wake me at seven am on the thirtieth of November", "07:00"),
    ("周一早上七点叫我起床", "07:00"),
    ("所以周一早上七点叫我起床", "07:00"),
    ("明早七点叫我起床", "07:00"),
    ("11月30日早上七点叫我起床", "07:00"),
    ("困死了晚上八点半叫醒我", "20:30"),
    ("明天中午十二点半叫我起床", "12:30"),
    ("明天上午十二点叫我起床", "12:00"),
    ("明天凌晨三点叫我起床", "03:00"),
];

/// Sentences with a word for waiting that a recogniser could have written for a lamp, without a command before.
const WAITING: [&str; 40] = [
    "打开等一下",
    "关等一下",
    "打开等会",
    "打开等会儿",
    "关等会儿",
    "开等等",
    "关等等",
    "打开等下",
    "关等下",
    "开等我",
    "关等我",
    "打开等他",
    "关等到九点",
    "打开等到天黑",
    "关等一等",
    "打开等一会儿",
    "关等半天",
    "打开等人来",
    "关等爸爸回来",
    "打开，等一下吧",
    "请打开等一下下",
    "麻烦关等一下儿",
    "餐厅等会儿关灯",
    "餐厅等一下开灯",
    "餐厅等我开灯",
    "餐厅等等再关灯",
    "餐厅等一会儿关掉",
    "餐厅等爸爸来关",
    "餐厅等到九点关",
    "把餐厅的等会儿关掉",
    "把餐厅的等一下关掉",
    "把餐厅的等下打开",
    "把车库的等我来关",
    "把车库的等会儿开开",
    "车库的等到晚上打开",
    "阳台的等一等打开",
    "阳台的等天黑打开",
    "阳台的等大家到齐关掉",
    "把等会儿要开的关掉",
    "把等下用的打开",
];
/// What a recogniser wrote for a lamp, and no wait.
const LAMPS: [&str; 20] = [
    "阳台的等打开",
    "打开阳台的等",
    "关掉阳台的等",
    "把阳台的等打开",
    "把阳台的等关掉",
    "阳台的等开开",
    "阳台的等关掉吧",
    "阳台的等关上",
    "请把阳台的等打开",
    "麻烦打开阳台的等",
    "阳台的等给我打开",
    "阳台的等给关掉",
    "阳台的等都关掉",
    "阳台的等全打开",
    "餐厅等打开",
    "打开餐厅等",
    "关餐厅等",
    "餐厅等关掉",
    "把餐厅等关了",
    "把餐厅等都打开",
];

fn calls(answers: &Answers, bindings: &Bindings, text: &str, is_lenient: bool) -> String {
    say_as(answers, bindings, text, None, is_lenient)
        .map(|played| shown(&played.calls))
        .unwrap_or_default()
}

#[test]
fn a_timer_that_runs_is_not_begun_once_more() {
    let answers = Answers::builtin();
    let mut faults = Vec::new();
    for name in ["radio", "zhuo"] {
        let bindings = bind(&house(name));
        for text in RUNNING_EN.iter().chain(&RUNNING_ZH) {
            let made = calls(&answers, &bindings, text, true);
            if !matches!(made.as_str(), "" | "countdown_cancel{}" | "dingshi_che{}") {
                faults.push(format!("{name}: {text}: {made}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

/// Returns the tools of the radio with another one that cancels.
fn radio_with(name: &str, description: &str, properties: &Value, required: &[&str]) -> Bindings {
    let mut tools = house("radio");
    tools.retain(|tool| tool.name != "countdown_cancel");
    tools.push(Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    });
    bind(&tools)
}

#[test]
fn a_timer_is_cancelled_by_its_length_where_the_tool_can_be_told_it() {
    let answers = Answers::builtin();
    let radio = bind(&house("radio"));
    let seconds =
        json!({"of_seconds": {"type": "integer", "description": "its length in seconds"}});
    let told = radio_with("countdown_cancel", "Cancels a countdown", &seconds, &[]);
    let mut faults = Vec::new();
    for (text, length) in CANCELLED {
        for is_lenient in [false, true] {
            let made = calls(&answers, &radio, text, is_lenient);
            if !made.is_empty() {
                faults.push(format!("{text}: `{made}`"));
            }
            let made = calls(&answers, &told, text, is_lenient);
            if made != format!("countdown_cancel{{\"of_seconds\":{length}}}") {
                faults.push(format!("{text}: `{made}`"));
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn which_timer_is_meant_is_not_dropped() {
    let answers = Answers::builtin();
    let minutes = json!({"minutes": {"type": "integer"}});
    let one = radio_with("timer_drop_cancel", "Cancels a timer", &minutes, &[]);
    let required = radio_with("timer_drop_cancel", "Cancels a timer", &minutes, &["minutes"]);
    let all = radio_with("timers_clear", "Cancels all timers", &json!({}), &[]);
    let either = radio_with("timers_clear", "取消计时，不给出时长则取消全部", &minutes, &[]);
    for (bindings, text, made) in [
        (&one, "cancel the ten minute timer", r#"timer_drop_cancel{"minutes":10}"#),
        (&one, "cancel the ninety second timer", ""),
        (&one, "cancel the timer", "timer_drop_cancel{}"),
        (&one, "cancel all timers", ""),
        (&required, "取消十分钟的计时器", r#"timer_drop_cancel{"minutes":10}"#),
        (&required, "cancel the timer", ""),
        (&required, "set a timer for eight minutes", r#"countdown_begin{"length_seconds":480}"#),
        (&all, "cancel all timers", "timers_clear{}"),
        (&all, "取消所有的计时器", "timers_clear{}"),
        (&all, "cancel the ten minute timer", ""),
        (&all, "cancel the timer", ""),
        (&either, "取消全部计时", "timers_clear{}"),
        (&either, "取消十分钟的计时器", r#"timers_clear{"minutes":10}"#),
        (&either, "取消计时", ""),
    ] {
        assert_eq!(calls(&answers, bindings, text, false), made, "{text}");
    }
    // What the last answer set is meant by `it`.
    let set = say(&answers, &one, "set a timer for eight minutes", None).unwrap();
    let cancelled = say(&answers, &one, "cancel it", set.referent.as_ref()).unwrap();
    assert_eq!(shown(&cancelled.calls), r#"timer_drop_cancel{"minutes":8}"#);
    assert_eq!(cancelled.answer, "Okay, the timer for 8 minutes is cancelled.");
}

#[test]
fn a_timer_is_begun_among_other_words() {
    let answers = Answers::builtin();
    let radio = bind(&house("radio"));
    for text in [
        "while you are at it put on an eight minute timer",
        "when you get a chance start an eight minute countdown thanks",
        "okay time me eight minutes would you",
        "所以给我来个八分钟的倒计时呗",
        "所以开始八分钟计时",
        "所以定个八分钟的计时器吧",
    ] {
        let made = calls(&answers, &radio, text, true);
        assert_eq!(made, r#"countdown_begin{"length_seconds":480}"#, "{text}");
    }
}

#[test]
fn the_verb_of_another_act_is_not_ignored() {
    let answers = Answers::builtin();
    let mut faults = Vec::new();
    for (name, text) in OTHER_ACTS {
        let made = calls(&answers, &bind(&house(name)), text, true);
        if !made.is_empty() {
            faults.push(format!("{name}: {text}: {made}"));
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn an_alarm_for_another_day_is_not_set_for_the_next() {
    let answers = Answers::builtin();
    let mut faults = Vec::new();
    for name in ["radio", "dial", "zhuo"] {
        let bindings = bind(&house(name));
        for text in OTHER_DAYS {
            let made = calls(&answers, &bindings, text, true);
            if !made.is_empty() {
                faults.push(format!("{name}: {text}: {made}"));
            }
        }
    }
    let radio = bind(&house("radio"));
    for (text, time) in THESE_DAYS {
        let made = calls(&answers, &radio, text, true);
        if made != format!(r#"alarm_create{{"at":"{time}"}}"#) {
            faults.push(format!("{text}: `{made}`"));
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_wait_is_no_lamp() {
    let answers = Answers::builtin();
    let houses = HOUSES.map(|name| (name, bind(&house(name))));
    let last = say(&answers, &houses[2].1, "打开阳台的灯", None).unwrap().referent;
    let mut faults = Vec::new();
    for text in WAITING {
        for (name, bindings) in &houses {
            for (scope, is_lenient, last) in [
                (Scope::Commands, false, None),
                (Scope::Whole, false, None),
                (Scope::Whole, true, None),
                (Scope::Whole, true, last.as_ref()),
            ] {
                let context = Context { scope, is_lenient, last, ..Context::new(now(), bindings) };
                let plan = answers.plan(text, &context);
                let state = |tool: &str| state_of(tool).map(str::to_owned);
                let played = plan.and_then(|plan| play(plan, &state));
                let made = played.map(|played| shown(&played.calls)).unwrap_or_default();
                if !made.is_empty() {
                    faults.push(format!("{name} {scope:?} {is_lenient}: {text}: {made}"));
                }
            }
        }
    }
    for text in LAMPS {
        let made = calls(&answers, &houses[2].1, text, false);
        if !made.starts_with("lights_switch") {
            faults.push(format!("{text}: `{made}`"));
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}
