//! The settings of every provider, with their defaults. Not where they are read: configuration
//! embeds these structs and fills them.

use std::time::Duration;

use hearken_base::Secret;
use hearken_proto::speech::asr::AudioFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

/// Recognition mode of FunASR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum FunAsrMode {
    /// One result for the whole utterance.
    #[default]
    #[serde(rename = "offline")]
    Offline,
    /// The server segments the utterance; the final results of the segments are joined.
    #[serde(rename = "2pass")]
    TwoPass,
}

/// Section `[asr]`: the recogniser and its time limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AsrSettings {
    /// Address of the recogniser: `ws://` or `wss://` for the ListenAI protocol,
    /// `funasr+ws://` or `funasr+wss://` for FunASR, or an OpenAI-compatible base
    /// `http(s)://.../v1`.
    pub url: String,
    /// Additional recognisers of any of these kinds, at most 15, which share all other
    /// settings of this section. Each utterance goes to the least loaded service, and to
    /// another one if that fails.
    pub more_urls: Vec<String>,
    /// API key, sent as a bearer token. Empty sends none.
    pub api_key: Secret,
    /// Model name for OpenAI-compatible bases. Empty selects `gpt-transcribe` at OpenAI and
    /// `whisper-1` elsewhere, which most servers map to the model they have. OpenAI retires
    /// `whisper-1` and `gpt-4o-transcribe` on 2027-02-26.
    pub model: String,
    /// Words that are often spoken, such as names, to improve recognition by
    /// OpenAI-compatible bases. At most 100 entries of up to 100 characters each.
    pub keywords: Vec<String>,
    /// Spoken languages as BCP 47 tags, for `gpt-transcribe`. At most 100 entries; empty
    /// uses `language`.
    pub languages: Vec<String>,
    /// Spoken language as a BCP 47 tag such as `zh` or `en`. Empty lets the recogniser
    /// detect it.
    pub language: String,
    /// Audio encoding on the ListenAI protocol. `opus` needs only 24 kbit/s of bandwidth;
    /// `pcm` is uncompressed.
    pub audio: AudioFormat,
    /// FunASR recognition mode. `offline` returns one result for the whole utterance;
    /// `2pass` lets the service segment the utterance, and the final results of the
    /// segments are joined.
    pub funasr_mode: FunAsrMode,
    /// Maximum time to establish a connection, including the handshake.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub connect_timeout_ms: u64,
    /// Maximum wait until the service accepts a piece of audio.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub send_timeout_ms: u64,
    /// Maximum wait for the transcript after the end of the utterance. The embedded engine
    /// may have to recognise other utterances first; lower the value for faster services.
    /// With several services, a slow one is abandoned after half of the remaining time if
    /// another works.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub result_timeout_ms: u64,
    /// Maximum length of an utterance that is buffered for a second attempt. Longer
    /// utterances are not retried, and are not sent to HTTP services at all.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub max_utterance_ms: u64,
    /// Period after the first attempt in which a failed HTTP request is retried. With
    /// several services, it also limits retries of an utterance that all of them failed to
    /// recognise.
    #[schemars(range(max = 86_400_000))]
    pub retry_within_ms: u64,
    /// Connection pool for recognisers with the ListenAI protocol; each service has a
    /// separate pool.
    pub pool: PoolSettings,
}

impl Default for AsrSettings {
    fn default() -> Self {
        Self {
            url: "ws://127.0.0.1:9200".into(),
            more_urls: Vec::new(),
            api_key: Secret::default(),
            model: String::new(),
            keywords: Vec::new(),
            languages: Vec::new(),
            language: String::new(),
            audio: AudioFormat::Pcm,
            funasr_mode: FunAsrMode::Offline,
            connect_timeout_ms: 5_000,
            send_timeout_ms: 5_000,
            result_timeout_ms: 60_000,
            max_utterance_ms: 120_000,
            retry_within_ms: 10_000,
            pool: PoolSettings::default(),
        }
    }
}

