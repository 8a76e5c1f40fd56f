//! Turns one device's packets into classified audio: decoding, voice activity detection and
//! endpointing, with as much history as an utterance may include. Not for the use of an utterance's
//! audio.

use std::ops::Range;
use std::time::Duration;

use super::echo::{Echo, SentPackets};
use super::endpointer::{Endpoint, Endpointer, MAX_ONSET_PAUSE};
use super::opus::{Decoder, MAX_PACKET_MS, OpusError};
use super::pcm;
use super::voice_detector::{FRAME_SAMPLES, SAMPLE_RATE_HZ, VoiceDetector};
use crate::HearingSettings;

/// Length of the frame of one decision.
const FRAME: Duration = Duration::from_millis(20);
/// Maximum size of an Opus packet, in bytes: six frames of 20 ms at their longest (RFC 6716,
/// section 3.2) and their headers. Longer data is not a packet.
const MAX_OPUS_BYTES: usize = 6 * 1_275 + 14;
/// Length of unneeded history that is dropped at a time: each time, the rest has to be moved.
const DROPPED_AT_ONCE: Duration = Duration::from_millis(300);

/// Reason for which a packet gave no audio.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Longer than an Opus packet can be.
    #[error("longer than an Opus packet can be")]
    Oversized,
    /// The packet does not decode; the next one may.
    #[error(transparent)]
    Garbage(#[from] OpusError),
}

/// Classified frames, and the endpoint at the last of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// Start or end of speech at the last frame, if any.
    pub endpoint: Option<Endpoint>,
    sound: Range<usize>,
}

/// Utterance detector of one device. Decoder, voice detector and history are created at first use;
/// after that, packets cause no allocation.
pub struct UtteranceDetector {
    settings: HearingSettings,
    decoder: Option<Decoder>,
    echo: Option<Echo>,
    voicing: Option<VoiceDetector>,
    endpointer: Endpointer,
    /// True while the server speaks, and the microphone may pick up its echo.
    speaking: bool,
    /// Recent samples: the classified history, followed by unclassified samples.
    recent: Vec<i16>,
    /// Number of classified samples in `recent`.
    classified: usize,
    /// Number of samples of history that an utterance may include.
    keep: usize,
}

impl UtteranceDetector {
    /// Creates a detector that has received nothing.
    pub fn new(settings: HearingSettings) -> Self {
        let voice = settings.min_speech.max(settings.barge_in).max(settings.barge_in_echo);
        let onset = voice * 2 + MAX_ONSET_PAUSE * 4;
        Self {
            keep: pcm::samples_in(settings.pre_roll + onset, SAMPLE_RATE_HZ),
            endpointer: Endpointer::new(&settings),
            speaking: false,
            settings,
            decoder: None,
            echo: None,
            voicing: None,
            recent: Vec::new(),
            classified: 0,
        }
    }

    /// Removes the echo of these packets, if configured; the device reports which of them it has
    /// played.
    pub fn cancel_echo(&mut self, sent: SentPackets) {
        let HearingSettings { cancel_echo, guard_echo, .. } = self.settings;
        // The residue of a cancelled echo must be distinguished from voice, too.
        if cancel_echo || guard_echo {
            self.echo = Some(Echo::new(sent, cancel_echo));
        }
    }

    /// Excludes sound from voice if it may be nothing but the echo of these packets.
    pub fn guard_echo(&mut self, sent: SentPackets) {
        self.echo = Some(Echo::new(sent, false));
    }

