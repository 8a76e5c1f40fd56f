//! The store of 0.1.0 with real content, upgraded: all content is present and usable. Not for
//! upgrades that fail.

use std::sync::Arc;
use std::time::Duration;

use hearken_base::Secret;
use hearken_ports::store::{
    DeviceStore as _, MuseumStore, SettingsStore as _, StoreErrorKind, ToolStore as _,
};
use hearken_ports::{
    ChatStore, KeptTurn, KnownRequest, SessionFilter, SessionStore as _, StoreOutcome,
};
use hearken_proto::chat::{ChatStatus, Role};
use hearken_proto::ids::{DeviceId, SessionId};
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{id, key, turn};
use hearken_test_support::places::{Place, on};
use hearken_text_gateway::Sessions;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::chat::said;
use super::settings::entry;
use super::{backup, old_store, on_every_store, open};

on_every_store!(
    a_store_of_0_1_0_is_upgraded_and_used,
    a_store_between_two_versions_is_upgraded_and_used,
    an_earlier_store_is_backed_up_only_after_its_upgrade,
);

const WORLD: &str = "0b9bd1a4-5b5e-4d0c-9a3c-6a6a0c1de001";
const INN: &str = "0b9bd1a4-5b5e-4d0c-9a3c-6a6a0c1de002";
const OLD: &str = "0b9bd1a4-5b5e-4d0c-9a3c-6a6a0c1de003";
const GONE: &str = "0b9bd1a4-5b5e-4d0c-9a3c-6a6a0c1de004";
const CAVE: &str = "7c1f9c8e-0000-4000-8000-00000000ca5e";
const GATE: &str = "7c1f9c8e-0000-4000-8000-00000000da7e";
const MUSEUM: &str = "5f0c6a5e-9f5e-4b44-8a52-00000000beef";
const FIRST: &str = "5b8b2c70-57a5-4f6e-9d8e-000000000001";
const SECOND: &str = "5b8b2c70-57a5-4f6e-9d8e-000000000002";
/// Fence of its last turn.
const FENCE: i64 = old_store::BEGIN_MS + 72_000;
/// Rows of the fixture, without those of migrations.
const ROWS: u64 = 48;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millisecond(old_store::BEGIN_MS + seconds * 1_000).unwrap()
}

fn device_id(last: u8) -> DeviceId {
    DeviceId::new(format!("aa:bb:cc:dd:ee:{last:02}"))
}

async fn a_store_of_0_1_0_is_upgraded_and_used(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    old_store::load(&place).await;
    let store = open(&place);
    assert_eq!(store.version().await.unwrap(), Some(old_store::VERSION));
    assert_eq!(store.upgrade().await.unwrap(), Some(old_store::VERSION));
    all_is_there_and_in_use(&place, store).await;
}

async fn a_store_between_two_versions_is_upgraded_and_used(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    let newest = open(&Place::memory()).bring_up_to_date().await.unwrap();
    for version in old_store::VERSION..=newest {
        let other = if old_store::kind(&place.url) == "sqlite" {
            Some(Place::file())
        } else {
            Place::postgres().await
        };
        on(other, move |place| async move {
            old_store::load(&place).await;
            old_store::migrate_to(&place, version).await;
            let store = open(&place);
            assert_eq!(store.version().await.unwrap(), Some(version));
            all_is_there_and_in_use(&place, store).await;
        })
        .await;
    }
}

async fn all_is_there_and_in_use(place: &Place, store: SqlStore) {
    let store = Arc::new(store);
    store.bring_up_to_date().await.unwrap();
    let report = store.check(&mut |_, _| ()).await.unwrap();
    assert_eq!(report.faults, [""; 0]);
    assert_eq!(report.rows.values().sum::<u64>(), ROWS, "{:?}", report.rows);
    let whole = backup::backup(&store).await;
    devices_are_there(&store).await;
    text_sessions_are_there(&store).await;
    museum_and_settings_are_there(&store).await;
    chats_are_there(&store).await;
    tools_are_there(&store).await;
    chats_go_on(&store).await;
    snapshots_come_back(&store).await;
    devices_and_museum_go_on(&store).await;
    assert_eq!(store.check(&mut |_, _| ()).await.unwrap().faults, [""; 0]);
    store.shut().await;
    // Opened again, and with the backup made just after the upgrade restored over it.
    let store = open(place);
    assert_eq!(said(&store, INN).await, ["还有人吗？", "Only me."]);
    backup::restore(&store, &whole, true).await.unwrap();
    assert_eq!(backup::backup(&store).await, whole);
    assert_eq!(store.end_reviews().await.unwrap(), 2);
    assert_eq!(store.end_reviews().await.unwrap(), 0);
    let page = store.devices("", 9).await.unwrap();
    let reviewed: Vec<_> = page.devices.iter().map(|d| (d.bound, d.needs_review)).collect();
    assert_eq!(reviewed, [(true, false), (false, false), (false, false)]);
    store.shut().await;
}

