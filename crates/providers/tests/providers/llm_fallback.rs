//! Several language models in order, of both APIs, over real sockets; their usage; and the retries
//! for applications.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use hearken_ports::{ChatMessage, LlmDelta, Prompt, ProviderError, ProviderErrorKind, Role};
use hearken_providers::{ChainOptions, CostTracker, FallbackSettings, LlmFigures, LlmSettings};
use hearken_test_support::vendors::{AnthropicMessages, Behaviour, OpenAiChat};

/// The first model's settings, with a fallback that uses Anthropic's API.
fn settings(first: String, second: String) -> LlmSettings {
    let fallback = format!(
        "[[fallback]]\nprovider = 'anthropic'\nbase_url = '{second}'\nmodel = 'b'\n\
         extra = {{ top_k = 5 }}\nprice_per_million_input = 1e6\nprice_per_million_output = 10e6\n"
    );
    let fallback: LlmSettings = toml::from_str(&fallback).unwrap();
    LlmSettings {
        base_url: first,
        connect_timeout_ms: 1_000,
        first_token_timeout_ms: 1_500,
        retry_within_ms: 0,
        price_per_million_input: 2e6,
        fallback: fallback.fallback,
        ..LlmSettings::default()
    }
}

fn prompt() -> Prompt {
    let messages = vec![ChatMessage::new(Role::User, "Hi.")];
    Prompt { messages, max_tokens: 40, ..Prompt::default() }
}

async fn ask(llm: &dyn hearken_ports::Llm) -> Result<String, ProviderError> {
    let deltas: Vec<LlmDelta> = llm.reply(prompt()).try_collect().await?;
    let words = deltas.iter().filter_map(|delta| match delta {
        LlmDelta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    Ok(words.collect())
}

#[tokio::test]
async fn another_api_answers_if_the_first_is_down_and_each_has_its_price() {
    let first = OpenAiChat::start(Behaviour::Normal, "one").await;
    let second = AnthropicMessages::start(Behaviour::Normal, "two").await;
    let ledger = CostTracker::default();
    let settings = settings(first.url(), second.url());
    let llm =
        hearken_providers::llm_for(&settings, &ChainOptions::spoken("device", &ledger)).unwrap();
    assert_eq!(ask(&*llm).await.unwrap(), "one");
    first.set(Behaviour::HttpStatus(503, None));
    assert_eq!(ask(&*llm).await.unwrap(), "two");
    assert_eq!(ask(&*llm).await.unwrap(), "two");
    assert_eq!((first.seen().requests, second.seen().requests), (2, 2), "the first is skipped");
    second.set(Behaviour::HttpStatus(400, None));
    let told = ask(&*llm).await.unwrap_err();
    assert_eq!((told.kind, told.provider), (ProviderErrorKind::BadRequest, "anthropic-llm"));
    // Ten prompt tokens of the first at 2; twelve of the second at 1 and one completion token at
    // 10, twice.
    let expected = LlmFigures {
        requests: 4,
        failures: 1,
        prompt_tokens: 10 + 2 * 12,
        completion_tokens: 1 + 2,
        cost: 20.0 + 2.0 * 22.0,
    };
    assert_eq!(ledger.figures().into_iter().collect::<Vec<_>>(), [("device", expected)]);
}

#[tokio::test]
async fn the_next_model_answers_a_request_that_the_first_does_not_serve() {
    let first = OpenAiChat::start(Behaviour::Normal, "one").await;
    let second = AnthropicMessages::start(Behaviour::Normal, "two").await;
    let settings = settings(first.url(), second.url());
    for status in [401, 402, 403, 404, 405, 410, 413, 429, 451, 500, 501, 503] {
        first.set(Behaviour::HttpStatus(status, None));
        let llm = hearken_providers::llm(&settings).unwrap();
        assert_eq!(ask(&*llm).await.unwrap(), "two", "{status}");
    }
    // The fields that the second's settings add are sent only to it.
    assert!(second.seen().texts.last().unwrap().contains("\"top_k\":5"));
    assert!(!first.seen().texts.iter().any(|text| text.contains("top_k")));
    for status in [400, 422] {
        first.set(Behaviour::HttpStatus(status, None));
        let told = ask(&*hearken_providers::llm(&settings).unwrap()).await.unwrap_err();
        assert_eq!(told.kind, ProviderErrorKind::BadRequest, "{status}");
    }
    // A model that hangs leaves half of the time to the next one.
    first.set(Behaviour::Silent);
    let settings = LlmSettings { timeout_ms: 6_000, first_token_timeout_ms: 60_000, ..settings };
    let began = Instant::now();
    assert_eq!(ask(&*hearken_providers::llm(&settings).unwrap()).await.unwrap(), "two");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn applications_are_retried_after_a_second() {
    let stub = OpenAiChat::start(Behaviour::HttpStatus(502, None), "one").await;
    let ledger = CostTracker::default();
    let settings = LlmSettings { fallback: Vec::new(), ..settings(stub.url(), String::new()) };
    let llm =
        hearken_providers::llm_for(&settings, &ChainOptions::patient("chat", &ledger)).unwrap();
    for status in [502, 500] {
        stub.set(Behaviour::HttpStatus(status, None));
        let began = Instant::now();
        let before = stub.seen().requests;
        let (told, ()) = tokio::join!(ask(&*llm), async {
            stub.until(|seen| seen.requests == before + 1).await;
            stub.set(Behaviour::Normal);
        });
        assert_eq!(told.unwrap(), "one");
        assert!(began.elapsed() >= Duration::from_secs(1), "{status}: {:?}", began.elapsed());
    }
    for (status, kind) in [(404, ProviderErrorKind::NotServed)] {
        stub.set(Behaviour::HttpStatus(status, None));
        let before = stub.seen().requests;
        assert_eq!(ask(&*llm).await.unwrap_err().kind, kind);
        assert_eq!(stub.seen().requests, before + 1, "{status} is not retried");
    }
    let figures = ledger.figures()["chat"];
    assert_eq!((figures.requests, figures.failures), (3, 1));
}

#[test]
fn an_error_in_a_fallback_names_its_key() {
    let told = |change: fn(&mut FallbackSettings)| {
        let mut settings = settings("http://a/v1".into(), "http://b".into());
        change(&mut settings.fallback[0]);
        hearken_providers::llm(&settings).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(told(|_| {}), "");
    assert!(told(|f| f.base_url = "ftp://b".into()).starts_with("`llm.fallback.base_url` is `ftp"));
    assert!(told(|f| f.timeout_ms = Some(0)).starts_with("`llm.fallback.timeout_ms` is `0`"));
    let dear = told(|f| f.price_per_million_input = -1.0);
    assert!(dear.starts_with("`llm.fallback.price_per_million_input` is `-1`"), "{dear}");
    let mut many = settings("http://a/v1".into(), "http://b".into());
    many.fallback = vec![many.fallback[0].clone(); 9];
    assert!(
        hearken_providers::llm(&many)
            .err()
            .unwrap()
            .to_string()
            .starts_with("`llm.fallback` is `9`")
    );
}
