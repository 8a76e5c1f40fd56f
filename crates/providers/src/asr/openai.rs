//! OpenAI's transcription API: `POST {base}/audio/transcriptions` with the whole utterance as a WAV
//! file. Not for streaming: nothing is sent before the end of the utterance.

use std::io::Cursor;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hearken_outbound::{SettingError, http};
use hearken_ports::{
    Asr, AsrStream, BoxError, ProviderError, ProviderErrorKind, Transcript, UtteranceSpec,
};
use hearken_proto::json::{mended, weighed_first};
use reqwest::header::CONTENT_TYPE;
use reqwest::multipart::{Form, Part};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{language, max_samples, transcript};
use crate::service_health::Probe;
use crate::settings::{AsrSettings, ms};
use crate::vendor_models::{asr_model, takes_keywords};

const PROVIDER: &str = "openai-asr";

/// Sample rate of the port's audio.
const SAMPLE_RATE_HZ: u32 = 16_000;

/// Maximum size of a response body, in bytes: far more than the transcript of one utterance needs.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Speech recogniser at an OpenAI-compatible base URL.
#[derive(Debug)]
pub struct OpenAiAsr {
    call: Arc<Call>,
}

/// Data of each request.
#[derive(Debug)]
struct Call {
    client: reqwest::Client,
    /// Base URL without a slash at its end.
    base: String,
    model: String,
    settings: AsrSettings,
}

impl OpenAiAsr {
    /// Creates a client of `base` without connecting yet.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub fn new(base: &Url, settings: AsrSettings) -> Result<Self, SettingError> {
        let client = http::client(base, ms(settings.connect_timeout_ms))
            .map_err(|e| SettingError::client("asr.url", e))?;
        let model = asr_model(base, &settings).to_owned();
        let base = base.as_str().trim_end_matches('/').to_owned();
        Ok(Self { call: Arc::new(Call { client, base, model, settings }) })
    }
}

#[async_trait]
impl Asr for OpenAiAsr {
    async fn open(&self, spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let language = language(&spec, &self.call.settings.language);
        Ok(Box::new(Upload { call: self.call.clone(), language, samples: Vec::new() }))
    }
}

impl Probe for OpenAiAsr {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        let Call { client, base, settings, .. } = &*self.call;
        let within = ms(settings.connect_timeout_ms);
        http::probe(PROVIDER, client, base, &settings.api_key, within).boxed()
    }
}

/// Utterance whose audio is being collected.
struct Upload {
    call: Arc<Call>,
    language: Option<String>,
    samples: Vec<i16>,
}