/// Section `[tts]`: the synthesiser and its time limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TtsSettings {
    /// Address of the synthesiser: `ws://` or `wss://` for the ListenAI protocol, or an
    /// OpenAI-compatible base `http(s)://.../v1`.
    pub url: String,
    /// Additional synthesisers of any of these kinds, at most 15, which share all other
    /// settings of this section; use services with the same voice. Each sentence goes to
    /// the least loaded service, and to another one if that fails before any audio.
    pub more_urls: Vec<String>,
    /// API key, sent as a bearer token. Empty sends none.
    pub api_key: Secret,
    /// Model name for OpenAI-compatible bases. Empty selects `tts-1`. OpenAI retires
    /// `tts-1`, `tts-1-hd` and `gpt-4o-mini-tts` on 2027-01-06 and names no replacement for
    /// this API.
    pub model: String,
    /// Name of the voice. Empty requests none, except at OpenAI-compatible bases, which
    /// require the field and get `alloy`.
    pub voice: String,
    /// Speaking rate relative to normal speech, `1.0`.
    #[schemars(range(min = 0.25, max = 4.0))]
    pub speed: f64,
    /// Sample rate of the PCM audio of an OpenAI-compatible base, which does not report it.
    /// OpenAI uses `24000`; a wrong value changes pitch and speed.
    #[schemars(range(min = 8_000, max = 48_000))]
    pub http_sample_rate_hz: u32,
    /// Maximum time to establish a connection, including the handshake.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub connect_timeout_ms: u64,
    /// Maximum wait for the first audio of a sentence. The embedded engine may have to
    /// speak other sentences first; lower the value for faster services. With several
    /// services, a slow one is abandoned after half of the remaining time if another works.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub first_audio_timeout_ms: u64,
    /// Maximum wait between two pieces of audio.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub idle_timeout_ms: u64,
    /// Maximum time to synthesise a whole sentence.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: u64,
    /// Period after the first attempt in which a failed request is retried. A request is
    /// retried only before any audio.
    #[schemars(range(max = 86_400_000))]
    pub retry_within_ms: u64,
    /// Size of the audio cache for sentences. `0` caches only the fixed phrases, which are
    /// synthesised at startup.
    #[schemars(range(max = 1_099_511_627_776_u64))]
    pub cache_bytes: usize,
    /// Connection pool for synthesisers with the ListenAI protocol; each service has a
    /// separate pool.
    pub pool: PoolSettings,
}

impl Default for TtsSettings {
    fn default() -> Self {
        Self {
            url: "ws://127.0.0.1:9300/tts".into(),
            more_urls: Vec::new(),
            api_key: Secret::default(),
            model: String::new(),
            voice: String::new(),
            speed: 1.0,
            http_sample_rate_hz: 24_000,
            connect_timeout_ms: 5_000,
            first_audio_timeout_ms: 60_000,
            idle_timeout_ms: 30_000,
            timeout_ms: 180_000,
            retry_within_ms: 10_000,
            cache_bytes: 16 << 20,
            pool: PoolSettings::default(),
        }
    }
}

/// The API of a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LlmProvider {
    /// OpenAI's chat API, or a compatible one.
    #[default]
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
}

