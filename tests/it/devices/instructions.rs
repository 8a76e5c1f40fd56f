//! Instructions of a single device: set, stored, used and removed.

use std::path::Path;

use hearken::config::Config;
use reqwest::Method;
use serde_json::{Value, json};

use super::{CLIENT, DEVICE, as_device, boot, read};
use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};
use crate::support::command::hearken;

const ONE: &str = "/api/devices/02:00:00:00:00:01";

/// Instructions of devices without their own.
const GENERAL: &str = "Be brief.";

async fn start(vendors: &Vendors, folder: &Path) -> TestServer {
    TestServer::start(vendors, |config: &mut Config| {
        config.server.data_dir = folder.to_owned();
        config.dialogue.system_prompt = GENERAL.into();
        config.dialogue.emotion_prompt.clear();
    })
    .await
}

async fn change(server: &TestServer, body: Value) -> (u16, Value) {
    let asked = as_device(server, Method::PATCH, ONE).json(&body);
    read(asked.send().await.unwrap()).await
}

/// The instructions that the model receives in the next turn.
async fn told(vendors: &Vendors, person: &mut Person) -> String {
    person.say(&SPEECH).await;
    assert!(!person.answer().await.sentences.is_empty());
    let seen = vendors.llm.seen().texts;
    let asked: Value = serde_json::from_str(seen.last().expect("the model was asked")).unwrap();
    asked["messages"][0]["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_device_uses_its_own_instructions_until_they_are_removed() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&vendors, folder.path()).await;
    assert_eq!(change(&server, json!({"system_prompt": "x"})).await.0, 404);
    boot(&server).await;
    let cook = "You are a cook.\nIt is {current_time}.";
    let (status, shown) = change(&server, json!({"system_prompt": format!(" {cook}\r\n")})).await;
    assert_eq!((status, &shown["system_prompt"]), (200, &json!(cook)));
    let mut person = Person::meet_as(&server.device_url(), DEVICE).await;
    let now = told(&vendors, &mut person).await;
    assert!(now.starts_with("You are a cook.\nIt is 2") && !now.contains('{'), "{now}");
    let mut another = Person::meet_as(&server.device_url(), "02:00:00:00:00:02").await;
    assert!(told(&vendors, &mut another).await.starts_with(GENERAL));
    drop((person, another));
    server.stop().await;

    let server = start(&vendors, folder.path()).await;
    boot(&server).await;
    let (_, shown) = read(as_device(&server, Method::GET, ONE).send().await.unwrap()).await;
    assert_eq!(shown["system_prompt"], cook, "it is stored");
    let mut person = Person::meet_as(&server.device_url(), DEVICE).await;
    assert!(told(&vendors, &mut person).await.starts_with("You are a cook."));
    let (_, shown) = change(&server, json!({"system_prompt": null, "name": "kitchen"})).await;
    assert_eq!((&shown["system_prompt"], &shown["name"]), (&json!(""), &json!("kitchen")));
    assert!(told(&vendors, &mut person).await.starts_with(GENERAL));
    let longest = json!({"system_prompt": "\u{1f373}".repeat(8_000)});
    assert_eq!(change(&server, longest).await.0, 200);
    let (status, shown) = change(&server, json!({"system_prompt": "好".repeat(8_001)})).await;
    let about = "a `system_prompt` has at most 8000 characters";
    assert!(
        status == 400 && shown["error"]["message"].as_str().unwrap().contains(about),
        "{shown}"
    );
    assert_eq!(change(&server, json!({"system_prompt": 1})).await.0, 400);

    let url = server.http_url("");
    let args = ["devices", "--url", &url, "instruct", DEVICE, "You are a pirate."];
    let (code, out, err) = hearken(folder.path(), &args).await;
    assert_eq!((code, out), (Some(0), format!("instructed {DEVICE}\n")), "{err}");
    assert_eq!(told(&vendors, &mut person).await.lines().next(), Some("You are a pirate."));
    let gone = as_device(&server, Method::DELETE, ONE).header("Client-Id", CLIENT).send();
    assert_eq!(gone.await.unwrap().status(), 204);
    drop(person);
    let mut person = Person::meet_as(&server.device_url(), DEVICE).await;
    assert!(told(&vendors, &mut person).await.starts_with(GENERAL), "forgotten with the device");
    drop(person);
    server.stop().await;
}