#[async_trait]
impl AsrStream for Upload {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        let most_ms = self.call.settings.max_utterance_ms;
        if self.samples.len() + pcm.len() > max_samples(most_ms) {
            let why = format!("the utterance is longer than asr.max_utterance_ms ({most_ms})");
            return Err(ProviderError::because(PROVIDER, ProviderErrorKind::BadRequest, why));
        }
        self.samples.extend_from_slice(pcm);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
        if self.samples.is_empty() {
            return Ok(Transcript::default());
        }
        let settings = &self.call.settings;
        let deadline = Instant::now() + ms(settings.result_timeout_ms);
        let url = format!("{}/audio/transcriptions", self.call.base);
        let mut request = self.call.client.post(url).multipart(self.form()?);
        if !settings.api_key.is_empty() {
            request = request.bearer_auth(settings.api_key.expose());
        }
        let response = timeout_at(deadline, request.send())
            .await
            .map_err(|_| http::timed_out(PROVIDER, "no answer within its deadline"))?
            .map_err(|e| http::transport(PROVIDER, e))?;
        if !response.status().is_success() {
            return Err(http::refusal(PROVIDER, response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let body = http::body(PROVIDER, response, MAX_ANSWER_BYTES, deadline).await?;
        words(&String::from_utf8_lossy(&body), &kind).map(|words| transcript(&words)).ok_or_else(
            || {
                let why = "the answer is not JSON with a `text`";
                ProviderError::because(PROVIDER, ProviderErrorKind::Protocol, why)
            },
        )
    }
}

impl Upload {
    fn form(&self) -> Result<Form, ProviderError> {
        let refused =
            |e: BoxError| ProviderError::because(PROVIDER, ProviderErrorKind::BadRequest, e);
        let wav = wav(&self.samples).map_err(|e| refused(e.into()))?;
        let file = Part::bytes(wav)
            .file_name("utterance.wav")
            .mime_str("audio/wav")
            .map_err(|e| refused(e.into()))?;
        let mut form = Form::new()
            .part("file", file)
            .text("model", self.call.model.clone())
            .text("response_format", "json");
        let AsrSettings { keywords, languages, .. } = &self.call.settings;
        if takes_keywords(&self.call.model) {
            for keyword in keywords {
                form = form.text("keywords[]", keyword.clone());
            }
            let own = self.language.iter().filter(|_| languages.is_empty());
            for language in languages.iter().chain(own) {
                form = form.text("languages[]", language.clone());
            }
            return Ok(form);
        }
        if let Some(language) = &self.language {
            form = form.text("language", language.clone());
        }
        if !keywords.is_empty() {
            // Whisper treats the prompt as preceding speech.
            form = form.text("prompt", keywords.join(", "));
        }
        Ok(form)
    }
}

/// Encodes the samples as a WAV file in memory.
fn wav(samples: &[i16]) -> Result<Vec<u8>, hound::Error> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: SAMPLE_RATE_HZ,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = Cursor::new(Vec::with_capacity(44 + samples.len() * 2));
    let mut writer = hound::WavWriter::new(&mut file, spec)?;
    for sample in samples {
        writer.write_sample(*sample)?;
    }
    writer.finalize()?;
    Ok(file.into_inner())
}

/// Returns the words of an answer: those of its JSON, or all of it if it is plain text. Returns
/// none if it is not a transcript, such as an error with status 200.
fn words(body: &str, kind: &str) -> Option<String> {
    let body =
        body.trim_start_matches('\u{feff}').trim_matches(|c: char| c == '\0' || c.is_whitespace());
    let is_plain = kind.starts_with("text/plain") && !body.starts_with('<');
    let is_quoted = body.len() > 1 && body.starts_with('"') && body.ends_with('"');
    if is_plain && !body.starts_with(['{', '[']) && !is_quoted {
        return Some(body.to_owned());
    }
    let told = first_value(body).or_else(|| first_value(&mended(body)?));
    match told {
        Some(told) => words_of(&told),
        // A caption in brackets is not JSON.
        None => (is_plain && body.starts_with('[')).then(|| body.to_owned()),
    }
}

/// Parses the JSON at the beginning. Text after it, such as an extra brace, is ignored.
fn first_value(text: &str) -> Option<Value> {
    weighed_first(text).ok().flatten()
}

/// Returns the words of a parsed answer: a string, an object with a `text`, or a list with one of
/// them. Some servers send a null `text` if no speech was detected.
fn words_of(answer: &Value) -> Option<String> {
    let one = match answer {
        Value::Array(list) => match &list[..] {
            [one] => one,
            _ => return None,
        },
        one => one,
    };
    match one.get("text").unwrap_or(one) {
        Value::String(words) => Some(words.clone()),
        Value::Null if one.is_object() => Some(String::new()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_from_every_form_of_an_answer() {
        for (body, kind, expected) in [
            (r#"{"text":" 开灯"}"#, "application/json", Some(" 开灯")),
            (r#"{"text":null}"#, "application/json", Some("")),
            ("\u{feff}{\"text\":\"开灯\"}", "application/json", Some("开灯")),
            (r#""开灯""#, "application/json", Some("开灯")),
            (r#"[{"text":"开灯"}]"#, "application/json", Some("开灯")),
            ("{\"text\":\"开灯\"}\0", "application/json", Some("开灯")),
            (r#"{"text":"开灯"}}"#, "application/json", Some("开灯")),
            ("{\"text\":\"开灯\"}\n{\"text\":\"\"}", "application/json", Some("开灯")),
            (r#"{"text":"开灯","avg_logprob":NaN}"#, "application/json", Some("开灯")),
            ("开灯\n", "text/plain; charset=utf-8", Some("开灯")),
            ("10", "text/plain", Some("10")),
            ("10", "application/json", None),
            ("", "text/plain", Some("")),
            (r#"{"text":"开灯"}"#, "text/plain", Some("开灯")),
            ("", "application/json", None),
            ("no JSON", "", None),
            ("开灯", "application/json", None),
            ("{}", "application/json", None),
            (r#"{"text":5}"#, "application/json", None),
            (r#"{"error":{"message":"overloaded"}}"#, "application/json", None),
            (r#"[{"text":"a"},{"text":"b"}]"#, "application/json", None),
            ("null", "application/json", None),
            ("<html>502</html>", "text/plain", None),
            (r#"{"text":"#, "text/plain", None),
        ] {
            assert_eq!(words(body, kind).as_deref(), expected, "{body}");
        }
        let surrogate = words(r#"{"text":"ok \ud83d light"}"#, "application/json").unwrap();
        assert!(surrogate.starts_with("ok ") && surrogate.ends_with(" light"), "{surrogate}");
    }
}
