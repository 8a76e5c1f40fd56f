//! The table of firmware rules, each as a test in virtual time. Not for sockets.

mod versions;

use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::{AudioParams, ListenMode};

use crate::firmware::{
    CHANNEL_IDLE, DeviceState, Event, Fact, Firmware, HELLO_TIMEOUT, Loss, Output,
};
use crate::profile::{Build, Profile};

pub(crate) const HELLO: &str = r#"{"type":"hello","transport":"websocket","session_id":"s",
    "audio_params":{"format":"opus","sample_rate":24000,"channels":1,"frame_duration":60}}"#;
pub(crate) const START: &str = r#"{"type":"tts","state":"start"}"#;
pub(crate) const STOP: &str = r#"{"type":"tts","state":"stop"}"#;

/// A device under test, with all its outputs.
pub(crate) struct Bench {
    pub(crate) device: Firmware,
    pub(crate) out: Vec<Output>,
}

impl Bench {
    pub(crate) fn new(profile: &str, mode: ListenMode) -> Self {
        Self::built(profile, mode, 1, Build::default())
    }

    pub(crate) fn built(profile: &str, mode: ListenMode, framing: u32, build: Build) -> Self {
        let profile = Profile::named(profile).unwrap();
        let device = Firmware::built(profile, build, mode, framing, &AudioParams::default());
        Self { device, out: Vec::new() }
    }

    /// A device that has connected and listens, at time zero.
    pub(crate) fn listening(profile: &str, mode: ListenMode) -> Self {
        Self::new(profile, mode).connected()
    }

    /// The same device, connected and listening, at time zero.
    pub(crate) fn connected(self) -> Self {
        let mut bench = self;
        let begin = match bench.device.mode() {
            ListenMode::Manual => Event::TalkPressed,
            _ => Event::Wake { word: None },
        };
        bench.at(0, begin).at(0, Event::SocketOpen).at(0, Event::Text(HELLO.into()));
        assert_eq!(bench.device.state(), DeviceState::Listening);
        bench.out.clear();
        bench
    }

    pub(crate) fn at(&mut self, ms: u64, event: Event) -> &mut Self {
        self.out.extend(self.device.step(Duration::from_millis(ms), event));
        self
    }

    pub(crate) fn text(&mut self, ms: u64, text: &str) -> &mut Self {
        self.at(ms, Event::Text(text.into()))
    }

    /// A packet of 60 ms.
    pub(crate) fn packet(&mut self, ms: u64) -> &mut Self {
        self.at(ms, Event::Binary(Bytes::from_static(&[3 << 3, 1, 2])))
    }

    pub(crate) fn facts(&self) -> impl Iterator<Item = (u64, &Fact)> {
        self.out.iter().filter_map(|o| match o {
            Output::Note(note) => Some((note.at.as_millis() as u64, &note.fact)),
            _ => None,
        })
    }

    pub(crate) fn lost(&self, wanted: Loss) -> usize {
        self.facts().filter(|(_, fact)| **fact == Fact::PacketLost(wanted)).count()
    }

    pub(crate) fn played_at(&self) -> Vec<u64> {
        let played = |fact: &Fact| matches!(fact, Fact::PacketPlayed { .. });
        self.facts().filter(|(_, fact)| played(fact)).map(|(at, _)| at).collect()
    }

