//! One of the states that a connection may be in, beside the table's: what was said, what works until when, and what has
//! to follow. Not for how all of them move: that is [`super::follow`].

use std::time::Duration;

use super::events::Hears;
use super::follow::SOON;
use super::outside::{ModelAct, recognises};
use super::table::{About, Event, Model, State, Utterance};
use super::trace::Asked;

/// So many packets of voice are heard for certain.
const CERTAIN: usize = 4;

/// One of the states that the connection may be in, and since when.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Possible {
    pub(super) model: Model,
    /// It rests, or its turn has begun, since then.
    pub(super) since: Duration,
    /// Nobody has spoken since then.
    pub(super) quiet_since: Duration,
    /// What the recogniser will tell, and when.
    pub(super) results: Vec<(Duration, Event)>,
    /// The recogniser has to be told that the utterance is over.
    pub(super) to_finish: bool,
    /// The model has to be asked by then.
    pub(super) to_ask: Option<Duration>,
    /// A call that goes on when the person speaks on, or makes a noise, ends then.
    pub(super) finishes_at: Duration,
    /// The model ends without a word, and nothing is to be said.
    pub(super) silent: bool,
    /// The turn's ports work until then.
    pub(super) works_until: Duration,
    /// The device plays until then.
    pub(super) plays_until: Duration,
    /// Packets of voice since it began to hear.
    pub(super) voice: usize,
}

/// What the device was told.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) speaking: bool,
    pub(super) closed: Option<u16>,
    /// `stt`, at this moment.
    pub(super) shown: usize,
    /// More than one thing was done at this moment: what the first calls for may be left out.
    pub(super) crossed: bool,
}

impl Possible {
    /// What was said and what works goes with the turn.
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
        if begins || new.state != old.state {
            self.to_ask = None;
            self.silent = false;
        }
        if begins {
            let asks = new.state == State::Thinking && new.about == About::Question;
            // The same words again wait for the call that was made for them.
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

    /// The utterance is over: what comes of it, after what was said before it.
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

    /// The recogniser will tell this, not before what was said before it.
    pub(super) fn will_tell(&mut self, at: Duration, event: Event) {
        let earlier = self.results.last().map_or(Duration::ZERO, |(at, _)| *at);
        self.results.push((at.max(earlier), event));
    }

    pub(super) fn with(&self, utterance: Utterance) -> Self {
        Self { model: Model { utterance: Some(utterance), ..self.model }, voice: 0, ..self.clone() }
    }

    /// The model was asked.
    pub(super) fn asks(&mut self, asked: &Asked) -> bool {
        let speaks = matches!(self.model.state, State::Thinking | State::Speaking);
        self.to_ask = None;
        self.silent = asked.round == 0 && asked.does == ModelAct::Writes { sentences: 0 };
        speaks && self.model.about == About::Question
    }

    /// The voice was asked for this.
    pub(super) fn speaks(&mut self, line: &str) -> bool {
        let answers = matches!(self.model.state, State::Thinking | State::Speaking);
        match self.model.about {
            _ if self.model.state == State::Farewell => true,
            about if line.starts_with("Message ") => answers && about == About::Message,
            about if line.starts_with("Answer ") => answers && about == About::Question,
            about => answers && about != About::Message,
        }
    }

    /// What the device was told is what it had to be told by now.
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
