//! The table of `docs/state-machines/device-connection.md` as a function: what a connection is
//! after an event, and what its device is told with it. A cell that says "a or b" gives both. Pure:
//! when events happen is [`super::follow`]'s.

use super::events::{Hears, Mode};

/// The states of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    NoHello,
    Idle,
    Listening(Mode),
    Recognising,
    Thinking,
    Speaking,
    Farewell,
    /// With this Close; none where the socket is lost.
    Closing(Option<u16>),
}

/// The rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Hello,
    ListenStart(Mode),
    ListenStop,
    WakeWord,
    /// Another text, for which there is room or not.
    Types {
        room: bool,
    },
    Abort,
    /// A notice, new settings, an answer of the device's tools, something unreadable.
    Nothing,
    Goodbye,
    SocketLost,
    SpeechStarts,
    SpeechEnds,
    /// The recogniser: words.
    Words,
    /// The same, of what was said before the person went on.
    EarlierWords,
    /// The recogniser: nothing of that.
    EarlierNothing,
    /// The recogniser: nothing, or no letter and no digit.
    NoWords,
    NotRecognised,
    NoRoom,
    /// The voice: sound.
    Sounds,
    /// All was played, or there was nothing to play.
    Played,
    /// A text to be spoken is pushed.
    Says,
    /// The next message that waits is spoken.
    SaysNext,
    SecondSocket,
    ServerStops,
    NoHelloInTime,
    NoVoice,
    NoSignOfLife,
}

/// What a turn speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// The answer of the model.
    Question,
    /// A phrase of ours.
    Phrase,
    /// A wake word is answered by a phrase, a little later.
    Greeting,
    /// A message that was pushed.
    Message,
}

/// What is being said to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Utterance {
    /// A button opened it.
    pub(crate) button: bool,
    /// What the recogniser will make of it, once it was asked.
    pub(crate) hears: Option<Hears>,
}

/// A connection as the table knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) state: State,
    /// The mode in which the microphone is open, as the device tells.
    pub(crate) microphone: Option<Mode>,
    pub(crate) utterance: Option<Utterance>,
    pub(crate) about: About,
    pub(crate) greeted: bool,
    /// `tts start` was told, `tts stop` was not.
    pub(crate) sounds: bool,
    /// Messages that wait to be spoken.
    pub(crate) waits: usize,
    /// Words wait for their second half.
    pub(crate) kept: bool,
    /// How often `stt` was told.
    pub(crate) shown: usize,
    /// Turns that began.
    pub(crate) turns: usize,
    /// How often all that was said was forgotten.
    pub(crate) cuts: usize,
}

/// Messages that may wait.
const MAX_WAITING: usize = 8;

impl Model {
    /// A socket that was just opened.
    pub(crate) const NEW: Self = Self {
        state: State::NoHello,
        microphone: None,
        utterance: None,
        about: About::Phrase,
        greeted: false,
        sounds: false,
        waits: 0,
        kept: false,
        shown: 0,
        turns: 0,
        cuts: 0,
    };

    /// What it may be after this event; the same where the table says so.
    pub(crate) fn next(self, event: Event) -> Vec<Self> {
        match (self.state, event) {
            (State::Closing(_), _) | (_, Event::Nothing) => vec![self],
            _ => self.device_does(event).unwrap_or_else(|| self.happens_here(event)),
        }
    }

    /// The table of what the device does; none where it is another's event.
    fn device_does(self, event: Event) -> Option<Vec<Self>> {
        use State::{Farewell, Idle, Listening, NoHello, Recognising, Speaking, Thinking};
        Some(match (self.state, event) {
            (NoHello, Event::Hello) => vec![Self { greeted: true, ..self }.rests()],
            (_, Event::Hello) => vec![Self { greeted: true, ..self }],
            (_, Event::ListenStart(Mode::Manual)) => self.button_pressed(),
            (_, Event::ListenStart(mode)) => vec![self.opens(mode)],
            (_, Event::ListenStop) => vec![self.closes_microphone()],
            (_, Event::WakeWord) => vec![self.cut().thinks(About::Greeting).tells_words()],
            (_, Event::Types { room: true }) => {
                vec![self.cut().thinks(About::Question).tells_words()]
            }
            (_, Event::Types { room: false }) => vec![self.cut().thinks(About::Phrase)],
            (NoHello, Event::Abort) => vec![self],
            (_, Event::Abort) => vec![self.cut()],
            (NoHello | Idle, Event::SpeechStarts) => Vec::new(),
            (Listening(_) | Recognising, Event::SpeechStarts) => vec![self.hears_speech()],
            (Thinking | Speaking | Farewell, Event::SpeechStarts) => self.gives_way(),
            (Listening(_), Event::SpeechEnds) => {
                vec![Self { state: Recognising, utterance: None, ..self }]
            }
            (_, Event::SpeechEnds) => vec![self],
            (_, Event::Goodbye) => vec![self.ends(Some(1000))],
            (_, Event::SocketLost) => vec![self.ends(None)],
            _ => return None,
        })
    }

