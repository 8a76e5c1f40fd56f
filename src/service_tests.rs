//! Tests of the services of a spoken turn: each speaks, recognises or answers one sentence, and is
//! timed. Not for the health of the services, which is known from their last requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use hearken_audio::pcm;
use hearken_audio::resample::Resampler;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_base::language::Language;
use hearken_ports::role::RoleSettings;
use hearken_ports::{Asr, Line, ProviderError, Tts, UtteranceSpec};
use hearken_providers::TurnService;
use tokio::sync::{Semaphore, TryAcquireError};
use tokio::time::{Instant, timeout};

use crate::history::trial::{TrialError, Trials};

/// Maximum duration of a test.
const WITHIN: Duration = Duration::from_secs(30);
/// Maximum length of synthesised speech that is read.
const LONGEST: Duration = Duration::from_secs(30);
/// Length of the chunks sent to the recogniser.
const PIECE: Duration = Duration::from_millis(60);

/// Test of one service.
#[derive(Debug)]
pub enum ServiceTest {
    /// The recogniser transcribes this recording (16 kHz, mono), or else synthesised speech; the
    /// time for synthesis does not count.
    Asr(Option<Vec<i16>>),
    /// The model answers a fixed question.
    Llm,
    /// The synthesiser speaks a text.
    Tts {
        /// Text to speak; `None` for a fixed sentence.
        text: Option<String>,
        /// Name of the voice; empty for the configured one.
        voice: String,
    },
}

impl ServiceTest {
    /// Returns the tested service.
    pub fn service(&self) -> TurnService {
        match self {
            Self::Asr(_) => TurnService::Asr,
            Self::Llm => TurnService::Llm,
            Self::Tts { .. } => TurnService::Tts,
        }
    }
}

/// Result of a successful test.
#[derive(Debug, Default)]
pub struct Found {
    /// Time to the first sound or word; `None` for a recogniser.
    pub first: Option<Duration>,
    /// Transcript, answer, or spoken text.
    pub text: String,
    /// Synthesised speech.
    pub sound: Option<Sound>,
}

/// Mono audio.
#[derive(Debug)]
pub struct Sound {
    /// Samples.
    pub samples: Vec<i16>,
    /// Sample rate, in Hz.
    pub rate_hz: u32,
}

/// Outcome of a test.
#[derive(Debug)]
pub struct Tested {
    /// The result; or a human-readable error.
    pub outcome: Result<Found, String>,
    /// Total duration of the test.
    pub total: Duration,
}

/// Tests of the services of devices' conversations.
pub struct ServiceTests {
    asr: Arc<dyn Asr>,
    tts: Arc<dyn Tts>,
    trials: Trials,
    language: Language,
    /// Number of sentences spoken so far.
    spoken: AtomicU32,
    /// Allows one test at a time.
    free: Semaphore,
}

impl ServiceTests {
    /// Creates the tests of these services, in this language.
    pub fn new(asr: Arc<dyn Asr>, tts: Arc<dyn Tts>, trials: Trials, language: Language) -> Self {
        let spoken = AtomicU32::new(0);
        let free = Semaphore::new(1);
        Self { asr, tts, trials, language, spoken, free }
    }

