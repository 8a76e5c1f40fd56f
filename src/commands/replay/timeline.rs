//! A session as lines for people, and as JSON for programs. Not for judging it.

use std::fmt::Write as _;
use std::time::Duration;

use hearken_virtual_device::events::ToolUse;
use hearken_virtual_device::expectations::ExpectationResult;
use hearken_virtual_device::firmware::Fact;
use hearken_virtual_device::observer::Aftermath;
use hearken_virtual_device::report::{Packets, Report, Stages, What, loss_name};
use serde::Serialize;

use serde_json::Value;

/// What a replay prints with `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// What was understood.
    pub(super) transcript: String,
    /// What was answered.
    pub(super) reply: String,
    /// What recognition read back from the reply's sound.
    pub(super) readback: Option<String>,
    /// Part of the reply that was read back, 0 to 1.
    pub(super) agreement: Option<f64>,
    /// Latencies from the end of the person's speech.
    pub(super) stages: Stages,
    /// Counts of packets.
    pub(super) packets: Packets,
    /// Silences inside speech, in all, ms.
    pub(super) gaps_ms: u64,
    /// What came after each interruption.
    pub(super) interruptions: Vec<Aftermath>,
    /// The device's tools that were called, in order.
    pub(super) tools: Vec<String>,
    /// Messages that would have crashed or confused firmware.
    pub(super) offences: Vec<&'static str>,
    /// Expectations and what came of them.
    pub(super) verdicts: Vec<ExpectationResult>,
}

/// All that happened, one line each; runs of audio packets become one line.
pub(super) fn lines(report: &Report) -> String {
    let mut out = String::new();
    let mut run: Option<Run> = None;
    let mut ended = report.speech_end;
    for entry in report.entries() {
        if let Some(end) = ended.filter(|end| *end <= entry.at) {
            ended = None;
            flush(&mut out, &mut run);
            line(&mut out, end, "--", "the person has finished speaking");
        }
        if let Some(kind) = audio_kind(&entry.what) {
            match &mut run {
                Some(open) if open.kind == kind => open.extend(entry.at),
                _ => {
                    flush(&mut out, &mut run);
                    run = Some(Run { kind, first: entry.at, last: entry.at, packets: 1 });
                }
            }
        } else if let Some((arrow, text)) = describe(&entry.what) {
            flush(&mut out, &mut run);
            line(&mut out, entry.at, arrow, &text);
        }
    }
    flush(&mut out, &mut run);
    out
}

/// Consecutive packets of one direction.
struct Run {
    kind: &'static str,
    first: Duration,
    last: Duration,
    packets: usize,
}

impl Run {
    fn extend(&mut self, at: Duration) {
        self.last = at;
        self.packets += 1;
    }
}

fn flush(out: &mut String, run: &mut Option<Run>) {
    let Some(Run { kind, first, last, packets }) = run.take() else { return };
    let text = if packets == 1 {
        "audio, 1 packet".to_owned()
    } else {
        format!("audio, {packets} packets until {:.3}", last.as_secs_f64())
    };
    line(out, first, kind, &text);
}

fn line(out: &mut String, at: Duration, arrow: &str, text: &str) {
    writeln!(out, "{:>9.3}  {arrow}  {text}", at.as_secs_f64())
        .expect("writing to a string cannot fail");
}

fn audio_kind(what: &What) -> Option<&'static str> {
    match what {
        What::SentAudio => Some("->"),
        What::Noticed(Fact::PacketReceived) => Some("<-"),
        _ => None,
    }
}

