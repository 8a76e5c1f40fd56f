//! Timeline of a session as text for people. Not for its statistics, which are in
//! [`super::summary`].

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::events::{Fact, ToolUse};
use super::report::{Observation, Report, loss_name};

/// Returns all observations, one line each; a run of audio packets becomes one line.
pub fn timeline(report: &Report) -> String {
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

fn audio_kind(what: &Observation) -> Option<&'static str> {
    match what {
        Observation::SentAudio => Some("->"),
        Observation::Noticed(Fact::PacketReceived) => Some("<-"),
        _ => None,
    }
}

fn describe(what: &Observation) -> Option<(&'static str, String)> {
    let fact = match what {
        Observation::Sent(text) => return Some(("->", without_session(text))),
        Observation::SentAudio => return None,
        Observation::SpokenOver => return Some(("--", "the person speaks over the reply".into())),
        Observation::Noticed(fact) => fact,
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

/// Returns a message of the device without the session id; unchanged if it is not JSON.
fn without_session(text: &str) -> String {
    let Ok(mut json) = serde_json::from_str::<Value>(text) else {
        return text.to_owned();
    };
    if let Some(fields) = json.as_object_mut() {
        fields.remove("session_id");
    }
    json.to_string()
}
