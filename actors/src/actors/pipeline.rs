//! Starts one connection's actors and ties the ring. The only file that knows all of them; takes
//! no decision about speech or talk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::{Actor as _, Addr, Arbiter, ArbiterHandle, Recipient};
use hearken_proto::ids::{DeviceId, SessionId};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::actors::asr::AsrActor;
use crate::actors::device::{
    DeviceActor, DeviceConnection, DeviceRules, LANE_RESERVE, PipelineHandles,
};
use crate::actors::mcp_host::McpHostActor;
use crate::actors::messages::ToolsKnown;
use crate::actors::session::{SessionActor, SessionOutputs};
use crate::actors::tts::{EncodeScheduler, PhraseAudioCache, SpeechSynthesis, TtsActor};
use crate::actors::vad::{VadActor, VadOutputs};
use crate::admission::Admission;
use crate::device_registry::DeviceRegistry;
use crate::dialogue::{ConversationStyle, CurrentStyle, Dialogue, DialogueSettings, LocalTime};
use crate::ports::{Asr, ImageDescriber, Llm, ToolSource, Tts};
use crate::reloadable::Reloadable;
use crate::settings::{PipelineSettings, SpeakingSettings};
use crate::tools::device::DeviceTools;
use crate::tools::iot::ThingTools;
use crate::tools::repair::Extras;
use crate::tools::{
    Finishing, SourceLookup, SourceProvider, Toolbox, ToolsetInterner, Vision, VisionLookup,
};
use crate::turn_factory::TurnFactory;

/// How a device is talked to, as it is now; must not wait.
pub type StyleLookup = Arc<dyn Fn(&DeviceId) -> ConversationStyle + Send + Sync>;

/// What the outside supplies.
#[derive(Clone)]
pub struct Ports {
    /// The recogniser.
    pub asr: Arc<dyn Asr>,
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// The synthesiser.
    pub tts: Arc<dyn Tts>,
    /// The tools of a conversation beside its device's own.
    pub tools: SourceLookup,
    /// The vision endpoint, where there is one.
    pub vision: Option<VisionLookup>,
    /// How each device is talked to.
    pub style: StyleLookup,
    /// The date and time that the model is told.
    pub now: LocalTime,
    /// What looks at pictures that tools answer with, where there is any.
    pub describer: Option<Arc<dyn ImageDescriber>>,
}

/// The threads that make speech, so that no socket waits for a codec.
#[derive(Clone)]
pub struct AudioPool {
    threads: Arc<[AudioThread]>,
    next: Arc<AtomicUsize>,
}

impl AudioPool {
    /// This many threads of its own, each of which begins with `begins`; they end with the actix
    /// system.
    pub fn new(threads: usize, begins: fn()) -> Self {
        let threads = (0..threads.max(1)).map(|_| {
            let arbiter = Arbiter::new().handle();
            arbiter.spawn_fn(begins);
            AudioThread::from_arbiter(arbiter)
        });
        Self { threads: threads.collect(), next: Arc::default() }
    }

    /// The thread that asks: for tests in virtual time, which has one clock a thread.
    pub fn current_thread() -> Self {
        Self {
            threads: Arc::new([AudioThread::from_arbiter(Arbiter::current())]),
            next: Arc::default(),
        }
    }

    /// For how long each of them has been busy until now.
    pub fn busy(&self) -> Vec<Duration> {
        let busy = |thread: &AudioThread| {
            let runtime = thread.runtime.get()?;
            Some(runtime.metrics().worker_total_busy_duration(0))
        };
        self.threads.iter().map(|thread| busy(thread).unwrap_or_default()).collect()
    }

    fn pick(&self) -> &AudioThread {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.threads[next % self.threads.len()]
    }
}

/// One of these threads.
struct AudioThread {
    arbiter: ArbiterHandle,
    /// Its runtime, once it runs.
    runtime: Arc<OnceLock<Handle>>,
    /// For the voices that encode on it.
    encode_scheduler: EncodeScheduler,
}

