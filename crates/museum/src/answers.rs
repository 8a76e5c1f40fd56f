//! Answers to a museum user's words: the prompt, the model's answer, and the single call in it,
//! which is sent to the client and never executed. Not for sessions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use hearken_audio::playout::PlayedBack;
use hearken_base::language::Language;
use hearken_dialogue::template::fill;
use hearken_dialogue::turn::{Said, ToolRound};
use hearken_dialogue::usage::UsageMeter;
use hearken_dialogue::without_earlier::WithoutEarlier;
use hearken_dialogue::{Cleaner, Memory, TurnEnd, TurnRecord, message_repair};
use hearken_ports::store::MuseumSession;
use hearken_ports::usage::Used;
use hearken_ports::{
    ChatMessage, Llm, LlmDelta, Prompt, ProviderError, Role, StoreOutcome, ToolChoice, ToolRequest,
    TurnLanguage,
};
use hearken_proto::json::weight;
use hearken_proto::museum::{ParseRequest, Parsed};
use jiff::Timestamp;
use moka::future::Cache;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::functions::Functions;
use super::{Museum, MuseumError, MuseumSettings};

/// Maximum number of attempts of the model to make a valid call.
const ATTEMPTS: usize = 2;
/// Result that the model receives for a call that is passed to the client.
const CALL_RESULT: &str = "ok: handed to the client, which carries it out";
/// Maximum number of copies of a session's messages that other instances store during an answer.
const MOST_COPIES: usize = 4;
/// Client kind in the usage sums.
const USAGE_KIND: &str = "museum";
/// Field of the last stored message with the time at which its turn ended, in milliseconds since
/// 1970. Heartbeats do not change it.
const ENDED_MS: &str = "ended_ms";
/// Smallest difference that counts as a clock that was set back: those of instances differ slightly.
const SET_BACK: Duration = Duration::from_mins(1);
/// Placeholder for unknown values.
const UNKNOWN: &str = "-";

/// Memory limit of all cached answers, in bytes.
const CACHE_BYTES: u32 = 8 * 1_024 * 1_024;
/// Maximum number of cached answers.
const MAX_CACHED: u32 = 1_000;

/// Answers by the key of their prompt.
pub(super) type AnswerCache = Cache<[u8; 32], Arc<ModelAnswer>>;

/// Creates the cache, which holds an answer for this time.
pub(super) fn cache(kept_for: Duration) -> AnswerCache {
    Cache::builder()
        // A small answer counts more than its size, so that their number is bounded too.
        .weigher(|_, answer: &Arc<ModelAnswer>| answer.memory().max(CACHE_BYTES / MAX_CACHED))
        .max_capacity(CACHE_BYTES.into())
        .time_to_live(kept_for)
        .build()
}

/// Answer of the model to a prompt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct ModelAnswer {
    /// Plain text; may be empty if there is a call.
    words: String,
    call: Option<(ToolRequest, Map<String, Value>)>,
    /// True if the answer was cut at its maximum length.
    truncated: bool,
    /// True if the model has refused the earlier messages of the prompt, and answered without them.
    #[serde(default)]
    has_refused_earlier: bool,
}

impl ModelAnswer {
    /// Returns the approximate size of the answer in memory, in bytes.
    fn memory(&self) -> u32 {
        let call = self.call.as_ref().map_or(0, |(call, arguments)| {
            let texts = [&call.id, &call.name, &call.arguments].map(String::len);
            texts.iter().sum::<usize>() + weight(&Value::Object(arguments.clone()))
        });
        u32::try_from(self.words.len() + call).unwrap_or(u32::MAX)
    }
}

impl Museum {
    /// Answers a user in a session, and stores the exchange.
    pub(super) async fn answer(
        &self,
        session: &MuseumSession,
        functions: &Functions,
        request: ParseRequest,
    ) -> Result<Parsed, MuseumError> {
        let settings = self.settings.get();
        let memory = remembered(settings.max_messages, &session.history, self.now());
        let now = (self.ports.now)();
        let prompt = prompt(&settings, session, functions, &memory, &request, &now);
        let language = prompt.language.of_phrases(&request.user_input);
        let answer = self.cached_or_asked(prompt, functions).await?;
        let parsed = parsed(&answer, language);
        let call = answer.call.as_ref().map(|(call, _)| call.clone());
        let round =
            |call| ToolRound { after: 0, calls: vec![call], results: vec![CALL_RESULT.into()] };
        let record = TurnRecord {
            user: Some(request.user_input),
            said: vec![Said { text: parsed.response.clone(), remembered: true }],
            rounds: call.map(round).into_iter().collect(),
            end: TurnEnd::Completed,
        };
        // The model would refuse them in each later request as well.
        let memory = if answer.has_refused_earlier {
            Memory::new(settings.max_messages, Vec::new())
        } else {
            memory
        };
        self.keep(session, memory, &record).await?;
        Ok(parsed)
    }

