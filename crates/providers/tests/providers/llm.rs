//! The language model's contract, at an OpenAI-compatible base.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use hearken_ports::{
    ChatMessage, LlmDelta, OfferedTool, Prompt, ProviderError, ProviderErrorKind, Role, ToolChoice,
    ToolRequest, Usage,
};
use hearken_providers::{CallLimits, LlmSettings, ModelsHealth};
use hearken_test_support::vendors::{Behaviour, OpenAiChat, nowhere, read_request};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::{check_failure, failures};

const REPLY: &str = "你好！今天 it is sunny.";

fn settings(base_url: String) -> LlmSettings {
    LlmSettings {
        base_url,
        connect_timeout_ms: 1_000,
        first_token_timeout_ms: 1_500,
        idle_timeout_ms: 1_000,
        retry_within_ms: 0,
        ..LlmSettings::default()
    }
}

fn prompt() -> Prompt {
    let messages = vec![
        ChatMessage::new(Role::System, "Be brief."),
        ChatMessage::new(Role::User, "你好"),
        ChatMessage::new(Role::Assistant, "Hi."),
        ChatMessage::new(Role::User, "Weather?"),
    ];
    Prompt { messages, max_tokens: 40, temperature: 0.5, ..Prompt::default() }
}

async fn hear(settings: &LlmSettings) -> Result<Vec<LlmDelta>, ProviderError> {
    hearken_providers::llm(settings)
        .expect("the settings are right")
        .reply(prompt())
        .try_collect()
        .await
}

fn check_reply(deltas: &[LlmDelta]) {
    let (last, words) = deltas.split_last().unwrap();
    assert!(matches!(last, LlmDelta::Finished { truncated: false, .. }), "{last:?}");
    assert!(words.len() > 1, "the reply is streamed");
    let text: String = words
        .iter()
        .map(|delta| match delta {
            LlmDelta::Text(text) => text.as_str(),
            other => panic!("no text: {other:?}"),
        })
        .collect();
    assert_eq!(text, REPLY);
}

#[tokio::test]
async fn a_reply_arrives_in_pieces() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    check_reply(&hear(&settings(stub.url())).await.unwrap());
    stub.set(Behaviour::Slow);
    check_reply(&hear(&settings(stub.url())).await.unwrap());
    stub.set(Behaviour::Empty);
    let nothing = hear(&settings(stub.url())).await.unwrap();
    let usage = Some(Usage { prompt_tokens: 40, completion_tokens: 0, cost_nano: 0 });
    assert_eq!(nothing, [LlmDelta::Finished { truncated: false, usage }]);
}

#[tokio::test]
async fn the_conversation_is_sent_in_the_format_of_the_api() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    let key = hearken_base::Secret::new("sk-1");
    hear(&LlmSettings { api_key: key, ..settings(stub.url() + "/") }).await.unwrap();
    let texts = stub.seen().texts;
    assert!(texts[0].starts_with("POST /v1/chat/completions "), "{}", texts[0]);
    assert!(texts[0].to_ascii_lowercase().contains("authorization: bearer sk-1"), "{}", texts[0]);
    assert!(!texts[0].to_ascii_lowercase().contains("openai-organization"), "{}", texts[0]);
    let asked: serde_json::Value = serde_json::from_str(&texts[1]).unwrap();
    let expected = serde_json::json!({
        "model": "local", "stream": true, "max_tokens": 40, "temperature": 0.5,
        "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "你好" },
            { "role": "assistant", "content": "Hi." },
            { "role": "user", "content": "Weather?" },
        ],
    });
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn a_temperature_is_sent_as_it_was_set() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    let usual = LlmSettings::default().temperature;
    for (temperature, written) in [(usual, "0.7"), (0.1, "0.1"), (1.0, "1.0")] {
        let prompt = Prompt { temperature, ..prompt() };
        llm.reply(prompt).try_collect::<Vec<_>>().await.unwrap();
        let body = stub.seen().texts.last().unwrap().clone();
        assert!(body.contains(&format!("\"temperature\":{written}")), "{body}");
    }
}

