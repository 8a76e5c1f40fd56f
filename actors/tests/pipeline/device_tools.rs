//! Tools of a device over its socket, the device's part written out here: lists in pages, calls,
//! and everything that real devices get wrong. Not for tools elsewhere or for the turn around
//! them.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_base::testkit::numbers;
use hearken_dialogue::testkit::LlmAct;
use hearken_ports::{Prompt, Role};
use hearken_socket::testkit::Received;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{abort, freeze, ms, next_turn_works, shown, speak, start};

pub(crate) const HELLO: &str =
    r#"{"type":"hello","version":1,"features":{"mcp":true},"transport":"websocket"}"#;
pub(crate) const VOLUME: &str = "self.audio_speaker.set_volume";

/// The next JSON-RPC message that the device is sent.
async fn asked(ring: &mut TestPipeline) -> Value {
    match ring.until("mcp").await.what {
        Received::Text(json) => json["payload"].clone(),
        other => panic!("{other:?}"),
    }
}

/// The next request of this method, which the device then owes an answer.
pub(crate) async fn asked_for(ring: &mut TestPipeline, method: &str) -> Value {
    let message = asked(ring).await;
    assert_eq!(
        (message["jsonrpc"].as_str(), message["method"].as_str()),
        (Some("2.0"), Some(method)),
        "{message}"
    );
    message
}

fn tell(ring: &TestPipeline, payload: Value) {
    ring.text(&json!({"type": "mcp", "session_id": "", "payload": payload}).to_string());
}

pub(crate) fn answer(ring: &TestPipeline, request: &Value, result: Value) {
    tell(ring, json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

fn words(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false})
}

pub(crate) async fn initialized(ring: &mut TestPipeline) -> Value {
    let request = asked_for(ring, "initialize").await;
    let info = json!({"name": "board", "version": "2.0"});
    answer(
        ring,
        &request,
        json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info}),
    );
    assert_eq!(asked(ring).await, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    request
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("Does {name}."), "inputSchema": {
        "type": "object",
        "properties": {"volume": {"type": "integer", "minimum": 0, "maximum": 100}},
    }})
}

/// A device that has said what it can do, with these tools, and listens.
async fn device_with(settings: PipelineSettings, tools: Vec<Value>) -> TestPipeline {
    freeze();
    let mut ring = TestPipeline::connect(settings);
    ring.text(HELLO);
    initialized(&mut ring).await;
    let list = asked_for(&mut ring, "tools/list").await;
    answer(&ring, &list, json!({"tools": tools}));
    start(&ring, "auto");
    ring.pass(ms(100)).await;
    ring.forget();
    ring
}

async fn device() -> TestPipeline {
    device_with(PipelineSettings::default(), vec![tool(VOLUME), tool("self.get_device_status")])
        .await
}

/// Somebody asks for something, and the model calls these tools.
async fn call(ring: &TestPipeline, calls: Vec<(&'static str, &'static str)>) {
    ring.script.thinks(LlmAct::Call("", calls));
    speak(ring).await;
}

/// What the model was last told of its calls.
fn results(ring: &TestPipeline) -> Vec<String> {
    let told = ring.script.last_prompt();
    told.iter().filter_map(|m| m.strip_prefix("Tool: ")).map(str::to_owned).collect()
}

pub(crate) fn offered(ring: &TestPipeline) -> Vec<String> {
    let prompts = ring.script.prompts.lock().unwrap();
    prompts.last().unwrap().tools.iter().map(|t| t.name.clone()).collect()
}

#[actix::test]
async fn the_model_reads_a_device_s_tools_ahead_until_it_is_asked() {
    let mut ring = device().await;
    let openings = ring.script.openings.lock().unwrap().clone();
    let [opening] = &openings[..] else { panic!("{openings:?}") };
    let offered: Vec<&str> = opening.tools.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(offered, ["self_audio_speaker_set_volume", "self_get_device_status"]);
    assert!(opening.messages.iter().all(|m| m.role == Role::System));
    assert_eq!(ring.script.reading.load(Ordering::Relaxed), 1);
    speak(&ring).await;
    ring.until("tts/stop").await;
    assert_eq!(ring.script.reading.load(Ordering::Relaxed), 0, "the request is given up");
    let prompts = ring.script.prompts.lock().unwrap().clone();
    assert_eq!(prompts[0].tools, opening.tools);
    let system = |prompt: &Prompt| prompt.messages[0].content.clone();
    assert!(system(opening).starts_with(&system(&prompts[0])), "but for the note on the language");
    ring.hang_up().await;
}

