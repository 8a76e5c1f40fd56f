//! Differences between firmware versions and rules of sending, each as a test in virtual time; and
//! invariants for any series of events. Not for sockets.

use bytes::Bytes;
use hearken_proto::device::{AudioPacket, Framing, ListenMode};
use proptest::prelude::*;

use crate::events::{DeviceState, Event, Fact, Loss, Output};
use crate::firmware::tests::{Bench, HELLO, START, STOP};
use crate::firmware::{PRE_WAKE_PACKETS, REBOOT};
use crate::profile::{Build, PROFILES, Tools};
use crate::toolbox::Toolbox;

fn heard(n: u8) -> Event {
    Event::Microphone(Bytes::from(vec![n]))
}

impl Bench {
    fn packets_sent(&self) -> Vec<Bytes> {
        let packets = self.out.iter().filter_map(|o| match o {
            Output::Binary(frame) => Some(frame.clone()),
            _ => None,
        });
        packets.collect()
    }

    fn count(&self, wanted: &Fact) -> usize {
        self.facts().filter(|(_, fact)| *fact == wanted).count()
    }
}

#[test]
fn audio_from_before_the_wake_word_is_sent_first() {
    let mut bench = Bench::new("2.4.2", ListenMode::Auto);
    for n in 0..100 {
        bench.at(u64::from(n) * 60, heard(n));
    }
    bench.at(6_000, Event::Wake { word: Some("say \"小智\"".into()) }).at(6_001, Event::SocketOpen);
    assert_eq!(bench.packets_sent().len(), 0, "not before the hello");
    bench.out.clear();
    bench.text(6_010, HELLO);
    let sent = bench.packets_sent();
    assert_eq!(sent.len(), PRE_WAKE_PACKETS);
    assert_eq!((sent[0][0], sent[32][0]), (67, 99), "the last ones, in order");
    let first_text = bench.out.iter().position(|o| matches!(o, Output::Text(_))).unwrap();
    let last_packet = bench.out.iter().rposition(|o| matches!(o, Output::Binary(_))).unwrap();
    assert!(last_packet < first_text);
    // The quotes of the wake word break the JSON.
    let broken = r#"{"session_id":"s","type":"listen","state":"detect","text":"say "小智""}"#;
    assert_eq!(bench.sent(), [broken, "listen start auto"]);
}

#[test]
fn a_button_or_a_build_without_wake_word_audio_only_listens() {
    for event in [Event::Wake { word: None }, Event::Button] {
        let mut bench = Bench::new("2.4.2", ListenMode::Auto);
        bench.at(0, heard(1)).at(60, event).at(70, Event::SocketOpen).text(80, HELLO);
        assert_eq!(bench.sent(), ["hello", "listen start auto"]);
        assert_eq!(bench.packets_sent().len(), 0);
    }
}

#[test]
fn a_second_wake_in_idle_differs_by_version() {
    let both = &["listen detect x", "listen start manual"][..];
    for (profile, sends, connects, lost) in [
        ("1.6.6", &[][..], true, 0),
        ("1.7.6", both, false, 0),
        ("2.1.0", both, false, 0),
        ("2.2.2", &[][..], false, 1),
        ("2.3.0", &[][..], false, 1),
        ("2.4.2", both, false, 0),
    ] {
        let mut bench = Bench::listening(profile, ListenMode::Manual);
        bench.at(10, Event::TalkReleased);
        bench.out.clear();
        bench.at(20, Event::Wake { word: Some("x".into()) });
        let sent = bench.sent();
        // Old firmware reports the states of its things first.
        let sent: Vec<_> = sent.iter().filter(|s| *s != "iot").collect();
        assert_eq!(sent, sends, "{profile}");
        assert_eq!(bench.out.contains(&Output::Connect), connects, "{profile}");
        assert_eq!(bench.count(&Fact::WakeLost), lost, "{profile}");
    }
}

#[test]
fn an_interruption_stops_playback_of_old_firmware_at_once() {
    for (profile, lost, plays_on) in [("1.7.6", 2, false), ("1.8.0", 0, true)] {
        let mut bench = Bench::listening(profile, ListenMode::Auto);
        bench.text(0, START).packet(20).packet(20).at(40, Event::Button).packet(60);
        assert_eq!(bench.lost(Loss::Interrupted), lost, "{profile}");
        bench.at(85, Event::Nothing);
        assert_eq!(bench.played_at().len() == 2, plays_on, "{profile}");
        bench.text(90, STOP).text(100, START).packet(120);
        assert_eq!(bench.played_at().last(), Some(&120), "{profile}: the next reply is played");
    }
}

