//! The settings of every provider, with their defaults. Not where they are read: configuration
//! embeds these structs and fills them.

use std::time::Duration;

use hearken_base::Secret;
use hearken_proto::speech::asr::AudioFormat;
use serde::{Deserialize, Serialize};
use toml::Table;

/// How FunASR is asked to recognise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FunAsrMode {
    /// One result for the whole utterance.
    #[default]
    #[serde(rename = "offline")]
    Offline,
    /// The server cuts segments itself; their final results are joined.
    #[serde(rename = "2pass")]
    TwoPass,
}

/// The recogniser: which one, and how long it may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AsrSettings {
    /// Where it is: `ws://` or `wss://` speaks the ListenAI wire, `funasr+ws://` or
    /// `funasr+wss://` FunASR's, `http(s)://.../v1` is an OpenAI-compatible base.
    pub url: String,
    /// Further services beside it, of any of these schemes and with all the other settings: each
    /// utterance goes to the least loaded, and to another where that one fails.
    pub more_urls: Vec<String>,
    /// Sent as a bearer token; empty sends none.
    pub api_key: Secret,
    /// Name of the model, for OpenAI-compatible bases.
    pub model: String,
    /// BCP 47 tag of the language spoken, such as `zh` or `en`; empty lets the recogniser find
    /// out.
    pub language: String,
    /// Encoding of the audio on the ListenAI wire: `pcm`, or `opus` at 24 kbit/s.
    pub audio: AudioFormat,
    /// `offline` or `2pass`, for FunASR.
    pub funasr_mode: FunAsrMode,
    /// Longest wait for a connection, its handshake included.
    pub connect_timeout_ms: u64,
    /// Longest wait for one piece of audio to be accepted.
    pub send_timeout_ms: u64,
    /// Longest wait for the transcript after the end of the utterance; the embedded engine may
    /// have other utterances to recognise first. Where there are several services, one is given up
    /// after half of the time that is left, while another works.
    pub result_timeout_ms: u64,
    /// Longest utterance that is kept for a second attempt, or sent over HTTP.
    pub max_utterance_ms: u64,
    /// A failed HTTP call is made again only this soon after the first; where there are several
    /// services, so is an utterance at which all failed.
    pub retry_within_ms: u64,
    /// The connections that are kept.
    pub pool: PoolSettings,
}

