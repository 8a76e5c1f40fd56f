//! Recognition of one utterance while it is spoken. In a pause the recogniser finishes: what it gives is a speculative transcript,
//! which is the transcript if the person has finished, and void if they go on. Where it tells words while it listens, these
//! are a speculative transcript before it has finished. Not for what becomes of the words.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use hearken_audio::pcm;
use hearken_audio::recent_speech::RecentSpeech;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_base::language::are_same_words;
use hearken_dialogue::people::Speaker;
use hearken_dialogue::speaker_tracker::SpeakerTracker;
use hearken_ports::speaker_embedder::LONGEST_VOICE;
use hearken_ports::{Asr, AsrStream, ProviderError, Transcript, UtteranceSpec};

use crate::messages::RecognitionFailure;
use crate::speculation::SpeculationSettings;
use crate::unfinished::UnfinishedWords;
use crate::utterance_channel::{AudioReceiver, Pause, Piece, Unfinished};

/// Settings of the recognition of utterances.
#[derive(Clone)]
pub struct RecognitionRules {
    /// When answers are begun early.
    pub speculation: SpeculationSettings,
    /// Words after which more is sure to be said.
    pub unfinished: Arc<UnfinishedWords>,
    /// What finds out who speaks, if voices are looked at.
    pub speakers: Option<Arc<SpeakerTracker>>,
}

/// Most pauses of an utterance in which the recogniser finishes, for each answer that may begin early: in a short one,
/// the person goes on before it has.
const PAUSES_PER_TRY: u32 = 3;

/// Shortest utterance that is recognised. A shorter one holds no word: a press of the button, an
/// empty recording.
const MIN_UTTERANCE: Duration = Duration::from_millis(150);

type Outcome = Result<Transcript, ProviderError>;

/// What recognition asks and tells of its turn.
pub(super) trait Listener: Send {
    /// Reports whether the turn may be answered; it is refused if not.
    fn may_enter(&self) -> bool;

    /// Reports whether an answer may begin before it is certain that the person has finished. That costs a
    /// place among the turns that run, until the listener is told that they go on.
    fn may_speculate(&self) -> bool;

    /// Receives what the person has said if they have finished, or `None` when they go on after a pause in which they
    /// might have.
    fn speculative_transcript(&self, transcript: Option<Transcript>);

    /// Is told that the person has finished.
    fn finishes(&self);

    /// Receives who says the words, before they are told.
    fn speaker(&self, speaker: Speaker);

    /// Receives the words so far, while the person may go on.
    fn partial(&self, words: &str);
}

/// What finds out whether the words so far are unfinished, and whom to tell.
struct WordsSoFar {
    lists: Arc<UnfinishedWords>,
    unfinished: Unfinished,
    /// Words that were told last.
    told: String,
    /// Words that the stream has told while it listens.
    partial: String,
}

/// Recognition of one utterance.
pub(super) struct Recognition<L> {
    asr: Arc<dyn Asr>,
    listener: L,
    words: WordsSoFar,
    /// What finds out who speaks, and the speech for it.
    voice: Option<(Arc<SpeakerTracker>, RecentSpeech)>,
    settings: SpeculationSettings,
    samples: usize,
    stage: Stage,
    /// Audio that no stream has received, or that may be needed by another one.
    kept: Vec<i16>,
    /// Speculative transcripts that may still be sent.
    tries: u32,
    /// Pauses in which the recogniser may still finish.
    pauses: u32,
}

enum Stage {
    /// Too little was said until now.
    Short,
    Listening(Box<dyn AsrStream>),
    /// The recogniser finishes in a pause.
    Finishing(Pause, BoxFuture<'static, (Outcome, Speaker)>),
    /// It has finished in a pause.
    Finished(Pause, Outcome),
    Failed(ProviderError),
}

impl<L: Listener> Recognition<L> {
    pub(super) fn new(
        asr: Arc<dyn Asr>,
        listener: L,
        unfinished: Unfinished,
        rules: RecognitionRules,
    ) -> Self {
        let RecognitionRules { speculation: settings, unfinished: lists, speakers } = rules;
        let words = WordsSoFar { lists, unfinished, told: String::new(), partial: String::new() };
        let kept = Vec::new();
        let tries = settings.tries;
        let stage = Stage::Short;
        let pauses = tries * PAUSES_PER_TRY;
        let voice = speakers.map(|tracker| (tracker, RecentSpeech::new(LONGEST_VOICE)));
        Self { asr, listener, words, voice, settings, samples: 0, stage, kept, tries, pauses }
    }

