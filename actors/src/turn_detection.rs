//! Turn detection: chooses how long a silence must last to end a person's turn, from the turn
//! detector's judgement, from the words if they are known, and from the usual pauses of this
//! device's users. Never a binary decision: at most a shorter or longer window. Not for the
//! detector itself, which is a port, nor for finding the silence.

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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unfinished::UnfinishedWords;

/// Weight of the newest pause in the learned mean.
const NEWEST: f64 = 0.1;
/// Maximum number of devices whose pauses are remembered; those of further devices are lost when
/// they disconnect.
const MOST_DEVICES: usize = 10_000;

/// Section `[turn_detection]`: when a turn is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TurnDetectionSettings {
    /// Name of the turn detection model in the catalogue. It is used once it has been
    /// downloaded with `hearken models fetch smart-turn`. Empty disables it.
    pub model: String,
    /// Silence that ends a turn if the model judges it likely that the person has finished.
    /// For people whose pauses within a turn are longer, their mean pause applies, up to
    /// `middle_ms`.
    #[serde(rename = "short_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 200, max = 10_000))]
    pub short: Duration,
    /// Silence that ends a turn if the model is uncertain. Must not be less than
    /// `short_ms`.
    #[serde(rename = "middle_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 10_000))]
    pub middle: Duration,
    /// Silence that ends a turn if the model judges it unlikely that the person has
    /// finished, or if the last words are unfinished (`unfinished_zh`, `unfinished_en`).
    /// Must not be less than `middle_ms`.
    #[serde(rename = "long_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 10_000))]
    pub long: Duration,
    /// Share of one core that the model may use; beyond it, silence alone ends a turn. A
    /// judgement takes about 45 ms and a turn needs two or three; unused time accumulates,
    /// for up to 45 judgements. `3` is enough for two people who talk all the time: raise
    /// it for more.
    #[schemars(range(min = 1, max = 100))]
    pub cpu_percent: u32,
    /// Probability at or above which the turn counts as complete (Chinese), so that
    /// `short_ms` applies.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub likely_zh: f64,
    /// Probability below which the turn counts as incomplete (Chinese), so that `long_ms`
    /// applies. Must not exceed `likely_zh`.
    #[schemars(range(min = 0.0))]
    pub unlikely_zh: f64,
    /// Probability at or above which the turn counts as complete (English and all other
    /// languages), so that `short_ms` applies.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub likely_en: f64,
    /// Probability below which the turn counts as incomplete (English and all other
    /// languages), so that `long_ms` applies. Must not exceed `likely_en`.
    #[schemars(range(min = 0.0))]
    pub unlikely_en: f64,
    /// Words that indicate an unfinished sentence (Chinese). If the recognised words end
    /// with one of them, or within a number spoken digit by digit, the silence must last
    /// `long_ms`. Case and punctuation are ignored.
    pub unfinished_zh: Vec<String>,
    /// Words that indicate an unfinished sentence (English and all other languages). If the
    /// recognised words end with one of them, or within a number spoken digit by digit, the
    /// silence must last `long_ms`. Case and punctuation are ignored.
    pub unfinished_en: Vec<String>,
}

impl TurnDetectionSettings {
    /// Returns the words that indicate an unfinished sentence.
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

/// Mean pauses of the users of each device, stored while the process runs. Clones share them.
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
    /// `None` without a model: silence and words decide.
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
    /// Creates the turn detection of a connection, with the learned pauses of its device.
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

    /// Returns true if there is a detector, which needs the sound of the speech.
    pub fn has_detector(&self) -> bool {
        self.detector.is_some()
    }

    /// Returns the detector, or `None` while the server is strained.
    pub fn detector(&self) -> Option<Arc<dyn TurnDetector>> {
        self.detector.clone().filter(|_| !self.admission.is_strained())
    }

    /// Returns the length of silence that ends a turn after unfinished words.
    pub fn unfinished_window(&self) -> Duration {
        self.settings.long
    }

    /// Returns the length of silence that ends a turn, given this probability that the person has
    /// finished. For people with longer pauses, the short window is their mean pause, up to the
    /// middle window.
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
        // A judgement chooses a window and is never a binary decision: a wrong one costs some
        // hundred milliseconds, or a cut-off that a fixed window would cause, too. Decision 0061.
        if probability >= likely {
            floor
        } else if probability >= unlikely {
            middle
        } else {
            long
        }
    }

    /// Learns from a pause inside a turn, after which the person went on. Only the detector's
    /// judgements use it.
    pub fn resumed(&mut self, pause: Duration) {
        let counts = pause >= LOOKS[0] && pause <= self.settings.long * 2;
        if !counts || !self.has_detector() {
            return;
        }
        self.pause = self.pause.mul_f64(1.0 - NEWEST) + pause.mul_f64(NEWEST);
        self.learned.set(&self.device, self.pause);
    }
}