#[tokio::test]
async fn a_model_that_may_not_call_is_still_offered_its_tools() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    let tool = OfferedTool {
        name: "f".into(),
        description: String::new(),
        parameters: serde_json::json!({ "type": "object" }),
    };
    let tool_choice = ToolChoice::None;
    let sent = async |prompt| {
        llm.reply(prompt).try_collect::<Vec<_>>().await.unwrap();
        let sent = stub.seen().texts.last().unwrap().clone();
        serde_json::from_str::<serde_json::Value>(&sent).unwrap()
    };
    let last = sent(Prompt { tools: [tool].into(), tool_choice, ..prompt() }).await;
    assert_eq!(
        (&last["tools"][0]["function"]["name"], &last["tool_choice"]),
        (&"f".into(), &"none".into())
    );
    // Removed tools are offered too, if the conversation still contains calls of them.
    let mut gone = prompt();
    let call = ToolRequest {
        id: "a".into(),
        name: "g".into(),
        arguments: "{}".into(),
        ..ToolRequest::default()
    };
    gone.messages.insert(2, ChatMessage::calling("", vec![call]));
    gone.messages.insert(3, ChatMessage::result("a", "done"));
    let last = sent(gone).await;
    assert_eq!(
        (&last["tools"][0]["function"]["name"], &last["tool_choice"]),
        (&"g".into(), &"none".into())
    );
}

#[tokio::test]
async fn an_opening_is_prefetched_only_if_the_settings_say_so() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    let settings = settings(stub.url());
    hearken_providers::llm(&settings).unwrap().prefetch(prompt()).await;
    assert!(stub.seen().texts.is_empty());
    let settings = LlmSettings { prefetch: true, ..settings };
    hearken_providers::llm(&settings).unwrap().prefetch(prompt()).await;
    let asked: serde_json::Value = serde_json::from_str(&stub.seen().texts[1]).unwrap();
    assert_eq!(asked["max_tokens"], 1);
    assert_eq!(asked["service_tier"], "flex");
    assert_eq!(asked["messages"].as_array().unwrap().len(), 4);
    stub.set(Behaviour::HttpStatus(401, None));
    hearken_providers::llm(&settings).unwrap().prefetch(prompt()).await;
}

