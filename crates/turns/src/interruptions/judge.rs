//! Judges the effect of a sound over a reply, from what the server sent and the device played.
//! Pure. Whether the effect is correct is decided in `score`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hearken_virtual_device::sound::PACKET;

use super::plan::packets;
use crate::acted::{Played, Scene, Seen, Sent, Tag};

/// A gap of this length between packets of a reply is a pause; its packets are 60 ms apart.
const PAUSE: Duration = Duration::from_millis(300);

/// Effect on the reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// False if no reply was played before the sound.
    pub replied: bool,
    /// The reply ended before its last sentence was played to the end.
    pub ended: bool,
    /// The reply ended or paused before the voice reached the server.
    pub early: bool,
    /// Another reply followed after it had ended.
    pub answered: bool,
    /// Lengths of its pauses, after each of which it resumed.
    pub pauses: Vec<Duration>,
    /// Time from the arrival of the first packet with the voice to the last packet of the reply
    /// before silence.
    pub to_silence_sent: Option<Duration>,
    /// Time from the start of the voice to the end of the last packet played before silence.
    pub to_silence_heard: Option<Duration>,
    /// Number of sentences that were repeated though they had been played to the end.
    pub again: usize,
    /// Audio that was played twice because its sentence had broken off.
    pub heard_twice: Duration,
    /// Audio of a completed reply that was never played.
    pub unheard: Duration,
    /// Packets of the reply that the device lost or cut.
    pub lost: usize,
    /// Underruns inside sentences, apart from pauses.
    pub gaps: usize,
    /// Packets of the reply that started to play after `tts stop`.
    pub stale: usize,
    /// Answers that started after the voice and were not played to the end.
    pub broken: usize,
}

/// Judges a conversation.
pub fn judge(scene: &Scene, seen: &Seen) -> Judgement {
    let of_reply = |tag: &Tag| tag.reply == 1 && tag.sentence < scene.reply.len();
    let played: Vec<Played> = seen.played.iter().filter(|p| of_reply(&p.tag)).copied().collect();
    let sent: Vec<Duration> = seen
        .sent
        .iter()
        .filter(|(_, sent)| matches!(sent, Sent::Packet(tag) if of_reply(tag)))
        .map(|(at, _)| *at)
        .collect();
    let (Some(voice), Some(_)) = (&seen.over, played.first()) else {
        return Judgement::default();
    };
    let heard = Heard::of(&played, lengths(scene, seen));
    let missing = heard.missing();
    let ended = scene.reply.len().checked_sub(1).is_some_and(|last| heard.lacks_end(last));
    let reached = seen.heard.iter().find(|(recorded, _)| *recorded > voice.start);
    let came = reached.map_or(voice.start, |(_, came)| *came);
    let stopped = seen.sent.iter().position(|(_, sent)| *sent == Sent::Stop);
    let after = stopped.map_or(&[][..], |at| &seen.sent[at..]);
    let told = seen.stopped.first().copied().unwrap_or(Duration::MAX);
    let spans = played.iter().map(|p| (p.at, p.at + p.length));
    let early = sent.windows(2).any(|pair| pair[1] <= came && pair[1] - pair[0] >= PAUSE)
        || (ended && sent.last().is_some_and(|last| *last + PAUSE < came));
    Judgement {
        replied: true,
        ended,
        early,
        answered: ended && after.iter().any(|(_, sent)| *sent == Sent::Start),
        pauses: pauses(&sent, came),
        to_silence_sent: silent_from(sent.iter().map(|at| (*at, *at)), came, ended)
            .filter(|_| !early)
            .map(|at| at.saturating_sub(came)),
        to_silence_heard: silent_from(spans, voice.start, ended)
            .filter(|_| !early)
            .map(|at| at.saturating_sub(voice.start)),
        again: heard.again_though_whole(),
        heard_twice: PACKET * u32::try_from(heard.twice).unwrap_or(u32::MAX),
        unheard: PACKET * if ended { 0 } else { u32::try_from(missing).unwrap_or(u32::MAX) },
        lost: seen.lost.iter().filter(|(_, _, tag)| of_reply(tag)).count(),
        gaps: seen.gaps.iter().filter(|(_, _, tag)| of_reply(tag) && tag.packet > 0).count(),
        stale: played.iter().filter(|p| p.at > told).count(),
        broken: broken(scene, seen, voice.end),
    }
}

