//! Announcements of vendors about their models: end dates, and the default model of each service.
//! Not for the capabilities of a model.

use jiff::civil::{Date, date};
use serde::Serialize;
use url::Url;
use utoipa::ToSchema;

use crate::settings::{AsrSettings, LlmSettings, TtsSettings};

/// Host of OpenAI's API.
const OPENAI: &str = "api.openai.com";

/// Models with an announced end, and the replacement that the vendor names; empty if it names none.
// Source: the docstrings of openai 3.57.0 for Python ("announced shutdown date").
const ENDS: [(&str, Date, &str); 14] = [
    ("whisper-1", date(2027, 2, 26), "gpt-transcribe"),
    ("gpt-4o-transcribe", date(2027, 2, 26), "gpt-transcribe"),
    ("gpt-4o-mini-transcribe", date(2027, 2, 26), "gpt-transcribe"),
    ("gpt-4o-transcribe-diarize", date(2027, 2, 26), "gpt-transcribe"),
    ("tts-1", date(2027, 1, 6), ""),
    ("tts-1-hd", date(2027, 1, 6), ""),
    ("gpt-4o-mini-tts", date(2027, 1, 6), ""),
    ("gpt-5", date(2026, 12, 11), ""),
    ("gpt-5-mini", date(2026, 12, 11), ""),
    ("gpt-5-nano", date(2026, 12, 11), ""),
    ("gpt-4o", date(2027, 1, 14), ""),
    ("gpt-4.1", date(2027, 1, 14), ""),
    ("gpt-4.1-mini", date(2027, 1, 14), ""),
    ("gpt-5.1", date(2027, 4, 1), ""),
];

/// A model in use with an announced end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelEnd {
    /// Key of the setting that names it.
    pub key: &'static str,
    /// Name of the model.
    pub model: String,
    /// Day on which it ends.
    #[schema(value_type = String, format = Date)]
    pub ends: Date,
    /// Replacement that the vendor names; empty if it names none.
    pub instead: &'static str,
}

fn is_openai(url: &Url) -> bool {
    url.host_str() == Some(OPENAI)
}

/// Returns the model of a recogniser with an OpenAI-compatible API.
pub(super) fn asr_model<'a>(url: &Url, settings: &'a AsrSettings) -> &'a str {
    match settings.model.as_str() {
        "" if is_openai(url) => "gpt-transcribe",
        // Most servers of this kind accept this as the name of their model.
        "" => "whisper-1",
        model => model,
    }
}

/// Returns the model of a synthesiser with an OpenAI-compatible API.
pub(super) fn tts_model(settings: &TtsSettings) -> &str {
    if settings.model.is_empty() { "tts-1" } else { &settings.model }
}

/// Reports whether a recogniser accepts `keywords[]` and `languages[]`.
pub(super) fn takes_keywords(model: &str) -> bool {
    model.starts_with("gpt-transcribe")
}

fn end_of(key: &'static str, url: &str, model: impl Fn(&Url) -> String) -> Option<ModelEnd> {
    let url = Url::parse(url.trim()).ok().filter(is_openai)?;
    let model = model(&url);
    // A name with a date is a version of the same model.
    let is_version = |name: &str| {
        let rest = model.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("-20"))
    };
    let (_, ends, instead) = ENDS.into_iter().find(|(name, ..)| is_version(name))?;
    Some(ModelEnd { key, model, ends, instead })
}

/// Returns the models in use with an announced end, by their settings.
pub fn model_ends(asr: &AsrSettings, llm: &LlmSettings, tts: &TtsSettings) -> Vec<ModelEnd> {
    let asr_ends = [&asr.url].into_iter().chain(&asr.more_urls);
    let asr_ends =
        asr_ends.filter_map(|url| end_of("asr.model", url, |url| asr_model(url, asr).to_owned()));
    let tts_ends = [&tts.url].into_iter().chain(&tts.more_urls);
    let tts_ends =
        tts_ends.filter_map(|url| end_of("tts.model", url, |_| tts_model(tts).to_owned()));
    let mut models = vec![end_of("llm.model", &llm.base_url, |_| llm.model.clone())];
    models.extend(llm.fallback.iter().map(|fallback| {
        let settings = fallback.settings(llm);
        end_of("llm.fallback", &settings.base_url, |_| settings.model.clone())
    }));
    let mut all: Vec<ModelEnd> =
        asr_ends.chain(models.into_iter().flatten()).chain(tts_ends).collect();
    all.dedup();
    all
}

impl ModelEnd {
    /// Logs a warning, given the current day.
    pub fn warn(&self, today: Date) {
        let Self { key, model, ends, instead } = self;
        let model = model.as_str();
        let remedy = match *instead {
            "" => "set another model, or another service".to_owned(),
            instead => format!("set `{key}` to {instead}"),
        };
        if *ends < today {
            tracing::warn!(key, model, %ends, "the vendor has ended this model: {remedy}");
        } else {
            tracing::warn!(key, model, %ends, "the vendor ends this model: {remedy}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_OPENAI: &str = "https://api.openai.com/v1";

    #[test]
    fn announced_ends_apply_only_at_the_vendors_address() {
        let ends = |url: &str, asr_model: &str, tts_model: &str, llm_model: &str| {
            let asr = AsrSettings { url: url.into(), model: asr_model.into(), ..<_>::default() };
            let tts = TtsSettings { url: url.into(), model: tts_model.into(), ..<_>::default() };
            let llm =
                LlmSettings { base_url: url.into(), model: llm_model.into(), ..<_>::default() };
            let all = model_ends(&asr, &llm, &tts).into_iter();
            all.map(|end| format!("{} {} {}", end.model, end.ends, end.instead)).collect::<Vec<_>>()
        };
        assert_eq!(ends("http://localhost:8000/v1", "whisper-1", "tts-1", "gpt-4o"), [""; 0]);
        assert_eq!(
            ends(AT_OPENAI, "whisper-1", "tts-1", "gpt-4o-2024-08-06"),
            [
                "whisper-1 2027-02-26 gpt-transcribe",
                "gpt-4o-2024-08-06 2027-01-14 ",
                "tts-1 2027-01-06 ",
            ]
        );
        assert_eq!(ends(AT_OPENAI, "", "another", "gpt-5.4"), [""; 0], "no default of ours ends");
    }

    #[test]
    fn a_recogniser_without_a_model_uses_the_default_of_its_address() {
        let of = |url: &str, model: &str| {
            let settings = AsrSettings { model: model.into(), ..AsrSettings::default() };
            asr_model(&Url::parse(url).unwrap(), &settings).to_owned()
        };
        assert_eq!(of(AT_OPENAI, ""), "gpt-transcribe");
        assert_eq!(of("http://localhost/v1", ""), "whisper-1");
        assert_eq!(of(AT_OPENAI, "mine"), "mine");
    }
}
