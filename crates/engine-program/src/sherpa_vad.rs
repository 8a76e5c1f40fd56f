//! Silero's voice activity detector through sherpa-onnx.

use std::path::{Path, PathBuf};

use sherpa_onnx::{SileroVadModelConfig, VadModelConfig, VoiceActivityDetector};

use hearken_engines::speech::engine::wave::{to_float, to_i16};
use hearken_engines::speech::engine::{Detected, DetectorSource, EngineError, SpeechDetector};

/// Samples per step of the model at 16 kHz.
const WINDOW: usize = 512;

/// Factory of detectors over one model file.
pub(super) struct Silero {
    model: PathBuf,
}

/// Sensitivity of a detector.
#[derive(Clone, Copy)]
pub(super) struct Tuning {
    pub(crate) threshold: f32,
    pub(crate) min_silence_s: f32,
    pub(crate) max_speech_s: f32,
}

impl Silero {
    pub(super) fn new(folder: &Path) -> Self {
        Self { model: folder.join("silero_vad.onnx") }
    }

    pub(super) fn create(&self, tuning: Tuning) -> Result<VoiceActivityDetector, EngineError> {
        let config = VadModelConfig {
            silero_vad: SileroVadModelConfig {
                model: Some(self.model.display().to_string()),
                threshold: tuning.threshold,
                min_silence_duration: tuning.min_silence_s,
                min_speech_duration: 0.1,
                window_size: WINDOW as i32,
                max_speech_duration: tuning.max_speech_s,
            },
            sample_rate: 16_000,
            num_threads: 1,
            provider: Some("cpu".into()),
            ..VadModelConfig::default()
        };
        if !self.model.is_file() {
            return Err(EngineError::Model { path: self.model.clone() });
        }
        VoiceActivityDetector::create(&config, tuning.max_speech_s + 10.0)
            .ok_or_else(|| EngineError::Model { path: self.model.clone() })
    }
}

impl DetectorSource for Silero {
    fn open(&self) -> Result<Box<dyn SpeechDetector>, EngineError> {
        let tuning = Tuning { threshold: 0.5, min_silence_s: 0.5, max_speech_s: 25.0 };
        let detector = self.create(tuning)?;
        Ok(Box::new(Stream { detector, left: Vec::new(), speaking: false }))
    }
}

struct Stream {
    detector: VoiceActivityDetector,
    left: Vec<f32>,
    speaking: bool,
}

impl SpeechDetector for Stream {
    fn push(&mut self, samples: &[i16]) -> Vec<Detected> {
        let mut found = Vec::new();
        self.left.extend(to_float(samples));
        let whole = self.left.len() / WINDOW * WINDOW;
        let windows: Vec<f32> = self.left.drain(..whole).collect();
        for window in windows.chunks(WINDOW) {
            self.detector.accept_waveform(window);
            let segment = self.detector.front().map(|s| to_i16(s.samples()));
            let started = self.detector.detected() || segment.is_some();
            if started && !self.speaking {
                self.speaking = true;
                found.push(Detected::Started);
            }
            if let Some(segment) = segment {
                self.detector.pop();
                self.speaking = false;
                found.push(Detected::Ended(segment));
            }
        }
        found
    }

    fn reset(&mut self) {
        self.detector.reset();
        self.detector.clear();
        self.left.clear();
        self.speaking = false;
    }
}

/// Returns the segments of speech in a whole recording, as start (inclusive) and end (exclusive),
/// in samples.
pub(super) fn segments(detector: &VoiceActivityDetector, samples: &[f32]) -> Vec<(usize, usize)> {
    detector.reset();
    detector.clear();
    let mut found = Vec::new();
    let mut take = || {
        while let Some(segment) = detector.front() {
            let from = usize::try_from(segment.start()).unwrap_or(0);
            found.push((from, from + segment.samples().len()));
            detector.pop();
        }
    };
    for window in samples.chunks_exact(WINDOW) {
        detector.accept_waveform(window);
        take();
    }
    detector.flush();
    take();
    found
}
