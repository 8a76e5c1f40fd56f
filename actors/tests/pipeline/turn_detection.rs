//! Length of the silence that ends a turn: with the turn detector's judgements, without them, and
//! with learned pauses. Not for the detector itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::admission::cores;
use hearken_dialogue::testkit::{AsrAct, LlmAct};
use hearken_ports::TurnDetector;
use tokio::time::Instant;

use crate::{listening, listening_with, ms, next_turn_works};

const LIKELY: Option<f32> = Some(0.99);
const UNSURE: Option<f32> = Some(0.9);
const UNLIKELY: Option<f32> = Some(0.1);

/// Detector with scripted judgements, and none after them.
#[derive(Default)]
struct Scripted {
    judgements: Mutex<VecDeque<Option<f32>>>,
    /// Numbers of samples of the speech that it was given.
    asked: Mutex<Vec<usize>>,
    takes: Duration,
}

#[async_trait]
impl TurnDetector for Scripted {
    async fn judge(&self, speech: Vec<i16>) -> Option<f32> {
        lock(&self.asked).push(speech.len());
        let judgement = lock(&self.judgements).pop_front().flatten();
        tokio::time::sleep(self.takes).await;
        judgement
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds the lock")
}

/// Gives the server a detector with these judgements, each within 40 ms.
fn detect(pipeline: &TestPipeline, judgements: &[Option<f32>]) -> Arc<Scripted> {
    detect_within(pipeline, ms(40), judgements)
}

fn detect_within(
    pipeline: &TestPipeline,
    takes: Duration,
    judgements: &[Option<f32>],
) -> Arc<Scripted> {
    let judgements = Mutex::new(judgements.iter().copied().collect());
    let detector = Arc::new(Scripted { judgements, takes, ..Scripted::default() });
    *lock(&pipeline.script.turn_detector) = Some(detector.clone());
    detector
}

/// Says something, is silent for two seconds, and returns the silence that ended the turn.
async fn waited(pipeline: &mut TestPipeline) -> Duration {
    waited_for(pipeline, 2_000).await
}

async fn waited_for(pipeline: &mut TestPipeline, silence: u64) -> Duration {
    pipeline.forget();
    pipeline.script.hears(AsrAct::Text("你好呀", Duration::ZERO));
    pipeline.stream(sound::voice(1_000)).await;
    let silent = pipeline.now();
    pipeline.stream(sound::silence(silence)).await;
    pipeline.until("stt").await;
    let told = pipeline.log.iter().find(|down| down.what.name() == "stt");
    told.expect("it was just waited for").at - silent
}

/// Silence is detected a packet later, and the voice detector extends a voice by some frames.
fn about(waited: Duration, expected: u64) {
    let lag = waited.as_millis().abs_diff(u128::from(expected));
    assert!(lag <= 90, "{waited:?}, not {expected} ms");
}

#[actix::test]
async fn likely_ends_are_answered_soon_and_unlikely_ones_late() {
    for (judgements, expected) in [
        // The judgement arrives 40 ms after the first look at 300 ms: the turn ends at once.
        (&[LIKELY][..], 340),
        (&[UNSURE], 700),
        (&[UNLIKELY], 1_000),
        // The second look, at 500 ms, changes the choice.
        (&[UNSURE, LIKELY], 540),
        (&[UNLIKELY, UNSURE], 700),
        (&[UNSURE, UNLIKELY], 1_000),
        // Without a judgement, silence alone decides.
        (&[], 700),
        (&[None, UNSURE], 700),
    ] {
        let mut pipeline = listening("auto").await;
        let detector = detect(&pipeline, judgements);
        about(waited(&mut pipeline).await, expected);
        assert!(!lock(&detector.asked).is_empty());
        pipeline.until("tts/stop").await;
        next_turn_works(&mut pipeline).await;
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn the_detector_is_given_the_speech_with_its_silence() {
    let mut pipeline = listening("auto").await;
    let detector = detect(&pipeline, &[UNSURE, UNSURE]);
    waited(&mut pipeline).await;
    let asked = lock(&detector.asked).clone();
    let [first, second] = asked[..] else { panic!("{asked:?}") };
    // 1 s of voice and 300 ms of silence; 200 ms later again. The microphone heard nothing before.
    assert!((18_000..23_000).contains(&first), "{first}");
    assert_eq!((second - first) / 16, 200);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_person_who_goes_on_in_time_is_not_answered_and_the_next_silence_is_judged() {
    let mut pipeline = listening("auto").await;
    let detector = detect(&pipeline, &[UNLIKELY, UNLIKELY, LIKELY]);
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(840)).await;
    pipeline.pass(Duration::ZERO).await;
    assert_eq!(pipeline.names(), [""; 0]);
    about(waited(&mut pipeline).await, 340);
    assert_eq!(lock(&detector.asked).len(), 3);
    pipeline.until("tts/stop").await;
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_judgement_of_a_past_silence_has_no_effect() {
    let mut pipeline = listening("auto").await;
    // It arrives when the person has gone on for 60 ms; then they are silent for a long time.
    detect_within(&pipeline, ms(160), &[LIKELY]);
    pipeline.stream(sound::voice(1_000)).await;
    pipeline.stream(sound::silence(360)).await;
    about(waited(&mut pipeline).await, 700);
    pipeline.hang_up().await;
}

#[actix::test]
async fn without_a_detector_silence_alone_decides() {
    let mut settings = PipelineSettings::default();
    settings.hearing.silence = ms(900);
    let mut pipeline = listening_with(settings, "auto").await;
    about(waited(&mut pipeline).await, 900);
    pipeline.hang_up().await;
}

#[actix::test]
async fn while_the_server_is_strained_nothing_is_judged() {
    let mut pipeline = listening("auto").await;
    let begun = Instant::now();
    let all_cores = move || begun.elapsed() * u32::try_from(cores()).unwrap_or(1);
    let governing = actix::spawn(pipeline.admission().clone().govern(all_cores, Vec::new));
    pipeline.pass(ms(2_000)).await;
    let detector = detect(&pipeline, &[LIKELY]);
    about(waited(&mut pipeline).await, 700);
    assert_eq!(lock(&detector.asked).len(), 0);
    governing.abort();
    pipeline.hang_up().await;
}

#[actix::test]
async fn people_with_long_pauses_get_a_longer_window() {
    let mut pipeline = listening("auto").await;
    detect(&pipeline, &[LIKELY]);
    about(waited(&mut pipeline).await, 340);
    pipeline.until("tts/stop").await;
    // Repeated pauses of about 540 ms, inside one turn and then in the next.
    for _ in 0..3 {
        crate::start(&pipeline, "auto");
        detect(&pipeline, &[UNLIKELY; 12]);
        for _ in 0..6 {
            pipeline.stream(sound::voice(600)).await;
            pipeline.stream(sound::silence(540)).await;
        }
        waited(&mut pipeline).await;
        pipeline.until("tts/stop").await;
    }
    crate::start(&pipeline, "auto");
    detect(&pipeline, &[LIKELY]);
    let patient = waited(&mut pipeline).await;
    assert!(patient > ms(440) && patient < ms(620), "{patient:?}");
    // The device reconnects: its pauses are still known.
    pipeline.lose();
    let mut again = pipeline.again();
    again.greet(1).await;
    crate::start(&again, "auto");
    detect(&again, &[LIKELY]);
    let patient = waited(&mut again).await;
    assert!(patient > ms(440) && patient < ms(620), "{patient:?}");
    again.hang_up().await;
}

#[actix::test]
async fn nine_turns_after_a_silent_detector_are_like_the_first() {
    let mut pipeline = listening("auto").await;
    let mut judgements = vec![None, None];
    judgements.extend([LIKELY; 9]);
    detect(&pipeline, &judgements);
    about(waited(&mut pipeline).await, 700);
    pipeline.until("tts/stop").await;
    for _ in 0..9 {
        crate::start(&pipeline, "auto");
        about(waited(&mut pipeline).await, 340);
        pipeline.until("tts/stop").await;
    }
    pipeline.hang_up().await;
}

#[actix::test]
async fn speech_after_an_early_end_is_judged_with_the_speech_before_it() {
    let mut pipeline = listening("auto").await;
    let detector = detect(&pipeline, &[LIKELY, UNSURE, UNSURE]);
    // The model thinks for a long time: nothing is spoken when the person goes on.
    pipeline.script.thinks(LlmAct::Write(vec!["Yes."], ms(60_000)));
    waited_for(&mut pipeline, 720).await;
    waited(&mut pipeline).await;
    let asked = lock(&detector.asked).clone();
    let [first, second, _] = asked[..] else { panic!("{asked:?}") };
    // Another second of voice, its pre-roll, and the silences that were part of both.
    assert!(second > first + 20_000, "{asked:?}");
    // Later speech is judged without the earlier speech.
    detect(&pipeline, &[]);
    pipeline.until("tts/stop").await;
    crate::start(&pipeline, "auto");
    pipeline.stream(sound::silence(2_400)).await;
    let detector = detect(&pipeline, &[UNSURE]);
    waited(&mut pipeline).await;
    let third = lock(&detector.asked)[0];
    assert!(third < first + 8_000, "{third}, {first}: the pre-roll alone would be more");
    pipeline.hang_up().await;
}