async fn devices_are_there(store: &SqlStore) {
    let page = store.devices("", 9).await.unwrap();
    let ids: Vec<_> = page.devices.iter().map(|device| device.device_id.clone()).collect();
    assert_eq!((ids, page.more), (vec![device_id(1), device_id(2), device_id(3)], false));
    let reviewed: Vec<_> = page.devices.iter().map(|d| (d.bound, d.needs_review)).collect();
    assert_eq!(reviewed, [(true, false), (false, true), (false, true)]);
    let first = &page.devices[0];
    assert_eq!((first.name.as_str(), first.bound), ("客厅的音箱", true));
    assert_eq!(
        (first.agent.as_str(), &first.tools_off[..]),
        ("kitchen", &["weather".to_owned(), "天气".into()][..])
    );
    assert_eq!(first.system_prompt, "你是一只猫。It's {current_time}.");
    assert_eq!((first.board.as_str(), first.chip.as_str()), ("bread-compact-wifi", "esp32s3"));
    assert_eq!((first.first_seen, first.last_seen), (at(0), at(600)));
    let holder = store.token_holder(&device_id(1)).await.unwrap();
    assert_eq!((holder.client_id, holder.revoked_until), (Some(Secret::new(FIRST)), None));
    assert_eq!(store.key("SN-0001").await.unwrap(), Some(vec![0, 255, 39, 92, 10, 128]));
    let second = device_id(2);
    let client = Secret::new(SECOND);
    let waiting = store.waiting(&second, &client, at(60)).await.unwrap().unwrap();
    assert_eq!((waiting.code.as_deref(), waiting.expires), (Some("042917"), at(620)));
}

async fn text_sessions_are_there(store: &Arc<SqlStore>) {
    let kept = store.load(&SessionId::new("sess-1")).await.unwrap().unwrap();
    let state: Value = serde_json::from_str(&kept.state).unwrap();
    assert_eq!(state["messages"][3]["content"], "好的，灯开了。");
    let now = kept.last_used;
    let sessions = Sessions::new(Arc::clone(store) as _, Duration::from_secs(60), 20)
        .with_clock(Arc::new(move || Timestamp::try_from(now).unwrap()));
    for (name, language) in [("sess-1", Some("en")), ("sess-2", None)] {
        let found = sessions.find(&SessionId::new(name)).await.unwrap();
        let style = found.session().style().clone();
        assert_eq!(style.language.map(|language| language.code()), language);
    }
}

async fn museum_and_settings_are_there(store: &SqlStore) {
    let museum = store.find(&SessionId::new(MUSEUM)).await.unwrap().unwrap();
    assert_eq!(museum.metadata["name"], "博物馆 3");
    assert_eq!(museum.functions[0]["description"], "展示一件文物");
    assert_eq!((museum.history.len(), museum.requests), (2, 2));
    assert_eq!((museum.created_at, museum.expires_at), (at(90), at(4_000)));
    let settings = store.settings().await.unwrap();
    let wanted = [
        ("llm.model", json!("qwen2.5-7b")),
        ("llm.temperature", json!(0.7)),
        ("session.system_prompt", json!("你好。\nBe \"kind\".")),
    ];
    assert_eq!(settings, wanted.map(|(name, value)| (name.to_owned(), value)));
    let audit = store.audit(None, 9).await.unwrap();
    let numbers: Vec<_> = audit.iter().map(|entry| entry.number).collect();
    assert_eq!((numbers, audit[0].who.as_str()), (vec![4, 2, 1], "管理员"));
    assert_eq!(audit[1].details["changes"]["llm.model"]["new"], "qwen2.5-7b");
}

