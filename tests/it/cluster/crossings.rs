//! Devices, tool clients and sessions of text clients at one instance, reached through another. Not
//! for instances that die.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_base::Secret;
use hearken_test_support::eventually;
use hearken_test_support::places::{Place, on};
use hearken_test_support::redis::there_is;
use hearken_test_support::socket::Socket;
use hearken_test_support::vendors::Behaviour;
use hearken_tool_sources::AgentTokens;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::instances::{Instance, Instances, SECRET};
use super::killed::vendors;

const DEVICE: &str = "02:00:00:00:00:77";
const SOON: Duration = Duration::from_secs(10);

pub(super) async fn connect(url: &str, headers: &[(&'static str, &str)]) -> Socket {
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    connect_async(request).await.unwrap().0
}

/// Waits for the next message of this type.
async fn of_type(socket: &mut Socket, kind: &str) -> Value {
    let waiting = async {
        loop {
            match socket.next().await.expect("the socket is open").unwrap() {
                Message::Text(text) => {
                    let told: Value = serde_json::from_str(&text).unwrap();
                    if told["type"] == kind {
                        return told;
                    }
                }
                Message::Close(reason) => panic!("closed: {reason:?}"),
                _ => {}
            }
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("no {kind}"))
}

/// Waits until the server closes the socket; returns the close code.
async fn closed(socket: &mut Socket) -> Option<u16> {
    let waiting = async {
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(reason) = message {
                return reason.map(|r| r.code.into());
            }
        }
        None
    };
    tokio::time::timeout(SOON, waiting).await.expect("the socket is closed")
}

async fn ask(at: &Instance, method: Method, path: &str, body: Value) -> (u16, Value) {
    let asked = reqwest::Client::new().request(method, at.url(path)).json(&body).timeout(SOON);
    let answer = asked.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

async fn device(at: &Instance) -> Socket {
    let headers = [("device-id", DEVICE), ("client-id", "c"), ("protocol-version", "1")];
    let mut socket = connect(&at.socket("/xiaozhi/v1/"), &headers).await;
    let hello = json!({"type": "hello", "version": 1, "transport": "websocket"});
    socket.send(Message::text(hello.to_string())).await.unwrap();
    of_type(&mut socket, "hello").await;
    socket
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_serves_clients_and_tools_of_the_others() {
    if !there_is("an instance that serves clients of others") {
        return;
    }
    on(Place::postgres().await, |place| async move {
        let cluster = Instances::start(vendors().await, &place.url).await;
        devices(&cluster).await;
        tools(&cluster).await;
        servers(&cluster).await;
        texts(&cluster).await;
        refusals(&cluster).await;
    })
    .await;
}

/// Tool servers that are added, switched or removed at one instance are so at all of them.
async fn servers(cluster: &Instances) {
    const ALL: &str = "/api/tools/servers";
    let [one, two, three] = &cluster.all[..] else { panic!("three instances") };
    let seen = async |at: &Instance, wanted: Option<bool>| {
        eventually("the change of another instance", || async {
            let (_, told) = ask(at, Method::GET, ALL, Value::Null).await;
            let all = told["servers"].as_array().unwrap();
            let one = all.iter().find(|server| server["name"] == "far");
            (one.map(|server| server["enabled"] == true) == wanted).then_some(())
        })
        .await;
    };
    let server = json!({"name": "far", "url": "http://127.0.0.1:9/mcp"});
    let (status, told) = ask(one, Method::POST, ALL, server).await;
    assert_eq!(status, 201, "{told}");
    seen(two, Some(true)).await;
    let off = json!({"enabled": false});
    assert_eq!(ask(two, Method::PUT, &format!("{ALL}/far/enabled"), off).await.0, 200);
    seen(one, Some(false)).await;
    seen(three, Some(false)).await;
    assert_eq!(ask(three, Method::DELETE, &format!("{ALL}/far"), Value::Null).await.0, 204);
    seen(one, None).await;
    seen(two, None).await;
}

async fn devices(cluster: &Instances) {
    let [one, two, three] = &cluster.all[..] else { panic!("three instances") };
    let path = format!("/api/devices/{DEVICE}");
    let alert = json!({"status": "s", "message": "m"});
    let mut socket = device(one).await;
    eventually("other instances know the device", || async {
        let (_, told) = ask(two, Method::GET, &path, Value::Null).await;
        (told["connected"] == true && told["session_id"].is_string()).then_some(())
    })
    .await;
    let (_, listed) = ask(three, Method::GET, "/api/devices", Value::Null).await;
    assert_eq!(listed["devices"][0]["connected"], true, "{listed}");
    for at in [one, two, three] {
        let (status, told) = ask(at, Method::POST, &format!("{path}/alert"), alert.clone()).await;
        assert_eq!(status, 202, "{told}");
        assert_eq!(of_type(&mut socket, "alert").await["message"], "m");
    }
    session_tools(cluster, listed["devices"][0]["session_id"].as_str().unwrap()).await;
    // The device has no tools; every instance says so.
    for at in [one, two] {
        let (status, told) = ask(at, Method::GET, &format!("{path}/status"), Value::Null).await;
        assert!(status == 404 && told.to_string().contains("self.get_device_status"), "{told}");
    }
    // The same answers as at its own instance.
    for (order, body, wanted) in [
        ("nothing", Value::Null, 404),
        ("alert", json!({"status": ""}), 400),
        ("say", json!({"text": ""}), 400),
    ] {
        for at in [one, two] {
            let order = format!("{path}/{order}");
            assert_eq!(ask(at, Method::POST, &order, body.clone()).await.0, wanted, "{order}");
        }
    }
    let stranger = "/api/devices/02:00:00:00:00:99/close";
    assert_eq!(ask(two, Method::POST, stranger, Value::Null).await.0, 404);
    // The device reconnects to another instance, which replaces the former connection.
    let mut again = device(three).await;
    assert_eq!(closed(&mut socket).await, Some(1008), "it was replaced");
    eventually("it is reached at its new instance", || async {
        let order = ask(one, Method::POST, &format!("{path}/alert"), alert.clone()).await;
        (order.0 == 202).then_some(())
    })
    .await;
    of_type(&mut again, "alert").await;
    assert_eq!(ask(two, Method::POST, &format!("{path}/close"), Value::Null).await.0, 202);
    closed(&mut again).await;
    eventually("all instances know that it left", || async {
        let (_, listed) = ask(two, Method::GET, "/api/devices", Value::Null).await;
        let there = listed["devices"].as_array().unwrap().iter().any(|d| d["connected"] == true);
        (!there).then_some(())
    })
    .await;
}

/// The tool sources of the device's session are the same through every instance.
async fn session_tools(cluster: &Instances, session: &str) {
    let path = format!("/api/sessions/{session}/tools");
    for (n, at) in cluster.all.iter().enumerate() {
        let off = json!([format!("source {n}")]);
        let (status, told) = ask(at, Method::PUT, &path, json!({"off": off})).await;
        assert_eq!((status, &told["off"]), (200, &off), "{told}");
        for at in &cluster.all {
            let (status, told) = ask(at, Method::GET, &path, Value::Null).await;
            assert_eq!((status, &told["off"]), (200, &off), "{told}");
            assert_eq!(
                (&told["device_id"], &told["session_id"]),
                (&DEVICE.into(), &session.into())
            );
        }
    }
    let none = "/api/sessions/00000000-0000-4000-8000-000000000000/tools";
    for at in &cluster.all {
        let off = json!({"off": []});
        for (method, body) in [(Method::GET, Value::Null), (Method::PUT, off)] {
            let (status, told) = ask(at, method, none, body).await;
            assert!(status == 404 && told.to_string().contains("no session of this id"), "{told}");
        }
    }
}

/// Answers as a tool client with one tool, until dropped.
async fn tool_client(at: &Instance, name: &'static str) -> tokio::task::JoinHandle<()> {
    let token = AgentTokens::new(&Secret::new(SECRET), &[]).mint("default").unwrap().0;
    let mut socket = connect(&at.socket(&format!("/mcp_endpoint/mcp/?token={token}")), &[]).await;
    tokio::spawn(async move {
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let asked: Value = serde_json::from_str(&text).unwrap();
            let result = match asked["method"].as_str().unwrap_or_default() {
                "initialize" => json!({"protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {}}, "serverInfo": {"name": name, "version": "1"}}),
                "tools/list" => json!({"tools": [{"name": "say",
                    "inputSchema": {"type": "object"}}]}),
                "tools/call" => {
                    let said = &asked["params"]["arguments"]["text"];
                    json!({"content": [{"type": "text", "text": format!("{name}: {said}")}]})
                }
                _ => continue,
            };
            let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
            if socket.send(Message::text(answer.to_string())).await.is_err() {
                return;
            }
        }
    })
}

/// The names of the tool clients that an instance knows.
pub(super) async fn known(at: &Instance) -> Vec<String> {
    let (_, told) = ask(at, Method::GET, "/api/tools", Value::Null).await;
    let sources = told["sources"].as_array().unwrap().iter();
    let dialled = sources.filter(|source| source["kind"] == "endpoint");
    dialled.map(|source| source["name"].as_str().unwrap().to_owned()).collect()
}

async fn tools(cluster: &Instances) {
    let [one, two, three] = &cluster.all[..] else { panic!("three instances") };
    let clients = [tool_client(one, "calc").await, tool_client(two, "calc").await];
    for at in [one, two, three] {
        eventually("both are known", || async {
            (known(at).await == ["calc", "calc-2"]).then_some(())
        })
        .await;
        for source in ["calc", "calc-2"] {
            let call = json!({"source": source, "tool": "say", "arguments": {"text": "hi"}});
            let (status, told) = ask(at, Method::POST, "/api/tools/call", call).await;
            assert_eq!(status, 200, "{told}");
            assert!(told.to_string().contains(r#"calc: \"hi\""#), "{told}");
        }
        let call = json!({"source": "calc-2", "tool": "other", "arguments": {}});
        let (status, _) = ask(at, Method::POST, "/api/tools/call", call).await;
        assert_ne!(status, 200, "there is no such tool");
    }
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    for at in [one, two, three] {
        eventually("both are gone", || async { known(at).await.is_empty().then_some(()) }).await;
    }
}

/// Sends a message as a text client, in this session or a new one; returns the socket and the id of
/// the session.
async fn send(at: &Instance, session: Option<&str>, text: &str) -> (Socket, String) {
    let mut socket = connect(&at.socket("/"), &[]).await;
    let mut said = json!({"type": "text_input", "text": text});
    let begun = of_type(&mut socket, "status").await;
    if let Some(session) = session {
        said["session_id"] = session.into();
    }
    let remember = json!({"type": "configure", "enable_context": true});
    for message in [remember, said] {
        socket.send(Message::text(message.to_string())).await.unwrap();
    }
    let own = begun["data"]["session_id"].as_str().expect("a session begins").to_owned();
    (socket, session.map_or(own, str::to_owned))
}

/// Sends a message as a text client, and checks its answer; returns the id of the session.
async fn say(at: &Instance, session: Option<&str>, text: &str) -> String {
    let (mut socket, session) = send(at, session, text).await;
    let told = of_type(&mut socket, "llm_response").await;
    assert_eq!(told["content"], format!("You said {text}"), "{told}");
    session
}

/// A session whose messages the model refuses forgets them at the second refusal, at whichever
/// instances these are.
async fn refusals(cluster: &Instances) {
    let [one, two, three] = &cluster.all[..] else { panic!("three instances") };
    let model = &cluster.vendors.llm;
    for places in [[one, one], [two, three]] {
        let session = say(one, None, "earlier words").await;
        model.set(Behaviour::HttpStatus(400, None));
        for at in places {
            let (mut socket, _) = send(at, Some(&session), "refused words").await;
            assert_eq!(of_type(&mut socket, "error").await["code"], "LLM_ERROR");
        }
        model.set(Behaviour::Normal);
        model.forget_texts();
        say(two, Some(&session), "later words").await;
        let asked = model.seen().texts.join("\n");
        assert!(asked.contains("later words") && !asked.contains("earlier words"), "{asked}");
    }
}

async fn texts(cluster: &Instances) {
    let [one, two, three] = &cluster.all[..] else { panic!("three instances") };
    let session = say(one, None, "first").await;
    say(two, Some(&session), "second").await;
    say(three, Some(&session), "third").await;
    cluster.vendors.llm.forget_texts();
    // The first instance still has an older copy of the session in memory.
    say(one, Some(&session), "fourth").await;
    let asked = cluster.vendors.llm.seen().texts.join("\n");
    for earlier in ["first", "second", "third"] {
        assert!(asked.contains(&format!("You said {earlier}")), "{asked}");
    }
    // A session that is ended at one instance is ended at all of them.
    let mut socket = connect(&two.socket("/"), &[]).await;
    let start = json!({"type": "start_session", "session_id": session});
    for told in [start, json!({"type": "end_session"})] {
        socket.send(Message::text(told.to_string())).await.unwrap();
    }
    loop {
        let told = of_type(&mut socket, "status").await;
        if told["data"]["ended_session_id"] == session.as_str() {
            break;
        }
    }
    let mut socket = connect(&one.socket("/"), &[]).await;
    let said = json!({"type": "text_input", "text": "fifth", "session_id": session});
    socket.send(Message::text(said.to_string())).await.unwrap();
    assert_eq!(of_type(&mut socket, "error").await["code"], "SESSION_ERROR");
}
