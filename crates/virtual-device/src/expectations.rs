//! Expectations of a session, and their check: those of a recording's header, and those that a test
//! adds. Not for printing a session.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use hearken_proto::recording::{Expect, ExpectedCall};
use serde_json::Value;

use super::events::Loss;
use super::firmware::Fact;
use super::report::{Report, loss_name};
use super::text_similarity::error_rate;

/// Expectations of a session. Includes those of the recording's header, and that there is an answer
/// with words and audio, unless [`Self::without_recorded`] is called.
///
/// ```
/// use std::time::Duration;
/// use hearken_virtual_device::Expectations;
///
/// let expectations = Expectations::new()
///     .transcript("set the volume to forty percent", 0.2)
///     .reply_contains("40")
///     .called("self.audio_speaker.set_volume", [("volume", 40)])
///     .audio(Duration::from_millis(500)..=Duration::from_secs(20))
///     .no_faults();
/// # let _: Expectations = expectations;
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expectations {
    without_recorded: bool,
    /// Expectations in the format of a recording's header.
    headers: Vec<Expect>,
    checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq)]
enum Check {
    ReplyContains(String),
    CallOf(String),
    NoCalls,
    Audio(RangeInclusive<Duration>),
    NoFaults,
}

impl Expectations {
    /// Creates the default expectations: those of the recording's header, and an answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the default expectations.
    #[must_use]
    pub fn without_recorded(mut self) -> Self {
        self.without_recorded = true;
        self
    }

    /// Adds expectations in the format of a recording's header.
    #[must_use]
    pub fn all_of(mut self, expect: Expect) -> Self {
        self.headers.push(expect);
        self
    }

    /// Expects this transcript. `max_error` is the highest error rate, as a fraction of its length
    /// (0.2 = 20 %): characters for Chinese, words for other languages; case and punctuation are
    /// ignored.
    #[must_use]
    pub fn transcript(self, text: impl Into<String>, max_error: f64) -> Self {
        let transcript = Some(text.into());
        let max_error = Some(max_error);
        self.all_of(Expect { transcript, max_error, ..Expect::default() })
    }

    /// Expects an answer, with words and with audio that is played.
    #[must_use]
    pub fn reply(self) -> Self {
        self.all_of(Expect { reply: Some(true), ..Expect::default() })
    }

    /// Expects these words in the text of the reply, ignoring case.
    #[must_use]
    pub fn reply_contains(self, words: impl Into<String>) -> Self {
        self.and(Check::ReplyContains(words.into()))
    }

    /// Expects at least this fraction of the reply's words in the transcript of its audio, 0 to 1.
    /// Not checked if the replay has no recogniser ([`crate::Replay::read_back`]).
    #[must_use]
    pub fn readback(self, part: f64) -> Self {
        self.all_of(Expect { readback: Some(part), ..Expect::default() })
    }

    /// Expects these messages in this order, others between them allowed: `hello`, `stt`, `llm`,
    /// `tts start`, `tts sentence_start`, `audio`, `tts stop`.
    #[must_use]
    pub fn order(self, messages: &[&str]) -> Self {
        let order = messages.iter().map(|message| (*message).to_owned()).collect();
        self.all_of(Expect { order, ..Expect::default() })
    }

    /// Expects a call of this tool of the device with exactly these arguments, including those with
    /// defaults; other calls are allowed.
    #[must_use]
    pub fn called<K: Into<String>, V: Into<Value>>(
        self,
        tool: impl Into<String>,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let arguments = arguments.into_iter().map(|(name, value)| (name.into(), value.into()));
        let calls = vec![ExpectedCall { name: tool.into(), arguments: arguments.collect() }];
        self.all_of(Expect { calls, ..Expect::default() })
    }

    /// Expects a call of this tool of the device, with any arguments.
    #[must_use]
    pub fn called_tool(self, tool: impl Into<String>) -> Self {
        self.and(Check::CallOf(tool.into()))
    }

