//! Messages from a device, and the socket's reactions. Not for messages to the device.

use std::fmt::Display;
use std::time::Duration;

use actix::dev::SendError;
use bytes::Bytes;
use hearken_audio::echo::SentPackets;
use hearken_base::memory_pool::Reserved;
use hearken_dialogue::TurnInput;
use hearken_dialogue::metrics::actor_metrics;
use hearken_dialogue::people::Speaker;
use hearken_ports::RecordedFrame;
use hearken_proto::device::{
    AudioParams, Downlink, Framing, Hello, ListenMode, ServerHello, Uplink,
};
use hearken_proto::fault::Fault;
use hearken_socket::SocketContext;
use tokio::time::Instant;

use super::state::{TextFrames, WakeWords};
use super::{DeviceActor, LANE_RESERVE};
use crate::messages::{DeviceToolMessage, UplinkItem};

/// Number of consecutive packets that may be dropped because the queue is full, before the
/// connection is closed.
const MAX_DROPPED_IN_A_ROW: u32 = 64;

/// Maximum number of text frames in each [`COUNTED_FOR`]. Firmware sends a few for each turn, and
/// some hundred with its tools when it connects.
const MAX_TEXT_FRAMES: u32 = 600;
const COUNTED_FOR: Duration = Duration::from_secs(10);

/// Maximum size of all text frames in each [`COUNTED_FOR`], in bytes. Firmware sends some 100 KiB
/// when it connects.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Maximum weight of a text frame, in bytes of memory when parsed: firmware's largest, a page of
/// its tools, weighs some ten times its 8 KiB.
const MAX_MESSAGE_WEIGHT: usize = 1 << 20;

/// Maximum number of wake words that are greeted in each [`GREETED_FOR`]. A further one only ends
/// the reply: greetings do not count in the rate of turns, and their entries in the journal would
/// push out those of turns.
const MAX_GREETINGS: u32 = 30;
const GREETED_FOR: Duration = Duration::from_mins(1);

/// The supported format of audio.
const OPUS: &str = "opus";

/// Reason of an abort by firmware that has detected its wake word.
const WAKE_WORD: &str = "wake_word_detected";

type Ctx = SocketContext<DeviceActor>;

impl DeviceActor {
    pub(super) fn text(&mut self, text: String, ctx: &mut Ctx) {
        if !self.count_text_frame(text.len()) {
            tracing::warn!(max = MAX_TEXT_FRAMES, max_bytes = MAX_TEXT_BYTES, within = ?COUNTED_FOR, "closing: the device sends too many text frames");
            return self.leave(Fault::RateLimited, ctx);
        }
        let (message, weight) = match Uplink::decode_within(&text, MAX_MESSAGE_WEIGHT) {
            Ok(message) => message,
            Err(error) => {
                return self.state.warnings.log(|left_out| {
                    tracing::warn!(%error, bytes = text.len(), left_out, "cannot read a text frame");
                });
            }
        };
        if let Some(sink) = &mut self.connection.sink {
            sink.frame(RecordedFrame::UpText(text));
        }
        match message {
            Uplink::Hello(hello) => self.hello(&hello, ctx),
            Uplink::ListenStart { mode } => self.listen_start(mode, ctx),
            Uplink::ListenStop => {
                self.state.microphone_open = false;
                self.order(UplinkItem::ListenStop, ctx);
            }
            Uplink::ListenDetect { text } => self.detect(text, ctx),
            Uplink::Abort { reason } => {
                tracing::debug!(reason, "abort");
                self.abort(reason.as_deref() == Some(WAKE_WORD), ctx);
            }
            Uplink::Goodbye => hearken_socket::close_normally(ctx),
            Uplink::Mcp { payload } => self.pass_weighed(payload, weight, DeviceToolMessage::Mcp),
            Uplink::Iot(report) => self.pass_weighed(report, weight, DeviceToolMessage::Iot),
            Uplink::Unknown { kind } => self.state.warnings.log(|left_out| {
                tracing::warn!(kind, left_out, "ignored a message of unknown type");
            }),
        }
    }

