//! Messages of a session: chapters 2.2 and 4.1. Not for failures.

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use super::{SOON, Table, answer};

#[actix_web::test]
async fn an_answer_has_the_documents_fields() {
    let table = Table::start().await;
    let session = table.session().await;
    let told = session.say("你好").await;
    assert_eq!(told["response"], "You said 你好");
    assert_eq!(told["state_changes"], json!({}));
    assert_eq!(told["requires_roll"], false);
    assert!(told.get("turn_info").is_none(), "nobody fights");
    let usage = |field: &str| told["usage"][field].as_u64().unwrap();
    assert!(usage("prompt_tokens") > 0 && usage("completion_tokens") > 0);
    assert_eq!(usage("total_tokens"), usage("prompt_tokens") + usage("completion_tokens"));
    assert_eq!(session.said().await, ["user: 你好", "assistant: You said 你好"]);
    table.server.stop().await;
}

#[actix_web::test]
async fn a_prompt_has_the_scene_the_tools_and_the_dialogue() {
    let table = Table::start().await;
    let session = table.session().await;
    session
        .say(r#"call create_character {"name": "Goblin", "id": "goblin_1", "hp_max": 13}"#)
        .await;
    table.vendors.forget_texts();
    session.post("/chat", json!({"message": "我要攻击", "player_id": "player-001"})).await;
    let seen = table.vendors.llm.seen().texts;
    let body: Value = seen.iter().find_map(|t| serde_json::from_str(t).ok()).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let system = messages[0]["content"].as_str().unwrap();
    for part in ["失落的地牢", "the entrance", "goblin_1", "- roll_dice：Rolls dice.", "战斗：无"]
    {
        assert!(system.contains(part), "{part} in {system}");
    }
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(messages[2]["tool_calls"][0]["id"], messages[3]["tool_call_id"]);
    assert_eq!(messages[5]["content"], "[player-001] 我要攻击");
    let tools = body["tools"].as_array().unwrap();
    assert!(tools.iter().any(|t| t["function"]["name"] == "resolve_attack"));
    table.server.stop().await;
}

#[actix_web::test]
async fn a_context_only_message_asks_no_model_and_stores_nothing() {
    let table = Table::start().await;
    let session = table.session().await;
    session.say("one").await;
    let before = table.vendors.llm.seen().requests;
    let (status, told) =
        session.post("/chat", json!({"message": "two", "context_only": true})).await;
    assert_eq!((status, &told["response"]), (200, &json!("")));
    let context = &told["context"];
    assert!(context["system_prompt"].as_str().unwrap().contains("失落的地牢"));
    let contents: Vec<&str> = context["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"].as_str().unwrap())
        .collect();
    assert_eq!(contents, ["one", "You said one", "two"]);
    assert!(context["tools"].as_array().unwrap().len() > 5);
    assert_eq!(context["prompt_tokens"], told["usage"]["prompt_tokens"]);
    assert_eq!(table.vendors.llm.seen().requests, before, "the model was not asked");
    assert_eq!(session.said().await.len(), 2);
    table.server.stop().await;
}

#[actix_web::test]
async fn old_exchanges_are_dropped_whole_beyond_the_token_budget() {
    let table = Table::with(|config| {
        config.chat.system_prompt = "short".into();
        config.chat.token_budget = 2_600;
    })
    .await;
    let session = table.session().await;
    for n in 0..8 {
        let (_, told) = session
            .post(
                "/chat",
                json!({"message": format!("call roll_dice {{\"dice\": \"{}d20\"}}", n + 1)}),
            )
            .await;
        assert!(told["usage"]["prompt_tokens"].as_u64().is_some(), "{told}");
        session.say(&format!("number {n} {}", "word ".repeat(150))).await;
    }
    table.vendors.forget_texts();
    let (_, told) = session.post("/chat", json!({"message": "last", "context_only": true})).await;
    let tokens = told["context"]["prompt_tokens"].as_u64().unwrap();
    assert!(tokens <= 2_600 && tokens > 1_500, "{tokens}");
    let messages = told["context"]["messages"].as_array().unwrap();
    assert_eq!(messages[0]["role"], "user");
    assert!(messages.len() > 4 && messages.len() < 49, "{}", messages.len());
    for (n, message) in messages.iter().enumerate() {
        let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
        for call in 0..calls {
            assert_eq!(messages[n + 1 + call]["tool_call_id"], message["tool_calls"][call]["id"]);
        }
    }
    let (_, all) = session.get("/messages?limit=200").await;
    assert_eq!(all["total"], 8 * (4 + 2), "everything is stored");
    table.server.stop().await;
}

