//! Result of a replay: the observations of the device, and the check of the expectations. Not for
//! the run itself, which is in [`super::replay`].

use std::time::Duration;

use hearken_proto::recording::Expect;

use super::events::{Fact, ToolUse};
use super::expectations::{ExpectationResult, Expectations, UnmetExpectations, faults};
use super::report::Report;
use super::sound::Sound;
use super::summary::{Call, FORMAT, Summary, VERSION, milliseconds};
use super::timeline::timeline;

/// Transcript of the reply's audio.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReadBack {
    pub(super) text: String,
    /// Fraction of the reply's words in it, 0 to 1.
    pub(super) agreement: f64,
}

/// Session as observed by the device, from the hello to the end of the last answer.
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
        file: String,
        url: String,
        recorded: Expect,
        report: Report,
        heard: Sound,
        read_back: Option<ReadBack>,
    ) -> Self {
        Self { file, url, recorded, report, heard, read_back }
    }

    /// Checks these expectations and, by default, those of the recording's header.
    ///
    /// # Errors
    /// Fails if some do not hold. The error contains these, the observed values, and the whole
    /// timeline.
    pub fn expect(&self, expectations: Expectations) -> Result<&Self, UnmetExpectations> {
        let results = self.check(&expectations);
        if results.iter().all(|result| result.held) {
            return Ok(self);
        }
        Err(UnmetExpectations { file: self.file.clone(), results, timeline: self.timeline() })
    }

    /// Checks these expectations and returns the result of each.
    pub fn check(&self, expectations: &Expectations) -> Vec<ExpectationResult> {
        let agreement = self.read_back.as_ref().map(|read| read.agreement);
        expectations.judge(&self.recorded, &self.report, agreement)
    }

    /// Returns all transcripts, joined by spaces.
    pub fn transcript(&self) -> String {
        self.report.transcript()
    }

    /// Returns all announced sentences of the answers, joined by spaces.
    pub fn reply(&self) -> String {
        self.report.reply()
    }

    /// Returns the sentences of the answers, as announced.
    pub fn sentences(&self) -> Vec<&str> {
        self.report.messages("tts sentence_start").map(|(_, text)| text).collect()
    }

    /// Returns the calls of the device's tools, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolUse> {
        self.report.calls()
    }

    /// Returns the audio that a person next to the device heard, including silences of up to two
    /// seconds; write it with [`crate::sound::write_wav`].
    pub fn heard(&self) -> &Sound {
        &self.heard
    }

    /// Returns the length of the played audio of the reply, without silences between packets.
    pub fn audio_length(&self) -> Duration {
        self.report.audio_length()
    }

    /// Returns all problems for a device or a listener, as text; empty if there were none.
    pub fn faults(&self) -> Vec<String> {
        faults(&self.report)
    }

    /// Returns all observations with their times.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the timeline for people, one line per observation.
    pub fn timeline(&self) -> String {
        timeline(&self.report)
    }

    /// Returns the summary of the session, with these results of expectations.
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
    use crate::report::Observation;

    /// Creates a session that contains everything that a summary reports.
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
            report.add(Duration::from_millis(at as u64), Observation::Noticed(fact));
        }
        let named = "lamp.jsonl".to_owned();
        let url = "ws://h/".to_owned();
        let recorded = Expect { transcript: Some("switch it on".into()), ..Expect::default() };
        let read = ReadBack { text: "it is on".into(), agreement: 1.0 };
        Session::new(named, url, recorded, report, Sound::default(), Some(read))
    }

    pub(crate) fn expected() -> Expectations {
        Expectations::new().called("lamp", [("on", true)])
    }

    #[test]
    fn expect_returns_the_session_or_an_error_with_the_timeline() {
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
