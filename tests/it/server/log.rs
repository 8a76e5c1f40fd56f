//! Log lines of the program: access rules at the start, limited warnings about a flooding peer, and
//! trace ids. Not for the format.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::SinkExt as _;
use hearken_test_support::eventually;
use hearken_test_support::vendors::Behaviour;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::{HELLO, json_of};
use crate::support::app::Vendors;
use crate::support::process::ServerProcess;

/// Log lines with this message, at any level.
fn lines(server: &ServerProcess, message: &str) -> Vec<Value> {
    let log = server.log();
    // The last line may be incomplete.
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["fields"]["message"] == message).collect()
}

#[tokio::test]
async fn the_access_rules_are_logged_at_the_start() {
    const NEAR: &str = "this machine and its private networks; others with the admin token";
    const DEVICES: &str = "devices on this machine; others with a device's token, from outside after \
                           their code was entered";
    let vendors = Vendors::start().await;
    let settings = [
        ("HEARKEN__GATEWAY__OPEN_TO_ALL", "true"),
        ("HEARKEN__MUSEUM__TOKEN", "the token of museum clients"),
    ];
    let server = ServerProcess::start(&vendors, &settings).await;
    let told = lines(&server, "access");
    let rows = told.iter().map(|row| {
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        (text(&row["level"]), text(&row["fields"]["part"]), text(&row["fields"]["open_to"]))
    });
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [
            ("INFO", "devices", DEVICES),
            ("WARN", "text clients", "every client"),
            ("INFO", "chat sessions", NEAR),
            ("INFO", "museum clients", "clients with `museum.token`"),
            ("INFO", "management of devices and tools", "clients with `auth.admin_token`"),
            ("INFO", "administration", "clients with `admin.password`"),
            ("INFO", "metrics", NEAR),
        ]
        .map(|(level, part, open_to)| (
            level.to_owned(),
            part.to_owned(),
            open_to.to_owned()
        ))
    );
}

