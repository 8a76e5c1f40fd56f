//! Tool servers that are added, switched and removed at run time, and sources that are disabled for
//! devices and sessions: over the REST API, with real servers, across restarts.

use std::path::Path;
use std::time::{Duration, Instant};

use hearken::config::Config;
use hearken_ports::store::{KeptServer, ToolStore as _};
use hearken_proto::device::ListenMode;
use hearken_store::SqlStore;
use hearken_test_support::peers::{Listening, Peers};
use hearken_test_support::tool_sources::{address, child};
use hearken_test_support::{eventually, free_port};
use hearken_tool_sources::ToolServer;
use reqwest::Method;
use serde_json::{Value, json};

use super::{called, listed};
use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

/// Timeout for a peer: interpreters start slowly on a busy machine.
const PEER_WITHIN: Duration = Duration::from_secs(90);

/// Sends a request; returns the status and the JSON body.
async fn ask(server: &TestServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let asked = reqwest::Client::new().request(method, server.http_url(path)).json(&body);
    let answer = asked.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

async fn add(server: &TestServer, settings: Value) -> (u16, Value) {
    ask(server, Method::POST, "/api/tools/servers", settings).await
}

/// Status and message of a refused request.
fn refused(answered: (u16, Value)) -> (u16, String) {
    let (status, answer) = answered;
    (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
}

async fn remove(server: &TestServer, name: &str) -> (u16, Value) {
    ask(server, Method::DELETE, &format!("/api/tools/servers/{name}"), json!({})).await
}

async fn switch(server: &TestServer, name: &str, enabled: bool) -> (u16, Value) {
    let path = format!("/api/tools/servers/{name}/enabled");
    ask(server, Method::PUT, &path, json!({"enabled": enabled})).await
}

/// Waits until the source of this name is in this state; returns the source.
async fn until(server: &TestServer, name: &str, state: &str) -> Value {
    let waiting = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        loop {
            ticks.tick().await;
            let all = listed(server).await;
            if let Some(found) = all.into_iter().find(|s| s["name"] == name && s["state"] == state)
            {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(PEER_WITHIN, waiting).await;
    found.unwrap_or_else(|_| panic!("{name} is never {state}"))
}

/// A server with its data in this folder.
async fn start(vendors: &Vendors, folder: &Path, tweak: impl FnOnce(&mut Config)) -> TestServer {
    TestServer::start(vendors, |config| {
        config.server.data_dir = folder.to_owned();
        tweak(config);
    })
    .await
}

/// The reference server of these tests, over HTTP.
fn pages(peers: &Peers) -> Listening {
    let port = free_port();
    let number = port.to_string();
    Listening::start(peers.pages(&["--pages", "10", "--port", &number]), port)
}

#[tokio::test]
async fn an_added_server_works_at_once_and_after_a_restart() {
    let Some(peers) = Peers::installed() else { return };
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let peer = pages(&peers);
    let server = start(&vendors, folder.path(), |_| {}).await;
    let settings = json!({"name": "pages", "url": peer.url(), "headers": {"X-Key": "sk-1"},
        "bearer": "sk-2", "start_timeout_ms": 60_000});
    let (status, shown) = add(&server, settings.clone()).await;
    assert_eq!((status, &shown["origin"], &shown["enabled"]), (201, &json!("api"), &json!(true)));
    let secret = |shown: &Value| shown.to_string().contains("sk-");
    assert!(!secret(&shown) && shown["settings"]["bearer"] == "***", "{shown}");
    let source = until(&server, "pages", "ready").await;
    assert_eq!((&source["origin"], source["tools"].as_array().unwrap().len()), (&json!("api"), 25));
    let said = called(&server, "pages", "echo", json!({"text": "hi"})).await;
    assert_eq!(said, (200, "pages: hi".into()));
    let (status, told) = refused(add(&server, settings).await);
    assert!(status == 409 && told.contains("`pages` is in use by another source"), "{told}");

    let (status, shown) = switch(&server, "pages", false).await;
    assert_eq!((status, &shown["state"]), (200, &json!("disabled")));
    let (status, told) = called(&server, "pages", "echo", json!({"text": "hi"})).await;
    assert!(status == 503 && told.contains("it is switched off"), "{told}");
    server.stop().await;

    let server = start(&vendors, folder.path(), |_| {}).await;
    until(&server, "pages", "disabled").await;
    assert_eq!(switch(&server, "pages", true).await.0, 200);
    until(&server, "pages", "ready").await;
    server.stop().await;

    let server = start(&vendors, folder.path(), |_| {}).await;
    until(&server, "pages", "ready").await;
    let (_, all) = ask(&server, Method::GET, "/api/tools/servers", json!({})).await;
    assert!(!secret(&all) && all["servers"][0]["name"] == "pages", "{all}");
    assert_eq!(remove(&server, "pages").await.0, 204);
    assert_eq!(listed(&server).await, Vec::<Value>::new());
    let (status, told) = refused(remove(&server, "pages").await);
    assert!(status == 404 && told.contains("there is no tool server `pages`"), "{told}");
    server.stop().await;
    let server = start(&vendors, folder.path(), |_| {}).await;
    let (_, all) = ask(&server, Method::GET, "/api/tools/servers", json!({})).await;
    assert_eq!(all, json!({"servers": []}));
    // Changes wait until the store has been read, so that this one sees the removal.
    assert_eq!(switch(&server, "pages", true).await.0, 404);
}

#[tokio::test]
async fn removing_a_server_cancels_its_calls_and_ends_its_program() {
    let Some(peers) = Peers::installed() else { return };
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (command, args) = peers.pages(&["--pages", "10"]);
    let settings = json!({"name": "pages", "command": command, "args": args, "timeout_ms": 60_000,
            "start_timeout_ms": 60_000});
    let server = start(&vendors, folder.path(), |_| {}).await;
    let (status, told) = refused(add(&server, settings.clone()).await);
    assert!(status == 403 && told.contains("set `tools.allow_commands_over_api`"), "{told}");
    server.stop().await;

    let allow = |config: &mut Config| config.tools.allow_commands_over_api = true;
    let server = start(&vendors, folder.path(), allow).await;
    assert_eq!(add(&server, settings).await.0, 201);
    until(&server, "pages", "ready").await;
    let (_, process) = called(&server, "pages", "process", json!({})).await;
    let alive = || Path::new("/proc").join(&process).exists();
    assert!(alive(), "{process}");
    let begun = Instant::now();
    let hanging = called(&server, "pages", "hangs", json!({"seconds": 600}));
    let removing = async {
        // The call is in progress once the program is busy with it; meanwhile it answers others.
        called(&server, "pages", "echo", json!({"text": "meanwhile"})).await;
        remove(&server, "pages").await
    };
    let (hung, (status, _)) = tokio::join!(hanging, removing);
    assert_eq!((hung.0, status), (503, 204), "{}", hung.1);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(!alive(), "its program has ended at its removal");
    server.stop().await;
}

#[tokio::test]
async fn an_added_program_that_may_no_longer_run_is_listed_and_can_be_removed() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let allow = |config: &mut Config| config.tools.allow_commands_over_api = true;
    let server = start(&vendors, folder.path(), allow).await;
    for (name, enabled) in [("busy", true), ("idle", false)] {
        let settings =
            json!({"name": name, "command": "sleep", "args": ["600"], "enabled": enabled});
        assert_eq!(add(&server, settings).await.0, 201);
    }
    server.stop().await;
    let server = start(&vendors, folder.path(), |_| {}).await;
    let says = "`tools.allow_commands_over_api`";
    for name in ["busy", "idle"] {
        let shown = until(&server, name, "failed").await;
        assert!(shown["reason"].as_str().unwrap().contains(says), "{shown}");
        assert_eq!((&shown["origin"], &shown["kind"]), (&json!("api"), &json!("stdio")));
        let path = format!("/api/tools/servers/{name}");
        let (_, shown) = ask(&server, Method::GET, &path, json!({})).await;
        assert_eq!(shown["settings"]["command"], "sleep", "{shown}");
        for enabled in [true, false] {
            let (status, told) = refused(switch(&server, name, enabled).await);
            assert!(status == 400 && told.contains(says), "{told}");
        }
        let another = json!({"name": name, "url": "http://127.0.0.1:1/mcp"});
        assert_eq!(add(&server, another).await.0, 409, "it must be removed first");
        assert_eq!(remove(&server, name).await.0, 204);
    }
    assert!(listed(&server).await.is_empty());
    server.stop().await;
    let server = start(&vendors, folder.path(), allow).await;
    // Changes wait until the store has been read.
    assert_eq!(switch(&server, "busy", true).await.0, 404);
    assert!(listed(&server).await.is_empty(), "nor is it in the store");
}

#[tokio::test]
async fn what_another_instance_has_just_changed_is_neither_undone_nor_overwritten() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&vendors, folder.path(), |_| {}).await;
    let far = |name: &str| {
        let url = format!("http://127.0.0.1:{}/mcp", free_port());
        json!({"name": name, "url": url, "enabled": false})
    };
    assert_eq!(add(&server, far("far")).await.0, 201);
    // The other instance has the same store.
    let others = SqlStore::file(&folder.path().join("hearken.db")).unwrap();
    assert!(others.forget_tool_server("far").await.unwrap());
    let (status, told) = refused(switch(&server, "far", true).await);
    assert_eq!(status, 404, "{told}");
    assert!(others.tool_servers().await.unwrap().is_empty());
    assert!(listed(&server).await.is_empty());
    let text = far("near").to_string();
    let settings = Some(hearken_base::Secret::new(text));
    let near = KeptServer { name: "near".into(), settings, enabled: false };
    assert!(others.add_tool_server(&near).await.unwrap());
    let (status, told) = refused(add(&server, far("near")).await);
    assert_eq!(status, 409, "{told}");
    assert_eq!(others.tool_servers().await.unwrap(), [near]);
    until(&server, "near", "disabled").await;
    others.shut().await;
}

#[tokio::test]
async fn a_configured_server_can_be_switched_but_not_removed() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let nobody = || vec![address("far", format!("http://127.0.0.1:{}/mcp", free_port()))];
    let configured = |config: &mut Config| config.tools.servers = nobody();
    let server = start(&vendors, folder.path(), configured).await;
    until(&server, "far", "failed").await;
    let (status, told) = refused(remove(&server, "far").await);
    assert!(status == 409 && told.contains("remove it there, or disable it"), "{told}");
    assert_eq!(switch(&server, "far", false).await.0, 200);
    server.stop().await;
    let server = start(&vendors, folder.path(), configured).await;
    let shown = until(&server, "far", "disabled").await;
    assert_eq!(shown["origin"], "configuration");
    assert_eq!(switch(&server, "far", true).await.0, 200);
    server.stop().await;
    let off = |config: &mut Config| {
        let far = nobody().remove(0);
        config.tools.servers = vec![ToolServer { enabled: false, ..far }];
    };
    let server = start(&vendors, folder.path(), off).await;
    until(&server, "far", "failed").await;
}

