//! What came of a replay: what the device saw and heard, and whether that is what was expected. Not
//! for the run itself, which is in [`super::replay`].

use std::time::Duration;

use hearken_proto::recording::Expect;

use super::events::{Fact, ToolUse};
use super::expectations::{ExpectationResult, Expectations, Unmet, faults};
use super::report::Report;
use super::sound::Sound;
use super::summary::{Call, FORMAT, Summary, VERSION, milliseconds};
use super::timeline::timeline;

/// What recognition heard in the reply's audio.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReadBack {
    pub(super) text: String,
    /// Part of the reply's words that it holds, 0 to 1.
    pub(super) agreement: f64,
}

/// A session as the device met it, from the hello to the end of the last answer.
#[must_use = "a session that nobody checks proves nothing: call `expect`"]
#[derive(Debug)]
pub struct Session {
    file: String,
    url: String,
    recorded: Expect,
    report: Report,
    heard: Sound,
    read_back: Option<ReadBack>,
}

impl Session {
    pub(super) fn new(
        (file, url): (String, String),
        recorded: Expect,
        (report, heard): (Report, Sound),
        read_back: Option<ReadBack>,
    ) -> Self {
        Self { file, url, recorded, report, heard, read_back }
    }

    /// Checks these expectations, by default those of the recording's header too.
    ///
    /// # Errors
    /// Some do not hold; the error tells which, what was found instead, and the whole timeline.
    pub fn expect(&self, expectations: Expectations) -> Result<&Self, Unmet> {
        let results = self.check(&expectations);
        if results.iter().all(|result| result.held) {
            return Ok(self);
        }
        Err(Unmet { file: self.file.clone(), results, timeline: self.timeline() })
    }

    /// Checks these expectations and tells what came of each.
    pub fn check(&self, expectations: &Expectations) -> Vec<ExpectationResult> {
        let agreement = self.read_back.as_ref().map(|read| read.agreement);
        expectations.judge(&self.recorded, &self.report, agreement)
    }

    /// What the server understood: all transcripts, joined by spaces.
    pub fn transcript(&self) -> String {
        self.report.transcript()
    }

    /// What the server answered: all sentences announced, joined by spaces.
    pub fn reply(&self) -> String {
        self.report.reply()
    }

    /// The sentences of the answers, as they were announced.
    pub fn sentences(&self) -> Vec<&str> {
        self.report.messages("tts sentence_start").map(|(_, text)| text).collect()
    }

    /// The calls of the device's tools, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolUse> {
        self.report.calls()
    }

    /// What a person beside the device heard, silences of up to two seconds included; write it with
    /// [`crate::sound::write_wav`].
    pub fn heard(&self) -> &Sound {
        &self.heard
    }

    /// Length of the reply's audio that was played, without silences between packets.
    pub fn audio_length(&self) -> Duration {
        self.report.audio_length()
    }

    /// All that was wrong for a device or a listener, in words; empty where all was well.
    pub fn faults(&self) -> Vec<String> {
        faults(&self.report)
    }

    /// Everything that the device did and met, with its time.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// All that happened, one line each, for people.
    pub fn timeline(&self) -> String {
        timeline(&self.report)
    }

    /// The session in figures and words, with what came of these expectations.
    pub fn summary(&self, verdicts: Vec<ExpectationResult>) -> Summary {
        let report = &self.report;
        let gaps: Duration = report.gaps().map(|(_, length)| length).sum();
        Summary {
            format: FORMAT,
            version: VERSION,
            error: None,
            file: self.file.clone(),
            url: self.url.clone(),
            held: verdicts.iter().all(|verdict| verdict.held),
            transcript: self.transcript(),
            reply: self.reply(),
            sentences: self.sentences().into_iter().map(str::to_owned).collect(),
            readback: self.read_back.as_ref().map(|read| read.text.clone()),
            agreement: self.read_back.as_ref().map(|read| read.agreement),
            stages: report.stages(),
            packets: report.packets(),
            audio_ms: milliseconds(self.audio_length()),
            gaps_ms: milliseconds(gaps),
            interruptions: report.interruptions().into_iter().map(Into::into).collect(),
            tools: report.calls().map(|call| call.name.clone()).collect(),
            calls: report.calls().map(call).collect(),
            offences: report.facts().filter_map(|(_, fact)| offence(fact)).collect(),
            faults: self.faults(),
            verdicts,
        }
    }
}

fn call(call: &ToolUse) -> Call {
    Call { name: call.name.clone(), arguments: call.arguments.clone() }
}

fn offence(fact: &Fact) -> Option<&'static str> {
    match fact {
        Fact::Offence(what) => Some(what),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::events::Loss;
    use crate::report::What;

    /// A session in which everything happens that a summary tells of.
    pub(crate) fn eventful() -> Session {
        let mut report = Report::default();
        report.speech_end = Some(Duration::ZERO);
        let message = |kind: &str, text: &str| Fact::Message {
            kind: kind.into(),
            text: Some(text.to_owned()).filter(|t| !t.is_empty()),
        };
        let arguments = [("on".to_owned(), true.into())].into_iter().collect();
        let opus = Bytes::from_static(b"abc");
        for (at, fact) in [
            message("stt", "switch it on"),
            Fact::ToolCalled(ToolUse { name: "lamp".into(), arguments }),
            message("tts start", ""),
            message("tts sentence_start", "It is on."),
            Fact::PacketReceived,
            Fact::PacketPlayed { opus, length: Duration::from_millis(60) },
            Fact::Gap { length: Duration::from_millis(7) },
            Fact::Aborted,
            Fact::PacketReceived,
            Fact::PacketLost(Loss::QueueFull),
            Fact::Offence("no state"),
            message("tts stop", ""),
        ]
        .into_iter()
        .enumerate()
        {
            report.add(Duration::from_millis(at as u64), What::Noticed(fact));
        }
        let named = ("lamp.jsonl".to_owned(), "ws://h/".to_owned());
        let recorded = Expect { transcript: Some("switch it on".into()), ..Expect::default() };
        let read = ReadBack { text: "it is on".into(), agreement: 1.0 };
        Session::new(named, recorded, (report, Sound::default()), Some(read))
    }

    pub(crate) fn expected() -> Expectations {
        Expectations::new().called("lamp", [("on", true)])
    }

    #[test]
    fn who_expects_gets_the_session_or_all_that_happened() {
        let session = eventful();
        let held = session.expect(expected().reply_contains("on")).expect("all of it holds");
        assert_eq!(held.sentences(), ["It is on."]);
        assert_eq!(held.calls().next().map(|call| call.name.as_str()), Some("lamp"));
        let unmet = session.expect(expected().no_faults().no_calls()).unwrap_err();
        let told = unmet.to_string();
        assert!(
            told.starts_with("lamp.jsonl: 2 of 5 expectations do not hold\n  faults: "),
            "{told}"
        );
        assert!(told.contains("\n  no_calls: lamp {\"on\":true}\n"), "{told}");
        assert!(told.contains("<-  stt: switch it on"), "{told}");
        assert_eq!(told, format!("{unmet:?}"), "a test that returns it prints the same");
    }
}
