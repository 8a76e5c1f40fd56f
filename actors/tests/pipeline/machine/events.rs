//! Events of a device's life, and strategies for random sequences of them. Not for executing them:
//! that is [`super::device`].

use hearken_ports::ProviderErrorKind as Kind;
use proptest::prelude::*;

/// Side that opens and closes the microphone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Auto,
    Manual,
    Realtime,
}

/// Result of the recogniser for an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hears {
    /// The person's words, after 30 ms.
    Words,
    /// The same after 1.5 s.
    WordsLate,
    /// Nothing: it was noise.
    Nothing,
    /// A full stop: it was noise, too.
    FullStop,
    Refuses,
    Resets,
    Fails(Kind),
}

/// Reaction of the model to a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    /// One sentence.
    Short,
    /// Three sentences.
    Long,
    /// One sentence after 3 s.
    Slow,
    Fails(Kind),
    /// One sentence, then the stream breaks off.
    Breaks,
    /// No text.
    Nothing,
    /// An emoji and no words.
    Emoji,
    /// A call of this tool, then an answer of one sentence.
    Calls(Tool),
    /// Two concurrent calls, then an answer.
    CallsTwo,
    /// A call of this tool, then no text.
    CallsOnly(Tool),
    /// Endless calls.
    CallsEndlessly,
}

/// Kind of a called tool and of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Tool of the server.
    Quick,
    /// Tool of the server that takes 2 s.
    Slow,
    /// The same; continues when its turn is cut.
    Finishes,
    /// Tool of the server that fails.
    Fails,
    /// Tool of the server that never answers.
    Never,
    /// Tool of the device.
    Device,
    /// Tool of the device that never answers.
    DeviceNever,
    /// Tool of the device, called by its original name.
    DottedName,
    /// A call without a name.
    NoName,
    /// A call without an id.
    NoId,
    /// Arguments that are not an object.
    NoObject,
}

/// Reaction of the synthesiser to an answer's first sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// 300 ms of sound.
    Fine,
    /// 2 s of sound.
    Long,
    /// The sound starts after 3 s.
    Late,
    /// The sound stalls for 2 s in the middle.
    Stalls,
    Refuses,
    /// 300 ms of sound, then the stream breaks off.
    Breaks,
}

/// Reactions of all ports to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handling {
    pub(crate) hears: Hears,
    pub(crate) model: Model,
    pub(crate) voice: Voice,
}

impl Handling {
    /// Reactions without a fault.
    pub(crate) const ORDINARY: Self =
        Self { hears: Hears::Words, model: Model::Short, voice: Voice::Fine };
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Another hello.
    Hello {
        mcp: bool,
    },
    ListenStart(Mode),
    ListenStop,
    WakeWord,
    /// A typed question.
    Types(Handling),
    Abort,
    /// A person says something and is silent, or releases the button.
    Speaks(Handling),
    /// A person says something and goes on.
    BeginsToSpeak(Handling),
    Silence,
    /// A cough.
    Cough,
    /// A message to be spoken is pushed.
    Say,
    /// A notice is pushed.
    Notice,
    /// The server starts to refuse turns until the next event, or admits them again.
    Busy(bool),
    SettingsReloaded,
    SecondSocket,
    SocketLost,
    /// The device disconnects in order.
    Goodbye,
    /// The device is ordered to restart, and drops the socket as firmware does.
    Reboot,
    /// The server closes the connection.
    SentAway,
    /// The server stops, and another one replaces it.
    ServerStops,
    /// The device sends nothing any more, not even the answer to a ping, until the server closes
    /// the connection.
    FallsSilent,
    /// The device reconnects and sends no hello until the server closes the connection.
    NoHello,
    /// A message that is unreadable, or that changes nothing; by its index in [`ODD`].
    Odd(usize),
    /// Silence until the farewell starts.
    LongSilence,
}

/// Messages that are unreadable, or that change nothing.
pub(super) const ODD: [&str; 6] = [
    "no json",
    "[1]",
    r#"{"type":"dance"}"#,
    r#"{"type":"listen","state":"sideways"}"#,
    r#"{"type":"mcp","payload":{"jsonrpc":"2.0","id":999,"result":{}}}"#,
    r#"{"type":"iot","update":true,"states":[{"name":"Lamp","state":{"power":true}}]}"#,
];

/// Event, and the time until the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) event: Event,
    pub(crate) then_ms: u64,
}

/// Life of one device.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    /// True if it has tools of its own.
    pub(crate) mcp: bool,
    pub(crate) steps: Vec<Step>,
    /// True if it ends with the server, not with the device.
    pub(crate) server_stops: bool,
}

