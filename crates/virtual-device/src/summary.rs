//! Result of a replay: as JSON for programs, as text for people. `hearken replay --json` prints the
//! JSON; `docs/replay-json.md` describes each field, and a test compares both. Not for judging.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::expectations::ExpectationResult;
use super::observer::InterruptionEffects;
use super::report::{Packets, Stages};

/// Value of `format` in every summary.
pub const FORMAT: &str = "hearken-replay";
/// Value of `version`. Fields may be added to this version, but none changes its meaning or is
/// removed.
pub const VERSION: u32 = 1;

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Always [`FORMAT`].
    pub format: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// Always `None`: the replay ran. Otherwise there is a [`Failure`].
    pub error: Option<String>,
    /// Name of the recording.
    pub file: String,
    /// Address to which the device connected.
    pub url: String,
    /// True if every checked expectation holds.
    pub held: bool,
    /// Transcript.
    pub transcript: String,
    /// Answer.
    pub reply: String,
    /// Sentences of the answer, as announced.
    pub sentences: Vec<String>,
    /// Transcript of the reply's audio.
    pub readback: Option<String>,
    /// Fraction of the reply in that transcript, 0 to 1.
    pub agreement: Option<f64>,
    /// Latencies from the end of the person's speech.
    pub stages: Stages,
    /// Counts of packets.
    pub packets: Packets,
    /// Length of the played audio of the reply, in ms.
    pub audio_ms: u64,
    /// Total length of silences inside speech, in ms.
    pub gaps_ms: u64,
    /// Consequences of each interruption.
    pub interruptions: Vec<Interruption>,
    /// Names of the called tools of the device, in order.
    pub tools: Vec<String>,
    /// The same calls, with their arguments.
    pub calls: Vec<Call>,
    /// Messages that would have crashed or confused firmware.
    pub offences: Vec<&'static str>,
    /// All problems for a device or a listener, including the offences; empty if there were none.
    pub faults: Vec<String>,
    /// Expectations with their results.
    pub verdicts: Vec<ExpectationResult>,
}

/// Error of a replay that could not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Always [`FORMAT`].
    pub format: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// Reason of the failure.
    pub error: String,
}

impl Failure {
    /// Creates an error with this reason.
    pub fn new(error: impl Into<String>) -> Self {
        Self { format: FORMAT, version: VERSION, error: error.into() }
    }
}

/// A call of one of the device's tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// Name of the tool.
    pub name: String,
    /// Its arguments, with defaults filled in.
    pub arguments: Map<String, Value>,
}

/// Consequences of one interruption; times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interruption {
    /// Time of the interruption, since the device was switched on.
    pub at_ms: u64,
    /// Number of packets received between it and `tts stop`.
    pub packets: usize,
    /// Time from the interruption to the last packet.
    pub last_packet_ms: Option<u64>,
    /// Number of sentences announced after it.
    pub sentences: usize,
    /// Time from the interruption to `tts stop`.
    pub stop_ms: Option<u64>,
    /// Number of packets received after that `tts stop`.
    pub packets_after_stop: usize,
}

impl From<InterruptionEffects> for Interruption {
    fn from(aftermath: InterruptionEffects) -> Self {
        let InterruptionEffects { at, packets, last_packet, sentences, stop, packets_after_stop } =
            aftermath;
        Self {
            at_ms: milliseconds(at),
            packets,
            last_packet_ms: last_packet.map(milliseconds),
            sentences,
            stop_ms: stop.map(milliseconds),
            packets_after_stop,
        }
    }
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Summary {
    /// Returns the closing lines for people.
    pub fn text(&self) -> String {
        let mut out = String::from("\n");
        let mut put = |name: &str, value: &str| {
            writeln!(out, "{name:<12} {value}").expect("writing to a string cannot fail");
        };
        put("heard", &self.transcript);
        put("answered", &self.reply);
        if let (Some(text), Some(part)) = (&self.readback, self.agreement) {
            put("read back", &format!("{:.0} %: {text}", part * 100.0));
        }
        put("latency", &latencies(&self.stages));
        put("packets", &counts(&self.packets, self.gaps_ms));
        if self.packets.unsent > 0 {
            put("unsent", &format!("{} packets of the microphone", self.packets.unsent));
        }
        for interruption in &self.interruptions {
            put("interrupted", &interruption.text());
        }
        if !self.tools.is_empty() {
            put("tools", &self.tools.join(", "));
        }
        for verdict in &self.verdicts {
            let word = if verdict.held { "held" } else { "FAILED" };
            put(word, &format!("{}: {}", verdict.what, verdict.found));
        }
        out
    }
}

impl Interruption {
    fn text(&self) -> String {
        let stop =
            self.stop_ms.map_or("no tts stop".into(), |ms| format!("tts stop {ms} ms after"));
        let last =
            self.last_packet_ms.map_or("no packet".into(), |ms| format!("last packet {ms} ms"));
        let stale = self.packets_after_stop;
        format!("{stop}, {last} after, {stale} packets after tts stop")
    }
}

fn latencies(stages: &Stages) -> String {
    let ms = |value: Option<u64>| value.map_or("-".into(), |ms| format!("{ms} ms"));
    format!(
        "from the end of speech: stt {}, tts start {}, first sentence {}, first audio {}, heard \
         {}, tts stop {}",
        ms(stages.stt_ms),
        ms(stages.tts_start_ms),
        ms(stages.sentence_start_ms),
        ms(stages.first_audio_ms),
        ms(stages.first_heard_ms),
        ms(stages.tts_stop_ms)
    )
}

fn counts(packets: &Packets, gaps_ms: u64) -> String {
    let Packets { sent, received, played, late, cut, lost, .. } = packets;
    let lost: usize = lost.values().sum();
    format!(
        "{sent} sent, {received} received, {played} played, {lost} lost, {cut} cut, {late} late \
         ({gaps_ms} ms silent)"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::session::tests::{eventful, expected};

    /// Collects the names of all fields below this value, in the notation of the document.
    fn names(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            // Its keys are reasons; arguments have the names of any tool.
            _ if matches!(path, "packets.lost" | "calls[].arguments") => {}
            Value::Object(fields) => {
                let dot = if path.is_empty() { "" } else { "." };
                return fields
                    .iter()
                    .for_each(|(name, value)| names(value, &format!("{path}{dot}{name}"), found));
            }
            Value::Array(values) => {
                assert!(!values.is_empty(), "{path}: nothing to compare with the document");
                return values.iter().for_each(|value| names(value, &format!("{path}[]"), found));
            }
            _ => {}
        }
        found.insert(path.to_owned());
    }

    /// Returns the fields in the table below this heading.
    fn documented(heading: &str) -> BTreeSet<String> {
        // Read at run time, as no file of a checkout may be compiled in.
        let document = std::fs::read_to_string("../../docs/replay-json.md")
            .expect("cargo runs in the package's folder");
        let (_, chapter) = document.split_once(heading).expect("the document has the chapter");
        let chapter = chapter.split("\n## ").next().unwrap_or_default();
        let fields = chapter.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` |"));
        fields.map(|(field, _)| field.to_owned()).collect()
    }

    fn fields(printed: &impl Serialize) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        names(&serde_json::to_value(printed).unwrap(), "", &mut found);
        found
    }

    #[test]
    fn the_document_describes_exactly_the_fields() {
        let session = eventful();
        let summary = session.summary(session.check(&expected()));
        assert_eq!(fields(&summary), documented("## The outcome"));
        assert_eq!(fields(&Failure::new("no server")), documented("## The failure"));
    }
}
