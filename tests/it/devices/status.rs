//! Battery and network status of a connected device, on request. Not for its tools in conversations.

use std::time::Duration;

use hearken_virtual_device::{ScriptedTool, Toolbox};
use reqwest::Method;
use serde_json::{Value, json};

use super::{DEVICE, as_admin, boot, guarded, read};
use crate::server::person::Person;
use crate::support::app::{TestServer, Vendors};

async fn get(server: &TestServer, path: &str) -> (u16, Value) {
    read(as_admin(server, Method::GET, path).send().await.unwrap()).await
}

/// The status response of a device with these tools; runs it until it has sent a message with this text.
async fn asked(tools: Toolbox, until: &str) -> (u16, Value) {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut person = Person::meet_with_tools(&server.device_url(), tools).await;
    person.until_sent(r#""result":{"tools":["#).await;
    let (_, listed) = get(&server, "/api/devices").await;
    let id = listed["devices"][0]["device_id"].as_str().unwrap();
    let path = format!("/api/devices/{id}/status");
    // The server knows its tools a moment after they were sent.
    let ask = hearken_test_support::eventually("its tools are known", async || {
        let told = get(&server, &path).await;
        (told.0 != 404).then_some(told)
    });
    let (told, ()) = tokio::join!(ask, person.until_sent(until));
    drop(person);
    server.stop().await;
    told
}

#[tokio::test]
async fn a_device_reports_its_battery_and_its_network() {
    let (status, told) = asked(Toolbox::default(), "strong").await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(told["battery"], json!({"level": 88, "charging": false}));
    assert_eq!(told["network"], json!({"type": "wifi", "ssid": "home", "signal": "strong"}));
    assert!(told["told"]["screen"].is_object(), "{told}");
}

#[tokio::test]
async fn an_unusable_or_late_status_gives_503() {
    let odd = ScriptedTool::new("self.get_device_status", "Tells.").answers("well");
    let (status, told) = asked(Toolbox { scripted: vec![odd], ..Toolbox::default() }, "well").await;
    assert_eq!((status, &told["error"]["code"]), (503, &json!("UNAVAILABLE")), "{told}");
    assert!(told.to_string().contains("something other than its status"), "{told}");
    let call_takes = Duration::from_secs(3);
    let (status, told) = asked(Toolbox { call_takes, ..Toolbox::default() }, "strong").await;
    assert!(status == 503 && told.to_string().contains("does not answer"), "{told}");
}

#[tokio::test]
async fn the_status_of_an_absent_device_gives_409_and_of_an_unknown_one_404() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let path = format!("/api/devices/{DEVICE}/status");
    assert_eq!(get(&server, &path).await.0, 404);
    boot(&server).await;
    let (status, told) = get(&server, &path).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("NOT_CONNECTED")));
    let order = as_admin(&server, Method::POST, &format!("/api/devices/{DEVICE}/%20status"));
    assert_eq!(read(order.send().await.unwrap()).await.0, 404, "it is no order");
}
