//! Tools of a device over its socket, with the device's side written out here: lists in pages,
//! calls, and all mistakes of real devices. Not for tools elsewhere or for the turn around them.

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

/// Returns the next JSON-RPC message that the device is sent.
async fn asked(pipeline: &mut TestPipeline) -> Value {
    match pipeline.until("mcp").await.what {
        Received::Text(json) => json["payload"].clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns the next request of this method, which the device then has to answer.
pub(crate) async fn asked_for(pipeline: &mut TestPipeline, method: &str) -> Value {
    let message = asked(pipeline).await;
    assert_eq!(
        (message["jsonrpc"].as_str(), message["method"].as_str()),
        (Some("2.0"), Some(method)),
        "{message}"
    );
    message
}

fn tell(pipeline: &TestPipeline, payload: Value) {
    pipeline.text(&json!({"type": "mcp", "session_id": "", "payload": payload}).to_string());
}

pub(crate) fn answer(pipeline: &TestPipeline, request: &Value, result: Value) {
    tell(pipeline, json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

fn words(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false})
}

pub(crate) async fn initialized(pipeline: &mut TestPipeline) -> Value {
    let request = asked_for(pipeline, "initialize").await;
    let info = json!({"name": "board", "version": "2.0"});
    answer(
        pipeline,
        &request,
        json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info}),
    );
    assert_eq!(
        asked(pipeline).await,
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
    );
    request
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("Does {name}."), "inputSchema": {
        "type": "object",
        "properties": {"volume": {"type": "integer", "minimum": 0, "maximum": 100}},
    }})
}

/// Returns a listening device that has announced these tools.
async fn device_with(settings: PipelineSettings, tools: Vec<Value>) -> TestPipeline {
    freeze();
    let mut pipeline = TestPipeline::connect(settings);
    pipeline.text(HELLO);
    initialized(&mut pipeline).await;
    let list = asked_for(&mut pipeline, "tools/list").await;
    answer(&pipeline, &list, json!({"tools": tools}));
    start(&pipeline, "auto");
    pipeline.pass(ms(100)).await;
    pipeline.forget();
    pipeline
}

async fn device() -> TestPipeline {
    device_with(PipelineSettings::default(), vec![tool(VOLUME), tool("self.get_device_status")])
        .await
}

/// A person asks for something, and the model calls these tools.
async fn call(pipeline: &TestPipeline, calls: Vec<(&'static str, &'static str)>) {
    pipeline.script.thinks(LlmAct::Call("", calls));
    speak(pipeline).await;
}

/// Returns the results of the model's last calls.
fn results(pipeline: &TestPipeline) -> Vec<String> {
    let told = pipeline.script.last_prompt();
    told.iter().filter_map(|m| m.strip_prefix("Tool: ")).map(str::to_owned).collect()
}

pub(crate) fn offered(pipeline: &TestPipeline) -> Vec<String> {
    let prompts = pipeline.script.prompts.lock().unwrap();
    prompts.last().unwrap().tools.iter().map(|t| t.name.clone()).collect()
}