#[actix_web::test]
async fn messages_are_listed_in_pages() {
    let table = Table::start().await;
    let session = table.session().await;
    for n in 0..6 {
        session.say(&n.to_string()).await;
    }
    let (_, last) = session.get("/messages?limit=5").await;
    let contents = |page: &Value| -> Vec<String> {
        page["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["content"].as_str().unwrap().into())
            .collect()
    };
    assert_eq!(contents(&last), ["You said 3", "4", "You said 4", "5", "You said 5"]);
    assert_eq!((&last["total"], &last["first"]), (&json!(12), &json!(8)));
    let (_, before) = session.get("/messages?limit=5&before=8").await;
    assert_eq!(contents(&before)[4], "3");
    assert_eq!(before["first"], 3);
    let (_, none) = session.get("/messages?before=1").await;
    assert_eq!((contents(&none).len(), &none["first"]), (0, &Value::Null));
    table.server.stop().await;
}

#[actix_web::test]
async fn an_answer_can_be_streamed() {
    let table = Table::start().await;
    let session = table.session().await;
    let said = json!({"message": "call roll_dice {\"dice\": \"1d20\"}", "stream": true});
    let request = table.request(Method::POST, &session.path("/chat")).json(&said);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.bytes_stream();
    let mut text = String::new();
    while let Some(piece) = tokio::time::timeout(SOON, body.next()).await.unwrap() {
        text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    let events: Vec<(&str, Value)> = text
        .split("\n\n")
        .filter(|event| event.starts_with("event: "))
        .map(|event| {
            let (kind, body) = event.split_once('\n').unwrap();
            let body = body.strip_prefix("data: ").unwrap();
            (kind.strip_prefix("event: ").unwrap(), serde_json::from_str(body).unwrap())
        })
        .collect();
    let (kind, first) = &events[0];
    assert_eq!((*kind, &first["type"]), ("event", &json!("dice.rolled")));
    let words: String = events
        .iter()
        .filter(|(kind, _)| *kind == "delta")
        .map(|(_, body)| body["content"].as_str().unwrap())
        .collect();
    let (kind, done) = events.last().unwrap();
    assert_eq!((*kind, done["response"].as_str().unwrap()), ("done", words.as_str()));
    assert!(words.starts_with("You said ") && events.len() > 3, "{events:?}");
    assert_eq!(session.said().await.len(), 4);
    // An invalid request is refused as without streaming.
    let refused = json!({"message": "", "stream": true});
    assert_eq!(session.post("/chat", refused).await.0, 400);
    session.post("/archive", Value::Null).await;
    assert_eq!(session.post("/chat", said).await.0, 409);
    table.server.stop().await;
}

#[actix_web::test]
async fn a_request_with_a_key_may_be_repeated() {
    let table = Table::start().await;
    let session = table.session().await;
    let ask = |key: &str| {
        let request = table.request(Method::POST, &session.path("/chat"));
        let said = json!({"message": "call roll_dice {\"dice\": \"1d20\"}"});
        answer(request.header("Idempotency-Key", key).json(&said))
    };
    let first = ask("one").await;
    assert_eq!((first.0, ask("one").await), (200, first.clone()), "the same answer");
    assert_eq!(session.said().await.len(), 4, "said once");
    let (same, other, third) = tokio::join!(ask("two"), ask("two"), ask("three"));
    assert_eq!((same.0, &same), (200, &other), "also while the first is in progress");
    assert_eq!((third.0, session.said().await.len()), (200, 12));
    assert_eq!(ask(&"x".repeat(129)).await.0, 400);
    let another = table.session().await;
    let request = table.request(Method::POST, &another.path("/chat"));
    let (_, told) =
        answer(request.header("Idempotency-Key", "one").json(&json!({"message": "hi"}))).await;
    assert_eq!(told["response"], "You said hi", "each session has its own keys");
    table.server.stop().await;
}

#[actix_web::test]
async fn an_answer_names_the_trace_of_its_turn() {
    let table = Table::start().await;
    let session = table.session().await;
    let ask = async |said: Value| {
        let request = table.request(Method::POST, &session.path("/chat"));
        let response = request.header("Idempotency-Key", "one").json(&said).send().await.unwrap();
        let trace = response.headers().get("x-trace-id");
        (response.status().as_u16(), trace.map(|id| id.to_str().unwrap().to_owned()))
    };
    let last = async || {
        let (_, told) = table.get("/api/turns?limit=1").await;
        told["turns"][0]["trace_id"].as_str().map(ToOwned::to_owned)
    };
    let whole = ask(json!({"message": "hi"})).await;
    assert_eq!((whole.0, whole.1.is_some(), last().await), (200, true, whole.1));
    // A repeated answer is not a turn.
    assert_eq!(ask(json!({"message": "hi"})).await, (200, None));
    assert_eq!(ask(json!({"message": "", "stream": true})).await, (400, None));
    let request = table.request(Method::POST, &session.path("/chat"));
    let response = request.json(&json!({"message": "hi", "stream": true})).send().await.unwrap();
    let trace = response.headers()["x-trace-id"].to_str().unwrap().to_owned();
    response.text().await.unwrap();
    assert_eq!(last().await, Some(trace));
    table.server.stop().await;
}
