//! Sends one turn's words to speech synthesis: makes them speakable, sends the emotion once, and
//! fills silence during tool calls with phrases. Not for producing the words.

use std::sync::Arc;
use std::time::Duration;

use hearken_base::language::Language;
use hearken_ports::{Person, ToolRequest, Usage};
use hearken_proto::device::Emotion;
use tokio::time::Instant;

use super::speakable::is_emoji;
use super::speaker_tracker::unattributed;
use super::spoken::SpokenSentences;
use super::turn::{PlaybackProgress, Said, Sentence, Turn, TurnError, TurnEvent, TurnSink};
use super::turn_output::{CallResults, TurnOutput};
use crate::tools::{Offer, ToolSettings, Toolbox};

/// Minimum duration of a call before another filler phrase, however long the silence before the
/// call was.
const SHORT_CALL: Duration = Duration::from_millis(500);

/// Filler phrases for a long tool call. An empty phrase is not spoken.
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
    emotion_detector: EmotionDetector,
    /// Set after the first filler phrase.
    filler_spoken: bool,
    /// Set if the last filler phrase was empty.
    filler_skipped: bool,
    /// Set if all calls of the last round succeeded, and the model makes no more.
    done: bool,
    /// Set if the output has no receiver: the turn was cut, or speech synthesis has failed.
    output_closed: bool,
    phrases: FillerPhrases<'a>,
    /// The speaker, if their voice is enrolled.
    person: Option<&'a Arc<Person>>,
    /// Language of fixed phrases; `None` for that of the prompt.
    language: Option<Language>,
    out: &'a TurnSink,
    spoken: SpokenSentences,
    /// Time when the last sentence was sent, or a phrase was skipped.
    last_sent: Instant,
}

impl<'a> SpokenOutput<'a> {
    pub(super) fn new(turn: &'a Turn, phrases: FillerPhrases<'a>, out: &'a TurnSink) -> Self {
        Self {
            turn,
            said: Vec::new(),
            emotion_detector: EmotionDetector::default(),
            filler_spoken: false,
            filler_skipped: false,
            done: false,
            output_closed: false,
            phrases,
            person: None,
            language: None,
            out,
            spoken: SpokenSentences::default(),
            last_sent: Instant::now(),
        }
    }

    /// Sets the person whose turn this is, and the language of fixed phrases.
    pub(super) fn of(self, person: Option<&'a Arc<Person>>, language: Language) -> Self {
        Self { person, language: Some(language), ..self }
    }

    /// Reports whether the model has said anything.
    pub(super) fn has_words(&self) -> bool {
        self.said.iter().any(|s| s.remembered)
    }

    /// Ends a turn whose model said nothing speakable. Sends the model's emotion if it wrote an
    /// emoji or a stage direction, and speaks `done` if its calls succeeded.
    ///
    /// # Errors
    /// Returns an error if the model gave no answer at all.
    pub(super) async fn end_without_words(&mut self, done: &str) -> Result<(), TurnError> {
        if self.done {
            let phrase = Some(done.to_owned()).filter(|done| !done.is_empty());
            if self.send_emotion().await {
                self.send_sentences(phrase).await;
            }
            return Ok(());
        }
        let answered = self.emotion_detector.has_emoji() || self.spoken.has_left_out();
        if answered && self.send_emotion().await { Ok(()) } else { Err(TurnError::NoWords) }
    }

