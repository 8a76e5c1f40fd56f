//! The table of `docs/state-machines/device-connection.md` as a function: the state of a connection
//! after an event, and the messages to its device. A cell with "a or b" returns both. Pure: the
//! times of events are in [`super::follow`].

use super::events::{Hears, Mode};

/// States of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    NoHello,
    Idle,
    Listening(Mode),
    Recognising,
    Thinking,
    Speaking,
    Farewell,
    /// Closed with this code; `None` if the socket is lost.
    Closing(Option<u16>),
}

/// Rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Hello,
    ListenStart(Mode),
    ListenStop,
    WakeWord,
    /// Another text, which is admitted or refused.
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
    /// The recogniser returns words.
    Words,
    /// The same, for speech before the person went on.
    EarlierWords,
    /// The recogniser returns no words for that speech.
    EarlierNothing,
    /// The recogniser returns nothing, or no letter and no digit.
    NoWords,
    NotRecognised,
    NoRoom,
    /// The synthesiser returns sound.
    Sounds,
    /// All was played, or there was nothing to play.
    Played,
    /// A text to be spoken is pushed.
    Says,
    /// The next waiting message is spoken.
    SaysNext,
    SecondSocket,
    ServerStops,
    NoHelloInTime,
    NoVoice,
    NoSignOfLife,
}

/// Content of a turn's speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// The answer of the model.
    Question,
    /// A fixed phrase.
    Phrase,
    /// A fixed phrase after a wake word, a little later.
    Greeting,
    /// A pushed message.
    Message,
}

/// Utterance that is being spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Utterance {
    /// True if a button opened it.
    pub(crate) button: bool,
    /// Later result of the recogniser, once it was opened.
    pub(crate) hears: Option<Hears>,
}

/// State of a connection in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) state: State,
    /// Mode in which the microphone is open, according to the device.
    pub(crate) microphone: Option<Mode>,
    pub(crate) utterance: Option<Utterance>,
    pub(crate) about: About,
    pub(crate) greeted: bool,
    /// True between `tts start` and `tts stop`.
    pub(crate) sounds: bool,
    /// Number of messages that wait to be spoken.
    pub(crate) waits: usize,
    /// True if they wait for a turn, or for a few seconds, after an abort.
    pub(crate) held: bool,
    /// True if words wait for their second half.
    pub(crate) kept: bool,
    /// Number of `stt` messages.
    pub(crate) shown: usize,
    /// Number of turns started.
    pub(crate) turns: usize,
    /// Number of times that all words were discarded.
    pub(crate) cuts: usize,
}

/// Maximum number of waiting messages.
const MAX_WAITING: usize = 8;

impl Model {
    /// State of a newly opened socket.
    pub(crate) const NEW: Self = Self {
        state: State::NoHello,
        microphone: None,
        utterance: None,
        about: About::Phrase,
        greeted: false,
        sounds: false,
        waits: 0,
        held: false,
        kept: false,
        shown: 0,
        turns: 0,
        cuts: 0,
    };

    /// Returns the possible states after this event; the same state if the event changes nothing.
    pub(crate) fn next(self, event: Event) -> Vec<Self> {
        match (self.state, event) {
            (State::Closing(_), _) | (_, Event::Nothing) => vec![self],
            _ => self.device_does(event).unwrap_or_else(|| self.happens_here(event)),
        }
    }

