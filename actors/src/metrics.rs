//! What the actors count, as metrics of the process: every name, its unit and its labels. Where no
//! recorder is installed counting costs nothing. Not for logs, nor for showing what was counted.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};

use crate::actors::device::ActivityState;
use crate::dialogue::TurnEnd;
use crate::ports::{ProviderErrorKind, Usage};

/// Names of the metrics that are distributions, in seconds.
pub const SECONDS: [&str; 6] = [
    "hearken_packet_lateness_seconds",
    "hearken_transcript_seconds",
    "hearken_first_audio_seconds",
    TOOL_CALL_SECONDS,
    "hearken_first_sentence_seconds",
    "hearken_voice_seconds",
];

/// Names of the metrics that are distributions of counts.
pub const COUNTS: [&str; 1] = [LANE_DEPTH];

const LANE_DEPTH: &str = "hearken_lane_depth";

const LANE_DROPS: &str = "hearken_lane_drops_total";
const LLM_REQUESTS: &str = "hearken_llm_requests_total";
const LLM_TOKENS: &str = "hearken_llm_tokens_total";
const LLM_COST: &str = "hearken_llm_cost";
const LLM_FALLBACKS: &str = "hearken_llm_fallbacks_total";
const TOOL_CALLS: &str = "hearken_tool_calls_total";
const TOOL_CALL_SECONDS: &str = "hearken_tool_call_seconds";

/// A packet that leaves later than this after it was due counts as late: firmware hears no
/// difference below.
pub const LATE: Duration = Duration::from_millis(5);

/// The handles, made when first used: a recorder is to be installed before.
pub(crate) fn meters() -> &'static Meters {
    static METERS: LazyLock<Meters> = LazyLock::new(Meters::new);
    &METERS
}

pub(crate) struct Meters {
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

/// What was dropped because a lane was full; packets of the uplink are counted with the others.
pub(crate) struct LaneDrops {
    /// Pieces of an utterance: the recogniser is too slow.
    pub(crate) utterance: Counter,
    /// Messages that were to be spoken.
    pub(crate) messages: Counter,
    /// What a device says of its tools.
    pub(crate) tools: Counter,
    /// Frames of a recording: the disk is too slow.
    recording: Counter,
}

/// Connected devices, by what they are doing.
pub(crate) struct Devices([Gauge; 4]);

impl Devices {
    /// Those that stand there.
    pub(crate) fn at(&self, activity: ActivityState) -> &Gauge {
        &self.0[activity as usize]
    }
}

/// Uplink packets, by what became of them.
pub(crate) struct Uplink {
    pub(crate) heard: Counter,
    /// The device's microphone was not wanted: it was our own voice, or listening had not begun.
    pub(crate) unwanted: Counter,
    /// Empty, as DTX makes them.
    pub(crate) empty: Counter,
    /// Longer than an Opus packet can be.
    pub(crate) oversized: Counter,
    /// The header of its framing cannot be read.
    pub(crate) malformed: Counter,
    /// The Opus packet does not decode.
    pub(crate) garbage: Counter,
    /// The lane was full.
    pub(crate) dropped: Counter,
}

/// Turns, by their end.
pub(crate) struct Turns {
    completed: Counter,
    interrupted: Counter,
    refused: Counter,
    failed: Counter,
}

impl Turns {
    /// A turn ended like this.
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

impl Meters {
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

