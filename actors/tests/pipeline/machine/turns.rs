//! Results of an undisturbed turn: all of its answer, an apology only if something failed, and a
//! place in the dialogue. Not for turns that are cut.

use std::time::Duration;

use super::events::{Handling, Model, Tool, Voice};
use super::judge::{AT_ONCE, Connection, Faults, Speech, fault};
use super::outside::{ModelAct, Outside, sentence};
use super::trace::{Asked, numbers};
use crate::ms;

/// Maximum duration of a turn, whatever its ports do.
const LONGEST: Duration = ms(60_000);

/// Prompts of one turn, one for each round.
struct Turn<'a> {
    begun: Duration,
    rounds: Vec<&'a Asked>,
    handling: Handling,
}

impl Turn<'_> {
    fn says(&self) -> Vec<String> {
        let sentences = self.rounds.iter().flat_map(|asked| {
            let count = match asked.does {
                ModelAct::Writes { sentences } | ModelAct::Fails { sentences } => sentences,
                ModelAct::Calls => 0,
            };
            (0..count).map(|n| sentence(asked.k, n).trim().to_owned())
        });
        sentences.collect()
    }

    fn voice_fails(&self) -> bool {
        matches!(self.handling.voice, Voice::Refuses | Voice::Breaks)
    }

    fn fails(&self) -> bool {
        let wordless = match self.handling.model {
            Model::CallsEndlessly => true,
            Model::CallsOnly(tool) => !matches!(tool, Tool::Quick | Tool::Slow | Tool::Finishes),
            _ => false,
        };
        (self.voice_fails() && !self.says().is_empty())
            || wordless
            || self.rounds.iter().any(|asked| matches!(asked.does, ModelAct::Fails { .. }))
    }
}

fn turns<'a>(connection: &Connection<'a>, outside: &Outside) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn> = Vec::new();
    for (begun, asked) in connection.asked() {
        let goes_on = |turn: &&mut Turn| {
            turn.rounds[0].questions == asked.questions && turn.rounds.len() == asked.round
        };
        if asked.round > 0
            && let Some(turn) = turns.last_mut().filter(goes_on)
        {
            turn.rounds.push(asked);
            continue;
        }
        let handling = asked.questions.last().map(|n| outside.handling(*n));
        let handling = handling.unwrap_or(Handling::ORDINARY);
        turns.push(Turn { begun, rounds: vec![asked], handling });
    }
    turns
}

fn is_apology(text: &str) -> bool {
    text.contains("Sorry") || text.contains("抱歉")
}

pub(super) fn check(connection: &Connection, outside: &Outside, faults: &mut Faults) {
    let turns = turns(connection, outside);
    for (n, turn) in turns.iter().enumerate() {
        let until = connection.undisturbed_after(turn.begun);
        // A reply that the question itself cut at once is not its answer.
        let cut = |s: &Speech| s.stop.is_some_and(|stop| stop <= turn.begun + AT_ONCE);
        let its = |s: &&Speech| s.start >= turn.begun && s.start < until && !cut(s);
        let speech = connection.speeches.iter().find(its);
        let whole = speech.filter(|s| s.stop.is_some_and(|stop| stop < until));
        let Some(speech) = whole else {
            let says_something = !turn.says().is_empty() || turn.fails();
            if says_something && until.saturating_sub(turn.begun) > LONGEST {
                let what = format!("the turn of prompt {} never ends", turn.rounds[0].k);
                fault(faults, "never ends", what);
            }
            continue;
        };
        spoken(turn, speech, faults);
        let ordinary = !turn.fails() && !turn.says().is_empty();
        if let Some(next) = turns.get(n + 1).filter(|_| ordinary) {
            kept(turn, next, faults);
        }
    }
}

/// Checks that the whole answer is spoken.
fn spoken(turn: &Turn, speech: &Speech, faults: &mut Faults) {
    let k = turn.rounds[0].k;
    let answer = |text: &&String| !numbers(text, "Answer ").is_empty();
    let mut shown: Vec<_> = speech.shown.iter().map(|(_, text)| text).filter(answer).collect();
    // A sentence that was not fully heard when speech was detected is repeated.
    shown.dedup();
    let says = turn.says();
    if shown != says.iter().collect::<Vec<_>>() {
        let rule = if turn.voice_fails() { "voice fails" } else { "answer" };
        fault(faults, rule, format!("prompt {k} is answered by {shown:?}, not {says:?}"));
    }
    if !turn.fails() && speech.shown.iter().any(|(_, text)| is_apology(text)) {
        fault(faults, "apology", format!("after prompt {k} nothing failed: {:?}", turn.handling));
    }
}

/// Checks that the next turn's prompt contains this one.
fn kept(turn: &Turn, next: &Turn, faults: &mut Faults) {
    let messages = &next.rounds[0].messages;
    let says = turn.says();
    let before = messages.len().checked_sub(2).map(|n| &messages[n].content);
    let last = says.last().map_or("", String::as_str);
    if before.is_none_or(|content| !content.ends_with(last)) {
        let what = format!("prompt {} does not hold {says:?}", next.rounds[0].k);
        fault(faults, "forgotten", what);
    }
}
