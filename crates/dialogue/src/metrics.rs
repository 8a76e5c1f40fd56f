//! Metrics of the actors: every name, its unit and its labels. Counting costs nothing if no
//! recorder is installed. Not for logs, nor for exporting the metrics.

pub mod exemplars;
pub mod stages;
mod turn_taking;

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Label, Unit, counter, gauge, histogram};

use self::turn_taking::TurnTaking;
use crate::turn_trace::vocabulary::Outcome;

/// Names of the histograms in seconds.
pub const SECONDS: [&str; 6] = [
    "hearken_packet_lateness_seconds",
    "hearken_transcript_seconds",
    "hearken_first_audio_seconds",
    TOOL_CALL_SECONDS,
    "hearken_first_sentence_seconds",
    "hearken_voice_seconds",
];

/// Bucket bounds of the histograms of times, in seconds: from a packet's lateness to a slow answer.
pub const SECONDS_BOUNDS: [f64; 18] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0,
    30.0,
];

/// Names of the histograms of counts.
pub const COUNTS: [&str; 1] = [LANE_DEPTH];

const LANE_DEPTH: &str = "hearken_lane_depth";

const LANE_DROPS: &str = "hearken_lane_drops_total";
const TOOL_CALLS: &str = "hearken_tool_calls_total";
const TOOL_BYTES: &str = "hearken_tool_bytes_total";
const TOOL_CALL_SECONDS: &str = "hearken_tool_call_seconds";

/// Delay after its due time above which a sent packet counts as late: firmware tolerates shorter
/// delays.
pub const LATE: Duration = Duration::from_millis(5);

/// Returns the metric handles, created at first use. Install a recorder before the first call.
pub fn actor_metrics() -> &'static ActorMetrics {
    static METERS: LazyLock<ActorMetrics> = LazyLock::new(ActorMetrics::new);
    &METERS
}

/// Metric handles of devices, text clients and turns.
pub struct ActorMetrics {
    /// Connected devices.
    pub connections: Gauge,
    connections_refused: Counter,
    /// Connected text clients.
    pub text_clients: Gauge,
    /// Connected devices, by activity.
    pub devices: Devices,
    /// Packets from devices, by outcome.
    pub uplink: Uplink,
    /// Packets to devices.
    pub downlink_packets: Counter,
    /// Packets sent more than [`LATE`] after they were due.
    pub late_packets: Counter,
    /// Delay of a packet after it was due.
    pub lateness: Histogram,
    /// Times that a device ran out of audio within a sentence.
    pub underruns: Counter,
    /// Sends to a socket that took over 2 s.
    pub socket_stalls: Counter,
    /// Turns, by outcome.
    pub turns: Turns,
    /// Decisions about the ends of turns and interruptions.
    pub turn_taking: TurnTaking,
    /// Failures to store a text client's session.
    pub unstored: Counter,
    /// Turns of devices in progress.
    pub running_turns: Gauge,
    /// Limit of turns in progress.
    pub turn_limit: Gauge,
    /// 1 while speech is encoded with less effort, else 0.
    pub strained: Gauge,
    /// Utilisation of the busiest encoding thread, 0 to 1.
    pub encoding_busy: Gauge,
    /// Time from the end of speech to its transcript.
    pub transcript: Histogram,
    /// Time from the transcript to the first sentence.
    pub first_sentence: Histogram,
    /// Time from the first sentence to its first audio.
    pub voice: Histogram,
    /// Time from the end of speech to the first packet of the answer.
    pub first_audio: Histogram,
    /// Slots of the uplink lane in use.
    pub uplink_depth: Histogram,
    /// Slots of the playback lane in use.
    pub playback_depth: Histogram,
    /// Items dropped because a lane was full.
    pub drops: LaneDrops,
}

/// Counters of items dropped because a queue was full. Uplink packets are counted in `Uplink`.
pub struct LaneDrops {
    /// Audio pieces of an utterance: the recogniser is too slow.
    pub utterance: Counter,
    /// Messages that were to be spoken.
    pub messages: Counter,
    /// Messages of a device about its tools.
    pub tools: Counter,
    /// Frames of a recording: the disk is too slow, or a text takes too much memory when parsed.
    recording: Counter,
}