#[tokio::test]
async fn invalid_settings_are_refused_with_their_remedy() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&vendors, folder.path(), |_| {}).await;
    let url = "http://127.0.0.1:1/mcp";
    for (settings, status, says) in [
        (json!({"url": url}), 400, "`name` must have 1 to 64 characters"),
        (json!({"name": "a", "url": "ftp://a"}), 400, "must be http:// or https://"),
        (json!({"name": "a", "url": url, "timeout_ms": 1}), 400, "use 100 to 600000"),
        (json!({"name": "a", "url": url, "colour": 1}), 400, "colour"),
        (json!({"name": "builtin", "url": url}), 400, "may not be one of"),
        (json!({"name": "State", "url": url}), 400, "may not be one of"),
        (json!({"name": "client", "url": url}), 400, "may not be one of"),
        (json!({"name": "a", "url": url, "bearer_env": "HOME"}), 400, "as `bearer`"),
        (json!({"name": "a", "url": url, "bearer_file": "/etc/passwd"}), 400, "as `bearer`"),
        (json!({"name": "a", "command": "sh"}), 403, "`tools.allow_commands_over_api`"),
        (json!([1]), 400, "cannot be read"),
    ] {
        let (answered, told) = refused(add(&server, settings.clone()).await);
        assert!(answered == status && told.contains(says), "{settings}: {answered} {told}");
    }
    let path = "/api/tools/servers/a/enabled";
    assert_eq!(ask(&server, Method::PUT, path, json!({"on": true})).await.0, 400);
    assert_eq!(ask(&server, Method::PATCH, "/api/tools/servers", json!({})).await.0, 405);
    assert!(listed(&server).await.is_empty());
    server.stop().await;
    let broken = |config: &mut Config| {
        config.store.url = hearken_base::Secret::new("sqlite:///proc/none/x.db");
    };
    let server = start(&vendors, folder.path(), broken).await;
    let (status, told) = refused(add(&server, json!({"name": "a", "url": url})).await);
    assert_eq!(status, 503, "{told}");
    assert!(listed(&server).await.is_empty(), "a server that cannot be stored is not started");
}

