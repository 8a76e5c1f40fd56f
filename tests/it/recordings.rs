//! Recordings: conversion, and replay over a real socket against a small scripted server. Not for
//! the real server, nor for the behaviour of firmware.

mod scripted;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use hearken::commands::convert::{self, ConvertArgs};
use hearken::commands::replay::{self, ReplayArgs};
use hearken_proto::recording::{Content, Expect, Frame, Recording};
use hearken_virtual_device::Expectations;
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::sound::{self, Side, Sound};

use self::scripted::{Server, recogniser};

#[derive(Parser)]
struct Convert {
    #[command(flatten)]
    args: ConvertArgs,
}

#[derive(Parser)]
struct Replay {
    #[command(flatten)]
    args: ReplayArgs,
}

async fn convert(from: &Path, to: &Path, flags: &[&str]) {
    let paths = [from.to_str().unwrap(), to.to_str().unwrap()];
    let line = ["convert"].iter().chain(&paths).chain(flags);
    let code = convert::run(Convert::parse_from(line).args).await.unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
}

/// Replays at high speed, so that a test takes little longer than the reply.
async fn replay(file: &Path, url: &str, flags: &[&str]) -> ExitCode {
    let line = ["replay", file.to_str().unwrap(), "--url", url, "--speed", "20"];
    replay::run(Replay::parse_from(line.iter().chain(flags)).args).await.unwrap()
}