/// Section `[llm]`: the language model and its time limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LlmSettings {
    /// API of the service: `openai` for any OpenAI-compatible base, `anthropic` for
    /// Anthropic's Messages API.
    pub provider: LlmProvider,
    /// Base URL of the API: an OpenAI-compatible base including its version path,
    /// `http(s)://.../v1`, or Anthropic's, `https://api.anthropic.com`.
    pub base_url: String,
    /// Name of the model.
    pub model: String,
    /// API key, sent as a bearer token, or as `x-api-key` with `anthropic`. Empty sends
    /// none.
    pub api_key: Secret,
    /// Sampling temperature of answers to devices. Higher values give more varied answers.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// Maximum length of an answer to a device.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub max_tokens: u32,
    /// Maximum time to establish a connection, including the handshake.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub connect_timeout_ms: u64,
    /// Maximum wait for the first words of an answer. With fallback models, a lower value
    /// makes the next model answer sooner.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub first_token_timeout_ms: u64,
    /// Maximum wait between two pieces of an answer.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub idle_timeout_ms: u64,
    /// Maximum time to wait for a whole answer, including all attempts and fallback models.
    /// The time in which the answer is spoken does not count.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: u64,
    /// Period after the first attempt in which a failed request is retried. A request is
    /// retried only before the first words of its answer.
    #[schemars(range(max = 86_400_000))]
    pub retry_within_ms: u64,
    /// Maximum number of concurrent calls to this model, for all clients together. One call
    /// in four is reserved for devices. Further calls wait for a free one, at most
    /// `first_token_timeout_ms`.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_calls: usize,
    /// Warm the provider's prompt cache: when a device has listed its tools, send the
    /// beginning of the prompt as a request for one token with the service tier `flex`. The
    /// first answer then arrives sooner, at the cost of an additional request. Useful only
    /// if the service caches prompts; the embedded model always does this.
    pub prefetch: bool,
    /// Request the token usage at the end of each answer. If a service rejects the field,
    /// requests to it omit the field.
    pub usage: bool,
    /// Additional request fields under the vendor's names, such as `{ enable_thinking =
    /// false }` (Qwen at DashScope), `{ chat_template_kwargs = { enable_thinking = false }
    /// }` (vLLM), `{ reasoning_effort = "low" }` (OpenAI) or `{ thinking = { type =
    /// "disabled" } }` (Anthropic, GLM). At most 16 KiB of JSON. Fields that the server
    /// sets (`messages`, `model`, `stream`, `tools`, `max_tokens`, `temperature` and the
    /// like) are rejected. A model's reasoning is never part of the answer.
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub extra: Table,
    /// Price of a million input tokens, in any currency. Used for cost metrics, `[usage]`
    /// and `speculation.max_price_per_million`.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub price_per_million_input: f64,
    /// Price of a million output tokens, in the same currency as the input price.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub price_per_million_output: f64,
    /// Fallback models, at most 8, tried in order if the first model fails before its first
    /// words. A model that does not answer counts as failed after `first_token_timeout_ms`
    /// or half of the remaining time, and a failed model is skipped for 30 s. Add one
    /// `[[llm.fallback]]` table per model at the end of the file. Omitted timeouts and
    /// limits are those of `[llm]`; the API key, extra fields and prices are not inherited.
    pub fallback: Vec<FallbackSettings>,
}

impl Default for LlmSettings {
    fn default() -> Self {
        Self {
            provider: LlmProvider::OpenAi,
            base_url: "http://127.0.0.1:9401/v1".into(),
            model: "local".into(),
            api_key: Secret::default(),
            temperature: 0.7,
            max_tokens: 256,
            connect_timeout_ms: 5_000,
            first_token_timeout_ms: 60_000,
            idle_timeout_ms: 20_000,
            timeout_ms: 120_000,
            retry_within_ms: 10_000,
            max_calls: 200,
            prefetch: false,
            usage: true,
            extra: Table::new(),
            price_per_million_input: 0.0,
            price_per_million_output: 0.0,
            fallback: Vec::new(),
        }
    }
}

/// Fallback model. Absent settings are those of the first model, except the key, the additional
/// fields and the prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FallbackSettings {
    /// API of the fallback model: `openai` for any OpenAI-compatible base, `anthropic` for
    /// Anthropic's Messages API.
    #[serde(default)]
    pub provider: LlmProvider,
    /// Base URL of the API, as for `llm.base_url`. Required.
    pub base_url: String,
    /// Name of the model. Required.
    pub model: String,
    /// API key of this model. Empty sends none; the key of `[llm]` is not used. Set either
    /// this key or `api_key_env`.
    #[serde(default)]
    pub api_key: Secret,
    /// Name of an environment variable that contains the API key. The server does not start
    /// if the variable is not set.
    #[serde(default)]
    pub api_key_env: String,
    /// Maximum time to establish a connection, including the handshake. If omitted,
    /// `llm.connect_timeout_ms` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub connect_timeout_ms: Option<u64>,
    /// Maximum wait for the first words of an answer. If omitted,
    /// `llm.first_token_timeout_ms` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub first_token_timeout_ms: Option<u64>,
    /// Maximum wait between two pieces of an answer. If omitted, `llm.idle_timeout_ms`
    /// applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub idle_timeout_ms: Option<u64>,
    /// Maximum time for a whole answer of this model, including its retries. If omitted,
    /// `llm.timeout_ms` applies, which also limits all models together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u64>,
    /// Period after the first attempt in which a failed request to this model is retried.
    /// If omitted, `llm.retry_within_ms` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 86_400_000))]
    pub retry_within_ms: Option<u64>,
    /// Maximum number of concurrent calls to this model. If omitted, `llm.max_calls`
    /// applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_calls: Option<usize>,
    /// Request the token usage at the end of each answer. If omitted, `llm.usage` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<bool>,
    /// Additional request fields for this model, as for `llm.extra`. The fields of `[llm]`
    /// are not inherited.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub extra: Table,
    /// Price of a million input tokens of this model, in the currency of `[llm]`. The price
    /// of `[llm]` is not inherited.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub price_per_million_input: f64,
    /// Price of a million output tokens of this model, in the currency of `[llm]`. The
    /// price of `[llm]` is not inherited.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub price_per_million_output: f64,
}

