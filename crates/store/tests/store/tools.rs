//! Contract of all stores for tool servers, and for the tool settings of devices.

use std::sync::Arc;

use hearken_base::Secret;
use hearken_ports::store::{
    ClientRule, DeviceReport, DeviceStore as _, KeptPin, KeptServer, MAX_TOOL_TOKENS,
    ToolStore as _, ToolToken, ToolTokenStore as _,
};
use hearken_proto::ids::DeviceId;
use hearken_test_support::chat_rows::at;
use hearken_test_support::places::Place;

use super::{on_every_store, open};

on_every_store!(
    tool_servers_are_added_once_switched_and_deleted,
    devices_with_overrides_are_listed,
    pins_of_tools_are_added_once_replaced_and_deleted,
    tokens_of_tool_clients_are_listed_and_revoked_for_good,
    tokens_of_tool_clients_are_limited,
);

fn server(name: &str, settings: Option<&str>, enabled: bool) -> KeptServer {
    KeptServer { name: name.into(), settings: settings.map(Secret::new), enabled }
}

async fn tool_servers_are_added_once_switched_and_deleted(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.tool_servers().await.unwrap(), []);
    let added = server("b", Some("{}"), true);
    assert!(store.add_tool_server(&added).await.unwrap());
    assert!(!store.add_tool_server(&server("b", Some("[]"), true)).await.unwrap());
    store.switch_configured_server("a", false).await.unwrap();
    assert_eq!(store.tool_servers().await.unwrap(), [server("a", None, false), added]);
    assert!(store.switch_tool_server("b", false).await.unwrap());
    let off = server("b", Some("{}"), false);
    assert_eq!(store.tool_servers().await.unwrap(), [server("a", None, false), off]);
    // One of the configuration is not an added one, nor one that was removed.
    for other in ["a", "c"] {
        assert!(!store.switch_tool_server(other, true).await.unwrap(), "{other}");
    }
    // Each takes the place of the other kind.
    let added = server("a", Some("{}"), true);
    assert!(store.add_tool_server(&added).await.unwrap());
    store.switch_configured_server("b", true).await.unwrap();
    assert_eq!(store.tool_servers().await.unwrap(), [added, server("b", None, true)]);
    assert!(store.forget_tool_server("a").await.unwrap());
    assert!(!store.forget_tool_server("a").await.unwrap());
    assert_eq!(store.tool_servers().await.unwrap().len(), 1);
}

async fn devices_with_overrides_are_listed(place: Arc<Place>) {
    let store = open(&place);
    for device in ["a", "b", "c"] {
        let report = DeviceReport {
            device_id: DeviceId::new(device),
            client_id: Secret::new("x"),
            address: "here".into(),
            board: String::new(),
            chip: String::new(),
            serial_number: String::new(),
            firmware_version: String::new(),
        };
        let new = store.report(&report, ClientRule::Latest, at(0)).await.unwrap();
        assert_eq!((new.agent.as_str(), new.tools_off.len()), ("default", 0));
    }
    let off = ["x".to_owned(), "名".to_owned()];
    let device = store.set_tools_off(&DeviceId::new("a"), &off).await.unwrap().unwrap();
    assert_eq!(device.tools_off, off);
    let device = store.set_agent(&DeviceId::new("c"), "kitchen").await.unwrap().unwrap();
    assert_eq!(device.agent, "kitchen");
    let device = store.set_system_prompt(&DeviceId::new("b"), "Be kind.").await.unwrap().unwrap();
    assert_eq!(device.system_prompt, "Be kind.");
    assert_eq!(store.set_agent(&DeviceId::new("z"), "kitchen").await.unwrap(), None);
    assert_eq!(store.set_system_prompt(&DeviceId::new("z"), "x").await.unwrap(), None);
    assert_eq!(store.set_tools_off(&DeviceId::new("z"), &off).await.unwrap(), None);
    let found = async || -> Vec<String> {
        let all = store.devices_with_overrides().await.unwrap();
        all.iter().map(|d| d.device_id.to_string()).collect()
    };
    assert_eq!(found().await, ["a", "b", "c"]);
    store.set_system_prompt(&DeviceId::new("b"), "").await.unwrap();
    store.set_tools_off(&DeviceId::new("a"), &[]).await.unwrap();
    store.set_agent(&DeviceId::new("c"), "default").await.unwrap();
    assert!(found().await.is_empty());
}

