//! Chat sessions are created, listed, archived, deleted and restored: chapters 3 and 5.1.2. Not for
//! their messages.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearken_base::tasks::Tasks;
use hearken_chat::{Asker, ChatService, ChatSettings, HeldCalls, PublishedEvents, TouchedSessions};
use hearken_cluster::{LocalBus, LocalLocks};
use hearken_dialogue::testkit::ScriptedLlm;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{ChatStore as _, StateError};
use hearken_providers::state::{StateConfig, state_server};
use hearken_store::SqlStore;
use hearken_test_support::eventually;
use hearken_test_support::worlds::Worlds;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{SEED, Table, code};

#[actix_web::test]
async fn deleted_sessions_and_their_worlds_are_purged_after_retention() {
    let worlds = Worlds::start(SEED);
    let state = StateConfig { url: worlds.url.clone(), ..StateConfig::default() };
    let state = state_server(&state).unwrap();
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let forgot = Arc::<Mutex<Vec<Timestamp>>>::default();
    let service = |purge_after| ChatService {
        llm: Arc::new(ScriptedLlm(Arc::default())),
        store: Arc::clone(&store) as _,
        state: state.clone(),
        events: Arc::new(LocalBus::new()),
        locks: Arc::new(LocalLocks::new()),
        tools: Arc::new(|_| Vec::new()),
        describer: None,
        now: Arc::new(|| "noon".into()),
        settings: ChatSettings { purge_after, ..ChatSettings::default() }.into(),
        tasks: Tasks::new(8, Duration::ZERO, CancellationToken::new()),
        held: HeldCalls::default(),
        touched: TouchedSessions::default(),
        published: PublishedEvents::default(),
        roles: Arc::new(|_| None),
        turn_journal: TurnJournal::default(),
        forget_calls: {
            let forgot = Arc::clone(&forgot);
            Arc::new(move |until| forgot.lock().unwrap().push(until))
        },
    };
    let later = service(Duration::from_secs(60));
    let now = service(Duration::ZERO);
    let wanted = json!({"name": "n", "creator_id": "c"});
    let make = async || {
        now.create(serde_json::from_value(wanted.clone()).unwrap(), &Asker::Anybody)
            .await
            .unwrap()
            .id
    };
    let stays = make().await;
    let goes = make().await;
    now.delete(&goes).await.unwrap();
    let deleted = store.session(&goes).await.unwrap().unwrap().updated_at;
    assert_eq!(later.purge().await.unwrap(), 0, "it can be restored");
    assert_eq!(*forgot.lock().unwrap(), []);
    // A session that was deleted in the same millisecond is purged in the next one.
    eventually("it is purged", || async { (now.purge().await.unwrap() == 1).then_some(()) }).await;
    assert!(store.session(&goes).await.unwrap().is_none());
    assert_eq!(*forgot.lock().unwrap(), [deleted], "its words are in earlier calls to services");
    let world = state.as_ref().unwrap();
    assert!(matches!(world.state(&goes).await, Err(StateError::Unknown(_))));
    assert!(world.state(&stays).await.is_ok() && now.session(&stays).await.is_ok());
}

