//! Tests of learning which fields a server refuses.

use std::cell::RefCell;

use hearken_ports::{ProviderError, ProviderErrorKind};
use serde_json::json;

use super::*;

/// Server that refuses some fields, with or without naming them.
struct Base {
    refuses: &'static [&'static str],
    tells: fn(&str) -> RefusalBody,
    asked: RefCell<Vec<Value>>,
}

impl Base {
    fn new(refuses: &'static [&'static str], tells: fn(&str) -> RefusalBody) -> Self {
        Self { refuses, tells, asked: RefCell::default() }
    }

    /// Sends a request. Returns the accepted request, and the number of attempts.
    async fn ask(&self, known: &ModelFindings, order: Value) -> (Option<Value>, usize) {
        self.asked.borrow_mut().clear();
        let answer = ask(known, order, async |order: Value| {
            self.asked.borrow_mut().push(order.clone());
            let Some(wrong) = self.refuses.iter().find(|name| order.get(**name).is_some()) else {
                return Ok(order);
            };
            let error = ProviderError::new("base", ProviderErrorKind::BadRequest);
            Err(Refusal { status: Some(StatusCode::BAD_REQUEST), told: (self.tells)(wrong), error })
        });
        (answer.await.ok(), self.asked.borrow().len())
    }
}

fn openai() -> ModelFindings {
    ModelFindings::new(OPENAI, "http://base/v1", "gpt")
}

fn order() -> Value {
    json!({ "max_tokens": 7, "temperature": 0.5, "stream_options": {}, "messages": [] })
}

fn by_param(name: &str) -> RefusalBody {
    RefusalBody {
        param: Some(name.into()),
        code: Some("unsupported_parameter".into()),
        ..RefusalBody::default()
    }
}

fn by_words(name: &str) -> RefusalBody {
    let text =
        format!("Unsupported parameter: '{name}'; supported: max_completion_tokens, x_tokens");
    RefusalBody { text, ..RefusalBody::default() }
}

fn not_at_all(_: &str) -> RefusalBody {
    RefusalBody::default()
}

#[tokio::test]
async fn each_refused_field_is_found_once() {
    let newer = json!({ "max_completion_tokens": 7, "stream_options": {}, "messages": [] });
    for tells in [by_param, by_words] {
        let base = Base::new(&["max_tokens", "temperature"], tells);
        let known = openai();
        assert_eq!(base.ask(&known, order()).await, (Some(newer.clone()), 3));
        assert_eq!(base.ask(&known, order()).await, (Some(newer.clone()), 1));
        assert_eq!(known.without_refused(order()), newer);
    }
}

#[tokio::test]
async fn a_refusal_without_a_field_name_starts_a_search() {
    for (refuses, asked) in [
        (&["stream_options"][..], 2),
        (&["max_tokens"], 3),
        (&["temperature"], 4),
        (&["max_tokens", "temperature"], 5),
    ] {
        let base = Base::new(refuses, not_at_all);
        let known = openai();
        assert_eq!(base.ask(&known, order()).await.1, asked, "{refuses:?}");
        let (answer, asked) = base.ask(&known, order()).await;
        assert_eq!((answer.is_some(), asked), (true, 1), "{refuses:?}");
    }
}

#[tokio::test]
async fn a_request_that_is_always_refused_changes_nothing() {
    let base = Base::new(&["messages"], not_at_all);
    let known = openai();
    for asked in [5, 5, 5, 1, 1] {
        assert_eq!(base.ask(&known, order()).await, (None, asked));
    }
    assert_eq!(known.without_refused(order()), order());
    // No search follows if the reason names none of our fields, or if the fields were accepted
    // before.
    let base = Base::new(&["messages"], by_param);
    let known = openai();
    assert_eq!(base.ask(&known, order()).await, (None, 1));
    let right = Base::new(&[], not_at_all);
    let known = openai();
    assert_eq!(right.ask(&known, order()).await, (Some(order()), 1));
    let base = Base::new(&["messages"], not_at_all);
    assert_eq!(base.ask(&known, order()).await, (None, 1));
    // The user's words may contain a field's name: another attempt, and nothing is remembered.
    let base = Base::new(&["messages"], |_| by_words("temperature"));
    assert_eq!(base.ask(&known, order()).await, (None, 2));
    assert_eq!(known.without_refused(order()), order());
    // If a server refuses by name a field that it accepted before, that counts.
    let newer = Base::new(&["temperature"], by_param);
    assert_eq!(newer.ask(&known, order()).await.1, 2);
}