impl AudioThread {
    fn from_arbiter(arbiter: ArbiterHandle) -> Self {
        let runtime = Arc::new(OnceLock::new());
        let tells = Arc::clone(&runtime);
        arbiter.spawn_fn(move || {
            tells.get_or_init(Handle::current);
        });
        Self { arbiter, runtime, encode_scheduler: EncodeScheduler::default() }
    }
}

/// Makes the actors of connections.
#[derive(Clone)]
pub struct Pipeline {
    ports: Ports,
    settings: Arc<PipelineSettings>,
    dialogue: Reloadable<DialogueSettings>,
    audio: AudioPool,
    device_registry: DeviceRegistry,
    interner: ToolsetInterner,
    finishing: Arc<Finishing>,
    phrase_audio: PhraseAudioCache,
    admission: Admission,
    process: CancellationToken,
}

impl Pipeline {
    /// A pipeline whose connections all end with `process`.
    pub fn new(
        ports: Ports,
        settings: PipelineSettings,
        audio: AudioPool,
        process: CancellationToken,
    ) -> Self {
        let (dialogue, device_registry) =
            (Reloadable::new(settings.dialogue.clone()), DeviceRegistry::default());
        let admission = Admission::new(settings.admission.clone());
        let phrase_audio = PhraseAudioCache::new(&settings.phrases);
        let (settings, interner) = (Arc::new(settings), ToolsetInterner::default());
        let finishing = Arc::default();
        Self {
            ports,
            settings,
            dialogue,
            audio,
            device_registry,
            interner,
            finishing,
            phrase_audio,
            admission,
            process,
        }
    }

    /// How conversations are led, which may be changed: it holds from each one's next turn on.
    pub fn dialogue_settings(&self) -> &Reloadable<DialogueSettings> {
        &self.dialogue
    }

    /// How many turns may run; somebody has to govern it.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The devices that are connected now.
    pub fn device_registry(&self) -> &DeviceRegistry {
        &self.device_registry
    }

    /// The socket actor of a device that has just connected; its ring is tied when it starts.
    pub fn device(&self, connection: DeviceConnection) -> DeviceActor {
        let settings = &self.settings;
        let speaking = settings.speaking.for_rate(self.ports.tts.sample_rate_hz());
        let rules = DeviceRules {
            device: settings.device.clone(),
            speaking: speaking.clone(),
            device_registry: self.device_registry.clone(),
            admission: self.admission.clone(),
        };
        let turns = TurnFactory::new(self.process.clone());
        let ring = self.clone();
        let session_id = SessionId::random();
        let others = (self.ports.tools)(&connection.device_id, &session_id);
        let (ring_turns, device_id) = (turns.clone(), connection.device_id.clone());
        let tie = Box::new(move |edge: &Addr<DeviceActor>| {
            ring.tie(edge, &ring_turns, &device_id, others, speaking)
        });
        DeviceActor::new(connection, rules, session_id, turns, tie)
    }

