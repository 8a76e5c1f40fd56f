//! TtsActor: sentences in, paced packets out. Synthesis runs ahead of playback, so the next
//! sentence is requested while one plays; packets leave on an absolute clock. Not for what is
//! said.

mod pacing;

use std::sync::Arc;

use actix::fut::WrapFuture as _;
use actix::{Actor, AsyncContext as _, Context, Handler, SpawnHandle};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::pacing::Pacing;
use crate::admission::Admission;
use crate::audio::opus::Encoder;
use crate::audio::pcm;
use crate::audio::resample::Resampler;
use crate::dialogue::phrases::Language;
use crate::dialogue::{Phrases, Turn, TurnEvent};
use crate::messages::{PlaybackItem, PlaybackStep, StartSpeaking};
use crate::ports::{BoxError, Line, Tts};
use crate::settings::SpeakingSettings;

/// Speaks to one device.
pub struct TtsActor {
    connection: CancellationToken,
    mouth: Mouth,
    admission: Admission,
    lane: mpsc::Sender<PlaybackItem>,
    speaking: Option<SpawnHandle>,
}

/// What speaking needs, cheap to clone into a turn.
#[derive(Clone)]
struct Mouth {
    tts: Arc<dyn Tts>,
    phrases: Phrases,
    settings: SpeakingSettings,
}

impl TtsActor {
    /// An actor that puts its packets on `lane`.
    pub fn new(
        connection: CancellationToken,
        tts: Arc<dyn Tts>,
        phrases: Phrases,
        settings: SpeakingSettings,
        admission: Admission,
        lane: mpsc::Sender<PlaybackItem>,
    ) -> Self {
        let mouth = Mouth { tts, phrases, settings };
        Self { connection, mouth, admission, lane, speaking: None }
    }
}

impl Actor for TtsActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        crate::lifetime::stop_with(&self.connection, ctx);
    }

    /// Also after a panic: a connection with a stage missing must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.connection.cancel();
    }
}

impl Handler<StartSpeaking> for TtsActor {
    type Result = ();

    fn handle(&mut self, start: StartSpeaking, ctx: &mut Self::Context) {
        // The turn before this one is over or cut; its future, if any is left, has no audience.
        if let Some(old) = self.speaking.take() {
            ctx.cancel_future(old);
        }
        let (mut mouth, lane) = (self.mouth.clone(), self.lane.clone());
        if self.admission.is_strained() {
            let settings = &mut mouth.settings;
            settings.complexity = settings.complexity.min(settings.strained_complexity);
        }
        let work = async move {
            let turn = start.turn.clone();
            let (ahead, steps) = mpsc::channel(mouth.settings.ahead_packets.max(1));
            let pacing = Pacing::new(turn.clone(), &mouth.settings, steps, lane);
            let both = async {
                tokio::join!(mouth.synthesise(start, ahead), pacing.run());
            };
            tokio::select! {
                biased;
                () = turn.cancelled() => {}
                () = both => {}
            }
        };
        self.speaking = Some(ctx.spawn(work.into_actor(self)));
    }
}

type Ahead = mpsc::Sender<PlaybackStep>;

impl Mouth {
    /// Turns a turn's events into steps of playback. A sentence that cannot be spoken is shown,
    /// and an apology ends the turn.
    async fn synthesise(&self, start: StartSpeaking, ahead: Ahead) {
        let StartSpeaking { turn, mut events, language } = start;
        let mut voice = match Voice::new(&self.settings) {
            Ok(voice) => voice,
            Err(error) => {
                tracing::error!(turn = %turn.id, %error, "no voice can be set up");
                return;
            }
        };
        while let Some(event) = events.recv().await {
            let spoken = match event {
                TurnEvent::Emotion(emotion) => {
                    ahead.send(PlaybackStep::Emotion(emotion)).await.is_ok()
                }
                TurnEvent::Sentence(sentence) => {
                    self.speak_or_apologise(&turn, &mut voice, sentence.text, language, &ahead)
                        .await
                }
            };
            if !spoken {
                return;
            }
        }
    }

    /// False where the turn is over.
    async fn speak_or_apologise(
        &self,
        turn: &Turn,
        voice: &mut Voice,
        text: String,
        language: Language,
        ahead: &Ahead,
    ) -> bool {
        let Err(error) = voice.speak(&*self.tts, &text, ahead).await else { return true };
        tracing::warn!(turn = %turn.id, error, "a sentence could not be spoken");
        let apology = self.phrases.apology.in_language(language).to_owned();
        if apology != text
            && let Err(error) = voice.speak(&*self.tts, &apology, ahead).await
        {
            tracing::warn!(turn = %turn.id, error, "the apology is shown only");
        }
        false
    }
}

/// One turn's way from text to packets.
struct Voice {
    encoder: Encoder,
    sample_rate_hz: u32,
    packet_samples: usize,
}

impl Voice {
    fn new(settings: &SpeakingSettings) -> Result<Self, BoxError> {
        let rate = settings.sample_rate_hz;
        let encoder = Encoder::new(rate, settings.bitrate_bps, settings.complexity)?;
        let packet_samples = pcm::samples_in(settings.packet, rate);
        Ok(Self { encoder, sample_rate_hz: rate, packet_samples })
    }

    /// Speaks one sentence; where that fails, says why. Its beginning may have been spoken then.
    async fn speak(&mut self, tts: &dyn Tts, text: &str, ahead: &Ahead) -> Result<(), String> {
        let started = PlaybackStep::SentenceStart(text.to_owned());
        let gone = |_| "nobody listens any more".to_owned();
        ahead.send(started).await.map_err(gone)?;
        let mut sound = tts.speak(Line { text: text.into() });
        let mut resampler: Option<(u32, Resampler)> = None;
        let mut pending = Vec::new();
        while let Some(pcm) = sound.next().await {
            let pcm = pcm.map_err(|e| e.to_string())?;
            let rate = pcm.sample_rate_hz;
            if resampler.as_ref().is_none_or(|(r, _)| *r != rate) {
                if let Some((_, mut last)) = resampler.take() {
                    last.finish(&mut pending);
                }
                let fresh = Resampler::new(rate, self.sample_rate_hz).map_err(|e| e.to_string())?;
                resampler = Some((rate, fresh));
            }
            if let Some((_, resampler)) = &mut resampler {
                resampler.process(&pcm.samples, &mut pending);
            }
            self.send_whole_packets(&mut pending, ahead).await?;
        }
        if let Some((_, mut last)) = resampler {
            last.finish(&mut pending);
        }
        let padded = pending.len().next_multiple_of(self.packet_samples);
        pending.resize(padded, 0);
        self.send_whole_packets(&mut pending, ahead).await?;
        ahead.send(PlaybackStep::SentenceEnd(text.to_owned())).await.map_err(gone)
    }

    async fn send_whole_packets(
        &mut self,
        pending: &mut Vec<i16>,
        ahead: &Ahead,
    ) -> Result<(), String> {
        let whole = pending.len() - pending.len() % self.packet_samples;
        for frame in pending[..whole].chunks_exact(self.packet_samples) {
            let packet = self.encoder.encode(frame).map_err(|e| e.to_string())?;
            let sent = ahead.send(PlaybackStep::Packet(packet)).await;
            sent.map_err(|_| "nobody listens any more".to_owned())?;
            // Encoding is the dearest thing on this thread: let the other voices' packets out.
            tokio::task::yield_now().await;
        }
        pending.drain(..whole);
        Ok(())
    }
}
