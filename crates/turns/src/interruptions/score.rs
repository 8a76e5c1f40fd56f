//! Counts of what became of replies: by what was heard over them, and by the version of the firmware. Pure. Not for one
//! reply.

use std::time::Duration;

use super::judge::Judgement;
use super::plan::Kind;

/// What was found of one kind of interruption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Conversations with a reply.
    pub conversations: usize,
    /// Conversations in which no reply came, so that nothing could be heard over it.
    pub without_reply: usize,
    /// Replies that ended.
    pub ended: usize,
    /// Replies that ended or paused before anything was to be heard over them.
    pub early: usize,
    /// Replies that did what they should: ended for what was heard, and were followed by an answer or none; or went on.
    pub right: usize,
    /// Numbers of the conversations whose replies did not, in order once it is complete.
    pub wrong: Vec<usize>,
    /// Replies that paused and went on.
    pub resumed: usize,
    /// Times from voice to silence at the socket, in order once it is complete.
    pub to_silence_sent: Vec<Duration>,
    /// The same at the loudspeaker.
    pub to_silence_heard: Vec<Duration>,
    /// Lengths of pauses, in order once it is complete.
    pub pauses: Vec<Duration>,
    /// Answers that began when nobody spoke any more, and were not heard to their ends.
    pub broken: usize,
    /// Sentences that were said again though they had been heard to their ends.
    pub again: usize,
    /// Sound of sentences that had broken off, heard a second time.
    pub heard_twice: Duration,
    /// Sound of replies that went on, never heard.
    pub unheard: Duration,
}

impl Found {
    /// Adds the conversation of this number.
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

/// What was found of one version of the firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions {
    /// Conversations with a reply.
    pub conversations: usize,
    /// Pauses after which a reply went on.
    pub pauses: usize,
    /// Replies that ended early.
    pub ended: usize,
    /// Packets that the device lost or cut, of replies that did not end early.
    pub lost: usize,
    /// The same of replies that ended early.
    pub lost_at_end: usize,
    /// Silences inside sentences that were no pauses.
    pub gaps: usize,
    /// Packets that began to play after the end of their reply had been told.
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
