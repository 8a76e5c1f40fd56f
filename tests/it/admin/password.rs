//! The administrator's password over real sockets and by command: set first with the code in the
//! log, changed, and reset.

use std::process::Stdio;

use hearken_test_support::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{Admin, PASSWORD, ask_at};
use crate::support::app::{TestServer, Vendors};
use crate::support::process::{ServerProcess, program};

const FIRST: &str = "correct horse battery";
const SECOND: &str = "第二个密码是这个";

async fn ask(
    server: &ServerProcess,
    method: Method,
    path: &str,
    token: &str,
    body: Value,
) -> (u16, Value) {
    ask_at(server.http_url(path), method, token, body).await
}

/// The setup code that is logged after this offset of the log.
async fn code(server: &ServerProcess, behind: usize) -> String {
    eventually("the code is logged", async || {
        let text = server.log();
        let (_, rest) = text[behind..].split_once(r#""code":""#)?;
        rest.split('"').next().map(str::to_owned)
    })
    .await
}

async fn chosen(server: &ServerProcess) -> Value {
    let (status, told) = ask(server, Method::GET, "/api/admin/setup", "", Value::Null).await;
    assert_eq!(status, 200, "{told}");
    told["password"].clone()
}

async fn log_in(server: &ServerProcess, password: &str) -> u16 {
    let body = json!({"username": "admin", "password": password});
    ask(server, Method::POST, "/api/admin/login", "", body).await.0
}

/// Runs `hearken password` with this input on the server's store.
async fn command(server: &ServerProcess, args: &[&str], input: &str) -> (Option<i32>, String) {
    let mut child = Command::new(program())
        .arg("password")
        .args(args)
        .env("HEARKEN__SERVER__DATA_DIR", server.folder().join("data"))
        .current_dir(server.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), text)
}

#[tokio::test]
async fn the_password_is_set_with_the_code_then_changed_and_reset() {
    let vendors = Vendors::start().await;
    let env = [("HEARKEN__LOG__FORMAT", "json"), ("HEARKEN__AUTH__ADMIN_TOKEN", PASSWORD)];
    let mut server = ServerProcess::start(&vendors, &env).await;
    assert_eq!(chosen(&server).await, "none");
    let code = code(&server, 0).await;
    let setup = async |server: &ServerProcess, code: &str, password: &str| {
        let body = json!({"code": code, "password": password});
        ask(server, Method::POST, "/api/admin/setup", "", body).await
    };
    assert_eq!(setup(&server, &code, "short").await.0, 400);
    assert_eq!(setup(&server, "0000-000x", FIRST).await.0, 401);
    assert_eq!((chosen(&server).await, log_in(&server, FIRST).await), (json!("none"), 401));
    let (status, pair) = setup(&server, &code, FIRST).await;
    assert_eq!(status, 200, "{pair}");
    let token = pair["access_token"].as_str().unwrap();
    let (status, _) = ask(&server, Method::GET, "/api/admin/config", token, Value::Null).await;
    assert_eq!((status, chosen(&server).await), (200, json!("set")));
    assert_eq!(setup(&server, &code, SECOND).await.0, 409, "the code is valid once");
    assert_eq!((log_in(&server, PASSWORD).await, log_in(&server, FIRST).await), (401, 200));
    // The admin token still opens the same routes.
    assert_eq!(ask(&server, Method::GET, "/api/devices", PASSWORD, Value::Null).await.0, 200);

    let change = json!({"current": FIRST, "password": SECOND});
    let path = "/api/admin/password";
    assert_eq!(ask(&server, Method::POST, path, "", change.clone()).await.0, 401);
    let (status, changed) = ask(&server, Method::POST, path, token, change).await;
    assert_eq!(status, 200, "{changed}");
    let (status, _) = ask(&server, Method::GET, "/api/admin/config", token, Value::Null).await;
    assert_eq!(status, 401, "the session of the former password has ended");

    a_restart_keeps_it_and_a_command_replaces_it(&mut server).await;
    server.terminate().await;
}

/// The second password survives a restart, which logs no code; a forgotten password is replaced by
/// a command on the machine.
async fn a_restart_keeps_it_and_a_command_replaces_it(server: &mut ServerProcess) {
    server.terminate().await;
    let before = server.log().len();
    server.start_again().await;
    assert_eq!((chosen(server).await, log_in(server, SECOND).await), (json!("set"), 200));
    assert!(!server.log()[before..].contains(r#""code":""#));

    let (status, told) = command(server, &[], "another, by command\n").await;
    assert_eq!((status, log_in(server, "another, by command").await), (Some(0), 200), "{told}");
    let (status, told) = command(server, &[], "short\n").await;
    assert!(status == Some(2) && told.contains("8 to 128 characters"), "{told}");
    let (status, told) = command(server, &["--remove"], "").await;
    assert_eq!((status, log_in(server, PASSWORD).await), (Some(0), 200), "{told}");
    let token = ask(
        server,
        Method::POST,
        "/api/admin/login",
        "",
        json!({"username": "admin", "password": PASSWORD}),
    )
    .await
    .1;
    let token = token["access_token"].as_str().unwrap().to_owned();
    let (_, audit) = ask(server, Method::GET, "/api/admin/audit", &token, Value::Null).await;
    let what: Vec<_> =
        audit["entries"].as_array().unwrap().iter().map(|e| e["what"].as_str().unwrap()).collect();
    assert_eq!(what.iter().filter(|what| what.starts_with("password")).count(), 4, "{what:?}");
    let all = format!("{} {audit}", server.log());
    for secret in [FIRST, SECOND, "another, by command", "argon2id"] {
        assert!(!all.contains(secret), "{secret} is in the log or in the audit");
    }
}

/// A stranger with a wrong code gets the same answer with a password as without.
async fn the_internet_does_not_learn_whether_there_is_one(server: &TestServer) {
    let body = json!({"code": "1234-5678", "password": FIRST});
    let asked = reqwest::Client::new().post(server.http_url("/api/admin/setup")).json(&body);
    let refused = asked.header("X-Forwarded-For", "203.0.113.9").send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let told = refused.text().await.unwrap();
    assert!(told.contains("the code is wrong or expired"), "{told}");
}

#[tokio::test]
async fn a_configured_password_cannot_be_set_or_changed() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| {
        config.admin.password = hearken_base::Secret::new(PASSWORD);
        config.auth.required = hearken::config::AuthRequired::Always;
    })
    .await;
    let told = super::ask(&admin.server, Method::GET, "/api/admin/setup", "", Value::Null).await;
    assert_eq!(told, (200, json!({"password": "configured"})));
    let body = json!({"code": "1234-5678", "password": FIRST});
    let told = super::ask(&admin.server, Method::POST, "/api/admin/setup", "", body).await;
    assert_eq!(told.0, 409, "{}", told.1);
    let body = json!({"current": PASSWORD, "password": FIRST});
    let told =
        super::ask(&admin.server, Method::POST, "/api/admin/password", &admin.token, body).await;
    let about = told.1["error"]["message"].as_str().unwrap();
    assert!(told.0 == 409 && about.contains("`admin.password`"), "{about}");
    the_internet_does_not_learn_whether_there_is_one(&admin.server).await;
    // The limit is ten attempts a minute, as for logins.
    let body = json!({"code": "x", "password": FIRST});
    let mut last = 0;
    for _ in 0..12 {
        last =
            super::ask(&admin.server, Method::POST, "/api/admin/setup", "", body.clone()).await.0;
    }
    assert_eq!(last, 429);
    admin.server.stop().await;
}
