//! One device's packets turned into judged sound: decoding, voicing and endpointing, with as much
//! of the past as an utterance may reach back into. Not for what an utterance's sound is for.

use std::ops::Range;
use std::time::Duration;

use super::endpointer::{Endpoint, Endpointer, MAX_ONSET_PAUSE};
use super::opus::{Decoder, MAX_PACKET_MS, OpusError};
use super::pcm;
use super::voice_detector::{FRAME_SAMPLES, SAMPLE_RATE_HZ, VoiceDetector};
use crate::settings::HearingSettings;

/// Length of one decision.
const FRAME: Duration = Duration::from_millis(20);
/// Six frames of 20 ms at Opus's longest (RFC 6716, section 3.2) and their headers; a packet longer
/// than this is none.
const MAX_OPUS_BYTES: usize = 6 * 1_275 + 14;
/// Past that is not needed any more is dropped in pieces of this length: what is needed has to be
/// moved each time.
const DROPPED_AT_ONCE: Duration = Duration::from_millis(300);

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

/// What judging some frames has brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Where speech started or ended with the last of them.
    pub endpoint: Option<Endpoint>,
    sound: Range<usize>,
}

/// Hears one device. Decoder, judge and memory are made when they are first needed; nothing is
/// allocated for a packet once they are there.
pub struct UtteranceDetector {
    settings: HearingSettings,
    decoder: Option<Decoder>,
    voicing: Option<VoiceDetector>,
    endpointer: Endpointer,
    /// Recent sound: the judged past, then what is not yet a whole frame.
    recent: Vec<i16>,
    /// Samples of `recent` that are judged.
    judged: usize,
    /// Samples of the past that an utterance may reach back into.
    keep: usize,
}

impl UtteranceDetector {
    /// An ear that has heard nothing.
    pub fn new(settings: HearingSettings) -> Self {
        let voice = settings.min_speech.max(settings.barge_in);
        let onset = voice * 2 + MAX_ONSET_PAUSE * 4;
        Self {
            keep: pcm::samples_in(settings.pre_roll + onset, SAMPLE_RATE_HZ),
            endpointer: Endpointer::new(&settings),
            settings,
            decoder: None,
            voicing: None,
            recent: Vec::new(),
            judged: 0,
        }
    }

