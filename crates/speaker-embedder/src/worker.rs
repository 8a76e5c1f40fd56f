//! The speaker embedder for the pipeline: CAM++ on a separate thread. Not for the model, nor for
//! the thread.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use hearken_audio::pcm;
use hearken_inference::{Compute, Settings};
use hearken_ports::SpeakerEmbedder;
use hearken_ports::speaker_embedder::LONGEST_VOICE;

use crate::cam_plus_plus::CamPlusPlus;

/// Minimum duration of speech: shorter speech does not identify a voice.
const SHORTEST: Duration = Duration::from_millis(500);
const RATE_HZ: u32 = 16_000;
/// Maximum wait for the vector of a recording, on a busy machine.
const RECORDING_DEADLINE: Duration = Duration::from_secs(60);

/// Speaker embedder on a thread of low priority, which ends when this is dropped.
pub struct Worker(hearken_inference::Worker<Vec<i16>, Vec<f32>>);

impl Worker {
    /// Starts the thread, which loads CAM++ from this file and may use this share of one core, in
    /// percent. Until then, and if loading fails, which is logged, no vectors are computed.
    ///
    /// # Errors
    /// Fails if the system refuses a thread.
    pub fn start(file: PathBuf, cpu_percent: u32) -> anyhow::Result<Self> {
        let settings = Settings {
            name: "speaker embedder",
            without: "no speaker is recognised",
            metric: "hearken_speaker_embedder_seconds",
            waiting: 4,
            deadline: Duration::from_secs(5),
            cpu_percent,
        };
        Ok(Self(hearken_inference::Worker::start(settings, file, load)?))
    }
}

fn load(file: &Path) -> anyhow::Result<Compute<Vec<i16>, Vec<f32>>> {
    let mut model = CamPlusPlus::load(file)?;
    Ok(Box::new(move |speech| model.embed(last(&speech))))
}

fn is_too_short(speech: &[i16]) -> bool {
    speech.len() < pcm::samples_in(SHORTEST, RATE_HZ)
}

/// Returns the end of the speech, which the model receives.
fn last(speech: &[i16]) -> &[i16] {
    &speech[speech.len().saturating_sub(pcm::samples_in(LONGEST_VOICE, RATE_HZ))..]
}

#[async_trait]
impl SpeakerEmbedder for Worker {
    async fn embed(&self, speech: Vec<i16>) -> Option<Vec<f32>> {
        if is_too_short(&speech) {
            return None;
        }
        self.0.ask(speech).await
    }

    async fn embed_recording(&self, speech: Vec<i16>) -> Option<Vec<f32>> {
        if is_too_short(&speech) {
            return None;
        }
        self.0.ask_patiently(speech, RECORDING_DEADLINE).await
    }
}