    /// Stores a turn. If another instance has stored messages meanwhile, adds it to those: while
    /// Redis is lost, the lock does not exclude other instances.
    async fn keep(
        &self,
        session: &MuseumSession,
        mut memory: Memory,
        record: &TurnRecord,
    ) -> Result<(), MuseumError> {
        let store = &self.ports.store;
        let mut former = session.history.clone();
        for _ in 0..MOST_COPIES {
            memory.commit(record, PlayedBack::ALL);
            let mut kept = memory.messages().iter().map(|m| json!(m)).collect::<Vec<_>>();
            let now = self.now();
            if let Some(Value::Object(last)) = kept.last_mut() {
                last.insert(ENDED_MS.to_owned(), now.as_millisecond().into());
            }
            match store.keep_history(&session.id, &former, &kept, now).await? {
                StoreOutcome::Kept => return Ok(()),
                StoreOutcome::Closed => return Err(MuseumError::Gone),
                StoreOutcome::Overtaken => {}
            }
            former = store.find(&session.id).await?.ok_or(MuseumError::Gone)?.history;
            memory = remembered(self.settings.get().max_messages, &former, now);
        }
        Err(MuseumError::Busy)
    }

    /// Returns the answer to exactly this prompt, from the cache or else from the model. A person in
    /// danger is never answered from the cache.
    async fn cached_or_asked(
        &self,
        prompt: Prompt,
        functions: &Functions,
    ) -> Result<Arc<ModelAnswer>, MuseumError> {
        // Neither a limit nor an earlier answer to the same words comes before a reply to a person
        // in danger.
        if self.ports.llm.is_urgent(&prompt) {
            return Ok(Arc::new(self.ask(prompt, functions).await?));
        }
        let Some(answers) = &self.answers else {
            return Ok(Arc::new(self.ask_within_limits(prompt, functions).await?));
        };
        let settings_version = self.settings_version.load(Ordering::Relaxed);
        let key = key(&self.ports.model, settings_version, &prompt);
        if let Some(known) = answers.get(&key).await {
            return Ok(known);
        }
        // Each instance counts its own changes of settings: the counts are comparable only while
        // they are zero.
        let others = self.ports.answers.as_ref().filter(|_| settings_version == 0);
        if let Some(others) = others
            && let Some(known) = others.get(&key).await.and_then(|t| serde_json::from_str(&t).ok())
        {
            let known: Arc<ModelAnswer> = Arc::new(known);
            answers.insert(key, Arc::clone(&known)).await;
            return Ok(known);
        }
        let answer = Arc::new(self.ask_within_limits(prompt, functions).await?);
        if !answer.truncated {
            answers.insert(key, Arc::clone(&answer)).await;
            if let Some(others) = others {
                others
                    .put(&key, &json!(*answer).to_string(), self.settings.get().answers_for)
                    .await;
            }
        }
        Ok(answer)
    }
}

/// Computes the cache key of a prompt, model and count of settings changes; prompts with any
/// difference have different keys.
fn key(model: &str, settings_version: u64, prompt: &Prompt) -> [u8; 32] {
    let Prompt { messages, tools, max_tokens, temperature, .. } = prompt;
    let tools: Vec<_> = tools.iter().map(|t| (&t.name, &t.description, &t.parameters)).collect();
    let whole =
        json!([model, settings_version, messages, tools, max_tokens, temperature.to_bits()]);
    Sha256::digest(whole.to_string()).into()
}

/// Returns the memory of at most this many messages from stored ones.
fn remembered(max_messages: usize, history: &[Value], now: Timestamp) -> Memory {
    let messages = history.iter().filter_map(|m| serde_json::from_value(m.clone()).ok());
    Memory::new(max_messages, messages.collect()).ended_before(since_last(history, now))
}

/// Returns the time since the last turn of stored messages ended; `None` if it is not known.
fn since_last(history: &[Value], now: Timestamp) -> Option<Duration> {
    let ended = history.last()?.get(ENDED_MS)?.as_i64()?;
    let ended = Timestamp::from_millisecond(ended).ok()?;
    match Duration::try_from(now.duration_since(ended)) {
        Ok(passed) => Some(passed),
        Err(_) if ended.duration_since(now).unsigned_abs() < SET_BACK => Some(Duration::ZERO),
        Err(_) => None,
    }
}

