//! Settings that change at run time apply without a restart, also to open connections.

use std::process::Stdio;

use futures_util::SinkExt as _;
use hearken::config::Config;
use hearken_test_support::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{Admin, PASSWORD, ask, guarded};
use crate::server::json_of;
use crate::support::app::{PHRASES, TestServer, Vendors};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn say(socket: &mut Socket, message: Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

/// The last request to the model.
fn asked(vendors: &Vendors) -> Value {
    let texts = vendors.llm.seen().texts;
    serde_json::from_str(texts.last().unwrap()).unwrap()
}

fn system(asked: &Value) -> &str {
    asked["messages"][0]["content"].as_str().unwrap()
}

#[tokio::test]
async fn a_changed_setting_reaches_a_connected_text_client() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| config.gateway.temperature = 0.5).await;
    let (mut client, _) = connect_async(admin.server.gateway_url()).await.unwrap();
    let mut question = async || {
        say(&mut client, json!({"type": "text_input", "text": "hello"})).await;
        json_of(&mut client, "llm_response").await;
        asked(&vendors)
    };
    let before = question().await;
    assert_eq!((&before["temperature"], &before["max_tokens"]), (&json!(0.5), &json!(2_048)));
    let told = admin
        .set(json!({"gateway": {
            "temperature": 0.25, "max_tokens": 99, "system_prompt": "Be brief.",
        }, "llm.model": "another"}))
        .await;
    assert_eq!(told["settings"]["gateway"]["temperature"], 0.25);
    assert_eq!(told["sources"]["gateway.temperature"], "run_time");
    assert_eq!(told["sources"]["gateway.session_timeout_ms"], "configuration");
    let after = question().await;
    assert_eq!((&after["temperature"], &after["max_tokens"]), (&json!(0.25), &json!(99)));
    assert_eq!((&after["model"], system(&after)), (&json!("another"), "Be brief."));
    let told = admin.set(json!({"llm": {"model": null}, "gateway.temperature": null})).await;
    assert_eq!(told["sources"]["llm.model"], "configuration");
    let back = question().await;
    assert_eq!((&back["model"], &back["temperature"]), (&before["model"], &json!(0.5)));
}

#[tokio::test]
async fn a_setting_names_an_existing_role_or_none() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| config.chat.role = "Gone".into()).await;
    let body = json!({"name": "Calm"});
    let (_, role) = ask(&admin.server, Method::POST, "/api/roles", &admin.token, body).await;
    for (key, role, expected) in [
        ("gateway.role", json!("Calm"), 200),
        ("gateway.role", role["id"].clone(), 200),
        ("gateway.role", json!("calm"), 400),
        ("chat.role", json!("Calmm"), 400),
        ("chat.role", json!("Gone"), 200),
        ("chat.role", json!(""), 200),
        ("chat.role", json!("Gone"), 400),
        ("chat.role", Value::Null, 200),
    ] {
        let (status, told) = admin.ask(Method::PATCH, "/config", json!({key: role})).await;
        assert_eq!(status, expected, "{key} {role}: {told}");
        let about = told["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(about.contains(key), status == 400, "{told}");
    }
}

#[tokio::test]
async fn a_device_and_an_application_get_new_settings_at_the_next_turn() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let (mut device, _) = connect_async(admin.server.device_url()).await.unwrap();
    say(&mut device, json!({"type": "hello", "version": 1, "transport": "websocket"})).await;
    json_of(&mut device, "hello").await;
    let mut question = async |words: &str| {
        let before = vendors.llm.seen().requests;
        say(&mut device, json!({"type": "listen", "state": "detect", "text": words})).await;
        vendors
            .llm
            .until(|seen| seen.requests > before && seen.texts.len() >= 2 * (before + 1))
            .await;
        asked(&vendors)
    };
    question("What is the weather?").await;
    admin.set(json!({"dialogue.system_prompt": "You are a lamp.", "llm.temperature": 0.125})).await;
    let after = question("And tomorrow?").await;
    assert!(system(&after).starts_with("You are a lamp."), "{after}");
    assert_eq!(after["temperature"], 0.125);
    let session = json!({"name": "game", "creator_id": "dm", "max_players": 4});
    let (status, made) = ask(&admin.server, Method::POST, "/api/sessions", "", session).await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().or(made["session_id"].as_str()).unwrap().to_owned();
    admin.set(json!({"chat": {"system_prompt": "You are a dragon.", "max_tokens": 55}})).await;
    let path = format!("/api/sessions/{id}/chat");
    let (status, told) =
        ask(&admin.server, Method::POST, &path, "", json!({"message": "hello"})).await;
    assert_eq!(status, 200, "{told}");
    let after = asked(&vendors);
    assert_eq!((system(&after), &after["max_tokens"]), ("You are a dragon.", &json!(55)));
}

