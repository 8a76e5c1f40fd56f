//! Ten ordinary turns after each fault of each port, and after each event at each stage of a turn:
//! they have the same prompts, answers and messages as without the event. Not for random sequences
//! of events.

use hearken_dialogue::testkit::ten_turns::{
    Conversation, TURNS, TurnSeen, assert_undisturbed, ten_turns,
};
use hearken_ports::{ChatMessage, ProviderErrorKind as Kind};
use hearken_socket::testkit::Received;

use super::device::Device;
use super::events::{Event, Handling, Hears, Mode, Model, TOOLS, Tool, Voice};
use super::server::TurnTaking;
use super::trace::{Seen, numbers};
use super::{plays_all, virtually};
use crate::ms;

/// Device whose ordinary turns are recorded, counted from the first of them.
struct Ordinary {
    device: Device,
    mode: Mode,
    /// Numbers of earlier questions and prompts.
    before: [usize; 2],
}

impl Ordinary {
    async fn after(mut device: Device, mode: Mode) -> Self {
        device.releases_the_button();
        device.settle().await;
        device.stays_connected().await;
        let entries = device.trace.entries();
        let prompts = entries.iter().filter(|e| matches!(e.seen, Seen::Asked(_))).count();
        let before = [device.outside().questions(), prompts];
        Self { device, mode, before }
    }

    /// Renumbers questions and answers from the first ordinary turn.
    fn counted_anew(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (word, before) in ["question ", "Answer "].into_iter().zip(self.before) {
            for number in numbers(&text.clone(), word) {
                if number >= before {
                    let new = format!("{word}[{}]", number - before);
                    text = text.replacen(&format!("{word}{number}"), &new, 1);
                }
            }
        }
        text
    }
}

impl Conversation for Ordinary {
    async fn turn(&mut self, _: usize) -> TurnSeen {
        let from = self.device.trace.entries().len();
        self.device.listen(self.mode);
        self.device.speaks(Handling::ORDINARY).await;
        self.device.settle().await;
        let mut seen = TurnSeen::default();
        for entry in &self.device.trace.entries()[from..] {
            match &entry.seen {
                Seen::Asked(asked) => {
                    let anew = |m: &ChatMessage| ChatMessage {
                        content: self.counted_anew(&m.content),
                        ..m.clone()
                    };
                    seen.prompts.push(asked.messages[1..].iter().map(anew).collect());
                }
                Seen::Received(told) => {
                    seen.events.push(told.name());
                    if told.name() == "tts/sentence_start" {
                        seen.answer.push_str(&self.counted_anew(told.text()));
                    }
                    if told.name() == "stt" {
                        seen.events.push(self.counted_anew(told.text()));
                    }
                }
                _ => {}
            }
        }
        seen
    }
}

/// Returns ten turns of a device without any earlier event.
async fn undisturbed(mode: Mode, turn_taking: TurnTaking) -> Vec<TurnSeen> {
    let mut device = Ordinary::after(Device::connect(true, turn_taking).await, mode).await;
    let seen = ten_turns(&mut device).await;
    device.device.end(false).await.expect("nothing is left over");
    assert_eq!(seen.len(), TURNS);
    assert!(seen.iter().all(|turn| turn.prompts.len() == 1 && !turn.answer.is_empty()));
    seen
}

/// Returns the earlier messages in the first prompt: the heard part of the event's turn. The judge
/// checks whether it may be there.
fn remains(seen: &[TurnSeen]) -> Vec<ChatMessage> {
    let Some(first) = seen.first().and_then(|turn| turn.prompts.first()) else { return Vec::new() };
    first[..first.len() - 1].to_vec()
}

