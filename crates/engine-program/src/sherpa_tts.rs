//! Voices through sherpa-onnx: Piper for English (phonemes from espeak-ng), Kokoro for Chinese.

use std::path::Path;
use std::sync::Arc;

use sherpa_onnx::{GenerationConfig, OfflineTts, OfflineTtsConfig};
use tokio_util::sync::CancellationToken;

use hearken_engines::speech::engine::wave::to_i16;
use hearken_engines::speech::engine::{EngineError, Voice};

use crate::espeak;

/// Name of the natural Chinese voice: in the models folder, in logs and among the voices' speeds.
pub(super) const KOKORO_NAME: &str = "kokoro-zh";
/// Names and numbers of the Kokoro speakers that speak Chinese, in the order of `voices.bin`.
pub(super) const KOKORO_SPEAKERS: [(&str, i32); 2] = [("zf_xiaoxiao", 0), ("zm_yunxi", 1)];

/// English voice: Piper.
pub(super) struct Piper {
    tts: OfflineTts,
}

/// Chinese voice: Kokoro. Speakers share one model.
pub(super) struct Kokoro {
    tts: Arc<OfflineTts>,
    speaker: i32,
}

fn file(folder: &Path, name: &str) -> Result<Option<String>, EngineError> {
    let path = folder.join(name);
    if path.is_file() {
        Ok(Some(path.display().to_string()))
    } else {
        Err(EngineError::Model { path })
    }
}

fn create(
    mut config: OfflineTtsConfig,
    folder: &Path,
    threads: usize,
) -> Result<OfflineTts, EngineError> {
    config.model.num_threads = i32::try_from(threads.clamp(1, 16)).unwrap_or(1);
    config.model.provider = Some("cpu".into());
    config.max_num_sentences = 1;
    config.silence_scale = 0.2;
    OfflineTts::create(&config).ok_or_else(|| EngineError::Model { path: folder.to_owned() })
}

impl Piper {
    pub(super) fn load(folder: &Path, threads: usize) -> Result<Self, EngineError> {
        let mut config = OfflineTtsConfig::default();
        config.model.vits.model = file(folder, "model.onnx")?;
        config.model.vits.tokens = file(folder, "tokens.txt")?;
        Ok(Self { tts: create(config, folder, threads)? })
    }
}

impl Kokoro {
    /// Loads one voice for each speaker of Chinese.
    pub(super) fn load(folder: &Path, threads: usize) -> Result<Vec<Self>, EngineError> {
        let mut config = OfflineTtsConfig::default();
        config.model.kokoro.model = file(folder, "model.onnx")?;
        config.model.kokoro.voices = file(folder, "voices.bin")?;
        config.model.kokoro.tokens = file(folder, "tokens.txt")?;
        config.model.kokoro.lexicon = file(folder, "lexicon-zh.txt")?;
        let tts = Arc::new(create(config, folder, threads)?);
        let speakers = KOKORO_SPEAKERS.iter();
        Ok(speakers.map(|(_, speaker)| Self { tts: Arc::clone(&tts), speaker: *speaker }).collect())
    }
}

fn generate(
    tts: &OfflineTts,
    text: &str,
    config: &GenerationConfig,
    engine: &'static str,
    sink: &mut dyn FnMut(&[i16]),
) -> Result<(), EngineError> {
    // A zero byte would end the text early in C.
    let text = text.replace('\0', " ");
    let audio = tts.generate_with_config(&text, config, None::<fn(&[f32], f32) -> bool>);
    let reason = || EngineError::Failed { engine, reason: "no audio for this text".into() };
    let audio = audio.ok_or_else(reason)?;
    if audio.samples().is_empty() {
        return Err(reason());
    }
    sink(&to_i16(audio.samples()));
    Ok(())
}

fn rate_of(tts: &OfflineTts) -> u32 {
    u32::try_from(tts.sample_rate()).unwrap_or(24_000)
}

impl Voice for Piper {
    fn name(&self) -> &str {
        "piper-en"
    }

    fn sample_rate_hz(&self) -> u32 {
        rate_of(&self.tts)
    }

    fn speak(
        &self,
        clause: &str,
        speed: f32,
        stop: &CancellationToken,
        sink: &mut dyn FnMut(&[i16]),
    ) -> Result<(), EngineError> {
        let ipa = espeak::phonemes(clause)?;
        if stop.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        if ipa.is_empty() {
            return Ok(());
        }
        let codepoints = ipa.chars().map(|c| c as i32).collect();
        let config = GenerationConfig {
            speed,
            phoneme_codepoints: Some(vec![codepoints]),
            ..GenerationConfig::default()
        };
        generate(&self.tts, clause, &config, "piper", sink)
    }
}

impl Voice for Kokoro {
    fn name(&self) -> &str {
        KOKORO_NAME
    }

    fn sample_rate_hz(&self) -> u32 {
        rate_of(&self.tts)
    }

    fn speak(
        &self,
        clause: &str,
        speed: f32,
        stop: &CancellationToken,
        sink: &mut dyn FnMut(&[i16]),
    ) -> Result<(), EngineError> {
        if stop.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        let config = GenerationConfig { speed, sid: self.speaker, ..GenerationConfig::default() };
        generate(&self.tts, clause, &config, "kokoro", sink)
    }
}