    /// Counts a text frame. Returns false after too many.
    fn count_text_frame(&mut self, bytes: usize) -> bool {
        let sent = &mut self.state.text_frames;
        if sent.since.elapsed() >= COUNTED_FOR {
            *sent = TextFrames::default();
        }
        sent.frames += 1;
        sent.bytes += bytes;
        sent.frames <= MAX_TEXT_FRAMES && sent.bytes <= MAX_TEXT_BYTES
    }

    fn hello(&mut self, hello: &Hello, ctx: &mut Ctx) {
        let AudioParams { format, .. } = &hello.audio_params;
        if !format.eq_ignore_ascii_case(OPUS) {
            // Each of its packets would be dropped, and its user would get no answer.
            tracing::warn!(format, "closing: the device sends audio in another format than Opus");
            return self.leave(Fault::BadRequest, ctx);
        }
        if let Some(version) = hello.version {
            self.connection.framing = Framing::from_version(version);
        }
        self.state.greeted = true;
        self.state.wants_partials = hello.features.partial_stt;
        if hello.features.plays_at_once {
            self.turns.plays_at_once();
        }
        self.state.last_voice = Instant::now();
        let speaking = &self.rules.speaking;
        let packet_ms = u32::try_from(speaking.packet.as_millis()).unwrap_or(60);
        let audio_params = AudioParams::opus(speaking.sample_rate_hz, packet_ms);
        tracing::info!(framing = ?self.connection.framing, uplink = ?hello.audio_params, "hello");
        self.send(&Downlink::Hello(ServerHello { audio_params, mcp: hello.features.mcp }), ctx);
        self.pass_to_host(DeviceToolMessage::Hello(hello.features));
        // Only this framing reports which packets were played. Decision 0064.
        let reports = self.connection.framing == Framing::V2;
        if hello.features.aec && reports && self.state.sent.is_none() {
            let sent = self.state.sent.insert(SentPackets::default()).clone();
            self.order(UplinkItem::CancelEcho(sent), ctx);
        }
    }

    /// Passes what the device reported about its tools to the host, within the device's memory
    /// limit.
    fn pass_weighed<T>(
        &self,
        reported: T,
        weight: usize,
        message: fn(Reserved<T>) -> DeviceToolMessage,
    ) {
        match self.memory.keep(reported, weight) {
            Ok(reported) => self.pass_to_host(message(reported)),
            Err(error) => self.dropped_tool_message(&error),
        }
    }

    /// Passes a message about the device's tools to the host, unless the device only receives a
    /// notice.
    fn pass_to_host(&self, said: DeviceToolMessage) {
        if self.connection.notice.is_some() {
            return;
        }
        let sent = self.links.as_ref().map(|w| w.said.try_send(said));
        if let Some(Err(error @ SendError::Full(_))) = sent {
            self.dropped_tool_message(&error);
        }
    }

    fn dropped_tool_message(&self, error: &dyn Display) {
        actor_metrics().drops.tools.increment(1);
        self.state.warnings.log(|left_out| {
            tracing::warn!(%error, left_out, "dropped a tool message of the device");
        });
    }

    fn listen_start(&mut self, mode: ListenMode, ctx: &mut Ctx) {
        let realtime = mode == ListenMode::Realtime;
        let was_realtime = self.state.mode.replace(mode) == Some(ListenMode::Realtime);
        let spoken_over = self.live.as_ref().is_some_and(|live| live.speaking);
        self.state.microphone_open = true;
        self.state.last_voice = Instant::now();
        if self.say_notice(mode == ListenMode::Manual) {
            return;
        }
        if mode == ListenMode::Manual {
            self.cut(ctx);
        }
        // In the other modes its microphone is closed while the server speaks.
        let guarded = realtime && self.rules.guards_echo;
        if guarded && self.state.sent.is_none() {
            let sent = self.state.sent.insert(SentPackets::default()).clone();
            self.order(UplinkItem::GuardEcho(sent), ctx);
        }
        self.order(UplinkItem::ListenStart(mode), ctx);
        if spoken_over && realtime != was_realtime {
            self.order(UplinkItem::Speaking(realtime), ctx);
        }
    }