/// Plays the ten turns, and also checks everything before them. Returns the first mistake.
async fn disturbed(event: &str, device: Device, mode: Mode, plain: &[TurnSeen]) -> Option<String> {
    let mut device = Ordinary::after(device, mode).await;
    let seen = ten_turns(&mut device).await;
    if let Some(fault) = device.device.faults().first() {
        return Some(format!("{event}: {}: {}", fault.rule, fault.what));
    }
    let remains = remains(&seen);
    let interner = std::panic::catch_unwind(|| assert_undisturbed(event, plain, &seen, &remains));
    let left = device.device.end(false).await;
    match (interner, left) {
        (Ok(()), Ok(())) => None,
        (Err(_), _) => Some(format!("{event}: the ten turns differ, see above")),
        (_, Err(left)) => Some(format!("{event}: {left}")),
    }
}

/// Panics with the first of these mistakes.
fn assert_none(disturbed: &[String]) {
    let some = &disturbed[..disturbed.len().min(40)];
    assert!(disturbed.is_empty(), "{} in all:\n{}", disturbed.len(), some.join("\n"));
}

/// Returns handlings with one unusual port each.
fn odd() -> Vec<Handling> {
    const PLAIN: Handling = Handling::ORDINARY;
    let hears = [
        Hears::WordsLate,
        Hears::Nothing,
        Hears::FullStop,
        Hears::Refuses,
        Hears::Resets,
        Hears::Fails(Kind::Timeout),
        Hears::Fails(Kind::Protocol),
        Hears::Fails(Kind::Unauthorized),
    ];
    let models = [
        Model::Slow,
        Model::Fails(Kind::Timeout),
        Model::Fails(Kind::BadRequest),
        Model::Fails(Kind::Fault),
        Model::Fails(Kind::Protocol),
        Model::Fails(Kind::RateLimited),
        Model::Breaks,
        Model::Nothing,
        Model::Emoji,
        Model::CallsTwo,
        Model::CallsEndlessly,
    ];
    let voices = [Voice::Long, Voice::Late, Voice::Stalls, Voice::Refuses, Voice::Breaks];
    let hears = hears.map(|hears| Handling { hears, ..PLAIN });
    let models = models.map(|model| Handling { model, ..PLAIN });
    let calls = TOOLS.map(|tool| Handling { model: Model::Calls(tool), ..PLAIN });
    let calls_only = TOOLS.map(|tool| Handling { model: Model::CallsOnly(tool), ..PLAIN });
    let voices = voices.map(|voice| Handling { voice, model: Model::Long, ..PLAIN });
    hears.into_iter().chain(models).chain(calls).chain(calls_only).chain(voices).collect()
}

#[test]
fn ten_turns_after_each_fault_of_each_port_are_unchanged() {
    virtually(async {
        let plain_too = plays_all().then_some(TurnTaking::Plain);
        for turn_taking in plain_too.into_iter().chain([TurnTaking::Eager]) {
            let plain = undisturbed(Mode::Auto, turn_taking).await;
            let mut found = Vec::new();
            for handling in odd() {
                let mut device = Device::connect(true, turn_taking).await;
                device.speaks(handling).await;
                let event = format!("{handling:?}, {turn_taking:?}");
                found.extend(disturbed(&event, device, Mode::Auto, &plain).await);
            }
            assert_none(&found);
        }
    });
}

/// Progress of a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Idle,
    Hearing,
    Recognising,
    Thinking,
    Calling(Tool),
    Synthesising,
    Starting,
    Speaking,
    SayingMessage,
    Greeting,
    Leaving,
}

const STAGES: [Stage; 13] = [
    Stage::Idle,
    Stage::Hearing,
    Stage::Recognising,
    Stage::Thinking,
    Stage::Calling(Tool::Slow),
    Stage::Calling(Tool::Finishes),
    Stage::Calling(Tool::DeviceNever),
    Stage::Synthesising,
    Stage::Starting,
    Stage::Speaking,
    Stage::SayingMessage,
    Stage::Greeting,
    Stage::Leaving,
];