    /// The table of what happens on our side.
    fn happens_here(self, event: Event) -> Vec<Self> {
        use State::{Farewell, Idle, Listening, NoHello, Recognising, Speaking, Thinking};
        match (self.state, event) {
            (Recognising, Event::Words) => {
                vec![Self { kept: false, ..self.thinks(About::Question).tells_words() }]
            }
            (_, Event::EarlierWords) => vec![Self { kept: true, ..self.tells_words() }],
            (Recognising, Event::NoWords) if self.kept => {
                vec![self.rests(), Self { kept: false, ..self.thinks(About::Question) }]
            }
            (Recognising, Event::NoWords) => vec![self.rests()],
            (Recognising, Event::NotRecognised | Event::NoRoom) => {
                vec![Self { kept: false, ..self.thinks(About::Phrase) }]
            }
            (Thinking | Speaking, Event::Sounds) => {
                vec![Self { state: Speaking, sounds: true, ..self }]
            }
            (Farewell, Event::Sounds) => vec![Self { sounds: true, ..self }],
            (_, Event::Sounds) => Vec::new(),
            (Thinking | Speaking, Event::Played) => vec![Self { kept: false, ..self.rests() }],
            (Farewell, Event::Played) if self.waits > 0 => vec![self.rests()],
            (Farewell, Event::Played) => vec![self.ends(Some(1000))],
            (Idle, Event::Says) => vec![self.queues().says_next()],
            (Listening(_), Event::Says) if self.utterance.is_none() && self.greeted => {
                vec![self.queues().says_next()]
            }
            (_, Event::Says) => vec![self.queues()],
            (_, Event::SaysNext) => vec![self.says_next()],
            (_, Event::SecondSocket) => vec![self.ends(Some(1008))],
            (_, Event::ServerStops) => vec![self.ends(Some(1001))],
            (NoHello, Event::NoHelloInTime) => vec![self.ends(Some(1008))],
            (Idle | Listening(_), Event::NoVoice) => vec![self.farewell()],
            (_, Event::NoSignOfLife) => vec![self.ends(Some(1000))],
            _ => vec![self],
        }
    }

    /// Idle, or listening where the microphone is open.
    fn rests(self) -> Self {
        let open = self.microphone.map_or(State::Idle, State::Listening);
        let state = if self.greeted || self.microphone.is_some() { open } else { State::NoHello };
        Self { state, sounds: false, ..self }
    }

    /// The live turn ends, told `tts` `stop` where that is due, and what was not answered is
    /// forgotten.
    fn cut(self) -> Self {
        let cuts = self.cuts + 1;
        Self { utterance: None, kept: false, cuts, ..self }.rests()
    }

    fn thinks(self, about: About) -> Self {
        let turns = self.turns + 1;
        Self { state: State::Thinking, about, utterance: None, sounds: false, turns, ..self }
    }

    fn tells_words(self) -> Self {
        Self { shown: self.shown + 1, ..self }
    }

    /// Cut; listening, an utterance is open.
    fn button(self) -> Self {
        let utterance = Some(Utterance { button: true, hears: None });
        let open = Self { microphone: Some(Mode::Manual), ..self }.cut();
        Self { utterance, turns: self.turns + 1, ..open }
    }

    /// The button; a message of which nothing was heard yet waits again.
    fn button_pressed(self) -> Vec<Self> {
        let speaks = matches!(self.state, State::Thinking | State::Speaking);
        let again = Self { waits: self.waits + 1, ..self.button() };
        match (speaks && self.about == About::Message, self.sounds) {
            (false, _) => vec![self.button()],
            (true, false) => vec![again],
            (true, true) => vec![again, self.button()],
        }
    }

    /// The microphone is open; an utterance or a turn goes on.
    fn opens(self, mode: Mode) -> Self {
        let open = Self { microphone: Some(mode), ..self };
        let rested = matches!(self.state, State::NoHello | State::Idle | State::Listening(_));
        if rested { open.rests() } else { open }
    }

    /// The microphone is closed: what was said is recognised; else a turn goes on.
    fn closes_microphone(self) -> Self {
        let closed = Self { microphone: None, ..self };
        match self.state {
            State::Listening(_) if self.utterance.is_some() => {
                Self { state: State::Recognising, utterance: None, ..closed }
            }
            State::Listening(_) => closed.rests(),
            _ => closed,
        }
    }

    /// Somebody speaks; what was said before and is not answered belongs to it.
    fn hears_speech(self) -> Self {
        let utterance = Some(Utterance { button: false, hears: None });
        Self { utterance, turns: self.turns + 1, ..self.rests() }
    }

    /// Somebody speaks during a turn: cut, or continued where nothing was heard of it yet.
    fn gives_way(self) -> Vec<Self> {
        let asked = self.about == About::Question && self.state != State::Farewell;
        let message = self.about == About::Message && self.state != State::Farewell;
        let continued = Self {
            kept: self.kept || asked,
            waits: self.waits + usize::from(message),
            ..self.hears_speech()
        };
        let cut = Self { kept: false, cuts: self.cuts + 1, ..self.hears_speech() };
        if self.sounds { vec![continued, cut] } else { vec![continued] }
    }

    /// One message more waits.
    pub(crate) fn queues(self) -> Self {
        Self { waits: (self.waits + 1).min(MAX_WAITING), ..self }
    }

    fn says_next(self) -> Self {
        Self { waits: self.waits.saturating_sub(1), ..self.thinks(About::Message) }
    }

    fn farewell(self) -> Self {
        Self { state: State::Farewell, ..self.cut().thinks(About::Phrase) }
    }

    fn ends(self, code: Option<u16>) -> Self {
        Self { state: State::Closing(code), ..self.cut() }.silent()
    }

    fn silent(self) -> Self {
        Self { sounds: false, microphone: None, ..self }
    }

    /// A sound that the device sends is heard.
    pub(crate) fn hears(&self) -> bool {
        match self.microphone {
            None => false,
            Some(Mode::Manual) => self.utterance.is_some(),
            Some(Mode::Auto) => !self.sounds,
            Some(Mode::Realtime) => true,
        }
    }

    /// Somebody is answered, or about to be.
    pub(crate) fn has_turn(&self) -> bool {
        use State::{Farewell, Recognising, Speaking, Thinking};
        matches!(self.state, Recognising | Thinking | Speaking | Farewell)
    }
}
