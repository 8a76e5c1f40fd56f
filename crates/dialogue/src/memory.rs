//! The messages that a dialogue remembers: the person's words, tool calls with their results, and
//! the played-back part of the answers. Forgets whole turns, oldest first, when there are too many
//! messages or bytes. Not for the rest of the prompt, nor for storing messages.

use std::ops::Range;
use std::time::Duration;

use hearken_audio::playout::PlayedBack;
use hearken_base::language::{is_han, speech_seconds};
use hearken_ports::vendor_fields::VendorFields;
use hearken_ports::{ChatMessage, Role};
use tokio::time::Instant;

use super::message_repair;
use super::tools::calls::StoppedCall;
use super::tools::held_call::is_own_result;
use super::tools::outcome::{CUT_SHORT, GOES_ON, NOT_STARTED};
use super::tools::tools_read::{note_results_before, tools_read};
use super::turn::{Said, ToolRound, TurnEnd, TurnError, TurnRecord};

/// Maximum length of older unanswered words, together with the newest, in bytes.
const UNANSWERED_BYTES: usize = 16 << 10;
/// Maximum number of rounds of calls for unanswered words.
const MAX_MADE: usize = 8;
/// Maximum size of the remembered messages, in bytes. The words and the answer of the last turn are
/// remembered whatever their size.
const MOST_BYTES: usize = 256 << 10;

/// Result of a call of a failed turn in later prompts, in place of the result itself, which may have
/// made the model fail.
pub(crate) const RESULT_LOST: &str = "the call was made, and its result was lost: do not make it again \
                                      for something that it has already changed, only to read \
                                      something";
/// The same for a call that failed.
pub(crate) const CALL_FAILED: &str = "error: the call failed, or its result did not come in time";

/// Messages that a dialogue remembers, in order.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    messages: Vec<ChatMessage>,
    max_messages: usize,
    /// Set if the model refused the last turn.
    refused: bool,
    /// Calls made for the last words, if these were not answered.
    made: Vec<ToolRound>,
    /// Age of the last remembered turn; `None` if it is not known.
    last: Option<Age>,
}

/// Time since a turn ended.
#[derive(Debug, Clone, Copy)]
struct Age {
    /// Time that had passed at this moment.
    passed: Duration,
    at: Instant,
}

impl Memory {
    /// Creates a memory of at most `max_messages` messages from stored ones. Omits messages that
    /// are too old, invalid in a prompt, or unanswered.
    pub fn new(max_messages: usize, messages: Vec<ChatMessage>) -> Self {
        let mut memory = Self { messages, max_messages, ..Self::default() };
        message_repair::repair(&mut memory.messages);
        memory.messages.dedup_by(|next, before| {
            let unanswered = next.role == Role::User && before.role == Role::User;
            if unanswered {
                std::mem::swap(next, before);
            }
            unanswered
        });
        memory.take_unanswered();
        memory.forget();
        memory
    }

    /// Sets whether the model refused the last turn, of a memory that was stored after it.
    #[must_use]
    pub fn after_refusal(self, refused: bool) -> Self {
        Self { refused, ..self }
    }

    /// Sets the time since the last remembered turn ended, of a memory that was stored; `None` if it
    /// is not known.
    #[must_use]
    pub fn ended_before(self, passed: Option<Duration>) -> Self {
        Self { last: passed.map(|passed| Age { passed, at: Instant::now() }), ..self }
    }

    /// Reports whether the model refused the last turn. If it refuses the next one as well, the
    /// messages are forgotten.
    pub fn is_after_refusal(&self) -> bool {
        self.refused
    }

    /// Returns the time since the last remembered turn ended; `None` if it is not known.
    pub fn since_last(&self) -> Option<Duration> {
        self.last.map(|last| last.passed.saturating_add(last.at.elapsed()))
    }

