//! The 25 acceptance checks of the device wire: each is a test whose name begins with its number,
//! `check_01_` to `check_25_`, beside what it is about. Here are those that need the virtual
//! device's ears, and the proof that none is missing.

use std::path::Path;
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::{Down, Ring, Told, TtsAct, sound};
use hearken_proto::device::{AudioParams, ListenMode};
use hearken_virtual_device::clock::Drift;
use hearken_virtual_device::events::{Event, Fact};
use hearken_virtual_device::firmware::Firmware;
use hearken_virtual_device::packet_length;
use hearken_virtual_device::profile::{PROFILES, Profile};
use hearken_virtual_device::report::Report;
use hearken_virtual_device::virtual_device::VirtualDevice;

use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn every_check_has_its_test() {
    let mut found = String::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("tests"), root.join("actors/tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|x| x == "rs") {
                found += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let missing: Vec<u32> =
        (1..=25).filter(|n| !found.contains(&format!("fn check_{n:02}_"))).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}

/// What a server sends for a reply of this length, from its hello to a second after the end.
async fn reply_of(length: Duration, settings: PipelineSettings) -> Vec<Down> {
    let mut ring = Ring::greeted(settings, 1).await;
    ring.text(r#"{"type":"listen","state":"start","mode":"auto"}"#);
    ring.script.says(TtsAct::Audio { length, first: ms(120), each: ms(10) });
    ring.stream(sound::voice(1_020)).await;
    ring.stream(sound::silence(900)).await;
    ring.until("tts/stop").await;
    ring.pass(ms(1_000)).await;
    let log = std::mem::take(&mut ring.log);
    ring.hang_up().await;
    log
}

/// What a device of this firmware makes of it.
fn heard_on(profile: &Profile, log: &[Down]) -> Report {
    let firmware = Firmware::new(profile.clone(), ListenMode::Auto, 1, &AudioParams::default());
    let mut bench = VirtualDevice::new(firmware, Report::default(), Drift::ppm(0));
    bench.at(ms(0), Event::Button);
    bench.at(ms(0), Event::SocketOpen);
    for down in log {
        let event = match &down.what {
            Told::Text(json) => Event::Text(json.to_string()),
            Told::Audio(opus) => Event::Binary(opus.clone()),
            Told::Closed(_) | Told::Gone => Event::SocketClosed,
        };
        while let Some(due) = bench.due().filter(|due| *due < down.at) {
            bench.at(due, Event::Nothing);
        }
        bench.at(down.at, event);
    }
    bench.at(log.last().unwrap().at + ms(5_000), Event::Nothing);
    bench.into_watcher()
}

#[actix::test]
async fn check_12_no_packet_of_a_minute_is_lost_or_late_on_any_firmware() {
    tokio::time::pause();
    for packet in [ms(60), ms(20)] {
        let mut settings = PipelineSettings::default();
        settings.speaking.packet = packet;
        let log = reply_of(Duration::from_secs(60), settings).await;
        let count = 60_000 / usize::try_from(packet.as_millis()).unwrap();
        for profile in &PROFILES {
            let packets = heard_on(profile, &log).packets();
            let name = profile.name;
            assert_eq!(packets.played, count, "{name} at {packet:?}: {packets:?}");
            assert_eq!((packets.late, packets.cut), (0, 0), "{name} at {packet:?}");
            assert!(packets.lost.is_empty(), "{name} at {packet:?}: {packets:?}");
        }
        // A queue of three drops some: the check can fail.
        let tiny = Profile { decode_queue_packets: 1, ..Profile::default() };
        assert!(!heard_on(&tiny, &log).packets().lost.is_empty());
    }
}

#[actix::test]
async fn check_13_tts_stop_comes_when_all_has_been_played_and_soon_after() {
    tokio::time::pause();
    let log = reply_of(ms(4_700), PipelineSettings::default()).await;
    for profile in &PROFILES {
        let report = heard_on(profile, &log);
        let packets = report.packets();
        assert_eq!((packets.cut, packets.lost.len()), (0, 0), "{}: {packets:?}", profile.name);
        let (at, _, length) = report.heard().last().unwrap();
        let stop = report.messages("tts stop").next().unwrap().0;
        let after = stop.checked_sub(at + length);
        assert!(after.is_some_and(|t| t <= ms(300)), "{}: {after:?}", profile.name);
    }
    // Without a margin, and told at once, old firmware would lose the tail: the check can fail.
    let mut hasty = log;
    let stop = hasty.iter().position(|d| d.what.name() == "tts/stop").unwrap();
    hasty[stop].at -= ms(200);
    let oldest = heard_on(&PROFILES[0], &hasty).packets();
    assert!(oldest.cut + oldest.lost.len() > 0, "{oldest:?}");
}

/// The highest sample rate that an Opus packet's bandwidth needs (RFC 6716, section 3.1).
fn rate_of(opus: &[u8]) -> u32 {
    match opus[0] >> 3 {
        0..=3 | 16..=19 => 8_000,
        4..=7 => 12_000,
        8..=11 | 20..=23 => 16_000,
        12 | 13 | 24..=27 => 24_000,
        _ => 48_000,
    }
}

#[tokio::test]
async fn check_06_the_hello_says_what_is_really_sent() {
    let vendors = Vendors::start().await;
    for (rate_hz, packet_ms) in [(16_000, 20), (16_000, 60), (24_000, 40), (0, 60)] {
        let server = TestServer::start(&vendors, |config| {
            config.speaking.sample_rate_hz = rate_hz;
            config.speaking.packet = Duration::from_millis(packet_ms);
        })
        .await;
        let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
        person.say(&SPEECH).await;
        person.answer().await;
        let report = person.report();
        let hello = report.facts().find_map(|(at, fact)| match fact {
            Fact::Hello(audio) => Some((at, audio.clone())),
            _ => None,
        });
        let (at, audio) = hello.expect("a hello came");
        assert!(at < Duration::from_secs(1), "the hello took {at:?}");
        assert_eq!(u64::from(audio.frame_duration), packet_ms);
        assert_eq!(audio.sample_rate, if rate_hz == 0 { 24_000 } else { rate_hz });
        for (_, opus, _) in report.heard() {
            assert_eq!(packet_length(opus), Some(ms(packet_ms)));
            assert!(rate_of(opus) <= audio.sample_rate, "{} Hz", rate_of(opus));
        }
        drop(person);
        server.stop().await;
    }
}
