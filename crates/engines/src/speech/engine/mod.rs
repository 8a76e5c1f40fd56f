//! Traits of the engines that the speech service needs: speech recognition, voice activity
//! detection, speech synthesis. The sherpa-onnx implementations are in
//! the program `hearken-engines`; nothing here knows sockets.

pub mod wave;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::text::script::Language;

/// Error of an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A model does not load.
    #[error("{path}: the model does not load; run `hearken models fetch`, or see the log above")]
    Model {
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// The engine ran and failed.
    #[error("{engine} failed: {reason}")]
    Failed {
        /// Name of the engine.
        engine: &'static str,
        /// Error message of the engine.
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
    /// Returns the words in `samples` (16 kHz, mono, one utterance); empty if there is no speech.
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

/// Event of a voice activity detector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detected {
    /// Start of speech.
    Started,
    /// End of speech, with its samples, and a little of the audio before it.
    Ended(Vec<i16>),
}

/// Voice activity detector for a continuous stream of 16 kHz mono samples. Cheap enough to run on
/// the socket's thread (under 1 % of real time).
pub trait SpeechDetector: Send {
    /// Adds audio. Returns the events that it completes.
    fn push(&mut self, samples: &[i16]) -> Vec<Detected>;
    /// Resets the detector to its initial state.
    fn reset(&mut self);
}

/// Factory of one detector per stream. Blocking: loads a small model.
pub trait DetectorSource: Send + Sync {
    /// Returns a new detector.
    ///
    /// # Errors
    /// The model does not load.
    fn open(&self) -> Result<Box<dyn SpeechDetector>, EngineError>;
}

/// Text to speech. Blocking: runs on the pool.
pub trait Voice: Send + Sync {
    /// Name under which its speed is stored.
    fn name(&self) -> &str;
    /// Sample rate of the output, in samples per second.
    fn sample_rate_hz(&self) -> u32;
    /// Speaks one clause at `speed` (1.0 is normal). Passes audio to `sink` as soon as it is
    /// produced.
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

/// Voice that clients select: one engine for each language.
#[derive(Clone)]
pub struct VoicePair {
    /// Id of the voice: the `voice_id` of requests.
    pub id: Arc<str>,
    /// Engine for Chinese runs.
    pub chinese: Arc<dyn Voice>,
    /// Engine for all other runs.
    pub english: Arc<dyn Voice>,
}

impl VoicePair {
    /// Returns the engine for a language.
    pub fn voice(&self, language: Language) -> &Arc<dyn Voice> {
        match language {
            Language::Chinese => &self.chinese,
            Language::English => &self.english,
        }
    }
}

/// Engines of the recognition service.
#[derive(Clone)]
pub struct RecognitionEngines {
    /// The recogniser.
    pub recognizer: Arc<dyn Recognizer>,
    /// Factory of detectors for streaming mode.
    pub detectors: Arc<dyn DetectorSource>,
}