/// The tools that the model was offered in the last turn.
fn offered(vendors: &Vendors) -> Vec<String> {
    let seen = vendors.llm.seen().texts;
    let last: Value = serde_json::from_str(seen.last().expect("the model was asked")).unwrap();
    let tools = last["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|t| Some(t["function"]["name"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn a_running_conversation_gets_every_change_at_its_next_turn() {
    let Some(peers) = Peers::installed() else { return };
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let peer = pages(&peers);
    let server = start(&vendors, folder.path(), |_| {}).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    let (_, devices) = ask(&server, Method::GET, "/api/devices", json!({})).await;
    let id = devices["devices"][0]["device_id"].as_str().unwrap().to_owned();
    let has = async |person: &mut Person, when: &str, expected: bool| {
        person.say(&SPEECH).await;
        assert!(!person.answer().await.sentences.is_empty(), "{when}");
        let offered = offered(&vendors);
        assert_eq!(offered.iter().any(|name| name == "numbers"), expected, "{when}: {offered:?}");
    };
    has(&mut person, "before", false).await;
    let settings = json!({"name": "pages", "url": peer.url(), "start_timeout_ms": 60_000});
    assert_eq!(add(&server, settings.clone()).await.0, 201);
    until(&server, "pages", "ready").await;
    has(&mut person, "added", true).await;

    let path = format!("/api/devices/{}/tools", id.to_uppercase());
    let put = async |off: Value| ask(&server, Method::PUT, &path, json!({"off": off})).await;
    assert_eq!(put(json!(["pages"])).await.0, 404, "the store has no such device");
    let ota = reqwest::Client::new().post(server.http_url("/xiaozhi/ota/")).json(&json!({}));
    let ota = ota.header("Device-Id", &id).header("Client-Id", "c").send().await.unwrap();
    assert_eq!(ota.status(), 200);
    let (status, shown) = put(json!(["pages", "pages"])).await;
    let expected = json!({"device_id": id, "agent": "default", "off": ["pages"],
        "sources": [{"name": "pages", "kind": "http", "on": false}]});
    assert_eq!((status, shown), (200, expected.clone()));
    assert_eq!(ask(&server, Method::GET, &path, json!({})).await, (200, expected));
    has(&mut person, "off for the device", false).await;
    for wrong in [json!([""]), json!("pages"), json!([1]), json!(vec!["x"; 65])] {
        assert_eq!(put(wrong.clone()).await.0, 400, "{wrong}");
    }
    assert_eq!(put(json!([])).await.0, 200);
    has(&mut person, "on again", true).await;

    assert_eq!(remove(&server, "pages").await.0, 204);
    has(&mut person, "removed", false).await;
    let mut for_another = settings;
    for_another["devices"] = json!(["02:aa:aa:aa:aa:aa"]);
    assert_eq!(add(&server, for_another.clone()).await.0, 201);
    until(&server, "pages", "ready").await;
    has(&mut person, "for another device", false).await;
    assert_eq!(remove(&server, "pages").await.0, 204);
    for_another["devices"] = json!([id.to_uppercase()]);
    assert_eq!(add(&server, for_another).await.0, 201);
    until(&server, "pages", "ready").await;
    has(&mut person, "for this device", true).await;
    drop(person);
    server.stop().await;
}

#[tokio::test]
async fn disabled_sources_of_a_device_survive_a_restart_until_its_deletion() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let off = |config: &mut Config| {
        config.tools.servers = vec![child("a", ("true".into(), Vec::new()))];
        config.tools.servers[0].enabled = false;
    };
    let server = start(&vendors, folder.path(), off).await;
    let ota = reqwest::Client::new().post(server.http_url("/xiaozhi/ota/")).json(&json!({}));
    let ota = ota.header("Device-Id", "02:00:00:00:aa:01").header("Client-Id", "c");
    assert_eq!(ota.send().await.unwrap().status(), 200);
    let path = "/api/devices/02:00:00:00:aa:01/tools";
    let (status, _) = ask(&server, Method::PUT, path, json!({"off": ["a"]})).await;
    assert_eq!(status, 200);
    server.stop().await;
    let server = start(&vendors, folder.path(), off).await;
    let (status, shown) = ask(&server, Method::GET, path, json!({})).await;
    assert_eq!((status, &shown["off"]), (200, &json!(["a"])));
    assert_eq!(shown["sources"], json!([{"name": "a", "kind": "stdio", "on": false}]));
    assert_eq!(
        ask(&server, Method::DELETE, "/api/devices/02:00:00:00:aa:01", json!({})).await.0,
        204
    );
    assert_eq!(ask(&server, Method::GET, path, json!({})).await.0, 404);
}