fn prompt(
    settings: &MuseumSettings,
    session: &MuseumSession,
    functions: &Functions,
    memory: &Memory,
    request: &ParseRequest,
    now: &str,
) -> Prompt {
    let told = |text: &str| {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if line.trim().is_empty() { UNKNOWN.to_owned() } else { line }
    };
    let own = session.metadata["client_type"].as_str().unwrap_or_default();
    let own: String = own.chars().take(hearken_proto::museum::MAX_NAME_CHARS).collect();
    let client_type = told(request.client_type.as_deref().unwrap_or(&own));
    let spirit_id = told(request.spirit_id.as_deref().unwrap_or_default());
    let system = fill(
        &settings.system_prompt,
        &[
            ("{scene_type}", request.scene_type.as_str()),
            ("{spirit_id}", &spirit_id),
            ("{client_type}", &client_type),
            ("{current_time}", now),
        ],
    );
    let mut messages = vec![ChatMessage::new(Role::System, system)];
    messages.extend(memory.messages().iter().cloned());
    messages.push(ChatMessage::new(Role::User, &request.user_input));
    Prompt {
        messages,
        tools: Arc::clone(&functions.offered),
        max_tokens: settings.max_tokens,
        temperature: settings.temperature,
        language: TurnLanguage::after(None, memory.words()),
        since_last: memory.since_last(),
        ..Prompt::default()
    }
}

impl Museum {
    /// Asks the model, unless a daily limit is reached.
    async fn ask_within_limits(
        &self,
        prompt: Prompt,
        functions: &Functions,
    ) -> Result<ModelAnswer, MuseumError> {
        let meter = &self.ports.usage;
        if let Some(reached) = meter.reached("", None) {
            meter.count(USAGE_KIND, "", "", &Used { turns: 1, refused: 1, ..Used::default() });
            return Err(MuseumError::LimitReached(reached));
        }
        self.ask(prompt, functions).await
    }

    /// Asks the model, and a second time if it makes an invalid call.
    async fn ask(&self, prompt: Prompt, functions: &Functions) -> Result<ModelAnswer, MuseumError> {
        let meter = &self.ports.usage;
        meter.count(USAGE_KIND, "", "", &Used { turns: 1, ..Used::default() });
        let llm = WithoutEarlier::new(Arc::clone(&self.ports.llm));
        let answer = ask(&llm, prompt, functions, meter).await?;
        Ok(ModelAnswer { has_refused_earlier: llm.has_refused_earlier(), ..answer })
    }
}

/// Asks the model, and a second time if it makes an invalid call.
async fn ask(
    llm: &dyn Llm,
    mut prompt: Prompt,
    functions: &Functions,
    meter: &UsageMeter,
) -> Result<ModelAnswer, MuseumError> {
    for _ in 0..ATTEMPTS {
        let Reply { text, calls, truncated } =
            reply(llm, prompt.clone(), meter).await.map_err(MuseumError::Llm)?;
        let words = Cleaner::whole(&text);
        let Some(call) = calls.into_iter().next() else {
            if words.is_empty() {
                return Err(MuseumError::NoWords);
            }
            return Ok(ModelAnswer { words, truncated, ..ModelAnswer::default() });
        };
        match functions.check(&call).await {
            Ok(arguments) => {
                // The parsed arguments: an API may refuse the model's own `null` in a later
                // request.
                let call = ToolRequest { arguments: json!(arguments).to_string(), ..call };
                return Ok(ModelAnswer {
                    words,
                    call: Some((call, arguments)),
                    truncated,
                    ..ModelAnswer::default()
                });
            }
            Err(wrong) => {
                tracing::debug!("the model made an invalid call of a client's function");
                prompt.messages.push(ChatMessage::calling(text, vec![call.clone()]));
                prompt.messages.push(ChatMessage::result(call.id, wrong));
                message_repair::repair(&mut prompt.messages);
            }
        }
    }
    // The model makes no valid call, so it answers without one.
    prompt.tool_choice = ToolChoice::None;
    let Reply { text, truncated, .. } =
        reply(llm, prompt, meter).await.map_err(MuseumError::Llm)?;
    let words = Cleaner::whole(&text);
    if words.is_empty() {
        Err(MuseumError::NoWords)
    } else {
        Ok(ModelAnswer { words, truncated, ..ModelAnswer::default() })
    }
}

#[derive(Default)]
struct Reply {
    text: String,
    calls: Vec<ToolRequest>,
    truncated: bool,
}

/// Collects the whole answer of the model.
async fn reply(llm: &dyn Llm, prompt: Prompt, meter: &UsageMeter) -> Result<Reply, ProviderError> {
    let mut usage = meter.counts_model(USAGE_KIND, &prompt, llm);
    let mut stream = llm.reply(prompt);
    let mut reply = Reply::default();
    while let Some(delta) = stream.next().await {
        usage.read(&delta);
        match delta? {
            LlmDelta::Text(text) => reply.text.push_str(&text),
            LlmDelta::Calling | LlmDelta::Rule(_) => {}
            LlmDelta::Call(call) => reply.calls.push(call),
            LlmDelta::Finished { truncated, .. } => reply.truncated = truncated,
        }
    }
    Ok(reply)
}

