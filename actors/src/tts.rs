//! TtsActor: sentences in, paced packets out. Synthesis runs ahead of playback, so the next
//! sentence is requested while one plays; packets leave on an absolute clock. Not for what is
//! said.

mod canned;
mod pacing;

use std::sync::Arc;

use actix::fut::WrapFuture as _;
use actix::{Actor, AsyncContext as _, Context, Handler, SpawnHandle};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::canned::Canned;
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
    lane: mpsc::Sender<PlaybackItem>,
    speaking: Option<SpawnHandle>,
}

/// What speaking needs, cheap to clone into a turn.
#[derive(Clone)]
pub struct Mouth {
    /// The synthesiser.
    pub tts: Arc<dyn Tts>,
    /// What is said where it fails.
    pub phrases: Phrases,
    /// Shape, pace and quality.
    pub settings: SpeakingSettings,
    /// Fixed phrases that were spoken before.
    pub canned: Canned,
    /// Whether to spare effort.
    pub admission: Admission,
    /// One place: of all voices of a thread one encodes at a time, a packet each in turn. Packets
    /// that are due wait for one encoding at most.
    pub encoding: Arc<Semaphore>,
}

impl TtsActor {
    /// An actor that puts its packets on `lane`.
    pub fn new(
        connection: CancellationToken,
        mouth: Mouth,
        lane: mpsc::Sender<PlaybackItem>,
    ) -> Self {
        Self { connection, mouth, lane, speaking: None }
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
        let (mouth, lane) = (self.mouth.clone(), self.lane.clone());
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
        let mut voice = match Voice::new(&self.quality()) {
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
        let Err(error) = self.say(voice, &text, ahead).await else { return true };
        tracing::warn!(turn = %turn.id, error, "a sentence could not be spoken");
        let apology = self.phrases.apology.in_language(language).to_owned();
        if apology != text
            && let Err(error) = self.say(voice, &apology, ahead).await
        {
            tracing::warn!(turn = %turn.id, error, "the apology is shown only");
        }
        false
    }

    /// The settings of a turn that begins now.
    fn quality(&self) -> SpeakingSettings {
        let mut settings = self.settings.clone();
        if self.admission.is_strained() {
            settings.complexity = settings.complexity.min(settings.strained_complexity);
        }
        settings
    }

    /// Speaks one sentence, or what is canned of it.
    async fn say(&self, voice: &mut Voice, text: &str, ahead: &Ahead) -> Result<(), String> {
        if !voice.is_fresh() || !self.canned.is_fixed(text) {
            return self.speak(voice, text, ahead, None).await;
        }
        let rate_hz = self.settings.sample_rate_hz;
        let Some(packets) = self.canned.packets(text, rate_hz) else {
            let mut voice = Voice::new(&self.settings).map_err(|e| e.to_string())?;
            let mut kept = Vec::new();
            self.speak(&mut voice, text, ahead, Some(&mut kept)).await?;
            self.canned.keep(text, rate_hz, kept);
            return Ok(());
        };
        ahead.send(PlaybackStep::SentenceStart(text.to_owned())).await.map_err(gone)?;
        for packet in &*packets {
            ahead.send(PlaybackStep::Packet(packet.clone())).await.map_err(gone)?;
        }
        ahead.send(PlaybackStep::SentenceEnd(text.to_owned())).await.map_err(gone)
    }

    /// Speaks one sentence, and keeps its packets where that is wanted; where it fails, says why.
    /// Its beginning may have been spoken then.
    async fn speak(
        &self,
        voice: &mut Voice,
        text: &str,
        ahead: &Ahead,
        mut kept: Option<&mut Vec<Bytes>>,
    ) -> Result<(), String> {
        let started = PlaybackStep::SentenceStart(text.to_owned());
        ahead.send(started).await.map_err(gone)?;
        voice.begin();
        let mut sound = self.tts.speak(Line { text: text.into() });
        while let Some(pcm) = sound.next().await {
            let pcm = pcm.map_err(|e| e.to_string())?;
            voice.take(&pcm.samples, pcm.sample_rate_hz).map_err(|e| e.to_string())?;
            self.send_whole_packets(voice, ahead, &mut kept).await?;
        }
        voice.finish();
        self.send_whole_packets(voice, ahead, &mut kept).await?;
        ahead.send(PlaybackStep::SentenceEnd(text.to_owned())).await.map_err(gone)
    }

    async fn send_whole_packets(
        &self,
        voice: &mut Voice,
        ahead: &Ahead,
        kept: &mut Option<&mut Vec<Bytes>>,
    ) -> Result<(), String> {
        while voice.has_packet() {
            let asked = Instant::now();
            let turn = self.encoding.acquire().await.map_err(|e| e.to_string())?;
            self.admission.packet_encoded(asked.elapsed());
            let packet = voice.packet().map_err(|e| e.to_string())?;
            // Encoding is the dearest thing on this thread: let what is due out before the next.
            tokio::task::yield_now().await;
            drop(turn);
            let Some(packet) = packet else { break };
            if let Some(kept) = kept {
                // A copy, since a packet holds on to the block that it was written into.
                kept.push(Bytes::copy_from_slice(&packet));
            }
            ahead.send(PlaybackStep::Packet(packet)).await.map_err(gone)?;
        }
        Ok(())
    }
}

fn gone(_: mpsc::error::SendError<PlaybackStep>) -> String {
    "nobody listens any more".to_owned()
}
