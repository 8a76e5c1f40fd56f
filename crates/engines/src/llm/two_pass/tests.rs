//! Tests of the requests to the model when tools are offered, and of the forwarded parts of its
//! answers.

use super::*;
use crate::llm::generation::ToolCall;

/// Fake model. Answers each request with the next of its lines, three bytes at a time, and records
/// the requests.
struct Script {
    lines: Vec<&'static str>,
    asked: Vec<Generation>,
}

impl Generator for Script {
    fn generate(&mut self, request: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError> {
        let number = self.asked.len() as u32;
        self.asked.push(request.clone());
        let line = self.lines.remove(0);
        let mut finish = Finish {
            reason: FinishReason::Cut,
            prompt_tokens: 100 + number,
            cached_tokens: 10 + number,
            completion_tokens: 0,
        };
        for bytes in line.as_bytes().chunks(3) {
            finish.completion_tokens += 1;
            if emit(Piece::Bytes(bytes)).is_break() {
                return Ok(finish);
            }
        }
        finish.reason = FinishReason::Stop;
        if line.ends_with('…') {
            finish.reason = FinishReason::Length;
        }
        Ok(finish)
    }
}

/// Returns the forwarded text, the end of the answer, and the requests to the model.
fn answered(request: &Generation, lines: &[&'static str]) -> (String, Finish, Vec<Generation>) {
    let mut model = TwoPass(Script { lines: lines.to_vec(), asked: Vec::new() });
    let mut told = Vec::new();
    let finish = model.generate(request, &mut |piece| {
        if let Piece::Bytes(bytes) = piece {
            told.extend_from_slice(bytes);
        }
        ControlFlow::Continue(())
    });
    let TwoPass(Script { lines, asked }) = model;
    assert!(lines.is_empty(), "not requested: {lines:?}");
    (String::from_utf8(told).unwrap(), finish.unwrap(), asked)
}

fn say(role: Role, content: &str) -> Message {
    Message { role, content: content.into(), tool_calls: Vec::new() }
}

fn called(name: &str) -> Message {
    let call = ToolCall { name: name.into(), arguments: "{}".into() };
    Message { tool_calls: vec![call], ..say(Role::Assistant, "") }
}

fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.into(), description: String::new(), parameters }
}

fn request(messages: &[Message]) -> Generation {
    let text = json!({ "type": "string" });
    let volume = json!({ "type": "object", "required": ["volume", "why"], "properties": {
        "volume": { "type": "integer" }, "why": text } });
    let weather = json!({ "type": "object", "properties": { "city": text, "days": { "enum": ["few", 2] },
            "date": { "type": "string", "description": "today or a date" } } });
    Generation {
        messages: messages.to_vec(),
        tools: vec![tool("set_volume", volume), tool("get_weather", weather)],
        tool_choice: ToolChoice::Auto,
        sampling: Sampling { seed: Some(7), ..Sampling::default() },
        max_tokens: 20,
        stop: vec!["END".into()],
        gives_way: true,
    }
}

fn asking(words: &str) -> Generation {
    request(&[say(Role::System, "Be kind."), say(Role::User, words)])
}

fn names(request: &Generation) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn words_come_from_a_prompt_without_tools() {
    let asked = asking("Hello");
    let (told, finish, passes) = answered(&asked, &["Hm, I think", "Hi there"]);
    assert_eq!(told, "Hi there");
    assert_eq!((finish.prompt_tokens, finish.cached_tokens), (101, 11));
    assert_eq!(finish.completion_tokens, 3);
    assert_eq!(names(&passes[0]), ["talk", "set_volume", "get_weather"]);
    assert_eq!(passes[0].tool_choice, ToolChoice::Free);
    assert_eq!(passes[0].messages, [say(Role::User, "Hello")]);
    assert!(passes[0].sampling.temperature.abs() < f32::EPSILON && passes[0].gives_way);
    assert_eq!(passes[1], Generation { tools: Vec::new(), ..asked });
}

