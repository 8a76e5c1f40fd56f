//! TtsActor: sentences in, paced packets out. Synthesis runs ahead of playback, so the next
//! sentence is requested while one plays; packets are sent by an absolute clock. Synthesis and
//! encoding run on a thread of the audio pool, pacing on the socket's own. Not for the content of
//! speech.

mod encode_scheduler;
mod failed_voices;
mod pacing;
mod phrase_audio_cache;
mod sent_sentences;

use std::sync::Arc;
use std::time::Duration;

use actix::fut::WrapFuture as _;
use actix::{Actor, ArbiterHandle, AsyncContext as _, Context, Handler, SpawnHandle};
use bytes::Bytes;
use futures_util::StreamExt as _;
use hearken_audio::speech_encoder::SpeechEncoder;
use hearken_audio::{SpeakingSettings, pcm};
use hearken_dialogue::admission::Admission;
use hearken_dialogue::turn_trace::{Stage, TurnTrace};
use hearken_dialogue::{Phrases, Turn, TurnEvent};
use hearken_ports::{Line, ProviderErrorKind, Tts};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::encode_scheduler::EncodeQueue;
use self::pacing::Pacing;
use crate::messages::{PlaybackItem, PlaybackStep, StartSpeaking};

pub use self::encode_scheduler::EncodeScheduler;
pub use self::failed_voices::FailedVoices;
pub use self::phrase_audio_cache::PhraseAudioCache;

/// Maximum time of sound that is resampled at once.
const RESAMPLED_AT_ONCE: Duration = Duration::from_millis(100);
/// Number of consecutive failed sentences at which the rest of an answer is abandoned.
const MAX_FAILED: u32 = 2;

/// Speech synthesis and pacing for one device.
pub struct TtsActor {
    connection: CancellationToken,
    synthesis: SpeechSynthesis,
    thread: ArbiterHandle,
    lane: mpsc::Sender<PlaybackItem>,
    speaking: Option<SpawnHandle>,
}

/// Dependencies of synthesis, cheap to clone into a turn.
#[derive(Clone)]
pub struct SpeechSynthesis {
    /// The synthesiser.
    pub tts: Arc<dyn Tts>,
    /// Fixed phrases, among them the apology for a failed synthesis.
    pub phrases: Phrases,
    /// Packet format, pace and quality.
    pub settings: SpeakingSettings,
    /// Cache of fixed phrases that were spoken before.
    pub phrase_audio: PhraseAudioCache,
    /// Voices of roles that failed a short while ago.
    pub failed_voices: FailedVoices,
    /// Admission control: decides if encoding effort is reduced, and counts late packets.
    pub admission: Admission,
    /// Encode scheduler of the thread: one turn encodes at a time, one packet each.
    pub encode_scheduler: EncodeScheduler,
}

/// Encoder of one turn, and its queue to pacing.
struct Speech {
    voice: SpeechEncoder,
    /// Name of the voice; empty for the configured one.
    name: Arc<str>,
    encode_queue: EncodeQueue,
    ahead: mpsc::Sender<PlaybackStep>,
    trace: TurnTrace,
}

/// Outcomes of a turn's sentences so far.
#[derive(Default)]
struct SentenceOutcomes {
    /// True if a sentence was spoken completely.
    spoken: bool,
    /// Number of consecutive failed sentences up to now.
    failed: u32,
    /// Text of the last failed sentence.
    last_failed: String,
}

impl SentenceOutcomes {
    fn needs_apology(&self) -> bool {
        self.failed >= MAX_FAILED || (self.failed > 0 && !self.spoken)
    }
}

impl TtsActor {
    /// Creates an actor that synthesises on this thread and sends its packets to `lane`.
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

    /// Cancels the connection, even after a panic: a connection without one of its actors must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.connection.cancel();
    }
}

impl Handler<StartSpeaking> for TtsActor {
    type Result = ();