#[actix_web::test]
async fn a_session_goes_through_its_states() {
    let table = Table::start().await;
    let session = table.session().await;
    let (_, shown) = session.get("").await;
    for (field, value) in [
        ("id", json!(session.id)),
        ("name", json!("失落的地牢")),
        ("creator_id", json!("user-123")),
        ("dm_user_id", json!("user-123")),
        ("status", json!("active")),
        ("max_players", json!(5)),
        ("players", json!([])),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    for field in ["created_at", "updated_at", "last_access_at"] {
        assert!(shown[field].as_str().unwrap().ends_with('Z'), "{field}");
    }
    session.say("hello").await;
    let told = session.post("/archive", Value::Null).await;
    assert_eq!(told, (200, json!({"message": "Session archived"})));
    let talk = || async { code(session.post("/chat", json!({"message": "hi"})).await) };
    assert_eq!(talk().await, (409, "CONFLICT".into()));
    assert_eq!(session.get("").await.1["status"], "archived", "it is still stored");
    let told = session.post("/restore", Value::Null).await;
    assert_eq!(told, (200, json!({"message": "Session restored"})));
    session.say("again").await;
    let told = table.ask(Method::DELETE, &session.path(""), None).await;
    assert_eq!(told, (200, json!({"message": "Session deleted"})));
    let gone = (404, "SESSION_NOT_FOUND".to_owned());
    assert_eq!(code(session.get("").await), gone);
    assert_eq!(code(session.get("/messages").await), gone);
    assert_eq!(code(session.get("/state").await), gone);
    assert_eq!(talk().await, gone);
    assert_eq!(code(session.post("/archive", Value::Null).await), gone);
    assert_eq!(code(table.ask(Method::DELETE, &session.path(""), None).await), gone);
    assert_eq!(session.post("/restore", Value::Null).await.0, 200, "a deleted one too");
    assert_eq!(session.said().await.len(), 4, "nothing is lost");
    session.say("and again").await;
    table.server.stop().await;
}

#[actix_web::test]
async fn sessions_are_found_by_person_and_status_a_page_at_a_time() {
    let table = Table::start().await;
    let make = async |creator: &str, more: Value| {
        let mut wanted = json!({"name": "n", "creator_id": creator});
        wanted.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        table.post("/api/sessions", wanted).await.1["session_id"].as_str().unwrap().to_owned()
    };
    let a = make("ann", json!({})).await;
    let b = make("ann", json!({})).await;
    let c = make("bob", json!({"players": ["ann"]})).await;
    let d = make("bob", json!({"dm_user_id": "ann"})).await;
    let e = make("bob", json!({})).await;
    table.post(&format!("/api/sessions/{b}/archive"), Value::Null).await;
    table.ask(Method::DELETE, &format!("/api/sessions/{e}"), None).await;
    let list = async |query: &str| {
        let (status, told) = table.get(&format!("/api/sessions{query}")).await;
        assert_eq!(status, 200, "{told}");
        let ids = told["sessions"].as_array().unwrap().iter();
        let mut ids: Vec<String> = ids.map(|s| s["id"].as_str().unwrap().into()).collect();
        ids.sort();
        (ids, told["total"].as_u64().unwrap())
    };
    let sorted = |ids: &[&String]| {
        let mut ids: Vec<String> = ids.iter().map(|id| (*id).clone()).collect();
        ids.sort();
        ids
    };
    assert_eq!(list("").await, (sorted(&[&a, &b, &c, &d]), 4), "not the deleted one");
    assert_eq!(list("?user_id=ann").await, (sorted(&[&a, &b, &c, &d]), 4));
    assert_eq!(list("?user_id=bob").await, (sorted(&[&c, &d]), 2));
    assert_eq!(list("?user_id=nobody").await, (vec![], 0));
    assert_eq!(list("?user_id=ann&status=active").await, (sorted(&[&a, &c, &d]), 3));
    assert_eq!(list("?status=archived").await, (sorted(&[&b]), 1));
    assert_eq!(list("?status=deleted").await, (sorted(&[&e]), 1));
    let (first, total) = list("?limit=3").await;
    let (rest, _) = list("?limit=3&offset=3").await;
    assert_eq!((first.len(), rest.len(), total), (3, 1, 4));
    assert!(!first.contains(&rest[0]));
    table.post(&format!("/api/sessions/{a}/chat"), json!({"message": "hi"})).await;
    assert_eq!(list("?limit=1").await.0, [a], "the one used last comes first");
    let long = format!("?user_id={}", "x".repeat(129));
    for wrong in [
        "?status=asleep",
        "?limit=0",
        "?limit=201",
        "?limit=x",
        "?offset=-1",
        "?user_id=",
        "?user_id",
        "?user_id=%20",
        "?user_id=a%00b",
        &long,
        "?status=",
        "?limit=",
        "?offset=%20",
    ] {
        let told = table.get(&format!("/api/sessions{wrong}")).await;
        assert_eq!(code(told), (400, "INVALID_REQUEST".into()), "{wrong}");
    }
    table.server.stop().await;
}

#[actix_web::test]
async fn blanks_around_a_user_name_are_ignored() {
    let table = Table::start().await;
    let wanted = json!({"name": " n ", "creator_id": " ann lee\t", "dm_user_id": " bob", "players": ["cid "]});
    let (status, made) = table.post("/api/sessions", wanted).await;
    assert_eq!((status, &made["creator_id"], &made["name"]), (201, &json!("ann lee"), &json!("n")));
    for user in ["ann%20lee", "%20ann+lee%20", "bob", "cid", "cid%20"] {
        let (_, told) = table.get(&format!("/api/sessions?user_id={user}")).await;
        assert_eq!(told["total"], 1, "{user}");
    }
    let session = format!("/api/sessions/{}", made["session_id"].as_str().unwrap());
    for blank in ["/messages?limit=", "/messages?before=%20", "/ws?types=", "/ws?types=a,,b"] {
        let told = table.get(&format!("{session}{blank}")).await;
        assert_eq!(code(told), (400, "INVALID_REQUEST".into()), "{blank}");
    }
    table.server.stop().await;
}

#[actix_web::test]
async fn invalid_requests_are_refused() {
    let table = Table::start().await;
    let long = "x".repeat(129);
    for wrong in [
        json!({}),
        json!({"name": "n"}),
        json!({"creator_id": "c"}),
        json!({"name": "", "creator_id": "c"}),
        json!({"name": long, "creator_id": "c"}),
        json!({"name": 5, "creator_id": "c"}),
        json!({"name": "n", "creator_id": "c", "max_players": 0}),
        json!({"name": "n", "creator_id": "c", "max_players": -1}),
        json!({"name": "n", "creator_id": "c", "max_players": 1, "players": ["a", "b"]}),
        json!([]),
    ] {
        let told = table.post("/api/sessions", wrong.clone()).await;
        assert_eq!(code(told), (400, "INVALID_REQUEST".into()), "{wrong}");
    }
    assert_eq!(table.get("/api/sessions").await.1["total"], 0);
    let unknown = "/api/sessions/0193a3c0-0000-7000-8000-000000000001";
    for (method, part) in [
        (Method::GET, ""),
        (Method::DELETE, ""),
        (Method::POST, "/archive"),
        (Method::POST, "/restore"),
        (Method::GET, "/messages"),
        (Method::GET, "/state"),
        (Method::GET, "/characters"),
        (Method::GET, "/combat"),
        (Method::GET, "/snapshots"),
        (Method::POST, "/snapshots"),
        (Method::GET, "/ws"),
    ] {
        let told = table.ask(method.clone(), &format!("{unknown}{part}"), None).await;
        assert_eq!(code(told), (404, "SESSION_NOT_FOUND".into()), "{method} {part}");
    }
    let told = table.ask(Method::PUT, unknown, None).await;
    assert_eq!(told.0, 405);
    assert_eq!(table.get("/api/sessions/a/b/c").await.0, 404);
    table.server.stop().await;
}

#[actix_web::test]
async fn snapshots_can_be_restored() {
    let table = Table::start().await;
    let session = table.session().await;
    let hero = r#"call create_character {"name": "Hero", "id": "hero", "hp_max": 20}"#;
    session.say(hero).await;
    let (status, first) = session.post("/snapshots", json!({"name": "before"})).await;
    assert_eq!(
        (status, &first["name"], &first["message_count"]),
        (201, &json!("before"), &json!(4))
    );
    session.say(r#"call update_hp {"character_id": "hero", "change": -5}"#).await;
    let (_, second) = session.post("/snapshots", Value::Null).await;
    let hp = async || session.get("/characters").await.1["characters"][0]["hp"].clone();
    assert_eq!(hp().await, 15);
    let (_, all) = session.get("/snapshots").await;
    assert_eq!(all["snapshots"], json!([first, second]));
    let back = async |snapshot: &Value| {
        let path = format!("/snapshots/{}/restore", snapshot["id"].as_str().unwrap());
        session.post(&path, Value::Null).await
    };
    assert_eq!(back(&first).await.0, 200);
    assert_eq!((hp().await, session.said().await.len()), (json!(20), 4));
    session.say("go on").await;
    assert_eq!(session.said().await.len(), 6);
    assert_eq!(back(&second).await.0, 200, "also to a later one");
    assert_eq!((hp().await, session.said().await.len()), (json!(15), 8));
    session.say("go on").await;
    let missing = back(&json!({"id": "0193a3c0-0000-7000-8000-000000000001"})).await;
    assert_eq!(missing.0, 404);
    assert_eq!(session.post("/snapshots", json!({"name": ""})).await.0, 400);
    table.server.stop().await;
}