    fn detect(&mut self, text: String, ctx: &mut Ctx) {
        if self.say_notice(true) {
            return;
        }
        let text = self.within_limit(text);
        self.cut(ctx);
        self.order(UplinkItem::Forget, ctx);
        let wake = text.trim().is_empty() || self.rules.device.is_wake_word(&text);
        if wake && !self.may_greet() {
            return;
        }
        let grace = self.rules.device.greeting_grace;
        let turn = self.turns.next();
        let input = if wake {
            TurnInput::Wake { word: text, grace }
        } else {
            turn.note_speaker(Speaker::of_typed_words());
            TurnInput::Words(text)
        };
        self.begin_turn(turn, input);
    }

    /// Counts a wake word. Returns false if it is not greeted.
    fn may_greet(&mut self) -> bool {
        let said = &mut self.state.wake_words;
        if said.since.elapsed() >= GREETED_FOR {
            *said = WakeWords::default();
        }
        said.count += 1;
        if said.count <= MAX_GREETINGS {
            return true;
        }
        self.state.warnings.log(|left_out| {
            tracing::warn!(max = MAX_GREETINGS, within = ?GREETED_FOR, left_out, "a wake word is not greeted: the device sends too many");
        });
        false
    }

    /// Truncates words as those of a recogniser are: these, too, fill the device, the model and the
    /// memory.
    fn within_limit(&self, mut text: String) -> String {
        let kept = hearken_ports::within_transcript(&text).len();
        if kept < text.len() {
            self.state.warnings.log(|left_out| {
                tracing::warn!(
                    bytes = text.len(),
                    kept,
                    left_out,
                    "truncated words that are too long"
                );
            });
            text.truncate(kept);
        }
        text
    }

    fn abort(&mut self, by_wake_word: bool, ctx: &mut Ctx) {
        // A notice that is cut could not be cached, and each request would be synthesised again.
        if self.connection.notice.is_some() && self.live.is_some() {
            return;
        }
        let stopped = self.cut(ctx);
        self.hold_messages();
        // After a wake word, the rest of the speech is the request.
        let forget = if by_wake_word { UplinkItem::Forget } else { UplinkItem::ForgetSpeech };
        self.order(forget, ctx);
        if !stopped {
            self.send(&Downlink::TtsStop, ctx);
        }
    }

    /// Sends a listening order, for which the queue reserves some slots.
    pub(super) fn order(&mut self, item: UplinkItem, ctx: &mut Ctx) {
        let forgets = matches!(item, UplinkItem::Forget | UplinkItem::ForgetSpeech);
        self.state.forgets += u64::from(forgets);
        // Orders travel among the packets: `listen stop` must not overtake the audio before it.
        // Decision 0009.
        let sent = self.links.as_ref().is_some_and(|w| w.uplink.try_send(item).is_ok());
        if !sent {
            tracing::warn!(
                "closing: the device sends listening orders faster than they are processed"
            );
            self.leave(Fault::Busy, ctx);
        }
    }

    pub(super) fn binary(&mut self, message: &Bytes, ctx: &mut Ctx) {
        let packet = match self.connection.framing.decode(message) {
            Ok(packet) => packet,
            Err(error) => {
                actor_metrics().uplink.malformed.increment(1);
                tracing::debug!(%error, bytes = message.len(), "cannot read an audio frame");
                return;
            }
        };
        if let Some(sink) = &mut self.connection.sink {
            sink.frame(RecordedFrame::UpAudio(packet.opus.clone()));
        }
        // In auto mode a device closes its microphone while the server speaks: audio that still
        // arrives is the server's own speech, or was already on its way.
        let deaf = self.state.mode != Some(ListenMode::Realtime)
            && self.live.as_ref().is_some_and(|l| l.speaking);
        if deaf || self.connection.notice.is_some() {
            actor_metrics().uplink.unwanted.increment(1);
            return;
        }
        let Some(links) = &self.links else { return };
        let room = links.uplink.capacity() > LANE_RESERVE;
        let item = UplinkItem::Packet { opus: packet.opus, played: packet.timestamp_ms };
        if room && links.uplink.try_send(item).is_ok() {
            self.state.dropped_in_a_row = 0;
            return;
        }
        actor_metrics().uplink.dropped.increment(1);
        self.state.dropped_in_a_row += 1;
        if self.state.dropped_in_a_row > MAX_DROPPED_IN_A_ROW {
            tracing::warn!("closing: the device sends audio faster than it is processed");
            self.leave(Fault::Busy, ctx);
        }
    }
}
