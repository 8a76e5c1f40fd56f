//! Embedded engines that run beside the server, if the configuration refers to their addresses; and
//! the models inside it: turn detector and speaker embedder. Not for running them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_base::programs;
use hearken_engines::models::{self, Catalogue};
use hearken_engines::supervise::Engine;
use hearken_ports::{SpeakerEmbedder, TurnDetector};
use url::Url;

use crate::config::env::{PREFIX, models_dir};
use crate::config::{Config, LogFormat, ProcessEnv};

/// Models that the speech engine loads, by their names in the catalogue.
const ASR_MODELS: [&str; 2] = ["whisper-base", "silero-vad"];
const TTS_MODELS: [&str; 2] = ["piper-en-joe", "kokoro-zh"];

/// Folder for the language model's prompt cache, in the data folder.
const PROMPTS: &str = "prompts";
/// Maximum time for an engine to answer its health check. The check runs on its own thread and
/// competes for the CPU only with the engine's work.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// Returns the engines that this configuration needs, with models from `models_dir`.
///
/// # Errors
/// A required engine is not part of this build, or its models are missing.
pub fn needed(config: &Config, models_dir: &Path) -> anyhow::Result<Vec<Engine>> {
    let e = &config.embedded;
    if !e.enabled {
        return Ok(Vec::new());
    }
    let asr = points_at_engine(&config.asr.url, &config.asr.more_urls, e.asr_listen);
    let tts = points_at_engine(&config.tts.url, &config.tts.more_urls, e.tts_listen);
    let llm = uses_embedded_llm(config) || falls_back_to_embedded(config);
    let env = log_env(config);
    let mut engines = Vec::new();
    if asr || tts {
        let program = required("speech engine", "ASR_URL and TTS_URL")?;
        let wanted = [(asr, ASR_MODELS), (tts, TTS_MODELS)];
        let names = wanted.iter().filter(|(on, _)| *on).flat_map(|(_, names)| names);
        require_models(models_dir, names.copied())?;
        let mut args = base_args("speech", models_dir);
        if asr {
            push(&mut args, "--asr-listen", e.asr_listen);
            push(&mut args, "--asr-page", e.asr_page);
        } else {
            args.push("--no-asr".into());
        }
        if tts {
            push(&mut args, "--tts-listen", e.tts_listen);
            push(&mut args, "--tts-page", e.tts_page);
        } else {
            args.push("--no-tts".into());
        }
        let page = if asr { e.asr_page } else { e.tts_page };
        let health_url = format!("http://{page}/healthz");
        engines.push(Engine {
            name: "speech",
            program,
            args,
            env: env.clone(),
            health_url,
            answers_within: ANSWERS_WITHIN,
        });
    }
    if llm {
        let program = required("language model engine", "LLM_BASE_URL")?;
        if !is_file(&e.llm_model) {
            require_models(models_dir, [e.llm_model.as_str()])?;
        }
        let mut args = base_args("llm", models_dir);
        push(&mut args, "--listen", e.llm_listen);
        push(&mut args, "--model", &e.llm_model);
        args.extend(["--prompt-cache".into(), config.server.data_dir.join(PROMPTS).into()]);
        let health_url = format!("http://{}/healthz", e.llm_listen);
        let answers_within = ANSWERS_WITHIN;
        engines.push(Engine { name: "llm", program, args, env, health_url, answers_within });
    }
    Ok(engines)
}

/// Returns the environment variables that give engines the server's log format and level.
pub fn log_env(config: &Config) -> Vec<(String, String)> {
    let format = match config.log.format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    let of = |key: &str, value: &str| (format!("{PREFIX}LOG__{key}"), value.to_owned());
    vec![of("LEVEL", &config.log.level), of("FORMAT", format)]
}

fn base_args(command: &str, models_dir: &Path) -> Vec<OsString> {
    vec![command.into(), "--with-parent".into(), "--models".into(), models_dir.into()]
}