    /// Tests a service.
    ///
    /// # Errors
    /// Another test is running.
    pub async fn run(&self, test: ServiceTest) -> Result<Tested, TryAcquireError> {
        let _free = self.free.try_acquire()?;
        let mut begun = Instant::now();
        let work = async {
            match test {
                ServiceTest::Tts { text, voice } => {
                    let text = text.unwrap_or_else(|| self.sentence());
                    self.speak(Line { text: text.into(), voice: voice.into() }).await
                }
                ServiceTest::Llm => self.answer().await,
                ServiceTest::Asr(recording) => {
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

    /// Returns a sentence to speak: a different one each time, because the synthesiser's results are cached.
    fn sentence(&self) -> String {
        let number = self.spoken.fetch_add(1, Ordering::Relaxed) + 1;
        match self.language {
            Language::Chinese => format!("你好，这是第{number}次测试。"),
            Language::English => format!("Hello, this is test number {number}."),
        }
    }

    async fn speak(&self, line: Line) -> Result<Found, String> {
        let mut speech = self.trials.begin_use().map_err(|error| error.to_string())?;
        let text = line.text.to_string();
        speech.synthesises(&text);
        let begun = Instant::now();
        let mut spoken = self.tts.speak(line);
        let mut first = None;
        let mut samples = Vec::new();
        let mut rate_hz = 0;
        while let Some(piece) = spoken.next().await {
            let piece = piece.map_err(|error| told(&error))?;
            first.get_or_insert_with(|| begun.elapsed());
            rate_hz = piece.sample_rate_hz;
            samples.extend_from_slice(&piece.samples);
            let length = pcm::duration(samples.len(), rate_hz);
            speech.has_said(length);
            if length > LONGEST {
                break;
            }
        }
        let sound = Some(Sound { samples, rate_hz });
        Ok(Found { first, text, sound })
    }

    /// Returns synthesised speech as recognisers expect it: 16 kHz, mono.
    async fn spoken(&self) -> Result<Vec<i16>, String> {
        let spoken = self.speak(Line::new(self.sentence())).await;
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
        let mut speech = self.trials.begin_use().map_err(|error| error.to_string())?;
        let recognised = async {
            let mut stream = self.asr.open(UtteranceSpec::default()).await?;
            let mut heard = 0;
            for piece in recording.chunks(pcm::samples_in(PIECE, SAMPLE_RATE_HZ)) {
                heard += piece.len();
                speech.has_heard(pcm::duration(heard, SAMPLE_RATE_HZ));
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

#[cfg(test)]
mod tests {
    use futures_util::stream::{self, BoxStream};
    use hearken_base::reloadable::Reloadable;
    use hearken_dialogue::DialogueSettings;
    use hearken_dialogue::usage::{UsageMeter, UsageSettings};
    use hearken_ports::usage::Used;
    use hearken_ports::{AsrStream, Llm, LlmDelta, Pcm, Prompt, Transcript};
    use jiff::civil::date;

    use super::*;

    /// Services that accept two seconds of work and never complete it.
    struct Hanging;

    #[async_trait::async_trait]
    impl Asr for Hanging {
        async fn open(&self, _: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
            Ok(Box::new(Self))
        }
    }

    #[async_trait::async_trait]
    impl AsrStream for Hanging {
        async fn push(&mut self, _: &[i16]) -> Result<(), ProviderError> {
            Ok(())
        }

        async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError> {
            std::future::pending().await
        }
    }

    impl Tts for Hanging {
        fn speak(&self, _: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
            let second = || Ok(Pcm { samples: vec![1; 24_000].into(), sample_rate_hz: 24_000 });
            stream::iter([second(), second()]).chain(stream::pending()).boxed()
        }
    }

    impl Llm for Hanging {
        fn reply(&self, _: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
            stream::pending().boxed()
        }
    }

    fn tests_with(settings: UsageSettings) -> (ServiceTests, UsageMeter) {
        let meter = UsageMeter::new(settings, || date(2026, 1, 1));
        let dialogue = Reloadable::new(DialogueSettings::default());
        let now = Arc::new(String::new);
        let trials = Trials::new(Arc::new(Hanging), dialogue, now, meter.clone());
        let tests =
            ServiceTests::new(Arc::new(Hanging), Arc::new(Hanging), trials, Language::English);
        (tests, meter)
    }

    fn speech_of(text: &str) -> ServiceTest {
        ServiceTest::Tts { text: Some(text.into()), voice: String::new() }
    }

    fn two_seconds() -> ServiceTest {
        ServiceTest::Asr(Some(vec![1; 32_000]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_test_that_is_cut_counts_with_what_it_has_used() {
        let said = Used { said_chars: 5, said_ms: 2_000, ..Used::default() };
        let heard = Used { heard_ms: 2_000, ..Used::default() };
        for (test, used) in [(speech_of("hello"), said), (two_seconds(), heard)] {
            let (tests, meter) = tests_with(UsageSettings::default());
            let tested = tests.run(test).await.unwrap();
            assert_eq!(tested.outcome.unwrap_err(), "no answer within 30 s");
            let rows = meter.take_unsaved().rows;
            let counted: Vec<Used> = rows.iter().map(|(_, used)| *used).collect();
            assert_eq!(counted, [used]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_service_is_tested_beyond_a_daily_limit() {
        let second = UsageSettings { total_seconds: 1, ..UsageSettings::default() };
        let (tests, meter) = tests_with(second);
        tests.run(two_seconds()).await.unwrap();
        let before = meter.take_unsaved().rows;
        for test in [two_seconds(), speech_of("hello"), ServiceTest::Asr(None), ServiceTest::Llm] {
            let service = test.service();
            let refused = tests.run(test).await.unwrap().outcome.unwrap_err();
            assert!(refused.contains("nothing is left today"), "{service:?}: {refused}");
        }
        assert_eq!((before.len(), meter.take_unsaved().rows.len()), (1, 0));
    }
}
