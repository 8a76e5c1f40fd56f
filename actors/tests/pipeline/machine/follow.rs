//! Follows one connection's trace with the table, as the set of all states that it may be in:
//! events of the device and the ports change the states, and messages to the device and requests to
//! the ports remove the states that do not match. An empty set means that the pipeline deviates
//! from the table. Not for the cells, which are in [`super::table`].

use std::time::Duration;

use hearken_socket::testkit::Received;

use super::events::{Hears, Mode};
use super::judge::{Connection, Faults, fault};
use super::outside::{TOOL_LIMIT, TOOL_TAKES};
use super::possible::{Possible, Wire};
use super::table::{About, Event, Model, State, Utterance};
use super::trace::{Entry, Seen};
use crate::ms;

/// Maximum distance of simultaneous entries.
const AT_ONCE: Duration = ms(2);
/// Maximum delay of effects without a time of their own.
pub(super) const SOON: Duration = ms(250);
/// Minimum silence before a filler during a call, without the tolerance for the start of the turn.
const FILLER_AFTER: Duration = ms(1_400);
/// Delay between a wake word and its greeting.
const GRACE: Duration = ms(400);
/// Interval between checks of the device's timers.
const CLOCK: Duration = ms(1_200);
/// Time for which messages wait after an abort.
const ABORT_HOLD: Duration = ms(5_000);
/// Interval between pings.
const PING: Duration = ms(30_000);
/// Maximum number of packets of voice that never start an utterance.
const TOO_FEW: usize = 3;
/// The same over a reply.
const TOO_FEW_OVER_REPLY: usize = 2;

/// Event that happens by itself, with its earliest and its latest time.
type Due = (Event, Duration, Duration);

struct Follower {
    opened: Duration,
    possible: Vec<Possible>,
    wire: Wire,
    busy: bool,
    /// Start of the device's silence, and time of its last message.
    silent_since: Option<Duration>,
    inbound: Duration,
    /// Consecutive packets of voice.
    voice: usize,
    last_voice: Duration,
    last_packet: Duration,
    /// True if an event may end an utterance or a turn at this moment.
    disturbed: bool,
}

/// Follows a connection from its start.
pub(super) fn check(connection: &Connection, faults: &mut Faults) {
    let mut entries = connection.entries.iter();
    let Some(begin) = entries.position(|e| matches!(e.seen, Seen::Connected)) else { return };
    let mut follower = Follower::new(connection.entries[begin].at);
    let moments = connection.entries[begin..].chunk_by(|a, b| b.at <= a.at + AT_ONCE);
    for moment in moments {
        if let Err(what) = follower.lives(moment) {
            return fault(faults, "table", what);
        }
    }
}

impl Follower {
    fn new(opened: Duration) -> Self {
        let possible = Possible {
            model: Model::NEW,
            since: opened,
            quiet_since: opened,
            results: Vec::new(),
            to_finish: false,
            to_ask: None,
            finishes_at: Duration::ZERO,
            silent: false,
            works_until: opened,
            plays_until: opened,
            voice: 0,
        };
        Self {
            opened,
            possible: vec![possible],
            wire: Wire::default(),
            busy: false,
            silent_since: None,
            inbound: opened,
            voice: 0,
            last_voice: opened,
            last_packet: opened,
            disturbed: false,
        }
    }

    /// Applies and checks all entries of one moment.
    fn lives(&mut self, moment: &[&Entry]) -> Result<(), String> {
        let before: Vec<_> = self.possible.iter().map(|p| p.model).collect();
        self.disturbed = moment.iter().any(|e| e.seen.forgets());
        self.wire.shown = 0;
        let events = moment.iter().filter(|e| matches!(e.seen, Seen::Event(_)));
        self.wire.crossed = events.count() > 1;
        let busy = moment.iter().filter_map(|e| match e.seen {
            Seen::Busy(busy) => Some(busy),
            _ => None,
        });
        let busy: Vec<_> = busy.collect();
        self.busy |= busy.contains(&true);
        let mut at = moment[0].at;
        for entry in moment {
            at = entry.at;
            self.passes(at);
            self.sees(at, &entry.seen);
        }
        self.passes(at);
        self.busy = busy.last().copied().unwrap_or(self.busy);
        let wire = &self.wire;
        self.possible.retain(|p| p.agrees(wire, at));
        for possible in &mut self.possible {
            possible.model.shown = 0;
            if let State::Closing(Some(_)) = possible.model.state {
                possible.model.state = State::Closing(wire.closed);
            }
        }
        if !self.possible.is_empty() {
            return Ok(());
        }
        let seen: Vec<_> = moment.iter().map(|e| e.seen.in_short()).collect();
        Err(format!("at {at:?} happens {seen:?}, which the table does not allow in {before:?}"))
    }

