//! Timeline of a conversation, in chronological order: the user's speech, the log of the actors,
//! the messages of the server and the playback of the device. The audio is elsewhere.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use tracing::Level;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::{Scene, Seen, Sent};
use crate::manifest::Stretch;

/// A gap in playback of this length counts as silence.
const SILENCE: Duration = Duration::from_millis(300);
/// Log fields that appear in a timeline.
const FIELDS: [&str; 6] = ["probability", "window", "silence", "from", "meaning", "turn"];

/// Event of a timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Event {
    /// Milliseconds from the start of the audio.
    pub(crate) at_ms: u64,
    pub(crate) who: &'static str,
    pub(crate) what: String,
}

/// Events in chronological order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    pub(crate) events: Vec<Event>,
}

impl Timeline {
    fn add(&mut self, at: Duration, who: &'static str, what: impl Into<String>) {
        let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        self.events.push(Event { at_ms, who, what: what.into() });
    }

    /// Returns the timeline as text, one line per event.
    pub(crate) fn text(&self) -> String {
        self.events.iter().fold(String::new(), |mut text, Event { at_ms, who, what }| {
            // Writing to a string never fails.
            writeln!(text, "{:>9.3}  {who:<7} {what}", *at_ms as f64 / 1_000.0).unwrap_or_default();
            text
        })
    }

    fn person(&mut self, seen: &Seen, pause: Option<&Stretch>) {
        self.add(seen.asked.start, "person", "starts to speak");
        if let Some(pause) = pause {
            self.add(seen.asked.start + pause.start, "person", "pauses in mid-sentence");
            self.add(seen.asked.start + pause.end, "person", "continues");
        }
        self.add(seen.asked.end, "person", "finishes");
        if let Some(over) = &seen.over {
            self.add(over.start, "person", "starts to speak over the reply");
            self.add(over.end, "person", "finishes");
        }
    }

    fn server(&mut self, seen: &Seen) {
        for (at, sent) in &seen.sent {
            match sent {
                Sent::Start => self.add(*at, "server", "sends tts start"),
                Sent::Stop => self.add(*at, "server", "sends tts stop"),
                Sent::Sentence(text) => self.add(*at, "server", format!("sends sentence: {text}")),
                Sent::Transcript(text) => self.add(*at, "server", format!("sends stt: {text}")),
                Sent::Packet(tag) if tag.packet == 0 => {
                    self.add(*at, "server", "sends the first packet of a sentence");
                }
                Sent::Packet(_) => {}
            }
        }
    }

    fn device(&mut self, seen: &Seen) {
        let mut quiet: Option<Duration> = None;
        for played in &seen.played {
            let silence = quiet.map(|quiet| played.at.saturating_sub(quiet));
            if silence.is_none_or(|silence| silence >= SILENCE) {
                if let Some(quiet) = quiet {
                    self.add(quiet, "device", "falls silent");
                }
                self.add(played.at, "device", "starts to play");
            }
            quiet = Some(played.at + played.length);
        }
        if let Some(quiet) = quiet {
            self.add(quiet, "device", "falls silent");
        }
        for (at, length, _) in seen.gaps.iter().filter(|(_, length, _)| *length < SILENCE) {
            self.add(*at, "device", format!("waited {} ms for a packet", length.as_millis()));
        }
        for (at, loss, _) in &seen.lost {
            self.add(*at, "device", format!("drops sound: {loss:?}"));
        }
    }
}

/// Log of the actors during a conversation, in virtual time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capture(Arc<Mutex<Vec<u8>>>);

/// Virtual time in milliseconds since the first log line, which is written at the start of the conversation.
#[derive(Default)]
struct Clock(OnceLock<Instant>);

impl FormatTime for Clock {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        write!(to, "{}", self.0.get_or_init(Instant::now).elapsed().as_millis())
    }
}

impl io::Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Capture {
    /// Captures what the actors log on this thread during the call.
    pub(crate) fn during<T>(&self, conversation: impl FnOnce() -> T) -> T {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_max_level(Level::DEBUG)
            .with_timer(Clock::default())
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, conversation)
    }

    /// Returns the timeline of a conversation, including the captured log.
    pub(crate) fn timeline(&self, scene: &Scene, seen: &Seen, pause: Option<&Stretch>) -> Timeline {
        let mut timeline = Timeline::default();
        timeline.add(Duration::ZERO, "device", format!("has firmware {}", scene.profile.name));
        timeline.person(seen, pause);
        timeline.server(seen);
        timeline.device(seen);
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in log.split(|byte| *byte == b'\n') {
            let Ok(json) = serde_json::from_slice::<Value>(line) else { continue };
            if let Some((at, what)) = logged(&json) {
                timeline.add(at, "actors", what);
            }
        }
        timeline.events.sort_by_key(|event| event.at_ms);
        timeline
    }
}

/// Returns the time and the text of a log line of the actors.
fn logged(line: &Value) -> Option<(Duration, String)> {
    let target = line["target"].as_str()?;
    let ours = ["hearken_actors", "hearken_audio", "hearken_dialogue"];
    ours.iter().find(|of| target.starts_with(**of))?;
    let at = line["timestamp"].as_str()?.parse().ok()?;
    let fields = &line["fields"];
    let mut what = fields["message"].as_str()?.to_owned();
    for name in FIELDS {
        match &fields[name] {
            Value::Null => {}
            Value::String(text) => write!(what, ", {name} {text}").unwrap_or_default(),
            other => write!(what, ", {name} {other}").unwrap_or_default(),
        }
    }
    Some((Duration::from_millis(at), what))
}
