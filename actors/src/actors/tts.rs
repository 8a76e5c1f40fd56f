//! TtsActor: sentences in, paced packets out. Synthesis runs ahead of playback, so the next
//! sentence is requested while one plays; packets leave on an absolute clock. Speech is made on a
//! thread for that, and paced on the socket's own. Not for what is said.

mod encode_scheduler;
mod pacing;
mod phrase_audio_cache;

use std::sync::Arc;

use actix::fut::WrapFuture as _;
use actix::{Actor, ArbiterHandle, AsyncContext as _, Context, Handler, SpawnHandle};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::encode_scheduler::EncodeQueue;
pub use self::encode_scheduler::EncodeScheduler;
use self::pacing::Pacing;
pub use self::phrase_audio_cache::PhraseAudioCache;
use crate::actors::messages::{PlaybackItem, PlaybackStep, StartSpeaking};
use crate::admission::Admission;
use crate::audio::speech_encoder::SpeechEncoder;
use crate::dialogue::{Phrases, Turn, TurnEvent};
use crate::ports::{Line, Tts};
use crate::settings::SpeakingSettings;

/// Sentences in a row that cannot be spoken before the rest of an answer is given up.
const MAX_FAILED: u32 = 2;

/// Speaks to one device.
pub struct TtsActor {
    connection: CancellationToken,
    synthesis: SpeechSynthesis,
    thread: ArbiterHandle,
    lane: mpsc::Sender<PlaybackItem>,
    speaking: Option<SpawnHandle>,
}

/// What speaking needs, cheap to clone into a turn.
#[derive(Clone)]
pub struct SpeechSynthesis {
    /// The synthesiser.
    pub tts: Arc<dyn Tts>,
    /// What is said where it fails.
    pub phrases: Phrases,
    /// Shape, pace and quality.
    pub settings: SpeakingSettings,
    /// Fixed phrases that were spoken before.
    pub phrase_audio: PhraseAudioCache,
    /// Whether to spare effort.
    pub admission: Admission,
    /// Of all voices of a thread one encodes at a time, a packet each.
    pub encode_scheduler: EncodeScheduler,
}

/// One turn's way to pacing.
struct Speech {
    voice: SpeechEncoder,
    encode_queue: EncodeQueue,
    ahead: mpsc::Sender<PlaybackStep>,
}

/// How the sentences of a turn fared.
#[derive(Default)]
struct SentenceOutcomes {
    /// One was spoken whole.
    spoken: bool,
    /// So many in a row could not be spoken, up to now.
    failed: u32,
    /// The last that could not.
    last_failed: String,
}

impl SentenceOutcomes {
    fn needs_apology(&self) -> bool {
        self.failed >= MAX_FAILED || (self.failed > 0 && !self.spoken)
    }
}

impl TtsActor {
    /// An actor that has its speech made on this thread, and puts its packets on `lane`.
    pub fn new(
        connection: CancellationToken,
        synthesis: SpeechSynthesis,
        thread: ArbiterHandle,
        lane: mpsc::Sender<PlaybackItem>,
    ) -> Self {
        Self { connection, synthesis, thread, lane, speaking: None }
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
        let (synthesis, turn) = (self.synthesis.clone(), start.turn.clone());
        let (ahead, steps) = mpsc::channel(synthesis.settings.ahead_packets.max(1));
        let pacing = Pacing::new(turn.clone(), &synthesis.settings, steps, self.lane.clone());
        // The one ends with the other; a thread that takes no more work makes no speech.
        let over = CancellationToken::new();
        let paced = over.clone().drop_guard();
        let broken = self.connection.clone().drop_guard();
        self.thread.spawn(async move {
            over.run_until_cancelled(synthesis.synthesise(start, ahead)).await;
            // Not reached after a panic: a connection without a voice must end.
            broken.disarm();
        });
        let work = async move {
            let _paced = paced;
            tokio::select! {
                biased;
                () = turn.cancelled() => {}
                () = pacing.run() => {}
            }
        };
        self.speaking = Some(ctx.spawn(work.into_actor(self)));
    }
}

impl SpeechSynthesis {
    /// Turns a turn's events into steps of playback. A sentence that cannot be spoken is shown and
    /// left out; where that happens twice in a row, or nothing was spoken, an apology ends the
    /// turn.
    async fn synthesise(&self, start: StartSpeaking, ahead: mpsc::Sender<PlaybackStep>) {
        let StartSpeaking { turn, mut events, language } = start;
        let voice = match SpeechEncoder::new(&self.quality()) {
            Ok(voice) => voice,
            Err(error) => {
                tracing::error!(turn = %turn.id, %error, "no voice can be set up");
                return;
            }
        };
        let encode_queue = self.encode_scheduler.encode_queue(self.settings.packet);
        let mut speech = Speech { voice, encode_queue, ahead };
        let mut fared = SentenceOutcomes::default();
        while fared.failed < MAX_FAILED
            && let Some(event) = events.recv().await
        {
            let put = match event {
                TurnEvent::Emotion(emotion) => speech.put(PlaybackStep::Emotion(emotion)).await,
                TurnEvent::Sentence(sentence) => {
                    self.say_or_leave_out(&turn, &mut speech, sentence.text, &mut fared).await
                }
            };
            if put.is_err() {
                return;
            }
        }
        // Nobody listens to the rest.
        drop(events);
        let apology = self.phrases.apology.in_language(language);
        if fared.needs_apology() && fared.last_failed != apology {
            self.apologise(&turn, &mut speech, apology).await;
        }
    }