    /// Expects that no tool of the device is called.
    #[must_use]
    pub fn no_calls(self) -> Self {
        self.and(Check::NoCalls)
    }

    /// Expects this length of played audio of replies, without silences between packets.
    #[must_use]
    pub fn audio(self, length: RangeInclusive<Duration>) -> Self {
        self.and(Check::Audio(length))
    }

    /// Expects no message that would crash or confuse firmware, and no lost or cut packet except by
    /// an interruption. Late packets are allowed: see [`crate::report::Report::gaps`].
    #[must_use]
    pub fn no_faults(self) -> Self {
        self.and(Check::NoFaults)
    }

    fn and(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Checks a report. `recorded` are the expectations of the recording's header, `readback` is
    /// the fraction of the reply in the transcript of its audio; `None` skips that check.
    pub fn judge(
        &self,
        recorded: &Expect,
        report: &Report,
        readback: Option<f64>,
    ) -> Vec<ExpectationResult> {
        let mut results = Vec::new();
        if !self.without_recorded {
            let mut expect = recorded.clone();
            expect.reply = expect.reply.or(Some(true));
            results = judge(&expect, report, readback);
        }
        results.extend(self.headers.iter().flat_map(|expect| judge(expect, report, readback)));
        results.extend(self.checks.iter().map(|check| check.judge(report)));
        results
    }
}

impl Check {
    fn judge(&self, report: &Report) -> ExpectationResult {
        let (what, held, found) = match self {
            Self::ReplyContains(words) => {
                let reply = report.reply();
                let held = reply.to_lowercase().contains(&words.to_lowercase());
                ("reply_contains", held, format!("`{reply}`, `{words}` wanted in it"))
            }
            Self::CallOf(tool) => {
                let held = report.calls().any(|call| call.name == *tool);
                ("call", held, format!("{}, {tool} wanted", calls(report)))
            }
            Self::NoCalls => ("no_calls", report.calls().next().is_none(), calls(report)),
            Self::Audio(length) => {
                let found = report.audio_length();
                let least = length.start().as_millis();
                let most = length.end().as_millis();
                let told = format!("{} ms played, {least} to {most} wanted", found.as_millis());
                ("audio", length.contains(&found), told)
            }
            Self::NoFaults => {
                let faults = faults(report);
                let told = if faults.is_empty() { "none".into() } else { faults.join("; ") };
                ("faults", faults.is_empty(), told)
            }
        };
        ExpectationResult { what, held, found }
    }
}

/// Returns all problems for a device or a listener: messages that would crash or confuse firmware,
/// and packets lost or cut without an interruption.
pub(super) fn faults(report: &Report) -> Vec<String> {
    let fault = |fact: &Fact| match fact {
        Fact::Offence(what) => Some(format!("offence: {what}")),
        Fact::HelloMissing => Some("no hello from the server".to_owned()),
        Fact::UplinkDropped => Some("a packet of the microphone was never sent".to_owned()),
        Fact::PacketLost(loss) if *loss != Loss::Interrupted => {
            Some(format!("a packet was lost: {}", loss_name(*loss)))
        }
        Fact::PacketCut { loss, .. } if *loss != Loss::Interrupted => {
            Some(format!("a packet was cut: {}", loss_name(*loss)))
        }
        _ => None,
    };
    report.facts().filter_map(|(_, fact)| fault(fact)).collect()
}

/// Error: expectations that do not hold. `Display` and `Debug` print the same; a test that returns
/// it prints the latter.
#[derive(Clone, PartialEq)]
pub struct UnmetExpectations {
    /// Name of the recording.
    pub file: String,
    /// All checked expectations, including those that hold.
    pub results: Vec<ExpectationResult>,
    /// Timeline, one line per observation.
    pub timeline: String,
}

impl fmt::Display for UnmetExpectations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.results.iter().filter(|result| !result.held);
        let count = failed.clone().count();
        let all = self.results.len();
        writeln!(f, "{}: {count} of {all} expectations do not hold", self.file)?;
        for result in failed {
            writeln!(f, "  {}: {}", result.what, result.found)?;
        }
        write!(f, "what happened, in seconds:\n{}", self.timeline.trim_end())
    }
}

