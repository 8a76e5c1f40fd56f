//! Properties of every life of a device, checked on its trace. Not for executing the life.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearken_socket::testkit::Received;
use serde_json::json;

use super::events::{Hears, Mode};
use super::outside::Outside;
use super::server::TurnTaking;
use super::table::Event;
use super::trace::{Asked, Entry, Seen, Trace, numbers};
use super::{follow, history, turns};
use crate::ms;

/// Maximum distance of simultaneous entries: they have no order, and messages that were on their
/// way are no fault.
pub(super) const AT_ONCE: Duration = ms(20);
/// Maximum time between the detection of speech and the opening of the recogniser.
const HEARD_BEFORE: Duration = ms(250);

/// Length of sound in which no word can be understood.
const FIRST_SOUND: Duration = ms(150);
/// Maximum delay until a message is spoken, without disturbances.
const A_WHILE: Duration = ms(30_000);

/// Violation of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

/// Faults of one life.
pub(super) type Faults = Vec<Fault>;

pub(super) fn fault(faults: &mut Faults, rule: &'static str, what: impl Into<String>) {
    faults.push(Fault { rule, what: what.into() });
}

/// One reply to a connection's device.
#[derive(Debug, Clone, Default)]
pub(super) struct Speech {
    pub(super) start: Duration,
    pub(super) stop: Option<Duration>,
    /// Time at which its first sound was sent.
    sound: Option<Duration>,
    pub(super) shown: Vec<(Duration, String)>,
}

impl Speech {
    /// Returns the time from which it was heard; `None` if it was cut at its first sound.
    pub(super) fn heard(&self) -> Option<Duration> {
        let heard = |sound: &Duration| self.stop.is_none_or(|stop| stop > *sound + FIRST_SOUND);
        self.sound.filter(heard)
    }
}

/// One connection.
pub(super) struct Connection<'a> {
    pub(super) entries: Vec<&'a Entry>,
    pub(super) speeches: Vec<Speech>,
    /// Time at which the device, or the test, left it.
    ended: Duration,
}

impl<'a> Connection<'a> {
    /// Returns the displayed texts, with their times.
    pub(super) fn shown(&self) -> impl Iterator<Item = &(Duration, String)> {
        self.speeches.iter().flat_map(|s| &s.shown)
    }

    /// Returns its prompts, with their times.
    pub(super) fn asked(&self) -> impl Iterator<Item = (Duration, &'a Asked)> {
        self.entries.iter().filter_map(|e| match &e.seen {
            Seen::Asked(asked) => Some((e.at, asked)),
            _ => None,
        })
    }

    /// Returns the times at which unanswered words were cut.
    pub(super) fn cuts(&self) -> impl Iterator<Item = Duration> {
        let cuts = |e: &&&Entry| matches!(e.seen, Seen::Cut | Seen::Aborted);
        self.entries.iter().filter(cuts).map(|e| e.at)
    }

    /// Returns the time until which no event may end a turn of that time: an utterance, a cut, or
    /// the end of the connection.
    pub(super) fn undisturbed_after(&self, at: Duration) -> Duration {
        let spoke = self.entries.iter().filter(|e| matches!(e.seen, Seen::Opened(_)));
        // A speculative answer may begin at the moment at which the person goes on.
        let spoke = spoke.filter(|e| e.at >= at).map(|e| e.at.saturating_sub(HEARD_BEFORE));
        let cut = self.cuts().filter(|cut| *cut > at).chain(spoke).min();
        cut.unwrap_or(Duration::MAX).min(self.ended.saturating_sub(HEARD_BEFORE))
    }

    /// Returns the last time at which this question was asked, up to `by`.
    pub(super) fn said(&self, question: usize, by: Duration) -> Option<Duration> {
        let says = |e: &&&Entry| match e.seen {
            Seen::Typed(n) | Seen::Heard(n) => n == question && e.at <= by,
            _ => false,
        };
        self.entries.iter().filter(says).map(|e| e.at).next_back()
    }

    /// Returns the time until which a button that is held at this time stays pressed. Pushed
    /// messages wait until then, or longer if it is not released, which the table checks.
    fn button_held_until(&self, at: Duration) -> Duration {
        let button = |e: &&Entry| match e.seen {
            Seen::Event(Event::ListenStart(mode)) => Some((e.at, mode == Mode::Manual)),
            Seen::Event(Event::ListenStop) => Some((e.at, false)),
            _ => None,
        };
        let (before, after): (Vec<_>, Vec<_>) =
            self.entries.iter().filter_map(button).partition(|(when, _)| *when <= at);
        match before.last() {
            Some((_, true)) => after.first().map_or(Duration::MAX, |(when, _)| *when),
            _ => at,
        }
    }

    fn cut_between(&self, from: Duration, to: Duration) -> bool {
        self.cuts().any(|cut| cut > from && cut + AT_ONCE < to)
    }
}