/// Sends more text frames than a device may send in ten seconds, its hello included.
#[tokio::test]
async fn warnings_about_invalid_frames_of_a_device_are_limited_to_five() {
    const FRAMES: usize = 600;
    let vendors = Vendors::start().await;
    let server = ServerProcess::start(&vendors, &[]).await;
    let url = format!("ws://{}/xiaozhi/v1/?device-id=02:00:00:00:00:0e", server.address);
    let (mut socket, _) = connect_async(url).await.unwrap();
    socket.send(Message::text(HELLO)).await.unwrap();
    json_of(&mut socket, "hello").await;
    for n in 0..2 * FRAMES {
        let nonsense = ["no JSON", r#"{"type":"dance"}"#, r#"{"type":"listen","state":"x"}"#];
        // The server may close the connection before all frames are sent.
        socket.feed(Message::text(nonsense[n % 3])).await.ok();
    }
    socket.flush().await.ok();
    let left = "left out further lines of this kind";
    let left_out = eventually("the disconnect", async || lines(&server, left).pop()).await;
    let warned = ["cannot read a text frame", "ignored a message of unknown type"];
    let warned: usize = warned.iter().map(|message| lines(&server, message).len()).sum();
    assert_eq!(
        (warned, &left_out["fields"]["left_out"]),
        (5, &json!(FRAMES - 1 - 5)),
        "{left_out}"
    );
    let closed = "closing: the device sends too many text frames";
    assert_eq!(lines(&server, closed).len(), 1);
}

#[tokio::test]
async fn requests_that_anyone_can_send_do_not_fill_the_log() {
    const MANY: usize = 400;
    const MOST_PER_MINUTE: usize = 60;
    let vendors = Vendors::start().await;
    let settings = [("HEARKEN__HTTP__REQUESTS_PER_MINUTE", "1")];
    let server = ServerProcess::start(&vendors, &settings).await;
    let http = reqwest::Client::new();
    let begun = Instant::now();
    for path in ["/nowhere", "/api/nowhere"] {
        for _ in 0..MANY {
            http.get(format!("http://{}{path}", server.address)).send().await.unwrap();
        }
    }
    let last = format!("http://{}/xiaozhi/ota/", server.address);
    http.get(last).send().await.unwrap();
    let of = |path: &str, status: u16| {
        let about =
            |line: &Value| line["fields"]["path"] == path && line["fields"]["status"] == status;
        lines(&server, "answered").iter().filter(|line| about(line)).count()
    };
    eventually("the last request", async || (of("/xiaozhi/ota/", 200) == 1).then_some(())).await;
    let minutes = usize::try_from(begun.elapsed().as_secs() / 60).unwrap() + 2;
    for (path, status) in [("/nowhere", 404), ("/api/nowhere", 429)] {
        let logged = of(path, status);
        assert!(logged >= MOST_PER_MINUTE, "{path}: {logged}");
        assert!(logged <= MOST_PER_MINUTE * minutes, "{path}: {logged} in {minutes} minutes");
    }
}

/// The trace ids of the spans of a line.
fn traces(line: &Value) -> Vec<String> {
    let spans = line["spans"].as_array().into_iter().flatten();
    spans.filter_map(|span| span["trace"].as_str()).map(str::to_owned).collect()
}

#[tokio::test]
async fn each_log_line_about_a_turn_has_its_trace_id() {
    let vendors = Vendors::start().await;
    vendors.llm.set(Behaviour::HttpStatus(503, None));
    let never = [("HEARKEN__AUTH__REQUIRED", "never")];
    let server = ServerProcess::start(&vendors, &never).await;
    let at = |path: &str| format!("http://{}{path}", server.address);
    let http = reqwest::Client::new();
    let game = json!({"name": "game", "creator_id": "dm", "max_players": 4});
    let made = http.post(at("/api/sessions")).json(&game).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let id = made["session_id"].as_str().unwrap();
    let said = json!({"message": "hello"});
    let told = http.post(at(&format!("/api/sessions/{id}/chat"))).json(&said).send().await.unwrap();
    assert!(!told.status().is_success(), "the model is down");
    let (mut client, _) = connect_async(format!("ws://{}/", server.address)).await.unwrap();
    let typed = json!({"type": "text_input", "text": "hello"});
    client.send(Message::text(typed.to_string())).await.unwrap();
    json_of(&mut client, "error").await;
    let url = format!("ws://{}/xiaozhi/v1/?device-id=02:00:00:00:00:0f", server.address);
    let (mut device, _) = connect_async(url).await.unwrap();
    device.send(Message::text(HELLO)).await.unwrap();
    json_of(&mut device, "hello").await;
    let spoken = json!({"type": "listen", "state": "detect", "text": "What time is it?"});
    device.send(Message::text(spoken.to_string())).await.unwrap();
    let turns = eventually("three turns have failed", async || {
        let told: Value = http.get(at("/api/turns")).send().await.unwrap().json().await.unwrap();
        let turns = told["turns"].as_array().unwrap().iter();
        let failed = turns.filter(|turn| turn["outcome"] == "failed");
        let traces: BTreeSet<String> =
            failed.map(|turn| turn["trace_id"].as_str().unwrap().to_owned()).collect();
        (traces.len() == 3).then_some(traces)
    })
    .await;
    let retries = lines(&server, "retrying a request");
    let told: Vec<Vec<String>> = retries.iter().map(traces).collect();
    assert!(told.iter().all(|traces| traces.len() == 1), "{retries:?}");
    assert_eq!(told.into_iter().flatten().collect::<BTreeSet<_>>(), turns);
    for (message, count) in [("cannot answer a message", 1), ("a request failed", 1)] {
        let failed = lines(&server, message);
        assert_eq!(failed.len(), count, "{message}");
        assert!(failed.iter().all(|line| turns.contains(&traces(line)[0])), "{failed:?}");
    }
    let failed = lines(&server, "turn failed");
    assert!(turns.contains(failed[0]["fields"]["trace"].as_str().unwrap()), "{failed:?}");
}
