//! Secrets of a running server, with one in every setting that accepts one: none of them reaches
//! its log, recordings, responses, metrics, files that other users can read, or its child
//! processes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hearken_proto::device::ListenMode;
use hearken_proto::recording::{Content, Recording};
use hearken_test_support::eventually;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts};
use hearken_virtual_device::toolbox::Toolbox;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::person::Person;
use super::recording::{end, hearken, only_file, serve};
use super::voices::SPEECH;
use crate::support::app::Vendors;

/// Start of every secret in these tests.
const SECRET: &str = "sk-hidden-";
const ADMIN_TOKEN: &str = "sk-hidden-admin-token";
const PASSWORD: &str = "sk-hidden-admin-password";

/// The transcript of every utterance.
const ORDER: &str = "call self_get_device_status {}";

/// A configuration with a secret in every setting that accepts one. `program` is a tool server;
/// `socket` is a WebSocket URL.
fn configuration(program: &str, socket: &str) -> String {
    let socket = socket.replace("ws://", "ws://me:sk-hidden-socket@");
    format!(
        r#"
        auth.secret = "sk-hidden-signing-secret"
        auth.admin_token = "{ADMIN_TOKEN}"
        admin.password = "{PASSWORD}"
        gateway.token = "sk-hidden-gateway-token"
        chat.token = "sk-hidden-chat-token"
        museum.token = "sk-hidden-museum-token"
        asr.api_key = "sk-hidden-asr"
        tts.api_key = "sk-hidden-tts"
        vision.api_key = "sk-hidden-vision"
        vision.base_url = "http://me:sk-hidden-vision-password@127.0.0.1:1/v1"
        vision.model = "eyes"
        vision.url = "http://127.0.0.1:1/explain?token=sk-hidden-upload"
        state.url = "http://me:sk-hidden-state-password@127.0.0.1:1/"
        state.token = "sk-hidden-state"
        redis.url = "redis://me:sk-hidden-redis@127.0.0.1:1/0"
        [[llm.fallback]]
        base_url = "http://127.0.0.1:1/v1"
        model = "second"
        api_key = "sk-hidden-fallback"
        [[tools.servers]]
        name = "remote"
        url = "http://127.0.0.1:1/mcp?key=sk-hidden-query"
        bearer = "sk-hidden-bearer"
        headers = {{ X-Key = "sk-hidden-header" }}
        [[tools.servers]]
        name = "socket"
        protocol = "litemcp"
        url = "{socket}"
        headers = {{ X-Key = "sk-hidden-socket-header" }}
        [[tools.servers]]
        name = "program"
        command = "/bin/sh"
        args = ["-c", {program:?}]
        env = {{ ITS_OWN = "sk-hidden-variable" }}
        start_timeout_ms = 1000
        "#
    )
}

/// Starts a server that accepts WebSockets and sends nothing; returns its URL.
async fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            taken.push(tokio_tungstenite::accept_async(stream).await);
        }
    });
    url
}

/// All responses of administrator routes, and some of public routes, as one text.
async fn answers(base: &str) -> String {
    let client = reqwest::Client::new();
    let log_in = json!({"username": "admin", "password": PASSWORD});
    let pair = client.post(format!("{base}/api/admin/login")).json(&log_in).send().await.unwrap();
    let pair: Value = pair.json().await.unwrap();
    let session = pair["access_token"].as_str().expect("the password is right");
    let mut all = String::new();
    let mut ask = async |method: Method, path: &str, token: &str, body: Value| {
        let asked = client.request(method, format!("{base}{path}")).bearer_auth(token).json(&body);
        let answer = asked.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success() || status.as_u16() == 502, "{path}: {status} {text}");
        all.push_str(&format!("{path}: {text}\n"));
    };
    for path in ["config", "sessions", "metrics", "audit"] {
        ask(Method::GET, &format!("/api/admin/{path}"), session, Value::Null).await;
    }
    for path in ["/api/devices", "/api/tools", "/api/tools/servers", "/metrics", "/healthz"] {
        ask(Method::GET, path, ADMIN_TOKEN, Value::Null).await;
    }
    let cooler = json!({"llm.temperature": 0.5});
    ask(Method::PUT, "/api/admin/config", session, cooler).await;
    all
}

/// Fails if the text contains a secret.
fn assert_hidden(what: &str, text: &str, tokens: &[&str]) {
    for (number, line) in text.lines().enumerate() {
        let found = [SECRET].iter().chain(tokens).find(|secret| line.contains(**secret));
        assert_eq!(found, None, "{what}, line {}: {line}", number + 1);
    }
}

