//! Pure sound: functions of samples and durations. No actix, no async, no sockets, no wall clock;
//! times are [`std::time::Duration`]s since a start that the caller chose.

pub mod ear;
pub mod endpointer;
pub mod opus;
pub mod pcm;
pub mod playout;
pub mod resample;
pub mod voice;
pub mod voicing;
