//! Pure audio processing: functions of samples and durations. No actix, no async, no sockets, no
//! wall clock; times are [`std::time::Duration`]s since a start that the caller chose.

pub mod echo;
pub mod echo_canceller;
pub mod echo_guard;
pub mod echo_lag;
pub mod endpointer;
pub mod expected_echo;
pub mod files;
pub mod octaves;
pub mod opus;
pub mod pcm;
pub mod playout;
pub mod recent_speech;
pub mod resample;
mod settings;
#[cfg(feature = "testkit")]
pub mod sound;
pub mod speech_encoder;
pub mod utterance_detector;
pub mod voice_detector;

pub use settings::{HearingSettings, SpeakingSettings};
