//! Metrics of the actors: every name, its unit and its labels. Counting costs nothing if no
//! recorder is installed. Not for logs, nor for exporting the metrics.

pub mod exemplars;
pub mod stages;
mod turn_taking;

use std::sync::LazyLock;
use std::time::Duration;

use hearken_ports::Usage;
use metrics::{Counter, Gauge, Histogram, Label, Unit, counter, gauge, histogram};

use self::turn_taking::TurnTaking;
use crate::dialogue::TurnEnd;

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
const LLM_REQUESTS: &str = "hearken_llm_requests_total";
const LLM_TOKENS: &str = "hearken_llm_tokens_total";
const LLM_COST: &str = "hearken_llm_cost";
const LLM_FALLBACKS: &str = "hearken_llm_fallbacks_total";
const TOOL_CALLS: &str = "hearken_tool_calls_total";
const TOOL_BYTES: &str = "hearken_tool_bytes_total";
const TOOL_CALL_SECONDS: &str = "hearken_tool_call_seconds";

/// Delay after its due time above which a sent packet counts as late: firmware plays no differently
/// below it.
pub const LATE: Duration = Duration::from_millis(5);

/// Returns the metric handles, created at first use. Install a recorder before.
pub(crate) fn actor_metrics() -> &'static ActorMetrics {
    static METERS: LazyLock<ActorMetrics> = LazyLock::new(ActorMetrics::new);
    &METERS
}

pub(crate) struct ActorMetrics {
    pub(crate) connections: Gauge,
    connections_refused: Counter,
    pub(crate) text_clients: Gauge,
    pub(crate) devices: Devices,
    pub(crate) uplink: Uplink,
    pub(crate) downlink_packets: Counter,
    pub(crate) late_packets: Counter,
    pub(crate) lateness: Histogram,
    pub(crate) underruns: Counter,
    pub(crate) socket_stalls: Counter,
    pub(crate) turns: Turns,
    pub(crate) turn_taking: TurnTaking,
    pub(crate) unstored: Counter,
    pub(crate) running_turns: Gauge,
    pub(crate) turn_limit: Gauge,
    pub(crate) strained: Gauge,
    pub(crate) encoding_busy: Gauge,
    pub(crate) transcript: Histogram,
    pub(crate) first_sentence: Histogram,
    pub(crate) voice: Histogram,
    pub(crate) first_audio: Histogram,
    pub(crate) uplink_depth: Histogram,
    pub(crate) playback_depth: Histogram,
    pub(crate) drops: LaneDrops,
}

/// Counters of items dropped because a queue was full. Uplink packets are counted in `Uplink`.
pub(crate) struct LaneDrops {
    /// Audio pieces of an utterance: the recogniser is too slow.
    pub(crate) utterance: Counter,
    /// Messages that were to be spoken.
    pub(crate) messages: Counter,
    /// Messages of a device about its tools.
    pub(crate) tools: Counter,
    /// Frames of a recording: the disk is too slow.
    recording: Counter,
}

/// Activity of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActivityState {
    /// Its microphone is closed and nothing is spoken.
    Idle,
    /// Its microphone is open.
    Listening,
    /// A person has spoken and has no answer yet.
    Thinking,
    /// Our speech is sent to it.
    Speaking,
}

/// Gauges of connected devices, by activity.
pub(crate) struct Devices([Gauge; 4]);

impl Devices {
    /// Returns the gauge of the devices in this state.
    pub(crate) fn at(&self, activity: ActivityState) -> &Gauge {
        &self.0[activity as usize]
    }
}

/// Counters of uplink packets, by outcome.
pub(crate) struct Uplink {
    pub(crate) heard: Counter,
    /// Received while the microphone was not wanted: during our own speech, or before listening
    /// began.
    pub(crate) unwanted: Counter,
    /// Empty, as DTX makes them.
    pub(crate) empty: Counter,
    /// Longer than an Opus packet can be.
    pub(crate) oversized: Counter,
    /// The header of its framing cannot be read.
    pub(crate) malformed: Counter,
    /// The Opus packet does not decode.
    pub(crate) garbage: Counter,
    /// Dropped, because the queue was full.
    pub(crate) dropped: Counter,
}

/// Counters of turns, by their end.
pub(crate) struct Turns {
    completed: Counter,
    interrupted: Counter,
    refused: Counter,
    failed: Counter,
}

impl Turns {
    /// Counts a turn by its end.
    pub(crate) fn count(&self, end: &TurnEnd) {
        match end {
            TurnEnd::Completed => self.completed.increment(1),
            TurnEnd::Interrupted => self.interrupted.increment(1),
            TurnEnd::Refused => self.refused.increment(1),
            TurnEnd::Failed(_) => self.failed.increment(1),
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
    pub(crate) fn packet_sent(&self, late_by: Duration) {
        self.downlink_packets.increment(1);
        self.lateness.record(late_by);
        if late_by > LATE {
            self.late_packets.increment(1);
        }
    }
}

/// Converts a count to the number type of metrics.
pub(crate) fn as_f64(count: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = count as f64;
    count
}

/// Outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// With an answer.
    Answered,
    /// With a failure that the tool or its source reported.
    Failed,
    /// Without its source, which is not connected.
    Unavailable,
    /// Without an answer in time.
    Timeout,
    /// Cancelled: no caller waits for it any more.
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
pub(crate) struct CallTraffic {
    /// Bytes of the name and the arguments.
    pub(crate) sent: usize,
    /// Bytes of the result.
    pub(crate) received: usize,
}

/// Records the end, the duration and the bytes of a call to this kind of tool source. A source that
/// an administrator named is counted under its name too.
pub(crate) fn tool_called(
    kind: &'static str,
    name: Option<&str>,
    end: CallEnd,
    took: Duration,
    bytes: CallTraffic,
) {
    // The metrics must be described before the first one is counted.
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

/// Counts a frame left out of a recording because the disk is too slow.
pub fn recording_frame_dropped() {
    actor_metrics().drops.recording.increment(1);
}

/// Counts an answer of the language model to this frontend: `whole`, or failed.
pub fn llm_ended(face: &'static str, whole: bool) {
    actor_metrics();
    let end = if whole { "answered" } else { "failed" };
    counter!(LLM_REQUESTS, "face" => face, "end" => end).increment(1);
}

/// Adds the tokens and the cost of an answer to this frontend; the cost is in the prices' currency.
pub fn llm_used(face: &'static str, usage: &Usage, cost: f64) {
    actor_metrics();
    counter!(LLM_TOKENS, "face" => face, "kind" => "prompt").increment(usage.prompt_tokens);
    counter!(LLM_TOKENS, "face" => face, "kind" => "completion").increment(usage.completion_tokens);
    gauge!(LLM_COST, "face" => face).increment(cost);
}

/// Counts an answer of a fallback model, at this position of the list: those before it did not
/// answer.
pub fn llm_fell_back(place: usize) {
    actor_metrics();
    counter!(LLM_FALLBACKS, "place" => place.to_string()).increment(1);
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
    counter(LLM_REQUESTS, "answers of the language model, by frontend and outcome");
    counter(LLM_TOKENS, "tokens read and written by the language model, by frontend");
    gauge(LLM_COST, "cost of these tokens, in the currency of the configured prices");
    counter(LLM_FALLBACKS, "answers of fallback models, by position in the list");
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
