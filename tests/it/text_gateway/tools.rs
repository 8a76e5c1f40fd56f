//! Chapters 7 and 11.5: tools that clients register, tools of the server, and the results of calls.

use std::time::Duration;

use futures_util::FutureExt as _;
use hearken_base::Secret;
use hearken_base::testkit::numbers;
use hearken_dialogue::tools::schema::off_worker;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{TextClient, answering, asked, echo, echoing, kinds, tool};
use crate::support::app::TestServer;

/// The results of calls in a request to the model.
fn results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let tools = messages.iter().filter(|m| m["role"] == "tool");
    tools.map(|m| m["content"].as_str().unwrap().to_owned()).collect()
}

#[actix_web::test]
async fn a_clients_tool_is_called_and_its_result_reaches_the_model() {
    let (vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    client.register(&["device.light.turn_on"]).await;
    client
        .send(json!({"type": "text_input", "text": "call device_light_turn_on {\"room\": 1}"}))
        .await;
    let told = [client.next().await, client.next().await, client.next().await];
    assert_eq!(kinds(&told), ["processing", "waiting_for_tools", "tool_callback"]);
    assert_eq!(told[1]["data"], json!({"pending_tools": 1}));
    assert_eq!(told[2]["tool_name"], "device.light.turn_on");
    assert_eq!(told[2]["arguments"], json!({"room": 1}));
    let call_id = told[2]["call_id"].as_str().unwrap().to_owned();
    let result =
        json!({"type": "tool_result", "call_id": call_id, "success": true, "result": {"on": true}});
    client.send(result.clone()).await;
    let last = client.next().await;
    assert_eq!(last["content"], "You said {\"on\":true}");
    let call = &last["tool_calls"][0];
    assert_eq!(
        (&call["tool_name"], &call["success"], &call["source"]),
        (&json!("device.light.turn_on"), &json!(true), &json!("client"))
    );
    // A second result for the same call is refused.
    client.send(result).await;
    let told = client.next().await;
    assert_eq!((&told["code"], &told["type"]), (&json!("INVALID_MESSAGE"), &json!("error")));
    let offered = &asked(&vendors)[0]["tools"];
    assert_eq!(offered[0]["function"]["name"], "device_light_turn_on");
    server.stop().await;
}

#[actix_web::test]
async fn while_the_stored_policies_are_unknown_each_call_asks() {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |config| {
        config.store.url = Secret::new("sqlite:///proc/none/x.db");
    })
    .await;
    let mut client = TextClient::connect(&server).await;
    client.register(&["lamp"]).await;
    let told = client.ask("call lamp {}").await;
    assert_eq!(kinds(&told), ["processing", "llm_response"]);
    let question = told[1]["content"].as_str().unwrap();
    assert!(question.starts_with("May I "), "{question}");
    server.stop().await;
}

