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
use crate::audio::voice::Voice;
use crate::dialogue::phrases::Language;
use crate::dialogue::{Phrases, Turn, TurnEvent};
use crate::messages::{PlaybackItem, PlaybackStep, StartSpeaking};
use crate::ports::{Line, Tts};
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
        let Err(error) = self.speak(voice, &text, ahead).await else { return true };
        tracing::warn!(turn = %turn.id, error, "a sentence could not be spoken");
        let apology = self.phrases.apology.in_language(language).to_owned();
        if apology != text
            && let Err(error) = self.speak(voice, &apology, ahead).await
        {
            tracing::warn!(turn = %turn.id, error, "the apology is shown only");
        }
        false
    }

    /// Speaks one sentence; where that fails, says why. Its beginning may have been spoken then.
    async fn speak(&self, voice: &mut Voice, text: &str, ahead: &Ahead) -> Result<(), String> {
        let started = PlaybackStep::SentenceStart(text.to_owned());
        ahead.send(started).await.map_err(gone)?;
        voice.begin();
        let mut sound = self.tts.speak(Line { text: text.into() });
        while let Some(pcm) = sound.next().await {
            let pcm = pcm.map_err(|e| e.to_string())?;
            voice.take(&pcm.samples, pcm.sample_rate_hz).map_err(|e| e.to_string())?;
            send_whole_packets(voice, ahead).await?;
        }
        voice.finish();
        send_whole_packets(voice, ahead).await?;
        ahead.send(PlaybackStep::SentenceEnd(text.to_owned())).await.map_err(gone)
    }
}

async fn send_whole_packets(voice: &mut Voice, ahead: &Ahead) -> Result<(), String> {
    while let Some(packet) = voice.packet().map_err(|e| e.to_string())? {
        ahead.send(PlaybackStep::Packet(packet)).await.map_err(gone)?;
        // Encoding is the dearest thing on this thread: let the other voices' packets out.
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn gone(_: mpsc::error::SendError<PlaybackStep>) -> String {
    "nobody listens any more".to_owned()
}