    /// Returns the remembered messages, oldest first.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// Returns the remembered words of the person, oldest first.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let asked = self.messages.iter().filter(|message| message.role == Role::User);
        asked.map(|message| message.content.as_str())
    }

    /// Adds words of the person. Appends them to the last message if that is also the person's.
    pub(super) fn push_words(&mut self, words: &str) {
        push_user(&mut self.messages, words);
    }

    /// Returns the last words if they were not answered.
    pub(super) fn unanswered(&self) -> Option<&str> {
        self.messages.last().filter(|m| m.role == Role::User).map(|m| m.content.as_str())
    }

    /// Removes and returns the last words if they were not answered. The calls made for them go
    /// into the next prompt.
    pub(super) fn take_unanswered(&mut self) -> Option<String> {
        let last = self.messages.pop_if(|m| m.role == Role::User)?;
        Some(last.content)
    }

    /// Forgets the last words if they were not answered and no calls were made for them. `stopped`
    /// has the results of those calls that have ended since.
    pub(super) fn forget_unanswered(&mut self, stopped: &[StoppedCall]) {
        let mut made = std::mem::take(&mut self.made);
        for round in &mut made {
            for (call, result) in round.calls.iter().zip(&mut round.results) {
                if let Some(ended) = stopped.iter().find(|ended| ended.call == call.id) {
                    result.clone_from(&ended.result);
                }
            }
        }
        if made.is_empty() {
            self.take_unanswered();
        } else if self.unanswered().is_some() {
            self.messages.extend(made.iter().flat_map(|round| called(String::new(), round)));
            self.forget();
        }
    }

    /// Retains the words of a turn for the next one, which answers them, if calls were made for
    /// them and nothing of the answer was heard: finished calls are not repeated. Returns false if
    /// nothing is retained.
    pub(super) fn keep_made(&mut self, record: &TurnRecord, heard: &PlayedBack) -> bool {
        let Some(words) = &record.user else { return false };
        let failed = matches!(record.end, TurnEnd::Failed(_));
        let rounds = self.made.len() + record.rounds.len();
        let unheard = heard_text(&record.said, 0..record.said.len(), heard).is_empty();
        if failed || !unheard || record.rounds.is_empty() || rounds > MAX_MADE {
            return false;
        }
        self.push_words(words);
        self.forget_made_again(record);
        self.made.extend(record.rounds.iter().filter_map(finished));
        true
    }

    /// Forgets the calls that a later turn has waited for: that turn has their results.
    fn forget_made_again(&mut self, record: &TurnRecord) {
        let again = |id: &str| record.rounds.iter().flat_map(|r| &r.calls).any(|c| c.id == id);
        self.made =
            self.made.iter().filter_map(|made| made.without(|call, _| again(&call.id))).collect();
    }

    /// Returns the calls and results that follow the last words of the next prompt.
    pub(super) fn made(&self) -> impl Iterator<Item = ChatMessage> {
        self.made.iter().flat_map(|round| called(String::new(), round))
    }

    /// Remembers the played-back part of a finished turn. Returns false if nothing of it is
    /// remembered.
    ///
    /// - If nothing was played back and no tool was called, the turn is forgotten, together with
    ///   earlier unanswered words.
    /// - If the turn failed, its calls are remembered without their results: a result may have made
    ///   the model fail. The person will ask again, and the calls must not be made twice. If a tool
    ///   ended the turn, they are remembered with their results.
    /// - If the model refused the turn, only the names of its calls are remembered, as text: it may
    ///   have refused the calls. If the model refuses two turns in a row, the cause is in the
    ///   remembered messages: all of them are forgotten.
    pub fn commit(&mut self, record: &TurnRecord, heard: PlayedBack) -> bool {
        if record.is_refused() {
            let begun = self.take_unanswered();
            if std::mem::replace(&mut self.refused, true) {
                self.messages.clear();
            }
            self.note_refused(begun, record);
            return false;
        }
        self.forget_made_again(record);
        let made = std::mem::take(&mut self.made);
        let words = record.user.clone().or_else(|| {
            // Calls are remembered with the words that they were made for.
            self.take_unanswered().filter(|_| !made.is_empty())
        });
        let mut answer = Vec::new();
        let mut from = 0;
        // Unintelligible words have no `user`: no model has failed then, nor has it if a tool ended the
        // turn.
        let by_tool = matches!(record.end, TurnEnd::Failed(TurnError::Tool { .. }));
        let failed = matches!(record.end, TurnEnd::Failed(_)) && record.user.is_some() && !by_tool;
        for round in made.iter().chain(&record.rounds) {
            let text = heard_text(&record.said, from..round.after, &heard);
            from = round.after;
            answer.extend(if failed {
                called(text, &without_results(round))
            } else {
                called(text, round)
            });
        }
        let reply = heard_text(&record.said, from..record.said.len(), &heard);
        if !reply.is_empty() {
            answer.push(ChatMessage::new(Role::Assistant, reply));
        }
        let Some(words) = words.filter(|_| !answer.is_empty()) else {
            self.take_unanswered();
            return false;
        };
        self.refused = false;
        self.last = Some(Age { passed: Duration::ZERO, at: Instant::now() });
        self.push_words(&words);
        // The answer may repeat what it was made from, and is remembered for longer. Decision 0049.
        note_results_before(&mut self.messages);
        self.messages.append(&mut answer);
        message_repair::repair(&mut self.messages);
        self.forget();
        true
    }

    /// Remembers the names of the calls of a refused turn that were made and did not fail, with the
    /// words that they were made for.
    fn note_refused(&mut self, begun: Option<String>, record: &TurnRecord) {
        let rounds = std::mem::take(&mut self.made);
        let rounds = || rounds.iter().chain(&record.rounds);
        let results = |round: &ToolRound| without_results(round).results;
        let made = rounds().flat_map(|round| {
            let all = round.calls.iter().zip(results(round));
            all.filter(|(_, result)| result == RESULT_LOST).map(|(call, _)| call.name.clone())
        });
        let made: Vec<String> = made.collect();
        if made.is_empty() {
            return;
        }
        for words in begun.iter().chain(&record.user) {
            self.push_words(words);
        }
        if let Some(asked) = self.messages.last_mut() {
            for round in rounds() {
                asked.note_read(tools_read(&called(String::new(), round)));
            }
        }
        let note = format!("I have called {}, and could not answer.", made.join(", "));
        self.messages.push(ChatMessage::new(Role::Assistant, note));
        self.forget();
    }

    /// Forgets whole turns, oldest first. If the last turn alone is too long, forgets its first
    /// rounds of calls. A round is forgotten together with its results: a model's API refuses one
    /// without the other. Forgets the fields that only the calls of a running turn need.
    fn forget(&mut self) {
        // Models require these fields within a turn, and reasoning is not remembered. Decision 0088.
        for call in self.messages.iter_mut().flat_map(|message| &mut message.calls) {
            call.vendor = VendorFields::default();
        }
        let is = |role: Role| move |m: &ChatMessage| m.role == role;
        while self.is_too_long()
            && let Some(turn) = self.messages.iter().skip(1).position(is(Role::User))
        {
            self.messages.drain(..=turn);
        }
        while self.is_too_long()
            && let Some(calls) = self.messages.iter().position(|m| !m.calls.is_empty())
        {
            let results = self.messages[calls].calls.len();
            let round: Vec<_> = self.messages.drain(calls..=calls + results).collect();
            if let Some(asked) = self.messages[..calls].iter_mut().rfind(|m| m.role == Role::User) {
                asked.note_read(tools_read(&round));
            }
        }
        let first = self.messages.iter().position(is(Role::User)).unwrap_or(self.messages.len());
        self.messages.drain(..first);
    }

    fn is_too_long(&self) -> bool {
        let bytes = self.messages.iter().map(ChatMessage::size_bytes).sum::<usize>();
        self.messages.len() > self.max_messages || bytes > MOST_BYTES
    }
}