#[actix_web::test]
async fn numbers_pass_between_a_client_and_the_model_unchanged() {
    let (vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    client.register(&["sum"]).await;
    let written = &numbers::written()[..24];
    let list = numbers::array(written);
    let kept = numbers::array_kept(written);
    let text = format!(r#"call sum {{"list":{list}}}"#);
    client.send(json!({"type": "text_input", "text": text})).await;
    let told = [client.next().await, client.next().await, client.next().await];
    assert_eq!(told[2]["arguments"]["list"].to_string(), kept);
    let call_id = &told[2]["call_id"];
    let result = format!(
        r#"{{"type":"tool_result","call_id":{call_id},"success":true,"result":{{"list":{list}}}}}"#
    );
    client.send_text(result).await;
    let told = client.until_done().await;
    assert_eq!(told[told.len() - 1]["tool_calls"][0]["arguments"]["list"].to_string(), kept);
    assert_eq!(results(asked(&vendors).last().unwrap()), [format!(r#"{{"list":{kept}}}"#)]);
    server.stop().await;
}

#[actix_web::test]
async fn only_the_called_connection_may_send_the_result() {
    let (_vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    let mut other = TextClient::connect(&server).await;
    client.register(&["look"]).await;
    client.send(json!({"type": "text_input", "text": "call look {}"})).await;
    let told = [client.next().await, client.next().await, client.next().await];
    let result = json!({"type": "tool_result", "call_id": told[2]["call_id"], "success": true, "result": "seen"});
    other.send(result.clone()).await;
    assert_eq!(other.next().await["code"], "INVALID_MESSAGE");
    client.send(result).await;
    assert_eq!(client.next().await["content"], "You said seen");
    // Tools of one connection are not offered on another.
    let told = other.ask("call look {}").await;
    assert_eq!(told[told.len() - 1]["code"], "TOOL_NOT_FOUND");
    server.stop().await;
}

#[actix_web::test]
async fn invalid_tools_are_refused_one_by_one() {
    let (_vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    let tools = json!([
        tool("good"),
        tool("good"),
        tool("1bad"),
        {"name": "odd", "description": "d", "parameters": {"type": "array"}},
        {"name": "plain", "parameters": {"type": "object"}},
    ]);
    client.send(json!({"type": "register_tools", "tools": tools})).await;
    let told = client.next().await;
    assert_eq!((&told["type"], &told["count"]), (&json!("tools_registered"), &json!(1)));
    let rows: Vec<_> = told["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (t["status"].as_str().unwrap(), t["code"].as_str().unwrap_or_default()))
        .collect();
    let failed = ("failed", "TOOL_REGISTRATION_FAILED");
    assert_eq!(
        rows,
        [("registered", ""), failed, failed, ("failed", "INVALID_TOOL_PARAMETERS"), failed]
    );
    assert_eq!(told["tools"][1]["error"], "Tool name already exists");
    client.send(json!({"type": "register_tools", "tools": [tool("good")]})).await;
    let told = client.next().await;
    assert_eq!(told["code"], "TOOL_REGISTRATION_FAILED");
    assert!(told["details"].as_str().unwrap().contains("Tool name already exists"), "{told}");
    let odd =
        json!({"name": "odd", "description": "d", "parameters": {"type": "object", "required": 5}});
    client.send(json!({"type": "register_tools", "tools": [odd]})).await;
    let told = client.next().await;
    assert!(told["details"].as_str().unwrap().contains("INVALID_TOOL_PARAMETERS"), "{told}");
    // Of these 32, 31 complete the limit of 32, and the last one exceeds it.
    let many: Vec<Value> = (0..32).map(|n| tool(&format!("t{n}"))).collect();
    client.send(json!({"type": "register_tools", "tools": many})).await;
    let told = client.next().await;
    assert_eq!(told["count"], 31);
    assert_eq!(told["tools"][31]["error"], "Too many tools: at most 32 per connection");
    client.send(json!({"type": "register_tools", "tools": []})).await;
    assert_eq!(client.next().await["count"], 0);
    server.stop().await;
}

#[actix_web::test]
async fn a_tool_failure_reaches_the_model_and_is_listed_in_the_answer() {
    let vendors = super::answering(|asked| {
        let asked = String::from_utf8_lossy(asked);
        asked.strip_prefix("error: ").map_or(String::new(), |why| format!("Sorry: {why}"))
    })
    .await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let mut client = TextClient::connect(&server).await;
    client.register(&["open_door"]).await;
    client.send(json!({"type": "text_input", "text": "call open_door {}"})).await;
    let told = [client.next().await, client.next().await, client.next().await];
    client
        .send(json!({"type": "tool_result", "call_id": told[2]["call_id"], "success": false, "result": null, "error": "设备连接超时"}))
        .await;
    let last = client.next().await;
    assert_eq!(last["content"], "Sorry: 设备连接超时");
    let call = &last["tool_calls"][0];
    assert_eq!((&call["success"], &call["code"]), (&json!(false), &json!("TOOL_EXECUTION_FAILED")));
    server.stop().await;
}

#[actix_web::test]
async fn an_empty_answer_after_a_failed_tool_gives_the_code_of_the_failure() {
    let (vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    let strict = json!({"name": "dim", "description": "d", "parameters":
        {"type": "object", "properties": {"level": {"type": "integer"}}, "required": ["level"]}});
    client.send(json!({"type": "register_tools", "tools": [strict, tool("fail")]})).await;
    assert_eq!(client.next().await["count"], 2);
    for (text, code) in [
        ("call nothing {}", "TOOL_NOT_FOUND"),
        ("call dim {\"level\": \"high\"}", "INVALID_TOOL_PARAMETERS"),
        ("call dim {", "INVALID_TOOL_PARAMETERS"),
    ] {
        let told = client.ask(text).await;
        assert_eq!(told[told.len() - 1]["code"], code, "{text}: {told:?}");
    }
    client.send(json!({"type": "text_input", "text": "call fail {}"})).await;
    let told = [client.next().await, client.next().await, client.next().await];
    client.send(json!({"type": "tool_result", "call_id": told[2]["call_id"], "success": false, "error": "no"})).await;
    let last = client.next().await;
    assert_eq!(
        (&last["code"], &last["details"]),
        (&json!("TOOL_EXECUTION_FAILED"), &json!("the tool failed: no"))
    );
    let bodies = asked(&vendors);
    assert_eq!(results(&bodies[bodies.len() - 1]), ["error: no"]);
    server.stop().await;
}

#[actix_web::test]
async fn a_missing_tool_result_times_out_and_is_refused_later() {
    let vendors = super::answering(super::echo).await;
    let server = TestServer::start(&vendors, |config| {
        config.gateway.client_tool_timeout = Duration::from_millis(150)
    })
    .await;
    let mut client = TextClient::connect(&server).await;
    client.register(&["open_door"]).await;
    let told = client.ask("call open_door {}").await;
    assert_eq!(kinds(&told), ["processing", "waiting_for_tools", "tool_callback", "error"]);
    assert_eq!(told[3]["code"], "TOOL_RESULT_TIMEOUT");
    assert!(told[3]["message"].as_str().unwrap().starts_with("Tool execution timeout"));
    client
        .send(json!({"type": "tool_result", "call_id": told[2]["call_id"], "success": true, "result": 1}))
        .await;
    assert_eq!(client.next().await["code"], "INVALID_MESSAGE");
    assert_eq!(client.answer("well").await, "You said well");
    server.stop().await;
}

#[actix_web::test]
async fn server_tools_are_called_first_and_each_call_is_reported() {
    let vendors = super::answering(super::echo).await;
    let server = TestServer::start(&vendors, |config| {
        config.tools.builtin.enabled = vec!["get_current_time".into()];
    })
    .await;
    let mut client = TextClient::connect(&server).await;
    client.register(&["set_volume", "set_light"]).await;
    let text = "call set_volume {}\ncall get_current_time {\"timezone\": \"Asia/Shanghai\"}\ncall set_light {}";
    client.send(json!({"type": "text_input", "text": text})).await;
    let mut told = Vec::new();
    for _ in 0..5 {
        told.push(client.next().await);
    }
    assert_eq!(
        kinds(&told),
        ["processing", "tool_call", "waiting_for_tools", "tool_callback", "tool_callback"]
    );
    let call = &told[1];
    assert_eq!((&call["tool_name"], &call["success"]), (&json!("get_current_time"), &json!(true)));
    assert_eq!(call["arguments"], json!({"timezone": "Asia/Shanghai"}));
    assert_eq!(call["result"]["timezone"], "Asia/Shanghai");
    assert!(call["duration_ms"].is_f64(), "{call}");
    assert_eq!(told[2]["data"]["pending_tools"], 2);
    for callback in &told[3..] {
        let result = json!({"of": callback["tool_name"]});
        client.send(json!({"type": "tool_result", "call_id": callback["call_id"], "success": true, "result": result})).await;
    }
    let last = client.next().await;
    assert_eq!(last["type"], "llm_response", "{last}");
    let names: Vec<&str> = last["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["tool_name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["get_current_time", "set_volume", "set_light"]);
    // The results are in the order of the calls.
    let told = results(&asked(&vendors)[1]);
    assert_eq!((&*told[0], &*told[2]), (r#"{"of":"set_volume"}"#, r#"{"of":"set_light"}"#));
    assert!(told[1].contains("Asia/Shanghai"), "{told:?}");
    server.stop().await;
}

#[actix_web::test]
async fn tools_can_be_switched_off() {
    let vendors = super::answering(super::echo).await;
    let server = TestServer::start(&vendors, |config| {
        config.tools.builtin.enabled = vec!["get_current_time".into()];
        config.gateway.server_tools = false;
        config.gateway.client_tools_enabled = false;
    })
    .await;
    let mut client = TextClient::connect(&server).await;
    client.send(json!({"type": "register_tools", "tools": [tool("look")]})).await;
    assert_eq!(client.next().await["code"], "TOOL_REGISTRATION_FAILED");
    client.answer("hi").await;
    assert!(asked(&vendors)[0].get("tools").is_none());
    server.stop().await;
}

/// A tool whose schema has 29 levels that each refer to the next one twice: 2^29 steps for a validation.
fn doubling() -> Value {
    let next =
        |n: usize| json!([{"$ref": format!("#/$defs/d{n}")}, {"$ref": format!("#/$defs/d{n}")}]);
    let mut parts: serde_json::Map<_, _> =
        (0..29).map(|n| (format!("d{n}"), json!({"allOf": next(n + 1)}))).collect();
    parts.insert("d29".into(), json!({"type": "object"}));
    let mut tool = tool("doubling");
    tool["parameters"] = json!({"type": "object", "allOf": next(0), "$defs": parts});
    tool
}

/// A tool whose patterns must all be compiled before the last one proves invalid.
fn costly(n: usize) -> Value {
    let pattern =
        |p: usize| (format!("p{p:02}"), json!({"pattern": format!("^[a-z{p}]{{1,300}}$")}));
    let mut properties: serde_json::Map<_, _> = (0..15).map(pattern).collect();
    properties.insert("p99".into(), json!({"pattern": "("}));
    let mut tool = tool(&format!("costly{n}"));
    tool["parameters"]["properties"] = json!(properties);
    tool
}

#[actix_web::test]
async fn expensive_schemas_are_refused_and_the_connection_stays_open() {
    const COSTLY: usize = 100;
    let (_vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    client.send(json!({"type": "register_tools", "tools": [doubling()]})).await;
    let told = client.next().await;
    assert_eq!(told["code"], "TOOL_REGISTRATION_FAILED");
    let why = "`parameters` is too complex: even empty arguments take too long to check";
    assert!(told["details"].as_str().unwrap().contains(why), "{told}");
    // A processor that checks all of these within the time limit refuses each for its last pattern.
    let mut tools = vec![tool("good")];
    tools.extend((0..COSTLY).map(costly));
    client.send(json!({"type": "register_tools", "tools": tools})).await;
    let told = client.next().await;
    assert_eq!((&told["type"], &told["count"]), (&json!("tools_registered"), &json!(1)));
    assert_eq!(told["tools"][0]["status"], "registered");
    for refused in &told["tools"].as_array().unwrap()[1..] {
        let error = refused["error"].as_str().unwrap();
        let is_late = error == "The tools of this message take too long to check";
        assert!(is_late || error.contains("is not a \"regex\""), "{error}");
    }
    assert_eq!(client.answer("well").await, "You said well");
    server.stop().await;
}

/// Schema work of all clients runs in sequence on one thread, which the test occupies here.
#[actix_web::test]
async fn a_waiting_registration_does_not_delay_other_clients() {
    let (_vendors, server) = echoing().await;
    let mut client = TextClient::connect(&server).await;
    let mut other = TextClient::connect(&server).await;
    let (begun, begins) = oneshot::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let working = tokio::spawn(off_worker("another", move |_| {
        begun.send(()).unwrap();
        // Ends at the signal of the test.
        ended.recv().ok();
    }));
    begins.await.unwrap();
    client.send(json!({"type": "register_tools", "tools": [tool("look")]})).await;
    for _ in 0..20 {
        other.is_quiet().await;
    }
    assert_eq!(other.answer("well").await, "You said well");
    assert!(client.next().now_or_never().is_none(), "it waits for the work of other clients");
    end.send(()).unwrap();
    working.await.unwrap().unwrap();
    assert_eq!(client.next().await["count"], 1);
    server.stop().await;
}
