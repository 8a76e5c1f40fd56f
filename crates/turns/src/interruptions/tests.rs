//! Interruptions with synthetic voices: the default policy acts correctly, wrong policies are
//! detected, and constructed conversations are judged correctly.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hearken_audio::pcm;
use hearken_virtual_device::events::Loss;
use hearken_virtual_device::sound::{PACKET, UPLINK_RATE_HZ};

use super::sounds::samples_in;
use super::*;
use crate::acted::{Played, Scene, Seen, Sent, Tag};
use crate::device::{Network, Upstreams};
use crate::policy;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A buzzing voice.
fn buzz(length: Duration) -> Vec<i16> {
    let samples = samples_in(length);
    let tones = [150.0, 300.0, 450.0, 900.0].map(|hz| pcm::tone(hz, samples, UPLINK_RATE_HZ));
    (0..samples).map(|n| tones.iter().map(|tone| tone[n] / 4).sum()).collect()
}

/// Synthetic voices in one language.
pub(crate) fn voices(language: &str) -> Voices {
    let mut voices = Voices::new(language);
    voices.add(buzz(ms(1_200)), false, true);
    voices.add(buzz(ms(2_950)), true, true);
    voices
}

pub(crate) fn conditions() -> Conditions {
    let upstreams =
        Upstreams { recogniser: ms(250), model: ms(350), synthesiser: ms(150), partials: None };
    Conditions { detector: None, network: Network { jitter: ms(60) }, upstreams, jobs: 1 }
}

/// Plays a conversation with this policy, and judges it.
fn act(policy: &str, language: &str, kind: Kind, seed: u64) -> Judgement {
    let mut settings = policy::parse(policy).unwrap().remove(0).settings;
    settings.dialogue.language = spoken(language);
    let scene = scene(&voices(language), kind, seed, &conditions());
    judge(&scene, &acted::play(&scene, settings, None))
}

#[test]
fn a_backchannel_pauses_a_reply_and_ends_it_with_wrong_policies() {
    let empty = "interruption.backchannels_zh=[], interruption.backchannels_en=[]";
    for (language, seed, wrong) in [("zh", 3, empty), ("en", 4, "interruption.pause=false")] {
        let right = act("", language, Kind::Backchannel, seed);
        assert!(right.replied && !right.ended, "{right:?}");
        assert!(matches!(right.pauses[..], [pause] if pause < ms(2_000)), "{right:?}");
        let faults = (right.again, right.unheard, right.lost, right.gaps, right.stale);
        assert_eq!(faults, (0, ms(0), 0, 0, 0));
        let found = act(wrong, language, Kind::Backchannel, seed);
        assert!(found.ended, "{wrong}: {found:?}");
    }
}

#[test]
fn words_end_a_reply_and_only_stop_words_are_not_answered() {
    for (kind, answered) in [(Kind::Words, true), (Kind::Answer, true), (Kind::StopWords, false)] {
        let found = act("", "zh", kind, 5);
        assert_eq!((found.ended, found.answered), (true, answered), "{kind:?}: {found:?}");
        assert!(found.to_silence_sent.unwrap() < ms(300), "{kind:?}: {found:?}");
        assert_eq!((found.gaps, found.stale), (0, 0), "{kind:?}: {found:?}");
    }
}

/// A reply of two sentences of ten packets, of which these packets were played, each range this
/// long after the previous one.
fn played(packets: &[(Range<usize>, usize, Duration)]) -> (Scene, Seen) {
    let mut scene = scene(&voices("en"), Kind::Words, 1, &conditions());
    scene.reply.truncate(2);
    for sentence in &mut scene.reply {
        sentence.sound = Arc::from(vec![1; samples_in(PACKET * 10)]);
    }
    let mut seen = Seen { over: Some(ms(1_200)..ms(2_000)), ..Seen::default() };
    seen.heard = vec![(ms(1_180), ms(1_200)), (ms(1_240), ms(1_290))];
    let mut at = ms(1_000);
    for (range, sentence, pause) in packets {
        at += *pause;
        for packet in range.clone() {
            let tag = Tag { reply: 1, sentence: *sentence, packet };
            seen.sent.push((at, Sent::Packet(tag)));
            seen.played.push(Played { at: at + ms(50), length: PACKET, tag });
            at += PACKET;
        }
    }
    (scene, seen)
}