fn pin(agent: &str, source: &str, tool: &str, hash: &str) -> KeptPin {
    let [agent, source, tool, hash] = [agent, source, tool, hash].map(str::to_owned);
    KeptPin { agent, source, tool, hash }
}

async fn pins_of_tools_are_added_once_replaced_and_deleted(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.tool_pins().await.unwrap(), []);
    let first = [pin("", "s", "名", "1"), pin("a", "s", "t", "1")];
    store.add_tool_pins(&first).await.unwrap();
    store.add_tool_pins(&[pin("", "s", "名", "2"), pin("", "z", "t", "2")]).await.unwrap();
    let all = [pin("", "s", "名", "1"), pin("", "z", "t", "2"), pin("a", "s", "t", "1")];
    assert_eq!(store.tool_pins().await.unwrap(), all);
    store.set_tool_pins(&[pin("a", "s", "t", "3"), pin("", "s", "u", "3")]).await.unwrap();
    store.forget_tool_pins("z").await.unwrap();
    let all = [pin("", "s", "u", "3"), pin("", "s", "名", "1"), pin("a", "s", "t", "3")];
    assert_eq!(store.tool_pins().await.unwrap(), all);
    store.forget_tool_pins("s").await.unwrap();
    assert_eq!(store.tool_pins().await.unwrap(), [pin("a", "s", "t", "3")]);
}

pub(super) fn token(serial: &str, made: i64) -> ToolToken {
    ToolToken {
        serial: serial.into(),
        agent: "客厅".into(),
        name: "o'Neil's".into(),
        made: Some(at(made)),
        made_by: "admin".into(),
        revoked: None,
    }
}

async fn tokens_of_tool_clients_are_listed_and_revoked_for_good(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.tool_tokens().await.unwrap(), []);
    let older = token("b", 1);
    let newer = token("a", 2);
    for token in [&older, &newer] {
        assert!(store.add_tool_token(token).await.unwrap());
    }
    assert!(store.add_tool_token(&older).await.is_err(), "a serial is unique");
    assert_eq!(store.tool_tokens().await.unwrap(), [newer.clone(), older.clone()]);
    assert!(store.revoked_tool_tokens().await.unwrap().is_empty());
    for now in [7, 8] {
        assert!(store.revoke_tool_token("b", at(now)).await.unwrap());
    }
    assert!(store.revoke_tool_token("c", at(9)).await.unwrap(), "one that a command created");
    let revoked = ToolToken { revoked: Some(at(7)), ..older };
    let unknown = ToolToken {
        serial: "c".into(),
        agent: String::new(),
        name: String::new(),
        made: None,
        made_by: String::new(),
        revoked: Some(at(9)),
    };
    assert_eq!(store.tool_tokens().await.unwrap(), [newer, revoked, unknown]);
    let mut serials = store.revoked_tool_tokens().await.unwrap();
    serials.sort();
    assert_eq!(serials, ["b", "c"]);
}

async fn tokens_of_tool_clients_are_limited(place: Arc<Place>) {
    let store = open(&place);
    for n in 0..MAX_TOOL_TOKENS {
        assert!(store.add_tool_token(&token(&n.to_string(), 1)).await.unwrap());
    }
    assert!(!store.add_tool_token(&token("more", 1)).await.unwrap());
    assert!(!store.revoke_tool_token("more", at(2)).await.unwrap());
    assert!(store.revoke_tool_token("0", at(2)).await.unwrap(), "those that are stored");
    assert_eq!(store.tool_tokens().await.unwrap().len(), MAX_TOOL_TOKENS as usize);
    assert_eq!(store.revoked_tool_tokens().await.unwrap(), ["0"]);
}
