//! Hot paths of a packet from end to end, without the actors: for benchmarks and for counting
//! allocations. Not for the decisions of an actor.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::FutureExt as _;
use hearken_audio::endpointer::Endpoint;
use hearken_audio::speech_encoder::SpeechEncoder;
use hearken_audio::utterance_detector::UtteranceDetector;
use hearken_audio::{HearingSettings, SpeakingSettings};
use hearken_proto::device::{AudioPacket, Framing};

use crate::utterance_channel::{AudioReceiver, AudioSender, Piece, channel};

/// Path from a device's packets to the recogniser.
pub struct Uplink {
    detector: UtteranceDetector,
    lane: (AudioSender, AudioReceiver),
    open: bool,
}

impl Default for Uplink {
    fn default() -> Self {
        Self {
            detector: UtteranceDetector::new(HearingSettings::default()),
            lane: channel(8),
            open: false,
        }
    }
}

impl Uplink {
    /// Returns true while an utterance is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Processes one packet and returns the number of samples for the recogniser.
    ///
    /// # Panics
    /// Panics if it is not Opus.
    pub fn packet(&mut self, opus: &[u8]) -> usize {
        self.detector.decode(opus, 0).expect("a packet of Opus");
        let (sender, receiver) = &mut self.lane;
        let mut samples = 0;
        while let Some(judged) = self.detector.classify() {
            self.open |= matches!(judged.endpoint, Some(Endpoint::Started { .. }));
            if self.open {
                assert!(sender.send(self.detector.sound(&judged)), "the channel is read at once");
                if let Some(Some(Piece::Sound(sound))) = receiver.recv().now_or_never() {
                    samples += sound.len();
                }
            }
            self.open &= judged.endpoint != Some(Endpoint::Ended);
        }
        samples
    }
}

/// Maximum number of packets that wait to be due while synthesis runs ahead.
const AHEAD: usize = 250;

/// Path from a synthesiser's samples to a device's socket.
pub struct Downlink {
    voice: SpeechEncoder,
    framing: Framing,
    rate_hz: u32,
    waiting: VecDeque<Bytes>,
}

impl Downlink {
    /// Creates the path of a synthesiser with this rate.
    ///
    /// # Panics
    /// Panics if libopus refuses the settings.
    pub fn new(settings: &SpeakingSettings, rate_hz: u32) -> Self {
        let voice = SpeechEncoder::new(settings).expect("settings that libopus accepts");
        let waiting = VecDeque::with_capacity(AHEAD);
        Self { voice, framing: Framing::V1, rate_hz, waiting }
    }

    /// Processes some samples and returns the number of bytes for the device.
    ///
    /// # Panics
    /// Panics if they cannot be resampled or encoded.
    pub fn samples(&mut self, samples: &[i16]) -> usize {
        self.voice.push(samples, self.rate_hz).expect("a rate that can be resampled");
        let mut bytes = 0;
        while let Some(opus) = self.voice.packet().expect("a legal frame") {
            let packet = self.framing.encode(&AudioPacket { opus, timestamp_ms: 0 });
            bytes += packet.len();
            if self.waiting.len() == AHEAD {
                self.waiting.pop_front();
            }
            self.waiting.push_back(packet);
        }
        bytes
    }
}