    /// Applies the events that have happened by themselves by now, or may have.
    fn passes(&mut self, now: Duration) {
        let mut open: Vec<_> = self.possible.drain(..).map(|p| (p, 0)).collect();
        while let Some((possible, depth)) = open.pop() {
            let due = self.due(&possible);
            let overdue = due.iter().filter(|(_, _, until)| *until < now).min_by_key(|d| d.2);
            let overdue = overdue.copied();
            let comes = match overdue {
                Some((event, _, until)) => vec![(event, until)],
                None => due.iter().filter(|d| d.1 <= now).map(|d| (d.0, now)).collect(),
            };
            for (event, at) in comes.into_iter().filter(|_| depth < 8) {
                open.extend(self.after(&possible, event, at).into_iter().map(|p| (p, depth + 1)));
            }
            if overdue.is_none() && !self.possible.contains(&possible) {
                self.possible.push(possible);
            }
        }
    }

    /// Returns the events that happen by themselves in this state.
    fn due(&self, p: &Possible) -> Vec<Due> {
        let mut due = Vec::new();
        if matches!(p.model.state, State::Closing(_)) {
            return due;
        }
        if let Some((at, event)) = p.results.first() {
            let last = p.results.len() == 1 && p.model.state == State::Recognising;
            let event = match event {
                event if last => *event,
                Event::Words => Event::EarlierWords,
                _ => Event::EarlierNothing,
            };
            due.push((event, at.saturating_sub(AT_ONCE), *at + ms(60)));
        }
        if !p.model.greeted {
            due.push((Event::NoHelloInTime, self.opened + ms(9_900), self.opened + ms(11_200)));
        }
        if let Some(silent) = self.silent_since {
            let last = self.inbound.max(silent.saturating_sub(PING));
            due.push((Event::NoSignOfLife, last + ms(59_900), silent + ms(60_000) + CLOCK));
        }
        if !p.model.has_turn() && p.model.greeted {
            let quiet = p.quiet_since + ms(120_000);
            due.push((Event::NoVoice, quiet.saturating_sub(ms(2_000)), quiet + CLOCK));
        }
        due.extend(self.due_of_turn(p));
        due
    }

    fn due_of_turn(&self, p: &Possible) -> Option<Due> {
        let works_until = p.works_until + SOON;
        match p.model.state {
            // While the turn waits for the call of the one before, only a filler is spoken.
            State::Thinking | State::Speaking if let Some(until) = p.to_ask => {
                let filler = p.since + FILLER_AFTER;
                (!p.model.sounds && filler <= until).then_some((Event::Sounds, filler, until))
            }
            State::Thinking if p.silent => {
                Some((Event::Played, p.works_until + ms(100), works_until))
            }
            State::Thinking if p.model.about == About::Greeting => {
                Some((Event::Sounds, p.since + GRACE, p.since + GRACE + SOON))
            }
            State::Farewell if !p.model.sounds => Some((Event::Sounds, p.since, works_until)),
            State::Thinking => Some((Event::Sounds, p.since, works_until)),
            State::Speaking | State::Farewell => {
                let until = p.plays_until.max(p.works_until) + ms(120) + SOON;
                Some((Event::Played, p.plays_until + ms(100), until))
            }
            State::Idle | State::Listening(_) => match p.model.utterance {
                None if p.model.waits > 0 && p.model.greeted => {
                    let held = if p.model.held { ABORT_HOLD } else { Duration::ZERO };
                    Some((Event::SaysNext, p.since, p.since + held + CLOCK))
                }
                Some(utterance) => self.end_of_speech(p, utterance),
                None => None,
            },
            _ => None,
        }
    }

    /// Returns the end of speech by silence; none while a button is held.
    fn end_of_speech(&self, p: &Possible, utterance: Utterance) -> Option<Due> {
        if p.model.microphone == Some(Mode::Manual) {
            return None;
        }
        if utterance.button {
            let until = self.last_packet.max(p.since).max(self.inbound) + ms(700);
            return Some((Event::SpeechEnds, p.since, until));
        }
        Some((Event::SpeechEnds, self.last_voice + ms(200), self.last_voice + ms(700)))
    }

    /// Returns all states that are possible after this event.
    fn after(&self, p: &Possible, event: Event, at: Duration) -> Vec<Possible> {
        let mut all = Vec::new();
        for model in p.model.next(event) {
            let mut next = Possible { model, ..p.clone() };
            next.follows(p, event, at);
            if let Some(utterance) = p.model.utterance
                && model.state == State::Recognising
            {
                if self.busy && utterance.hears.is_some() {
                    let mut refused = next.clone();
                    refused.will_tell(at, Event::NoRoom);
                    all.push(refused);
                }
                next.recognises(utterance, at);
            }
            all.push(next);
        }
        all
    }

    fn every(&mut self, event: Event, at: Duration) {
        let all: Vec<_> = self.possible.iter().flat_map(|p| self.after(p, event, at)).collect();
        self.possible.clear();
        for possible in all {
            if !self.possible.contains(&possible) {
                self.possible.push(possible);
            }
        }
    }