/// Counts the answers that start after this time and are not played to the end.
fn broken(scene: &Scene, seen: &Seen, after: Duration) -> usize {
    let answers = seen.played.iter().filter(|p| p.tag.reply > 1);
    let mut packets_heard: BTreeMap<usize, (Duration, usize)> = BTreeMap::new();
    for Played { at, tag, .. } in answers {
        let (_, heard) = packets_heard.entry(tag.reply).or_insert((*at, 0));
        *heard = (*heard).max(tag.packet + 1);
    }
    let late = packets_heard.values().filter(|(begun, _)| *begun > after);
    late.filter(|(_, heard)| *heard < packets(&scene.other)).count()
}

/// Returns the number of packets of each sentence, at least those that its audio fills.
fn lengths(scene: &Scene, seen: &Seen) -> Vec<usize> {
    let mut lengths: Vec<usize> = scene.reply.iter().map(packets).collect();
    for (_, sent) in &seen.sent {
        if let Sent::Packet(Tag { reply: 1, sentence, packet }) = sent
            && let Some(length) = lengths.get_mut(*sentence)
        {
            *length = (*length).max(packet + 1);
        }
    }
    lengths
}

/// Returns the lengths of the pauses that end after this time.
fn pauses(sent: &[Duration], from: Duration) -> Vec<Duration> {
    let pairs = sent.windows(2).filter(|pair| pair[1] > from);
    pairs.map(|pair| pair[1] - pair[0]).filter(|pause| *pause >= PAUSE).collect()
}

/// Returns the start of the first silence that ends after this time; the end of the reply counts as
/// silence if it `ended` early.
fn silent_from(
    spans: impl Iterator<Item = (Duration, Duration)>,
    from: Duration,
    ended: bool,
) -> Option<Duration> {
    let mut last: Option<Duration> = None;
    for (begins, ends) in spans {
        if let Some(quiet) = last.filter(|quiet| begins > from && begins >= *quiet + PAUSE) {
            return Some(quiet);
        }
        last = Some(ends);
    }
    last.filter(|_| ended)
}

/// Playback of a reply.
struct Heard {
    /// Packets in the order of playback, and whether each was played to the end.
    order: Vec<(Tag, bool)>,
    known: BTreeSet<(usize, usize)>,
    /// Number of packets that were played again.
    twice: usize,
    /// Number of packets of each sentence.
    lengths: Vec<usize>,
}

impl Heard {
    fn of(played: &[Played], lengths: Vec<usize>) -> Self {
        let place = |tag: &Tag| (tag.sentence, tag.packet);
        let mut known = BTreeSet::new();
        let order: Vec<(Tag, bool)> = played.iter().map(|p| (p.tag, p.length >= PACKET)).collect();
        let twice = order.iter().filter(|(tag, _)| !known.insert(place(tag))).count();
        Self { order, known, twice, lengths }
    }

    /// Returns the number of packets that were never played.
    fn missing(&self) -> usize {
        let all = self.lengths.iter().enumerate();
        let all = all.flat_map(|(place, length)| (0..*length).map(move |n| (place, n)));
        all.filter(|packet| !self.known.contains(packet)).count()
    }

    /// Reports whether the end of this sentence was not played.
    fn lacks_end(&self, sentence: usize) -> bool {
        let last = self.lengths[sentence].saturating_sub(1);
        !self.known.contains(&(sentence, last))
    }

    /// Counts the sentences that restarted after they had been played to the end.
    fn again_though_whole(&self) -> usize {
        let begins = |n: &usize| self.order[*n].0.packet == 0;
        let was_whole = |n: &usize| {
            let sentence = self.order[*n].0.sentence;
            let packets = self.lengths[sentence];
            let before: BTreeSet<usize> = self.order[..*n]
                .iter()
                .filter(|(tag, whole)| *whole && tag.sentence == sentence)
                .map(|(tag, _)| tag.packet)
                .collect();
            (0..packets).all(|packet| before.contains(&packet))
        };
        (0..self.order.len()).filter(begins).filter(was_whole).count()
    }
}