fn fixtures() -> Vec<PathBuf> {
    let folder = hearken_test_support::repository().join("fixtures/audio");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

fn fixture(name: &str) -> PathBuf {
    fixtures().into_iter().find(|p| p.file_stem().is_some_and(|s| s == name)).unwrap()
}

fn parse(path: &Path) -> Recording {
    Recording::parse(&fs::read_to_string(path).unwrap())
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[tokio::test]
async fn speech_survives_every_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    convert(&fixture("en_amiable"), &at("a.wav"), &[]).await;
    convert(&at("a.wav"), &at("b.jsonl"), &["--language", "en", "--licence", "BSD"]).await;
    convert(&at("b.jsonl"), &at("c.ogg"), &[]).await;
    convert(&at("c.ogg"), &at("d.jsonl"), &["--transcript", "hi", "--max-error", "0.5"]).await;
    convert(&at("d.jsonl"), &at("e.wav"), &[]).await;

    let before = parse(&at("b.jsonl"));
    let after = parse(&at("d.jsonl"));
    assert_eq!(after.frames, before.frames);
    assert_eq!(after.header.licence.as_deref(), Some("BSD"));
    let ends = [&before, &after].map(|r| r.header.speech_end_s.unwrap());
    assert!((ends[0] - ends[1]).abs() < 0.06, "{ends:?}");
    let expect = after.header.expect.unwrap();
    let wanted =
        Expect { transcript: Some("hi".into()), max_error: Some(0.5), ..Expect::default() };
    assert_eq!(expect, wanted);

    let first = sound::read_wav(&at("a.wav")).unwrap();
    let last = sound::read_wav(&at("e.wav")).unwrap();
    assert_eq!(first.samples.len(), last.samples.len());
    let best =
        (0..400).map(|lag| correlation(&first.samples, &last.samples[lag..])).fold(0.0, f64::max);
    // Encoded twice at 24 kbit/s, complexity 0.
    assert!(best > 0.75, "{best}");
    assert_eq!(sound::side_of(&before, Side::Up).unwrap(), last, "Ogg preserves the packets");
}

fn correlation(a: &[i16], b: &[i16]) -> f64 {
    let dot = |x: &[i16], y: &[i16]| -> f64 {
        x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn wav_files_of_any_format_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for (bits, format) in [
        (8, hound::SampleFormat::Int),
        (24, hound::SampleFormat::Int),
        (32, hound::SampleFormat::Float),
    ] {
        let path = folder.path().join("stereo.wav");
        let spec = hound::WavSpec {
            channels: 2,
            sample_rate: 44_100,
            bits_per_sample: bits,
            sample_format: format,
        };
        let mut writer = hound::WavWriter::create(&path, spec).unwrap();
        for _ in 0..44_100 {
            // Left channel at half of full scale, right channel silent.
            for value in [0.5_f32, 0.0] {
                if format == hound::SampleFormat::Float {
                    writer.write_sample(value).unwrap();
                } else {
                    writer.write_sample((value * (1_i64 << (bits - 1)) as f32) as i32).unwrap();
                }
            }
        }
        writer.finalize().unwrap();
        let sound = sound::read_wav(&path).unwrap();
        assert_eq!((sound.samples.len(), sound.rate_hz), (44_100, 44_100));
        assert!((i32::from(sound.samples[9]) - 8_192).abs() < 100, "{bits}: {}", sound.samples[9]);
        let packets = sound.packets().unwrap();
        assert_eq!(packets.len(), 17, "one second in packets of 60 ms");
    }
    fs::write(folder.path().join("no.wav"), "no").unwrap();
    let error = sound::read_wav(&folder.path().join("no.wav")).unwrap_err();
    assert!(error.to_string().contains("no.wav as a WAV file"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_is_replayed_in_every_framing() {
    let file = fixture("en_go_somewhere");
    for framing in ["1", "2", "3"] {
        let server = Server::start("Go somewhere, and do something.").await;
        let out = tempfile::NamedTempFile::new().unwrap();
        let flags = [
            "--expect",
            "--framing",
            framing,
            "--token",
            "t",
            "--out",
            out.path().to_str().unwrap(),
        ];
        assert_eq!(replay(&file, &server.url, &flags).await, ExitCode::SUCCESS);
        let seen = server.seen().await;
        assert_eq!(seen.headers["authorization"], "Bearer t");
        assert_eq!(seen.headers["protocol-version"], framing);
        assert_eq!(seen.headers["device-id"], "02:00:00:00:00:01");
        assert_eq!(seen.headers["host"], "127.0.0.1", "firmware omits the port");
        assert_eq!(seen.texts, ["hello", "listen start auto", "listen start auto"]);
        assert!(seen.packets >= 50, "{}", seen.packets);
        let heard = sound::read_wav(out.path()).unwrap();
        assert_eq!(heard.rate_hz, 24_000);
        let played = Duration::from_secs_f64(heard.samples.len() as f64 / 24_000.0);
        assert!(played >= scripted::REPLY, "{played:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_status_reports_the_expectations() {
    let file = fixture("zh_what_is_this");
    let wrong = Server::start("今天天气很好").await;
    assert_eq!(replay(&file, &wrong.url, &["--expect"]).await, ExitCode::from(1));
    let unchecked = Server::start("今天天气很好").await;
    assert_eq!(replay(&file, &unchecked.url, &["--json"]).await, ExitCode::SUCCESS);
    assert_eq!(replay(&file, "ws://127.0.0.1:1/", &[]).await, ExitCode::from(2));
    assert_eq!(
        replay(Path::new("nowhere.jsonl"), "ws://127.0.0.1:1/", &[]).await,
        ExitCode::from(2)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_is_read_back_by_recognition() {
    let file = fixture("zh_what_is_this");
    for (hears, code) in [(scripted::SENTENCE, 0), ("something else altogether", 1)] {
        let server = Server::start("看看这个是什么").await;
        let asr = recogniser(hears).await;
        let flags = ["--expect", "--asr-url", &asr];
        assert_eq!(replay(&file, &server.url, &flags).await, ExitCode::from(code), "{hears}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wav_file_is_replayed_with_push_to_talk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hum.wav");
    let samples = hearken_audio::pcm::tone(200.0, 12_000, 24_000);
    sound::write_wav(&path, &Sound { samples, rate_hz: 24_000 }).unwrap();
    let server = Server::start("hum").await;
    let flags = ["--expect", "--mode", "manual"];
    assert_eq!(replay(&path, &server.url, &flags).await, ExitCode::SUCCESS);
    let seen = server.seen().await;
    assert_eq!(seen.texts, ["hello", "listen start manual", "listen stop"]);
    assert_eq!(seen.packets, 9, "half a second in packets of 60 ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_waits_for_an_answer_as_the_recorded_user_did() {
    let one = parse(&fixture("zh_own_foot"));
    let mut two = one.clone();
    let last = one.frames.last().unwrap().at;
    // In the recording the answer has no duration.
    let stop = Content::down(r#"{"type":"tts","state":"stop"}"#);
    two.frames.push(Frame { at: last, content: stop });
    two.frames.extend(one.frames[1..].iter().cloned().map(|mut frame| {
        frame.at += last;
        frame
    }));
    let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    fs::write(file.path(), two.render()).unwrap();
    let server = Server::start("砸自己的脚").await;
    assert_eq!(replay(file.path(), &server.url, &[]).await, ExitCode::SUCCESS);
    let seen = server.seen().await;
    assert_eq!(seen.answers, 2);
    assert_eq!(seen.sent_while_answering, 0, "the microphone is closed while the device speaks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_requests_ota_first_and_uses_its_token() {
    let file = fixture("zh_what_is_this");
    let ota = Some(r#"{"websocket":{"url":"ws://elsewhere/","token":"from-ota","version":1}}"#);
    let said = scripted::SENTENCE;
    for (ota, flags, sent) in [
        (ota, &[][..], Some("Bearer from-ota")),
        (ota, &["--token", "given"], Some("Bearer given")),
        (None, &[], None),
    ] {
        let server = Server::with_ota(said, ota).await;
        assert_eq!(replay(&file, &server.url, flags).await, ExitCode::SUCCESS);
        let seen = server.seen().await;
        assert_eq!(seen.headers.get("authorization").map(String::as_str), sent);
    }
    // An OTA address that is set explicitly must respond.
    let server = Server::with_ota(said, None).await;
    let ota = server.url.replace("ws://", "http://").replace("v1", "ota");
    let line = ["replay", file.to_str().unwrap(), "--ota", &ota];
    let code = replay::run(Replay::parse_from(line).args).await.unwrap();
    assert_eq!(code, ExitCode::from(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_options_of_a_replay_reach_the_server() {
    let server = Server::start("看看这个是什么").await;
    let recording = hearken_virtual_device::Recording::load(fixture("zh_what_is_this")).unwrap();
    let session = recording
        .replay(&server.url)
        .speed(20.0)
        .token("t")
        .device_id("02:00:00:00:00:09")
        .client_id("00000000-0000-4000-8000-000000000009")
        .framing(3)
        .header("x-tenant", "kitchen")
        .header("User-Agent", "a test")
        .profile(Profile::named("2.2.2").unwrap())
        .await
        .unwrap();
    let wanted = Expectations::new().reply_contains(scripted::SENTENCE).no_faults();
    session.expect(wanted.audio(scripted::REPLY..=scripted::REPLY)).unwrap();
    let seen = server.seen().await;
    for (name, value) in [
        ("authorization", "Bearer t"),
        ("device-id", "02:00:00:00:00:09"),
        ("client-id", "00000000-0000-4000-8000-000000000009"),
        ("protocol-version", "3"),
        ("x-tenant", "kitchen"),
        ("user-agent", "a test"),
    ] {
        assert_eq!(seen.headers.get(name).map(String::as_str), Some(value), "{name}");
    }
}