/// Sends a request to a model that refuses it while `wrong` returns a status and a text. Returns
/// the tools of the accepted request, by name, and the number of attempts.
async fn offer(
    known: &ModelFindings,
    order: &Value,
    wrong: impl Fn(&Value) -> Option<(u16, String)>,
) -> (Option<Vec<String>>, usize) {
    let asked = RefCell::new(0);
    let answer = ask(known, order.clone(), async |order: Value| {
        *asked.borrow_mut() += 1;
        let Some((status, text)) = wrong(&order) else { return Ok(order) };
        let error = ProviderError::new("base", ProviderErrorKind::BadRequest);
        let status = StatusCode::from_u16(status).ok();
        Err(Refusal { status, told: RefusalBody { text, ..RefusalBody::default() }, error })
    });
    let answer = answer.await.ok();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    let names = answer.map(|order| {
        let tools = order.get("tools").and_then(Value::as_array);
        assert_eq!(tools.is_some(), order.get("tool_choice").is_some());
        tools.map(|tools| tools.iter().map(name).collect()).unwrap_or_default()
    });
    (names, asked.into_inner())
}

fn offering(names: &[&str]) -> Value {
    let tool =
        |name: &&str| json!({ "type": "function", "function": { "name": name, "parameters": {} } });
    let tools: Vec<Value> = names.iter().map(tool).collect();
    json!({ "messages": [], "max_tokens": 7, "tools": tools, "tool_choice": "auto" })
}

/// Returns the refusal of the first tool whose name starts with `bad_`.
fn bad_ones(order: &Value) -> Option<(u16, String)> {
    let tools = order.get("tools")?.as_array()?;
    let bad =
        |tool: &Value| tool["function"]["name"].as_str().is_some_and(|n| n.starts_with("bad_"));
    let place = tools.iter().position(bad)?;
    let text = format!("Invalid 'tools[{place}].function.parameters': no");
    Some((400, text))
}

#[tokio::test]
async fn a_refused_tool_is_omitted_until_its_definition_changes() {
    let known = openai();
    let mut order = offering(&["a", "bad_b", "c"]);
    let rest = Some(vec!["a".to_owned(), "c".to_owned()]);
    for asked in [2, 1] {
        assert_eq!(offer(&known, &order, bad_ones).await, (rest.clone(), asked));
    }
    assert_eq!(known.without_refused(order.clone())["tools"].as_array().unwrap().len(), 2);
    order["tools"][1]["function"]["parameters"] = json!({ "type": "object" });
    assert_eq!(offer(&known, &order, bad_ones).await, (rest, 2));
    // Without its only tool, a request has no list of them.
    assert_eq!(offer(&openai(), &offering(&["bad_b"]), bad_ones).await, (Some(vec![]), 2));
    // The fields are learnt nevertheless.
    let both = |order: &Value| {
        let field = order.get("max_tokens").map(|_| (400, "'max_tokens' is not known".to_owned()));
        bad_ones(order).or(field)
    };
    let known = openai();
    for asked in [3, 1] {
        let (names, times) = offer(&known, &offering(&["a", "bad_b"]), both).await;
        assert_eq!((names, times), (Some(vec!["a".to_owned()]), asked));
    }
}

#[tokio::test]
async fn many_refused_tools_are_omitted_a_few_per_request() {
    let known = openai();
    let order = offering(&["bad_a", "bad_b", "bad_c", "bad_d", "bad_e", "f"]);
    assert_eq!(offer(&known, &order, bad_ones).await, (None, 4));
    assert_eq!(offer(&known, &order, bad_ones).await, (Some(vec!["f".to_owned()]), 3));
    assert_eq!(offer(&known, &order, bad_ones).await.1, 1);
}

#[tokio::test]
async fn a_model_without_tools_gets_none_in_later_requests() {
    for (status, text) in [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use."),
        (500, "tools param requires --jinja flag"),
    ] {
        let known = openai();
        let order = offering(&["a"]);
        for asked in [2, 1] {
            let told = offer(&known, &order, |order| {
                order.get("tools").map(|_| (status, text.to_owned()))
            });
            assert_eq!(told.await, (Some(vec![]), asked), "{text}");
        }
    }
}