#[test]
fn audio_outside_speaking_is_played_in_idle_up_to_1_6_6() {
    for (profile, plays) in [("1.6.6", true), ("1.7.6", false), ("2.4.2", false)] {
        let mut bench = Bench::listening(profile, ListenMode::Manual);
        bench.packet(10);
        assert_eq!(bench.lost(Loss::NotSpeaking), 1, "{profile}: never while listening");
        bench.at(20, Event::TalkReleased).packet(30);
        assert_eq!(bench.played_at() == [30], plays, "{profile}");
    }
}

#[test]
fn realtime_discards_the_tail_up_to_1_6_6_and_manual_never() {
    for (profile, cut) in [("1.6.6", 1), ("1.7.6", 0), ("2.0.0", 0), ("2.4.2", 0)] {
        let mut bench = Bench::listening(profile, ListenMode::Realtime);
        bench.text(0, START).packet(20).packet(20).text(40, STOP);
        assert_eq!(bench.lost(Loss::TailCut), cut, "{profile}");
        let mut bench = Bench::listening(profile, ListenMode::Manual);
        bench.at(0, Event::TalkReleased).text(5, START).packet(20).packet(20).text(40, STOP);
        bench.at(200, Event::Nothing);
        assert_eq!(bench.played_at(), [20, 80], "{profile}");
    }
}

#[test]
fn wake_words_while_listening_work_from_2_2_4_on_if_built_in() {
    for (profile, wakes, sends) in
        [("2.2.2", true, 0), ("2.2.6", true, 2), ("2.4.2", true, 2), ("2.4.2", false, 0)]
    {
        let build = Build { wakes_while_listening: wakes, ..Build::default() };
        let mut bench = Bench::built(profile, ListenMode::Auto, 1, build).connected();
        bench.at(10, Event::Wake { word: Some("x".into()) });
        assert_eq!(bench.sent().len(), sends, "{profile}: {:?}", bench.sent());
    }
}

#[test]
fn a_full_send_queue_drops_the_oldest_or_newest_packets() {
    for (profile, first, last) in [("2.4.2", 10, 49), ("2.3.0", 0, 39)] {
        let mut bench = Bench::listening(profile, ListenMode::Auto);
        bench.at(0, Event::SocketBlocked);
        for n in 0..50 {
            bench.at(u64::from(n) * 60, heard(n));
        }
        assert_eq!(bench.packets_sent().len(), 0);
        assert_eq!(bench.count(&Fact::UplinkDropped), 10, "{profile}");
        bench.at(3_000, Event::SocketReady);
        let sent = bench.packets_sent();
        assert_eq!((sent.len(), sent[0][0], sent[39][0]), (40, first, last), "{profile}");
        bench.at(3_060, heard(99));
        assert_eq!(bench.packets_sent().len(), 41, "{profile}");
    }
}

#[test]
fn packets_queued_for_a_lost_socket_are_dropped() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    bench.at(0, Event::SocketBlocked).at(10, heard(1)).at(20, Event::SocketClosed);
    bench.at(30, Event::Button).at(40, Event::SocketOpen);
    assert_eq!(bench.packets_sent().len(), 0);
    assert_eq!(bench.sent(), ["hello"]);
}