#[tokio::test]
async fn changed_settings_reach_museum_clients_and_clear_cached_answers() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let register = async || {
        let body = json!({"client_metadata": {}});
        let (_, told) = ask(&admin.server, Method::POST, "/api/session/register", "", body).await;
        let time = |name: &str| told[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let lasts = time("expires_at").duration_since(time("server_timestamp")).as_secs();
        (told["session_id"].as_str().unwrap().to_owned(), lasts)
    };
    let parse = async |id: &str| {
        let asked = reqwest::Client::new().post(admin.server.http_url("/api/agent/parse"));
        let asked = asked.header("session-id", id).json(&json!({"user_input": "hi"}));
        assert_eq!(asked.send().await.unwrap().status(), 200);
    };
    let (id, lasts) = register().await;
    assert!((895..=900).contains(&lasts), "{lasts}");
    parse(&id).await;
    admin
        .set(json!({"museum": {
            "session_timeout_ms": 60_000, "system_prompt": "In {scene_type}.", "temperature": 0.25,
        }}))
        .await;
    let (id, lasts) = register().await;
    assert!((55..=60).contains(&lasts), "{lasts}");
    parse(&id).await;
    let after = asked(&vendors);
    assert_eq!((system(&after), &after["temperature"]), ("In public.", &json!(0.25)));
    let seen = vendors.llm.seen().requests;
    admin.set(json!({"llm.model": "another"})).await;
    let (id, _) = register().await;
    parse(&id).await;
    assert_eq!(vendors.llm.seen().requests, seen + 1, "the old model's answer is not given");
    assert_eq!(asked(&vendors)["model"], "another");
}

#[tokio::test]
async fn invalid_settings_change_nothing() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| {
        config.from_environment.insert("llm.model".into());
    })
    .await;
    let before = admin.get("/config").await;
    assert_eq!(before["sources"]["llm.model"], "environment");
    for (body, status, told) in [
        (json!({"gateway.temperature": 3}), 400, "`gateway.temperature` is 3: use 0 to 1"),
        (json!({"llm.temperature": 3}), 400, "`llm.temperature` is 3: use 0 to 2"),
        (json!({"llm": {"max_tokens": "many"}}), 400, "`llm.max_tokens`: invalid type"),
        (json!({"log.level": "loud=x=y"}), 400, "use error, warn, info, debug or trace"),
        (json!({"log.level": "wran"}), 400, "`log.level` is wran: use error, warn,"),
        (json!({"log": {"level": "hearken=debug,wran"}}), 400, "`log.level` is hearken=debug,wran"),
        (json!({"auth.admin_token": "x"}), 400, "cannot be changed while the server runs"),
        (json!({"llm.api_key": "x"}), 400, "what can: llm.model"),
        (json!({"llm.model": "x"}), 409, "is set by an environment variable"),
        (json!({}), 400, "name at least one setting"),
        (json!([]), 400, "the body must be a JSON object, not an array"),
        (json!({"llm": {"model": "x"}, "llm.model": "y"}), 400, "`llm.model` is given twice"),
    ] {
        let mut body = body;
        if let Some(all) = body.as_object_mut().filter(|all| !all.is_empty()) {
            all.insert("museum.temperature".into(), json!(0.1));
        }
        let (code, answer) = admin.ask(Method::PATCH, "/config", body.clone()).await;
        assert_eq!(code, status, "{body}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(told), "{body}: {message}");
    }
    assert_eq!(admin.get("/config").await, before);
    let audit = admin.get("/audit").await;
    let entries = audit["entries"].as_array().unwrap();
    let (refused, others): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry["what"] == "PATCH /api/admin/config");
    assert!(!refused.is_empty() && refused.iter().all(|e| e["details"]["status"] != 200));
    assert_eq!(others.len(), 1, "the log-in");
}

#[tokio::test]
async fn changes_survive_a_restart_and_reach_instances_on_the_same_store() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let shared = |config: &mut Config| config.server.data_dir = folder.path().to_owned();
    let first = Admin::start(&vendors, shared).await;
    let second = Admin::start(&vendors, shared).await;
    first.set(json!({"museum.temperature": 0.9})).await;
    let follows = async |admin: &Admin, value: f64| {
        eventually("the change arrives", async || {
            let told = admin.get("/config").await;
            (told["settings"]["museum"]["temperature"] == value).then_some(())
        })
        .await;
    };
    follows(&second, 0.9).await;
    // A login at one instance is valid at the other.
    let (status, _) =
        ask(&second.server, Method::GET, "/api/admin/config", &first.token, Value::Null).await;
    assert_eq!(status, 200);
    first.server.stop().await;
    second.server.stop().await;
    let mut config = vendors.config();
    guarded(&mut config);
    shared(&mut config);
    let third = Admin::of(TestServer::of(config, Vec::new()).await).await;
    follows(&third, 0.9).await;
}

