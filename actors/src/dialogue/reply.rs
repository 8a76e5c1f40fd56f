//! One turn's words on their way to the face: made speakable, with a face shown once, and with an
//! eye on how long they take to say. Not for where they come from.

use std::time::Duration;

use hearken_proto::device::Emotion;
use tokio::time::Instant;

use super::history::estimated_seconds;
use super::speakable::Speakable;
use super::turn::{Said, Sentence, Turn, TurnEvent, TurnSink};
use crate::tools::ToolSettings;

/// A call that is over sooner is not bridged, however long the silence before it was.
const SHORT_CALL: Duration = Duration::from_millis(500);

/// What is said in a turn.
pub(super) struct Reply<'a> {
    pub(super) turn: &'a Turn,
    pub(super) said: Vec<Said>,
    pub(super) face: Face,
    /// A phrase has bridged a tool's time.
    pub(super) bridged: bool,
    /// Nobody listens any more: the turn was cut, or its voice has failed.
    pub(super) unheard: bool,
    out: &'a TurnSink,
    speakable: Speakable,
    /// When everything said so far has been spoken, roughly.
    quiet_from: Instant,
}

impl<'a> Reply<'a> {
    pub(super) fn new(turn: &'a Turn, out: &'a TurnSink) -> Self {
        Self {
            turn,
            said: Vec::new(),
            face: Face::default(),
            bridged: false,
            unheard: false,
            out,
            speakable: Speakable::default(),
            quiet_from: Instant::now(),
        }
    }

    /// The model has said something.
    pub(super) fn has_words(&self) -> bool {
        self.said.iter().any(|s| s.remembered)
    }

    /// Hands on what is speakable of these sentences. False where nobody listens any more.
    pub(super) async fn hand_on(&mut self, sentences: impl IntoIterator<Item = String>) -> bool {
        for sentence in sentences {
            let Some(text) = self.speakable.clean(&sentence) else { continue };
            if let Some(emotion) = self.face.take()
                && !self.send(TurnEvent::Emotion(emotion)).await
            {
                return false;
            }
            if !self.say(text, true).await {
                return false;
            }
        }
        true
    }

    pub(super) async fn say(&mut self, text: String, remembered: bool) -> bool {
        let sent = self.send(TurnEvent::Sentence(Sentence { text: text.clone() })).await;
        if sent {
            let spoken_from = self.quiet_from.max(Instant::now());
            self.quiet_from = spoken_from + Duration::from_secs_f64(estimated_seconds(&text));
            self.said.push(Said { text, remembered });
        }
        sent
    }

    /// When the silence of calls begun at `begun` has lasted long enough for a phrase.
    pub(super) fn filler_due(&self, begun: Instant, settings: &ToolSettings) -> Instant {
        if self.bridged {
            return (self.quiet_from + settings.filler_again).max(begun + SHORT_CALL);
        }
        self.quiet_from.max(begun) + settings.filler_after
    }

    /// Bridges the silence with a phrase; an empty one is not spoken. False where nobody listens
    /// any more.
    pub(super) async fn bridge(&mut self, phrase: &str) -> bool {
        self.bridged = true;
        if phrase.is_empty() {
            self.quiet_from = Instant::now();
            return true;
        }
        self.say(phrase.to_owned(), false).await
    }

    async fn send(&mut self, event: TurnEvent) -> bool {
        let sent = tokio::select! {
            biased;
            () = self.turn.cancelled() => false,
            sent = self.out.send(event) => sent.is_ok(),
        };
        self.unheard |= !sent;
        sent
    }
}

/// Chooses the face: the first emoji that the model writes before its first sentence ends.
#[derive(Default)]
pub(super) struct Face {
    seen: Option<Emotion>,
    taken: bool,
}

impl Face {
    pub(super) fn look(&mut self, text: &str) {
        if self.seen.is_none() && !self.taken {
            self.seen = text.chars().find_map(Emotion::from_emoji);
        }
    }

    /// The face, once.
    fn take(&mut self) -> Option<Emotion> {
        let first = !std::mem::replace(&mut self.taken, true);
        first.then(|| self.seen.unwrap_or_default())
    }
}