    /// Retains the states that match, as changed by `fit`. An entry at the time of a disturbance
    /// may belong to the turn before.
    fn fits(&mut self, mut fit: impl FnMut(&mut Possible) -> bool) {
        let mut all = self.possible.clone();
        all.retain_mut(|p| fit(p));
        if self.disturbed {
            let before = std::mem::take(&mut self.possible).into_iter();
            all.extend(before.filter(|p| !all.contains(p)).collect::<Vec<_>>());
        }
        self.possible = all;
    }

    fn sees(&mut self, at: Duration, seen: &Seen) {
        match seen {
            Seen::Event(event) => self.happens(*event, at),
            Seen::FellSilent => self.silent_since = Some(at),
            Seen::Packet { voice } => self.packet(at, *voice),
            Seen::Opened(hears) => self.opens(at, *hears),
            Seen::Finished => self.fits(|p| std::mem::take(&mut p.to_finish)),
            Seen::Asked(asked) => self.fits(|p| p.asks(asked)),
            Seen::Line(line) => self.fits(|p| p.speaks(line)),
            Seen::Works(until) => {
                for possible in &mut self.possible {
                    possible.works_until = possible.works_until.max(*until);
                }
            }
            Seen::Called(tool) => {
                let takes = match tool.as_str() {
                    "do_slow" | "do_finishes" => TOOL_TAKES,
                    "do_never" | "self.mute" => TOOL_LIMIT,
                    _ => Duration::ZERO,
                };
                for possible in &mut self.possible {
                    possible.finishes_at = possible.finishes_at.max(at + takes);
                }
            }
            Seen::Received(told) => self.told(at, told),
            _ => {}
        }
    }

    fn happens(&mut self, event: Event, at: Duration) {
        let before = self.possible.clone();
        self.every(event, at);
        match event {
            // A message from elsewhere may overtake an event of the device just before.
            Event::Says if self.wire.crossed => {
                // If that was an abort, it holds the message.
                let queued = before.iter().map(|p| Possible {
                    model: Model { held: true, ..p.model.queues() },
                    since: at,
                    ..p.clone()
                });
                self.possible.extend(queued.collect::<Vec<_>>());
                self.possible.extend(before);
            }
            Event::Says | Event::Nothing => {}
            Event::Types { .. } if self.busy => {
                self.inbound = at;
                let asked = std::mem::replace(&mut self.possible, before);
                self.every(Event::Types { room: false }, at);
                self.possible.extend(asked);
            }
            _ => self.inbound = at,
        }
    }

    fn packet(&mut self, at: Duration, voice: bool) {
        self.inbound = at;
        self.last_packet = at;
        self.voice = if voice { self.voice + 1 } else { 0 };
        if voice {
            self.last_voice = at;
        }
        for p in &mut self.possible {
            let awaited = p.model.utterance.is_none_or(|u| u.hears.is_none());
            let button = p.model.utterance.is_some_and(|u| u.button);
            let counts = awaited && p.model.hears() && (voice || button);
            p.voice = if counts { p.voice + 1 } else { 0 };
        }
        // Over a reply, speech starts before the recogniser is opened.
        let over_reply = self.possible.iter().filter(|p| p.model.sounds && p.model.hears());
        let starts = over_reply.filter(|_| self.voice >= TOO_FEW_OVER_REPLY);
        let starts: Vec<_> = starts.flat_map(|p| self.after(p, Event::SpeechStarts, at)).collect();
        self.possible.extend(starts);
    }

    /// Applies the opening of the recogniser, which requires an open microphone.
    fn opens(&mut self, at: Duration, hears: Hears) {
        let mut all = Vec::new();
        for p in &self.possible {
            let button = p.model.utterance.is_some_and(|u| u.button);
            if p.model.utterance.is_some_and(|u| u.hears.is_none()) {
                all.push(p.with(Utterance { button, hears: Some(hears) }));
            }
            let again = p.model.utterance.is_some() && !button;
            if p.model.hears() && !again && self.voice >= TOO_FEW {
                let starts = self.after(p, Event::SpeechStarts, at).into_iter();
                all.extend(starts.map(|p| p.with(Utterance { button: false, hears: Some(hears) })));
            }
            // The utterance may be dropped at once.
            if self.disturbed {
                all.push(p.clone());
            }
        }
        self.possible = all;
    }

    fn told(&mut self, at: Duration, told: &Received) {
        match (told, told.name().as_str()) {
            (Received::Closed(code), _) => {
                self.wire.closed = Some(*code);
                self.wire.speaking = false;
            }
            (Received::Gone, _) => self.wire.speaking = false,
            (_, "tts/start") => self.wire.speaking = true,
            (_, "tts/stop") => self.wire.speaking = false,
            (_, "stt") => self.wire.shown += 1,
            (_, "audio") => {
                for p in &mut self.possible {
                    p.plays_until = p.plays_until.max(at) + ms(60);
                }
            }
            _ => {}
        }
    }
}
