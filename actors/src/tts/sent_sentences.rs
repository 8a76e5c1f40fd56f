//! Sentences that were sent to the socket and may not have been heard: after an interruption they
//! are sent again. Not for deciding where to resume.

use std::collections::VecDeque;

use crate::messages::PlaybackStep;

/// Steps of the newest sentences.
#[derive(Default)]
pub(super) struct SentSentences {
    /// Number of the first stored sentence.
    first: usize,
    sentences: VecDeque<Vec<PlaybackStep>>,
    /// True if the reply was given up after the last sentence.
    given_up: bool,
}

impl SentSentences {
    /// Stores a step that is sent, if it is part of a sentence.
    pub(super) fn keep(&mut self, step: &PlaybackStep) {
        match step {
            PlaybackStep::SentenceStart(_) => {
                // `GivenUp` may have been on its way when the person spoke: then the socket has
                // dropped it.
                let given_up = std::mem::take(&mut self.given_up).then_some(PlaybackStep::GivenUp);
                self.sentences.push_back(given_up.into_iter().chain([step.clone()]).collect());
            }
            PlaybackStep::GivenUp => self.given_up = true,
            PlaybackStep::Packet(_)
            | PlaybackStep::SentenceEnd(_)
            | PlaybackStep::SentenceBroken(_) => {
                if let Some(sentence) = self.sentences.back_mut() {
                    sentence.push(step.clone());
                }
            }
            PlaybackStep::Emotion(_)
            | PlaybackStep::Start
            | PlaybackStep::Resumed { .. }
            | PlaybackStep::Stop => {}
        }
    }

    /// Removes the stored sentences among the first `heard`, except the newest one.
    pub(super) fn forget(&mut self, heard: usize) {
        while self.first < heard && self.sentences.len() > 1 {
            self.sentences.pop_front();
            self.first += 1;
        }
    }

    /// Takes the steps of all sentences after the first `from`. Also returns the number of
    /// sentences that are not repeated.
    pub(super) fn take_from(&mut self, from: usize) -> (usize, Vec<PlaybackStep>) {
        let from = from.clamp(self.first, self.first + self.sentences.len());
        let given_up = std::mem::take(&mut self.given_up).then_some(PlaybackStep::GivenUp);
        let again = self.sentences.drain(from - self.first..).flatten().chain(given_up).collect();
        (from, again)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn sentence(name: &str) -> [PlaybackStep; 3] {
        let packet = PlaybackStep::Packet(Bytes::copy_from_slice(name.as_bytes()));
        [PlaybackStep::SentenceStart(name.into()), packet, PlaybackStep::SentenceEnd(name.into())]
    }

    #[test]
    fn unheard_sentences_are_sent_again_in_order() {
        let mut sent = SentSentences::default();
        let steps: Vec<PlaybackStep> = ["a", "b", "c"].iter().flat_map(|s| sentence(s)).collect();
        sent.keep(&PlaybackStep::Start);
        steps.iter().for_each(|step| sent.keep(step));
        sent.forget(1);
        assert_eq!(sent.take_from(1), (1, steps[3..].to_vec()));
        // They are stored again when they are sent again.
        assert_eq!(sent.take_from(1), (1, Vec::new()));
        steps[3..].iter().for_each(|step| sent.keep(step));
        assert_eq!(sent.take_from(2), (2, steps[6..].to_vec()));
    }

    #[test]
    fn a_reply_that_was_given_up_stays_given_up() {
        let mut sent = SentSentences::default();
        let answer = sentence("a");
        let apology = sentence("sorry");
        let steps = [&answer[..], &[PlaybackStep::GivenUp][..], &apology[..]].concat();
        steps.iter().for_each(|step| sent.keep(step));
        sent.forget(1);
        assert_eq!(sent.take_from(1), (1, steps[3..].to_vec()));
        // Nothing has followed yet.
        let mut sent = SentSentences::default();
        steps[..4].iter().for_each(|step| sent.keep(step));
        assert_eq!(sent.take_from(1), (1, vec![PlaybackStep::GivenUp]));
    }

    #[test]
    fn removed_sentences_are_not_repeated_and_the_newest_is_never_removed() {
        let mut sent = SentSentences::default();
        let steps: Vec<PlaybackStep> = ["a", "b"].iter().flat_map(|s| sentence(s)).collect();
        steps.iter().for_each(|step| sent.keep(step));
        sent.forget(9);
        assert_eq!(sent.take_from(0), (1, steps[3..].to_vec()));
        assert_eq!(sent.take_from(9), (1, Vec::new()));
        assert_eq!(SentSentences::default().take_from(3), (0, Vec::new()));
    }
}