/// Returns all faults of this life.
pub(crate) fn faults(entries: &[Entry], outside: &Outside, turn_taking: TurnTaking) -> Faults {
    let mut faults = Vec::new();
    let last = entries.iter().map(|e| e.connection).max().unwrap_or_default();
    for number in 0..=last {
        let own = entries.iter().filter(|e| e.connection == number).collect();
        let next = entries.iter().find(|e| e.connection > number).map(|e| e.at);
        let ended = next.unwrap_or(Duration::MAX);
        let mut connection = Connection { entries: own, speeches: Vec::new(), ended };
        if turn_taking == TurnTaking::Plain {
            follow::check(&connection, &mut faults);
        }
        connection.speeches = speeches(&connection.entries, &mut faults);
        aborts(&connection, &mut faults);
        stale(&connection, &mut faults);
        understood(&connection, &mut faults);
        messages(&connection, &mut faults);
        history::check(&connection, &mut faults);
        turns::check(&connection, outside, &mut faults);
        at_last(&connection, &mut faults);
    }
    faults
}

/// Checks that sound and sentences are between one start and one stop.
fn speeches(entries: &[&Entry], faults: &mut Faults) -> Vec<Speech> {
    let mut all: Vec<Speech> = Vec::new();
    let mut aborted = None;
    for entry in entries {
        let Seen::Received(told) = &entry.seen else {
            if matches!(entry.seen, Seen::Aborted) {
                aborted = Some(entry.at);
            }
            continue;
        };
        let open = all.last_mut().filter(|s| s.stop.is_none());
        match (told.name().as_str(), open) {
            ("tts/start", None) => all.push(Speech { start: entry.at, ..Speech::default() }),
            ("tts/start", Some(_)) => fault(faults, "wire", "`tts start` twice"),
            ("tts/stop", Some(speech)) => speech.stop = Some(entry.at),
            ("tts/stop", None) if aborted.is_none_or(|at| entry.at > at + AT_ONCE) => {
                fault(faults, "wire", "`tts stop` twice");
            }
            ("tts/sentence_start", Some(speech)) => {
                speech.shown.push((entry.at, told.text().to_owned()));
            }
            ("tts/sentence_start" | "tts/sentence_end" | "audio", None) => {
                fault(faults, "wire", format!("{} outside of a reply", told.name()));
            }
            ("audio", Some(speech)) => {
                if entry.at < speech.start + ms(20) {
                    fault(faults, "wire", "sound too soon after `tts start`");
                }
                speech.sound.get_or_insert(entry.at);
            }
            _ => {}
        }
    }
    all
}

/// Checks that an abort is answered by `tts stop` at once.
fn aborts(connection: &Connection, faults: &mut Faults) {
    let told = |from: Duration, name: &str| {
        connection.entries.iter().any(|e| {
            let Seen::Received(told) = &e.seen else { return false };
            e.at >= from && e.at <= from + AT_ONCE && told.name() == name
        })
    };
    let gone =
        connection.entries.iter().find(|e| matches!(e.seen, Seen::Received(Received::Closed(_))));
    for entry in &connection.entries {
        let alive = gone.is_none_or(|gone| gone.at > entry.at + AT_ONCE);
        if matches!(entry.seen, Seen::Aborted) && alive && !told(entry.at, "tts/stop") {
            fault(faults, "abort", format!("no `tts stop` after an abort at {:?}", entry.at));
        }
    }
}

/// Checks that nothing of a turn follows its cut.
fn stale(connection: &Connection, faults: &mut Faults) {
    for (n, speech) in connection.speeches.iter().enumerate() {
        for (at, text) in &speech.shown {
            let Some(k) = numbers(text, "Answer ").first().copied() else { continue };
            let asked = connection.asked().find(|(_, asked)| asked.k == k).map(|(at, _)| at);
            let before = connection.speeches[..n].iter().flat_map(|s| &s.shown);
            let again = before.filter(|(_, text)| numbers(text, "Answer ").contains(&k)).count();
            if again > 0 || asked.is_none_or(|asked| connection.cut_between(asked, *at)) {
                fault(faults, "stale", format!("{text:?} was shown at {at:?} after its turn"));
            }
        }
    }
}

/// Checks that displayed transcripts are words that were said recently, each once.
fn understood(connection: &Connection, faults: &mut Faults) {
    let mut seen = Vec::new();
    for entry in &connection.entries {
        let Seen::Received(told) = &entry.seen else { continue };
        if told.name() != "stt" {
            continue;
        }
        if !told.text().chars().any(char::is_alphanumeric) {
            fault(faults, "noise shown", format!("{:?} was shown as understood", told.text()));
        }
        for question in numbers(told.text(), "question ") {
            let said = connection.said(question, entry.at);
            let cut = said.is_none_or(|said| connection.cut_between(said, entry.at));
            if cut || seen.contains(&question) {
                fault(faults, "stt", format!("{:?} shown at {:?}", told.text(), entry.at));
            }
            seen.push(question);
        }
    }
}

