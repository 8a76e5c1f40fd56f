//! Counts of judgements, by kind of sound and by firmware version. Pure. A single reply is in `judge`.

use std::time::Duration;

use super::judge::Judgement;
use super::plan::Kind;

/// Result of one kind of sound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Conversations with a reply.
    pub conversations: usize,
    /// Conversations without a reply, and therefore without a sound over it.
    pub without_reply: usize,
    /// Replies that ended early.
    pub ended: usize,
    /// Replies that ended or paused before the sound.
    pub early: usize,
    /// Correct conversations: the reply ended if it should, followed by an answer if there should
    /// be one, or continued.
    pub right: usize,
    /// Numbers of the other conversations, in ascending order once complete.
    pub wrong: Vec<usize>,
    /// Replies that paused and resumed.
    pub resumed: usize,
    /// Times from voice to silence at the socket, in ascending order once complete.
    pub to_silence_sent: Vec<Duration>,
    /// Times from voice to silence at the loudspeaker, in ascending order once complete.
    pub to_silence_heard: Vec<Duration>,
    /// Lengths of pauses, in ascending order once complete.
    pub pauses: Vec<Duration>,
    /// Answers that started after the voice and were not played to the end.
    pub broken: usize,
    /// Sentences that were repeated though they had been played to the end.
    pub again: usize,
    /// Audio that was played twice because its sentence had broken off.
    pub heard_twice: Duration,
    /// Audio of completed replies that was never played.
    pub unheard: Duration,
}

impl Found {
    /// Adds the conversation with this number.
    pub fn add(&mut self, number: usize, kind: Kind, judgement: &Judgement) {
        if !judgement.replied {
            self.without_reply += 1;
            return;
        }
        let Judgement { ended, answered, .. } = *judgement;
        self.conversations += 1;
        self.ended += usize::from(ended);
        self.early += usize::from(judgement.early);
        let fits = answered == kind.is_answered() && !judgement.early;
        let right = ended == kind.ends_reply() && (!ended || fits);
        self.right += usize::from(right);
        self.wrong.extend((!right).then_some(number));
        self.resumed += usize::from(!ended && !judgement.pauses.is_empty());
        self.to_silence_sent.extend(judgement.to_silence_sent);
        self.to_silence_heard.extend(judgement.to_silence_heard);
        self.pauses.extend_from_slice(&judgement.pauses);
        self.broken += judgement.broken;
        self.again += judgement.again;
        self.heard_twice += judgement.heard_twice;
        self.unheard += judgement.unheard;
    }

    pub(super) fn sort(&mut self) {
        self.wrong.sort_unstable();
        for times in [&mut self.to_silence_sent, &mut self.to_silence_heard, &mut self.pauses] {
            times.sort();
        }
    }
}

/// Result of one firmware version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions {
    /// Conversations with a reply.
    pub conversations: usize,
    /// Pauses after which a reply resumed.
    pub pauses: usize,
    /// Replies that ended early.
    pub ended: usize,
    /// Packets that the device lost or cut, of replies that did not end early.
    pub lost: usize,
    /// Packets that the device lost or cut, of replies that ended early.
    pub lost_at_end: usize,
    /// Underruns inside sentences, apart from pauses.
    pub gaps: usize,
    /// Packets that started to play after the end of their reply.
    pub stale: usize,
}

impl Versions {
    /// Adds a conversation.
    pub fn add(&mut self, judgement: &Judgement) {
        let lost = if judgement.ended { &mut self.lost_at_end } else { &mut self.lost };
        *lost += judgement.lost;
        self.conversations += usize::from(judgement.replied);
        self.pauses += judgement.pauses.len();
        self.ended += usize::from(judgement.ended);
        self.gaps += judgement.gaps;
        self.stale += judgement.stale;
    }
}
