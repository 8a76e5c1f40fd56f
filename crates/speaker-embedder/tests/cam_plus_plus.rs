//! Checks that the real model on recorded speech computes the same as in ONNX Runtime, whose values
//! are below. Needs the model `cam-plus-plus` (`hearken models fetch cam-plus-plus`); skips without
//! it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

use std::path::PathBuf;

use hearken_audio::sound;
use hearken_base::testkit::models;
use hearken_ports::SpeakerEmbedder as _;
use hearken_speaker_embedder::{CamPlusPlus, Worker};

/// Recording, and the first elements of its vector in ONNX Runtime 1.31 on the features of kaldi-native-fbank 1.23.
const VECTORS: [(&str, [f32; 3]); 4] = [
    ("en_go_forward", [-0.0126, 0.0062, 0.1175]),
    ("en_go_somewhere", [-0.0704, -0.0351, 0.0996]),
    ("zh_trade_stalls", [-0.0882, 0.0182, 0.0832]),
    ("zh_trade_stalls_noisy", [-0.0556, 0.0682, 0.1008]),
];
/// Pairs of these recordings, and the similarity of their voices.
const ALIKE: [(usize, usize, f32); 3] = [(0, 1, 0.607), (2, 3, 0.940), (0, 2, 0.039)];

fn model() -> Option<PathBuf> {
    let file = models::fetched("cam-plus-plus");
    if file.is_none() {
        eprintln!("skipped: the model is missing; run `hearken models fetch cam-plus-plus`");
    }
    file
}

#[test]
fn vectors_match_onnx_runtime() {
    let Some(file) = model() else { return };
    let mut model = CamPlusPlus::load(&file).unwrap();
    let voices = VECTORS.map(|(name, known)| {
        let voice = model.embed(&sound::decoded(&sound::recorded(name))).unwrap();
        let near = voice.iter().zip(known).all(|(value, known)| (value - known).abs() < 0.002);
        assert!(near && voice.len() == 192, "{name}: {:?}, not {known:?}", &voice[..3]);
        voice
    });
    let alike = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    for (a, b, known) in ALIKE {
        let [one, other] = [&voices[a], &voices[b]];
        assert!((alike(one, one) - 1.0).abs() < 1e-4);
        let found = alike(one, other);
        assert!((found - known).abs() < 0.005, "{a}, {b}: {found}, not {known}");
    }
}

#[tokio::test]
async fn the_worker_uses_the_end_of_long_speech_and_refuses_a_single_word() {
    let Some(file) = model() else { return };
    let mut model = CamPlusPlus::load(&file).unwrap();
    let worker = Worker::start(file, 100).unwrap();
    let speech = sound::decoded(&sound::recorded("en_sorrow_with_pauses"));
    assert!(speech.len() > 80_000);
    let expected = model.embed(&speech[speech.len() - 80_000..]).unwrap();
    // A busy machine may take longer than the deadline of a turn.
    assert_eq!(worker.embed_recording(speech.clone()).await, Some(expected));
    assert_eq!(worker.embed_recording(speech[..7_999].to_vec()).await, None);
    assert_eq!(worker.embed(speech[..7_999].to_vec()).await, None);
}

#[test]
fn too_little_speech_is_refused() {
    let Some(file) = model() else { return };
    let mut model = CamPlusPlus::load(&file).unwrap();
    for samples in [0, 399, 1_000] {
        let error = model.embed(&vec![0; samples]).unwrap_err().to_string();
        assert!(error.contains("too short"), "{error}");
    }
    assert!(model.embed(&[0; 16_000]).is_ok());
}