#[tokio::test]
async fn tools_are_offered_and_called_and_their_results_sent() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    let city = serde_json::json!({ "type": "string" });
    let parameters = serde_json::json!({ "type": "object", "properties": { "city": city } });
    let tool = |name: &str| OfferedTool {
        name: name.into(),
        description: "Tells the weather.".into(),
        parameters: parameters.clone(),
    };
    let mut asked = Prompt { tools: [tool("today"), tool("tomorrow")].into(), ..prompt() };
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    let deltas: Vec<LlmDelta> = llm.reply(asked.clone()).try_collect().await.unwrap();
    let call = |n: usize, name: &str| ToolRequest {
        id: format!("call-{n}"),
        name: name.into(),
        arguments: r#"{"city": "柏林"}"#.into(),
        ..ToolRequest::default()
    };
    let calls = [call(0, "today"), call(1, "tomorrow")];
    let [.., LlmDelta::Calling, today, tomorrow, finished] = &deltas[..] else {
        panic!("{deltas:?}")
    };
    assert_eq!(
        [today, tomorrow],
        [&LlmDelta::Call(calls[0].clone()), &LlmDelta::Call(calls[1].clone())]
    );
    assert!(matches!(finished, LlmDelta::Finished { truncated: false, .. }), "{finished:?}");
    let made = deltas.iter().filter_map(|delta| match delta {
        LlmDelta::Call(call) => Some(call.clone()),
        _ => None,
    });
    asked.messages.push(ChatMessage::calling("", made.collect()));
    asked.messages.push(ChatMessage::result("call-0", "22 °C"));
    asked.messages.push(ChatMessage::result("call-1", "23 °C"));
    check_reply(&llm.reply(asked).try_collect::<Vec<_>>().await.unwrap());
    let sent: serde_json::Value = serde_json::from_str(&stub.seen().texts[3]).unwrap();
    assert_eq!(
        (sent["tools"].as_array().unwrap().len(), &sent["tool_choice"]),
        (2, &"auto".into())
    );
    assert_eq!(sent["tools"][1]["function"]["parameters"], parameters);
    let called = |n: usize, name: &str| {
        let function = serde_json::json!({ "name": name, "arguments": r#"{"city": "柏林"}"# });
        serde_json::json!({ "id": format!("call-{n}"), "type": "function", "function": function })
    };
    let expected = serde_json::json!([
        { "role": "assistant", "content": null, "tool_calls": [called(0, "today"), called(1, "tomorrow")] },
        { "role": "tool", "tool_call_id": "call-0", "content": "22 °C" },
        { "role": "tool", "tool_call_id": "call-1", "content": "23 °C" },
    ]);
    assert_eq!(serde_json::json!(sent["messages"].as_array().unwrap()[4..]), expected);
}

#[tokio::test]
async fn each_failure_has_its_kind_and_one_attempt() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    for (behaviour, kind, retry_after_s) in failures() {
        stub.set(behaviour);
        let began = Instant::now();
        let before = stub.seen().connections;
        let outcome = hear(&settings(stub.url())).await;
        check_failure(began, outcome, behaviour, kind, retry_after_s);
        assert_eq!(stub.seen().connections, before + 1, "{behaviour:?}");
    }
    stub.set(Behaviour::Slow);
    let standing = LlmSettings { idle_timeout_ms: 30, ..settings(stub.url()) };
    let late = ProviderErrorKind::Timeout;
    check_failure(Instant::now(), hear(&standing).await, Behaviour::Slow, late, None);
    let short = LlmSettings { timeout_ms: 250, ..settings(stub.url()) };
    check_failure(Instant::now(), hear(&short).await, Behaviour::Slow, late, None);
    let began = Instant::now();
    let outcome = hear(&settings(nowhere("http"))).await;
    check_failure(began, outcome, Behaviour::Refuse, ProviderErrorKind::Unavailable, None);
}

#[tokio::test]
async fn an_endless_line_is_refused_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let vendor = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut written = 0;
        while stream.write_all(&[b'x'; 1 << 14]).await.is_ok() {
            written += 1_usize << 14;
        }
        written
    });
    let heard = hear(&settings(base)).await;
    assert_eq!(heard.unwrap_err().kind, ProviderErrorKind::Protocol);
    // The rest is in the buffers of the socket.
    let written = vendor.await.unwrap();
    assert!(written < 16 << 20, "{written} bytes");
}

/// Returns the calls of an answer in these chunks, with a tool that writes.
async fn calls_of(chunks: &[serde_json::Value]) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let mut answer = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned();
    for chunk in chunks {
        answer.push_str(&format!("data: {chunk}\n\n"));
    }
    answer.push_str("data: [DONE]\n\n");
    let vendor = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let parameters = serde_json::json!({ "type": "object", "properties": { "text": {} } });
    let description = String::new();
    let tools = [OfferedTool { name: "write".into(), description, parameters }].into();
    let asked = Prompt { tools, ..prompt() };
    let llm = hearken_providers::llm(&settings(base)).unwrap();
    let deltas: Vec<LlmDelta> = llm.reply(asked).try_collect().await.unwrap();
    vendor.await.unwrap();
    let call = |delta| match delta {
        LlmDelta::Call(call) => Some(format!("{}{}", call.name, call.arguments)),
        _ => None,
    };
    deltas.into_iter().filter_map(call).collect()
}