/// Checks the names of all models in the catalogue. Starts nothing, and needs no files.
///
/// # Errors
/// The catalogue does not contain a model.
pub fn check_models(config: &Config) -> anyhow::Result<()> {
    let catalogue = Catalogue::built_in()?;
    let llm = if uses_embedded_llm(config) || falls_back_to_embedded(config) {
        config.embedded.llm_model.as_str()
    } else {
        ""
    };
    for (key, name) in [
        ("turn_detection.model", config.turn_detection.model.as_str()),
        ("speakers.model", config.speakers.model.as_str()),
        ("embedded.llm_model", llm),
    ] {
        if !name.is_empty() && !is_file(name) {
            catalogue.model(name).context(key)?;
        }
    }
    Ok(())
}

/// Returns the configured turn detector; `None` if none is configured or its model is missing.
///
/// # Errors
/// The catalogue does not contain the model, or no thread can be started.
pub fn turn_detector(config: &Config) -> anyhow::Result<Option<Arc<dyn TurnDetector>>> {
    let settings = &config.turn_detection;
    let without = "silence alone ends a turn";
    let Some(file) = model_file(config, "turn_detection.model", &settings.model, without)? else {
        return Ok(None);
    };
    Ok(Some(Arc::new(hearken_turn_detector::Worker::start(file, settings.cpu_percent)?)))
}

/// Returns the configured speaker embedder; `None` if none is configured or its model is missing.
///
/// # Errors
/// The catalogue does not contain the model, or no thread can be started.
pub fn speaker_embedder(config: &Config) -> anyhow::Result<Option<Arc<dyn SpeakerEmbedder>>> {
    let settings = &config.speakers;
    let without = "people are not recognised by voice";
    let Some(file) = model_file(config, "speakers.model", &settings.model, without)? else {
        return Ok(None);
    };
    Ok(Some(Arc::new(hearken_speaker_embedder::Worker::start(file, settings.cpu_percent)?)))
}

/// Returns the file of the model that this key names and the server itself loads. Returns `None`
/// without a name, or if the model is missing; the log then states the consequence.
fn model_file(
    config: &Config,
    key: &'static str,
    name: &str,
    without: &str,
) -> anyhow::Result<Option<PathBuf>> {
    if name.is_empty() {
        return Ok(None);
    }
    let models_dir = models_dir(&config.embedded.models_dir, &ProcessEnv);
    let catalogue = Catalogue::built_in()?;
    let model = catalogue.model(name).context(key)?;
    if models::is_ready(&models_dir, model) {
        return Ok(Some(models::folder(&models_dir, model).join("model.onnx")));
    }
    let folder = models_dir.display();
    let name = &model.name;
    tracing::info!(
        "{without}: the model {name} is not in {folder}; get it with `hearken models fetch {name}`"
    );
    Ok(None)
}

fn push(args: &mut Vec<OsString>, name: &str, value: impl ToString) {
    args.push(name.into());
    args.push(value.to_string().into());
}

/// Name of the program with the engines.
const PROGRAM: &str = "hearken-engines";

/// Returns the path of the program with the engines: next to the running one, else the first on `PATH`.
pub fn program() -> Option<PathBuf> {
    programs::find(PROGRAM)
}

fn required(what: &str, variables: &str) -> anyhow::Result<PathBuf> {
    program().with_context(|| {
        format!(
            "the {what} needs the program {PROGRAM}, which is neither beside this one nor on PATH: build both with \
             `scripts/engines`, or point {variables} at services of your own, or set embedded.enabled = false"
        )
    })
}

fn require_models<'a>(
    models_dir: &Path,
    names: impl IntoIterator<Item = &'a str>,
) -> anyhow::Result<()> {
    let catalogue = Catalogue::built_in()?;
    for name in names {
        let model = catalogue.model(name)?;
        if !models::is_ready(models_dir, model) {
            let folder = models_dir.display();
            bail!("model {name} is not in {folder}: run `hearken models fetch {name}`");
        }
    }
    Ok(())
}

/// Returns true if one of a section's URLs points at its embedded engine.
fn points_at_engine(url: &String, more: &[String], address: SocketAddr) -> bool {
    std::iter::once(url).chain(more).any(|url| points_at(url, address))
}