fn describe(what: &What) -> Option<(&'static str, String)> {
    let fact = match what {
        What::Sent(text) => return Some(("->", without_session(text))),
        What::SentAudio => return None,
        What::SpokenOver => return Some(("--", "the person speaks over the reply".into())),
        What::Noticed(fact) => fact,
    };
    let text = match fact {
        Fact::Message { kind, text: Some(text) } => return Some(("<-", format!("{kind}: {text}"))),
        Fact::Message { kind, text: None } => return Some(("<-", kind.clone())),
        Fact::State(state) => format!("{state:?}").to_lowercase(),
        Fact::HelloMissing => "no hello from the server within 10 s".into(),
        Fact::PacketLost(loss) => format!("lost a packet: {}", loss_name(*loss)),
        Fact::PacketCut { unplayed, loss } => {
            let why = loss_name(*loss);
            format!("cut a packet {} ms before its end: {why}", unplayed.as_millis())
        }
        Fact::Gap { length } => format!("silence of {} ms inside speech", length.as_millis()),
        Fact::PlaybackEmpty => "everything played".into(),
        Fact::Aborted => "the person interrupts".into(),
        Fact::UplinkDropped => "dropped a packet of the microphone: the send queue is full".into(),
        Fact::WakeLost => "the wake word was lost, by a fault of this firmware".into(),
        Fact::ToolCalled(ToolUse { name, arguments }) => {
            format!("runs its tool {name} {}", Value::Object(arguments.clone()))
        }
        Fact::Rebooting => "restarts".into(),
        Fact::Offence(what) => format!("offence: {what}"),
        Fact::Hello(_)
        | Fact::PacketReceived
        | Fact::PacketPlayed { .. }
        | Fact::MicrophoneOpen => return None,
    };
    Some(("--", text))
}

/// What the device sent, without the session id; as it stands where it is no JSON.
fn without_session(text: &str) -> String {
    let Ok(mut json) = serde_json::from_str::<serde_json::Value>(text) else {
        return text.to_owned();
    };
    if let Some(fields) = json.as_object_mut() {
        fields.remove("session_id");
    }
    json.to_string()
}

impl Outcome {
    /// The closing lines for people.
    pub(super) fn summary(&self) -> String {
        let mut out = String::from("\n");
        let mut put = |name: &str, value: String| {
            writeln!(out, "{name:<12} {value}").expect("writing to a string cannot fail");
        };
        put("heard", self.transcript.clone());
        put("answered", self.reply.clone());
        if let (Some(text), Some(part)) = (&self.readback, self.agreement) {
            put("read back", format!("{:.0} %: {text}", part * 100.0));
        }
        let stages = &self.stages;
        let ms = |value: Option<u64>| value.map_or("-".into(), |ms| format!("{ms} ms"));
        put(
            "latency",
            format!(
                "from the end of speech: stt {}, tts start {}, first sentence {}, first audio {}, \
                 heard {}, tts stop {}",
                ms(stages.stt_ms),
                ms(stages.tts_start_ms),
                ms(stages.sentence_start_ms),
                ms(stages.first_audio_ms),
                ms(stages.first_heard_ms),
                ms(stages.tts_stop_ms)
            ),
        );
        let packets = &self.packets;
        let lost: usize = packets.lost.values().sum();
        put(
            "packets",
            format!(
                "{} sent, {} received, {} played, {lost} lost, {} cut, {} late ({} ms silent)",
                packets.sent,
                packets.received,
                packets.played,
                packets.cut,
                packets.late,
                self.gaps_ms
            ),
        );
        if packets.unsent > 0 {
            put("unsent", format!("{} packets of the microphone", packets.unsent));
        }
        for cut in &self.interruptions {
            let ms = |time: Option<Duration>| time.map(|t| format!("{} ms", t.as_millis()));
            let stop = ms(cut.stop).map_or("no tts stop".into(), |t| format!("tts stop {t} after"));
            let last =
                ms(cut.last_packet).map_or("no packet".into(), |t| format!("last packet {t}"));
            let stale = cut.packets_after_stop;
            put("interrupted", format!("{stop}, {last} after, {stale} packets after tts stop"));
        }
        if !self.tools.is_empty() {
            put("tools", self.tools.join(", "));
        }
        for verdict in &self.verdicts {
            let word = if verdict.held { "held" } else { "FAILED" };
            put(word, format!("{}: {}", verdict.what, verdict.found));
        }
        out
    }
}