#[test]
fn a_reboot_drops_the_socket_and_lasts_its_time() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    bench.text(0, r#"{"type":"system","command":"reboot"}"#);
    assert!(bench.out.contains(&Output::Disconnect));
    assert_eq!(bench.device.state(), DeviceState::Idle);
    bench.at(10, Event::Button);
    assert!(!bench.out.contains(&Output::Connect), "unresponsive while it restarts");
    bench.at(REBOOT.as_millis() as u64, Event::Button).at(5_001, Event::SocketOpen);
    bench.text(5_002, r#"{"type":"hello","transport":"websocket"}"#);
    let Some(Output::Text(last)) = bench.out.iter().rfind(|o| matches!(o, Output::Text(_))) else {
        panic!("no message")
    };
    assert!(last.starts_with(r#"{"session_id":"","#), "the old session is forgotten: {last}");
}

#[test]
fn messages_that_confuse_firmware_are_reported() {
    let offences = |profile: &str, text: &str| {
        let mut bench = Bench::listening(profile, ListenMode::Auto);
        bench.text(10, text);
        bench.facts().filter(|(_, f)| matches!(f, Fact::Offence(_))).count()
    };
    let long = format!(r#"{{"type":"stt","text":"{}"}}"#, "a".repeat(64 * 1_024));
    for (profile, text, told) in [
        ("2.4.2", r#"{"type":"alert","status":"a","message":"b","emotion":"sad"}"#, 0),
        ("2.4.2", r#"{"type":"alert","status":"a","message":"b"}"#, 1),
        ("1.5.5", r#"{"type":"alert","status":"a"}"#, 0),
        ("2.4.2", r#"{"type":"system","command":"dance"}"#, 1),
        ("2.4.2", r#"{"type":"custom","payload":{"a":1}}"#, 0),
        ("2.4.2", r#"{"type":"custom","payload":"a"}"#, 1),
        ("1.7.6", r#"{"type":"custom","payload":"a"}"#, 0),
        ("2.4.2", r#"{"type":"goodbye"}"#, 1),
        ("2.4.2", r#"{"type":"mcp","payload":3}"#, 1),
        ("1.7.6", r#"{"type":"mcp","payload":{}}"#, 1),
        ("2.4.2", r#"{"type":"iot","commands":[{}]}"#, 1),
        ("2.4.2", r#"{"type":"stt","text":"a","glyph_push":{"v":1,"glyphs":[]}}"#, 0),
        ("2.4.2", r#"{"text":"a"}"#, 1),
        ("2.4.2", &long, 1),
    ] {
        assert_eq!(offences(profile, text), told, "{profile} {text:.80}");
    }
}

#[test]
fn a_second_hello_changes_audio_parameters_and_session() {
    let mut bench = Bench::listening("2.4.2", ListenMode::Auto);
    bench.text(0, START);
    let two_of_60_ms = Bytes::from_static(&[(3 << 3) | 1, 0]);
    bench.at(20, Event::Binary(two_of_60_ms.clone()));
    assert_eq!(bench.lost(Loss::TooLong), 1);
    bench.text(
        30,
        r#"{"type":"hello","transport":"websocket","session_id":"t",
            "audio_params":{"sample_rate":16000,"frame_duration":120}}"#,
    );
    assert_eq!(bench.device.state(), DeviceState::Speaking, "nothing restarts");
    bench.at(40, Event::Binary(two_of_60_ms));
    assert_eq!(bench.played_at(), [40]);
    bench.at(50, Event::Button);
    let Some(Output::Text(abort)) = bench
        .out
        .last()
        .filter(|o| matches!(o, Output::Text(_)))
        .or_else(|| bench.out.iter().rfind(|o| matches!(o, Output::Text(_))))
    else {
        panic!("no abort")
    };
    assert!(abort.contains(r#""session_id":"t""#), "{abort}");
}

#[test]
fn framing_and_session_id_depend_on_the_version() {
    for (profile, wanted, framing, session) in [
        ("1.6.0", 3, Framing::V1, ""),
        ("1.6.2", 3, Framing::V3, ""),
        ("1.6.6", 2, Framing::V2, "s"),
    ] {
        let build = Build::default();
        let mut bench = Bench::built(profile, ListenMode::Auto, wanted, build).connected();
        assert_eq!(bench.device.framing(), framing, "{profile}");
        bench.at(0, Event::Microphone(Bytes::from_static(b"abc")));
        let packet = AudioPacket { opus: Bytes::from_static(b"abc"), timestamp_ms: 0 };
        assert_eq!(bench.packets_sent(), [framing.encode(&packet)], "{profile}");
        bench.text(10, START).at(20, Event::Button);
        let abort = format!(r#"{{"session_id":"{session}","type":"abort"}}"#);
        assert!(bench.out.contains(&Output::Text(abort)), "{profile}");
    }
}

#[test]
fn with_server_aec_packets_have_the_timestamp_of_played_audio() {
    let build = Build { server_aec: true, ..Build::default() };
    let mut bench = Bench::built("2.4.2", ListenMode::Realtime, 2, build).connected();
    let down = |timestamp_ms| {
        let opus = Bytes::from_static(&[3 << 3, 1]);
        Event::Binary(Framing::V2.encode(&AudioPacket { opus, timestamp_ms }))
    };
    bench.text(0, START);
    for n in 1..=6 {
        bench.at(20, down(n * 60));
    }
    // The packets end at 80, 140, ... ms.
    for at in [70, 90, 91, 150, 400, 401, 402] {
        bench.at(at, heard(0));
    }
    let stamps = bench
        .packets_sent()
        .into_iter()
        .map(|frame| Framing::V2.decode(&frame).unwrap().timestamp_ms);
    // At 400 ms four packets were played since: too many, so the oldest timestamp is dropped unsent.
    assert_eq!(stamps.collect::<Vec<_>>(), [0, 60, 0, 120, 0, 240, 300]);
}

#[test]
fn a_header_with_a_wrong_length_is_an_offence() {
    let build = Build::default();
    let mut bench = Bench::built("2.4.2", ListenMode::Auto, 3, build).connected();
    bench.text(0, START);
    // Announces nine bytes and contains one.
    bench.at(20, Event::Binary(Bytes::from_static(&[0, 0, 0, 9, 24])));
    assert_eq!(bench.lost(Loss::Malformed), 1);
    assert!(bench.facts().any(|(_, f)| matches!(f, Fact::Offence(_))));
}

/// Any event, and the time since the previous one.
fn events() -> impl Strategy<Value = (u64, Event)> {
    let text = prop_oneof![
        Just(HELLO.to_owned()),
        Just(START.to_owned()),
        Just(STOP.to_owned()),
        Just(r#"{"type":"tts"}"#.to_owned()),
        Just(r#"{"type":"system","command":"reboot"}"#.to_owned()),
        Just(r#"{"type":"iot","commands":[{"name":"Lamp","method":"turn_on"},{}]}"#.to_owned()),
        (any::<i32>(), "[a-z/]{0,12}").prop_map(|(id, method)| format!(
            r#"{{"type":"mcp","payload":{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}}}"#
        )),
        Just(
            r#"{"type":"mcp","payload":{"jsonrpc":"2.0","id":1,"method":"tools/call",
                "params":{"name":"self.camera.take_photo","arguments":{"question":"?"}}}}"#
                .to_owned()
        ),
        ".{0,40}",
    ];
    let event = prop_oneof![
        1 => Just(Event::Wake { word: Some("小智".into()) }),
        1 => Just(Event::Wake { word: None }),
        1 => Just(Event::Button),
        1 => Just(Event::TalkPressed),
        1 => Just(Event::TalkReleased),
        1 => Just(Event::SocketOpen),
        1 => Just(Event::SocketClosed),
        1 => Just(Event::SocketBlocked),
        1 => Just(Event::SocketReady),
        1 => Just(Event::Uploaded(Ok("a cat".into()))),
        1 => Just(Event::Nothing),
        1 => any::<Vec<u8>>().prop_map(|b| Event::Microphone(b.into())),
        8 => Just(Event::Binary(Bytes::from_static(&[3 << 3, 1]))),
        1 => any::<Vec<u8>>().prop_map(|b| Event::Binary(b.into())),
        8 => text.prop_map(Event::Text),
    ];
    (prop_oneof![Just(0), 0_u64..200, 0_u64..200_000], event)
}

proptest! {
    #[test]
    fn every_packet_is_accounted_for_in_any_series_of_events(
        profile in 0..PROFILES.len(),
        mode in prop_oneof![
            Just(ListenMode::Auto), Just(ListenMode::Manual), Just(ListenMode::Realtime)
        ],
        framing in 1_u32..=3,
        tools in prop_oneof![Just(None), Just(Some(Tools::Iot)), Just(Some(Tools::Mcp))],
        events in proptest::collection::vec(events(), 0..120),
    ) {
        let build = Build { tools, server_aec: framing == 2, ..Build::default() };
        let mut bench = Bench::built(PROFILES[profile].name, mode, framing, build);
        bench.device = bench.device.with_tools(Toolbox { generated: 3, ..Toolbox::default() });
        let mut now = 0;
        for (after, event) in events {
            now += after;
            bench.at(now, event);
            let due = bench.device.due();
            prop_assert!(due.is_none_or(|at| at.as_millis() as u64 >= now), "{due:?} at {now}");
        }
        let played = bench.played_at().len();
        let lost = bench.facts().filter(|(_, f)| matches!(f, Fact::PacketLost(_))).count();
        let received = bench.count(&Fact::PacketReceived);
        prop_assert_eq!(received, played + lost + bench.device.waiting());
    }
}