#[actix::test]
async fn check_21_forty_tools_come_in_pages_and_one_is_called() {
    freeze();
    let mut ring = TestPipeline::connect(PipelineSettings::default());
    ring.text(HELLO);
    let hello = initialized(&mut ring).await;
    let vision = json!({"url": "http://vision.example/explain", "token": "token of ring"});
    assert_eq!(hello["params"]["protocolVersion"], "2024-11-05");
    assert_eq!(hello["params"]["capabilities"]["vision"], vision);
    let mut ids = vec![hello["id"].as_i64().unwrap()];
    for page in 0..5 {
        let list = asked_for(&mut ring, "tools/list").await;
        ids.push(list["id"].as_i64().unwrap());
        let cursor = if page == 0 { String::new() } else { format!("self.tool{}", page * 8) };
        assert_eq!(list["params"], json!({"cursor": cursor}));
        let tools: Vec<Value> =
            (page * 8..page * 8 + 8).map(|n| tool(&format!("self.tool{n}"))).collect();
        let mut result = json!({"tools": tools});
        if page < 4 {
            result["nextCursor"] = format!("self.tool{}", (page + 1) * 8).into();
        }
        answer(&ring, &list, result);
    }
    start(&ring, "auto");
    call(&ring, vec![("self_tool39", r#"{"volume": 7}"#)]).await;
    let request = asked_for(&mut ring, "tools/call").await;
    ids.push(request["id"].as_i64().unwrap());
    assert_eq!(request["params"], json!({"name": "self.tool39", "arguments": {"volume": 7}}));
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7], "ids are whole numbers and never the same");
    answer(&ring, &request, words("Volume is 7."));
    ring.until("tts/stop").await;
    assert_eq!(results(&ring), ["Volume is 7."]);
    assert_eq!(shown(&ring), ["Good day."]);
    let tools = offered(&ring);
    assert_eq!((tools.len(), tools[39].as_str()), (40, "self_tool39"));
    ring.hang_up().await;
}

#[actix::test]
async fn a_line_that_rested_is_taken_up_without_another_introduction() {
    let mut ring = device().await;
    for said in ["first", "second"] {
        ring.pass(ms(30_000)).await;
        call(&ring, vec![("self_audio_speaker_set_volume", r#"{"volume": 7}"#)]).await;
        let request = asked_for(&mut ring, "tools/call").await;
        assert!(request["id"].as_i64() > Some(2), "an id is never used again: {request}");
        answer(&ring, &request, words(said));
        ring.until("tts/stop").await;
    }
    assert_eq!(results(&ring)[1..], ["second"], "{:?}", results(&ring));
    ring.pass(ms(30_000)).await;
    tell(&ring, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let list = asked_for(&mut ring, "tools/list").await;
    answer(&ring, &list, json!({"tools": [tool("self.lamp.set")]}));
    ring.pass(ms(100)).await;
    speak(&ring).await;
    ring.until("tts/stop").await;
    assert_eq!(offered(&ring), ["self_lamp_set"]);
    ring.hang_up().await;
}

#[actix::test]
async fn check_21_errors_without_a_code_reach_the_model() {
    let mut ring = device().await;
    call(&ring, vec![("self_audio_speaker_set_volume", r#"{"volume": 7}"#)]).await;
    let request = asked_for(&mut ring, "tools/call").await;
    tell(
        &ring,
        json!({"jsonrpc": "2.0", "id": request["id"], "error": {"message": "Unknown tool: x"}}),
    );
    ring.until("tts/stop").await;
    assert_eq!(results(&ring), ["error: the tool failed: Unknown tool: x"]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn check_21_an_answer_that_cannot_be_read_is_a_timeout_and_no_crash() {
    let mut ring = device().await;
    call(&ring, vec![("self_get_device_status", "{}")]).await;
    asked_for(&mut ring, "tools/call").await;
    for garbage in [
        "{\"type\":\"mcp\",\"payload\":",
        "\u{0}",
        "[3]",
        r#"{"type":"mcp","payload":[7]}"#,
        r#"{"type":"mcp"}"#,
    ] {
        ring.text(garbage);
    }
    tell(&ring, json!({"id": 99_999_999_999_i64, "result": {}}));
    ring.until("tts/stop").await;
    assert_eq!(results(&ring), ["error: the tool did not answer within 30 s"]);
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn check_22_the_wait_for_a_tool_is_configured_and_late_answers_are_dropped() {
    let mut settings = PipelineSettings::default();
    settings.tools.device_timeout = Duration::from_secs(60);
    let mut ring = device_with(settings, vec![tool(VOLUME)]).await;
    call(&ring, vec![("self_audio_speaker_set_volume", "{}")]).await;
    let first = asked_for(&mut ring, "tools/call").await;
    let began = ring.now();
    let cancelled = asked_for(&mut ring, "notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], first["id"]);
    let waited = ring.now() - began;
    assert!((ms(59_500)..ms(60_500)).contains(&waited), "{waited:?}");
    ring.until("tts/stop").await;
    assert_eq!(results(&ring), ["error: the tool did not answer within 60 s"]);
    start(&ring, "auto");
    call(&ring, vec![("self_audio_speaker_set_volume", "{}")]).await;
    let second = asked_for(&mut ring, "tools/call").await;
    answer(&ring, &first, words("late"));
    ring.pass(ms(200)).await;
    answer(&ring, &second, words("in time"));
    answer(&ring, &second, words("twice"));
    ring.until("tts/stop").await;
    assert_eq!(results(&ring).last().unwrap(), "in time");
    ring.hang_up().await;
}

#[actix::test]
async fn lists_end_at_an_empty_cursor_and_at_a_repeated_one() {
    for cursors in [["x", ""], ["x", "x"]] {
        freeze();
        let mut ring = TestPipeline::connect(PipelineSettings::default());
        ring.text(HELLO);
        initialized(&mut ring).await;
        for (n, cursor) in cursors.into_iter().enumerate() {
            let list = asked_for(&mut ring, "tools/list").await;
            answer(&ring, &list, json!({"tools": [tool(&format!("t{n}"))], "nextCursor": cursor}));
        }
        start(&ring, "auto");
        ring.forget();
        speak(&ring).await;
        ring.until("tts/stop").await;
        assert!(!ring.names().contains(&"mcp".into()), "{:?}", ring.names());
        assert_eq!(offered(&ring), ["t0", "t1"]);
        ring.hang_up().await;
    }
}

#[actix::test]
async fn two_calls_reach_a_device_one_after_the_other() {
    let mut ring = device().await;
    let calls =
        vec![("self_audio_speaker_set_volume", r#"{"volume": 1}"#), ("self_get_device_status", "")];
    call(&ring, calls).await;
    let first = asked_for(&mut ring, "tools/call").await;
    ring.forget();
    ring.pass(ms(1_000)).await;
    assert_eq!(ring.names(), [""; 0], "the second call did not wait");
    answer(&ring, &first, words("one"));
    let second = asked_for(&mut ring, "tools/call").await;
    assert_eq!(second["params"], json!({"name": "self.get_device_status", "arguments": {}}));
    answer(&ring, &second, words("two"));
    ring.until("tts/stop").await;
    assert_eq!(results(&ring), ["one", "two"]);
    ring.hang_up().await;
}

#[actix::test]
async fn an_interruption_cancels_the_call_and_the_model_is_told() {
    let mut ring = device().await;
    ring.script
        .thinks(LlmAct::Call("I will turn it up.", vec![("self_audio_speaker_set_volume", "{}")]));
    speak(&ring).await;
    let request = asked_for(&mut ring, "tools/call").await;
    ring.until("tts/sentence_end").await;
    ring.pass(ms(500)).await;
    abort(&ring);
    let cancelled = asked_for(&mut ring, "notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    answer(&ring, &request, words("late"));
    next_turn_works(&mut ring).await;
    let told = ring.script.last_prompt();
    assert_eq!(told[2], "Assistant: I will turn it up.");
    assert_eq!(told[3], "Tool: error: the person interrupted; the call was cancelled");
    assert_eq!(told.len(), 5);
    ring.hang_up().await;
}

#[actix::test]
async fn pictures_become_a_note_and_tool_errors_are_told_as_such() {
    let mut ring = device().await;
    call(&ring, vec![("self_get_device_status", "{}"), ("self_get_device_status", "{}")]).await;
    let request = asked_for(&mut ring, "tools/call").await;
    let image =
        json!({"type": "image", "mimeType": "image/jpeg", "data": "A".repeat(4_000)}).to_string();
    answer(
        &ring,
        &request,
        json!({"content": [{"type": "image", "image": image}], "isError": false}),
    );
    let request = asked_for(&mut ring, "tools/call").await;
    answer(
        &ring,
        &request,
        json!({"content": [{"type": "text", "text": "no camera"}], "isError": true}),
    );
    ring.until("tts/stop").await;
    let expected = ["[a picture, image/jpeg, 3 kB, which you cannot see]", "error: no camera"];
    assert_eq!(results(&ring), expected);
    ring.hang_up().await;
}

#[actix::test]
async fn a_second_hello_begins_anew_with_new_ids() {
    freeze();
    let mut ring = TestPipeline::connect(PipelineSettings::default());
    ring.text(HELLO);
    let first = asked_for(&mut ring, "initialize").await;
    ring.text(HELLO);
    let second = asked_for(&mut ring, "initialize").await;
    assert!(second["id"].as_i64() > first["id"].as_i64());
    answer(
        &ring,
        &first,
        json!({"protocolVersion": "1", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}),
    );
    ring.forget();
    ring.pass(ms(500)).await;
    assert_eq!(ring.names(), [""; 0], "the answer to the first hello was taken");
    answer(&ring, &second, json!({"protocolVersion": "2024-11-05"}));
    asked_for(&mut ring, "notifications/initialized").await;
    let list = asked_for(&mut ring, "tools/list").await;
    answer(&ring, &list, json!({"tools": [tool("a")]}));
    ring.pass(ms(100)).await;
    tell(&ring, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let list = asked_for(&mut ring, "tools/list").await;
    answer(&ring, &list, json!({"tools": [tool("b")]}));
    next_turn_works(&mut ring).await;
    assert_eq!(offered(&ring), ["b"]);
    ring.hang_up().await;
}

#[actix::test]
async fn a_device_that_never_answers_talks_as_if_it_had_no_tools() {
    freeze();
    let mut ring = TestPipeline::connect(PipelineSettings::default());
    ring.text(HELLO);
    asked_for(&mut ring, "initialize").await;
    ring.pass(Duration::from_secs(60)).await;
    next_turn_works(&mut ring).await;
    assert_eq!(offered(&ring), [""; 0]);
    ring.hang_up().await;
}

#[actix::test]
async fn check_21_an_error_with_quotes_in_it_reaches_the_model_at_once() {
    let mut ring = device().await;
    call(&ring, vec![("self_audio_speaker_set_volume", r#"{"volume": 7}"#)]).await;
    let id = asked_for(&mut ring, "tools/call").await["id"].clone();
    let asked = ring.now();
    ring.text(&format!(
        r#"{{"session_id":"","type":"mcp","payload":{{"jsonrpc":"2.0","id":{id},"error":{{"message":"Unknown tool: "x" here"}}}}}}"#
    ));
    let begun = ring.until("tts/start").await.at;
    assert!(begun - asked < ms(1_000), "{:?}", begun - asked);
    ring.until("tts/stop").await;
    assert!(results(&ring)[0].starts_with("error: the tool failed: "), "{:?}", results(&ring));
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn a_long_connection_gets_a_fresh_token_for_its_camera() {
    let mut settings = PipelineSettings::default();
    settings.device.no_voice_timeout = Duration::from_secs(7_200);
    let mut ring = device_with(settings, vec![tool(VOLUME)]).await;
    ring.pass(Duration::from_secs(19 * 60)).await;
    assert_eq!(ring.names(), [""; 0]);
    let renewed = Instant::now() + Duration::from_secs(21 * 60);
    while ring.names().is_empty() && Instant::now() < renewed {
        ring.pass(ms(1_000)).await;
    }
    let Some(Received::Text(message)) = ring.log.pop().map(|down| down.what) else {
        panic!("no message within 40 minutes");
    };
    let again = &message["payload"];
    assert_eq!(again["method"], "initialize");
    assert_eq!(again["params"]["protocolVersion"], "2024-11-05");
    assert_eq!(again["params"]["capabilities"]["vision"]["token"], "token of ring");
    answer(&ring, again, json!({"protocolVersion": "2024-11-05"}));
    next_turn_works(&mut ring).await;
    assert_eq!(offered(&ring), ["self_audio_speaker_set_volume"]);
    ring.hang_up().await;
}

#[actix::test]
async fn things_of_old_firmware_are_tools_too() {
    let mut ring = crate::listening("auto").await;
    let volume = json!({"description": "0 to 100", "type": "number"});
    ring.text(
        &json!({"type": "iot", "update": true, "descriptors": [{
            "name": "Speaker",
            "description": "The loudspeaker",
            "properties": {"volume": volume},
            "methods": {"SetVolume": {"description": "Sets it", "parameters": {"volume": volume}}},
        }]})
        .to_string(),
    );
    let state = |volume: i32| json!({"type": "iot", "states": [{"name": "Speaker", "state": {"volume": volume}}]});
    ring.text(&state(70).to_string());
    let calls = vec![
        ("Speaker_SetVolume", r#"{"volume": 40}"#),
        ("Speaker_get_volume", "{}"),
        ("Speaker_SetVolume", "{}"),
    ];
    call(&ring, calls).await;
    let Received::Text(order) = ring.until("iot").await.what else { panic!("no order") };
    let command = json!({"name": "Speaker", "method": "SetVolume", "parameters": {"volume": 40}});
    assert_eq!(order["commands"], json!([command]));
    ring.until("tts/stop").await;
    let expected = [
        "the device was told",
        "70",
        r#"error: the arguments are wrong: "volume" is a required property"#,
    ];
    assert_eq!(results(&ring), expected);
    assert_eq!(offered(&ring), ["Speaker_SetVolume", "Speaker_get_volume"]);
    ring.text(&state(40).to_string());
    start(&ring, "auto");
    call(&ring, vec![("Speaker_get_volume", "")]).await;
    ring.until("tts/stop").await;
    assert_eq!(results(&ring).last().unwrap(), "40");
    ring.hang_up().await;
}

#[actix::test]
async fn a_device_without_mcp_is_not_asked() {
    let mut ring = crate::listening("auto").await;
    tell(&ring, json!({"id": 1, "result": {}}));
    next_turn_works(&mut ring).await;
    ring.hang_up().await;
}

#[actix::test]
async fn numbers_pass_a_device_s_tools_as_they_were_written() {
    let mut settings = PipelineSettings::default();
    settings.tools.max_result_bytes = 64 << 10;
    let list = json!({"type": "object", "properties": {"list": {"type": "array"}}});
    let tools = vec![json!({"name": "self.sum", "description": "Sums.", "inputSchema": list})];
    let mut ring = device_with(settings, tools).await;
    let written = numbers::written();
    let arguments = format!(r#"{{"list":{}}}"#, numbers::array(&written));
    call(&ring, vec![("self_sum", Box::leak(arguments.into_boxed_str()))]).await;
    let request = asked_for(&mut ring, "tools/call").await;
    let kept = numbers::array_kept(&written);
    assert_eq!(request["params"]["arguments"]["list"].to_string(), kept);
    // A bare result, and a note of progress that is no answer.
    tell(
        &ring,
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 0.5, "total": 1.50}}),
    );
    answer(&ring, &request, serde_json::from_str(&numbers::array(&written)).unwrap());
    ring.until("tts/stop").await;
    assert_eq!(results(&ring), [kept]);
    ring.hang_up().await;
}