#[test]
fn a_call_follows_the_grammar_of_the_chosen_tool() {
    let call = r#"{"name": "set_volume", "arguments": {"volume": 4}}"#;
    let call_as_told = r#"{"arguments":{"volume":4},"name":"set_volume"}"#;
    for chosen in [
        r#"{"name": "set_volume", "arg"#,
        "<tool_call>\n{\"name\":\"set_volume\"}",
        "```json\n{\"name\":\n \"set_volume\",",
    ] {
        let (told, finish, passes) = answered(&asking("Four"), &[chosen, call]);
        assert_eq!(told, call_as_told);
        assert_eq!(finish.reason, FinishReason::Stop);
        assert_eq!((finish.prompt_tokens, finish.cached_tokens), (101, 10), "of both together");
        let choice = ToolChoice::Named("set_volume".into());
        assert_eq!(
            passes[1],
            Generation { tool_choice: choice, max_tokens: 20, ..passes[0].clone() }
        );
    }
}

#[test]
fn an_unknown_tool_means_words() {
    for chosen in [
        r#"{"name": "talk", "arguments""#,
        r#"{"name": "sing_a_song"}"#,
        r#"{"names": []}"#,
        "<3",
        "",
    ] {
        assert_eq!(answered(&asking("Sing"), &[chosen, "La la"]).0, "La la", "{chosen}");
    }
}