    /// Built from the sink backwards: voice, session, recogniser, ear.
    fn tie(
        &self,
        edge: &Addr<DeviceActor>,
        turns: &TurnFactory,
        device_id: &DeviceId,
        others: SourceProvider,
        speaking: SpeakingSettings,
    ) -> PipelineHandles {
        let (settings, lanes) = (&self.settings, self.settings.lanes);
        let connection = turns.connection();
        let (to_socket, playback) = mpsc::channel(lanes.playback);
        let (uplink, from_socket) = mpsc::channel(lanes.uplink + LANE_RESERVE);

        let tts = {
            let thread = self.audio.pick();
            let (synthesis, makes_speech) =
                (self.synthesis(speaking, thread), thread.arbiter.clone());
            TtsActor::new(connection.clone(), synthesis, makes_speech, to_socket).start()
        };
        let outputs = SessionOutputs {
            transcribed: edge.clone().recipient(),
            nothing_heard: edge.clone().recipient(),
            speaking: tts.recipient(),
        };
        let own = DeviceSources {
            tools: Arc::new(DeviceTools::new(settings.tools.device_timeout, self.interner.clone())),
            things: Arc::new(ThingTools::new(edge.clone().recipient())),
        };
        let session = SessionActor::new(
            connection.clone(),
            Arc::clone(&self.ports.llm),
            self.toolbox(&own, others),
            outputs,
            settings.phrases.clone(),
            lanes.sentences,
            self.dialogue(device_id),
        )
        .start();
        let (recogniser, heard) = (Arc::clone(&self.ports.asr), session.clone().recipient());
        let asr =
            AsrActor::new(connection.clone(), recogniser, self.admission.clone(), heard).start();
        let outputs = VadOutputs {
            started: edge.clone().recipient(),
            ended: edge.clone().recipient(),
            utterances: asr.recipient(),
        };
        let hearing = settings.hearing.clone();
        VadActor::new(from_socket, outputs, turns.clone(), lanes.utterance, hearing).start();
        let host = self.host(edge, connection, device_id, own, session.clone().recipient());
        PipelineHandles {
            uplink,
            start_turn: session.clone().recipient(),
            playback_ended: session.recipient(),
            said: host.recipient(),
            playback,
        }
    }

    /// What speaking on this thread needs.
    fn synthesis(&self, settings: SpeakingSettings, thread: &AudioThread) -> SpeechSynthesis {
        SpeechSynthesis {
            tts: Arc::clone(&self.ports.tts),
            phrases: self.settings.phrases.clone(),
            settings,
            phrase_audio: self.phrase_audio.clone(),
            admission: self.admission.clone(),
            encode_scheduler: thread.encode_scheduler.clone(),
        }
    }

    /// What a conversation remembers and tells the model, nothing yet.
    fn dialogue(&self, device_id: &DeviceId) -> Dialogue {
        let (desk, asks) = (Arc::clone(&self.ports.style), device_id.clone());
        let style: CurrentStyle = Arc::new(move || desk(&asks));
        Dialogue::new(self.dialogue.clone(), style, Arc::clone(&self.ports.now))
    }

    /// All tools of a conversation.
    fn toolbox(&self, own: &DeviceSources, others: SourceProvider) -> Arc<Toolbox> {
        let own: Vec<Arc<dyn ToolSource>> = vec![own.tools.clone(), own.things.clone()];
        let toolbox = Toolbox::new(own, others, self.settings.tools.clone());
        let toolbox =
            toolbox.interner(self.interner.clone()).finishing(self.finishing.for_another());
        Arc::new(toolbox.with_sight(self.ports.describer.clone()))
    }

    /// The host of the device's own tools.
    fn host(
        &self,
        edge: &Addr<DeviceActor>,
        connection: &CancellationToken,
        device_id: &DeviceId,
        own: DeviceSources,
        session: Recipient<ToolsKnown>,
    ) -> Addr<McpHostActor> {
        let settings = &self.settings.tools;
        let vision = self.ports.vision.clone().map(|desk| {
            let device_id = device_id.clone();
            Arc::new(move || desk(&device_id)) as Arc<dyn Fn() -> Vision + Send + Sync>
        });
        let (user_tools, introduction) = (settings.user_tools, settings.introduction.clone());
        let extras = Extras { vision, user_tools, introduction };
        let (token, orders) = (connection.clone(), edge.clone().recipient());
        let DeviceSources { tools, things } = own;
        let timeout = settings.device_timeout;
        McpHostActor::new(token, orders, session, tools, things, timeout, extras).start()
    }
}

/// What a device itself offers.
struct DeviceSources {
    tools: Arc<DeviceTools>,
    things: Arc<ThingTools>,
}
