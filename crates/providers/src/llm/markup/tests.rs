//! Tests that separate the answer from thinking and from other text.

use hearken_ports::{ChatMessage, LlmDelta, OfferedTool, Prompt, Role, ToolChoice, ToolRequest};
use proptest::prelude::*;
use serde_json::json;

use super::{AnswerFilter, Opening, answer};

fn prompt() -> Prompt {
    let tool = |name: &str| OfferedTool {
        name: name.into(),
        description: String::new(),
        parameters: json!({ "type": "object", "properties": {
            "city": { "type": "string" }, "days": { "type": "integer" } } }),
    };
    Prompt { tools: [tool("get_weather"), tool("self_set_volume")].into(), ..Prompt::default() }
}

/// Returns the result of these pieces: text unchanged, each call in angle quotes.
fn shown(prompt: &Prompt, opening: Opening, pieces: &[&str]) -> String {
    let mut screen = AnswerFilter::new(prompt, opening);
    for piece in pieces {
        screen.push(LlmDelta::Text((*piece).to_owned()));
    }
    screen.end(false);
    let mut told = String::new();
    while let Some(delta) = screen.pop() {
        match delta {
            LlmDelta::Text(text) => told.push_str(&text),
            LlmDelta::Calling => told.push('«'),
            LlmDelta::Call(call) => told.push_str(&format!("{}{}»", call.name, call.arguments)),
            LlmDelta::Rule(_) | LlmDelta::Finished { .. } => {}
        }
    }
    told
}

/// Checks that the text gives one result, whole and letter by letter, and returns it.
fn said(text: &str) -> String {
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let whole = shown(&prompt(), Opening::Marked, &[text]);
    assert_eq!(shown(&prompt(), Opening::Marked, &letters), whole, "{text}");
    whole
}

#[test]
fn thinking_is_never_the_answer() {
    for text in [
        "<think>secret</think>Hello.",
        "<think>\n\n</think>\n\nHello.",
        "<THINK depth=\"2\">secret\nmore</THINK >Hello.",
        "<thinking>secret</thinking> Hello.",
        "<thought>secret</thought>Hello.",
        "<reasoning effort='low'>secret</reasoning>Hello.",
        "<seed:think>secret</seed:think>Hello.",
        "＜think＞secret＜/think＞Hello.",
        "＜ｔｈｉｎｋ＞secret＜／think＞Hello.",
        "<think>a<think>secret</think>b</think>Hello.",
        "<think>secret</think><think>secret</think>Hello.",
        "<think>I write `</think>` now, secret</think>Hello.",
        "<think/>Hello.",
        "[THINK]secret[/THINK]Hello.",
        "◁think▷secret◁/think▷Hello.",
        "<|START_THINKING|>secret<|END_THINKING|><|START_RESPONSE|>Hello.<|END_RESPONSE|>",
        "<|begin_of_thought|>secret<|end_of_thought|>\n<|begin_of_solution|>Hello.<|end_of_solution|>",
        "<|channel|>analysis<|message|>secret<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
        "<unused94>thought\nsecret<unused95>Hello.",
        "<|channel>thought\nsecret<channel|>Hello.",
        "<analysis>secret</analysis>Hello.",
        "<scratchpad>secret</scratchpad>Hello.",
        "<antThinking>secret</antThinking>Hello.",
        "<longcat_think>secret</longcat_think>Hello.",
        "<|thinking|>secret<|/thinking|>Hello.",
        "<｜thought｜>secret<｜/thought｜>Hello.",
        "[THOUGHT]secret[/THOUGHT]Hello.",
        "Hello.<think>secret",
        "Hello.<think>secret</think>",
        "Hello.<think>secret<think>secret</think",
    ] {
        assert_eq!(said(text), "Hello.", "{text}");
    }
    assert_eq!(said("<think>secret"), "");
    assert_eq!(said("Hi. <think>secret</think>Bye."), "Hi. Bye.");
    assert_eq!(said("I think.\n<think>\nsecret </think>\nSo."), "I think.\n\nSo.");
}

