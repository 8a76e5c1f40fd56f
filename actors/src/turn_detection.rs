//! Turn detection: chooses how long a silence must last to end a person's turn, from what the turn detector says of
//! it, from the words where they are known, and from how long this device's users pause. Never a yes or no: at most a
//! shorter or longer window. Not for the detector itself, which is a port, nor for finding the silence.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearken_audio::endpointer::LOOKS;
use hearken_base::language::Language;
use hearken_base::ms;
use hearken_dialogue::SpokenLanguage;
use hearken_dialogue::admission::Admission;
use hearken_ports::TurnDetector;
use hearken_proto::ids::DeviceId;
use serde::{Deserialize, Serialize};

use crate::unfinished::UnfinishedWords;

/// Weight of the newest pause in the mean that is learned.
const NEWEST: f64 = 0.1;
/// Most devices whose pauses are remembered; those of further ones are forgotten when they disconnect.
const MOST_DEVICES: usize = 10_000;

/// Section `[turn_detection]`: when a turn is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TurnDetectionSettings {
    /// Name of the model in the catalogue; empty for silence alone (`hearing.silence_ms`).
    pub model: String,
    /// Silence that ends a turn where the model finds it likely that the person has finished.
    #[serde(rename = "short_ms", with = "ms")]
    pub short: Duration,
    /// Silence that ends a turn where the model is not sure.
    #[serde(rename = "middle_ms", with = "ms")]
    pub middle: Duration,
    /// Silence that ends a turn where the model finds it unlikely.
    #[serde(rename = "long_ms", with = "ms")]
    pub long: Duration,
    /// Share of one core, in percent, that the model may use; beyond it, silence alone decides.
    pub cpu_percent: u32,
    /// Probability from which on it is likely, in Chinese.
    pub likely_zh: f64,
    /// Probability below which it is unlikely, in Chinese.
    pub unlikely_zh: f64,
    /// Probability from which on it is likely, in English and all other languages.
    pub likely_en: f64,
    /// Probability below which it is unlikely, in English and all other languages.
    pub unlikely_en: f64,
    /// Words after which more is sure to be said, in Chinese: where a text ends with them, the silence must be long.
    pub unfinished_zh: Vec<String>,
    /// The same in English and all other languages.
    pub unfinished_en: Vec<String>,
}

impl TurnDetectionSettings {
    /// Returns the words after which more is sure to be said.
    pub fn unfinished_words(&self) -> UnfinishedWords {
        UnfinishedWords::new(&self.unfinished_zh, &self.unfinished_en)
    }
}

impl Default for TurnDetectionSettings {
    fn default() -> Self {
        let list = |words: &str| words.split(',').map(|word| word.trim().to_owned()).collect();
        Self {
            model: "smart-turn".into(),
            short: Duration::from_millis(300),
            middle: Duration::from_millis(700),
            long: Duration::from_millis(1_000),
            cpu_percent: 3,
            likely_zh: 0.985,
            unlikely_zh: 0.3,
            likely_en: 0.983,
            unlikely_en: 0.95,
            unfinished_zh: list(
                "因为, 然后, 所以, 但是, 可是, 不过, 而且, 或者, 如果, 要是, 还有, 比如, 比如说, 以及, 就是说, 呃",
            ),
            unfinished_en: list("and, but, or, because, if, of, to, the, a, an, my, your, um, uh"),
        }
    }
}

/// Mean pauses of the users of each device, kept while the process runs. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LearnedPauses(Arc<Mutex<HashMap<DeviceId, Duration>>>);

impl LearnedPauses {
    fn get(&self, device: &DeviceId) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(device).copied()
    }

    fn set(&self, device: &DeviceId, pause: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST_DEVICES || known.contains_key(device) {
            known.insert(device.clone(), pause);
        }
    }
}

/// Turn detection of one connection.
pub struct TurnDetection {
    /// None where there is no model: silence and words decide.
    detector: Option<Arc<dyn TurnDetector>>,
    settings: TurnDetectionSettings,
    admission: Admission,
    language: SpokenLanguage,
    device: DeviceId,
    learned: LearnedPauses,
    /// Mean of the pauses inside turns.
    pause: Duration,
}

impl TurnDetection {
    /// Creates the turn detection of a connection, which knows the pauses of its device.
    pub fn new(
        detector: Option<Arc<dyn TurnDetector>>,
        settings: TurnDetectionSettings,
        admission: Admission,
        language: SpokenLanguage,
        device: DeviceId,
        learned: LearnedPauses,
    ) -> Self {
        let pause = learned.get(&device).unwrap_or(settings.short);
        Self { detector, settings, admission, language, device, learned, pause }
    }

    /// Reports whether there is a detector, which needs the sound of the speech.
    pub fn has_detector(&self) -> bool {
        self.detector.is_some()
    }

    /// Returns the detector, or `None` while the server is strained.
    pub fn detector(&self) -> Option<Arc<dyn TurnDetector>> {
        self.detector.clone().filter(|_| !self.admission.is_strained())
    }

    /// Returns how long the silence must last after words that are unfinished.
    pub fn unfinished_window(&self) -> Duration {
        self.settings.long
    }

    /// Returns how long the silence must last after which the person has finished with this probability. Where
    /// people pause for longer, the short window is as long as their mean pause, up to the middle one.
    pub fn window(&self, probability: f32) -> Duration {
        let s = &self.settings;
        let short = s.short;
        let middle = s.middle;
        let long = s.long;
        let (likely, unlikely) = match self.language.get() {
            Language::Chinese => (s.likely_zh, s.unlikely_zh),
            Language::English => (s.likely_en, s.unlikely_en),
        };
        let floor = self.pause.clamp(short, middle.max(short));
        let probability = f64::from(probability);
        // A judgement gives a window, never a yes or no: a wrong one costs some hundred milliseconds, or a cut-off that
        // a fixed window makes, too. Decision 0061.
        if probability >= likely {
            floor
        } else if probability >= unlikely {
            middle
        } else {
            long
        }
    }

    /// Learns from a pause inside a turn: the person went on after it. Only a detector's judgements use that.
    pub fn resumed(&mut self, pause: Duration) {
        let counts = pause >= LOOKS[0] && pause <= self.settings.long * 2;
        if !counts || !self.has_detector() {
            return;
        }
        self.pause = self.pause.mul_f64(1.0 - NEWEST) + pause.mul_f64(NEWEST);
        self.learned.set(&self.device, self.pause);
    }
}
