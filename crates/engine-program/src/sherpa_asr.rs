//! Whisper through sherpa-onnx, with guards: silence gives no text, long audio is split at its
//! pauses.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hearken_base::language::is_han;
use hearken_engines::speech::engine::wave::{loudest, to_float};
use hearken_engines::speech::engine::{EngineError, Recognizer};
use hearken_engines::speech::text::cleanup::tidy;
use hearken_engines::speech::text::script::Language;
use sherpa_onnx::{OfflineRecognizer, OfflineRecognizerConfig, VoiceActivityDetector};
use tokio_util::sync::CancellationToken;

use crate::sherpa_vad::{Silero, Tuning, segments};

const RATE_HZ: usize = 16_000;
/// Maximum audio of one run, in samples. Whisper accepts at most 30 s; this leaves room for the
/// padding.
const PIECE: usize = 27 * RATE_HZ;
/// Silence retained around speech, in samples.
const MARGIN: usize = RATE_HZ * 3 / 10;
/// Zeros after the audio, in samples: sherpa-onnx limits the text to six tokens per second of
/// audio, and Chinese needs more.
const PADDING: usize = RATE_HZ;
/// Silence threshold as root mean square (-56 dB): audio whose loudest moment is below it is not
/// speech.
const SILENT: f64 = 0.0015;

/// Whisper recogniser.
pub(super) struct Whisper {
    auto: OfflineRecognizer,
    /// Shared detector, used by one caller at a time, because a detector has state. It takes under
    /// 1 % of the audio's length.
    detector: Mutex<VoiceActivityDetector>,
}

impl Whisper {
    pub(super) fn load(folder: &Path, vad: &Silero, threads: usize) -> Result<Self, EngineError> {
        let file = |name: &str| {
            let path = folder.join(name);
            if path.is_file() {
                Ok(Some(path.display().to_string()))
            } else {
                Err(EngineError::Model { path })
            }
        };
        let mut config = OfflineRecognizerConfig::default();
        config.model_config.whisper.encoder = file("encoder.int8.onnx")?;
        config.model_config.whisper.decoder = file("decoder.int8.onnx")?;
        config.model_config.whisper.language = Some(String::new());
        config.model_config.whisper.task = Some("transcribe".into());
        // Frames of silence after the features: with fewer, the decoder loops.
        config.model_config.whisper.tail_paddings = 600;
        config.model_config.tokens = file("tokens.txt")?;
        config.model_config.num_threads = i32::try_from(threads.clamp(1, 4)).unwrap_or(1);
        config.model_config.provider = Some("cpu".into());
        let failed = || EngineError::Model { path: folder.to_owned() };
        let auto = OfflineRecognizer::create(&config).ok_or_else(failed)?;
        let tuning = Tuning { threshold: 0.3, min_silence_s: 0.25, max_speech_s: 20.0 };
        Ok(Self { auto, detector: Mutex::new(vad.create(tuning)?) })
    }

    fn decode(&self, samples: &[f32]) -> Result<String, EngineError> {
        let mut padded = Vec::with_capacity(samples.len() + PADDING);
        padded.extend_from_slice(samples);
        padded.resize(samples.len() + PADDING, 0.0);
        let stream = self.auto.create_stream();
        stream.accept_waveform(RATE_HZ as i32, &padded);
        self.auto.decode(&stream);
        let reason = || "no result".to_owned();
        let result = stream
            .get_result()
            .ok_or_else(|| EngineError::Failed { engine: "whisper", reason: reason() })?;
        Ok(tidy(&result.text))
    }
}

impl Recognizer for Whisper {
    fn recognize(
        &self,
        samples: &[i16],
        _language: Option<Language>,
        stop: &CancellationToken,
    ) -> Result<String, EngineError> {
        if loudest(samples) < SILENT {
            return Ok(String::new());
        }
        let samples = to_float(samples);
        let speech = {
            let detector = self.detector.lock().unwrap_or_else(PoisonError::into_inner);
            segments(&detector, &samples)
        };
        let mut texts = Vec::new();
        for (from, to) in pieces(&speech, samples.len()) {
            if stop.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
            texts.push(self.decode(&samples[from..to])?);
        }
        Ok(join(&texts))
    }
}

/// Groups neighbouring segments into pieces of at most the model's maximum length.
fn pieces(speech: &[(usize, usize)], total: usize) -> Vec<(usize, usize)> {
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for (from, to) in speech {
        let from = from.saturating_sub(MARGIN);
        let to = (to + MARGIN).min(total);
        match pieces.last_mut() {
            Some(last) if to - last.0 <= PIECE => last.1 = to,
            _ => pieces.push((from.max(pieces.last().map_or(0, |p| p.1)), to)),
        }
    }
    pieces.retain(|(from, to)| to > from);
    pieces
}

/// Joins the texts of consecutive pieces, without a space between Chinese characters.
fn join(texts: &[String]) -> String {
    let mut whole = String::new();
    for text in texts.iter().filter(|t| !t.is_empty()) {
        let latin = whole.chars().last().is_some_and(|c| !is_han(c) && c.is_ascii());
        if latin || whole.chars().last().is_some() && text.starts_with(|c: char| c.is_ascii()) {
            whole.push(' ');
        }
        whole.push_str(text);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_audio_is_split_at_pauses() {
        let s = RATE_HZ;
        assert_eq!(pieces(&[], 50 * s), []);
        assert_eq!(pieces(&[(s, 2 * s), (3 * s, 4 * s)], 5 * s), [(s - MARGIN, 4 * s + MARGIN)]);
        let long = pieces(&[(0, 20 * s), (21 * s, 30 * s), (30 * s, 44 * s)], 44 * s);
        assert_eq!(long, [(0, 20 * s + MARGIN), (21 * s - MARGIN, 44 * s)]);
    }

    #[test]
    fn pieces_are_joined_with_spaces_only_between_words() {
        let join =
            |texts: &[&str]| join(&texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        assert_eq!(join(&["One.", "", "Two."]), "One. Two.");
        assert_eq!(join(&["你好", "世界"]), "你好世界");
    }
}
