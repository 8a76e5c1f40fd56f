//! Tests of choice, failover and recovery, in virtual time with scripted services.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use hearken_dialogue::testkit::scripted::{ScriptedAsr, ScriptedTts};
use hearken_dialogue::testkit::{AsrAct, Script, TtsAct};
use hearken_ports::ProviderErrorKind::{
    self, BadRequest, Fault, Protocol, RateLimited, Timeout, Unauthorized, Unavailable,
};
use hearken_ports::{Asr, Line, Pcm, ProviderError, ServiceState, Tts, UtteranceSpec};
use tokio::time::{Instant, sleep};

use super::{BalancedAsr, BalancedTts, Probe, Service, shortest_pause};
use crate::settings::AsrSettings;

const AGES: Duration = Duration::from_secs(1_000);

/// Scripted service.
#[derive(Clone)]
struct Stage {
    script: Arc<Script>,
    door: Arc<Door>,
}

/// Reachability of a service, and the number of probes.
#[derive(Default)]
struct Door {
    shut: AtomicBool,
    /// Error of a probe while the service is down; none means that it cannot be reached.
    fails: Mutex<Option<ProviderErrorKind>>,
    probes: AtomicUsize,
}

impl Probe for Door {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        self.probes.fetch_add(1, Ordering::SeqCst);
        let shut = self.shut.load(Ordering::SeqCst);
        let fails = self.fails.lock().unwrap().unwrap_or(Unavailable);
        let outcome = if shut { Err(ProviderError::new("door", fails)) } else { Ok(()) };
        async move { outcome }.boxed()
    }
}

impl Stage {
    fn shut(&self, shut: bool) {
        self.door.shut.store(shut, Ordering::SeqCst);
    }

    fn probes(&self) -> usize {
        self.door.probes.load(Ordering::SeqCst)
    }

    fn probe(&self) -> Arc<dyn Probe> {
        self.door.clone()
    }

    /// Returns the number of requested sentences.
    fn lines(&self) -> usize {
        self.script.lines.lock().unwrap().len()
    }

    /// Returns the samples of each finished utterance.
    fn utterances(&self) -> Vec<usize> {
        self.script.utterances.lock().unwrap().clone()
    }

    fn hears(&self, act: AsrAct) {
        self.script.hears(act);
    }

    fn says(&self, act: TtsAct) {
        self.script.says(act);
    }
}

fn stages<const N: usize>() -> [Stage; N] {
    std::array::from_fn(|_| Stage { script: Arc::default(), door: Arc::default() })
}

fn tts(stages: &[Stage]) -> BalancedTts {
    let services = stages.iter().map(|stage| {
        let port: Arc<dyn Tts> = Arc::new(ScriptedTts(stage.script.clone()));
        Service { port, probe: stage.probe() }
    });
    BalancedTts::new(services.collect(), Duration::from_secs(8))
}

fn asr(stages: &[Stage]) -> BalancedAsr {
    asr_with(stages, |_| {})
}

fn asr_with(stages: &[Stage], tweak: impl FnOnce(&mut AsrSettings)) -> BalancedAsr {
    let services = stages.iter().map(|stage| {
        let port: Arc<dyn Asr> = Arc::new(ScriptedAsr(stage.script.clone()));
        Service { port, probe: stage.probe() }
    });
    let mut settings = AsrSettings { result_timeout_ms: 8_000, ..AsrSettings::default() };
    tweak(&mut settings);
    BalancedAsr::new(services.collect(), &settings)
}

/// Speaks one sentence. Returns the number of pieces, or its failure.
async fn say(tts: &BalancedTts) -> Result<usize, ProviderErrorKind> {
    let pieces: Result<Vec<Pcm>, _> = tts.speak(Line::new("a")).try_collect().await;
    pieces.map(|pieces| pieces.len()).map_err(|error| error.kind)
}

/// Starts a sentence that stays in flight until the result is dropped.
async fn begin(tts: &BalancedTts) -> impl Sized + use<> {
    let mut sound = tts.speak(Line::new("a"));
    assert!(sound.next().await.unwrap().is_ok());
    sound
}

/// Recognises an utterance of three pieces, 42 samples.
async fn hear(asr: &BalancedAsr) -> Result<String, ProviderErrorKind> {
    let heard = async {
        let mut utterance = asr.open(UtteranceSpec::default()).await?;
        for length in [30, 10, 2] {
            utterance.push(&vec![0; length]).await?;
        }
        utterance.finish().await
    };
    heard.await.map(|transcript| transcript.text).map_err(|error: ProviderError| error.kind)
}