#[tokio::test]
async fn a_call_truncated_at_the_maximum_length_is_not_made() {
    let chunk = |delta: serde_json::Value, reason: Option<&str>| serde_json::json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let native = |index: usize, arguments: &str| {
        let function = serde_json::json!({ "name": "write", "arguments": arguments });
        serde_json::json!({ "tool_calls": [{ "index": index, "id": format!("c{index}"), "function": function }] })
    };
    let text = |text: &str| serde_json::json!({ "content": text });
    let whole = r#"{"text":"a"}"#;
    let written = "<function=write><parameter=text>a";
    for (delta, reason, made) in [
        (native(0, whole), "length", vec![r#"write{"text":"a"}"#]),
        (native(0, r#"{"text":"a"#), "length", vec![]),
        (native(0, ""), "length", vec![]),
        (native(0, ""), "max_tokens", vec![]),
        (native(0, ""), "tool_calls", vec!["write"]),
        (text(written), "length", vec![]),
        (text(written), "stop", vec![r#"write{"text":"a"}"#]),
        (
            text(&format!("{written}</parameter></function>")),
            "length",
            vec![r#"write{"text":"a"}"#],
        ),
    ] {
        let case = format!("{delta} {reason}");
        for chunks in [
            vec![chunk(delta.clone(), Some(reason))],
            vec![chunk(delta.clone(), None), chunk(serde_json::json!({}), Some(reason))],
        ] {
            assert_eq!(calls_of(&chunks).await, made, "{case}");
        }
    }
    let two = [chunk(native(0, whole), None), chunk(native(1, r#"{"te"#), Some("length"))];
    assert_eq!(calls_of(&two).await, [r#"write{"text":"a"}"#]);
}

#[tokio::test]
async fn a_dropped_reply_ends_its_request() {
    for behaviour in [Behaviour::Slow, Behaviour::Silent] {
        let stub = OpenAiChat::start(behaviour, REPLY).await;
        let settings = LlmSettings { first_token_timeout_ms: 60_000, ..settings(stub.url()) };
        let mut reply = hearken_providers::llm(&settings).unwrap().reply(prompt());
        tokio::select! {
            delta = reply.next() => assert_eq!(behaviour, Behaviour::Slow, "{delta:?}"),
            _ = stub.until(|seen| behaviour == Behaviour::Silent && seen.requests == 1) => {}
        }
        assert_eq!(stub.seen().closed, 0);
        drop(reply);
        stub.until(|seen| seen.closed == 1).await;
    }
}

#[tokio::test]
async fn a_failure_is_retried_only_before_the_first_words() {
    let stub = OpenAiChat::start(Behaviour::HttpStatus(503, None), REPLY).await;
    let settings = LlmSettings { retry_within_ms: 5_000, ..settings(stub.url()) };
    let (heard, ()) = tokio::join!(hear(&settings), async {
        stub.until(|seen| seen.requests == 1).await;
        stub.set(Behaviour::Normal);
    });
    check_reply(&heard.unwrap());
    assert_eq!(stub.seen().requests, 2);
    stub.set(Behaviour::ResetMidStream);
    assert!(hear(&settings).await.is_err());
    assert_eq!(stub.seen().requests, 3);
}

fn usage(deltas: &[LlmDelta]) -> Option<Usage> {
    match deltas.last() {
        Some(LlmDelta::Finished { usage, .. }) => *usage,
        other => panic!("no end: {other:?}"),
    }
}

#[tokio::test]
async fn an_answer_ends_with_its_usage_if_the_server_reports_it() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    let deltas = hear(&settings(stub.url())).await.unwrap();
    let pieces = u64::try_from(deltas.len() - 1).unwrap();
    let told = Some(Usage { prompt_tokens: 40, completion_tokens: pieces, cost_nano: 0 });
    assert_eq!(usage(&deltas), told);
    let silent = LlmSettings { usage: false, ..settings(stub.url()) };
    assert_eq!(usage(&hear(&silent).await.unwrap()), None);
    assert!(!stub.seen().texts[3].contains("stream_options"));
    // The end does not wait for missing usage: neither for the timeout between pieces, nor for
    // ever.
    let patient = LlmSettings { idle_timeout_ms: 60_000, ..settings(stub.url()) };
    for behaviour in [Behaviour::Untold, Behaviour::Lingering] {
        stub.set(behaviour);
        let began = Instant::now();
        let deltas = hear(&patient).await.unwrap();
        check_reply(&deltas);
        assert_eq!(usage(&deltas), None);
        assert!(began.elapsed() < Duration::from_secs(20), "{behaviour:?}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_server_that_refuses_fields_is_probed_once() {
    let stub = OpenAiChat::start(Behaviour::Old, REPLY).await;
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    for requests in [2, 3] {
        let deltas: Vec<LlmDelta> = llm.reply(prompt()).try_collect().await.unwrap();
        check_reply(&deltas);
        assert_eq!((usage(&deltas), stub.seen().requests), (None, requests));
    }
    // If every request is refused, each field and all of them are tried once, and a request is sent
    // once if the fields are known.
    let stub = OpenAiChat::start(Behaviour::HttpStatus(400, None), REPLY).await;
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    for (behaviour, requests) in [
        (Behaviour::HttpStatus(400, None), 5),
        (Behaviour::Normal, 6),
        (Behaviour::HttpStatus(400, None), 7),
    ] {
        stub.set(behaviour);
        let told = llm.reply(prompt()).try_collect::<Vec<_>>().await;
        assert_eq!(told.is_ok(), behaviour == Behaviour::Normal, "{told:?}");
        assert_eq!(stub.seen().requests, requests);
    }
}

#[tokio::test]
async fn a_newer_model_gets_the_fields_that_it_accepts() {
    let stub = OpenAiChat::start(Behaviour::Newer, REPLY).await;
    let ledger = hearken_providers::CostTracker::default();
    let asker = hearken_providers::ChainOptions::spoken("device", &ledger);
    let findings = Default::default();
    let settings = settings(stub.url());
    for requests in [3, 4] {
        // Findings of one frontend apply to the others.
        let llm = hearken_providers::llm_for(
            &settings,
            &asker.clone().sharing(&findings, &CallLimits::default(), &ModelsHealth::default()),
        )
        .unwrap();
        check_reply(&llm.reply(prompt()).try_collect::<Vec<_>>().await.unwrap());
        assert_eq!(stub.seen().requests, requests);
    }
    let sent: serde_json::Value = serde_json::from_str(stub.seen().texts.last().unwrap()).unwrap();
    assert_eq!((&sent["max_completion_tokens"], sent.get("temperature")), (&40.into(), None));
}

#[tokio::test]
async fn an_answer_without_a_finish_reason_is_complete() {
    let stub = OpenAiChat::start(Behaviour::Unended, REPLY).await;
    check_reply(&hear(&settings(stub.url())).await.unwrap());
}

#[tokio::test]
async fn thinking_is_not_part_of_the_answer() {
    let stub = OpenAiChat::start(Behaviour::Normal, "<think>\nHm, </think>\n\n你好！").await;
    let text = |deltas: &[LlmDelta]| {
        let text = deltas.iter().map(|delta| match delta {
            LlmDelta::Text(text) => text.as_str(),
            _ => "",
        });
        text.collect::<String>()
    };
    assert_eq!(text(&hear(&settings(stub.url())).await.unwrap()), "你好！");
    // A server that omits the opening tag is recognised from its third answer on.
    let stub = OpenAiChat::start(Behaviour::Normal, "Hm.</think>你好！").await;
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    for expected in ["Hm.你好！", "Hm.你好！", "你好！", "你好！"] {
        let told: Vec<_> = llm.reply(prompt()).try_collect().await.unwrap();
        assert_eq!(text(&told), expected);
    }
}

#[tokio::test]
async fn a_call_written_as_text_is_made() {
    let written = "Sure.<tool_call>{\"name\": \"today\", \"arguments\": {\"n\": 1}}</tool_call>";
    let stub = OpenAiChat::start(Behaviour::Normal, written).await;
    let llm = hearken_providers::llm(&settings(stub.url())).unwrap();
    let parameters = serde_json::json!({ "type": "object" });
    let today = OfferedTool { name: "today".into(), description: String::new(), parameters };
    let asked = Prompt { tools: [today].into(), ..prompt() };
    let told: Vec<_> = llm.reply(asked.clone()).try_collect().await.unwrap();
    let [LlmDelta::Text(_), .., LlmDelta::Calling, LlmDelta::Call(call), LlmDelta::Finished { .. }] =
        &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("today", "{\"n\":1}"));
    let told: Vec<_> = llm.reply(prompt()).try_collect().await.unwrap();
    assert!(!format!("{told:?}").contains("today"), "{told:?}");
}

#[tokio::test]
async fn the_settings_may_add_fields() {
    let stub = OpenAiChat::start(Behaviour::Normal, REPLY).await;
    let extra = |text: &str| toml::from_str(text).unwrap();
    let added = LlmSettings { extra: extra("enable_thinking = false"), ..settings(stub.url()) };
    hear(&added).await.unwrap();
    let sent: serde_json::Value = serde_json::from_str(&stub.seen().texts[1]).unwrap();
    assert_eq!((&sent["enable_thinking"], &sent["model"]), (&false.into(), &"local".into()));
    let wrong = LlmSettings { extra: extra("messages = []"), ..added };
    let told = hearken_providers::llm(&wrong).err().unwrap().to_string();
    assert!(told.starts_with("`llm.extra` is `messages`"), "{told}");
}

#[tokio::test]
async fn all_attempts_together_have_one_deadline() {
    for behaviour in [Behaviour::Silent, Behaviour::HttpStatus(500, None)] {
        let stub = OpenAiChat::start(behaviour, REPLY).await;
        let settings = LlmSettings {
            first_token_timeout_ms: 60_000,
            timeout_ms: 1_000,
            retry_within_ms: 10_000,
            ..settings(stub.url())
        };
        let ledger = hearken_providers::CostTracker::default();
        for asker in [
            hearken_providers::ChainOptions::spoken("a", &ledger),
            hearken_providers::ChainOptions::patient("a", &ledger),
        ] {
            let began = Instant::now();
            let llm = hearken_providers::llm_for(&settings, &asker).unwrap();
            llm.reply(prompt()).try_collect::<Vec<_>>().await.unwrap_err();
            assert!(began.elapsed() < Duration::from_millis(2_200), "{:?}", began.elapsed());
        }
    }
}

/// Makes as many calls as the settings allow, and an additional one.
async fn check_calls_at_once(most: usize) {
    let stub = OpenAiChat::start(Behaviour::Lingering, REPLY).await;
    let settings = LlmSettings {
        max_calls: most,
        first_token_timeout_ms: 1_000,
        idle_timeout_ms: 60_000,
        ..settings(stub.url())
    };
    let llm = hearken_providers::llm(&settings).unwrap();
    let mut calls = Vec::new();
    for _ in 0..most {
        let mut call = llm.reply(prompt());
        assert!(matches!(call.next().await, Some(Ok(LlmDelta::Text(_)))));
        calls.push(call);
    }
    let mut beyond = llm.reply(prompt());
    let refused = beyond.next().await.unwrap().unwrap_err();
    assert_eq!(refused.kind, ProviderErrorKind::RateLimited);
    assert_eq!(stub.seen().requests, most, "the additional call waits");
    calls.pop();
    let mut next = llm.reply(prompt());
    assert!(matches!(next.next().await, Some(Ok(LlmDelta::Text(_)))), "one call has ended");
    assert_eq!(stub.seen().requests, most + 1);
}

#[tokio::test]
async fn a_call_beyond_the_maximum_number_of_concurrent_calls_waits() {
    tokio::join!(check_calls_at_once(1), check_calls_at_once(2));
}