impl fmt::Debug for UnmetExpectations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for UnmetExpectations {}

/// Expectation with its result.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ExpectationResult {
    /// Name of the expectation.
    pub what: &'static str,
    /// True if it holds.
    pub held: bool,
    /// Observed value.
    pub found: String,
}

/// Checks a report against the expectations of a recording's header. `readback` is the fraction of
/// the reply in the transcript of its audio; `None` skips that check.
fn judge(expect: &Expect, report: &Report, readback: Option<f64>) -> Vec<ExpectationResult> {
    let mut verdicts = Vec::new();
    if let Some(said) = &expect.transcript {
        let heard = report.transcript();
        let error = error_rate(said, &heard);
        let most = expect.max_error.unwrap_or(0.0);
        verdicts.push(ExpectationResult {
            what: "transcript",
            held: !heard.is_empty() && error <= most + 1e-9,
            found: format!(
                "`{heard}` for `{said}`: {:.0} % wrong, {:.0} % allowed",
                error * 100.0,
                most * 100.0
            ),
        });
    }
    if expect.reply == Some(true) {
        let reply = report.reply();
        let played = report.packets().played;
        let found = format!("`{reply}`, {played} packets played");
        verdicts.push(ExpectationResult {
            what: "reply",
            held: !reply.is_empty() && played > 0,
            found,
        });
    }
    if let (Some(least), Some(read)) = (expect.readback, readback) {
        let found = format!("{:.0} % read back, {:.0} % wanted", read * 100.0, least * 100.0);
        verdicts.push(ExpectationResult { what: "readback", held: read + 1e-9 >= least, found });
    }
    if !expect.order.is_empty() {
        let missing = first_missing(&expect.order, report);
        let found =
            missing.map_or_else(|| "as wanted".into(), |m| format!("no `{m}` in its place"));
        verdicts.push(ExpectationResult { what: "order", held: missing.is_none(), found });
    }
    for wanted in &expect.calls {
        let called =
            report.calls().any(|c| c.name == wanted.name && c.arguments == wanted.arguments);
        verdicts.push(ExpectationResult { what: "call", held: called, found: calls(report) });
    }
    verdicts
}

/// Renders the calls of the device's tools.
fn calls(report: &Report) -> String {
    let all: Vec<String> = report
        .calls()
        .map(|c| format!("{} {}", c.name, Value::Object(c.arguments.clone())))
        .collect();
    if all.is_empty() { "no tool".into() } else { all.join(", ") }
}