async fn chats_are_there(store: &SqlStore) {
    let world = ChatStore::session(store, &id(WORLD)).await.unwrap().unwrap();
    assert_eq!(world.name, "失落的矿坑 / Lost Mine");
    assert_eq!(world.players, ["小明", "Zoë", "o'Neil"]);
    assert_eq!((world.state_version, world.max_players), (Some(12), 4));
    assert_eq!((world.created_at, world.updated_at), (at(0), at(72)));
    let kept = store.messages(&id(WORLD), None, 99).await.unwrap();
    let of = |number: usize| &kept[number - 1].message;
    assert_eq!((kept.len(), of(1).content.as_str()), (7, "我要用长剑攻击地精！"));
    assert_eq!(of(1).player_id.as_deref(), Some("小明"));
    assert_eq!(of(2).tool_calls[1].function.name, "attack");
    assert_eq!(of(2).tool_calls[0].function.arguments, r#"{"dice":"1d20+5"}"#);
    assert_eq!((of(4).role, of(4).tool_call_id.as_deref()), (Role::Tool, Some("call_2")));
    let odd = "I search the body: is there a \"key\"?\n\tAnd I say 'sorry' \\ it's late. \u{1f409}";
    assert_eq!(of(6).content, odd);
    assert_eq!((of(6).timestamp, of(7).timestamp), (at(70), at(72)));
    let known = async |key| store.request(&id(WORLD), key).await.unwrap().unwrap();
    let answered = known("请求-2").await;
    assert!(answered.hash.len() == 64 && answered.answer.unwrap().contains("rusty key…"));
    assert!(known("first-key").await.answer.unwrap().contains("受到7点伤害"));
    assert!(matches!(known("cut-off").await, KnownRequest { answer: None, .. }));
    let find = async |user: &str, status| {
        let user_id = Some(user.to_owned());
        let filter = SessionFilter { user_id, status, limit: 9, ..Default::default() };
        let page = store.sessions(&filter).await.unwrap();
        page.sessions.iter().map(|session| session.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(find("小明", None).await, [WORLD, OLD]);
    assert_eq!(find("Zoë", Some(ChatStatus::Active)).await, [WORLD, INN]);
    assert_eq!(find("o'Neil", Some(ChatStatus::Deleted)).await, [GONE]);
    assert_eq!(store.owner(&id(WORLD)).await.unwrap().as_deref(), Some(""));
    let used = store.usage("").await.unwrap();
    assert!(used.sessions == 4 && used.bytes > 1_000, "{used:?}");
    assert_eq!(store.last_fence().await.unwrap(), FENCE);
    assert!(store.pending_events(None, 9).await.unwrap().is_empty());
}

async fn tools_are_there(store: &SqlStore) {
    let servers = store.tool_servers().await.unwrap();
    let books: Value =
        serde_json::from_str(servers[0].settings.as_ref().unwrap().expose()).unwrap();
    assert_eq!((books["bearer"].as_str(), servers[0].enabled), (Some("kept-as-bearer"), true));
    assert_eq!((servers[1].name.as_str(), servers[1].enabled), ("configured", false));
    assert_eq!(servers[1].settings, None);
    assert_eq!(store.devices_with_overrides().await.unwrap().len(), 1);
}

async fn chats_go_on(store: &SqlStore) {
    let next = |fence| KeptTurn {
        key: Some(key("next")),
        answer: "{}".into(),
        ..turn(WORLD, 7, fence, &["我打开门", "It is dark."])
    };
    assert_eq!(store.keep_turn(&next(FENCE - 1)).await.unwrap(), StoreOutcome::Overtaken);
    let twice = KeptTurn { key: Some(key("first-key")), ..next(FENCE + 1) };
    assert_eq!(store.keep_turn(&twice).await.unwrap(), StoreOutcome::Overtaken, "already answered");
    assert_eq!(store.keep_turn(&next(FENCE + 1)).await.unwrap(), StoreOutcome::Kept);
    assert_eq!(said(store, WORLD).await[7..], ["我打开门", "It is dark."]);
    let first = turn(INN, 0, 1, &["还有人吗？", "Only me."]);
    assert_eq!(store.keep_turn(&first).await.unwrap(), StoreOutcome::Kept);
    let closed = store.keep_turn(&turn(OLD, 2, 3, &["x"])).await.unwrap();
    assert_eq!(closed, StoreOutcome::Closed);
    let from = [ChatStatus::Archived];
    let to = ChatStatus::Active;
    assert!(store.set_status(&id(OLD), &from, to, at(200), None).await.unwrap().is_some());
    assert_eq!(store.keep_turn(&turn(OLD, 2, 3, &["x"])).await.unwrap(), StoreOutcome::Kept);
    assert_eq!(said(store, OLD).await, ["讲个故事", "从前有座山，山里有座庙。", "x"]);
    assert!(store.purge(&id(GONE)).await.unwrap());
    assert_eq!(ChatStore::session(store, &id(GONE)).await.unwrap(), None);
}

async fn snapshots_come_back(store: &SqlStore) {
    let names: Vec<_> = store.snapshots(&id(WORLD)).await.unwrap();
    let names: Vec<_> = names.iter().map(|s| (s.id.as_str(), s.name.as_str())).collect();
    assert_eq!(names, [(GATE, "at the gate"), (CAVE, "进洞之前")]);
    let back = async |snapshot, fence| {
        let restored = store.restore_snapshot(&id(WORLD), snapshot, fence, at(300), None).await;
        restored.unwrap().unwrap().message_count
    };
    assert_eq!(back(CAVE, FENCE + 2).await, 5);
    assert_eq!(said(store, WORLD).await.len(), 5);
    let world = ChatStore::session(store, &id(WORLD)).await.unwrap().unwrap();
    assert_eq!(world.state_version, Some(9));
    let known = async |key| store.request(&id(WORLD), key).await.unwrap();
    assert!(known("first-key").await.is_some() && known("请求-2").await.is_none());
    let next = turn(WORLD, 5, FENCE + 2, &["再来一次", "…"]);
    assert_eq!(store.keep_turn(&next).await.unwrap(), StoreOutcome::Kept);
    assert_eq!(back(GATE, FENCE + 3).await, 0);
    assert_eq!(said(store, WORLD).await, [""; 0]);
    let used = store.usage("").await.unwrap();
    assert!(used.bytes > 0, "{used:?}");
}

async fn devices_and_museum_go_on(store: &SqlStore) {
    let bound = store.bind("042917", Some("书房"), at(60)).await.unwrap().unwrap();
    assert_eq!((bound.device_id, bound.bound), (device_id(2), true));
    assert!(hearken_ports::store::DeviceStore::forget(store, &device_id(3), at(60)).await.unwrap());
    let museum = SessionId::new(MUSEUM);
    assert!(MuseumStore::touch(store, &museum, at(9_000), at(100)).await.unwrap());
    let history = [json!({"role": "user", "content": "再见", "calls": [], "answers": ""})];
    let before = MuseumStore::find(store, &museum).await.unwrap().unwrap().history;
    let kept = store.keep_history(&museum, &before, &history, at(101)).await.unwrap();
    assert_eq!(kept, StoreOutcome::Kept);
    let change = [("llm.model".to_owned(), Some(json!("another")))];
    store.change(&change, &entry("config", json!(null))).await.unwrap();
    assert_eq!(store.audit(None, 1).await.unwrap()[0].number, 5, "numbers continue");
}

async fn an_earlier_store_is_backed_up_only_after_its_upgrade(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    old_store::load(&place).await;
    let before = old_store::dump(&place).await;
    let store = open(&place);
    let refused = store.back_up(&mut Vec::new(), at(0), &mut |_, _| ()).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("version 7, not 17") && text.contains("store migrate"), "{text}");
    assert_eq!(old_store::dump(&place).await, before);
    store.upgrade().await.unwrap();
    backup::backup(&store).await;
    old_store::execute(&place, "UPDATE _sqlx_migrations SET version = 9999 WHERE version = 17")
        .await;
    let refused = store.check(&mut |_, _| ()).await.unwrap_err();
    let kind = |error| match error {
        hearken_store::BackupError::Store(error) => error.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(refused), StoreErrorKind::Later);
    store.shut().await;
}