#[test]
fn a_reply_that_repeats_its_interrupted_sentence_is_judged_as_resumed() {
    let (scene, seen) = played(&[(0..7, 0, ms(0)), (0..10, 0, ms(900)), (0..10, 1, ms(0))]);
    let found = judge(&scene, &seen);
    let expected = Judgement {
        replied: true,
        pauses: vec![ms(960)],
        // The packet with the voice arrived at 1,290 ms, and the last one of the reply was sent at 1,360.
        to_silence_sent: Some(ms(70)),
        to_silence_heard: Some(ms(1_470 - 1_200)),
        heard_twice: PACKET * 7,
        ..Judgement::default()
    };
    assert_eq!(found, expected);
}

#[test]
fn repeated_lost_and_stale_audio_is_counted() {
    let (scene, seen) = played(&[(0..10, 0, ms(0)), (0..10, 0, ms(900)), (0..10, 1, ms(0))]);
    assert_eq!(judge(&scene, &seen).again, 1);
    let (scene, mut seen) = played(&[(0..6, 0, ms(0)), (0..10, 1, ms(900))]);
    seen.lost.push((ms(9), Loss::QueueFull, Tag { reply: 1, sentence: 0, packet: 7 }));
    seen.gaps.push((ms(9), ms(30), Tag { reply: 1, sentence: 1, packet: 7 }));
    let found = judge(&scene, &seen);
    assert_eq!((found.ended, found.unheard), (false, PACKET * 4));
    assert_eq!((found.lost, found.gaps), (1, 1));
    // A reply that ends is answered, and one of its packets plays after its end.
    let (scene, mut seen) = played(&[(0..7, 0, ms(0))]);
    seen.sent.extend([(ms(1_500), Sent::Stop), (ms(2_000), Sent::Start)]);
    seen.stopped.push(ms(1_350));
    let found = judge(&scene, &seen);
    assert_eq!((found.ended, found.answered, found.stale), (true, true, 1));
    assert_eq!(found.to_silence_sent, Some(ms(70)));
    assert!(!found.early && found.broken == 0);
    // An answer to it that breaks off without a voice over it is counted.
    let tag = Tag { reply: 2, ..Tag::default() };
    seen.played.push(Played { at: ms(3_000), length: PACKET, tag });
    assert_eq!(judge(&scene, &seen).broken, 1);
    // A reply may have ended before the voice.
    let (scene, mut seen) = played(&[(0..4, 0, ms(0))]);
    seen.over = Some(ms(2_200)..ms(3_000));
    seen.heard.push((ms(2_240), ms(2_300)));
    let found = judge(&scene, &seen);
    assert_eq!((found.ended, found.early, found.to_silence_sent), (true, true, None));
    assert_eq!(judge(&scene, &Seen::default()), Judgement::default());
}

#[test]
fn scores_count_correct_replies_and_appear_in_the_table() {
    let mut found = Found::default();
    let ended = Judgement { replied: true, ended: true, ..Judgement::default() };
    let resumed = Judgement { replied: true, pauses: vec![ms(900)], ..Judgement::default() };
    for (number, judgement) in [&ended, &resumed, &Judgement::default()].into_iter().enumerate() {
        found.add(number, Kind::Backchannel, judgement);
    }
    assert_eq!((found.conversations, found.without_reply), (2, 1));
    assert_eq!((found.ended, found.right, found.resumed), (1, 1, 1));
    // An answer after stop words is wrong.
    let mut stop = Found::default();
    stop.add(1, Kind::StopWords, &Judgement { answered: true, ..ended.clone() });
    // So is a reply that had ended before them.
    stop.add(1, Kind::StopWords, &Judgement { early: true, ..ended.clone() });
    stop.add(1, Kind::StopWords, &ended);
    assert_eq!((stop.ended, stop.early, stop.right), (3, 1, 1));
    let kinds = Groups::from([(Kind::Backchannel.name().to_owned(), found)]);
    let found = Groups::from([("zh".to_owned(), kinds)]);
    let outcomes = [Outcome { found, versions: Groups::new() }];
    let policies = policy::parse("").unwrap();
    let text = table(&policies, &outcomes);
    let row = "| zh | the defaults | a backchannel | 2 | 1 | 50.0 | 1 | 50.0 | 0 | 1 \
        | -, - | 0.0 | -, - | 900, 900 | 0 | 0.0 | 0.0 | 0 |";
    assert!(text.contains(row), "{text}");
    let json = json(&policies, &outcomes);
    assert_eq!((&json[0]["ended"], &json[0]["wrong"]), (&1.into(), &serde_json::json!([0])));
}
