//! Checks that the real model on recorded speech judges as in ONNX Runtime, whose values are below.
//! Needs the model `smart-turn`, which `scripts/engines` fetches; skips without it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

use hearken_audio::sound;
use hearken_base::testkit::models;
use hearken_turn_detector::SmartTurn;

/// Recording, number of its samples that are judged, and the probability in ONNX Runtime 1.32 with
/// the features of pipecat-ai 1.14.0. If quantised values are rounded differently, results differ
/// by up to 0.1.
const JUDGED: [(&str, usize, f32); 7] = [
    ("en_sorrow_with_pauses", 54_400, 0.0075),
    ("en_sorrow_with_pauses", 92_800, 0.0069),
    ("en_set_volume", 28_800, 0.9854),
    ("en_set_volume", 67_200, 0.9889),
    ("zh_guangzhou_housing", 41_600, 0.8498),
    ("zh_guangzhou_housing", 54_400, 0.9854),
    ("zh_guangzhou_housing", 67_200, 0.9893),
];

#[test]
fn judgements_match_onnx_runtime() {
    let Some(file) = models::fetched("smart-turn") else {
        return eprintln!("skipped: the model smart-turn is missing; run scripts/engines");
    };
    let mut model = SmartTurn::load(&file).unwrap();
    for (name, samples, expected) in JUDGED {
        let speech = sound::decoded(&sound::recorded(name));
        let judged = model.judge(&speech[..samples]).unwrap();
        let known = (judged - expected).abs() <= if expected < 0.5 { 0.01 } else { 0.1 };
        assert!(known, "{name}, {samples} samples: {judged}, not {expected}");
    }
}
