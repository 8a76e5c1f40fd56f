//! One device's packets turned into judged sound: decoding, voicing and endpointing, with as much
//! of the past as an utterance may reach back into. Not for what an utterance's sound is for.

use std::collections::VecDeque;
use std::time::Duration;

use super::endpointer::{Endpoint, Endpointer, MAX_ONSET_PAUSE};
use super::opus::{Decoder, OpusError};
use super::pcm;
use super::voicing::{FRAME_SAMPLES, SAMPLE_RATE_HZ, Voicing};
use crate::settings::HearingSettings;

/// Length of one decision.
const FRAME: Duration = Duration::from_millis(20);
/// Six frames of 20 ms at Opus's longest (RFC 6716, section 3.2) and their headers; a packet longer
/// than this is none.
const MAX_OPUS_BYTES: usize = 6 * 1_275 + 14;

/// Why a packet gave no sound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unheard {
    /// Longer than a packet of Opus can be.
    #[error("longer than an Opus packet can be")]
    Oversized,
    /// It does not decode; the next may.
    #[error(transparent)]
    Garbage(#[from] OpusError),
}

/// Hears one device: decoding and judging, made when first needed.
pub struct Ear {
    settings: HearingSettings,
    decoder: Option<Decoder>,
    voicing: Option<Voicing>,
    endpointer: Endpointer,
    /// Recent sound: the pre-roll, and what is not yet a whole frame at its end.
    recent: VecDeque<i16>,
    /// Samples at the end of `recent` that are not judged yet.
    unjudged: usize,
    scratch: Vec<i16>,
}

impl Ear {
    /// An ear that has heard nothing.
    pub fn new(settings: HearingSettings) -> Self {
        Self {
            endpointer: Endpointer::new(settings.endpointer.clone()),
            settings,
            decoder: None,
            voicing: None,
            recent: VecDeque::new(),
            unjudged: 0,
            scratch: Vec::new(),
        }
    }

    /// Appends the packet's sound and returns its length in samples.
    ///
    /// # Errors
    /// The packet is no Opus; the next one may be.
    pub fn decode(&mut self, opus: &[u8]) -> Result<usize, Unheard> {
        if opus.len() > MAX_OPUS_BYTES {
            return Err(Unheard::Oversized);
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new(SAMPLE_RATE_HZ)?),
        };
        self.scratch.clear();
        let samples = decoder.decode(opus, &mut self.scratch)?;
        self.recent.extend(&self.scratch);
        self.unjudged += samples;
        Ok(samples)
    }

    /// Judges the next whole frame, if there is one.
    pub fn judge(&mut self) -> Option<(Vec<i16>, Option<Endpoint>)> {
        if self.unjudged < FRAME_SAMPLES {
            return None;
        }
        let settings = &self.settings;
        let voicing = self.voicing.get_or_insert_with(|| {
            Voicing::new(settings.aggressiveness, settings.min_rms, settings.over_noise)
        });
        let start = self.recent.len() - self.unjudged;
        let frame: Vec<i16> = self.recent.range(start..start + FRAME_SAMPLES).copied().collect();
        self.unjudged -= FRAME_SAMPLES;
        let endpoint = self.endpointer.hear(voicing.is_voice(&frame), FRAME);
        self.trim();
        Some((frame, endpoint))
    }

    /// How much voice starts an utterance depends on whether it would interrupt us.
    pub fn need(&mut self, speaking: bool) {
        let usual = self.settings.endpointer.min_speech;
        self.endpointer.need(if speaking { self.settings.barge_in } else { usual });
    }

    /// Keeps as much of the judged past as an utterance may reach back into.
    fn trim(&mut self) {
        let voice = self.settings.endpointer.min_speech.max(self.settings.barge_in);
        let onset = voice * 2 + MAX_ONSET_PAUSE * 4;
        let keep = pcm::samples_in(self.settings.pre_roll + onset, SAMPLE_RATE_HZ) + self.unjudged;
        let surplus = self.recent.len().saturating_sub(keep);
        self.recent.drain(..surplus);
    }

    /// The last part of the judged past.
    pub fn last(&self, length: Duration) -> Vec<i16> {
        let end = self.recent.len() - self.unjudged;
        let start = end.saturating_sub(pcm::samples_in(length, SAMPLE_RATE_HZ));
        self.recent.range(start..end).copied().collect()
    }

    /// All sound that is there; nothing of it stays.
    pub fn take_all(&mut self) -> Vec<i16> {
        self.unjudged = 0;
        self.recent.drain(..).collect()
    }

    /// The utterance is over, whatever was heard.
    pub fn end(&mut self) {
        self.endpointer.reset();
    }

    /// Drops what was heard.
    pub fn forget(&mut self) {
        self.recent.clear();
        self.unjudged = 0;
        self.endpointer.reset();
    }
}