fn hears() -> impl Strategy<Value = Hears> {
    prop_oneof![
        8 => Just(Hears::Words),
        2 => Just(Hears::WordsLate),
        2 => Just(Hears::Nothing),
        1 => Just(Hears::FullStop),
        1 => Just(Hears::Refuses),
        1 => Just(Hears::Resets),
        1 => Just(Hears::Fails(Kind::Timeout)),
        1 => Just(Hears::Fails(Kind::Protocol)),
    ]
}

/// All tools.
pub(super) const TOOLS: [Tool; 11] = [
    Tool::Quick,
    Tool::Slow,
    Tool::Finishes,
    Tool::Fails,
    Tool::Never,
    Tool::Device,
    Tool::DeviceNever,
    Tool::DottedName,
    Tool::NoName,
    Tool::NoId,
    Tool::NoObject,
];

fn tool() -> impl Strategy<Value = Tool> {
    prop::sample::select(&TOOLS[..])
}

fn model() -> impl Strategy<Value = Model> {
    prop_oneof![
        6 => Just(Model::Short),
        3 => Just(Model::Long),
        3 => Just(Model::Slow),
        1 => Just(Model::Fails(Kind::Timeout)),
        1 => Just(Model::Fails(Kind::BadRequest)),
        1 => Just(Model::Fails(Kind::Fault)),
        1 => Just(Model::Breaks),
        1 => Just(Model::Nothing),
        1 => Just(Model::Emoji),
        4 => tool().prop_map(Model::Calls),
        1 => Just(Model::CallsTwo),
        2 => tool().prop_map(Model::CallsOnly),
        1 => Just(Model::CallsEndlessly),
    ]
}

fn voice() -> impl Strategy<Value = Voice> {
    prop_oneof![
        8 => Just(Voice::Fine),
        2 => Just(Voice::Long),
        1 => Just(Voice::Late),
        1 => Just(Voice::Stalls),
        1 => Just(Voice::Refuses),
        1 => Just(Voice::Breaks),
    ]
}

fn handling() -> impl Strategy<Value = Handling> {
    (hears(), model(), voice()).prop_map(|(hears, model, voice)| Handling { hears, model, voice })
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Auto), Just(Mode::Manual), Just(Mode::Realtime)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => any::<bool>().prop_map(|mcp| Event::Hello { mcp }),
        3 => mode().prop_map(Event::ListenStart),
        2 => Just(Event::ListenStop),
        3 => Just(Event::WakeWord),
        8 => handling().prop_map(Event::Types),
        6 => Just(Event::Abort),
        9 => handling().prop_map(Event::Speaks),
        4 => handling().prop_map(Event::BeginsToSpeak),
        2 => Just(Event::Silence),
        1 => Just(Event::Cough),
        2 => Just(Event::Say),
        1 => Just(Event::Notice),
        1 => any::<bool>().prop_map(Event::Busy),
        1 => Just(Event::SettingsReloaded),
        1 => Just(Event::SecondSocket),
        1 => Just(Event::SocketLost),
        1 => Just(Event::Goodbye),
        1 => Just(Event::Reboot),
        1 => Just(Event::SentAway),
        1 => Just(Event::ServerStops),
        1 => Just(Event::FallsSilent),
        1 => Just(Event::NoHello),
        2 => (0..ODD.len()).prop_map(Event::Odd),
        1 => Just(Event::LongSilence),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let waits = prop::sample::select(vec![0_u64, 0, 30, 130, 320, 700, 1_500, 5_000]);
    (event(), waits).prop_map(|(event, then_ms)| Step { event, then_ms })
}

/// Lives of up to ten events. In some of them only the model is unusual, again and again.
pub(crate) fn life() -> impl Strategy<Value = Life> {
    let steps = prop::collection::vec(step(), 1..=10);
    let habit = prop_oneof![model(), tool().prop_map(Model::Calls)];
    let habit = prop::option::weighted(0.25, habit);
    (any::<bool>(), steps, habit, prop::bool::weighted(0.1)).prop_map(
        |(mcp, mut steps, habit, server_stops)| {
            for step in &mut steps {
                if let (Event::Types(handling) | Event::Speaks(handling), Some(model)) =
                    (&mut step.event, habit)
                {
                    *handling = Handling { model, ..Handling::ORDINARY };
                    step.then_ms = 5_000;
                }
            }
            Life { mcp, steps, server_stops }
        },
    )
}