#[actix::test]
async fn the_prompt_with_a_device_s_tools_is_prefetched_until_the_first_question() {
    let mut pipeline = device().await;
    let openings = pipeline.script.openings.lock().unwrap().clone();
    let [opening] = &openings[..] else { panic!("{openings:?}") };
    let offered: Vec<&str> = opening.tools.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(offered, ["self_audio_speaker_set_volume", "self_get_device_status"]);
    assert!(opening.messages.iter().all(|m| m.role == Role::System));
    assert_eq!(pipeline.script.reading.load(Ordering::Relaxed), 1);
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(pipeline.script.reading.load(Ordering::Relaxed), 0, "the request is cancelled");
    let prompts = pipeline.script.prompts.lock().unwrap().clone();
    assert_eq!(prompts[0].tools, opening.tools);
    let system = |prompt: &Prompt| prompt.messages[0].content.clone();
    assert!(system(opening).starts_with(&system(&prompts[0])), "except for the language note");
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_21_forty_tools_are_listed_in_pages_and_one_is_called() {
    freeze();
    let mut pipeline = TestPipeline::connect(PipelineSettings::default());
    pipeline.text(HELLO);
    let hello = initialized(&mut pipeline).await;
    let vision = json!({"url": "http://vision.example/explain", "token": "token of pipeline"});
    assert_eq!(hello["params"]["protocolVersion"], "2024-11-05");
    assert_eq!(hello["params"]["capabilities"]["vision"], vision);
    let mut ids = vec![hello["id"].as_i64().unwrap()];
    for page in 0..5 {
        let list = asked_for(&mut pipeline, "tools/list").await;
        ids.push(list["id"].as_i64().unwrap());
        let cursor = if page == 0 { String::new() } else { format!("self.tool{}", page * 8) };
        assert_eq!(list["params"], json!({"cursor": cursor}));
        let tools: Vec<Value> =
            (page * 8..page * 8 + 8).map(|n| tool(&format!("self.tool{n}"))).collect();
        let mut result = json!({"tools": tools});
        if page < 4 {
            result["nextCursor"] = format!("self.tool{}", (page + 1) * 8).into();
        }
        answer(&pipeline, &list, result);
    }
    start(&pipeline, "auto");
    call(&pipeline, vec![("self_tool39", r#"{"volume": 7}"#)]).await;
    let request = asked_for(&mut pipeline, "tools/call").await;
    ids.push(request["id"].as_i64().unwrap());
    assert_eq!(request["params"], json!({"name": "self.tool39", "arguments": {"volume": 7}}));
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7], "ids are unique whole numbers");
    answer(&pipeline, &request, words("Volume is 7."));
    pipeline.until("tts/stop").await;
    assert_eq!(results(&pipeline), ["Volume is 7."]);
    assert_eq!(shown(&pipeline), ["Good day."]);
    let tools = offered(&pipeline);
    assert_eq!((tools.len(), tools[39].as_str()), (40, "self_tool39"));
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_idle_link_is_reopened_without_another_initialisation() {
    let mut pipeline = device().await;
    for said in ["first", "second"] {
        pipeline.pass(ms(30_000)).await;
        call(&pipeline, vec![("self_audio_speaker_set_volume", r#"{"volume": 7}"#)]).await;
        let request = asked_for(&mut pipeline, "tools/call").await;
        assert!(request["id"].as_i64() > Some(2), "an id is never reused: {request}");
        answer(&pipeline, &request, words(said));
        pipeline.until("tts/stop").await;
    }
    assert_eq!(results(&pipeline)[1..], ["second"], "{:?}", results(&pipeline));
    pipeline.pass(ms(30_000)).await;
    tell(&pipeline, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let list = asked_for(&mut pipeline, "tools/list").await;
    answer(&pipeline, &list, json!({"tools": [tool("self.lamp.set")]}));
    pipeline.pass(ms(100)).await;
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    assert_eq!(offered(&pipeline), ["self_lamp_set"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_21_errors_without_a_code_reach_the_model() {
    let mut pipeline = device().await;
    call(&pipeline, vec![("self_audio_speaker_set_volume", r#"{"volume": 7}"#)]).await;
    let request = asked_for(&mut pipeline, "tools/call").await;
    tell(
        &pipeline,
        json!({"jsonrpc": "2.0", "id": request["id"], "error": {"message": "Unknown tool: x"}}),
    );
    pipeline.until("tts/stop").await;
    assert_eq!(results(&pipeline), ["error: the tool failed: Unknown tool: x"]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_21_an_unreadable_answer_is_a_timeout_and_no_crash() {
    let mut pipeline = device().await;
    call(&pipeline, vec![("self_get_device_status", "{}")]).await;
    asked_for(&mut pipeline, "tools/call").await;
    for garbage in [
        "{\"type\":\"mcp\",\"payload\":",
        "\u{0}",
        "[3]",
        r#"{"type":"mcp","payload":[7]}"#,
        r#"{"type":"mcp"}"#,
    ] {
        pipeline.text(garbage);
    }
    tell(&pipeline, json!({"id": 99_999_999_999_i64, "result": {}}));
    pipeline.until("tts/stop").await;
    assert_eq!(results(&pipeline), ["error: the tool did not answer within 30 s"]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn check_22_the_timeout_of_a_tool_is_configurable_and_late_answers_are_dropped() {
    let mut settings = PipelineSettings::default();
    settings.tools.device_timeout = Duration::from_secs(60);
    let mut pipeline = device_with(settings, vec![tool(VOLUME)]).await;
    call(&pipeline, vec![("self_audio_speaker_set_volume", "{}")]).await;
    let first = asked_for(&mut pipeline, "tools/call").await;
    let began = pipeline.now();
    let cancelled = asked_for(&mut pipeline, "notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], first["id"]);
    let waited = pipeline.now() - began;
    assert!((ms(59_500)..ms(60_500)).contains(&waited), "{waited:?}");
    pipeline.until("tts/stop").await;
    assert_eq!(results(&pipeline), ["error: the tool did not answer within 60 s"]);
    start(&pipeline, "auto");
    call(&pipeline, vec![("self_audio_speaker_set_volume", "{}")]).await;
    let second = asked_for(&mut pipeline, "tools/call").await;
    answer(&pipeline, &first, words("late"));
    pipeline.pass(ms(200)).await;
    answer(&pipeline, &second, words("in time"));
    answer(&pipeline, &second, words("twice"));
    pipeline.until("tts/stop").await;
    assert_eq!(results(&pipeline).last().unwrap(), "in time");
    pipeline.hang_up().await;
}

#[actix::test]
async fn lists_end_at_an_empty_cursor_and_at_a_repeated_one() {
    for cursors in [["x", ""], ["x", "x"]] {
        freeze();
        let mut pipeline = TestPipeline::connect(PipelineSettings::default());
        pipeline.text(HELLO);
        initialized(&mut pipeline).await;
        for (n, cursor) in cursors.into_iter().enumerate() {
            let list = asked_for(&mut pipeline, "tools/list").await;
            answer(
                &pipeline,
                &list,
                json!({"tools": [tool(&format!("t{n}"))], "nextCursor": cursor}),
            );
        }
        start(&pipeline, "auto");
        pipeline.forget();
        speak(&pipeline).await;
        pipeline.until("tts/stop").await;
        assert!(!pipeline.names().contains(&"mcp".into()), "{:?}", pipeline.names());
        assert_eq!(offered(&pipeline), ["t0", "t1"]);
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn two_calls_reach_a_device_one_after_the_other() {
    let mut pipeline = device().await;
    let calls =
        vec![("self_audio_speaker_set_volume", r#"{"volume": 1}"#), ("self_get_device_status", "")];
    call(&pipeline, calls).await;
    let first = asked_for(&mut pipeline, "tools/call").await;
    pipeline.forget();
    pipeline.pass(ms(1_000)).await;
    assert_eq!(pipeline.names(), [""; 0], "the second call did not wait");
    answer(&pipeline, &first, words("one"));
    let second = asked_for(&mut pipeline, "tools/call").await;
    assert_eq!(second["params"], json!({"name": "self.get_device_status", "arguments": {}}));
    answer(&pipeline, &second, words("two"));
    pipeline.until("tts/stop").await;
    assert_eq!(results(&pipeline), ["one", "two"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn an_interruption_cancels_the_call_and_the_model_gets_an_error() {
    let mut pipeline = device().await;
    pipeline
        .script
        .thinks(LlmAct::Call("I will turn it up.", vec![("self_audio_speaker_set_volume", "{}")]));
    speak(&pipeline).await;
    let request = asked_for(&mut pipeline, "tools/call").await;
    pipeline.until("tts/sentence_end").await;
    pipeline.pass(ms(500)).await;
    abort(&pipeline);
    let cancelled = asked_for(&mut pipeline, "notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    answer(&pipeline, &request, words("late"));
    next_turn_works(&mut pipeline).await;
    let told = pipeline.script.last_prompt();
    assert_eq!(told[2], "Assistant: I will turn it up.");
    assert_eq!(
        told[3],
        "Tool: error: the person interrupted; the call was cancelled, and may have had its effect"
    );
    assert_eq!(told.len(), 5);
    pipeline.hang_up().await;
}

#[actix::test]
async fn pictures_become_a_note_and_tool_errors_are_reported_as_errors() {
    let mut pipeline = device().await;
    call(&pipeline, vec![("self_get_device_status", "{}"), ("self_get_device_status", "{}")]).await;
    let request = asked_for(&mut pipeline, "tools/call").await;
    let image =
        json!({"type": "image", "mimeType": "image/jpeg", "data": "A".repeat(4_000)}).to_string();
    answer(
        &pipeline,
        &request,
        json!({"content": [{"type": "image", "image": image}], "isError": false}),
    );
    let request = asked_for(&mut pipeline, "tools/call").await;
    answer(
        &pipeline,
        &request,
        json!({"content": [{"type": "text", "text": "no camera"}], "isError": true}),
    );
    pipeline.until("tts/stop").await;
    let expected = ["[a picture, image/jpeg, 3 kB, which you cannot see]", "error: no camera"];
    assert_eq!(results(&pipeline), expected);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_second_hello_restarts_with_new_ids() {
    freeze();
    let mut pipeline = TestPipeline::connect(PipelineSettings::default());
    pipeline.text(HELLO);
    let first = asked_for(&mut pipeline, "initialize").await;
    pipeline.text(HELLO);
    let second = asked_for(&mut pipeline, "initialize").await;
    assert!(second["id"].as_i64() > first["id"].as_i64());
    answer(
        &pipeline,
        &first,
        json!({"protocolVersion": "1", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}),
    );
    pipeline.forget();
    pipeline.pass(ms(500)).await;
    assert_eq!(pipeline.names(), [""; 0], "the answer to the first hello was accepted");
    answer(&pipeline, &second, json!({"protocolVersion": "2024-11-05"}));
    asked_for(&mut pipeline, "notifications/initialized").await;
    let list = asked_for(&mut pipeline, "tools/list").await;
    answer(&pipeline, &list, json!({"tools": [tool("a")]}));
    pipeline.pass(ms(100)).await;
    tell(&pipeline, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let list = asked_for(&mut pipeline, "tools/list").await;
    answer(&pipeline, &list, json!({"tools": [tool("b")]}));
    next_turn_works(&mut pipeline).await;
    assert_eq!(offered(&pipeline), ["b"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_device_that_never_answers_talks_without_tools() {
    freeze();
    let mut pipeline = TestPipeline::connect(PipelineSettings::default());
    pipeline.text(HELLO);
    asked_for(&mut pipeline, "initialize").await;
    pipeline.pass(Duration::from_secs(60)).await;
    next_turn_works(&mut pipeline).await;
    assert_eq!(offered(&pipeline), [""; 0]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_device_whose_mcp_server_starts_late_gets_its_tools() {
    freeze();
    let mut pipeline = TestPipeline::connect(PipelineSettings::default());
    pipeline.text(HELLO);
    let request = asked_for(&mut pipeline, "initialize").await;
    pipeline.pass(Duration::from_secs(25)).await;
    answer(&pipeline, &request, json!({"protocolVersion": "2024-11-05"}));
    asked_for(&mut pipeline, "notifications/initialized").await;
    let list = asked_for(&mut pipeline, "tools/list").await;
    answer(&pipeline, &list, json!({"tools": [tool("a")]}));
    pipeline.pass(ms(100)).await;
    next_turn_works(&mut pipeline).await;
    assert_eq!(offered(&pipeline), ["a"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_device_whose_first_initialize_is_lost_is_asked_again() {
    freeze();
    let mut settings = PipelineSettings::default();
    settings.device.no_voice_timeout = Duration::from_secs(7_200);
    let mut pipeline = TestPipeline::connect(settings);
    pipeline.text(HELLO);
    let first = asked_for(&mut pipeline, "initialize").await;
    let again = asked_for(&mut pipeline, "initialize").await;
    assert!(again["id"].as_i64() > first["id"].as_i64(), "an id is never reused");
    answer(&pipeline, &again, json!({"protocolVersion": "2024-11-05"}));
    asked_for(&mut pipeline, "notifications/initialized").await;
    asked_for(&mut pipeline, "tools/list").await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_list_without_an_answer_loses_no_tools_and_is_requested_again() {
    for answered in [1, 6] {
        let mut pipeline = device().await;
        let before = offered_in_a_turn(&mut pipeline).await;
        tell(&pipeline, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        for _ in 0..answered {
            next_list(&mut pipeline).await;
            assert_eq!(offered_in_a_turn(&mut pipeline).await, before);
        }
        if answered == 1 {
            let list = next_list(&mut pipeline).await;
            answer(&pipeline, &list, json!({"tools": [tool("self.lamp.set")]}));
            pipeline.pass(ms(100)).await;
            assert_eq!(offered_in_a_turn(&mut pipeline).await, ["self_lamp_set"]);
        } else {
            pipeline.pass(Duration::from_secs(40)).await;
            pipeline.forget();
            pipeline.pass(Duration::from_secs(60)).await;
            assert!(!pipeline.names().contains(&"mcp".to_owned()), "there are no further requests");
        }
        pipeline.hang_up().await;
    }
}

/// Returns the next request of a list; one that was not answered in time is cancelled.
async fn next_list(pipeline: &mut TestPipeline) -> Value {
    loop {
        let message = asked(pipeline).await;
        if message["method"] == "tools/list" {
            return message;
        }
        assert_eq!(message["method"], "notifications/cancelled", "{message}");
    }
}

async fn offered_in_a_turn(pipeline: &mut TestPipeline) -> Vec<String> {
    next_turn_works(pipeline).await;
    offered(pipeline)
}

#[actix::test]
async fn check_21_an_error_with_quotes_in_it_reaches_the_model_at_once() {
    let mut pipeline = device().await;
    call(&pipeline, vec![("self_audio_speaker_set_volume", r#"{"volume": 7}"#)]).await;
    let id = asked_for(&mut pipeline, "tools/call").await["id"].clone();
    let asked = pipeline.now();
    pipeline.text(&format!(
        r#"{{"session_id":"","type":"mcp","payload":{{"jsonrpc":"2.0","id":{id},"error":{{"message":"Unknown tool: "x" here"}}}}}}"#
    ));
    let begun = pipeline.until("tts/start").await.at;
    assert!(begun - asked < ms(1_000), "{:?}", begun - asked);
    pipeline.until("tts/stop").await;
    assert!(
        results(&pipeline)[0].starts_with("error: the tool failed: "),
        "{:?}",
        results(&pipeline)
    );
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_long_connection_gets_fresh_tokens_for_its_camera() {
    let mut settings = PipelineSettings::default();
    settings.device.no_voice_timeout = Duration::from_secs(7_200);
    let mut pipeline = device_with(settings, vec![tool(VOLUME)]).await;
    pipeline.pass(Duration::from_secs(19 * 60)).await;
    assert_eq!(pipeline.names(), [""; 0]);
    let renewed = Instant::now() + Duration::from_secs(21 * 60);
    while pipeline.names().is_empty() && Instant::now() < renewed {
        pipeline.pass(ms(1_000)).await;
    }
    let Some(Received::Text(message)) = pipeline.log.pop().map(|down| down.what) else {
        panic!("no message within 40 minutes");
    };
    let again = &message["payload"];
    assert_eq!(again["method"], "initialize");
    assert_eq!(again["params"]["protocolVersion"], "2024-11-05");
    assert_eq!(again["params"]["capabilities"]["vision"]["token"], "token of pipeline");
    answer(&pipeline, again, json!({"protocolVersion": "2024-11-05"}));
    next_turn_works(&mut pipeline).await;
    assert_eq!(offered(&pipeline), ["self_audio_speaker_set_volume"]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn things_of_old_firmware_are_tools() {
    let mut pipeline = crate::listening("auto").await;
    let volume = json!({"description": "0 to 100", "type": "number"});
    pipeline.text(
        &json!({"type": "iot", "update": true, "descriptors": [{
            "name": "Speaker",
            "description": "The loudspeaker",
            "properties": {"volume": volume},
            "methods": {"SetVolume": {"description": "Sets it", "parameters": {"volume": volume}}},
        }]})
        .to_string(),
    );
    let state = |volume: i32| json!({"type": "iot", "states": [{"name": "Speaker", "state": {"volume": volume}}]});
    pipeline.text(&state(70).to_string());
    let calls = vec![
        ("Speaker_SetVolume", r#"{"volume": 40}"#),
        ("Speaker_get_volume", "{}"),
        ("Speaker_SetVolume", "{}"),
    ];
    call(&pipeline, calls).await;
    let Received::Text(order) = pipeline.until("iot").await.what else { panic!("no order") };
    let command = json!({"name": "Speaker", "method": "SetVolume", "parameters": {"volume": 40}});
    assert_eq!(order["commands"], json!([command]));
    pipeline.until("tts/stop").await;
    let expected = [
        "the device was told",
        "70",
        r#"error: the arguments are wrong: "volume" is a required property"#,
    ];
    assert_eq!(results(&pipeline), expected);
    assert_eq!(offered(&pipeline), ["Speaker_SetVolume", "Speaker_get_volume"]);
    pipeline.text(&state(40).to_string());
    start(&pipeline, "auto");
    call(&pipeline, vec![("Speaker_get_volume", "")]).await;
    pipeline.until("tts/stop").await;
    assert_eq!(results(&pipeline).last().unwrap(), "40");
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_device_without_mcp_is_not_asked() {
    let mut pipeline = crate::listening("auto").await;
    tell(&pipeline, json!({"id": 1, "result": {}}));
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn numbers_pass_through_a_device_s_tools_unchanged() {
    let mut settings = PipelineSettings::default();
    settings.tools.max_result_bytes = 64 << 10;
    let list = json!({"type": "object", "properties": {"list": {"type": "array"}}});
    let tools = vec![json!({"name": "self.sum", "description": "Sums.", "inputSchema": list})];
    let mut pipeline = device_with(settings, tools).await;
    let written = numbers::written();
    let arguments = format!(r#"{{"list":{}}}"#, numbers::array(&written));
    call(&pipeline, vec![("self_sum", Box::leak(arguments.into_boxed_str()))]).await;
    let request = asked_for(&mut pipeline, "tools/call").await;
    let kept = numbers::array_kept(&written);
    assert_eq!(request["params"]["arguments"]["list"].to_string(), kept);
    // A bare result, and a progress notification, which is not an answer.
    tell(
        &pipeline,
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 0.5, "total": 1.50}}),
    );
    answer(&pipeline, &request, serde_json::from_str(&numbers::array(&written)).unwrap());
    pipeline.until("tts/stop").await;
    assert_eq!(results(&pipeline), [kept]);
    pipeline.hang_up().await;
}