impl Default for AsrSettings {
    fn default() -> Self {
        Self {
            url: "ws://127.0.0.1:9200".into(),
            more_urls: Vec::new(),
            api_key: Secret::default(),
            model: "whisper-1".into(),
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

/// The synthesiser: which one, and how long it may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TtsSettings {
    /// Where it is: `ws://` or `wss://` speaks the ListenAI wire, `http(s)://.../v1` is an
    /// OpenAI-compatible base.
    pub url: String,
    /// Further services beside it, of any of these schemes and with all the other settings: each
    /// sentence goes to the least loaded, and to another where that one fails before any audio.
    pub more_urls: Vec<String>,
    /// Sent as a bearer token; empty sends none.
    pub api_key: Secret,
    /// Name of the model, for OpenAI-compatible bases.
    pub model: String,
    /// Name of the voice; empty asks for none (`alloy` from an OpenAI-compatible base, where the
    /// field is required).
    pub voice: String,
    /// Speaking rate, 0.25 to 4.0; 1.0 is normal.
    pub speed: f64,
    /// Sample rate of the PCM of an OpenAI-compatible base, which does not say it; OpenAI's own
    /// is 24000.
    pub http_sample_rate_hz: u32,
    /// Longest wait for a connection, its handshake included.
    pub connect_timeout_ms: u64,
    /// Longest wait for a sentence's first audio; the embedded engine may have other sentences
    /// to speak first. Where there are several services, one is given up after half of the time
    /// that is left, while another works.
    pub first_audio_timeout_ms: u64,
    /// Longest wait between two pieces of audio.
    pub idle_timeout_ms: u64,
    /// Longest time for a whole sentence.
    pub timeout_ms: u64,
    /// A failed call is made again only this soon after the first, and only before any audio.
    pub retry_within_ms: u64,
    /// Memory for sentences spoken before; 0 keeps none but the phrases warmed at start.
    pub cache_bytes: usize,
    /// The connections that are kept.
    pub pool: PoolSettings,
}

impl Default for TtsSettings {
    fn default() -> Self {
        Self {
            url: "ws://127.0.0.1:9300/tts".into(),
            more_urls: Vec::new(),
            api_key: Secret::default(),
            model: "tts-1".into(),
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
    /// OpenAI's chat API, or any that is compatible.
    #[default]
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
}

/// The language model: which one, and how long it may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LlmSettings {
    /// `openai` (any compatible base) or `anthropic`.
    pub provider: LlmProvider,
    /// An OpenAI-compatible base with its version path, `http(s)://.../v1`, or Anthropic's,
    /// `https://api.anthropic.com`.
    pub base_url: String,
    /// Name of the model.
    pub model: String,
    /// Sent as a bearer token; empty sends none.
    pub api_key: Secret,
    /// 0.0 to 2.0.
    pub temperature: f64,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Longest wait for a connection, its handshake included.
    pub connect_timeout_ms: u64,
    /// Longest wait for the first words.
    pub first_token_timeout_ms: u64,
    /// Longest wait between two pieces of the answer.
    pub idle_timeout_ms: u64,
    /// Longest time for a whole answer.
    pub timeout_ms: u64,
    /// A failed call is made again only this soon after the first, and only before any words.
    pub retry_within_ms: u64,
    /// What a conversation's prompts begin with is read ahead when a device has told its tools.
    pub read_ahead: bool,
    /// Answers are to end with the tokens that they cost; a base that refuses the question is
    /// found out and asked without.
    pub usage: bool,
    /// Further fields of requests, as the vendor names them; the server's own may not be among
    /// them.
    pub extra: Table,
    /// What a million tokens read cost, in any currency.
    pub price_per_million_input: f64,
    /// What a million tokens written cost.
    pub price_per_million_output: f64,
    /// Models that are asked, in order, where the first fails before its first words.
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
            read_ahead: false,
            usage: true,
            extra: Table::new(),
            price_per_million_input: 0.0,
            price_per_million_output: 0.0,
            fallback: Vec::new(),
        }
    }
}

/// A language model behind the first. What is left out is as for the first, but for the key, the
/// further fields and the prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackSettings {
    /// `openai` (any compatible base) or `anthropic`.
    #[serde(default)]
    pub provider: LlmProvider,
    /// As [`LlmSettings::base_url`].
    pub base_url: String,
    /// Name of the model.
    pub model: String,
    /// Sent as a bearer token; empty sends none.
    #[serde(default)]
    pub api_key: Secret,
    /// The variable that holds the key; empty is none.
    #[serde(default)]
    pub api_key_env: String,
    /// Longest wait for a connection, its handshake included.
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
    /// A failed call is made again only this soon after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_within_ms: Option<u64>,
    /// Answers are to end with the tokens that they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<bool>,
    /// Further fields of requests to this model.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub extra: Table,
    /// What a million tokens read cost, in the currency of the first.
    #[serde(default)]
    pub price_per_million_input: f64,
    /// What a million tokens written cost.
    #[serde(default)]
    pub price_per_million_output: f64,
}

impl FallbackSettings {
    /// The settings of this model alone.
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
            read_ahead: false,
            usage: self.usage.unwrap_or(first.usage),
            extra: self.extra.clone(),
            price_per_million_input: self.price_per_million_input,
            price_per_million_output: self.price_per_million_output,
            fallback: Vec::new(),
        }
    }
}

/// How many connections to a WebSocket provider there may be, and how idle ones are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSettings {
    /// Most connections in use at once; one more waits, as long as for a connection.
    pub max_connections: usize,
    /// Most connections kept open unused.
    pub max_idle: usize,
    /// An unused connection is closed after this time.
    pub idle_for_ms: u64,
    /// An unused connection is pinged this often, and dropped if nothing was heard between two
    /// pings.
    pub ping_every_ms: u64,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self { max_connections: 64, max_idle: 8, idle_for_ms: 120_000, ping_every_ms: 15_000 }
    }
}

/// The `Duration` of a setting in milliseconds.
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