async fn comes_to(device: &mut Device, mode: Mode, stage: Stage) {
    const PLAIN: Handling = Handling::ORDINARY;
    device.listen(mode);
    match stage {
        Stage::Idle => {}
        Stage::Hearing => device.begins_to_speak(PLAIN).await,
        Stage::Recognising => device.speaks(Handling { hears: Hears::WordsLate, ..PLAIN }).await,
        Stage::Thinking => {
            device.speaks(Handling { model: Model::Slow, ..PLAIN }).await;
            device.pass(ms(300)).await;
        }
        Stage::Calling(tool) => {
            device.speaks(Handling { model: Model::Calls(tool), ..PLAIN }).await;
            device.pass(ms(300)).await;
        }
        Stage::Synthesising => {
            device.speaks(Handling { voice: Voice::Late, ..PLAIN }).await;
            device.pass(ms(500)).await;
        }
        Stage::Starting => {
            device.speaks(PLAIN).await;
            device.until("tts/start").await;
        }
        Stage::Speaking => {
            device.speaks(Handling { model: Model::Long, voice: Voice::Long, ..PLAIN }).await;
            device.until("tts/sentence_start").await;
            device.pass(ms(700)).await;
        }
        Stage::SayingMessage => {
            device.meets(Event::Say).await;
            device.until("tts/sentence_start").await;
        }
        Stage::Greeting => {
            device.meets(Event::WakeWord).await;
            device.until("tts/sentence_start").await;
        }
        Stage::Leaving => device.meets(Event::LongSilence).await,
    }
}

/// Events without a question that gets an answer.
fn events() -> Vec<Event> {
    let noise = |hears| Event::Speaks(Handling { hears, ..Handling::ORDINARY });
    vec![
        Event::Hello { mcp: true },
        Event::ListenStart(Mode::Auto),
        Event::ListenStart(Mode::Manual),
        Event::ListenStart(Mode::Realtime),
        Event::ListenStop,
        Event::WakeWord,
        Event::Abort,
        noise(Hears::Nothing),
        noise(Hears::FullStop),
        noise(Hears::Fails(Kind::Protocol)),
        noise(Hears::Words),
        Event::Silence,
        Event::Cough,
        Event::Say,
        Event::Notice,
        Event::Busy(true),
        Event::SettingsReloaded,
        Event::SecondSocket,
        Event::SocketLost,
        Event::Goodbye,
        Event::Reboot,
        Event::SentAway,
        Event::ServerStops,
        Event::FallsSilent,
        Event::NoHello,
        Event::Odd(0),
        Event::LongSilence,
    ]
}

async fn each_event_at_each_stage(mode: Mode, turn_taking: TurnTaking) {
    let plain = undisturbed(mode, turn_taking).await;
    let mut found = Vec::new();
    for (n, stage) in STAGES.into_iter().enumerate() {
        // In the gate each event at some stages, and at each stage some events.
        let some = |(m, _): &(usize, Event)| plays_all() || (n + m).is_multiple_of(6);
        for (_, event) in events().into_iter().enumerate().filter(some) {
            let name = format!("{event:?} while {stage:?} in {mode:?}");
            let mut device = Device::connect(true, turn_taking).await;
            comes_to(&mut device, mode, stage).await;
            device.meets(event).await;
            device.pass(ms(200)).await;
            device.meets(Event::Busy(false)).await;
            found.extend(disturbed(&name, device, mode, &plain).await);
        }
    }
    assert_none(&found);
}

#[test]
fn ten_turns_after_each_event_at_each_stage_are_unchanged() {
    virtually(each_event_at_each_stage(Mode::Auto, TurnTaking::Plain));
}

#[test]
fn the_same_where_answers_are_begun_early() {
    virtually(each_event_at_each_stage(Mode::Auto, TurnTaking::Eager));
}

#[test]
fn the_same_where_the_microphone_is_always_open() {
    virtually(each_event_at_each_stage(Mode::Realtime, TurnTaking::Plain));
}

#[test]
fn the_same_where_it_is_and_replies_are_paused() {
    virtually(each_event_at_each_stage(Mode::Realtime, TurnTaking::Eager));
}

#[test]
fn the_same_where_a_button_opens_the_microphone() {
    virtually(each_event_at_each_stage(Mode::Manual, TurnTaking::Plain));
}

