//! Sends one turn's words to speech synthesis: makes them speakable, sends the emotion once, and
//! fills silence during tool calls with phrases. Not for producing the words.

use std::time::Duration;

use hearken_proto::device::Emotion;
use tokio::time::Instant;

use super::run_turn::TurnOutput;
use super::speakable::is_emoji;
use super::spoken::SpokenSentences;
use super::turn::{Said, Sentence, Spoken, Turn, TurnError, TurnEvent, TurnSink};
use crate::ports::{ToolRequest, Usage};
use crate::tools::{Offer, ToolSettings, Toolbox};

/// Minimum duration of a call before another filler phrase, however long the silence before it was.
const SHORT_CALL: Duration = Duration::from_millis(500);

/// Phrases for a tool call that takes long. An empty phrase is not spoken.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FillerPhrases<'a> {
    /// First phrase.
    pub(super) filler: &'a str,
    /// Later phrases.
    pub(super) filler_again: &'a str,
}

/// Spoken output of a turn.
pub(super) struct SpokenOutput<'a> {
    pub(super) turn: &'a Turn,
    pub(super) said: Vec<Said>,
    mood: Mood,
    /// Set after the first filler phrase.
    bridged: bool,
    /// Set if the last filler phrase was empty.
    left_out: bool,
    /// Set if all calls of the last round succeeded, and the model wants no more.
    done: bool,
    /// Set if nobody receives the output: the turn was cut, or speech synthesis has failed.
    unheard: bool,
    phrases: FillerPhrases<'a>,
    out: &'a TurnSink,
    spoken: SpokenSentences,
    /// Time when the last sentence was sent, or a phrase was left out.
    handed_on: Instant,
}

impl<'a> SpokenOutput<'a> {
    pub(super) fn new(turn: &'a Turn, phrases: FillerPhrases<'a>, out: &'a TurnSink) -> Self {
        Self {
            turn,
            said: Vec::new(),
            mood: Mood::default(),
            bridged: false,
            left_out: false,
            done: false,
            unheard: false,
            phrases,
            out,
            spoken: SpokenSentences::default(),
            handed_on: Instant::now(),
        }
    }

    /// Reports whether the model has said anything.
    pub(super) fn has_words(&self) -> bool {
        self.said.iter().any(|s| s.remembered)
    }

    /// Ends a turn whose model said nothing speakable. Sends the model's emotion if it wrote an
    /// emoji, and speaks `done` if its calls succeeded.
    ///
    /// # Errors
    /// Returns an error if the model gave no answer at all.
    pub(super) async fn end_without_words(&mut self, done: &str) -> Result<(), TurnError> {
        if self.done {
            let phrase = Some(done.to_owned()).filter(|done| !done.is_empty());
            if self.show_face().await {
                self.hand_on(phrase).await;
            }
            return Ok(());
        }
        if self.mood.is_seen() && self.show_face().await { Ok(()) } else { Err(TurnError::NoWords) }
    }

    /// Sends a whole text that is not part of the dialogue.
    pub(super) async fn read(&mut self, text: &str) {
        self.mood.look(text);
        if self.mood.is_seen() && !self.show_face().await {
            return;
        }
        let mut sentences = self.spoken.push(text);
        sentences.extend(self.spoken.finish());
        for sentence in sentences {
            if !self.say(sentence, false).await {
                return;
            }
        }
    }

    /// Sends the emotion if it was not sent yet. Returns false if nobody receives the output.
    async fn show_face(&mut self) -> bool {
        match self.mood.take() {
            Some(emotion) => self.send(TurnEvent::Emotion(emotion)).await,
            None => true,
        }
    }

    /// Sends these sentences. Returns false if nobody receives the output.
    async fn hand_on(&mut self, sentences: impl IntoIterator<Item = String>) -> bool {
        for text in sentences {
            if !self.show_face().await || !self.say(text, true).await {
                return false;
            }
        }
        true
    }

    pub(super) async fn say(&mut self, text: String, remembered: bool) -> bool {
        let sent = self.send(TurnEvent::Sentence(Sentence { text: text.clone() })).await;
        if sent {
            self.handed_on = Instant::now();
            self.said.push(Said { text, remembered });
        }
        sent
    }

