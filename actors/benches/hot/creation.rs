//! Objects that are created per connection, utterance, turn or sentence. Not for their use.

use hearken_audio::opus::{Decoder, Encoder};
use hearken_audio::resample::Resampler;
use hearken_audio::speech_encoder::SpeechEncoder;
use hearken_audio::voice_detector::VoiceDetector;

use crate::speaking;

#[divan::bench]
fn decoder() -> Decoder {
    Decoder::new(16_000).unwrap()
}

#[divan::bench]
fn encoder() -> Encoder {
    Encoder::new(24_000, 24_000, 5).unwrap()
}

#[divan::bench]
fn voicing() -> VoiceDetector {
    VoiceDetector::new(2, 80.0, 1.6)
}

#[divan::bench]
fn resampler_from_22050() -> Resampler {
    Resampler::new(22_050, 24_000).unwrap()
}

#[divan::bench]
fn resampler_from_16000() -> Resampler {
    Resampler::new(16_000, 24_000).unwrap()
}

#[divan::bench]
fn voice() -> SpeechEncoder {
    SpeechEncoder::new(&speaking()).unwrap()
}
