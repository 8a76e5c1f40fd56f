//! One of the possible states of a connection, in addition to that of the table: pending results,
//! working ports, and required effects. Not for the transitions: those are in [`super::follow`].

use std::time::Duration;

use super::events::Hears;
use super::follow::SOON;
use super::outside::{ModelAct, recognises};
use super::table::{About, Event, Model, State, Utterance};
use super::trace::Asked;

/// Number of packets of voice that always start an utterance.
const CERTAIN: usize = 4;

/// Possible state of a connection.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Possible {
    pub(super) model: Model,
    /// Start of its rest, or of its turn.
    pub(super) since: Duration,
    /// End of the last speech.
    pub(super) quiet_since: Duration,
    /// Results that the recogniser will return, with their times.
    pub(super) results: Vec<(Duration, Event)>,
    /// True if the end of the utterance must still be reported to the recogniser.
    pub(super) to_finish: bool,
    /// Latest time at which the model must be asked.
    pub(super) to_ask: Option<Duration>,
    /// End of the last call, which continues when the person speaks on or makes a noise.
    pub(super) finishes_at: Duration,
    /// True if the model ends without words, and nothing must be spoken.
    pub(super) silent: bool,
    /// Time until which the turn's ports work.
    pub(super) works_until: Duration,
    /// Time until which the device plays.
    pub(super) plays_until: Duration,
    /// Packets of voice since the microphone counts.
    pub(super) voice: usize,
}

/// Messages that the device received.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) speaking: bool,
    pub(super) closed: Option<u16>,
    /// Number of `stt` messages at this moment.
    pub(super) shown: usize,
    /// True if more than one event happened at this moment: effects of the first ones may be
    /// absent.
    pub(super) crossed: bool,
}

impl Possible {
    /// Updates everything that depends on the turn after an event.
    pub(super) fn follows(&mut self, before: &Self, event: Event, at: Duration) {
        let old = &before.model;
        let new = &self.model;
        let begins = new.turns != old.turns;
        if new.cuts != old.cuts {
            self.results.clear();
            self.to_finish = false;
        }
        let result = matches!(
            event,
            Event::Words
                | Event::EarlierWords
                | Event::EarlierNothing
                | Event::NoWords
                | Event::NotRecognised
                | Event::NoRoom
        );
        if result && !self.results.is_empty() {
            self.results.remove(0);
        }
        // A filler does not end the wait for a call.
        if begins || (new.state != old.state && event != Event::Sounds) {
            self.to_ask = None;
            self.silent = false;
        }
        if begins {
            let asks = new.state == State::Thinking && new.about == About::Question;
            // A repeated question waits for the call of its first answer.
            let again = matches!(event, Event::NoWords | Event::EarlierNothing);
            let from = if again { at.max(self.finishes_at) } else { at };
            self.to_ask = asks.then_some(from + SOON);
            (self.works_until, self.plays_until) = (from, at);
        }
        if new.sounds && !old.sounds {
            self.plays_until = at;
        }
        let rests = |m: &Model| !m.has_turn() && m.utterance.is_none();
        if begins || (rests(new) && !rests(old)) || new.greeted != old.greeted {
            self.since = at;
        }
        let heard =
            (new.state, new.sounds, new.microphone) == (old.state, old.sounds, old.microphone);
        if begins || !heard || matches!(event, Event::ListenStart(_)) {
            self.voice = 0;
        }
        let ended = old.state != new.state && new.state == State::Recognising;
        let spoke = ended || matches!(event, Event::Hello | Event::ListenStart(_));
        let lived = old.has_turn() || old.utterance.is_some();
        if spoke || begins || (lived && rests(new) && event != Event::NoWords) {
            self.quiet_since = at;
        }
    }

    /// Adds the result of a finished utterance, after earlier results.
    pub(super) fn recognises(&mut self, utterance: Utterance, at: Duration) {
        let Some(hears) = utterance.hears else { return self.will_tell(at, Event::NoWords) };
        let event = match hears {
            Hears::Words | Hears::WordsLate => Event::Words,
            Hears::Nothing | Hears::FullStop => Event::NoWords,
            Hears::Refuses | Hears::Resets | Hears::Fails(_) => Event::NotRecognised,
        };
        self.will_tell(at + recognises(hears), event);
        self.to_finish = !matches!(hears, Hears::Refuses | Hears::Resets);
    }

    /// Adds a result of the recogniser, not before earlier results.
    pub(super) fn will_tell(&mut self, at: Duration, event: Event) {
        let earlier = self.results.last().map_or(Duration::ZERO, |(at, _)| *at);
        self.results.push((at.max(earlier), event));
    }

    pub(super) fn with(&self, utterance: Utterance) -> Self {
        Self { model: Model { utterance: Some(utterance), ..self.model }, voice: 0, ..self.clone() }
    }

    /// Applies a request to the model. Returns false if it is not allowed.
    pub(super) fn asks(&mut self, asked: &Asked) -> bool {
        let speaks = matches!(self.model.state, State::Thinking | State::Speaking);
        self.to_ask = None;
        self.silent = asked.round == 0 && asked.does == ModelAct::Writes { sentences: 0 };
        speaks && self.model.about == About::Question
    }

    /// Returns true if the synthesiser may be asked for this.
    pub(super) fn speaks(&mut self, line: &str) -> bool {
        let answers = matches!(self.model.state, State::Thinking | State::Speaking);
        match self.model.about {
            _ if self.model.state == State::Farewell => true,
            about if line.starts_with("Message ") => answers && about == About::Message,
            about if line.starts_with("Answer ") => answers && about == About::Question,
            about => answers && about != About::Message,
        }
    }

    /// Returns true if the device has received exactly the required messages.
    pub(super) fn agrees(&self, wire: &Wire, now: Duration) -> bool {
        let closed = match self.model.state {
            State::Closing(None) => true,
            State::Closing(code) => wire.closed == code || (wire.crossed && wire.closed.is_some()),
            _ => wire.closed.is_none(),
        };
        closed
            && (self.model.sounds == wire.speaking || self.model.state == State::Closing(None))
            && (self.model.shown == wire.shown || wire.crossed && self.model.shown > wire.shown)
            && !self.to_finish
            && self.to_ask.is_none_or(|by| now <= by)
            && self.voice <= CERTAIN
    }
}