#[tokio::test]
async fn the_log_level_changes_at_run_time() {
    hearken_outbound::tls::choose_provider();
    let folder = tempfile::tempdir().unwrap();
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_hearken"))
        .arg("serve")
        .env("HEARKEN__SERVER__DATA_DIR", folder.path())
        .env("HEARKEN__AUTH__ADMIN_TOKEN", PASSWORD)
        .envs([
            ("HEARKEN__SERVER__HOST", "127.0.0.1"),
            ("HEARKEN__SERVER__PORT", "0"),
            ("HEARKEN__EMBEDDED__ENABLED", "false"),
        ])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(program.stderr.take().unwrap()).lines();
    let mut until = async |wanted: &str| loop {
        let line = log.next_line().await.unwrap().expect("the program still runs");
        if line.contains(wanted) {
            return line;
        }
    };
    let started = until("listening for devices").await;
    let at = started.find("127.0.0.1:").unwrap();
    let port: String = started[at + 10..].chars().take_while(char::is_ascii_digit).collect();
    let base = format!("http://127.0.0.1:{port}");
    let client = reqwest::Client::new();
    let login = client.post(format!("{base}/api/admin/login"));
    let login = login.json(&json!({"username": "admin", "password": PASSWORD}));
    let pair: Value = login.send().await.unwrap().json().await.unwrap();
    let token = pair["access_token"].as_str().unwrap();
    let set = async |level: &str| {
        let change = client.put(format!("{base}/api/admin/config")).bearer_auth(token);
        let change = change.json(&json!({"log.level": level})).send().await.unwrap();
        assert_eq!(change.status(), 200);
    };
    let probe = async |id: &str| {
        let asked = client.get(format!("{base}/healthz")).header("x-request-id", id);
        asked.send().await.unwrap();
    };
    // Probes are logged at level debug only.
    probe("quiet-probe").await;
    set("debug").await;
    probe("loud-probe").await;
    let line = until("-probe").await;
    assert!(line.contains("loud-probe") && line.contains("/healthz"), "{line}");
    set("error").await;
    program.kill().await.unwrap();
}

/// Names of the tools in this request to the model.
fn offered(asked: &Value) -> Vec<&str> {
    let tools = asked["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

#[tokio::test]
async fn tool_policy_changes_apply_to_open_conversations() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| {
        config.tools.builtin = hearken_tool_sources::BuiltinSettings::default();
        config.gateway.server_tools = true;
    })
    .await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let (mut client, _) = connect_async(admin.server.gateway_url()).await.unwrap();
    let (mut device, _) = connect_async(admin.server.device_url()).await.unwrap();
    say(&mut device, json!({"type": "hello", "version": 1, "transport": "websocket"})).await;
    json_of(&mut device, "hello").await;
    let mut offers = async || {
        say(&mut client, json!({"type": "text_input", "text": "hello"})).await;
        json_of(&mut client, "llm_response").await;
        let to_text = offered(&asked(&vendors)).contains(&"get_current_time");
        let before = vendors.llm.seen().requests;
        say(&mut device, json!({"type": "listen", "state": "detect", "text": "What now?"})).await;
        let is_asked = |seen: &hearken_test_support::vendors::Seen| {
            seen.requests > before && seen.texts.len() >= 2 * (before + 1)
        };
        vendors.llm.until(is_asked).await;
        (to_text, offered(&asked(&vendors)).contains(&"get_current_time"))
    };
    assert_eq!(offers().await, (true, true));
    let policy = json!({"tools.policy": {"builtin/get_current_time": "never"}});
    let told = admin.set(policy).await;
    assert_eq!(told["sources"]["tools.policy"], "run_time");
    assert_eq!(offers().await, (false, false));
    let (_, listed) =
        ask(&admin.server, Method::GET, "/api/tools", &admin.token, json!(null)).await;
    let tools = listed["sources"][0]["tools"].as_array().unwrap();
    let now = tools.iter().find(|tool| tool["name"] == "get_current_time").unwrap();
    assert_eq!(now["policy"], "never");
    for (wrong, about) in [
        (json!({"tools.policy": {"files": "ask"}}), "SOURCE/TOOL"),
        (json!({"tools.policy": {"files/*": "perhaps"}}), "perhaps"),
        (json!({"tools": {"policy": []}}), "tools.policy"),
        (json!({"tools.changed_definitions": "perhaps"}), "perhaps"),
    ] {
        let (status, told) = admin.ask(Method::PUT, "/config", wrong).await;
        assert!(status == 400 && told.to_string().contains(about), "{told}");
    }
    assert_eq!(offers().await, (false, false), "a refused change applies in no part");
    admin.set(json!({"tools": {"policy": null}})).await;
    assert_eq!(offers().await, (true, true));
}