    /// Waits until the silence of calls begun at `begun` has lasted long enough for a phrase. No
    /// phrase is due while words are on their way to the device: it would be queued after them.
    async fn silent(&self, begun: Instant, settings: &ToolSettings) {
        let mut voice = self.turn.spoken();
        loop {
            let spoken = *voice.borrow_and_update();
            let due = spoken.and_then(|spoken| self.filler_due(spoken, begun, settings));
            let waiting = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Ok(()) = voice.changed() => {}
                () = waiting => return,
            }
        }
    }

    /// Returns when the next phrase is due. `None` until all words were sent to the device.
    fn filler_due(
        &self,
        spoken: Spoken,
        begun: Instant,
        settings: &ToolSettings,
    ) -> Option<Instant> {
        if spoken.sentences < self.said.len() {
            return None;
        }
        if !self.bridged {
            return Some(spoken.quiet_from.max(begun) + settings.filler_after);
        }
        let mut quiet_from = spoken.quiet_from;
        if self.left_out {
            quiet_from = quiet_from.max(self.handed_on);
        }
        let wait = settings.filler_again.saturating_sub(self.lag(spoken));
        Some((quiet_from + wait).max(begun + SHORT_CALL))
    }

    /// Returns the delay between sending the last filler phrase and its playback. Zero if the last
    /// sentence was no phrase. The next phrase is sent this much earlier.
    fn lag(&self, spoken: Spoken) -> Duration {
        match self.said.last() {
            Some(last) if !last.remembered => spoken.began.duration_since(self.handed_on),
            _ => Duration::ZERO,
        }
    }

    /// Speaks a filler phrase, or skips an empty one. Returns false if nobody receives the output.
    async fn bridge(&mut self, phrase: &str) -> bool {
        self.bridged = true;
        self.left_out = phrase.is_empty();
        if self.left_out {
            self.handed_on = Instant::now();
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

impl TurnOutput for SpokenOutput<'_> {
    fn turn(&self) -> &Turn {
        self.turn
    }

    fn is_over(&self) -> bool {
        self.unheard || !self.turn.is_live()
    }

    fn said(&self) -> usize {
        self.said.len()
    }

    fn finished(&mut self, _: &str, calls: &[ToolRequest], _: Option<Usage>) {
        self.done &= calls.is_empty();
    }

    async fn words(&mut self, text: &str) {
        self.mood.look(text);
        let sentences = self.spoken.push(text);
        self.hand_on(sentences).await;
    }

    async fn pause(&mut self) {
        let rest = self.spoken.finish();
        self.hand_on(rest).await;
    }

    /// Executes the calls and fills long silence with phrases.
    async fn calls(
        &mut self,
        tools: &Toolbox,
        offer: &Offer,
        calls: &[ToolRequest],
        asked: &str,
        until: Instant,
    ) -> Result<Vec<String>, TurnError> {
        let begun = Instant::now();
        let turn = self.turn;
        let mut running = tools.begin(offer, calls, asked, until);
        loop {
            tokio::select! {
                biased;
                () = turn.cancelled() => break,
                more = running.next() => if more.is_none() { break },
                () = self.silent(begun, tools.settings()) => {
                    let FillerPhrases { filler, filler_again } = self.phrases;
                    let phrase = if self.bridged { filler_again } else { filler };
                    if !self.bridge(phrase).await {
                        break;
                    }
                }
            }
        }
        let ended = running.end();
        self.done = ended.iter().all(|ended| ended.failure.is_none());
        Ok(ended.into_iter().map(|ended| ended.told).collect())
    }
}

/// Emotion of the turn: the first emoji that the model writes before its first sentence ends.
#[derive(Default)]
struct Mood {
    seen: Option<Emotion>,
    written: bool,
    taken: bool,
}

impl Mood {
    fn look(&mut self, text: &str) {
        self.written |= text.chars().any(is_emoji);
        if self.seen.is_none() && !self.taken {
            self.seen = text.chars().find_map(Emotion::from_emoji);
        }
    }

    /// Reports whether the model has written an emoji. No device may be able to show it.
    fn is_seen(&self) -> bool {
        self.seen.is_some() || self.written
    }

    /// Returns the emotion to show; `None` on later calls.
    fn take(&mut self) -> Option<Emotion> {
        let first = !std::mem::replace(&mut self.taken, true);
        first.then(|| self.seen.unwrap_or_default())
    }
}