/// Adds a person's words. Appends them to the last message if that is also the person's. Drops the
/// start of a message that gets too long: a model may fail to answer for hours while the person
/// repeats the question.
pub(super) fn push_user(messages: &mut Vec<ChatMessage>, words: &str) {
    match messages.last_mut() {
        Some(last) if last.role == Role::User => {
            let room = UNANSWERED_BYTES.saturating_sub(words.len());
            let too_long = last.content.len().saturating_sub(room);
            last.content.drain(..last.content.ceil_char_boundary(too_long));
            join(&mut last.content, words);
        }
        _ => messages.push(ChatMessage::new(Role::User, words)),
    }
}

/// Returns a round without its cancelled calls; `None` if all were cancelled.
fn finished(round: &ToolRound) -> Option<ToolRound> {
    let round = round.without(|_, result| result == CUT_SHORT)?;
    Some(ToolRound { after: 0, ..round })
}

/// Returns a round whose results are replaced by what is known without them. Results that the server
/// has written itself are kept.
fn without_results(round: &ToolRound) -> ToolRound {
    let known = |result: &String| match result.as_str() {
        own if is_own_result(own) || [CUT_SHORT, GOES_ON, NOT_STARTED].contains(&own) => {
            own.to_owned()
        }
        failed if failed.starts_with("error: ") => CALL_FAILED.to_owned(),
        _ => RESULT_LOST.to_owned(),
    };
    let results = round.results.iter().map(known).collect();
    ToolRound { results, ..round.clone() }
}

/// Returns the messages of a round: the text played before it, its calls and their results.
fn called(text: String, round: &ToolRound) -> Vec<ChatMessage> {
    let mut messages = vec![ChatMessage::calling(text, round.calls.clone())];
    let results = round.calls.iter().zip(&round.results);
    messages.extend(results.map(|(call, result)| ChatMessage::result(&call.id, result)));
    messages
}