/// Checks that pushed messages are spoken, as plain words.
fn messages(connection: &Connection, faults: &mut Faults) {
    for entry in &connection.entries {
        match &entry.seen {
            Seen::Pushed(text) => {
                let spoken = connection.shown().any(|(_, shown)| shown.contains(text.as_str()));
                let cut = connection.cuts().find(|cut| *cut >= entry.at);
                let until = cut.unwrap_or(connection.ended).min(connection.ended);
                let waits_from = connection.button_held_until(entry.at);
                if !spoken && until > waits_from.saturating_add(A_WHILE) {
                    fault(faults, "say lost", format!("{text:?} was never spoken"));
                }
            }
            Seen::Line(line) if line.contains('*') || line.contains('😊') => {
                fault(faults, "say raw", format!("{line:?} was synthesised unchanged"));
            }
            _ => {}
        }
    }
}

/// Checks that an ordinary question is answered, whatever happened before.
fn at_last(connection: &Connection, faults: &mut Faults) {
    let Some(settled) = connection.entries.iter().find(|e| matches!(e.seen, Seen::Settled)) else {
        return;
    };
    let mut names = Vec::new();
    for entry in connection.entries.iter().filter(|e| e.at > settled.at) {
        match &entry.seen {
            Seen::Received(told) if told.name() != "mcp" => names.push(told.name()),
            _ => {}
        }
    }
    names.dedup_by(|a, b| a == b && a == "audio");
    let expected =
        ["stt", "llm", "tts/start", "tts/sentence_start", "audio", "tts/sentence_end", "tts/stop"];
    if names != expected {
        fault(faults, "at last", format!("an ordinary question was answered by {names:?}"));
    }
    let asked = connection.asked().filter(|(at, _)| *at > settled.at);
    let questions: Vec<_> = asked.map(|(_, asked)| asked.questions.len()).collect();
    if questions != [1] {
        fault(faults, "at last", format!("the model was asked these questions: {questions:?}"));
    }
}

#[test]
fn violations_are_found() {
    let told = |name: &str| Seen::Received(Received::Text(json!({"type": "tts", "state": name})));
    let sound = || Seen::Received(Received::Audio(Bytes::new()));
    for (rule, seen) in [
        ("wire", vec![sound()]),
        ("wire", vec![told("start"), told("start")]),
        ("wire", vec![told("start"), told("stop"), told("stop")]),
        ("wire", vec![told("start"), sound()]),
        ("abort", vec![told("start"), Seen::Aborted]),
        ("noise shown", vec![Seen::Received(Received::Text(json!({"type": "stt", "text": "。"})))]),
        ("say lost", vec![Seen::Pushed("Message 1".into())]),
        ("say raw", vec![Seen::Line("**so**".into())]),
        ("at last", vec![Seen::Settled]),
    ] {
        let entry = |seen| Entry { at: Duration::ZERO, connection: 0, seen };
        let entries: Vec<_> = seen.into_iter().map(entry).collect();
        let found = faults(&entries, &Outside::new(Arc::new(Trace::new())), TurnTaking::Plain);
        assert_eq!(found.first().map(|fault| fault.rule), Some(rule), "{found:?}");
    }
}

#[test]
fn speech_at_the_moment_of_a_prompt_disturbs_its_turn() {
    let at = ms(1_000);
    let spoke = Entry { at, connection: 0, seen: Seen::Opened(Hears::Words) };
    let ended = Duration::MAX;
    let connection = Connection { entries: vec![&spoke], speeches: Vec::new(), ended };
    assert!(connection.undisturbed_after(at) <= at);
}

#[test]
fn deviations_from_the_table_are_found() {
    let told = |name: &str| Seen::Received(Received::Text(json!({"type": "tts", "state": name})));
    let speaks = || (0..5).map(|_| Seen::Packet { voice: true });
    let listens = || Seen::Event(Event::ListenStart(Mode::Auto));
    let opened = || Seen::Opened(Hears::Words);
    for (allowed, seen) in [
        (false, vec![told("start")]),
        (false, speaks().chain([opened()]).collect()),
        (false, [listens()].into_iter().chain(speaks()).chain([told("start")]).collect()),
        (true, [listens()].into_iter().chain(speaks().take(3)).chain([opened()]).collect()),
        (false, vec![Seen::Event(Event::SecondSocket), Seen::Settled]),
        (true, vec![Seen::Event(Event::SocketLost), Seen::Settled]),
        (false, vec![Seen::Received(Received::Closed(1000))]),
        (false, vec![Seen::Event(Event::Types { room: true }), told("start")]),
    ] {
        let begin = [Seen::Connected, Seen::Event(Event::Hello)];
        let entry = |(n, seen)| Entry { at: ms(100) * n, connection: 0, seen };
        let entries: Vec<_> = (0..).zip(begin.into_iter().chain(seen)).map(entry).collect();
        let found = faults(&entries, &Outside::new(Arc::new(Trace::new())), TurnTaking::Plain);
        assert_eq!(found.iter().all(|f| f.rule != "table"), allowed, "{entries:?}: {found:?}");
    }
}