/// Renders the answer for the client.
fn parsed(answer: &ModelAnswer, language: Language) -> Parsed {
    let Some((call, arguments)) = &answer.call else {
        return Parsed { response: answer.words.clone(), ..Parsed::default() };
    };
    let text = |name: &str| match arguments.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let keywords = match arguments.get("keywords") {
        Some(Value::Array(words)) => {
            words.iter().filter_map(|w| w.as_str().map(str::to_owned)).collect()
        }
        Some(Value::String(word)) => vec![word.clone()],
        _ => Vec::new(),
    };
    let response = match (answer.words.as_str(), language) {
        ("", Language::English) => "All right, right away.".to_owned(),
        ("", Language::Chinese) => "好的，马上为您处理。".to_owned(),
        (words, _) => words.to_owned(),
    };
    Parsed {
        artifact_id: text("artifact_id"),
        artifact_name: text("artifact_name"),
        operation: Some(call.name.clone()),
        operation_params: arguments.clone(),
        keywords,
        tips: text("tips"),
        response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(words: &str, arguments: Value) -> ModelAnswer {
        let call = ToolRequest {
            id: "1".into(),
            name: "show".into(),
            arguments: String::new(),
            ..ToolRequest::default()
        };
        let arguments = arguments.as_object().unwrap().clone();
        ModelAnswer { words: words.into(), call: Some((call, arguments)), ..ModelAnswer::default() }
    }

    #[test]
    fn known_arguments_are_lifted_and_a_silent_call_is_confirmed() {
        let arguments = json!({
            "artifact_id": 7, "artifact_name": "蟠龙盖罍", "keywords": ["青铜", 1], "tips": "看龙纹",
        });
        let told = parsed(&answer("", arguments.clone()), Language::Chinese);
        assert_eq!(told.artifact_id.as_deref(), Some("7"));
        assert_eq!(told.artifact_name.as_deref(), Some("蟠龙盖罍"));
        assert_eq!(
            (told.keywords, told.tips.as_deref()),
            (vec!["青铜".to_owned()], Some("看龙纹"))
        );
        assert_eq!(told.operation_params, *arguments.as_object().unwrap());
        assert_eq!(told.response, "好的，马上为您处理。");
        let told = parsed(&answer("", json!({})), Language::English);
        assert_eq!((told.response.as_str(), told.artifact_id), ("All right, right away.", None));
        assert_eq!(parsed(&answer("Here.", json!({})), Language::English).response, "Here.");
    }

    /// Inserts this number of answers into a cache. Returns the number that the cache holds.
    async fn kept(inserted: u16, answer: &ModelAnswer) -> u32 {
        let answers = cache(Duration::from_secs(60));
        for n in 0..inserted {
            let mut key = [0; 32];
            key[..2].copy_from_slice(&n.to_le_bytes());
            answers.insert(key, Arc::new(answer.clone())).await;
        }
        answers.run_pending_tasks().await;
        u32::try_from(answers.iter().count()).unwrap()
    }

    #[tokio::test]
    async fn cached_answers_are_bounded_in_number_and_in_bytes() {
        let small = ModelAnswer { words: "Good day.".into(), ..ModelAnswer::default() };
        let of_small = kept(2_000, &small).await;
        assert!((MAX_CACHED / 2..=MAX_CACHED).contains(&of_small), "{of_small}");
        let words = ModelAnswer { words: "x".repeat(100_000), ..ModelAnswer::default() };
        let values = answer("", json!({"list": vec![json!({"a": 1}); 100]}));
        for large in [words, values] {
            let most = CACHE_BYTES / large.memory();
            let kept = kept(500, &large).await;
            assert!((most / 2..=most).contains(&kept), "{kept} of {}", large.memory());
        }
    }

    #[test]
    fn prompts_with_any_difference_have_different_keys() {
        let first = Prompt { max_tokens: 5, ..Prompt::default() };
        let mut others = vec![Prompt { max_tokens: 6, ..first.clone() }];
        others.push(Prompt { temperature: 0.1, ..first.clone() });
        others.push(Prompt { messages: vec![ChatMessage::new(Role::User, "")], ..first.clone() });
        assert_eq!(key("m", 0, &first), key("m", 0, &first.clone()));
        assert_ne!(key("m", 0, &first), key("m", 1, &first));
        for other in others {
            assert_ne!(key("m", 0, &first), key("m", 0, &other), "{other:?}");
        }
    }
}