fn text(text: &'static str) -> AsrAct {
    AsrAct::Text(text, Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn the_least_loaded_service_gets_the_next_request_and_equal_ones_take_turns() {
    let stages = stages::<3>();
    let tts = tts(&stages);
    let asked = || stages.each_ref().map(Stage::lines);
    let _held = begin(&tts).await;
    let second = begin(&tts).await;
    let _third = begin(&tts).await;
    assert_eq!(asked(), [1, 1, 1]);
    let _fourth = begin(&tts).await;
    assert_eq!(asked(), [2, 1, 1]);
    drop(second);
    for count in 2..=4 {
        // It ends at once: the second service stays the least loaded.
        assert_eq!(say(&tts).await, Ok(9));
        assert_eq!(asked(), [2, count, 1]);
    }
    let _fifth = begin(&tts).await;
    let _sixth = begin(&tts).await;
    assert_eq!(asked(), [2, 5, 2], "with one each, it is the third's turn");
}

#[tokio::test(start_paused = true)]
async fn idle_services_take_turns() {
    let stages = stages::<3>();
    let tts = tts(&stages);
    let asr = asr(&stages);
    for _ in 0..2 {
        for _ in 0..3 {
            say(&tts).await.unwrap();
            hear(&asr).await.unwrap();
        }
    }
    assert_eq!(stages.each_ref().map(Stage::lines), [2, 2, 2]);
    assert_eq!(stages.each_ref().map(|stage| stage.utterances().len()), [2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_synthesiser_loses_no_sentence_and_recovers_by_itself() {
    let stages = stages::<2>();
    let tts = tts(&stages);
    let [one, two] = &stages;
    one.shut(true);
    one.says(TtsAct::Fail(Unavailable, Duration::ZERO));
    for _ in 0..5 {
        assert_eq!(say(&tts).await, Ok(9));
    }
    assert_eq!((one.lines(), two.lines()), (1, 5), "it is skipped");
    // Probes happen after 1, 3, 7, 15 and 31 s.
    sleep(Duration::from_secs(40)).await;
    assert_eq!((one.probes(), two.probes()), (5, 0));
    assert_eq!(say(&tts).await, Ok(9));
    assert_eq!(one.lines(), 1);
    one.shut(false);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(one.probes(), 6);
    for _ in 0..4 {
        assert_eq!(say(&tts).await, Ok(9));
    }
    assert_eq!((one.lines(), two.lines()), (3, 8), "both get requests again");
    sleep(AGES).await;
    assert_eq!(one.probes(), 6, "a working service is not probed");
}

#[tokio::test(start_paused = true)]
async fn a_failed_probe_is_cleared_by_a_successful_probe() {
    for kind in [Unavailable, Timeout, Unauthorized, Fault] {
        let [alone] = &stages::<1>();
        let single = tts(std::slice::from_ref(alone));
        let pair = stages::<2>();
        let several = tts(&pair);
        for stage in [alone, &pair[0], &pair[1]] {
            stage.shut(true);
            *stage.door.fails.lock().unwrap() = Some(kind);
        }
        for tts in [&single, &several] {
            assert!(tts.health().probe_decides, "the state is unknown");
            tts.probe().await;
            let health = tts.health();
            assert_eq!((health.state, health.failure), (ServiceState::Down, Some(kind)));
            assert!(health.probe_decides, "{kind}");
        }
        for stage in [alone, &pair[0], &pair[1]] {
            stage.shut(false);
        }
        single.probe().await;
        assert_eq!(single.health().state, ServiceState::Ready, "{kind}");
        sleep(AGES).await;
        assert_eq!(several.health().state, ServiceState::Ready, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_gets_requests_again_counts_as_working() {
    let stages = stages::<2>();
    let tts = tts(&stages);
    stages[0].says(TtsAct::Fail(Timeout, Duration::ZERO));
    assert_eq!(say(&tts).await, Ok(9));
    assert_eq!(tts.health().state, ServiceState::Degraded);
    sleep(AGES).await;
    assert_eq!(tts.health().state, ServiceState::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_answers_probes_and_fails_requests_is_tried_less_often() {
    let stages = stages::<2>();
    let tts = tts(&stages);
    let [one, _] = &stages;
    for _ in 0..100 {
        one.says(TtsAct::Fail(Unavailable, Duration::ZERO));
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(120) {
        assert_eq!(say(&tts).await, Ok(9), "the user notices nothing");
        sleep(Duration::from_millis(100)).await;
    }
    assert!((6..=10).contains(&one.lines()), "{}", one.lines());
}

#[tokio::test(start_paused = true)]
async fn a_started_sentence_is_not_restarted() {
    let stages = stages::<2>();
    let tts = tts(&stages);
    stages[0].says(TtsAct::Break(Unavailable));
    assert_eq!(say(&tts).await, Err(Unavailable));
    assert_eq!(stages[1].lines(), 0);
    assert_eq!(say(&tts).await, Ok(9));
    assert_eq!(say(&tts).await, Ok(9));
    assert_eq!(stages[0].lines(), 1, "the service that failed is skipped");
}

#[tokio::test(start_paused = true)]
async fn an_utterance_whose_recogniser_dies_is_recognised_by_another() {
    for death in [
        AsrAct::Refuse,
        AsrAct::Reset,
        AsrAct::Fail(Unavailable, Duration::from_secs(1)),
        AsrAct::Fail(Protocol, Duration::ZERO),
        AsrAct::Fail(RateLimited, Duration::ZERO),
        AsrAct::Fail(Fault, Duration::ZERO),
    ] {
        let stages = stages::<3>();
        let asr = asr(&stages);
        stages[0].hears(death.clone());
        stages[1].hears(death.clone());
        stages[2].hears(text("three"));
        assert_eq!(hear(&asr).await, Ok("three".into()), "{death:?}");
        assert_eq!(stages[2].utterances(), [42], "{death:?}: all of the audio arrived");
    }
}

#[tokio::test(start_paused = true)]
async fn the_audio_of_a_hanging_recogniser_goes_to_another_after_half_of_the_time() {
    let stages = stages::<3>();
    let asr = asr(&stages);
    let start = Instant::now();
    stages[0].hears(AsrAct::Fail(Unavailable, AGES));
    stages[1].hears(text("two"));
    assert_eq!(hear(&asr).await, Ok("two".into()));
    assert_eq!(start.elapsed(), Duration::from_secs(4));
    sleep(Duration::from_secs(29)).await;
    assert_eq!(stages[0].probes(), 0, "a hanging service is not probed");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(stages[0].probes(), 1);
}

#[tokio::test(start_paused = true)]
async fn hanging_services_together_take_no_longer_than_one() {
    let stages = stages::<3>();
    for stage in &stages {
        for _ in 0..2 {
            stage.hears(AsrAct::Fail(Unavailable, AGES));
            stage.says(TtsAct::Fail(Unavailable, AGES));
        }
    }
    let asr = asr(&stages);
    let tts = tts(&stages);
    for _ in 0..2 {
        let start = Instant::now();
        assert_eq!(hear(&asr).await, Err(Timeout));
        assert_eq!(start.elapsed(), Duration::from_secs(8));
        let start = Instant::now();
        assert_eq!(say(&tts).await, Err(Timeout));
        assert_eq!(start.elapsed(), Duration::from_secs(8));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_sent_even_if_all_services_are_skipped() {
    let stages = stages::<2>();
    let asr = asr(&stages);
    let tts = tts(&stages);
    for stage in &stages {
        stage.shut(true);
        stage.hears(AsrAct::Refuse);
        stage.says(TtsAct::Fail(Unavailable, Duration::ZERO));
    }
    let start = Instant::now();
    assert_eq!(hear(&asr).await, Ok("hello there".into()), "the second time, at its end");
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    assert_eq!(say(&tts).await, Err(Unavailable));
    assert_eq!(say(&tts).await, Ok(9));
}

#[tokio::test(start_paused = true)]
async fn an_utterance_that_all_services_failed_is_retried() {
    let stages = stages::<2>();
    let asr = asr(&stages);
    let fails = || AsrAct::Fail(Unavailable, Duration::ZERO);
    for stage in &stages {
        stage.hears(fails());
        stage.hears(fails());
    }
    let start = Instant::now();
    assert_eq!(hear(&asr).await, Ok("hello there".into()));
    // Waits before the second and third round, plus the time of the answer.
    assert_eq!(start.elapsed(), Duration::from_millis(250 + 1_000 + 50));
    let never = asr_with(&stages, |settings| settings.retry_within_ms = 0);
    stages.iter().for_each(|stage| stage.hears(fails()));
    assert_eq!(hear(&never).await, Err(Unavailable));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_counts_as_a_failure_only_if_another_service_answers() {
    let stages = stages::<2>();
    let tts = tts(&stages);
    let [one, two] = &stages;
    let refuses = || TtsAct::Fail(BadRequest, Duration::ZERO);
    one.says(refuses());
    two.says(refuses());
    assert_eq!(say(&tts).await, Err(BadRequest));
    assert_eq!(say(&tts).await, Ok(9));
    assert_eq!(say(&tts).await, Ok(9));
    assert_eq!((one.lines(), two.lines()), (2, 2), "neither is skipped");
    one.says(refuses());
    for _ in 0..4 {
        assert_eq!(say(&tts).await, Ok(9));
    }
    assert_eq!((one.lines(), two.lines()), (3, 6), "it is skipped");
}

#[tokio::test(start_paused = true)]
async fn a_request_from_before_a_failure_does_not_end_the_pause() {
    let stages = stages::<2>();
    let tts = tts(&stages);
    let [one, two] = &stages;
    let mut early = tts.speak(Line::new("a"));
    let (first_audio, failed) = tokio::join!(early.next(), async {
        sleep(Duration::from_millis(10)).await;
        for stage in [two, one] {
            stage.says(TtsAct::Fail(RateLimited, Duration::ZERO));
        }
        say(&tts).await
    });
    assert_eq!((first_audio.unwrap().is_ok(), failed), (true, Err(RateLimited)));
    drop(early);
    for _ in 0..4 {
        assert_eq!(say(&tts).await, Ok(9));
    }
    assert_eq!((one.lines(), two.lines()), (2, 5), "only a later request shows that it works");
}

#[tokio::test(start_paused = true)]
async fn an_utterance_over_the_maximum_length_is_not_stored() {
    let stages = stages::<2>();
    // 32 samples.
    let asr = asr_with(&stages, |settings| settings.max_utterance_ms = 2);
    stages[0].hears(AsrAct::Fail(Unavailable, Duration::ZERO));
    assert_eq!(hear(&asr).await, Err(Unavailable));
    stages[1].hears(AsrAct::Reset);
    assert_eq!(hear(&asr).await, Err(Unavailable), "the audio is too long to wait for another");
    assert_eq!(hear(&asr).await, Ok("hello there".into()), "and not for a working one");
}

#[tokio::test(start_paused = true)]
async fn a_single_service_returns_its_own_error_and_is_not_probed() {
    let stages = stages::<1>();
    let asr = asr(&stages);
    let tts = tts(&stages);
    stages[0].hears(AsrAct::Refuse);
    assert_eq!(asr.open(UtteranceSpec::default()).await.err().unwrap().kind, Unavailable);
    stages[0].hears(AsrAct::Reset);
    let mut utterance = asr.open(UtteranceSpec::default()).await.unwrap();
    assert_eq!(utterance.push(&[0]).await.unwrap_err().kind, Unavailable);
    stages[0].says(TtsAct::Fail(Unavailable, Duration::ZERO));
    assert_eq!(say(&tts).await, Err(Unavailable));
    assert_eq!((say(&tts).await, hear(&asr).await), (Ok(9), Ok("hello there".into())));
    sleep(AGES).await;
    assert_eq!(stages[0].probes(), 0);
}

#[tokio::test(start_paused = true)]
async fn probes_end_with_their_services() {
    let [one, two] = stages::<2>();
    one.shut(true);
    let tts = tts(&[one.clone(), two]);
    one.says(TtsAct::Fail(Unavailable, Duration::ZERO));
    assert_eq!(say(&tts).await, Ok(9));
    assert_eq!(Arc::strong_count(&one.door), 2);
    sleep(Duration::from_secs(2)).await;
    let probes = one.probes();
    assert!(probes > 0);
    drop(tts);
    sleep(AGES).await;
    assert_eq!((one.probes(), Arc::strong_count(&one.door)), (probes, 1));
}

#[test]
fn the_pause_that_a_service_requests_is_respected() {
    let pause = |kind, asked: Option<u64>| {
        let error = ProviderError::new("scripted", kind);
        shortest_pause(&error.retry_after(asked.map(Duration::from_secs))).map(|p| p.as_secs())
    };
    assert_eq!(pause(Unavailable, None), None);
    assert_eq!(pause(Unavailable, Some(7)), Some(7));
    assert_eq!(pause(RateLimited, Some(7)), Some(7));
    assert_eq!(pause(RateLimited, None), Some(30));
    assert_eq!(pause(Timeout, None), Some(30));
}