impl FallbackSettings {
    /// Returns the complete settings of this model.
    pub fn settings(&self, first: &LlmSettings) -> LlmSettings {
        LlmSettings {
            provider: self.provider,
            base_url: self.base_url.clone(),
            model: self.model.clone(),
            api_key: self.api_key.clone(),
            temperature: first.temperature,
            max_tokens: first.max_tokens,
            connect_timeout_ms: self.connect_timeout_ms.unwrap_or(first.connect_timeout_ms),
            first_token_timeout_ms: self
                .first_token_timeout_ms
                .unwrap_or(first.first_token_timeout_ms),
            idle_timeout_ms: self.idle_timeout_ms.unwrap_or(first.idle_timeout_ms),
            timeout_ms: self.timeout_ms.unwrap_or(first.timeout_ms),
            retry_within_ms: self.retry_within_ms.unwrap_or(first.retry_within_ms),
            max_calls: self.max_calls.unwrap_or(first.max_calls),
            prefetch: false,
            usage: self.usage.unwrap_or(first.usage),
            extra: self.extra.clone(),
            price_per_million_input: self.price_per_million_input,
            price_per_million_output: self.price_per_million_output,
            fallback: Vec::new(),
        }
    }
}

/// Limits of the connections to a WebSocket service, and upkeep of idle ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSettings {
    /// Maximum number of concurrent connections. Further utterances wait for a free one, at
    /// most `asr.connect_timeout_ms`.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_connections: usize,
    /// Maximum number of idle connections that remain open. More of them save the handshake
    /// for more simultaneous utterances.
    #[schemars(range(max = 10_000))]
    pub max_idle: usize,
    /// Time after which an idle connection is closed.
    #[schemars(range(max = 86_400_000))]
    pub idle_for_ms: u64,
    /// Interval of pings on idle connections. A connection that receives nothing between
    /// two pings is dropped.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub ping_every_ms: u64,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self { max_connections: 64, max_idle: 8, idle_for_ms: 120_000, ping_every_ms: 15_000 }
    }
}

/// Converts a setting in milliseconds to a `Duration`.
pub(super) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_is_the_default_and_a_wrong_key_is_refused() {
        assert_eq!(toml::from_str::<AsrSettings>("").unwrap(), AsrSettings::default());
        assert_eq!(toml::from_str::<TtsSettings>("").unwrap(), TtsSettings::default());
        assert_eq!(toml::from_str::<LlmSettings>("").unwrap(), LlmSettings::default());
        let asr: AsrSettings =
            toml::from_str("audio = \"opus\"\nfunasr_mode = \"2pass\"\npool.max_idle = 1").unwrap();
        assert_eq!(asr.audio, AudioFormat::Opus);
        assert_eq!(asr.funasr_mode, FunAsrMode::TwoPass);
        assert_eq!(asr.pool.max_idle, 1);
        let wrong = toml::from_str::<LlmSettings>("modell = \"x\"").unwrap_err().to_string();
        assert!(wrong.contains("modell"), "{wrong}");
    }
}
