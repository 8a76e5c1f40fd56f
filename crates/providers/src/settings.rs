//! The settings of every provider, with their defaults. Not where they are read: configuration
//! embeds these structs and fills them.

use std::time::Duration;

use hearken_base::Secret;
use hearken_proto::speech::asr::AudioFormat;
use serde::{Deserialize, Serialize};
use toml::Table;

/// Recognition mode of FunASR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AsrSettings {
    /// Address: `ws://` or `wss://` for the ListenAI protocol, `funasr+ws://` or `funasr+wss://`
    /// for FunASR, `http(s)://.../v1` for an OpenAI-compatible base.
    pub url: String,
    /// Further services, of any of these kinds, with the same other settings. Each utterance goes
    /// to the least loaded service, and to another one if that fails.
    pub more_urls: Vec<String>,
    /// Key, sent as a bearer token; empty for none.
    pub api_key: Secret,
    /// Name of the model, for OpenAI-compatible bases; empty for `gpt-transcribe` at OpenAI, and
    /// `whisper-1` elsewhere.
    pub model: String,
    /// Words that are often said, such as names, for OpenAI-compatible bases.
    pub keywords: Vec<String>,
    /// Languages that are spoken, as BCP 47 tags, for `gpt-transcribe`; empty for `language`.
    pub languages: Vec<String>,
    /// BCP 47 tag of the spoken language, such as `zh` or `en`; empty for automatic detection.
    pub language: String,
    /// Encoding of the audio on the ListenAI protocol: `pcm`, or `opus` at 24 kbit/s.
    pub audio: AudioFormat,
    /// Mode of FunASR: `offline` or `2pass`.
    pub funasr_mode: FunAsrMode,
    /// Longest wait for a connection, handshake included.
    pub connect_timeout_ms: u64,
    /// Longest wait until a piece of audio is accepted.
    pub send_timeout_ms: u64,
    /// Longest wait for the transcript after the end of the utterance; the embedded engine may have
    /// other utterances to recognise first. If there are several services, one is abandoned after
    /// half of the remaining time while another works.
    pub result_timeout_ms: u64,
    /// Longest utterance that is stored for a second attempt, or sent over HTTP.
    pub max_utterance_ms: u64,
    /// Time after the first attempt in which a failed HTTP request is retried; with several
    /// services, also an utterance at which all failed.
    pub retry_within_ms: u64,
    /// Connection pool.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TtsSettings {
    /// Address: `ws://` or `wss://` for the ListenAI protocol, `http(s)://.../v1` for an
    /// OpenAI-compatible base.
    pub url: String,
    /// Further services, of any of these kinds, with the same other settings. Each sentence goes to
    /// the least loaded service, and to another one if that fails before any audio.
    pub more_urls: Vec<String>,
    /// Key, sent as a bearer token; empty for none.
    pub api_key: Secret,
    /// Name of the model, for OpenAI-compatible bases; empty for `tts-1`.
    pub model: String,
    /// Name of the voice; empty for the service's default (`alloy` for an OpenAI-compatible base,
    /// where the field is required).
    pub voice: String,
    /// Speaking rate, 0.25 to 4.0; 1.0 is normal.
    pub speed: f64,
    /// Sample rate of the PCM of an OpenAI-compatible base, which does not report it, in Hz; that
    /// of OpenAI is 24000.
    pub http_sample_rate_hz: u32,
    /// Longest wait for a connection, handshake included.
    pub connect_timeout_ms: u64,
    /// Longest wait for the first audio of a sentence; the embedded engine may have other sentences
    /// to speak first. If there are several services, one is abandoned after half of the remaining
    /// time while another works.
    pub first_audio_timeout_ms: u64,
    /// Longest wait between two pieces of audio.
    pub idle_timeout_ms: u64,
    /// Longest time for a whole sentence.
    pub timeout_ms: u64,
    /// Time after the first attempt in which a failed request is retried, only before any audio.
    pub retry_within_ms: u64,
    /// Size of the cache of spoken sentences, in bytes; 0 keeps only the fixed phrases that are
    /// synthesised at start.
    pub cache_bytes: usize,
    /// Connection pool.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LlmProvider {
    /// OpenAI's chat API, or a compatible one.
    #[default]
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
}

/// Section `[llm]`: the language model and its time limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LlmSettings {
    /// API: `openai` (any compatible base) or `anthropic`.
    pub provider: LlmProvider,
    /// Address: an OpenAI-compatible base with its version path, `http(s)://.../v1`, or
    /// Anthropic's, `https://api.anthropic.com`.
    pub base_url: String,
    /// Name of the model.
    pub model: String,
    /// Key, sent as a bearer token; empty for none.
    pub api_key: Secret,
    /// Sampling temperature, 0.0 to 2.0.
    pub temperature: f64,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Longest wait for a connection, handshake included.
    pub connect_timeout_ms: u64,
    /// Longest wait for the first words.
    pub first_token_timeout_ms: u64,
    /// Longest wait between two pieces of the answer.
    pub idle_timeout_ms: u64,
    /// Longest time for a whole answer.
    pub timeout_ms: u64,
    /// Time after the first attempt in which a failed request is retried, only before any words.
    pub retry_within_ms: u64,
    /// Maximum number of calls at once, of all clients together; a further one waits. One in four
    /// is for devices alone.
    pub max_calls: usize,
    /// Set to prefetch the common beginning of a conversation's prompts when a device has listed
    /// its tools.
    #[serde(rename = "read_ahead")]
    pub prefetch: bool,
    /// Set to request the token usage at the end of each answer; an API that refuses the field is
    /// detected and asked without it.
    pub usage: bool,
    /// Additional fields of requests, with the vendor's names; fields that the server writes itself
    /// are refused.
    pub extra: Table,
    /// Price of a million tokens read, in any currency.
    pub price_per_million_input: f64,
    /// Price of a million tokens written.
    pub price_per_million_output: f64,
    /// Fallback models, asked in order if the first fails before its first words.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackSettings {
    /// API: `openai` (any compatible base) or `anthropic`.
    #[serde(default)]
    pub provider: LlmProvider,
    /// Address, as [`LlmSettings::base_url`].
    pub base_url: String,
    /// Name of the model.
    pub model: String,
    /// Key, sent as a bearer token; empty for none.
    #[serde(default)]
    pub api_key: Secret,
    /// Environment variable that contains the key; empty for none.
    #[serde(default)]
    pub api_key_env: String,
    /// Longest wait for a connection, handshake included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout_ms: Option<u64>,
    /// Longest wait for the first words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_timeout_ms: Option<u64>,
    /// Longest wait between two pieces of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Longest time for a whole answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Time after the first attempt in which a failed request is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_within_ms: Option<u64>,
    /// Maximum number of calls at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<usize>,
    /// Set to request the token usage at the end of each answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<bool>,
    /// Additional fields of requests to this model.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub extra: Table,
    /// Price of a million tokens read, in the currency of the first model.
    #[serde(default)]
    pub price_per_million_input: f64,
    /// Price of a million tokens written.
    #[serde(default)]
    pub price_per_million_output: f64,
}

impl FallbackSettings {
    /// Returns the complete settings of this model.
    pub(super) fn settings(&self, first: &LlmSettings) -> LlmSettings {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSettings {
    /// Maximum number of connections in use at once; a further request waits, as long as for a
    /// connection.
    pub max_connections: usize,
    /// Maximum number of unused connections that stay open.
    pub max_idle: usize,
    /// Time after which an unused connection is closed.
    pub idle_for_ms: u64,
    /// Interval of pings on an unused connection. It is dropped if nothing was received between two
    /// pings.
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