    /// A packet has been written this long after it was due.
    pub(crate) fn packet_sent(&self, late_by: Duration) {
        self.downlink_packets.increment(1);
        self.lateness.record(late_by);
        if late_by > LATE {
            self.late_packets.increment(1);
        }
    }
}

/// A count as metrics take it.
pub(crate) fn whole(count: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = count as f64;
    count
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// With an answer.
    Answered,
    /// The tool, or its source, says that it failed.
    Failed,
    /// Its source is away.
    Unavailable,
    /// Without an answer in time.
    Timeout,
    /// Nobody waits for it any more.
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

/// A call to a source of this sort ended after this time.
pub(crate) fn tool_called(source: &'static str, end: CallEnd, took: Duration) {
    // So that they are described, whichever is counted first.
    meters();
    counter!(TOOL_CALLS, "source" => source, "end" => end.label()).increment(1);
    histogram!(TOOL_CALL_SECONDS, "source" => source).record(took);
}

/// A device was not let in, since all places are taken.
pub fn connection_refused() {
    meters().connections_refused.increment(1);
}

/// A frame was left out of a recording, since the disk is too slow.
pub fn recording_frame_dropped() {
    meters().drops.recording.increment(1);
}

/// An answer of the language model to this face ended, whole or by a failure.
pub fn llm_ended(face: &'static str, whole: bool) {
    meters();
    let end = if whole { "answered" } else { "failed" };
    counter!(LLM_REQUESTS, "face" => face, "end" => end).increment(1);
}

/// An answer to this face took so many tokens, and cost so much in the prices' currency.
pub fn llm_used(face: &'static str, usage: &Usage, cost: f64) {
    meters();
    counter!(LLM_TOKENS, "face" => face, "kind" => "prompt").increment(usage.prompt_tokens);
    counter!(LLM_TOKENS, "face" => face, "kind" => "completion").increment(usage.completion_tokens);
    gauge!(LLM_COST, "face" => face).increment(cost);
}

/// The language model at this place of the list answered, since those before it did not.
pub fn llm_fell_back(place: usize) {
    meters();
    counter!(LLM_FALLBACKS, "place" => place.to_string()).increment(1);
}

fn describe() {
    let gauge = |name, text| metrics::describe_gauge!(name, Unit::Count, text);
    let counter = |name, text| metrics::describe_counter!(name, Unit::Count, text);
    let seconds = |name, text| metrics::describe_histogram!(name, Unit::Seconds, text);
    gauge("hearken_connections", "devices that are connected");
    let refused = "devices that were not let in, since all places are taken";
    counter("hearken_connections_refused_total", refused);
    gauge("hearken_text_clients", "text clients that are connected");
    gauge("hearken_devices", "devices that are connected, by what they are doing");
    counter("hearken_uplink_packets_total", "packets from devices, by what became of them");
    counter("hearken_downlink_packets_total", "packets to devices");
    counter("hearken_downlink_late_packets_total", "packets sent over 5 ms after they were due");
    counter("hearken_underruns_total", "times that a device ran dry within a sentence");
    counter("hearken_socket_stalls_total", "sends to a socket that waited for over 2 s");
    gauge("hearken_turns_running", "turns of devices that are answered now");
    gauge("hearken_turns_limit", "turns that may run at once; it falls where packets are late");
    gauge("hearken_strained", "1 while speech is encoded with less effort, else 0");
    let busy = "part of its time for which the busiest thread that encodes is busy, over 5 s";
    gauge("hearken_encoding_busy_ratio", busy);
    counter("hearken_turns_total", "turns of dialogues, by their end");
    counter(
        LANE_DROPS,
        "what was dropped because a lane was full; uplink packets are counted there",
    );
    counter(LLM_REQUESTS, "answers of the language model, by who asked and their end");
    counter(LLM_TOKENS, "tokens that the language model read and wrote, by who asked");
    gauge(LLM_COST, "what these tokens cost, in the currency of the configured prices");
    counter(LLM_FALLBACKS, "answers that another than the first language model gave");
    counter(TOOL_CALLS, "calls of tools in conversations, by the sort of source and their end");
    seconds(TOOL_CALL_SECONDS, "how long a tool call took");
    seconds(SECONDS[0], "how late a packet is sent to a device");
    seconds(SECONDS[1], "from the end of speech to its transcript");
    seconds(SECONDS[4], "from the transcript, or the words, to the first sentence of the answer");
    seconds(SECONDS[5], "from the first sentence to its first sound, with its cushion");
    metrics::describe_histogram!(
        LANE_DEPTH,
        Unit::Count,
        "places of a lane in use, looked at each second (uplink) or at a turn's fullest (playback)"
    );
    seconds(SECONDS[2], "from the end of speech to the first packet of the answer");
}

// Providers: each service by its port and its place in the configuration.

/// The distribution of providers' times, in seconds.
pub const PROVIDER_SECONDS: &str = "hearken_provider_seconds";

const PROVIDER_REQUESTS: &str = "hearken_provider_requests_total";
const PROVIDER_IN_FLIGHT: &str = "hearken_provider_in_flight";
const PROVIDER_UP: &str = "hearken_provider_up";

/// How a request to a provider ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderEnd {
    /// With its whole answer.
    Answered,
    /// Nobody waits for it any more.
    Cancelled,
    /// By a failure of this kind.
    Failed(ProviderErrorKind),
}

impl ProviderEnd {
    const ALL: [Self; 11] = [
        Self::Answered,
        Self::Cancelled,
        Self::Failed(ProviderErrorKind::Unauthorized),
        Self::Failed(ProviderErrorKind::RateLimited),
        Self::Failed(ProviderErrorKind::BadRequest),
        Self::Failed(ProviderErrorKind::TooLarge),
        Self::Failed(ProviderErrorKind::NotServed),
        Self::Failed(ProviderErrorKind::Timeout),
        Self::Failed(ProviderErrorKind::Unavailable),
        Self::Failed(ProviderErrorKind::Fault),
        Self::Failed(ProviderErrorKind::Protocol),
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Answered => "ok",
            Self::Cancelled => "cancelled",
            Self::Failed(ProviderErrorKind::Unauthorized) => "unauthorized",
            Self::Failed(ProviderErrorKind::RateLimited) => "rate_limited",
            Self::Failed(ProviderErrorKind::BadRequest) => "bad_request",
            Self::Failed(ProviderErrorKind::TooLarge) => "too_large",
            Self::Failed(ProviderErrorKind::NotServed) => "not_served",
            Self::Failed(ProviderErrorKind::Timeout) => "timeout",
            Self::Failed(ProviderErrorKind::Unavailable) => "unavailable",
            Self::Failed(ProviderErrorKind::Fault) => "fault",
            Self::Failed(ProviderErrorKind::Protocol) => "protocol",
        }
    }
}

/// The handles of one service, made once.
pub struct ProviderMeters {
    ends: [(ProviderEnd, Counter); 11],
    seconds: Histogram,
    in_flight: Gauge,
    up: Gauge,
}

impl ProviderMeters {
    /// Of the service at this place of a port's (`asr`, `llm` or `tts`) list; it counts as up.
    pub fn new(port: &'static str, place: usize) -> Self {
        static DESCRIBED: std::sync::Once = std::sync::Once::new();
        DESCRIBED.call_once(describe_providers);
        let labels = [("port", port.to_owned()), ("backend", place.to_string())];
        let ends = ProviderEnd::ALL.map(|end| {
            let [port, backend] = labels.clone();
            (end, counter!(PROVIDER_REQUESTS, &[port, backend, ("end", end.label().to_owned())]))
        });
        let meters = Self {
            ends,
            seconds: histogram!(PROVIDER_SECONDS, &labels),
            in_flight: gauge!(PROVIDER_IN_FLIGHT, &labels),
            up: gauge!(PROVIDER_UP, &labels),
        };
        meters.up(true);
        meters
    }

    /// A request begins.
    pub fn begun(&self) {
        self.in_flight.increment(1);
    }

    /// It brought what one waits for: the transcript, the first words, the first audio.
    pub fn answered(&self, after: Duration) {
        self.seconds.record(after);
    }

    /// It ended.
    pub fn ended(&self, end: ProviderEnd) {
        self.in_flight.decrement(1);
        if let Some((_, counter)) = self.ends.iter().find(|(of, _)| *of == end) {
            counter.increment(1);
        }
    }

    /// Whether the service is thought to work.
    pub fn up(&self, up: bool) {
        self.up.set(if up { 1.0 } else { 0.0 });
    }
}

fn describe_providers() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!(
        PROVIDER_REQUESTS,
        Unit::Count,
        "utterances, prompts and sentences given to a service, by their end"
    );
    describe_histogram!(
        PROVIDER_SECONDS,
        Unit::Seconds,
        "from the end of an utterance to its transcript, to the first words, to the first audio"
    );
    describe_gauge!(PROVIDER_IN_FLIGHT, Unit::Count, "requests that a service works on");
    describe_gauge!(PROVIDER_UP, Unit::Count, "1 where a service works, 0 from a failure on");
}