/// Fails if the folder or a file in it is readable by other users.
fn assert_private(folder: &Path) {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder), 0o700, "{}", folder.display());
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(!files.is_empty(), "{}", folder.display());
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// The token from the OTA response for this device, and the response.
async fn boot(base: &str, device_id: &str) -> String {
    let asked = reqwest::Client::new().post(format!("{base}/xiaozhi/ota/"));
    let asked = asked.header("Device-Id", device_id).header("Client-Id", "c").json(&json!({}));
    let answer: Value = asked.send().await.unwrap().json().await.unwrap();
    answer["websocket"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn no_secret_leaves_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let program = "env > seen.new; ls -l /proc/$$/fd >> seen.new; mv seen.new seen; exec cat";
    let asr = ListenAiAsr::start(Behaviour::Normal, ORDER).await;
    let vendors = Vendors::with(asr, ListenAiTts::start(Behaviour::Normal).await).await;
    let configuration = configuration(program, &silent_server().await);
    fs::write(path("config.toml"), configuration).unwrap();
    let mut command = hearken(&vendors, folder.path());
    command
        .args(["serve", "--record", "sessions"])
        .env("HEARKEN__LOG__LEVEL", "trace")
        .env("HEARKEN__AUTH__REQUIRED", "always")
        .env("HEARKEN__SERVER__DATA_DIR", path("data"))
        .env("LLM_API_KEY", "sk-hidden-llm")
        .env("LLM_MODEL", "first");
    hearken_outbound::tls::choose_provider();
    let (mut child, url, log) = serve(command).await;
    let base = url.replace("ws://", "http://").replace("/xiaozhi/v1/", "");
    let token = boot(&base, "02:00:00:00:00:77").await;
    assert!(token.len() > 40, "devices get a token: {token}");
    let endpoint = hearken_virtual_device::socket::Endpoint {
        url: url.clone(),
        device_id: "02:00:00:00:00:77".into(),
        client_id: "c".into(),
        token: Some(token.clone()),
        framing: 1,
    };
    let mut person = Person::meet_at(endpoint, Toolbox::default(), ListenMode::Auto).await;
    person.say(&SPEECH).await;
    assert!(!person.answer().await.sentences.is_empty());
    drop(person);
    let told = answers(&base).await;
    eventually("the program's environment", async || path("seen").exists().then_some(())).await;
    end(&mut child).await;
    let log = log.await.unwrap();
    let recorded = only_file(&path("sessions"));
    let recorded = fs::read_to_string(recorded).unwrap();

    assert_hidden("the answers", &told, &[&token]);
    // The log does not contain the words of users either.
    assert_hidden("the log", &log, &[&token, ORDER]);
    assert!(log.contains("\"TRACE\"") || log.contains("\"DEBUG\""), "the log is at its loudest");
    assert_hidden("the recording", &recorded, &[&token]);
    let frames = Recording::parse(&recorded).unwrap().frames;
    let camera = frames.iter().find_map(|frame| match &frame.content {
        Content::Down(json) => json.pointer("/payload/params/capabilities/vision/token"),
        _ => None,
    });
    assert_eq!(camera, Some(&json!("***")), "{recorded}");
    let seen = fs::read_to_string(path("seen")).unwrap();
    assert!(seen.contains("ITS_OWN=sk-hidden-variable") && seen.contains("PATH="), "{seen}");
    let others = seen.replace("ITS_OWN=sk-hidden-variable", "");
    assert_hidden("the environment of a program", &others, &[]);
    let inherited =
        others.lines().find(|line| line.starts_with("HEARKEN") || line.contains("socket:"));
    assert_eq!(inherited, None, "{seen}");
    assert_private(&path("data"));
    assert_private(&path("sessions"));
}

#[tokio::test]
async fn the_configuration_is_shown_without_any_secret() {
    let folder = tempfile::tempdir().unwrap();
    let vendors = Vendors::start().await;
    let configuration = configuration("cat", "ws://127.0.0.1:1/");
    fs::write(folder.path().join("config.toml"), configuration).unwrap();
    let mut command = hearken(&vendors, folder.path());
    command.args(["serve", "--check-config"]).env("LLM_API_KEY", "sk-hidden-llm");
    let output = command.output().await.unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("model = \"second\""), "{shown}");
    assert_hidden("the configuration", &shown, &[]);
}