/// Returns true if this URL points at an embedded engine that the server starts.
pub fn is_embedded(config: &Config, url: &str) -> bool {
    let e = &config.embedded;
    let all = [e.asr_listen, e.tts_listen, e.llm_listen];
    e.enabled && all.into_iter().any(|address| points_at(url, address))
}

/// Returns true if the embedded language model is the first choice.
pub fn uses_embedded_llm(config: &Config) -> bool {
    config.embedded.enabled && points_at(&config.llm.base_url, config.embedded.llm_listen)
}

/// Returns true if this names a file in place of a model of the catalogue.
fn is_file(model: &str) -> bool {
    Path::new(model).extension().is_some_and(|extension| extension == "gguf")
}

/// Returns true if the language model is the small one of the catalogue, and no file of the owner.
pub fn uses_small_llm(config: &Config) -> bool {
    uses_embedded_llm(config) && !is_file(&config.embedded.llm_model)
}

/// Returns true if the embedded language model is a fallback of another.
fn falls_back_to_embedded(config: &Config) -> bool {
    let here = |url: &str| points_at(url, config.embedded.llm_listen);
    config.embedded.enabled && config.llm.fallback.iter().any(|model| here(&model.base_url))
}

/// Returns true if the URL points at this loopback address.
fn points_at(url: &str, address: SocketAddr) -> bool {
    let Ok(url) = Url::parse(url.trim_start_matches("funasr+")) else { return false };
    let host = url.host_str().unwrap_or_default();
    let same_host = host == address.ip().to_string()
        || (address.ip().is_loopback() && matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
    same_host && url.port_or_known_default() == Some(address.port())
}

#[cfg(test)]
mod tests {
    use hearken_providers::LlmSettings;

    use super::*;

    #[test]
    fn an_engine_is_needed_only_if_a_url_points_at_its_address() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9200));
        for url in ["ws://127.0.0.1:9200", "ws://localhost:9200/", "ws://127.0.0.1:9200/asr"] {
            assert!(points_at(url, address), "{url}");
        }
        for url in ["ws://127.0.0.1:9201", "wss://asr.example.com:9200", "nonsense", ""] {
            assert!(!points_at(url, address), "{url}");
        }
    }

    #[test]
    fn the_turn_detector_is_the_configured_one_if_its_model_exists() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.embedded.models_dir = folder.path().to_owned();
        assert!(turn_detector(&config).unwrap().is_none(), "it was not fetched");
        config.turn_detection.model.clear();
        assert!(turn_detector(&config).unwrap().is_none());
        config.turn_detection.model = "smart-tern".into();
        let Err(error) = turn_detector(&config) else { panic!("there is no such model") };
        let error = format!("{error:#}");
        for part in ["turn_detection.model", "smart-tern", "did you mean \"smart-turn\"?"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn no_engine_is_needed_if_all_urls_point_elsewhere() {
        let mut config = Config::default();
        config.asr.url = "ws://10.0.0.1:9200".into();
        config.tts.url = "https://api.example.com/v1".into();
        config.llm.base_url = "https://api.example.com/v1".into();
        config.asr.more_urls = vec!["ws://10.0.0.2:9200".into(), "ws://127.0.0.1:9202".into()];
        assert!(needed(&config, Path::new("/none")).unwrap().is_empty());
        let behind = "[[fallback]]\nbase_url = 'http://localhost:9401/v1'\nmodel = 'local'";
        config.llm.fallback = toml::from_str::<LlmSettings>(behind).unwrap().fallback;
        let lines = needed(&config, Path::new("/none")).unwrap_err().to_string();
        assert!(lines.contains("language model") || lines.contains("models fetch"), "{lines}");
        config.llm.fallback.clear();
        config.asr.more_urls.push("ws://127.0.0.1:9200".into());
        let lines = needed(&config, Path::new("/none")).unwrap_err().to_string();
        assert!(lines.contains("speech engine") || lines.contains("models fetch"), "{lines}");
    }
}