#[test]
fn a_mark_that_is_only_mentioned_does_not_lose_the_answer() {
    // Two opening marks, one closing mark: the answer follows the last closing mark.
    let text = "<think>The user asks about <think> tags.</think>It marks thinking.";
    assert_eq!(said(text), "It marks thinking.");
    for text in [
        "Write `<think>` before it.",
        "Write ``a `<think>` b`` here.",
        "```html\n<think>\n</think>\n```\nLike this.",
        "~~~\n<tool_call>{}</tool_call>\n~~~",
    ] {
        assert_eq!(said(text), text);
    }
    // Backticks that do not close on their line are not a code span.
    assert_eq!(said("it`s <think>secret</think>so"), "it`s so");
    assert_eq!(said("it`s <think>secret\n`</think>so"), "it`s so");
}

#[test]
fn text_without_marks_is_unchanged() {
    for text in [
        "",
        "a < b, b > c",
        "1 <2 [3] <",
        "<b>bold</b>",
        "<thinker>",
        "<think about it>",
        "<!-- x -->",
        "[link](a) [THIN]",
        "Vec<String> ",
        "\n\n  Hello \n",
        "＜你好＞",
        "<| x |>",
        "f <| g |> h",
        "<||>",
        "<|你|>",
        "1 <|",
        "[e] [INS] [T](x)",
        "a ` b ``` c ~~~ d",
        "```\ncode\n```",
        "<tool>",
        "<function>",
        "think",
        "</b>",
        "<",
        "<|",
        "<think",
        "</thin",
        "[TOOL",
    ] {
        assert_eq!(said(text), text);
    }
    let long = format!("<think {}", "x".repeat(1_000));
    assert_eq!(said(&long), long);
}

#[test]
fn a_missing_opening_mark_is_remembered() {
    let text = "The user greets.</think>\nHello.";
    let mut first = AnswerFilter::new(&Prompt::default(), Opening::Marked);
    first.push(LlmDelta::Text(text.into()));
    first.end(false);
    assert_eq!(first.began(), Some(Opening::Missing));
    let next = |text: &str| {
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        let whole = shown(&prompt(), Opening::Missing, &[text]);
        assert_eq!(shown(&prompt(), Opening::Missing, &letters), whole);
        whole
    };
    assert_eq!(next(text), "Hello.");
    assert_eq!(next("secret `</think>` secret</think>Hello."), "Hello.");
    assert_eq!(next("Hello."), "Hello.", "there was no thinking");
    assert_eq!(next("<think>secret</think>Hello."), "Hello.");
    assert_eq!(
        next("I look.<tool_call>{\"name\":\"get_weather\"}</tool_call>"),
        "I look.«get_weather{}»"
    );
    // If a server separates thinking, its answers are sent on at once.
    let mut apart = AnswerFilter::new(&Prompt::default(), Opening::Missing);
    apart.push(LlmDelta::Text("He".into()));
    assert_eq!(apart.pop(), None);
    apart.reasoning_is_separate();
    assert_eq!(
        (apart.pop(), apart.began()),
        (Some(LlmDelta::Text("He".into())), Some(Opening::Marked))
    );
    assert_eq!(answer(text), "Hello.");
    assert_eq!(answer("<think>secret</think>A cat."), "A cat.");
}