    /// Decodes a packet and appends its samples, without the echo of the playback.
    ///
    /// # Errors
    /// Fails if the packet is not Opus; the next one may be.
    pub fn decode(&mut self, opus: &[u8], played: u32) -> Result<(), PacketError> {
        if opus.len() > MAX_OPUS_BYTES {
            return Err(PacketError::Oversized);
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
        if self.classified >= self.keep + slack {
            self.recent.drain(..self.classified - self.keep);
            self.classified = self.keep;
        }
        let before = self.recent.len();
        decoder.decode(opus, &mut self.recent)?;
        if let Some(echo) = &mut self.echo {
            echo.hear(played, &mut self.recent[before..]);
        }
        Ok(())
    }

    /// Classifies whole frames, up to and including the next one at which speech starts or ends.
    /// Returns `None` if no whole frame is left.
    pub fn classify(&mut self) -> Option<Classified> {
        let settings = &self.settings;
        let voicing = self.voicing.get_or_insert_with(|| {
            VoiceDetector::new(settings.aggressiveness, settings.min_rms, settings.over_noise)
        });
        let first = self.classified;
        let mut endpoint = None;
        while endpoint.is_none() {
            let end = self.classified + FRAME_SAMPLES;
            let Some(frame) = self.recent.get(self.classified..end) else { break };
            // Echo is detected by its level: a longer `barge_in` would not help, since echo lasts
            // as long as a sentence. Decision 0068.
            let echoes = self.echo.as_mut().is_some_and(Echo::explains_next) && self.speaking;
            endpoint = self.endpointer.push(voicing.is_voice(frame) && !echoes, FRAME);
            self.classified = end;
        }
        let start = match endpoint {
            Some(Endpoint::Started { ago }) => {
                let reach = pcm::samples_in(ago + settings.pre_roll, SAMPLE_RATE_HZ);
                self.classified.saturating_sub(reach.min(self.keep))
            }
            _ => first,
        };
        (self.classified > first).then_some(Classified { endpoint, sound: start..self.classified })
    }

    /// Returns the samples of the frames that were just classified. If speech started with the last
    /// of them, returns the utterance so far, with its pre-roll.
    pub fn sound(&self, classified: &Classified) -> &[i16] {
        &self.recent[classified.sound.clone()]
    }

    /// Returns the samples that are not classified yet.
    pub fn unclassified(&self) -> &[i16] {
        &self.recent[self.classified..]
    }

    /// Sets the length of voice that starts an utterance. While the server speaks, it is `barge_in`
    /// or `barge_in_echo`, since the utterance would interrupt the reply, and possible echo does
    /// not count as voice. Otherwise it is `min_speech`.
    pub fn set_speaking(&mut self, speaking: bool) {
        self.speaking = speaking;
        let HearingSettings { min_speech, barge_in, barge_in_echo, .. } = self.settings;
        let interrupts = if self.echo.is_some() { barge_in_echo } else { barge_in };
        self.endpointer.set_min_speech(if speaking { interrupts } else { min_speech });
    }

    /// Sets the length of silence after which a speculative answer may start. By default, none does.
    pub fn set_speculate_after(&mut self, speculate_after: Duration) {
        self.endpointer.set_speculate_after(speculate_after);
    }

    /// Returns the current silence in the open utterance.
    pub fn silence(&self) -> Option<Duration> {
        self.endpointer.silence()
    }

    /// Returns the length of silence that ends the utterance.
    pub fn window(&self) -> Duration {
        self.endpointer.window()
    }

    /// Returns the length of silence at which the next event is due.
    pub fn next_event(&self) -> Duration {
        self.endpointer.next_event()
    }

    /// Counts this time, in which the client sends nothing, as silence.
    pub fn pass_silence(&mut self, length: Duration) -> Option<Endpoint> {
        self.endpointer.push(false, length)
    }

    /// Sets the length that the current silence must reach to end the utterance. Voice restores the
    /// default.
    pub fn choose_window(&mut self, window: Duration) {
        self.endpointer.choose_window(window);
    }

    /// Opens an utterance that was not started by voice and has lasted for `total`: from here on
    /// silence ends it.
    pub fn open(&mut self, total: Duration) {
        self.endpointer.open(total);
    }

    /// Ends the utterance unconditionally.
    pub fn end(&mut self) {
        self.endpointer.reset();
    }

    /// Discards the audio received so far.
    pub fn forget(&mut self) {
        self.recent.clear();
        self.classified = 0;
        if let Some(echo) = &mut self.echo {
            echo.forget();
        }
        self.endpointer.reset();
    }

    /// Discards the audio received so far, and the rest of the current speech: the next speech
    /// starts after a silence.
    pub fn discard(&mut self) {
        self.forget();
        self.endpointer.discard();
    }

    /// Returns true while the rest of earlier speech is discarded.
    pub fn is_discarding(&self) -> bool {
        self.endpointer.is_discarding()
    }

    /// Discards the audio and frees memory, because the microphone is closed. The noise floor stays
    /// for the next time that it opens.
    pub fn close(&mut self) {
        self.forget();
        // An idle decoder holds memory, and a new one costs no more than a packet and a half.
        // Decision 0022.
        self.decoder = None;
        self.recent = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::sound;

    /// Returns the samples of each utterance.
    fn utterances(detector: &mut UtteranceDetector, packets: &[Bytes]) -> Vec<Vec<i16>> {
        let mut found = Vec::new();
        let mut open = None;
        for packet in packets {
            detector.decode(packet, 0).unwrap();
            while let Some(classified) = detector.classify() {
                if let Some(Endpoint::Started { .. }) = classified.endpoint {
                    open = Some(Vec::new());
                }
                if let Some(utterance) = &mut open {
                    utterance.extend_from_slice(detector.sound(&classified));
                }
                if classified.endpoint == Some(Endpoint::Ended) {
                    found.extend(open.take());
                }
            }
        }
        found
    }

    /// Returns about a second of voice between silences, twice.
    fn two_utterances(rate_hz: u32, packet_ms: u64) -> Vec<Bytes> {
        let voice = sound::voice_in(1_200, rate_hz, packet_ms);
        let silence = sound::silence_in(1_800, rate_hz, packet_ms);
        [silence.clone(), voice.clone(), silence.clone(), voice, silence].concat()
    }

    #[test]
    fn an_utterance_is_one_stretch_of_the_sound_with_its_pre_roll() {
        for (rate_hz, packet_ms) in [(16_000, 60), (16_000, 20), (24_000, 40)] {
            let packets = two_utterances(rate_hz, packet_ms);
            let whole = sound::decoded(&packets);
            let mut from = 0;
            let found =
                utterances(&mut UtteranceDetector::new(HearingSettings::default()), &packets);
            assert_eq!(found.len(), 2, "{rate_hz} Hz, {packet_ms} ms");
            for utterance in found {
                let mut places = whole[from..].windows(utterance.len());
                from += places.position(|w| w == utterance).unwrap() + utterance.len();
                // Pre-roll, voice, and the silence that ends it.
                let ms = utterance.len() / 16;
                assert!((2_150..2_350).contains(&ms), "{rate_hz} Hz: {ms} ms");
            }
        }
    }

    #[test]
    fn a_closed_microphone_costs_no_memory_and_opens_again() {
        let mut detector = UtteranceDetector::new(HearingSettings::default());
        let packets = two_utterances(16_000, 60);
        let first = utterances(&mut detector, &packets);
        detector.close();
        assert!(detector.recent.capacity() == 0 && detector.decoder.is_none());
        assert_eq!(utterances(&mut detector, &packets).len(), first.len());
    }

    #[test]
    fn the_buffer_of_recent_samples_does_not_grow() {
        let mut detector = UtteranceDetector::new(HearingSettings::default());
        detector.decode(&sound::silence(60)[0], 0).unwrap();
        let room = detector.recent.capacity();
        utterances(&mut detector, &two_utterances(16_000, 60));
        assert_eq!(detector.recent.capacity(), room);
    }

    #[test]
    fn invalid_packets_are_reported() {
        let mut detector = UtteranceDetector::new(HearingSettings::default());
        assert_eq!(detector.decode(&[0; MAX_OPUS_BYTES + 1], 0), Err(PacketError::Oversized));
        assert!(matches!(detector.decode(&[0xff; 40], 0), Err(PacketError::Garbage(_))));
        assert!(detector.classify().is_none() && detector.unclassified().is_empty());
    }
}
