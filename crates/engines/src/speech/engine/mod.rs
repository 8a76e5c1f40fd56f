//! What the speech service needs of an engine, as traits: recognise, detect speech, speak. The
//! sherpa-onnx implementations are behind the feature `speech-engine`; nothing here knows sockets.

#[cfg(feature = "speech-engine")]
pub mod espeak;
#[cfg(feature = "speech-engine")]
pub mod load;
#[cfg(feature = "speech-engine")]
mod sherpa_asr;
#[cfg(feature = "speech-engine")]
mod sherpa_tts;
#[cfg(feature = "speech-engine")]
mod sherpa_vad;
pub mod wave;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::text::script::Language;

/// Why an engine gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A model does not load.
    #[error("{path}: the model does not load; run `hearken models fetch`, or see the log above")]
    Model {
        /// The file or folder.
        path: PathBuf,
    },
    /// The engine ran and failed.
    #[error("{engine} failed: {reason}")]
    Failed {
        /// Its name.
        engine: &'static str,
        /// What it said.
        reason: String,
    },
    /// The program that turns words into phonemes is not installed.
    #[error("espeak-ng is not installed; run `apt-get install espeak-ng`")]
    NoEspeak,
    /// The work was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// Speech to text. Blocking: runs on the pool.
pub trait Recognizer: Send + Sync {
    /// The words in `samples` (16 kHz, mono, one utterance); empty where there is no speech.
    ///
    /// # Errors
    /// The engine failed, or `stop` was cancelled.
    fn recognize(
        &self,
        samples: &[i16],
        language: Option<Language>,
        stop: &CancellationToken,
    ) -> Result<String, EngineError>;
}

/// What a detector found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detected {
    /// Speech began.
    Started,
    /// Speech ended; its samples, with a little of what was before.
    Ended(Vec<i16>),
}

/// Finds speech in a running stream of 16 kHz mono samples. Cheap enough to run on the socket's
/// thread (under 1 % of real time).
pub trait SpeechDetector: Send {
    /// Takes some audio; answers what it completes.
    fn push(&mut self, samples: &[i16]) -> Vec<Detected>;
    /// Forgets everything.
    fn reset(&mut self);
}

/// Makes a detector for each stream. Blocking: loads a small model.
pub trait DetectorSource: Send + Sync {
    /// A fresh detector.
    ///
    /// # Errors
    /// The model does not load.
    fn open(&self) -> Result<Box<dyn SpeechDetector>, EngineError>;
}

/// Text to speech. Blocking: runs on the pool.
pub trait Voice: Send + Sync {
    /// Name under which its speed is kept.
    fn name(&self) -> &str;
    /// Samples per second of what it makes.
    fn sample_rate_hz(&self) -> u32;
    /// Speaks one clause at `speed` (1.0 is normal), handing audio to `sink` as it is made.
    ///
    /// # Errors
    /// The engine failed, or `stop` was cancelled.
    fn speak(
        &self,
        clause: &str,
        speed: f32,
        stop: &CancellationToken,
        sink: &mut dyn FnMut(&[i16]),
    ) -> Result<(), EngineError>;
}

/// A voice as clients choose it: one engine for each language.
#[derive(Clone)]
pub struct Speaker {
    /// The `voice_id`.
    pub id: Arc<str>,
    /// Speaks Chinese runs.
    pub chinese: Arc<dyn Voice>,
    /// Speaks everything else.
    pub english: Arc<dyn Voice>,
}

impl Speaker {
    /// The engine for a language.
    pub fn voice(&self, language: Language) -> &Arc<dyn Voice> {
        match language {
            Language::Chinese => &self.chinese,
            Language::English => &self.english,
        }
    }
}

/// What the recognition service runs on.
#[derive(Clone)]
pub struct Hearing {
    /// The recogniser.
    pub recognizer: Arc<dyn Recognizer>,
    /// Detectors for streaming mode.
    pub detectors: Arc<dyn DetectorSource>,
}
