//! Loads the engines from the models folder, and chooses the voice for Chinese.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearken_engines::speech::engine::{EngineError, RecognitionEngines, Voice, VoicePair};
use hearken_engines::speech::voice_speeds::VoiceSpeeds;
use tokio_util::sync::CancellationToken;

use crate::espeak::{self, PinyinVoice};
use crate::sherpa_asr::Whisper;
use crate::sherpa_tts::{KOKORO_NAME, KOKORO_SPEAKERS, Kokoro, Piper};
use crate::sherpa_vad::Silero;

/// Loads the recogniser and the detector. Takes a second or two.
///
/// # Errors
/// A model is missing or does not load.
pub(crate) fn hearing(models: &Path, threads: usize) -> Result<RecognitionEngines, EngineError> {
    let silero = Silero::new(&models.join("silero-vad"));
    let recognizer = Whisper::load(&models.join("whisper-base"), &silero, threads)?;
    Ok(RecognitionEngines { recognizer: Arc::new(recognizer), detectors: Arc::new(silero) })
}

/// Loads the voices; the first is the default. Measures the speed of the Chinese voice unless
/// `paces` has it already. If Kokoro is not installed, or takes more than `hopeless_cost` seconds
/// per second of speech, espeak-ng speaks Chinese.
///
/// # Errors
/// The English voice or espeak-ng is missing.
pub(crate) fn speakers(
    models: &Path,
    threads: usize,
    paces: &VoiceSpeeds,
    hopeless_cost: f64,
) -> Result<Vec<VoicePair>, EngineError> {
    if !espeak::installed() {
        return Err(EngineError::NoEspeak);
    }
    let english: Arc<dyn Voice> = Arc::new(Piper::load(&models.join("piper-en-joe"), 1)?);
    let robot: Arc<dyn Voice> = Arc::new(PinyinVoice);
    let pair = |id: &str, chinese: Arc<dyn Voice>| VoicePair {
        id: id.into(),
        chinese,
        english: Arc::clone(&english),
    };
    let kokoro = match Kokoro::load(&models.join(KOKORO_NAME), threads) {
        Ok(voices) => voices,
        Err(error) => {
            tracing::warn!(%error, "cannot load the natural Chinese voice; using espeak-ng instead");
            return Ok(vec![pair("espeak-zh", robot)]);
        }
    };
    let mut speakers: Vec<VoicePair> = KOKORO_SPEAKERS
        .iter()
        .zip(kokoro)
        .map(|((id, _), voice)| pair(id, Arc::new(voice)))
        .collect();
    speakers.push(pair("espeak-zh", robot));
    let natural = Arc::clone(&speakers[0].chinese);
    if !speeds_are_known(paces, hopeless_cost) {
        measure(natural.as_ref(), threads, paces)?;
    }
    let cost = paces.cost(natural.name()).unwrap_or(0.0);
    tracing::info!(voice = natural.name(), cost, "seconds of work per second of speech");
    if cost > hopeless_cost {
        tracing::warn!(
            cost,
            "this machine is too slow for the natural Chinese voice; using espeak-ng instead"
        );
        speakers.rotate_right(1);
    }
    Ok(speakers)
}

/// Returns true if the speed of the Chinese voice was measured before. A cost above `hopeless_cost`
/// may come from a time of high load: it is measured again at each start.
pub(crate) fn speeds_are_known(paces: &VoiceSpeeds, hopeless_cost: f64) -> bool {
    paces.cost(KOKORO_NAME).is_some_and(|cost| cost <= hopeless_cost)
}

/// Speaks a line twice, the first time to warm up, and stores the cost of the second. Other
/// programs may use the processor at a first start (the build, for example): the processor time is
/// used if it is less than the elapsed time.
fn measure(voice: &dyn Voice, threads: usize, paces: &VoiceSpeeds) -> Result<(), EngineError> {
    let stop = CancellationToken::new();
    for warm in [false, true] {
        let begun = Instant::now();
        let spent = processor_time();
        let mut samples = 0;
        voice.speak("很高兴认识你，今天天气不错。", 1.0, &stop, &mut |pcm| {
            samples += pcm.len()
        })?;
        if warm {
            let audio = Duration::from_secs_f64(samples as f64 / f64::from(voice.sample_rate_hz()));
            let own = spent
                .zip(processor_time())
                .map(|(before, after)| after.saturating_sub(before).div_f64(threads.max(1) as f64));
            let wall = begun.elapsed();
            paces.forget(voice.name());
            paces.measured(voice.name(), own.map_or(wall, |own| own.min(wall)), audio);
        }
    }
    if let Err(error) = paces.save() {
        tracing::warn!(%error, "cannot store the measured speeds of the voices");
    }
    Ok(())
}

/// Returns the processor time of this process so far, if the system reports it (proc(5), fields 14
/// and 15 of `stat`, in hundredths of a second).
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (next()? + next()?)))
}