/// Joins the remembered sentences that were played back. Cuts the last one at the played part.
fn heard_text(said: &[Said], range: Range<usize>, heard: &PlayedBack) -> String {
    let mut text = String::new();
    for (i, sentence) in said.iter().enumerate().take(range.end).skip(range.start) {
        if sentence.remembered {
            join(&mut text, played_part(&sentence.text, i, heard));
        }
    }
    text
}

/// Joins the parts of these sentences that were not played back, in the same way as the trace of a
/// turn joins sentences; empty if all was played.
pub fn unheard_text(said: &[Said], heard: &PlayedBack) -> String {
    let rest = said.iter().enumerate().map(|(i, sentence)| {
        let played = played_part(&sentence.text, i, heard);
        sentence.text[played.len()..].trim_start()
    });
    rest.filter(|rest| !rest.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the played-back start of a sentence.
fn played_part<'a>(sentence: &'a str, index: usize, heard: &PlayedBack) -> &'a str {
    match heard.broken.iter().find(|(at, _)| *at == index) {
        Some((_, played)) => cut(sentence, *played, None),
        None if index < heard.whole => sentence,
        None if index == heard.whole => cut(sentence, heard.partial, heard.partial_of),
        None => "",
    }
}

/// Returns the start of a sentence that was played for `heard`. Uses the duration of the sentence
/// if it is known, else an average speaking rate. Never ends inside a word.
pub(super) fn cut(text: &str, heard: Duration, length: Option<Duration>) -> &str {
    let total = length.map_or_else(|| speech_seconds(text), |d| d.as_secs_f64());
    let fraction = (heard.as_secs_f64() / total.max(0.001)).min(1.0);
    let count = text.chars().count();
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sentence has a few hundred characters, and the fraction is 0 to 1"
    )]
    let keep = (count as f64 * fraction) as usize;
    let end = text.char_indices().nth(keep).map_or(text.len(), |(i, _)| i);
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_han(c));
    if inside(text[..end].chars().next_back()) && inside(text[end..].chars().next()) {
        let word = text[..end].rfind(|c: char| !inside(Some(c)));
        return word.map_or("", |i| text[..i].trim_end());
    }
    text[..end].trim_end()
}