/// Returns the number of messages and the duration of one turn that calls a tool.
async fn one_turn(handling: Handling) -> (usize, u64) {
    let mut device = Device::connect(true, TurnTaking::Plain).await;
    let from = device.told();
    let begun = device.trace.now();
    device.speaks(handling).await;
    device.until("tts/stop").await;
    let length = device.trace.now() - begun;
    (device.told() - from, u64::try_from(length.as_millis()).expect("a short turn"))
}

/// Checks that every finishing call ends, although its connection is lost.
async fn unfinished(device: &mut Device, event: &str) -> Option<String> {
    device.pass(ms(5_000)).await;
    let entries = device.trace.entries();
    let count = |seen: &dyn Fn(&Seen) -> bool| entries.iter().filter(|e| seen(&e.seen)).count();
    let called = count(&|seen| matches!(seen, Seen::Called(name) if name == "do_finishes"));
    let done = count(&|seen| matches!(seen, Seen::Done(name) if name == "do_finishes"));
    (called != done).then(|| format!("{event}: a call was started and not finished"))
}

async fn lost_in_the_midst(handling: Handling, at: At, plain: &[TurnSeen]) -> Option<String> {
    let event = format!("{handling:?}, lost at {at:?}");
    let mut device = Device::connect(true, TurnTaking::Eager).await;
    match at {
        At::Message(number) => {
            let last = device.told() + number;
            let speaks = device.speaks_until(handling, |device| device.told() >= last);
            speaks.await;
        }
        At::Time(after) => {
            let end = device.trace.now() + ms(after);
            device.speaks_until(handling, |device| device.trace.now() >= end).await;
        }
    }
    device.meets(Event::SocketLost).await;
    let unfinished = unfinished(&mut device, &event).await;
    unfinished.or(disturbed(&event, device, Mode::Auto, plain).await)
}

/// Position at which a turn is cut.
#[derive(Debug, Clone, Copy)]
enum At {
    /// After this many messages.
    Message(usize),
    /// After this many milliseconds.
    Time(u64),
}

#[test]
fn a_socket_lost_at_any_message_or_time_of_a_turn_leaves_nothing_behind() {
    virtually(async {
        let plain = undisturbed(Mode::Auto, TurnTaking::Eager).await;
        let mut found = Vec::new();
        for tool in [Tool::Quick, Tool::Finishes, Tool::Slow, Tool::Device] {
            let handling = Handling { model: Model::Calls(tool), ..Handling::ORDINARY };
            let (messages, length) = one_turn(handling).await;
            let messages = (0..=messages).map(At::Message);
            let step = if plays_all() { 50 } else { 300 };
            let times = (0..=length / step).map(|n| At::Time(n * step));
            for at in messages.chain(times) {
                found.extend(lost_in_the_midst(handling, at, &plain).await);
            }
        }
        assert_none(&found);
    });
}

#[test]
fn a_message_waits_while_a_button_is_held_and_ends_with_its_connection() {
    virtually(async {
        for another_socket in [false, true] {
            let mut device = Device::connect(false, TurnTaking::Plain).await;
            device.meets(Event::ListenStart(Mode::Manual)).await;
            device.pass(ms(100)).await;
            device.meets(Event::Say).await;
            device.meets(Event::LongSilence).await;
            if another_socket {
                device.meets(Event::SecondSocket).await;
            }
            device.asks_at_last().await;
            let entries = device.trace.entries();
            let spoken = entries.iter().any(|e| match &e.seen {
                Seen::Received(told) => told.text().starts_with("Message 1"),
                _ => false,
            });
            assert_eq!(spoken, !another_socket, "the farewell is over, and the device stays");
            assert_eq!(device.faults(), []);
        }
    });
}

#[test]
fn a_silent_device_is_closed_with_1000() {
    virtually(async {
        let mut device = Device::connect(false, TurnTaking::Plain).await;
        device.meets(Event::LongSilence).await;
        device.settle().await;
        let told = device.trace.entries();
        let closed = told.iter().any(|e| matches!(e.seen, Seen::Received(Received::Closed(1000))));
        assert!(closed, "a silent device is closed with 1000");
    });
}