/// The session of each connected device.
async fn sessions(server: &TestServer) -> Vec<String> {
    let (_, all) = ask(server, Method::GET, "/api/devices", json!({})).await;
    let all = all["devices"].as_array().unwrap().iter();
    all.filter_map(|d| Some(d["session_id"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn a_source_can_be_disabled_for_a_running_session() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let with_time = |config: &mut Config| {
        config.tools.builtin.enabled = vec!["get_current_time".into()];
    };
    let server = start(&vendors, folder.path(), with_time).await;
    let mut first = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    let [session] = sessions(&server).await.try_into().unwrap();
    let mut second = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    let has = async |person: &mut Person, when: &str, expected: bool| {
        person.say(&SPEECH).await;
        assert!(!person.answer().await.sentences.is_empty(), "{when}");
        let offered = offered(&vendors);
        let found = offered.iter().any(|name| name == "get_current_time");
        assert_eq!(found, expected, "{when}: {offered:?}");
    };
    has(&mut first, "before", true).await;
    let path = format!("/api/sessions/{session}/tools");
    let get = async || ask(&server, Method::GET, &path, json!({})).await;
    let put = async |off: Value| ask(&server, Method::PUT, &path, json!({"off": off})).await;
    let (status, before) = get().await;
    assert_eq!((status, &before["session_id"], &before["off"]), (200, &json!(session), &json!([])));
    let (status, shown) = put(json!(["builtin"])).await;
    let sources = json!([{"name": "builtin", "kind": "builtin", "on": false}]);
    assert_eq!((status, &shown["off"], &shown["sources"]), (200, &json!(["builtin"]), &sources));
    assert_eq!(get().await, (200, shown));
    has(&mut first, "off for the session", false).await;
    has(&mut second, "another session", true).await;
    assert_eq!(put(json!([])).await.0, 200);
    has(&mut first, "on again", true).await;

    // The setting of the session overrides that of its device.
    let id = before["device_id"].as_str().unwrap();
    let ota = reqwest::Client::new().post(server.http_url("/xiaozhi/ota/")).json(&json!({}));
    let ota = ota.header("Device-Id", id).header("Client-Id", "c").send().await.unwrap();
    assert_eq!(ota.status(), 200);
    let of_device = format!("/api/devices/{id}/tools");
    let off = json!({"off": ["builtin"]});
    assert_eq!(ask(&server, Method::PUT, &of_device, off).await.0, 200);
    has(&mut first, "off for its device", true).await;

    assert_eq!(put(json!([""])).await.0, 400);
    let none = "/api/sessions/00000000-0000-4000-8000-000000000000/tools";
    let (status, told) = refused(ask(&server, Method::PUT, none, json!({"off": []})).await);
    assert!(status == 404 && told.contains("no session of this id is running"), "{told}");
    drop(first);
    let gone = || async { (get().await.0 == 404).then_some(()) };
    eventually("the session is forgotten", gone).await;
    assert_eq!(put(json!(["builtin"])).await.0, 404);
    drop(second);
    server.stop().await;
}