/// Current activity of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceActivity {
    /// Its microphone is closed and nothing is spoken.
    Idle,
    /// Its microphone is open.
    Listening,
    /// A person has spoken and has no answer yet.
    Thinking,
    /// The server is sending speech to it.
    Speaking,
}

/// Gauges of connected devices, by activity.
pub struct Devices([Gauge; 4]);

impl Devices {
    /// Returns the gauge of the devices with this activity.
    pub fn at(&self, activity: DeviceActivity) -> &Gauge {
        &self.0[activity as usize]
    }
}

/// Counters of uplink packets, by outcome.
pub struct Uplink {
    /// Decoded.
    pub heard: Counter,
    /// Received while the microphone was not wanted: during the server's own speech, or before
    /// listening started.
    pub unwanted: Counter,
    /// Empty, as produced by DTX.
    pub empty: Counter,
    /// Longer than an Opus packet can be.
    pub oversized: Counter,
    /// With an unreadable framing header.
    pub malformed: Counter,
    /// With an Opus packet that does not decode.
    pub garbage: Counter,
    /// Dropped because the queue was full.
    pub dropped: Counter,
}

/// Counters of turns, by outcome.
pub struct Turns {
    completed: Counter,
    interrupted: Counter,
    refused: Counter,
    failed: Counter,
}

impl Turns {
    /// Counts a turn that has ended. A turn with nothing to answer does not count.
    pub(crate) fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Answered => self.completed.increment(1),
            Outcome::Interrupted => self.interrupted.increment(1),
            Outcome::Refused => self.refused.increment(1),
            Outcome::Failed => self.failed.increment(1),
            Outcome::Silent => {}
        }
    }
}

impl LaneDrops {
    fn new() -> Self {
        let of = |lane| counter!(LANE_DROPS, "lane" => lane);
        Self {
            utterance: of("utterance"),
            messages: of("messages"),
            tools: of("tools"),
            recording: of("recording"),
        }
    }
}

impl ActorMetrics {
    fn new() -> Self {
        describe();
        let uplink = |outcome| counter!("hearken_uplink_packets_total", "outcome" => outcome);
        let turns = |end| counter!("hearken_turns_total", "end" => end);
        let [lateness, transcript, first_audio, _, first_sentence, voice] =
            SECONDS.map(|name| histogram!(name));
        let depth = |lane| histogram!(LANE_DEPTH, "lane" => lane);
        let states = ["idle", "listening", "thinking", "speaking"];
        Self {
            connections: gauge!("hearken_connections"),
            connections_refused: counter!("hearken_connections_refused_total"),
            text_clients: gauge!("hearken_text_clients"),
            devices: Devices(states.map(|state| gauge!("hearken_devices", "state" => state))),
            uplink: Uplink {
                heard: uplink("heard"),
                unwanted: uplink("unwanted"),
                empty: uplink("empty"),
                oversized: uplink("oversized"),
                malformed: uplink("malformed"),
                garbage: uplink("garbage"),
                dropped: uplink("dropped"),
            },
            downlink_packets: counter!("hearken_downlink_packets_total"),
            late_packets: counter!("hearken_downlink_late_packets_total"),
            lateness,
            underruns: counter!("hearken_underruns_total"),
            socket_stalls: counter!("hearken_socket_stalls_total"),
            turns: Turns {
                completed: turns("completed"),
                interrupted: turns("interrupted"),
                refused: turns("refused"),
                failed: turns("failed"),
            },
            turn_taking: TurnTaking::new(),
            unstored: counter!("hearken_text_sessions_unstored_total"),
            running_turns: gauge!("hearken_turns_running"),
            turn_limit: gauge!("hearken_turns_limit"),
            strained: gauge!("hearken_strained"),
            encoding_busy: gauge!("hearken_encoding_busy_ratio"),
            transcript,
            first_sentence,
            voice,
            first_audio,
            uplink_depth: depth("uplink"),
            playback_depth: depth("playback"),
            drops: LaneDrops::new(),
        }
    }

    /// Records that a packet was written `late_by` after it was due.
    pub fn packet_sent(&self, late_by: Duration) {
        self.downlink_packets.increment(1);
        self.lateness.record(late_by);
        if late_by > LATE {
            self.late_packets.increment(1);
        }
    }
}

/// Converts a count to the number type of metrics.
pub fn as_f64(count: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = count as f64;
    count
}

/// Outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// With an answer.
    Answered,
    /// With a failure that the tool or its source reported.
    Failed,
    /// Without its source, which is not connected.
    Unavailable,
    /// Without an answer in time.
    Timeout,
    /// Cancelled: no caller waits for the result any more.
    Cancelled,
}

impl CallEnd {
    fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Bytes of one tool call.
#[derive(Debug, Clone, Copy)]
pub struct CallTraffic {
    /// Bytes of the name and the arguments.
    pub sent: usize,
    /// Bytes of the result.
    pub received: usize,
}

/// Records the outcome, the duration and the bytes of a call to this kind of tool source. A source
/// that an administrator named is counted under its name too.
pub fn tool_called(
    kind: &'static str,
    name: Option<&str>,
    end: CallEnd,
    took: Duration,
    bytes: CallTraffic,
) {
    // The metrics must be described before the first one is recorded.
    actor_metrics();
    let mut labels = vec![Label::new("source", kind)];
    labels.extend(name.map(|name| Label::new("name", name.to_owned())));
    let with = |key: &'static str, value: &'static str| {
        [labels.clone(), vec![Label::new(key, value)]].concat()
    };
    counter!(TOOL_CALLS, with("end", end.label())).increment(1);
    counter!(TOOL_BYTES, with("direction", "sent")).increment(bytes.sent as u64);
    counter!(TOOL_BYTES, with("direction", "received")).increment(bytes.received as u64);
    histogram!(TOOL_CALL_SECONDS, labels).record(took);
}

/// Counts a device that was refused because all connection slots are taken.
pub fn connection_refused() {
    actor_metrics().connections_refused.increment(1);
}

/// Counts a frame that is missing from a recording because the disk is too slow, or because a text
/// takes too much memory when parsed.
pub fn recording_frame_dropped() {
    actor_metrics().drops.recording.increment(1);
}

fn describe() {
    let gauge = |name, text| metrics::describe_gauge!(name, Unit::Count, text);
    let counter = |name, text| metrics::describe_counter!(name, Unit::Count, text);
    let seconds = |name, text| metrics::describe_histogram!(name, Unit::Seconds, text);
    gauge("hearken_connections", "devices that are connected");
    let refused = "devices refused because all connection slots are in use";
    counter("hearken_connections_refused_total", refused);
    gauge("hearken_text_clients", "text clients that are connected");
    gauge("hearken_devices", "connected devices, by activity");
    counter("hearken_uplink_packets_total", "packets from devices, by outcome");
    counter("hearken_downlink_packets_total", "packets to devices");
    counter("hearken_downlink_late_packets_total", "packets sent over 5 ms after they were due");
    counter(
        "hearken_underruns_total",
        "playback underruns: a device ran out of audio within a sentence",
    );
    stages::describe();
    counter("hearken_socket_stalls_total", "sends to a socket that took over 2 s");
    gauge("hearken_turns_running", "turns of devices in progress");
    gauge("hearken_turns_limit", "limit of turns in progress; falls while packets are late");
    gauge("hearken_strained", "1 while speech is encoded with less effort, else 0");
    let busy = "utilisation of the busiest encoding thread, 0 to 1, averaged over 5 s";
    gauge("hearken_encoding_busy_ratio", busy);
    counter("hearken_turns_total", "turns, by outcome");
    counter("hearken_text_sessions_unstored_total", "failures to store a text client's session");
    counter(
        LANE_DROPS,
        "items dropped because a lane was full; uplink packets are counted in hearken_uplink_packets_total",
    );
    counter(TOOL_CALLS, "tool calls in conversations, by kind or name of source and outcome");
    counter(TOOL_BYTES, "bytes of arguments sent to tools and of results received from them");
    seconds(TOOL_CALL_SECONDS, "duration of a tool call");
    seconds(SECONDS[0], "delay of a packet after it was due");
    seconds(SECONDS[1], "from the end of speech to its transcript");
    seconds(SECONDS[4], "from the transcript, or the words, to the first sentence of the answer");
    seconds(SECONDS[5], "from the first sentence to its first audio, prebuffering included");
    metrics::describe_histogram!(
        LANE_DEPTH,
        Unit::Count,
        "slots of a lane in use: sampled each second (uplink), or the most of a turn (playback)"
    );
    seconds(SECONDS[2], "from the end of speech to the first packet of the answer");
}