#[test]
fn a_tool_of_the_name_talk_is_called_like_any_other() {
    let mut asked = asking("Talk to me");
    asked.tools.push(tool("talk", json!({ "type": "object", "properties": {} })));
    let call = r#"{"name": "talk", "arguments": {}}"#;
    let (told, _, passes) = answered(&asked, &[call, call]);
    assert_eq!(told, r#"{"arguments":{},"name":"talk"}"#);
    assert_eq!(names(&passes[0]), ["set_volume", "get_weather", "talk"]);
}

#[test]
fn unspoken_optional_arguments_are_removed() {
    for (asked, written, told) in [
        ("Rain?", json!({ "city": "London", "date": "2023-10-01" }), json!({})),
        (
            "And in LONDON?",
            json!({ "city": "London", "date": "2023" }),
            json!({ "city": "London" }),
        ),
        ("Tokyo?", json!({ "city": "Asia/Tokyo" }), json!({ "city": "Asia/Tokyo" })),
        ("伦敦呢？", json!({ "city": "London" }), json!({ "city": "London" })),
        ("天气怎么样？", json!({ "city": "北京" }), json!({})),
        (
            "Rain today?",
            json!({ "date": "Today", "days": 2 }),
            json!({ "date": "Today", "days": 2 }),
        ),
        ("Rain?", json!({ "days": "few" }), json!({ "days": "few" })),
    ] {
        let written = json!({ "name": "get_weather", "arguments": written }).to_string();
        let lines: [&'static str; 2] = [r#"{"name": "get_weather""#, written.leak()];
        let passed_on: Value = serde_json::from_str(&answered(&asking(asked), &lines).0).unwrap();
        assert_eq!(passed_on["arguments"], told, "{asked}");
    }
    let needed = r#"{"name": "set_volume", "arguments": {"why": "Sleep"}}"#;
    let (told, ..) = answered(&asking("Sssh"), &[needed, needed]);
    assert_eq!(told, r#"{"arguments":{"why":"Sleep"},"name":"set_volume"}"#);
}

#[test]
fn a_truncated_call_is_not_requested_again() {
    let half = "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Lo…";
    let (told, finish, _) = answered(&asking("Rain?"), &[r#"{"name": "get_weather""#, half]);
    assert_eq!((told.as_str(), finish.reason), (half, FinishReason::Length));
}

#[test]
fn the_choice_uses_the_last_words_and_a_preceding_call() {
    let system = say(Role::System, "Be kind.");
    let talked = [say(Role::User, "Hi"), say(Role::Assistant, "Hello")];
    let louder = [
        say(Role::User, "Louder"),
        called("set_volume"),
        say(Role::Tool, "true"),
        say(Role::Assistant, "Done"),
    ];
    let more = [say(Role::User, "More")];
    for (before, kept) in [
        ([&talked[..], &more].concat(), more.to_vec()),
        ([&talked[..], &louder, &more].concat(), [&louder[..], &more].concat()),
        ([&louder[..], &talked, &more].concat(), more.to_vec()),
        (louder.to_vec(), Vec::new()),
    ] {
        let messages = [&[system.clone()][..], &before].concat();
        assert_eq!(lately(&messages), kept, "{before:?}");
    }
}

#[test]
fn an_opening_without_a_question_is_only_read() {
    let opening = request(&[say(Role::System, "Be kind."), say(Role::Assistant, "Yes?")]);
    let (told, _, passes) = answered(&opening, &[r#"{"name": "set_volume""#, "W"]);
    assert_eq!(told, "W");
    assert_eq!(names(&passes[0]), ["talk", "set_volume", "get_weather"]);
    assert_eq!((passes[0].max_tokens, passes[0].messages.len()), (1, 0));
    assert_eq!(passes[1], Generation { tools: Vec::new(), ..opening });
}

#[test]
fn a_result_is_answered_without_tools_but_with_its_call() {
    let mut asked = request(&[
        say(Role::User, "Louder"),
        called("set_volume"),
        say(Role::Tool, "true"),
        Message { content: "Done, and it is raining.".into(), ..called("get_weather") },
        say(Role::User, "Quieter"),
        called("set_volume"),
        say(Role::Tool, "true"),
    ]);
    let (told, _, passes) = answered(&asked, &["It is quieter."]);
    assert_eq!(told, "It is quieter.");
    let kept = [
        say(Role::User, "Louder"),
        say(Role::Assistant, "Done, and it is raining."),
        say(Role::User, "Quieter"),
        called("set_volume"),
        say(Role::Tool, "true"),
    ];
    assert_eq!(passes[0], Generation { messages: kept.into(), tools: Vec::new(), ..asked.clone() });

    // A required call is made nevertheless.
    asked.tool_choice = ToolChoice::Required;
    assert_eq!(answered(&asked, &["{}"]).2, [asked]);
}

#[test]
fn a_request_that_forbids_calls_gets_words_at_once() {
    let asked = Generation { tool_choice: ToolChoice::None, ..asking("Four") };
    let (told, _, passes) = answered(&asked, &["Four what?"]);
    assert_eq!(told, "Four what?");
    assert_eq!(passes, [Generation { tools: Vec::new(), ..asked }]);
}

#[test]
fn a_client_that_leaves_stops_every_pass() {
    let call = r#"{"name": "set_volume", "arguments": {"volume": 4}}"#;
    let scripts: [&[&'static str]; 2] = [&["Hm", "Hi there"], &[call, call]];
    for lines in scripts {
        for patience in 0..20 {
            let script = Script { lines: lines.to_vec(), asked: Vec::new() };
            let mut steps = 0;
            let mut after = 0;
            let finish = TwoPass(script).generate(&asking("Four"), &mut |_| {
                after += u32::from(steps > patience);
                steps += 1;
                if steps > patience { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let cut = finish.unwrap().reason == FinishReason::Cut;
            assert_eq!((cut, after), (steps > patience, 0), "{lines:?} after {patience} steps");
        }
    }
}

#[test]
fn a_failure_of_any_pass_is_returned() {
    struct Broken(u32);
    impl Generator for Broken {
        fn generate(&mut self, _: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError> {
            self.0 = self.0.checked_sub(1).ok_or(LlmError::Engine("out of order".into()))?;
            let cut = emit(Piece::Bytes(b"Words")).is_break();
            let reason = if cut { FinishReason::Cut } else { FinishReason::Stop };
            Ok(Finish { reason, prompt_tokens: 1, cached_tokens: 0, completion_tokens: 1 })
        }
    }
    let ask =
        |works| TwoPass(Broken(works)).generate(&asking("Hi"), &mut |_| ControlFlow::Continue(()));
    assert_eq!([ask(0).is_err(), ask(1).is_err(), ask(2).is_err()], [true, true, false]);
}