    /// Returns the states after an event of the device; `None` for other events.
    fn device_does(self, event: Event) -> Option<Vec<Self>> {
        use State::{Farewell, Idle, Listening, NoHello, Recognising, Speaking, Thinking};
        Some(match (self.state, event) {
            (NoHello, Event::Hello) => vec![Self { greeted: true, ..self }.rests()],
            (_, Event::Hello) => vec![Self { greeted: true, ..self }],
            (_, Event::ListenStart(Mode::Manual)) => self.cuts_to(Self::button),
            (_, Event::ListenStart(mode)) => vec![self.opens(mode)],
            (_, Event::ListenStop) => vec![self.closes_microphone()],
            (_, Event::WakeWord) => self.cuts_to(|m| m.thinks(About::Greeting).tells_words()),
            (_, Event::Types { room: true }) => {
                self.cuts_to(|m| m.thinks(About::Question).tells_words())
            }
            (_, Event::Types { room: false }) => self.cuts_to(|m| m.thinks(About::Phrase)),
            (NoHello, Event::Abort) => vec![self],
            (_, Event::Abort) => self.cuts_to(|m| Self { held: m.waits > 0, ..m }),
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

    /// Returns the states after an event of the server.
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
            (Idle | Listening(_), Event::Says) if self.held && self.utterance.is_none() => {
                vec![self.queues(), self.queues().says_next()]
            }
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

    /// Returns the state at rest: idle, or listening if the microphone is open.
    fn rests(self) -> Self {
        let open = self.microphone.map_or(State::Idle, State::Listening);
        let state = if self.greeted || self.microphone.is_some() { open } else { State::NoHello };
        Self { state, sounds: false, ..self }
    }

    /// Ends the live turn, with `tts` `stop` if it is due, and discards unanswered words.
    fn cut(self) -> Self {
        let cuts = self.cuts + 1;
        Self { utterance: None, kept: false, cuts, ..self }.rests()
    }

    fn thinks(self, about: About) -> Self {
        let turns = self.turns + 1;
        let thinking = Self { state: State::Thinking, about, utterance: None, turns, ..self };
        Self { sounds: false, held: false, ..thinking }
    }

    fn tells_words(self) -> Self {
        Self { shown: self.shown + 1, ..self }
    }

    /// Listens with an open utterance, after a cut.
    fn button(self) -> Self {
        let utterance = Some(Utterance { button: true, hears: None });
        let open = Self { microphone: Some(Mode::Manual), ..self }.rests();
        Self { utterance, turns: self.turns + 1, held: false, ..open }
    }

    /// Cuts, then does this; a message that was not heard yet waits again.
    fn cuts_to(self, then: impl Fn(Self) -> Self) -> Vec<Self> {
        let speaks = matches!(self.state, State::Thinking | State::Speaking);
        let dropped = self.cut();
        let again = Self { waits: self.waits + 1, ..dropped };
        match (speaks && self.about == About::Message, self.sounds) {
            (false, _) => vec![then(dropped)],
            (true, false) => vec![then(again)],
            (true, true) => vec![then(again), then(dropped)],
        }
    }

    /// Opens the microphone; an utterance or a turn goes on.
    fn opens(self, mode: Mode) -> Self {
        let open = Self { microphone: Some(mode), ..self };
        let rested = matches!(self.state, State::NoHello | State::Idle | State::Listening(_));
        if rested { open.rests() } else { open }
    }

    /// Closes the microphone: an utterance is recognised, or a turn goes on.
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

    /// Starts an utterance; earlier unanswered words belong to it.
    fn hears_speech(self) -> Self {
        let utterance = Some(Utterance { button: false, hears: None });
        Self { utterance, turns: self.turns + 1, held: false, ..self.rests() }
    }

    /// Starts an utterance during a turn, which is cut, or continued if nothing of it was heard
    /// yet.
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

    /// Adds a waiting message.
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

    /// Returns true if sound from the device is processed.
    pub(crate) fn hears(&self) -> bool {
        match self.microphone {
            None => false,
            Some(Mode::Manual) => self.utterance.is_some(),
            Some(Mode::Auto) => !self.sounds,
            Some(Mode::Realtime) => true,
        }
    }

    /// Returns true if a turn is in progress.
    pub(crate) fn has_turn(&self) -> bool {
        use State::{Farewell, Recognising, Speaking, Thinking};
        matches!(self.state, Recognising | Thinking | Speaking | Farewell)
    }
}
