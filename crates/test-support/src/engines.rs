//! Scripted speech engines whose results follow from their input. They block at a gate until a test
//! lets them pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hearken_engines::speech::engine::{
    Detected, DetectorSource, EngineError, RecognitionEngines, Recognizer, SpeechDetector, Voice,
    VoicePair,
};
use hearken_engines::speech::text::script::Language;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Holds blocking engine work back until a permit is given; an open gate lets all work pass.
#[derive(Clone)]
pub struct Gate {
    passes: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl Gate {
    /// A gate that lets everything pass.
    pub fn open() -> Self {
        Self::with(Semaphore::MAX_PERMITS)
    }

    /// A gate without permits.
    pub fn closed() -> Self {
        Self::with(0)
    }

    fn with(passes: usize) -> Self {
        Self { passes: Arc::new(Semaphore::new(passes)), waiting: Arc::default() }
    }

    /// Lets this many pieces of work pass.
    pub fn let_pass(&self, count: usize) {
        self.passes.add_permits(count);
    }

    /// Waits until this many pieces of work wait at the gate.
    pub async fn waiting(&self, count: usize) {
        let reached = async {
            while self.waiting.load(Ordering::SeqCst) != count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), reached).await.expect("work at the gate");
    }

    /// Blocks until it may pass; fails if cancelled meanwhile.
    fn pass(&self, stop: &CancellationToken) -> Result<(), EngineError> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let passed = futures_util::future::select(
            Box::pin(self.passes.acquire()),
            Box::pin(stop.cancelled()),
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let passed = match runtime.block_on(passed) {
            futures_util::future::Either::Left((permit, _)) => {
                permit.expect("an open gate").forget();
                Ok(())
            }
            futures_util::future::Either::Right(_) => Err(EngineError::Cancelled),
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        passed
    }
}

/// Returns the first sample and the number of samples, so that results of different requests are
/// distinguishable. A first sample of 13 panics, 14 fails, 15 gives an empty transcript.
pub struct Echo(Gate);

impl Recognizer for Echo {
    fn recognize(
        &self,
        samples: &[i16],
        _: Option<Language>,
        stop: &CancellationToken,
    ) -> Result<String, EngineError> {
        self.0.pass(stop)?;
        match samples[0] {
            13 => panic!("scripted"),
            14 => Err(EngineError::Failed { engine: "echo", reason: "scripted".into() }),
            15 => Ok(String::new()),
            first => Ok(format!("{first} x {}", samples.len())),
        }
    }
}

/// Non-zero samples are speech, which ends at the first zero.
struct NotZero;

impl DetectorSource for NotZero {
    fn open(&self) -> Result<Box<dyn SpeechDetector>, EngineError> {
        Ok(Box::new(Heard(Vec::new())))
    }
}

struct Heard(Vec<i16>);

impl SpeechDetector for Heard {
    fn push(&mut self, samples: &[i16]) -> Vec<Detected> {
        let mut found = Vec::new();
        for sample in samples {
            match (*sample, self.0.is_empty()) {
                (0, true) => {}
                (0, false) => found.push(Detected::Ended(std::mem::take(&mut self.0))),
                (sample, first) => {
                    if first {
                        found.push(Detected::Started);
                    }
                    self.0.push(sample);
                }
            }
        }
        found
    }

    fn reset(&mut self) {
        self.0.clear();
    }
}

/// Synthesises each character as a tenth of a second of a constant that encodes it. `x` fails, `p` panics.
struct Letters {
    /// Its name.
    pub name: &'static str,
    /// The gate that its work passes.
    pub gate: Gate,
    /// Number of synthesised clauses.
    pub spoken: Arc<AtomicUsize>,
}

impl Voice for Letters {
    fn name(&self) -> &str {
        self.name
    }

    fn sample_rate_hz(&self) -> u32 {
        24_000
    }

    fn speak(
        &self,
        clause: &str,
        _: f32,
        stop: &CancellationToken,
        sink: &mut dyn FnMut(&[i16]),
    ) -> Result<(), EngineError> {
        self.gate.pass(stop)?;
        self.spoken.fetch_add(1, Ordering::SeqCst);
        for letter in clause.chars() {
            match letter {
                'x' => {
                    return Err(EngineError::Failed {
                        engine: "letters",
                        reason: "scripted".into(),
                    });
                }
                'p' => panic!("scripted"),
                letter => sink(&[1_000 + (letter as u32 % 1_000) as i16; 2_400]),
            }
        }
        Ok(())
    }
}

/// A recogniser with this gate, and a detector.
pub fn hearing(gate: &Gate) -> RecognitionEngines {
    RecognitionEngines { recognizer: Arc::new(Echo(gate.clone())), detectors: Arc::new(NotZero) }
}

/// Two speakers, `one` (the default) and `two`, and the number of synthesised clauses.
pub fn speakers(gate: &Gate) -> (Vec<VoicePair>, Arc<AtomicUsize>) {
    let spoken = Arc::<AtomicUsize>::default();
    let voice = |name| -> Arc<dyn Voice> {
        Arc::new(Letters { name, gate: gate.clone(), spoken: Arc::clone(&spoken) })
    };
    let speakers = ["one", "two"].map(|id| VoicePair {
        id: id.into(),
        chinese: voice("zh"),
        english: voice("en"),
    });
    (speakers.into(), spoken)
}