    /// Streams the utterance to the recogniser while it is spoken, and returns the transcript. An early
    /// failure of the recogniser is returned only when the person has finished, so that no apology
    /// interrupts them. A refusal by admission control is returned then too, without waiting for the
    /// transcript.
    pub(super) async fn run(
        mut self,
        mut audio: AudioReceiver,
    ) -> Result<Transcript, RecognitionFailure> {
        loop {
            let piece = match &mut self.stage {
                Stage::Finishing(_, finishing) => tokio::select! {
                    biased;
                    piece = audio.recv() => piece,
                    (outcome, speaker) = finishing => {
                        self.listener.speaker(speaker);
                        self.finished(outcome);
                        continue;
                    }
                },
                _ => audio.recv().await,
            };
            match piece {
                Some(Piece::Sound(pcm)) => self.sound(pcm).await,
                Some(Piece::Pause(pause)) => self.pause(pause),
                None => break,
            }
        }
        self.listener.finishes();
        self.go_on().await;
        let finishing = match self.stage {
            Stage::Short => return Ok(Transcript::default()),
            // Admission comes before the transcript: who cannot be served hears so at once. Decision 0018.
            _ if !self.listener.may_enter() => return Err(RecognitionFailure::Busy),
            Stage::Listening(stream) => finish(stream, self.voice.as_ref()),
            Stage::Finishing(_, finishing) => finishing,
            Stage::Finished(_, outcome) => return outcome.map_err(RecognitionFailure::Failed),
            Stage::Failed(error) => return Err(RecognitionFailure::Failed(error)),
        };
        let (outcome, speaker) = finishing.await;
        self.listener.speaker(speaker);
        outcome.map_err(RecognitionFailure::Failed)
    }

    async fn sound(&mut self, pcm: &[i16]) {
        self.go_on().await;
        self.samples += pcm.len();
        if let Some((_, recent)) = &mut self.voice {
            recent.push(pcm);
        }
        if self.may_try_again() || matches!(self.stage, Stage::Short) || self.is_pausing() {
            self.kept.extend_from_slice(pcm);
        } else {
            self.kept = Vec::new();
        }
        let enough = self.length() >= MIN_UTTERANCE;
        match &mut self.stage {
            Stage::Short if enough => self.open().await,
            Stage::Listening(stream) => {
                let pushed = stream.push(pcm).await;
                let partial = stream.partial();
                if let Err(error) = pushed {
                    self.stage = Stage::Failed(error);
                }
                if let Some(words) = partial {
                    self.tell(&words);
                    self.words.partial = words;
                }
            }
            _ => {}
        }
    }

    /// Tells the words so far.
    fn tell(&mut self, words: &str) {
        self.words.unfinished.set(self.words.lists.end(words));
        if words != self.words.told {
            words.clone_into(&mut self.words.told);
            self.listener.partial(words);
        }
    }

    /// Has the recogniser finish in a pause, if an answer may begin early then.
    fn pause(&mut self, pause: Pause) {
        let may = |this: &Self| this.may_try_again() && this.listener.may_speculate();
        self.stage = match std::mem::replace(&mut self.stage, Stage::Short) {
            Stage::Listening(stream) if pause.lasts() && may(self) => {
                self.pauses -= 1;
                if !self.words.partial.is_empty() {
                    self.speculative_transcript(self.words.partial.clone());
                }
                Stage::Finishing(pause, finish(stream, self.voice.as_ref()))
            }
            stage => stage,
        };
    }

    fn finished(&mut self, outcome: Outcome) {
        let Stage::Finishing(pause, _) = std::mem::replace(&mut self.stage, Stage::Short) else {
            return;
        };
        if pause.lasts()
            && let Ok(Transcript { text }) = &outcome
        {
            self.tell(text);
            let known = std::mem::take(&mut self.words.partial);
            if known.is_empty() || !are_same_words(&known, text) {
                self.speculative_transcript(text.clone());
            }
        }
        self.stage = Stage::Finished(pause, outcome);
    }

    /// Tells what the person has said if they have finished.
    fn speculative_transcript(&mut self, text: String) {
        self.tries = self.tries.saturating_sub(1);
        self.listener.speculative_transcript(Some(Transcript { text }));
    }

    /// If the person has gone on after a pause, drops the speculative transcript, and gives all audio until now to another stream.
    async fn go_on(&mut self) {
        let (Stage::Finishing(pause, _) | Stage::Finished(pause, _)) = &self.stage else { return };
        if pause.lasts() {
            return;
        }
        self.listener.speculative_transcript(None);
        self.open().await;
    }

    /// Opens a stream, and gives it the audio until now.
    async fn open(&mut self) {
        self.words.partial.clear();
        let opened = async {
            let mut stream = self.asr.open(UtteranceSpec::default()).await?;
            stream.push(&self.kept).await?;
            Ok(stream)
        };
        self.stage = opened.await.map_or_else(Stage::Failed, Stage::Listening);
    }

    /// Reports whether a speculative transcript may be made in a pause from now on; the audio is kept until then.
    fn may_try_again(&self) -> bool {
        self.tries.min(self.pauses) > 0 && self.length() <= self.settings.max_speech
    }

    fn is_pausing(&self) -> bool {
        matches!(self.stage, Stage::Finishing(..) | Stage::Finished(..))
    }

    fn length(&self) -> Duration {
        pcm::duration(self.samples, SAMPLE_RATE_HZ)
    }
}

/// Has the recogniser finish, and finds out who speaks meanwhile.
fn finish(
    stream: Box<dyn AsrStream>,
    voice: Option<&(Arc<SpeakerTracker>, RecentSpeech)>,
) -> BoxFuture<'static, (Outcome, Speaker)> {
    let Some((tracker, recent)) = voice else {
        return stream.finish().map(|outcome| (outcome, Speaker::default())).boxed();
    };
    let tracker = Arc::clone(tracker);
    let speech = recent.to_vec();
    // Both work at once: an answer waits for the voice only where that takes longer than the words. Decision 0067.
    async move { futures_util::join!(stream.finish(), tracker.identify(speech)) }.boxed()
}
