//! Recognition of one utterance while it is spoken. In a pause, the recogniser finishes: its result
//! is a speculative transcript, which becomes the transcript if the person has finished, and is
//! dropped if they go on. Partial transcripts, if the recogniser sends them, serve as a speculative
//! transcript before it has finished. Not for the use of the words.

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
    /// Settings of speculative answers.
    pub speculation: SpeculationSettings,
    /// Words that indicate an unfinished sentence.
    pub unfinished: Arc<UnfinishedWords>,
    /// Speaker recognition, if it is on.
    pub speakers: Option<Arc<SpeakerTracker>>,
}

/// Maximum number of pauses per utterance in which the recogniser finishes, for each speculative answer:
/// in a short pause, the person goes on before it has finished.
const PAUSES_PER_TRY: u32 = 3;

/// Minimum length of an utterance. Shorter ones contain no words: a press of the button, an empty
/// recording.
const MIN_UTTERANCE: Duration = Duration::from_millis(150);

type Outcome = Result<Transcript, ProviderError>;

/// Questions and reports of the recognition about its turn.
pub(super) trait Listener: Send {
    /// Returns whether the turn may be answered; it is refused if not.
    fn may_enter(&self) -> bool;

    /// Returns whether a speculative answer may start. It takes a place among the running turns, until
    /// the listener gets `None` as speculative transcript.
    fn may_speculate(&self) -> bool;

    /// Receives the words in case the person has finished, or `None` if they go on after a pause.
    fn speculative_transcript(&self, transcript: Option<Transcript>);

    /// Called when the person has finished.
    fn finishes(&self);

    /// Receives the speaker, before the words.
    fn speaker(&self, speaker: Speaker);

    /// Receives the words so far, while the person may go on.
    fn partial(&self, words: &str);
}

/// Words so far, and whether they are unfinished.
struct WordsSoFar {
    lists: Arc<UnfinishedWords>,
    unfinished: Unfinished,
    /// Last reported words.
    told: String,
    /// Last partial transcript of the stream.
    partial: String,
}

/// Recognition of one utterance.
pub(super) struct Recognition<L> {
    asr: Arc<dyn Asr>,
    listener: L,
    words: WordsSoFar,
    /// Speaker recognition, and the speech for it.
    voice: Option<(Arc<SpeakerTracker>, RecentSpeech)>,
    settings: SpeculationSettings,
    samples: usize,
    stage: Stage,
    /// Audio that no stream has received, or that another stream may need.
    kept: Vec<i16>,
    /// Speculative transcripts that may still be sent.
    tries: u32,
    /// Pauses in which the recogniser may still finish.
    pauses: u32,
}

enum Stage {
    /// The utterance is still too short.
    Short,
    Listening(Box<dyn AsrStream>),
    /// The recogniser finishes in a pause.
    Finishing(Pause, BoxFuture<'static, (Outcome, Speaker)>),
    /// The recogniser has finished in a pause.
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

    /// Streams the utterance to the recogniser while it is spoken, and returns the transcript. An
    /// early failure of the recogniser is returned only when the person has finished, so that no
    /// apology interrupts them. A refusal by admission control is also returned then, without
    /// waiting for the transcript.
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
            // Admission comes before the transcript: clients that cannot be served hear so at once.
            // Decision 0018.
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

    /// Reports the words so far.
    fn tell(&mut self, words: &str) {
        self.words.unfinished.set(self.words.lists.end(words));
        if words != self.words.told {
            words.clone_into(&mut self.words.told);
            self.listener.partial(words);
        }
    }

    /// Has the recogniser finish in a pause, if a speculative answer may start in it.
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

    /// Reports the words in case the person has finished.
    fn speculative_transcript(&mut self, text: String) {
        self.tries = self.tries.saturating_sub(1);
        self.listener.speculative_transcript(Some(Transcript { text }));
    }

    /// If the person has gone on after a pause, drops the speculative transcript, and sends all
    /// audio until now to another stream.
    async fn go_on(&mut self) {
        let (Stage::Finishing(pause, _) | Stage::Finished(pause, _)) = &self.stage else { return };
        if pause.lasts() {
            return;
        }
        self.listener.speculative_transcript(None);
        self.open().await;
    }

    /// Opens a stream, and sends it the audio until now.
    async fn open(&mut self) {
        self.words.partial.clear();
        let opened = async {
            let mut stream = self.asr.open(UtteranceSpec::default()).await?;
            stream.push(&self.kept).await?;
            Ok(stream)
        };
        self.stage = opened.await.map_or_else(Stage::Failed, Stage::Listening);
    }

    /// Returns true if a later pause may produce a speculative transcript; until then, the audio is
    /// stored.
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

/// Has the recogniser finish, and identifies the speaker meanwhile.
fn finish(
    stream: Box<dyn AsrStream>,
    voice: Option<&(Arc<SpeakerTracker>, RecentSpeech)>,
) -> BoxFuture<'static, (Outcome, Speaker)> {
    let Some((tracker, recent)) = voice else {
        return stream.finish().map(|outcome| (outcome, Speaker::default())).boxed();
    };
    let tracker = Arc::clone(tracker);
    let speech = recent.to_vec();
    // Both work concurrently: an answer waits for speaker recognition only if that takes longer
    // than the words. Decision 0067.
    async move { futures_util::join!(stream.finish(), tracker.identify(speech)) }.boxed()
}