    pub(crate) fn sent(&self) -> Vec<String> {
        let text = |v: &serde_json::Value| {
            ["type", "state", "mode", "reason", "text"]
                .iter()
                .filter_map(|f| v.get(f).and_then(|v| v.as_str()))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let sent = self.out.iter().filter_map(|o| match o {
            Output::Text(json) => {
                Some(serde_json::from_str(json).map_or_else(|_| json.clone(), |json| text(&json)))
            }
            _ => None,
        });
        sent.collect()
    }
}

#[test]
fn a_wake_word_sends_hello_then_detect_then_listen() {
    let mut bench = Bench::new("2.4.2", ListenMode::Auto);
    bench.at(0, Event::Wake { word: Some("小智".into()) });
    assert_eq!(bench.out.last(), Some(&Output::Connect));
    bench.at(5, Event::SocketOpen).text(9, HELLO);
    assert_eq!(bench.sent(), ["hello", "listen detect 小智", "listen start auto"]);
    let Some(Output::Text(last)) = bench.out.iter().rev().find(|o| matches!(o, Output::Text(_)))
    else {
        panic!("nothing sent")
    };
    assert!(last.contains(r#""session_id":"s""#), "the server's session id is copied: {last}");
}

#[test]
fn a_missing_server_hello_times_out() {
    let mut bench = Bench::new("2.4.2", ListenMode::Auto);
    bench.at(0, Event::Button).at(0, Event::SocketOpen);
    bench.at(9_999, Event::Nothing);
    assert_eq!(bench.device.state(), DeviceState::Connecting);
    bench.at(HELLO_TIMEOUT.as_millis() as u64, Event::Nothing);
    assert_eq!(bench.device.state(), DeviceState::Idle);
    assert!(bench.out.contains(&Output::Disconnect));
}

#[test]
fn a_hello_of_another_transport_is_ignored_and_one_without_crashes() {
    let mut bench = Bench::new("2.4.2", ListenMode::Auto);
    bench.at(0, Event::Button).at(0, Event::SocketOpen);
    bench.text(1, r#"{"type":"hello","transport":"udp"}"#);
    assert_eq!(bench.device.state(), DeviceState::Connecting);
    bench.text(2, r#"{"type":"hello"}"#);
    assert_eq!(bench.device.state(), DeviceState::Idle);
    assert!(bench.out.contains(&Output::Disconnect));
}

#[test]
fn audio_is_accepted_only_while_speaking() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    bench.packet(10);
    assert_eq!(bench.lost(Loss::NotSpeaking), 1);
    bench.text(20, START).packet(40).text(200, STOP).packet(300);
    assert_eq!(bench.lost(Loss::NotSpeaking), 2);
    assert_eq!(bench.played_at(), [40]);
}

#[test]
fn a_packet_in_the_same_instant_as_tts_start_is_lost() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    bench.text(0, START).packet(0).packet(1).packet(20).at(500, Event::Nothing);
    assert_eq!(bench.lost(Loss::ClearedAtStart), 1, "the queued one");
    assert!(bench.facts().any(|(at, f)| at == 10 && matches!(f, Fact::PacketCut { .. })));
    assert_eq!(bench.played_at(), [0, 20]);
}

#[test]
fn a_full_decode_queue_drops_packets_silently() {
    for (profile, queue) in [("1.6.0", 5), ("1.6.2", 10), ("2.4.2", 40), ("newest", 20)] {
        let mut bench = Bench::listening(profile, ListenMode::Auto);
        bench.text(0, START);
        // One plays, the queue is full, three are too many.
        for _ in 0..queue + 4 {
            bench.packet(20);
        }
        assert_eq!(bench.lost(Loss::QueueFull), 3, "{profile}");
        bench.at(60_000, Event::Nothing);
        assert_eq!(bench.played_at().len(), queue + 1, "{profile}");
    }
}

#[test]
fn playback_runs_at_its_own_rate_and_gaps_are_reported() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    bench.text(0, START).packet(20).packet(30).packet(230).at(1_000, Event::Nothing);
    assert_eq!(bench.played_at(), [20, 80, 230]);
    let gaps: Vec<_> = bench.facts().filter(|(_, f)| matches!(f, Fact::Gap { .. })).collect();
    assert_eq!(gaps, [(230, &Fact::Gap { length: Duration::from_millis(90) })]);
}

#[test]
fn a_packet_longer_than_announced_is_not_decoded() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    let two_of_60_ms = Bytes::from_static(&[(3 << 3) | 1, 0]);
    bench.text(0, START).at(20, Event::Binary(two_of_60_ms));
    assert_eq!(bench.lost(Loss::TooLong), 1);
}

#[test]
fn tts_stop_cuts_the_tail_of_old_firmware_only() {
    for (profile, cut, listens_at) in [("2.0.0", 2, 100), ("2.4.2", 0, 200)] {
        let mut bench = Bench::listening(profile, ListenMode::Auto);
        bench.text(0, START).packet(20).packet(20).packet(20).packet(20).text(100, STOP);
        bench.at(200, Event::Nothing).at(260, Event::Nothing);
        let told = bench.lost(Loss::TailCut);
        assert_eq!(told, cut, "{profile}");
        assert_eq!(bench.sent(), ["listen start auto"], "{profile}");
        let at = bench.facts().find(|(_, f)| **f == Fact::MicrophoneOpen).map(|(at, _)| at);
        assert_eq!(at, Some(if cut == 0 { 260 } else { listens_at }), "{profile}");
    }
}

#[test]
fn the_microphone_is_closed_while_speaking_except_in_realtime() {
    let hears = |mode| {
        let mut bench = Bench::listening("2.4.2", mode);
        bench.text(0, START).at(50, Event::Microphone(Bytes::from_static(b"x")));
        bench.out.iter().any(|o| matches!(o, Output::Binary(_)))
    };
    assert!(!hears(ListenMode::Auto));
    assert!(!hears(ListenMode::Manual));
    assert!(hears(ListenMode::Realtime));
}

#[test]
fn realtime_mode_keeps_listening_without_a_message() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Realtime);
    bench.text(0, START).packet(20).packet(30).text(40, STOP).at(500, Event::Nothing);
    assert_eq!(bench.device.state(), DeviceState::Listening);
    assert_eq!(bench.sent(), Vec::<String>::new());
    assert_eq!(bench.played_at(), [20, 80], "playback continues");
}