    /// Speaks one sentence, or leaves it out where it cannot be spoken.
    ///
    /// # Errors
    /// Nobody listens any more.
    async fn say_or_leave_out(
        &self,
        turn: &Turn,
        speech: &mut Speech,
        text: String,
        fared: &mut SentenceOutcomes,
    ) -> Result<(), String> {
        match self.say(speech, &text).await {
            Ok(()) => {
                fared.spoken = true;
                fared.failed = 0;
                Ok(())
            }
            Err(error) if speech.ahead.is_closed() => Err(error),
            Err(error) => {
                tracing::warn!(turn = %turn.id, error, "a sentence could not be spoken");
                fared.failed += 1;
                fared.last_failed.clone_from(&text);
                speech.put(PlaybackStep::SentenceBroken(text)).await
            }
        }
    }

    async fn apologise(&self, turn: &Turn, speech: &mut Speech, apology: &str) {
        if speech.put(PlaybackStep::GivenUp).await.is_ok()
            && let Err(error) = self.say(speech, apology).await
        {
            tracing::warn!(turn = %turn.id, error, "the apology is shown only");
        }
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
    async fn say(&self, speech: &mut Speech, text: &str) -> Result<(), String> {
        if !speech.voice.is_fresh() || !self.phrase_audio.is_fixed(text) {
            return self.speak(speech, text, None).await;
        }
        let rate_hz = self.settings.sample_rate_hz;
        let Some(packets) = self.phrase_audio.packets(text, rate_hz) else {
            let voice = SpeechEncoder::new(&self.settings).map_err(|e| e.to_string())?;
            let (encode_queue, ahead) = (speech.encode_queue.clone(), speech.ahead.clone());
            let mut kept = Vec::new();
            self.speak(&mut Speech { voice, encode_queue, ahead }, text, Some(&mut kept)).await?;
            self.phrase_audio.keep(text, rate_hz, kept);
            return Ok(());
        };
        speech.put(PlaybackStep::SentenceStart(text.to_owned())).await?;
        for packet in &*packets {
            speech.put(PlaybackStep::Packet(packet.clone())).await?;
        }
        speech.put(PlaybackStep::SentenceEnd(text.to_owned())).await
    }

    /// Speaks one sentence, and keeps its packets where that is wanted; where it fails, says why.
    /// Its beginning may have been spoken then.
    async fn speak(
        &self,
        speech: &mut Speech,
        text: &str,
        mut kept: Option<&mut Vec<Bytes>>,
    ) -> Result<(), String> {
        speech.put(PlaybackStep::SentenceStart(text.to_owned())).await?;
        speech.voice.begin();
        let mut sound = self.tts.speak(Line { text: text.into() });
        while let Some(pcm) = sound.next().await {
            let pcm = pcm.map_err(|e| e.to_string())?;
            speech.voice.take(&pcm.samples, pcm.sample_rate_hz).map_err(|e| e.to_string())?;
            speech.put_whole_packets(&self.admission, &mut kept).await?;
        }
        speech.voice.finish();
        speech.put_whole_packets(&self.admission, &mut kept).await?;
        speech.put(PlaybackStep::SentenceEnd(text.to_owned())).await
    }
}

impl Speech {
    /// Fails where nobody listens any more.
    async fn put(&mut self, step: PlaybackStep) -> Result<(), String> {
        self.ahead.send(step).await.map_err(|_| "nobody listens any more".to_owned())
    }

    async fn put_whole_packets(
        &mut self,
        admission: &Admission,
        kept: &mut Option<&mut Vec<Bytes>>,
    ) -> Result<(), String> {
        while self.voice.has_packet() {
            let (pass, urgent_for) = self.encode_queue.enter().await;
            admission.packet_encoded(urgent_for);
            let packet = self.voice.packet().map_err(|e| e.to_string())?;
            // Encoding is the dearest thing on this thread: let what came in be taken meanwhile.
            tokio::task::yield_now().await;
            drop(pass);
            let Some(packet) = packet else { break };
            if let Some(kept) = kept {
                // A copy, since a packet holds on to the block that it was written into.
                kept.push(Bytes::copy_from_slice(&packet));
            }
            self.put(PlaybackStep::Packet(packet)).await?;
        }
        Ok(())
    }
}