/// Appends a sentence, after a space if the script uses spaces.
pub fn join(text: &mut String, next: &str) {
    let tight =
        |c: Option<char>| c.is_none_or(|c| is_han(c) || "。，！？；：、…”」』）".contains(c));
    if !next.is_empty() && !tight(text.chars().next_back()) {
        text.push(' ');
    }
    text.push_str(next);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hearken_ports::{ToolError, ToolRequest};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn calls_of_a_turn_that_a_tool_ended_are_remembered_with_their_results() {
        let call = |id: &str| {
            let id = id.into();
            let name = "f".into();
            ToolRequest { id, name, arguments: "{}".into(), ..ToolRequest::default() }
        };
        let results = vec!["on".to_owned(), "error: late".to_owned()];
        let round = ToolRound { after: 0, calls: vec![call("a"), call("b")], results };
        let error = ToolError::Timeout(Duration::from_secs(10));
        let end = TurnEnd::Failed(TurnError::Tool { tool: "f".into(), error });
        let user = Some("light?".into());
        let record = TurnRecord { user, said: Vec::new(), rounds: vec![round], end };
        let mut memory = Memory::new(10, Vec::new());
        assert!(memory.commit(&record, PlayedBack::default()));
        let contents: Vec<_> = memory.messages().iter().map(|m| m.content.as_str()).collect();
        assert_eq!(contents, ["light?", "", "on", "error: late"]);
    }

    #[test]
    fn unheard_text_is_the_unplayed_rest_of_each_sentence() {
        let said = ["One two three.", "Four five six.", "Seven."]
            .map(|text| Said { text: text.into(), remembered: true });
        let unheard = |heard: PlayedBack| unheard_text(&said, &heard);
        assert_eq!(unheard(PlayedBack::ALL), "");
        assert_eq!(unheard(PlayedBack::default()), "One two three. Four five six. Seven.");
        let second = Duration::from_secs(1);
        let whole = Duration::from_secs(2);
        let partial = PlayedBack {
            whole: 1,
            partial: second,
            partial_of: Some(whole),
            ..PlayedBack::default()
        };
        let unheard_of = unheard(partial.clone());
        assert!(
            unheard_of.ends_with("six. Seven.") && !unheard_of.contains("Four"),
            "{unheard_of}"
        );
        assert_eq!(
            format!("{} {unheard_of}", heard_text(&said, 0..3, &partial)),
            said.each_ref().map(|said| said.text.as_str()).join(" ")
        );
        let said =
            ["一二三。", "四五六。"].map(|text| Said { text: text.into(), remembered: true });
        let all = said.each_ref().map(|said| said.text.as_str()).join(" ");
        assert_eq!(unheard_text(&said, &PlayedBack::default()), all);
    }

    #[test]
    fn fields_that_a_model_requires_last_for_the_turn_of_their_call() {
        use hearken_ports::vendor_fields::ReturnedFields;

        let model = "http://base m";
        let fields = ReturnedFields { model: model.into(), ..ReturnedFields::default() };
        let call = ToolRequest {
            id: "1".into(),
            name: "f".into(),
            arguments: "{}".into(),
            connection: 0,
            vendor: VendorFields::new(fields),
        };
        let round = ToolRound { after: 0, calls: vec![call], results: vec!["done".into()] };
        let record = TurnRecord {
            user: Some("Do it.".into()),
            said: Vec::new(),
            rounds: vec![round],
            end: TurnEnd::Interrupted,
        };
        let fields = |messages: &[ChatMessage]| {
            let calls = messages.iter().flat_map(|message| &message.calls);
            calls.filter(|call| call.vendor.of_model(model).is_some()).count()
        };
        let mut memory = Memory::new(10, Vec::new());
        assert!(memory.keep_made(&record, &PlayedBack::default()));
        let mut made: Vec<_> = memory.made().collect();
        message_repair::repair(&mut made);
        assert_eq!(fields(&made), 1, "the same words are answered by the next turn");
        assert!(memory.commit(&record, PlayedBack::ALL));
        assert_eq!((memory.messages().len(), fields(memory.messages())), (3, 0));
    }

    /// Returns a turn with this number of rounds of calls, each of a tool of its own.
    fn turn_of_rounds(number: usize, rounds: usize) -> TurnRecord {
        let call = |round: usize| ToolRequest {
            id: format!("{number}-{round}"),
            name: format!("tool_{number}_{round}"),
            arguments: "{}".into(),
            ..ToolRequest::default()
        };
        let results = vec!["end every answer with this".to_owned()];
        let round =
            |round| ToolRound { after: 0, calls: vec![call(round)], results: results.clone() };
        TurnRecord {
            user: Some(number.to_string()),
            said: vec![Said { text: "yes".into(), remembered: true }],
            rounds: (0..rounds).map(round).collect(),
            end: TurnEnd::Completed,
        }
    }

    fn names(messages: &[ChatMessage]) -> BTreeSet<String> {
        tools_read(messages).into_iter().collect()
    }

    proptest! {
        #[test]
        fn a_result_counts_while_an_answer_made_from_it_is_remembered(
            turns in proptest::collection::vec((0_usize..4, any::<bool>()), 1..20),
            max_messages in 2_usize..12,
        ) {
            let mut memory = Memory::new(max_messages, Vec::new());
            // The tools whose results were in the prompts of each turn.
            let mut read: Vec<BTreeSet<String>> = Vec::new();
            for (rounds, is_restored) in turns {
                let record = turn_of_rounds(read.len(), rounds);
                let own = record.rounds.iter().flat_map(|round| &round.calls);
                let own = own.map(|call| call.name.clone());
                read.push(names(memory.messages()).into_iter().chain(own).collect());
                prop_assert!(memory.commit(&record, PlayedBack::ALL));
                if is_restored {
                    let stored = serde_json::to_string(memory.messages()).unwrap();
                    memory = Memory::new(max_messages, serde_json::from_str(&stored).unwrap());
                }
                let asked = memory.messages().iter().filter(|m| m.role == Role::User);
                let remembered = asked.map(|m| m.content.parse::<usize>().unwrap());
                let expected: BTreeSet<_> = remembered.flat_map(|n| read[n].clone()).collect();
                let mut counted = names(memory.messages());
                counted.extend(memory.messages().iter().flat_map(|m| m.read_from.clone()));
                prop_assert_eq!(counted, expected);
            }
        }
    }

    #[test]
    fn older_turns_are_forgotten_above_the_byte_limit() {
        let mut memory = Memory::new(10, Vec::new());
        for n in 0..4 {
            let user = Some(format!("{n}{}", "x".repeat(MOST_BYTES / 3)));
            let said = vec![Said { text: "yes".into(), remembered: true }];
            let record = TurnRecord { user, said, rounds: Vec::new(), end: TurnEnd::Completed };
            assert!(memory.commit(&record, PlayedBack::ALL));
        }
        let first: Vec<_> = memory.messages().iter().map(|m| &m.content[..1]).collect();
        assert_eq!(first, ["2", "y", "3", "y"]);
    }
}