#[test]
fn push_to_talk_ends_in_idle_and_the_reply_plays_there() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Manual);
    bench.at(900, Event::TalkReleased);
    assert_eq!(bench.device.state(), DeviceState::Idle);
    bench.text(1_000, START);
    assert_eq!(bench.device.state(), DeviceState::Speaking);
    bench.packet(1_020).text(1_200, STOP);
    assert_eq!(bench.device.state(), DeviceState::Idle);
    bench.at(2_000, Event::TalkPressed);
    assert_eq!(bench.sent(), ["listen stop", "listen start manual"], "over the same socket");
}

#[test]
fn the_button_interrupts_but_speaking_lasts_until_tts_stop() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    bench.text(0, START).packet(20).at(30, Event::Button);
    assert_eq!(bench.sent(), ["abort"]);
    assert_eq!(bench.device.state(), DeviceState::Speaking);
    bench.text(100, STOP);
    assert_eq!(bench.device.state(), DeviceState::Listening);
    bench.at(200, Event::Button);
    assert_eq!(bench.device.state(), DeviceState::Idle, "a button while listening disconnects");
    assert!(bench.out.contains(&Output::Disconnect));
}

#[test]
fn a_wake_word_while_speaking_interrupts_by_version() {
    let both = &["abort wake_word_detected", "listen start auto"][..];
    // Messages sent at once, messages until 500 ms, and number of discarded packets out of two.
    for (profile, at_once, later, lost) in [
        ("1.7.6", &both[..1], &both[..1], 1),
        ("2.2.2", &both[..1], &both[..1], 0),
        ("2.4.2", &both[..1], both, 0),
    ] {
        let mut bench = Bench::listening(profile, ListenMode::Auto);
        let word = Some("小智".into());
        bench.text(0, START).packet(20).packet(20).at(30, Event::Wake { word });
        assert_eq!(bench.sent(), at_once, "{profile}");
        bench.at(500, Event::Nothing);
        assert_eq!(bench.sent(), later, "{profile}: old firmware waits for tts stop");
        assert_eq!(bench.lost(Loss::Interrupted), lost, "{profile}");
        bench.text(600, STOP);
        assert_eq!(bench.sent(), both, "{profile}");
    }
    // In realtime mode the rest is discarded, and further messages of the old turn switch the
    // device back to speaking.
    let mut bench = Bench::listening("2.4.2", ListenMode::Realtime);
    bench.text(0, START).packet(20).packet(20).at(30, Event::Wake { word: None });
    assert_eq!(bench.sent(), ["abort wake_word_detected", "listen start realtime"]);
    assert!(bench.device.microphone_open());
    bench.packet(40);
    assert_eq!((bench.lost(Loss::Interrupted), bench.lost(Loss::NotSpeaking)), (1, 1));
    bench.text(50, START);
    assert_eq!(bench.device.state(), DeviceState::Speaking);
}

#[test]
fn tts_without_state_crashes_old_firmware_only() {
    for (profile, state) in [("2.3.0", DeviceState::Idle), ("2.4.2", DeviceState::Listening)] {
        let mut bench = Bench::listening(profile, ListenMode::Auto);
        bench.text(0, r#"{"type":"tts"}"#);
        assert_eq!(bench.device.state(), state, "{profile}");
    }
}

#[test]
fn tts_start_while_connecting_and_garbage_are_ignored() {
    let mut bench = Bench::new("2.4.2", ListenMode::Auto);
    bench.at(0, Event::Button).at(0, Event::SocketOpen).text(1, START).text(2, "{").text(3, "[]");
    assert_eq!(bench.device.state(), DeviceState::Connecting);
    let offences = bench.facts().filter(|(_, f)| matches!(f, Fact::Offence(_))).count();
    assert_eq!(offences, 3);
}

#[test]
fn a_closed_socket_ends_in_idle_and_is_not_reopened_by_itself() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    bench.text(0, START).packet(20).packet(20).at(30, Event::SocketClosed);
    assert_eq!(bench.device.state(), DeviceState::Idle);
    assert_eq!(bench.lost(Loss::SocketClosed), 1);
    assert!(!bench.out.contains(&Output::Connect));
    bench.at(100, Event::Button);
    assert!(bench.out.contains(&Output::Connect));
}

#[test]
fn a_socket_silent_for_two_minutes_counts_as_closed_at_the_next_wake() {
    let idle = CHANNEL_IDLE.as_millis() as u64;
    for (after, reconnects) in [(idle, false), (idle + 1, true)] {
        let mut bench = Bench::listening("2.4.2", ListenMode::Manual);
        bench.at(0, Event::TalkReleased).at(after, Event::TalkPressed);
        assert_eq!(bench.out.contains(&Output::Connect), reconnects, "{after}");
    }
}