#[test]
fn a_closing_mark_that_the_prompt_contains_does_not_count() {
    let long = "a < b ".repeat(1_000);
    for (words, began) in [
        ("Please say </think> twice.", None),
        ("What is [/THINK]?", None),
        (format!("{long}</Reasoning >").as_str(), Some(Opening::Missing)),
        ("I think that /think is no tag, and a < b.", Some(Opening::Missing)),
        ("Say <think>.", Some(Opening::Missing)),
        ("", Some(Opening::Missing)),
    ] {
        let messages = vec![ChatMessage::new(Role::User, words)];
        let mut quoting =
            AnswerFilter::new(&Prompt { messages, ..Prompt::default() }, Opening::Marked);
        quoting.push(LlmDelta::Text("Here it is: </think> and again: </think>.".into()));
        quoting.end(false);
        assert_eq!(quoting.began(), began, "{words:.40}");
    }
    let old = ChatMessage::new(Role::User, "Please say </think> twice.");
    let new = ChatMessage::new(Role::User, "Again!");
    let prompt = Prompt { messages: vec![old, new], ..Prompt::default() };
    let mut again = AnswerFilter::new(&prompt, Opening::Marked);
    again.push(LlmDelta::Text("</think>".into()));
    again.end(false);
    assert_eq!(again.began(), None);
}

#[test]
fn calls_written_as_text_are_calls() {
    let call = "«get_weather{\"city\":\"柏林\"}»";
    for text in [
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"柏林\"}}\n</tool_call>",
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"柏林\\\"}\"}",
        "<tool_call>[{\"function\": {\"name\": \"get.weather\", \"parameters\": {\"city\": \"柏林\"}}}]</tool_call>",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n柏林\n</parameter>\n</function>\n</tool_call>",
        "<function=get_weather>{\"city\": \"柏林\"}</function>",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>柏林</arg_value>\n</tool_call>",
        "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"柏林\"}}]<|/tool_call|>",
        "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"柏林\"}}]",
        "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"柏林\"}",
        "<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"柏林\"}}<|eom_id|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"柏林\"}<|tool_call_end|><|tool_calls_section_end|>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"柏林\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "```tool_call\n{\"name\": \"get_weather\", \"args\": {\"city\": \"柏林\"}}\n```",
        "```tool_code\nprint(get_weather(city=\"柏林\"))\n```",
        "<|tool_call_start|>[get_weather(city='柏林')]<|tool_call_end|>",
        "<start_function_call>call:get_weather{city:<escape>柏林<escape>}<end_function_call>",
        "<function_calls>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">柏林</parameter>\n</invoke>\n</function_calls>",
        "<invoke name=\"get_weather\"><parameter name=\"city\">柏林</parameter></invoke>",
        "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">柏林</parameter>\n</invoke>\n</minimax:tool_call>",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">柏林</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"柏林\"}<|call|>",
        "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"柏林\"}<|call|>",
        "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"柏林\"}<|call|>",
        "<think>I call <tool_call>{\"name\": \"self_set_volume\"}</tool_call></think><tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"柏林\"}}</tool_call>",
    ] {
        assert_eq!(said(text), call, "{text}");
    }
    for text in [
        "<|tool_call>call:get_weather{city:<|\"|>柏林<|\"|>}<tool_call|>",
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">柏林</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        "<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">柏林</｜DSML｜parameter>\n</｜DSML｜invoke>",
        "<|python_start|>[get_weather(city=\"柏林\")]<|python_end|>",
        "<|python_tag|>get_weather.call(city=\"柏林\")<|eom_id|>",
        "<|action_start|><|plugin|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"柏林\"}}<|action_end|>",
        "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"柏林\"}}]</TOOLCALL>",
        "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>柏林</longcat_arg_value>\n</longcat_tool_call>",
        "<|tools_prefix|>[{\"get_weather\": {\"city\": \"柏林\"}}]<|tools_suffix|>",
        "<tool_call>{'name': 'get_weather', 'arguments': {'city': '柏林'}}</tool_call>",
        "<tool_call>{'name': 'get_weather', 'arguments': {'city': '\\u67cf\\u6797'}}</tool_call>",
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"柏林\"}\n</tool_call>",
        "<tool_call>{{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"柏林\"}}}}</tool_call>",
        "<invoke name=\"get_weather\">{\"city\": \"柏林\"}</invoke>",
        "<function name=\"get_weather\">{\"city\": \"柏林\"}</function>",
        "<tool_call name=\"get_weather\">{\"city\": \"柏林\"}</tool_call>",
        "<|assistant|>get_weather\n{\"city\": \"柏林\"}<|observation|>",
    ] {
        assert_eq!(said(text), call, "{text}");
    }
    assert_eq!(said("<tool_call>get_weather\n</tool_call>"), "«get_weather{}»");
    assert_eq!(
        said(
            "<tool_call>{'name': 'get_weather', 'arguments': {'days': None, 'city': True}}</tool_call>"
        ),
        "«get_weather{\"city\":true,\"days\":null}»"
    );
    let nested = "<|tool_call>call:get_weather{days:7,city:{a:[1,<|\"|>b<|\"|>]}}<tool_call|>";
    assert_eq!(said(nested), "«get_weather{\"city\":{\"a\":[1,\"b\"]},\"days\":7}»");
    let two = "Sure. <tool_call>{\"name\": \"get_weather\"}</tool_call><tool_call>{\"name\": \"self.set_volume\"}</tool_call> Done.";
    assert_eq!(said(two), "Sure. «get_weather{}»self_set_volume{}» Done.");
    let typed = "<function=get_weather><parameter=city>7</parameter><parameter=days>7</parameter></function>";
    assert_eq!(said(typed), "«get_weather{\"city\":\"7\",\"days\":7}»");
    let python = "<|tool_call_start|>[get_weather(city='it\\'s', days=7), self_set_volume(a=[1, True], b={'c': None})]<|tool_call_end|>";
    assert_eq!(
        said(python),
        "«get_weather{\"city\":\"it's\",\"days\":7}»self_set_volume{\"a\":[1,true],\"b\":{\"c\":null}}»"
    );
    let invoked = "<｜DSML｜function_calls><｜DSML｜invoke name=\"get_weather\"><｜DSML｜parameter name=\"days\" string=\"false\">7</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>Done.";
    assert_eq!(said(invoked), "«get_weather{\"days\":7}»Done.");
}