    fn handle(&mut self, start: StartSpeaking, ctx: &mut Self::Context) {
        // The turn before this one is over or cut; if its future still runs, nothing needs it.
        if let Some(old) = self.speaking.take() {
            ctx.cancel_future(old);
        }
        let synthesis = self.synthesis.clone();
        let turn = start.turn.clone();
        let (ahead, steps) = mpsc::channel(synthesis.settings.ahead_packets.max(1));
        let pacing = Pacing::new(turn.clone(), &synthesis.settings, steps, self.lane.clone());
        // Synthesis and pacing end together; a thread that accepts no more work synthesises
        // nothing.
        let over = CancellationToken::new();
        let paced = over.clone().drop_guard();
        let broken = self.connection.clone().drop_guard();
        let span = turn.trace().log_span();
        let work = async move {
            over.run_until_cancelled(synthesis.synthesise(start, ahead)).await;
            // Not reached after a panic: then the guard ends the connection, which could not speak
            // any more.
            broken.disarm();
        };
        // Encoding runs on another thread than the socket, so that a packet that is due does not
        // wait for a codec. Decision 0020.
        self.thread.spawn(work.instrument(span));
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
    /// Turns the events of a turn into playback steps. A failed sentence is displayed and not
    /// spoken. After two consecutive failures, or if some failed and none was spoken, an apology
    /// ends the turn.
    async fn synthesise(&self, start: StartSpeaking, ahead: mpsc::Sender<PlaybackStep>) {
        let StartSpeaking { turn, mut events, language, voice: name } = start;
        // Each turn creates its encoder, in a tenth of the time for one packet; a pool of idle ones
        // would hold memory. Decision 0022.
        let voice = match SpeechEncoder::new(&self.quality()) {
            Ok(voice) => voice,
            Err(error) => {
                tracing::error!(turn = %turn.id, %error, "cannot create the speech encoder");
                return;
            }
        };
        let encode_queue = self.encode_scheduler.encode_queue(self.settings.packet);
        let trace = turn.trace().clone();
        let name = self.failed_voices.usable(name);
        let mut speech = Speech { voice, name, encode_queue, ahead, trace };
        let mut outcomes = SentenceOutcomes::default();
        while outcomes.failed < MAX_FAILED
            && let Some(event) = events.recv().await
        {
            let put = match event {
                TurnEvent::Emotion(emotion) => speech.put(PlaybackStep::Emotion(emotion)).await,
                TurnEvent::Sentence(sentence) => {
                    self.say_or_skip(&turn, &mut speech, sentence.text, &mut outcomes).await
                }
            };
            if put.is_err() {
                return;
            }
        }
        // The rest of the events is not needed.
        drop(events);
        let apology = self.phrases.apology.in_language(language);
        if outcomes.needs_apology() && outcomes.last_failed != apology {
            self.apologise(&turn, &mut speech, apology).await;
        }
    }

    /// Speaks one sentence, or skips it if synthesis fails.
    ///
    /// # Errors
    /// Fails if pacing has ended.
    async fn say_or_skip(
        &self,
        turn: &Turn,
        speech: &mut Speech,
        text: String,
        outcomes: &mut SentenceOutcomes,
    ) -> Result<(), String> {
        let said = self.say(speech, &text).await;
        speech.trace.end(Stage::VoiceFirstSound);
        speech.trace.end(Stage::Voice);
        match said {
            Ok(()) => {
                outcomes.spoken = true;
                outcomes.failed = 0;
                Ok(())
            }
            Err(error) if speech.ahead.is_closed() => Err(error),
            Err(error) => {
                tracing::warn!(turn = %turn.id, error, "cannot speak a sentence");
                outcomes.failed += 1;
                outcomes.last_failed.clone_from(&text);
                speech.put(PlaybackStep::SentenceBroken(text)).await
            }
        }
    }

    async fn apologise(&self, turn: &Turn, speech: &mut Speech, apology: &str) {
        if speech.put(PlaybackStep::GivenUp).await.is_ok()
            && !apology.is_empty()
            && let Err(error) = self.say(speech, apology).await
        {
            tracing::warn!(turn = %turn.id, error, "cannot speak the apology; it is only displayed");
        }
    }

    /// Returns the settings of a turn that starts now: with less complexity while the server is
    /// strained.
    fn quality(&self) -> SpeakingSettings {
        let mut settings = self.settings.clone();
        if self.admission.is_strained() {
            settings.complexity = settings.complexity.min(settings.strained_complexity);
        }
        settings
    }

    /// Speaks one sentence. A fixed phrase at the start of a turn comes from the cache, or is added
    /// to it.
    async fn say(&self, speech: &mut Speech, text: &str) -> Result<(), String> {
        if !speech.voice.is_fresh() || !self.phrase_audio.is_fixed(text) {
            return self.speak(speech, text, None).await;
        }
        let rate_hz = self.settings.sample_rate_hz;
        let Some(packets) = self.phrase_audio.packets(text, &speech.name, rate_hz) else {
            let voice = SpeechEncoder::new(&self.settings).map_err(|e| e.to_string())?;
            let encode_queue = speech.encode_queue.clone();
            let ahead = speech.ahead.clone();
            let mut spoken = Vec::new();
            let trace = speech.trace.clone();
            let name = Arc::clone(&speech.name);
            let mut other = Speech { voice, name, encode_queue, ahead, trace };
            let outcome = self.speak(&mut other, text, Some(&mut spoken)).await;
            speech.name = other.name;
            outcome?;
            // If the synthesiser sent nothing this time, it may speak the phrase the next time.
            if !spoken.is_empty() {
                self.phrase_audio.keep(text, &speech.name, rate_hz, spoken);
            }
            return Ok(());
        };
        speech.put(PlaybackStep::SentenceStart(text.to_owned())).await?;
        for packet in &*packets {
            speech.put(PlaybackStep::Packet(packet.clone())).await?;
        }
        speech.put(PlaybackStep::SentenceEnd(text.to_owned())).await
    }

    /// Returns true for a fixed phrase, whose audio in the configured voice is in the cache.
    fn is_phrase(&self, text: &str) -> bool {
        self.phrases.all().iter().any(|phrase| phrase == text)
    }

    /// Synthesises one sentence and sends its packets, and appends them to `kept`, if given.
    /// Returns the reason if it fails; its start may have been sent then.
    async fn speak(
        &self,
        speech: &mut Speech,
        text: &str,
        mut kept: Option<&mut Vec<Bytes>>,
    ) -> Result<(), String> {
        speech.put(PlaybackStep::SentenceStart(text.to_owned())).await?;
        speech.voice.begin();
        speech.trace.begin(Stage::VoiceFirstSound);
        speech.trace.synthesises(text);
        let mut is_silent = true;
        let line = |voice: &Arc<str>| Line { text: text.into(), voice: Arc::clone(voice) };
        let mut sound = self.tts.speak(line(&speech.name));
        while let Some(pcm) = sound.next().await {
            // A role's voice must not make a device mute. Services report an unknown voice by any
            // error, and fixed phrases of the configured voice need no synthesiser. The rest of the
            // turn is in the configured voice: a synthesiser that is down gets one further request
            // a turn at most. Decision 0072.
            if is_silent
                && !speech.name.is_empty()
                && let Err(error) = &pcm
            {
                tracing::warn!(voice = &*speech.name, %error, "this voice fails; speaking with the configured one");
                self.failed_voices.failed(&speech.name);
                speech.name = Arc::default();
                // The wait for the first audio has passed; a second one would double it.
                if error.kind != ProviderErrorKind::Timeout || self.is_phrase(text) {
                    sound = self.tts.speak(line(&speech.name));
                    continue;
                }
            }
            let pcm = pcm.map_err(|e| e.to_string())?;
            if std::mem::take(&mut is_silent) {
                if !speech.name.is_empty() {
                    self.failed_voices.worked(&speech.name);
                }
                speech.trace.end(Stage::VoiceFirstSound);
                speech.trace.begin(Stage::Voice);
            }
            // A synthesiser may send minutes of sound at once: other tasks of this thread run
            // between its pieces.
            for piece in pcm::pieces(&pcm.samples, RESAMPLED_AT_ONCE, pcm.sample_rate_hz) {
                speech.voice.push(piece, pcm.sample_rate_hz).map_err(|e| e.to_string())?;
                // After each packet it yields anyway. A service may send thousands of pieces of a
                // few samples at once.
                if !speech.voice.has_packet() {
                    tokio::task::yield_now().await;
                }
                speech.put_whole_packets(&self.admission, &mut kept).await?;
            }
        }
        speech.voice.finish();
        speech.put_whole_packets(&self.admission, &mut kept).await?;
        speech.put(PlaybackStep::SentenceEnd(text.to_owned())).await
    }
}

impl Speech {
    /// Sends one step to pacing. Fails if pacing has ended.
    async fn put(&mut self, step: PlaybackStep) -> Result<(), String> {
        self.ahead.send(step).await.map_err(|_| "the connection has ended".to_owned())
    }

