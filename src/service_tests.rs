//! Tries each service of a spoken turn alone, and measures it: a sentence is spoken, recognised or answered. Not for whether the
//! services are up: that is known from what they were last asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use hearken_actors::audio::pcm;
use hearken_actors::audio::resample::Resampler;
use hearken_actors::audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_actors::dialogue::phrases::Language;
use hearken_actors::ports::{Asr, Line, ProviderError, Tts, UtteranceSpec};
use hearken_actors::role::RoleSettings;
use hearken_providers::TurnService;
use tokio::sync::{Semaphore, TryAcquireError};
use tokio::time::{Instant, timeout};

use crate::history::trial::{TrialError, Trials};

/// Longest time of a test.
const WITHIN: Duration = Duration::from_secs(30);
/// Longest sound of a synthesiser that is read.
const LONGEST: Duration = Duration::from_secs(30);
/// Length of the pieces in which the recogniser gets its sound.
const PIECE: Duration = Duration::from_millis(60);

/// What a test has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Time to the first sound or word, where there is one.
    pub first: Option<Duration>,
    /// What was heard, written or spoken.
    pub text: String,
    /// What was spoken.
    pub sound: Option<Sound>,
}

/// Sound, mono.
#[derive(Debug)]
pub struct Sound {
    /// The samples.
    pub samples: Vec<i16>,
    /// Samples per second.
    pub rate_hz: u32,
}

/// Outcome of a test.
#[derive(Debug)]
pub struct Tested {
    /// What was found; or what failed, for people.
    pub outcome: Result<Found, String>,
    /// Time that it took in all.
    pub total: Duration,
}

/// Tests of the services of devices' conversations.
pub struct ServiceTests {
    asr: Arc<dyn Asr>,
    tts: Arc<dyn Tts>,
    trials: Trials,
    language: Language,
    /// Number of sentences that were spoken.
    spoken: AtomicU32,
    /// One test runs at a time.
    free: Semaphore,
}

impl ServiceTests {
    /// Creates the tests of these services, in this language.
    pub fn new(asr: Arc<dyn Asr>, tts: Arc<dyn Tts>, trials: Trials, language: Language) -> Self {
        let (spoken, free) = (AtomicU32::new(0), Semaphore::new(1));
        Self { asr, tts, trials, language, spoken, free }
    }

    /// Tests a service. The recogniser gets this recording at 16 kHz, or what the synthesiser speaks, whose time is not counted.
    ///
    /// # Errors
    /// Another test runs.
    pub async fn run(
        &self,
        service: TurnService,
        recording: Option<Vec<i16>>,
    ) -> Result<Tested, TryAcquireError> {
        let _free = self.free.try_acquire()?;
        let mut begun = Instant::now();
        let work = async {
            match service {
                TurnService::Tts => self.speak().await,
                TurnService::Llm => self.answer().await,
                TurnService::Asr => {
                    let recording = match recording {
                        Some(recording) => recording,
                        None => self.spoken().await?,
                    };
                    begun = Instant::now();
                    self.recognise(&recording).await
                }
            }
        };
        let outcome = timeout(WITHIN, work).await;
        let late = |_| Err(format!("no answer within {} s", WITHIN.as_secs()));
        Ok(Tested { outcome: outcome.unwrap_or_else(late), total: begun.elapsed() })
    }

    /// Returns a sentence to speak: another each time, since sentences that were spoken are remembered.
    fn sentence(&self) -> String {
        let number = self.spoken.fetch_add(1, Ordering::Relaxed) + 1;
        match self.language {
            Language::Chinese => format!("你好，这是第{number}次测试。"),
            Language::English => format!("Hello, this is test number {number}."),
        }
    }

    async fn speak(&self) -> Result<Found, String> {
        let text = self.sentence();
        let begun = Instant::now();
        let mut spoken = self.tts.speak(Line::new(&*text));
        let (mut first, mut samples, mut rate_hz) = (None, Vec::new(), 0);
        while let Some(piece) = spoken.next().await {
            let piece = piece.map_err(|error| told(&error))?;
            first.get_or_insert_with(|| begun.elapsed());
            rate_hz = piece.sample_rate_hz;
            samples.extend_from_slice(&piece.samples);
            if pcm::duration(samples.len(), rate_hz) > LONGEST {
                break;
            }
        }
        let sound = Some(Sound { samples, rate_hz });
        Ok(Found { first, text, sound })
    }

    /// Returns what the synthesiser speaks, as recognisers take it.
    async fn spoken(&self) -> Result<Vec<i16>, String> {
        let spoken = self.speak().await;
        let found =
            spoken.map_err(|error| format!("the synthesiser has nothing to recognise: {error}"))?;
        let Some(Sound { samples, rate_hz }) = found.sound else { return Ok(Vec::new()) };
        let resampler = Resampler::new(rate_hz, SAMPLE_RATE_HZ);
        let mut resampler = resampler.map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        resampler.process(&samples, &mut out);
        resampler.finish(&mut out);
        Ok(out)
    }

    async fn recognise(&self, recording: &[i16]) -> Result<Found, String> {
        let recognised = async {
            let mut stream = self.asr.open(UtteranceSpec::default()).await?;
            for piece in recording.chunks(pcm::samples_in(PIECE, SAMPLE_RATE_HZ)) {
                stream.push(piece).await?;
            }
            stream.finish().await
        };
        let transcript = recognised.await.map_err(|error: ProviderError| told(&error))?;
        Ok(Found { text: transcript.text, ..Found::default() })
    }

    async fn answer(&self) -> Result<Found, String> {
        let question = match self.language {
            Language::Chinese => "用一句话打个招呼。",
            Language::English => "Say hello in one short sentence.",
        };
        let answered = self.trials.ask(question, RoleSettings::default()).await;
        let answered = answered.map_err(|error| match &error {
            TrialError::Model(failed) => told(failed),
            other => other.to_string(),
        })?;
        Ok(Found { first: answered.first_word, text: answered.text, sound: None })
    }
}

/// Renders an error with all its causes.
fn told(error: &ProviderError) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    std::iter::once(error.to_string())
        .chain(causes.map(ToString::to_string))
        .collect::<Vec<_>>()
        .join(": ")
}