#[test]
fn a_tool_is_identified_despite_a_namespace_before_its_name() {
    for name in [
        "functions.get_weather",
        "functions.get_weather:0",
        "default_api.get_weather",
        "get.weather",
    ] {
        let mut screen = AnswerFilter::new(&prompt(), Opening::Marked);
        let call = |name: &str| {
            LlmDelta::Call(ToolRequest {
                id: "a".into(),
                name: name.into(),
                arguments: "{}".into(),
                ..ToolRequest::default()
            })
        };
        screen.push(call(name));
        assert_eq!(screen.pop(), Some(call("get_weather")), "{name}");
        screen.push(call("open_door"));
        assert_eq!(screen.pop(), Some(call("open_door")));
    }
}

#[test]
fn ends_of_messages_are_not_text() {
    for end in [
        "<|im_end|>",
        "<|endoftext|>",
        "<end_of_turn>",
        "<｜end▁of▁sentence｜>",
        "<|eot_id|>",
        "<|end|>",
        "<|call|>",
        "</s>",
        "<eos>",
        "<|assistant|>",
        "<|observation|>{\"it\": 5}",
        "<｜User｜>",
        "<|endofprompt|>",
        "<|reserved_special_token_5|>",
        "<|2.40|>",
        "<turn|>",
        "<EOT>",
        "<pad><pad>",
        "<unk>",
        "[EOS]",
        "[e~[",
        "[|endofturn|]",
        "<seed:eos>",
        "<|im_end|",
        "<|im_end",
        "<｜end▁of",
        "<|im_start|>",
        "<|im_start|>assistant",
        "[INST] and now?",
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>5<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
    ] {
        assert_eq!(said(&format!("It is five.{end}")), "It is five.", "{end}");
    }
}