fn first_missing<'a>(order: &'a [String], report: &Report) -> Option<&'a str> {
    let mut wanted = order.iter().peekable();
    for (_, fact) in report.facts() {
        // All found: nothing is missing.
        let next = wanted.peek()?;
        let matches = match fact {
            Fact::Message { kind, .. } => kind == *next,
            Fact::PacketReceived => "audio" == *next,
            _ => false,
        };
        if matches {
            wanted.next();
        }
    }
    wanted.next().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hearken_proto::recording::ExpectedCall;

    use super::*;
    use crate::events::ToolUse;
    use crate::report::Observation;

    fn report(facts: &[(&str, Option<&str>)]) -> Report {
        let mut report = Report::default();
        for (at, (kind, text)) in facts.iter().enumerate() {
            let fact = Fact::Message { kind: (*kind).into(), text: text.map(str::to_owned) };
            report.add(Duration::from_millis(at as u64), Observation::Noticed(fact));
        }
        report
    }

    #[test]
    fn expectations_of_a_test_are_checked_with_those_of_the_recording() {
        let mut report = report(&[("stt", Some("set it")), ("tts sentence_start", Some("Done."))]);
        let call = ToolUse { name: "lamp".into(), arguments: serde_json::Map::new() };
        let packet = Fact::PacketPlayed {
            opus: bytes::Bytes::from_static(b"abc"),
            length: Duration::from_millis(60),
        };
        for fact in [Fact::ToolCalled(call), packet, Fact::PacketLost(Loss::Interrupted)] {
            report.add(Duration::ZERO, Observation::Noticed(fact));
        }
        let ms = Duration::from_millis;
        let none = [("on", true); 0];
        let all = |added: Expectations| {
            let recorded = Expect { transcript: Some("set it".into()), ..Expect::default() };
            let results = added.judge(&recorded, &report, None);
            results.iter().map(|r| (r.what, r.held)).collect::<Vec<_>>()
        };
        assert_eq!(all(Expectations::new()), [("transcript", true), ("reply", true)]);
        let bare = || Expectations::new().without_recorded();
        for (held, fails) in [
            (bare().reply_contains("done"), bare().reply_contains("not")),
            (bare().called("lamp", none), bare().called("lamp", [("on", true)])),
            (bare().called_tool("lamp"), bare().no_calls()),
            (bare().audio(ms(60)..=ms(60)), bare().audio(ms(61)..=ms(99))),
            (bare().order(&["stt"]), bare().order(&["tts stop"])),
        ] {
            let held = all(held);
            let fails = all(fails);
            assert!(held.len() == 1 && held[0].1, "{held:?}");
            assert!(fails.len() == 1 && !fails[0].1, "{fails:?}");
        }
        assert_eq!(all(bare().no_faults()), [("faults", true)]);
        report.add(ms(9), Observation::Noticed(Fact::Offence("no state")));
        report.add(ms(9), Observation::Noticed(Fact::PacketLost(Loss::QueueFull)));
        let faulty = bare().no_faults().judge(&Expect::default(), &report, None);
        assert_eq!(faulty[0].found, "offence: no state; a packet was lost: queue full");
    }

    #[test]
    fn each_expectation_is_checked() {
        let report = report(&[("stt", Some("你好吗")), ("tts start", None), ("tts stop", None)]);
        let expect = Expect {
            transcript: Some("你好".into()),
            max_error: Some(0.5),
            reply: Some(true),
            readback: Some(0.8),
            order: ["stt", "tts stop"].map(String::from).to_vec(),
            ..Expect::default()
        };
        let held = |readback| {
            let verdicts = judge(&expect, &report, readback);
            verdicts.iter().map(|v| (v.what, v.held)).collect::<Vec<_>>()
        };
        assert_eq!(held(None), [("transcript", true), ("reply", false), ("order", true)]);
        assert_eq!(held(Some(0.7))[2], ("readback", false));
        let strict = Expect {
            transcript: Some("你好".into()),
            order: ["tts stop", "stt"].map(String::from).to_vec(),
            ..Expect::default()
        };
        let verdicts = judge(&strict, &report, None);
        assert!(verdicts.iter().all(|v| !v.held), "{verdicts:?}");
    }

    #[test]
    fn calls_are_checked_by_name_and_arguments() {
        let forty = serde_json::json!({"volume": 40}).as_object().unwrap().clone();
        let mut report = Report::default();
        let call = ToolUse { name: "volume".into(), arguments: forty.clone() };
        report.add(Duration::ZERO, Observation::Noticed(Fact::ToolCalled(call)));
        let wanted = |name: &str, arguments: &serde_json::Map<String, Value>| ExpectedCall {
            name: name.into(),
            arguments: arguments.clone(),
        };
        let none = serde_json::Map::new();
        let calls = vec![wanted("volume", &forty), wanted("volume", &none), wanted("lamp", &forty)];
        let verdicts = judge(&Expect { calls, ..Expect::default() }, &report, None);
        assert_eq!(verdicts.iter().map(|v| v.held).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(verdicts[0].found, r#"volume {"volume":40}"#);
    }
}
