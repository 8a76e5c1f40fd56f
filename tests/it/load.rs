//! Many concurrent devices at a whole server with stub vendors: no connection and no turn is lost.
//! Speed is measured, not tested.

use std::cell::Cell;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hearken_dev::load::{Figures, LoadScenario, UsageSamples, run};
use hearken_dialogue::Phrases;
use hearken_mock_services::{Addresses, Delay, MockServices, Reply};
use hearken_proto::device::ListenMode;
use hearken_test_support::eventually;
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::socket::Endpoint;
use hearken_virtual_device::sound::{Sound, UPLINK_RATE_HZ};
use hearken_virtual_device::toolbox::Toolbox;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use crate::server::voices::voice;
use crate::support::app::{TestServer, Vendors};

fn packets(samples: Vec<i16>) -> Vec<bytes::Bytes> {
    Sound { samples, rate_hz: UPLINK_RATE_HZ }.packets().unwrap()
}

fn scenario(url: &str, devices: u16, talking: usize) -> LoadScenario {
    let endpoint = |number: u16| {
        let [high, low] = number.to_be_bytes();
        Endpoint {
            url: url.to_owned(),
            device_id: format!("02:00:00:01:{high:02x}:{low:02x}"),
            client_id: String::new(),
            token: None,
            framing: 1,
        }
    };
    LoadScenario {
        endpoints: (0..devices).map(endpoint).collect(),
        talking,
        interrupting: 0,
        listening: 0,
        mode: ListenMode::Auto,
        ramp: Duration::from_millis(u64::from(devices) * 5),
        speech: packets(voice(150, 900, UPLINK_RATE_HZ)).into(),
        background_noise: packets(vec![0; 9_600]).into(),
        silence: packets(vec![0; 960]).remove(0),
        pause: Duration::from_millis(500),
        busy_words: Phrases::default().busy.all().into(),
        profile: Profile::default(),
        toolbox: Toolbox::default(),
    }
}

/// Runs the scenario until it has had this many turns.
async fn until_turns(scenario: LoadScenario, turns: usize) -> Figures {
    let end = CancellationToken::new();
    let done = end.clone();
    run(scenario, end, move |figures| {
        if figures.turns >= turns {
            done.cancel();
        }
    })
    .await
}

fn all_is_well(figures: &Figures) {
    assert!(figures.errors.is_empty(), "{:?}", figures.errors);
    assert!(figures.packets.lost.is_empty(), "{:?}", figures.packets);
    assert_eq!((figures.closed, figures.packets.cut), (0, 0), "{figures:?}");
}

#[tokio::test]
async fn check_25_a_hundred_devices_talk_while_a_thousand_stay_connected() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.server.workers = 2;
        config.server.audio_threads = 2;
        config.speaking.complexity = 0;
        // This many devices process `tts start` slowly on a small machine.
        config.speaking.start_guard = Duration::from_secs(1);
        config.hearing.silence = Duration::from_millis(400);
    })
    .await;
    let figures = until_turns(scenario(&server.device_url(), 100, 100), 200).await;
    all_is_well(&figures);
    assert!(figures.turns >= 200 && figures.first_audio.ms(0.99).is_some(), "{figures:?}");

    let scenario = scenario(&server.device_url(), 1_000, 20);
    let end = CancellationToken::new();
    let turns = Cell::new(0);
    let watching = async {
        let all =
            || async { server.metric("hearken_connections").await > 999.5 && turns.get() > 0 };
        let patience = tokio::time::timeout(Duration::from_secs(40), async {
            while !all().await {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        patience.await.expect("all are connected at the same time, and there are answers");
        assert!(server.metric("hearken_downlink_packets_total").await > 1.0);
        end.cancel();
    };
    let look = |figures: &Figures| turns.set(figures.turns);
    let (figures, ()) = tokio::join!(run(scenario, end.clone(), look), watching);
    all_is_well(&figures);
    eventually("an empty server", async || {
        (server.metric("hearken_connections").await < 0.5).then_some(())
    })
    .await;
    server.stop().await;
}

/// The three mock services, which respond at once and call this tool.
async fn doubles_that_call(tool: &str, stop: CancellationToken) -> Addresses {
    let at_once = Delay::new(Duration::ZERO, 0.0, 1);
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let doubles = MockServices {
        asr: anywhere,
        tts: anywhere,
        llm: anywhere,
        asr_delay: at_once.clone(),
        tts_delay: at_once.clone(),
        tts_speed: 0.0,
        sound: Sound { samples: voice(150, 1_900, 24_000), rate_hz: 24_000 },
        llm_delay: at_once,
        reply: Reply { sentences: 2, word_every: Duration::ZERO, calls: Some(tool.into()) },
    };
    let (tell, told) = oneshot::channel();
    actix_web::rt::spawn(hearken_mock_services::serve(doubles, stop, |at| tell.send(at).unwrap()));
    told.await.unwrap()
}

#[actix_web::test]
async fn a_mixed_load_is_measured_with_mock_services() {
    let stop = CancellationToken::new();
    let at = doubles_that_call("self_get_device_status", stop.clone()).await;
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.asr.url = format!("ws://{}", at.asr);
        config.tts.url = format!("ws://{}", at.tts);
        config.llm.base_url = format!("http://{}/v1", at.llm);
        config.speaking.complexity = 0;
    })
    .await;
    let mut scenario = scenario(&server.device_url(), 8, 3);
    (scenario.interrupting, scenario.listening, scenario.mode) = (2, 2, ListenMode::Manual);
    let mut course = UsageSamples::begin(std::process::id()).unwrap();
    let end = CancellationToken::new();
    let done = end.clone();
    let figures = run(scenario, end, move |figures| {
        course.sample(figures.turns);
        if figures.turns >= 6 && figures.interrupted >= 4 {
            let used = course.used(Duration::ZERO, 8).unwrap();
            assert!(used.cores > 0.0 && used.cpu_ms_per_turn.is_some(), "{used:?}");
            done.cancel();
        }
    })
    .await;
    assert!(figures.errors.is_empty(), "{:?}", figures.errors);
    assert_eq!((figures.connected, figures.busy), (8, 0), "{figures:?}");
    assert!(figures.tool_calls >= 10, "every turn calls a tool: {figures:?}");
    assert!(figures.stop.count() >= 4 && figures.transcript.count() >= 10, "{figures:?}");
    assert!(figures.packets.sent > 100, "listening devices send too: {figures:?}");
    stop.cancel();
    server.stop().await;
}

/// Starts a server that closes the connection after an utterance; returns its URL.
async fn hangs_up() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut socket = accept_async(stream).await.unwrap();
            while let Some(Ok(message)) = socket.next().await {
                let text = message.to_text().unwrap_or_default();
                if text.contains("hello") {
                    let hello = r#"{"type":"hello","transport":"websocket","session_id":"1"}"#;
                    socket.send(Message::text(hello)).await.unwrap();
                }
                if text.contains("stop") {
                    break;
                }
            }
        }
    });
    url
}

#[tokio::test]
async fn a_device_reconnects_at_once_after_the_server_closes() {
    let mut scenario = scenario(&hangs_up().await, 1, 1);
    scenario.mode = ListenMode::Manual;
    let end = CancellationToken::new();
    let done = end.clone();
    let twice = run(scenario, end, move |figures| {
        if figures.closed >= 2 {
            done.cancel();
        }
    });
    let figures = tokio::time::timeout(Duration::from_secs(30), twice).await.expect("it waits");
    assert!(figures.errors.is_empty(), "{:?}", figures.errors);
    assert_eq!(figures.turns, 0);
}