    async fn put_whole_packets(
        &mut self,
        admission: &Admission,
        kept: &mut Option<&mut Vec<Bytes>>,
    ) -> Result<(), String> {
        while self.voice.has_packet() {
            let (pass, urgent_for) = self.encode_queue.acquire().await;
            admission.packet_encoded(urgent_for);
            let packet = self.voice.packet().map_err(|e| e.to_string())?;
            // Encoding is the most expensive work on this thread: yield, so that other tasks run
            // meanwhile.
            tokio::task::yield_now().await;
            drop(pass);
            let Some(packet) = packet else { break };
            if let Some(kept) = kept {
                // Copied, since a packet holds the whole block that it was written into.
                kept.push(Bytes::copy_from_slice(&packet));
            }
            self.put(PlaybackStep::Packet(packet)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;
    use futures_util::stream::{self, BoxStream};
    use hearken_dialogue::admission::AdmissionSettings;
    use hearken_ports::{Pcm, ProviderError};

    use super::*;

    /// Synthesiser that has ten pieces of one sample ready, and counts those that were taken.
    struct Tiny(Arc<AtomicUsize>);

    impl Tts for Tiny {
        fn speak(&self, _: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
            let taken = Arc::clone(&self.0);
            let pieces = stream::iter(0..10).map(move |_| {
                taken.fetch_add(1, Ordering::SeqCst);
                Ok(Pcm { samples: [1].into(), sample_rate_hz: 24_000 })
            });
            pieces.boxed()
        }
    }

    #[tokio::test]
    async fn other_tasks_run_between_pieces_that_are_too_short_for_a_packet() {
        let taken = Arc::new(AtomicUsize::new(0));
        let settings = SpeakingSettings { sample_rate_hz: 24_000, ..SpeakingSettings::default() };
        let phrases = Phrases::default();
        let synthesis = SpeechSynthesis {
            tts: Arc::new(Tiny(Arc::clone(&taken))),
            phrase_audio: PhraseAudioCache::new(&phrases),
            phrases,
            settings: settings.clone(),
            failed_voices: FailedVoices::default(),
            admission: Admission::new(AdmissionSettings::default()),
            encode_scheduler: EncodeScheduler::default(),
        };
        let (ahead, mut steps) = mpsc::channel(16);
        let mut speech = Speech {
            voice: SpeechEncoder::new(&settings).expect("settings that libopus accepts"),
            name: Arc::default(),
            encode_queue: synthesis.encode_scheduler.encode_queue(settings.packet),
            ahead,
            trace: TurnTrace::default(),
        };
        let mut speaking = Box::pin(synthesis.speak(&mut speech, "Hi.", None));
        for polled in 1..=10 {
            assert_eq!((&mut speaking).now_or_never(), None);
            assert_eq!(taken.load(Ordering::SeqCst), polled);
        }
        assert_eq!(speaking.await, Ok(()));
        drop(speech);
        let mut packets = 0;
        while let Some(step) = steps.recv().await {
            packets += usize::from(matches!(step, PlaybackStep::Packet(_)));
        }
        assert_eq!(packets, 1);
    }
}
