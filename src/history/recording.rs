//! A stored turn as a recording, for replay in tests. Not for the format of recordings, which is in
//! [`hearken_proto::recording`].

use std::time::Duration;

use hearken_ports::store::HistoryTurn;
use hearken_proto::recording::{Content, Expect, Frame, Header, Recording};
use hearken_virtual_device::sound::{LISTEN_AFTER, recording_of};
use serde_json::json;

use super::sound::{PACKET, packets};
use crate::turn_json::Timing;

/// Maximum share of characters or words that a replay may recognise differently.
const MAX_ERROR: f64 = 0.25;

/// Returns a recording with the user's audio of this turn; a replay expects the same transcript.
/// Includes the audio of the answer, if it is stored.
pub fn recording(turn: &HistoryTurn, heard: &[u8], said: Option<&[u8]>) -> Recording {
    let first_ms = packets(heard).next().map_or(0, |(at_ms, _)| at_ms);
    // Converts a time of the turn to a time of the recording.
    let at = |at_ms: f64| {
        let since = (at_ms - f64::from(first_ms)).max(0.0) / 1_000.0;
        LISTEN_AFTER + Duration::try_from_secs_f64(since).unwrap_or_default()
    };
    let timing: Timing = serde_json::from_str(&turn.timing).unwrap_or_default();
    let header = Header {
        title: Some(format!("turn {} of {}", turn.turn_id, turn.client)),
        notes: Some(format!("began {}", turn.began)),
        speech_end_s: timing.speech_end_ms().map(|end_ms| at(end_ms).as_secs_f64()),
        expect: Some(expected(turn)),
        ..Header::default()
    };
    let spoken = packets(heard).map(|(_, opus)| (opus.to_vec().into(), PACKET));
    let mut recording = recording_of(header, spoken);
    if !turn.heard.is_empty() {
        let end = recording.frames.last().map(|frame| frame.at).unwrap_or_default();
        let told = json!({"type": "stt", "text": turn.heard});
        recording.frames.push(Frame { at: end, content: Content::Down(told) });
    }
    let answer = packets(said.unwrap_or_default()).map(|(at_ms, opus)| Frame {
        at: at(f64::from(at_ms)),
        content: Content::DownAudio(opus.to_vec().into()),
    });
    recording.frames.extend(answer);
    recording.frames.sort_by_key(|frame| frame.at);
    recording
}

fn expected(turn: &HistoryTurn) -> Expect {
    let transcript = Some(turn.heard.clone()).filter(|heard| !heard.is_empty());
    let max_error = transcript.as_ref().map(|_| MAX_ERROR);
    let reply = (turn.outcome == "answered").then_some(true);
    Expect { transcript, max_error, reply, ..Expect::default() }
}