#[test]
fn a_role_after_a_removed_token_is_not_text() {
    for begin in [
        "<|im_start|>assistant\n",
        "<start_of_turn>model\n",
        "<|turn>model\n",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|start_of_role|>assistant<|end_of_role|>",
        "<bos>",
        "<|assistant|>\n",
        "<|system|>",
        "[INST] hi [/INST] ",
    ] {
        assert_eq!(said(&format!("{begin}It is five.")).trim(), "It is five.", "{begin}");
    }
    assert_eq!(said("<|im_start|>models are <|big|>new"), "models are new");
    for text in ["Write `<|im_end|>` here.", "```\n<|im_start|>user\n```"] {
        assert_eq!(said(text), text);
    }
}

#[test]
fn a_call_has_only_arguments_that_were_written_as_such() {
    let volume = r#"{"days": 3}"#;
    for key in
        ["arguments", "parameters", "args", "params", "tool_input", "input", "inputs", "kwargs"]
    {
        let call = format!(r#"{{"name": "self_set_volume", "{key}": {volume}}}"#);
        let made = r#"«self_set_volume{"days":3}»"#;
        assert_eq!(said(&call), made, "{call}");
        assert_eq!(said(&format!("<tool_call>{call}</tool_call>")), made, "{call}");
    }
    for body in [
        r#"{"name": "self_set_volume", "days": 3}"#,
        r#"{"name": "self_set_volume", "arguments_json": "{}"}"#,
        r#"{"name": "self_set_volume", "arguments": {}, "days": 3}"#,
        r#"{"name": "self_set_volume", "arguments": {}, "parameters": {"days": 3}}"#,
        r#"{"name": "self_set_volume", "arguments": "loud"}"#,
    ] {
        for text in
            [body.to_owned(), format!("<tool_call>{body}</tool_call>"), format!("{body}<|eot_id|>")]
        {
            assert_eq!(said(&text), "", "{text}");
        }
        let spoken = format!("{body} is JSON.");
        assert_eq!(said(&spoken), spoken);
    }
    for definition in [
        r#"{"name": "self_set_volume", "description": "x", "parameters": {}}"#,
        r#"[{"name": "self_set_volume", "parameters": {"type": "object", "properties": {}}}]"#,
        r#"{"name": "self_set_volume", "parameters": {"days": {"type": "integer"}}}"#,
        r#"{"name": "self_set_volume", "arguments": {"days": 3}, "result": "ok"}"#,
        r#"{"name": "self_set_volume"} is the name of the tool."#,
    ] {
        assert_eq!(said(definition), definition);
    }
    for text in [
        r#"<tool_call>{"name": "self_set_volume", "parameters": {"type": "object", "properties": {}}}</tool_call>"#,
        r#"<tool_response>{"name": "self_set_volume", "arguments": {"days": 3}}</tool_response>"#,
        r#"<function_results>{"name": "self_set_volume", "arguments": {}}</function_results>"#,
        r#"<|tool_response>{"name": "self_set_volume", "arguments": {}}<tool_response|>"#,
        "<function=self_set_volume>days=3</function>",
        "<function=self_set_volume><parameter=city>a</parameter><days>3</days></function>",
        "<invoke name=\"self_set_volume\"><days>3</days></invoke>",
        "<invoke name=\"self_set_volume\"><parameter name=\"city\">a</parameter><days>3</days></invoke>",
        "<tool_call>no call is needed: self_set_volume {\"days\": 3}</tool_call>",
        "<tool_call>{\"x\": {\"name\": \"self_set_volume\", \"arguments\": {}}}</tool_call>",
        "<tool_call>{\"name\": \"self_set_volume\", \"day\": {\"days\": 3}</tool_call>",
    ] {
        assert_eq!(said(&format!("{text}Hi.")), "Hi.", "{text}");
    }
    let outer = r#"{"type": "function", "function": {"name": "self_set_volume"}, "arguments": {"days": 3}}"#;
    assert_eq!(said(outer), r#"«self_set_volume{"days":3}»"#);
    assert_eq!(said(r#"{"name": "self_set_volume"}"#), "«self_set_volume{}»");
}

#[test]
fn calls_that_cannot_be_made_are_dropped() {
    for text in [
        "Hi.<tool_call>{\"name\": \"open_door\", \"arguments\": {}}</tool_call>",
        "Hi.<tool_call>{\"name\": \"get_weather\", \"arguments\": [1]}</tool_call>",
        "Hi.<tool_call>{\"name\": \"get_wea",
        "Hi.<tool_call></tool_call>",
        "Hi.</tool_call>",
        "Hi.<tool_response>{\"name\": \"x\"}</tool_response>",
        "Hi.```tool_code\nprint(get_weather())",
    ] {
        let expected =
            if text.contains("```") { "Hi.```tool_code\nprint(get_weather())" } else { "Hi." };
        assert_eq!(said(text), expected, "{text}");
    }
    assert_eq!(said("```tool_code\nprint(open_door())\n```"), "");
    let long = format!("Hi.<tool_call>{}</tool_call>Bye.", "x".repeat(100_000));
    assert_eq!(said(&long), "Hi.Bye.");
    let forbidden = Prompt { tool_choice: ToolChoice::None, ..prompt() };
    let call = "Hi.<tool_call>{\"name\": \"get_weather\"}</tool_call>";
    assert_eq!(shown(&forbidden, Opening::Marked, &[call]), "Hi.");
}

#[test]
fn pieces_are_passed_on_as_they_arrive() {
    let mut screen = AnswerFilter::new(&Prompt::default(), Opening::Marked);
    for piece in ["He", "llo", " <", "b> x", "<th", "ink>", "no", "</think", "> y"] {
        screen.push(LlmDelta::Text(piece.into()));
    }
    let texts: Vec<_> = std::iter::from_fn(|| screen.pop()).collect();
    let text = |text: &str| LlmDelta::Text(text.into());
    assert_eq!(texts, [text("He"), text("llo"), text(" "), text("<b> x"), text(" y")]);
    // A call from the provider itself comes after the text before it, with one announcement.
    screen.push(LlmDelta::Text("<".into()));
    screen.push(LlmDelta::Calling);
    assert_eq!(
        [screen.pop(), screen.pop(), screen.pop()],
        [Some(text("<")), Some(LlmDelta::Calling), None]
    );
}

/// Generates fragments of marks and of code, and text between them.
fn scraps() -> impl Strategy<Value = Vec<&'static str>> {
    let all = [
        "<think>",
        "</think>",
        "<THINKING>",
        "</thinking >",
        "＜think＞",
        "＜/think＞",
        "[THINK]",
        "[/THINK]",
        "<",
        ">",
        "/",
        "think",
        "`",
        "``",
        "```",
        "~~~",
        "\n",
        " ",
        "a",
        "你",
        "<tool_call>",
        "</tool_call>",
        "{\"name\":\"get_weather\"}",
        "<function=get_weather>",
        "</function>",
        "<|channel|>",
        "final",
        "<|message|>",
        "<|start|>",
        "<|end|>",
        "[TOOL_CALLS]",
        "tool_code",
        "<|tool_call|>",
        "<b>",
        "<|im_start|>",
        "assistant",
        "<|x",
        "|>",
        "<tool_response>",
        "</tool_response>",
        "{\"name\":\"get_weather\",\"params\":{\"days\":1}}",
        "{\"name\":\"get_weather\",\"days\":1}",
        "{'name': 'get_weather', 'arguments': {'days': 1}}",
        ";",
        ":",
        "[get_weather(days=1)]",
        "get_weather",
        ">>>",
        "commentary to=",
        "{\"days\":1}",
        "functools[",
        "json",
        "]",
    ];
    prop::collection::vec(prop::sample::select(all.to_vec()), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_split_gives_the_same(scraps in scraps(), cuts in prop::collection::vec(0_usize..12, 0..40), missing: bool) {
        let text: String = scraps.concat();
        let opening = if missing { Opening::Missing } else { Opening::Marked };
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        for cut in cuts {
            let at = rest.char_indices().nth(cut).map_or(rest.len(), |(at, _)| at);
            let (piece, behind) = rest.split_at(at);
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        prop_assert_eq!(shown(&prompt(), opening, &pieces), shown(&prompt(), opening, &[&text]));
    }

    #[test]
    fn thinking_is_never_shown(
        before in "[a-z ,.!?<>|/你好\n]{0,20}", thought in "[a-z <>/`\n你]{0,30}", after in "[a-z .你好\n]{0,20}",
        closed: bool, tag in prop::sample::select(vec!["think", "Thinking", "THOUGHT", "reasoning"]),
    ) {
        // Marks of special tokens, which are never shown.
        prop_assume!(!before.contains("<|") && !before.contains("</s>"));
        let thought = thought.replace("<", "< SECRET ");
        let end = if closed { format!("</{tag}>") } else { String::new() };
        let text = format!("{before}<{tag}>SECRET{thought}{end}");
        let shown = said(&format!("{text}{}", if closed { &after } else { "" }));
        prop_assert!(!shown.contains("SECRET"), "{}", shown);
        let behind = if closed { after.trim() } else { "" };
        let expected = format!("{before}{behind}").split_whitespace().collect::<String>();
        prop_assert_eq!(shown.split_whitespace().collect::<String>(), expected);
    }

    #[test]
    fn text_without_marks_is_never_changed(text in "[a-zA-Z0-9 .,!?<>/|`~\\[\\]\n你好＜]{0,80}") {
        let lower = text.to_lowercase();
        prop_assume!(!["think", "thought", "reason", "reflec", "tool", "func", "<|", "＜|"].iter().any(|w| lower.contains(w)));
        prop_assert_eq!(said(&text), text);
    }
}

#[test]
fn plain_json_calls_at_the_beginning_are_made() {
    let volume = r#"«self_set_volume{"days":3}»"#;
    for text in [
        r#"{"name": "self_set_volume", "parameters": {"days": 3}}"#,
        r#"  [{"tool": "self_set_volume", "arguments": {"days": 3}}]"#,
        "```json\n{\"name\": \"self.set_volume\", \"arguments\": {\"days\": 3}}\n```",
        "```\n{\"type\": \"function\", \"function\": {\"name\": \"self_set_volume\", \"arguments\": \"{\\\"days\\\":3}\"}}\n```",
        r#"{"tool_calls": [{"name": "self_set_volume", "args": {"days": 3}}]}"#,
        r#"<think>hm</think>{"name": "self_set_volume", "parameters": {"days": 3}}"#,
    ] {
        assert_eq!(said(text).trim(), volume, "{text}");
    }
    assert_eq!(
        said(r#"{"name": "self_set_volume", "parameters": {"days": 3}} Done."#),
        format!("{volume} Done.")
    );
    for text in [
        r#"{"function": "self_set_volume", "arguments": {"days": 3}}"#,
        r#"{"function_name": "self_set_volume", "arguments": {"days": 3}}"#,
        r#"{"action": "self_set_volume", "action_input": {"days": 3}}"#,
        r#"{"function_call": {"name": "self_set_volume", "arguments": "{\"days\": 3}"}}"#,
        r#"{"tool_call": {"name": "self_set_volume", "arguments": {"days": 3}}}"#,
        r#"{"calls": [{"name": "self_set_volume", "arguments": {"days": 3}}]}"#,
        r#"functools[{"name": "self_set_volume", "arguments": {"days": 3}}]"#,
        "[self_set_volume(days=3)]",
        "[self.set_volume(days=3)]<|eot_id|>",
        "self_set_volume\n{\"days\": 3}",
        ">>>self_set_volume\n{\"days\": 3}",
        "commentary to=functions.self_set_volume json{\"days\": 3}",
        "\n<think>hm</think>{\"name\": \"self_set_volume\", \"parameters\": {\"days\": 3}}",
    ] {
        assert_eq!(said(text).trim(), volume, "{text}");
    }
    let one = r#"{"name": "self_set_volume", "parameters": {"days": 3}}"#;
    let other = r#"{"name": "get_weather", "parameters": {}}"#;
    let both = r#"«self_set_volume{"days":3}»get_weather{}»"#;
    for between in ["; ", "\n", ""] {
        assert_eq!(said(&format!("{one}{between}{other}")), both, "{between:?}");
    }
    assert_eq!(said(&format!("```json\n{one}\n{other}\n```")), both);
    assert_eq!(said("[self_set_volume(days=3), get_weather()]"), both);
    assert_eq!(said(&format!("{one};")), volume);
    assert_eq!(said(">>>all\nHello."), "Hello.");
}

#[test]
fn plain_json_after_a_word_is_a_call_if_nothing_follows() {
    let call = r#"{"name": "self_set_volume", "parameters": {"days": 3}}"#;
    let made = r#"«self_set_volume{"days":3}»"#;
    assert_eq!(said(&format!("Sure.\n{call}")), format!("Sure.\n{made}"));
    assert_eq!(said(&format!("Sure.\n\n```json\n{call}\n```\n")).trim(), format!("Sure.\n{made}"));
    let long = "A call of a tool is an object with a name and with parameters. ".repeat(3);
    for text in [
        format!("Sure. {call}"),
        format!("For example:\n```json\n{call}\n```"),
        format!("It is this：\n{call}"),
        format!("Sure.\n```json\n{call}\n```\nThat is how."),
        format!("Sure.\n{call}\nThat is how."),
        format!("{long}\n{call}"),
        "Sure.\n{\"name\": \"self_set_volume\"}".to_owned(),
        "Sure.\n[1] is it.\n> x\n{\"a\": 1}\n".to_owned(),
    ] {
        assert_eq!(said(&text), text);
    }
}

#[test]
fn other_json_is_text() {
    for text in [
        r#"{"name": "Anna", "age": 7} is an object."#,
        r#"{"a": 1}"#,
        "[1] is the first source.",
        "[{\"a\": 1}]",
        "```json\n{\"name\": \"Anna\"}\n```",
        "```rust\nfn main() {}\n```",
        "{",
        "``",
        r#"{"name": "self_set_volume", "parameters": {"days""#,
        r#"{"name": "unknown", "parameters": {}}"#,
        r#"Write {"name": "self_set_volume", "parameters": {}} to call it."#,
        "[self_set_volume](https://example.org)",
        "[self_set_volume(days=3)] is a list.",
        "[self_set_volume(3)]",
        "[x(1)]",
        "self_set_volume\nis a tool.",
        "self_set_volume\n{\"x\": 3}",
        "self_set_volume\n{\"days\": 3} sets it.",
        "self",
        "functools is a module.",
        ">>> print(1)",
        ">>>",
        "commentary to come.",
    ] {
        assert_eq!(said(text), text);
    }
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(9_000));
    assert_eq!(said(&long), long);
}

#[test]
fn work_grows_with_the_length_of_a_piece() {
    for (opening, piece) in [
        (Opening::Marked, "\n"),
        (Opening::Marked, "<"),
        (Opening::Marked, "a < b "),
        (Opening::Marked, "`<think>` "),
        (Opening::Marked, "<b>\n"),
        (Opening::Marked, " \n\t"),
        (Opening::Missing, "<"),
        (Opening::Missing, "`a"),
        (Opening::Marked, "<think>a</think>"),
        (Opening::Marked, "<tool_call>{}</tool_call>"),
    ] {
        let work = |times: usize| {
            let mut filter = AnswerFilter::new(&prompt(), opening);
            filter.push(LlmDelta::Text(format!("ok\n{}", piece.repeat(times))));
            filter.end(false);
            filter.work
        };
        let short = work(1_000).max(4_096);
        let long = work(10_000);
        assert!(long <= 12 * short, "{piece:?}: {short} for a text, {long} for ten times it");
    }
}