    /// Sends a whole text that is not part of the dialogue.
    pub(super) async fn read(&mut self, text: &str) {
        self.emotion_detector.scan(text);
        if self.emotion_detector.has_emoji() && !self.send_emotion().await {
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

    /// Sends the emotion if it was not sent yet. Returns false if the output has no receiver.
    async fn send_emotion(&mut self) -> bool {
        match self.emotion_detector.take() {
            Some(emotion) => self.send(TurnEvent::Emotion(emotion)).await,
            None => true,
        }
    }

    /// Speaks the apology for a failed turn, with a matching emotion if the model has shown none.
    pub(super) async fn apologise(&mut self, phrase: &str) {
        if phrase.is_empty() {
            return;
        }
        self.emotion_detector.seen.get_or_insert(Emotion::Sad);
        if self.send_emotion().await {
            self.say(phrase.to_owned(), false).await;
        }
    }

    /// Sends these sentences. Returns false if the output has no receiver.
    async fn send_sentences(&mut self, sentences: impl IntoIterator<Item = String>) -> bool {
        for text in sentences {
            if !self.send_emotion().await || !self.say(text, true).await {
                return false;
            }
        }
        true
    }

    pub(super) async fn say(&mut self, text: String, remembered: bool) -> bool {
        let sent = self.send(TurnEvent::Sentence(Sentence { text: text.clone() })).await;
        if sent {
            self.last_sent = Instant::now();
            self.said.push(Said { text, remembered });
        }
        sent
    }

    /// Waits until the silence during calls that started at `begun` is long enough for a phrase. No
    /// phrase is due while words are on their way to the device: it would be queued after them.
    async fn wait_for_filler(&self, begun: Instant, settings: &ToolSettings) {
        let mut progress = self.turn.progress();
        loop {
            let spoken = *progress.borrow_and_update();
            let due = spoken.and_then(|spoken| self.filler_due(spoken, begun, settings));
            let waiting = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Ok(()) = progress.changed() => {}
                () = waiting => return,
            }
        }
    }

    /// Returns the due time of the next phrase. `None` until all words were sent to the device.
    fn filler_due(
        &self,
        spoken: PlaybackProgress,
        begun: Instant,
        settings: &ToolSettings,
    ) -> Option<Instant> {
        // The next phrase is timed by the device's playback, not by the length of texts. Decision
        // 0014.
        if spoken.sentences < self.said.len() {
            return None;
        }
        if !self.filler_spoken {
            return Some(spoken.quiet_from.max(begun) + settings.filler_after);
        }
        let mut quiet_from = spoken.quiet_from;
        if self.filler_skipped {
            quiet_from = quiet_from.max(self.last_sent);
        }
        let wait = settings.filler_again.saturating_sub(self.filler_delay(spoken));
        Some((quiet_from + wait).max(begun + SHORT_CALL))
    }

    /// Returns the delay between sending the last filler phrase and its playback. Zero if the last
    /// sentence was no filler. The next phrase is sent this much earlier.
    fn filler_delay(&self, spoken: PlaybackProgress) -> Duration {
        match self.said.last() {
            Some(last) if !last.remembered => spoken.began.duration_since(self.last_sent),
            _ => Duration::ZERO,
        }
    }

    /// Speaks a filler phrase, or skips an empty one. Returns false if the output has no receiver.
    async fn speak_filler(&mut self, phrase: &str) -> bool {
        self.filler_spoken = true;
        self.filler_skipped = phrase.is_empty();
        if self.filler_skipped {
            self.last_sent = Instant::now();
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
        self.output_closed |= !sent;
        sent
    }
}

impl TurnOutput for SpokenOutput<'_> {
    fn turn(&self) -> &Turn {
        self.turn
    }

    fn is_over(&self) -> bool {
        self.output_closed || !self.turn.is_live()
    }

    fn said(&self) -> usize {
        self.said.len()
    }

    fn own_words<'b>(&'b self, asked: &'b str) -> &'b str {
        unattributed(self.person, asked)
    }

    fn language(&self) -> Option<Language> {
        self.language
    }

    fn person(&self) -> Option<String> {
        // A voice that is no known person's is somebody, too.
        let stranger = || self.turn.speaker().voice.map(|_| String::new());
        self.person.map(|person| person.id.0.clone()).or_else(stranger)
    }

    fn is_another(&self, than: &str) -> bool {
        let speaker = self.turn.speaker();
        let known = speaker.person.map_or_else(String::new, |person| person.id.0.clone());
        // Too little said for a voice, or a busy model, tells nothing against the person.
        speaker.voice.is_some() && known != than
    }

    fn finished(&mut self, _: &str, calls: &[ToolRequest], _: Option<Usage>) {
        self.done &= calls.is_empty();
    }

    async fn words(&mut self, text: &str) {
        self.emotion_detector.scan(text);
        let sentences = self.spoken.push(text);
        self.send_sentences(sentences).await;
    }

    async fn pause(&mut self) {
        let rest = self.spoken.finish();
        self.send_sentences(rest).await;
    }

    /// Executes the calls and fills long silence with phrases.
    async fn calls(
        &mut self,
        tools: &Toolbox,
        offer: &Offer,
        calls: &[ToolRequest],
        asked: &str,
        until: Instant,
    ) -> CallResults {
        let begun = Instant::now();
        let turn = self.turn;
        let mut running = tools.begin(offer, calls, asked, until);
        loop {
            tokio::select! {
                biased;
                () = turn.cancelled() => break,
                more = running.next() => if more.is_none() { break },
                () = self.wait_for_filler(begun, tools.settings()) => {
                    let FillerPhrases { filler, filler_again } = self.phrases;
                    let phrase = if self.filler_spoken { filler_again } else { filler };
                    if !self.speak_filler(phrase).await {
                        break;
                    }
                }
            }
        }
        let ended = running.end(turn.is_continued());
        self.done = ended.iter().all(|ended| ended.failure.is_none());
        CallResults::from(ended.into_iter().map(|ended| ended.text).collect::<Vec<_>>())
    }
}

/// Emotion of the turn: the first emoji that the model writes before its first sentence ends.
#[derive(Default)]
struct EmotionDetector {
    seen: Option<Emotion>,
    written: bool,
    taken: bool,
}

impl EmotionDetector {
    fn scan(&mut self, text: &str) {
        self.written |= text.chars().any(is_emoji);
        if self.seen.is_none() && !self.taken {
            self.seen = text.chars().find_map(Emotion::from_emoji);
        }
    }

    /// Reports whether the model has written an emoji, even one that no device can show.
    fn has_emoji(&self) -> bool {
        self.seen.is_some() || self.written
    }

    /// Returns the emotion to show; `None` on later calls.
    fn take(&mut self) -> Option<Emotion> {
        let first = !std::mem::replace(&mut self.taken, true);
        first.then(|| self.seen.unwrap_or_default())
    }
}