#[tokio::test]
async fn an_omission_that_does_not_help_is_not_remembered() {
    let known = openai();
    for text in ["Bad words: 'call set_light'.", "This model does not support tools."] {
        let told = offer(&known, &offering(&["set_light"]), |_| Some((400, text.to_owned()))).await;
        assert_eq!(told.0, None);
    }
    let names = offer(&known, &offering(&["set_light"]), |_| None).await;
    assert_eq!(names, (Some(vec!["set_light".to_owned()]), 1));
}

#[tokio::test]
async fn another_failure_ends_the_search() {
    let known = openai();
    let told = ask(&known, order(), async |_| {
        let error = ProviderError::new("base", ProviderErrorKind::Unavailable);
        Err::<(), _>(Refusal { status: Some(StatusCode::SERVICE_UNAVAILABLE), ..error.into() })
    });
    assert_eq!(told.await.unwrap_err().kind, ProviderErrorKind::Unavailable);
}

#[test]
fn models_are_known_by_base_and_name_and_their_number_is_bounded() {
    let findings = Findings::default();
    let one = findings.for_model("b", "m", OPENAI);
    let other = findings.for_model("b", "n", OPENAI);
    one.answered(0, 1);
    assert!(Arc::ptr_eq(&one, &findings.clone().for_model("b", "m", OPENAI)));
    assert!(!Arc::ptr_eq(&one, &other));
    for n in 0..MOST_MODELS * 2 {
        findings.for_model("b", &n.to_string(), OPENAI);
    }
    assert!(findings.0.lock().unwrap().len() <= MOST_MODELS);
}

#[test]
fn models_that_think_without_a_mark_are_guessed_by_name_and_learnt() {
    for (model, opening) in [
        ("deepseek-r1-distill-qwen-7b", Opening::Missing),
        ("Qwen/QwQ-32B", Opening::Missing),
        ("qwen3-30b-a3b-thinking-2507", Opening::Missing),
        ("qwen3-8b", Opening::Marked),
        ("gpt-4r1o", Opening::Marked),
    ] {
        assert_eq!(
            ModelFindings::new(OPENAI, "http://base/v1", model).opening(),
            opening,
            "{model}"
        );
    }
    let known = openai();
    for (began, opening) in [
        (Some(Opening::Missing), Opening::Marked),
        (None, Opening::Marked),
        (Some(Opening::Missing), Opening::Marked),
        (Some(Opening::Missing), Opening::Missing),
        (Some(Opening::Missing), Opening::Missing),
        (None, Opening::Missing),
        (Some(Opening::Marked), Opening::Marked),
        (Some(Opening::Missing), Opening::Marked),
    ] {
        known.began(began);
        assert_eq!(known.opening(), opening, "after {began:?}");
    }
}

#[test]
fn calls_without_a_signature_get_a_substitute_at_google() {
    let call = |name: &str| json!({ "id": "a", "function": { "name": name } });
    let mut own = call("f");
    own["extra_content"]["google"]["thought_signature"] = "s".into();
    let order = |first: Value| {
        json!({ "messages": [
            { "role": "user", "content": "hi" },
            { "role": "assistant", "tool_calls": [first, call("g")] },
            { "role": "assistant", "content": "hi" },
        ] })
    };
    let signature = |base: &str, first: &Value| {
        let known = ModelFindings::new(OPENAI, base, "gemini-3");
        let sent = known.without_refused(order(first.clone()));
        let calls = sent["messages"][1]["tool_calls"].clone();
        assert!(calls[1].get("extra_content").is_none(), "only the first of an answer has one");
        calls[0].pointer("/extra_content/google/thought_signature").cloned()
    };
    let substitute = Some(json!("skip_thought_signature_validator"));
    for (base, expected) in [
        ("https://generativelanguage.googleapis.com/v1beta/openai/", &substitute),
        ("https://europe-west4-aiplatform.googleapis.com/v1/openapi", &substitute),
        ("https://googleapis.com.example.org/v1", &None),
        ("https://notgoogleapis.com/v1", &None),
        ("https://api.openai.com/v1", &None),
    ] {
        assert_eq!(signature(base, &call("f")), *expected, "{base}");
        assert_eq!(signature(base, &own), Some(json!("s")), "{base}");
    }
}