    /// Takes in a packet's sound.
    ///
    /// # Errors
    /// The packet is no Opus; the next one may be.
    pub fn decode(&mut self, opus: &[u8]) -> Result<(), Unheard> {
        if opus.len() > MAX_OPUS_BYTES {
            return Err(Unheard::Oversized);
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new(SAMPLE_RATE_HZ)?),
        };
        let slack = pcm::samples_in(DROPPED_AT_ONCE, SAMPLE_RATE_HZ);
        if self.recent.capacity() == 0 {
            let longest = SAMPLE_RATE_HZ as usize / 1_000 * MAX_PACKET_MS;
            self.recent.reserve_exact(self.keep + slack + FRAME_SAMPLES + longest);
        }
        if self.judged >= self.keep + slack {
            self.recent.drain(..self.judged - self.keep);
            self.judged = self.keep;
        }
        decoder.decode(opus, &mut self.recent)?;
        Ok(())
    }

    /// Judges the frames that are whole, up to and with the next one at which speech starts or
    /// ends; none where no frame is left.
    pub fn judge(&mut self) -> Option<Judged> {
        let settings = &self.settings;
        let voicing = self.voicing.get_or_insert_with(|| {
            VoiceDetector::new(settings.aggressiveness, settings.min_rms, settings.over_noise)
        });
        let first = self.judged;
        let mut endpoint = None;
        while endpoint.is_none() {
            let end = self.judged + FRAME_SAMPLES;
            let Some(frame) = self.recent.get(self.judged..end) else { break };
            endpoint = self.endpointer.hear(voicing.is_voice(frame), FRAME);
            self.judged = end;
        }
        let start = match endpoint {
            Some(Endpoint::Started { ago }) => {
                let reach = pcm::samples_in(ago + settings.pre_roll, SAMPLE_RATE_HZ);
                self.judged.saturating_sub(reach.min(self.keep))
            }
            _ => first,
        };
        (self.judged > first).then_some(Judged { endpoint, sound: start..self.judged })
    }

    /// The sound of frames that were just judged; where speech started with the last of them, all
    /// of it and the pre-roll.
    pub fn sound(&self, judged: &Judged) -> &[i16] {
        &self.recent[judged.sound.clone()]
    }

    /// What is not judged yet.
    pub fn unjudged(&self) -> &[i16] {
        &self.recent[self.judged..]
    }

    /// How much voice starts an utterance depends on whether it would interrupt us.
    pub fn need(&mut self, speaking: bool) {
        let usual = self.settings.min_speech;
        self.endpointer.need(if speaking { self.settings.barge_in } else { usual });
    }

    /// The utterance is over, whatever was heard.
    pub fn end(&mut self) {
        self.endpointer.reset();
    }

    /// Drops what was heard.
    pub fn forget(&mut self) {
        self.recent.clear();
        self.judged = 0;
        self.endpointer.reset();
    }

    /// The microphone is closed: drops what was heard and what takes memory. The noise floor is
    /// still known when it opens again.
    pub fn close(&mut self) {
        self.forget();
        self.decoder = None;
        self.recent = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::testkit::sound;

    /// The sound of each utterance.
    fn utterances(ear: &mut UtteranceDetector, packets: &[Bytes]) -> Vec<Vec<i16>> {
        let (mut found, mut open) = (Vec::new(), None);
        for packet in packets {
            ear.decode(packet).unwrap();
            while let Some(judged) = ear.judge() {
                if let Some(Endpoint::Started { .. }) = judged.endpoint {
                    open = Some(Vec::new());
                }
                if let Some(utterance) = &mut open {
                    utterance.extend_from_slice(ear.sound(&judged));
                }
                if judged.endpoint == Some(Endpoint::Ended) {
                    found.extend(open.take());
                }
            }
        }
        found
    }

    /// A second of voice between silences, twice.
    fn two_utterances(kind: (u32, u64)) -> Vec<Bytes> {
        let (voice, silence) = (sound::voice_in(1_200, kind), sound::silence_in(1_800, kind));
        [silence.clone(), voice.clone(), silence.clone(), voice, silence].concat()
    }

    #[test]
    fn an_utterance_is_one_stretch_of_the_sound_with_its_pre_roll() {
        for kind in [(16_000, 60), (16_000, 20), (24_000, 40)] {
            let packets = two_utterances(kind);
            let whole = sound::decoded(&packets);
            let mut from = 0;
            let found =
                utterances(&mut UtteranceDetector::new(HearingSettings::default()), &packets);
            assert_eq!(found.len(), 2, "{kind:?}");
            for utterance in found {
                let mut places = whole[from..].windows(utterance.len());
                from += places.position(|w| w == utterance).unwrap() + utterance.len();
                // Pre-roll, voice, and the silence that ends it.
                let ms = utterance.len() / 16;
                assert!((2_150..2_350).contains(&ms), "{kind:?}: {ms} ms");
            }
        }
    }

    #[test]
    fn a_closed_microphone_costs_no_memory_and_opens_again() {
        let mut ear = UtteranceDetector::new(HearingSettings::default());
        let packets = two_utterances((16_000, 60));
        let first = utterances(&mut ear, &packets);
        ear.close();
        assert!(ear.recent.capacity() == 0 && ear.decoder.is_none());
        assert_eq!(utterances(&mut ear, &packets).len(), first.len());
    }

    #[test]
    fn the_past_is_kept_no_longer_than_needed() {
        let mut ear = UtteranceDetector::new(HearingSettings::default());
        ear.decode(&sound::silence(60)[0]).unwrap();
        let room = ear.recent.capacity();
        utterances(&mut ear, &two_utterances((16_000, 60)));
        assert_eq!(ear.recent.capacity(), room);
    }

    #[test]
    fn what_is_no_packet_is_told_apart() {
        let mut ear = UtteranceDetector::new(HearingSettings::default());
        assert_eq!(ear.decode(&[0; MAX_OPUS_BYTES + 1]), Err(Unheard::Oversized));
        assert!(matches!(ear.decode(&[0xff; 40]), Err(Unheard::Garbage(_))));
        assert!(ear.judge().is_none() && ear.unjudged().is_empty());
    }
}
