//! Starts the actors of one connection and links them. The only file that knows all of them; makes
//! no decisions about speech or dialogue.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::{Actor as _, Addr, Arbiter, ArbiterHandle, Recipient};
use hearken_audio::SpeakingSettings;
use hearken_base::memory_pool::PeerMemory;
use hearken_base::reloadable::Reloadable;
use hearken_base::slots::Slot;
use hearken_dialogue::admission::Admission;
use hearken_dialogue::people::People;
use hearken_dialogue::recent_words::RecentWords;
use hearken_dialogue::role::{CurrentRole, RoleLookup, assigned, usable};
use hearken_dialogue::speaker_tracker::SpeakerTracker;
use hearken_dialogue::style::StyleLookup;
use hearken_dialogue::tools::speakers::SpeakerTools;
use hearken_dialogue::tools::{
    FinishingCalls, SourceLookup, SourceProvider, Toolbox, ToolsetInterner, Vision, VisionLookup,
};
use hearken_dialogue::turn_factory::TurnFactory;
use hearken_dialogue::turn_rate::TurnRates;
use hearken_dialogue::turn_trace::{ClientKind, TurnJournal};
use hearken_dialogue::{CurrentStyle, Dialogue, DialogueSettings, LocalTime, SpokenLanguage};
use hearken_ports::{Asr, ImageDescriber, Llm, ToolSource, Tts, TurnDetector};
use hearken_proto::ids::{DeviceId, SessionId};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::asr::{AsrActor, AsrOutputs, RecognitionRules};
use crate::device::{DeviceActor, DeviceConnection, DeviceRules, LANE_RESERVE, PipelineHandles};
use crate::device_registry::DeviceRegistry;
use crate::device_tools::DeviceTools;
use crate::device_tools::iot::ThingTools;
use crate::device_tools::repair::Extras;
use crate::mcp_host::McpHostActor;
use crate::messages::ToolsListed;
use crate::session::{SessionActor, SessionOutputs, SessionRules};
use crate::settings::PipelineSettings;
use crate::tts::{EncodeScheduler, FailedVoices, PhraseAudioCache, SpeechSynthesis, TtsActor};
use crate::turn_detection::{LearnedPauses, TurnDetection};
use crate::unfinished::UnfinishedWords;
use crate::vad::{UtteranceRules, VadActor, VadOutputs};

/// Dependencies from outside the crate.
#[derive(Clone)]
pub struct Ports {
    /// The recogniser.
    pub asr: Arc<dyn Asr>,
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// The synthesiser.
    pub tts: Arc<dyn Tts>,
    /// The turn detector; without one, silence alone ends a turn.
    pub turn_detector: Option<Arc<dyn TurnDetector>>,
    /// People with known voices, if speaker recognition is on.
    pub people: Option<People>,
    /// Lookup of a conversation's tool sources in addition to its device's own tools.
    pub tools: SourceLookup,
    /// Lookup of the vision endpoint, if there is one.
    pub vision: Option<VisionLookup>,
    /// Lookup of each device's conversation style.
    pub style: StyleLookup,
    /// Lookup of roles.
    pub roles: RoleLookup,
    /// Source of the local date and time in prompts.
    pub now: LocalTime,
    /// Describer of the pictures that tools return, if there is one.
    pub describer: Option<Arc<dyn ImageDescriber>>,
}

/// Threads that synthesise and encode speech, so that no socket waits for a codec.
#[derive(Clone)]
pub struct AudioPool {
    threads: Arc<[AudioThread]>,
    next: Arc<AtomicUsize>,
}

impl AudioPool {
    /// Starts this many threads (at least one), each of which runs `begins` first. They end with
    /// the actix system.
    pub fn new(threads: usize, begins: fn()) -> Self {
        let threads = (0..threads.max(1)).map(|_| {
            let arbiter = Arbiter::new().handle();
            arbiter.spawn_fn(begins);
            AudioThread::from_arbiter(arbiter)
        });
        Self { threads: threads.collect(), next: Arc::default() }
    }

    /// Creates a pool of the calling thread alone: for tests in virtual time, which has one clock
    /// per thread.
    pub fn current_thread() -> Self {
        Self {
            threads: Arc::new([AudioThread::from_arbiter(Arbiter::current())]),
            next: Arc::default(),
        }
    }

    /// Returns the total busy time of each thread so far.
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

/// Thread of the pool.
struct AudioThread {
    arbiter: ArbiterHandle,
    /// Tokio runtime of the thread, once it runs.
    runtime: Arc<OnceLock<Handle>>,
    /// Scheduler of the turns that encode on this thread.
    encode_scheduler: EncodeScheduler,
}

impl AudioThread {
    fn from_arbiter(arbiter: ArbiterHandle) -> Self {
        let runtime = Arc::new(OnceLock::new());
        let started = Arc::clone(&runtime);
        arbiter.spawn_fn(move || {
            started.get_or_init(Handle::current);
        });
        Self { arbiter, runtime, encode_scheduler: EncodeScheduler::default() }
    }
}

/// Factory of the actors of connections.
#[derive(Clone)]
pub struct Pipeline {
    ports: Ports,
    settings: Arc<PipelineSettings>,
    dialogue: Reloadable<DialogueSettings>,
    audio: AudioPool,
    device_registry: DeviceRegistry,
    interner: ToolsetInterner,
    finishing: Arc<FinishingCalls>,
    phrase_audio: PhraseAudioCache,
    failed_voices: FailedVoices,
    admission: Admission,
    rates: TurnRates,
    learned_pauses: LearnedPauses,
    recent_words: RecentWords,
    unfinished_words: Arc<UnfinishedWords>,
    turn_journal: TurnJournal,
    process: CancellationToken,
}

impl Pipeline {
    /// Creates a pipeline whose connections all end with `process`.
    pub fn new(
        ports: Ports,
        settings: PipelineSettings,
        audio: AudioPool,
        process: CancellationToken,
    ) -> Self {
        let dialogue = Reloadable::new(settings.dialogue.clone());
        let device_registry = DeviceRegistry::default();
        let admission = Admission::new(settings.admission.clone());
        let phrase_audio = PhraseAudioCache::new(&settings.phrases);
        let settings = Arc::new(settings);
        let interner = ToolsetInterner::default();
        let finishing = Arc::default();
        let unfinished_words = Arc::new(settings.turn_detection.unfinished_words());
        Self {
            ports,
            settings,
            dialogue,
            audio,
            device_registry,
            interner,
            finishing,
            phrase_audio,
            failed_voices: FailedVoices::default(),
            admission,
            rates: TurnRates::default(),
            learned_pauses: LearnedPauses::default(),
            recent_words: RecentWords::default(),
            unfinished_words,
            turn_journal: TurnJournal::default(),
            process,
        }
    }

    /// Returns the dialogue settings, which may be replaced: a change applies from each
    /// conversation's next turn.
    pub fn dialogue_settings(&self) -> &Reloadable<DialogueSettings> {
        &self.dialogue
    }

    /// Returns the admission control, whose control loop the caller has to run.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Returns the journal of its turns.
    pub fn turn_journal(&self) -> &TurnJournal {
        &self.turn_journal
    }

    /// Returns the pipeline with this journal of its turns.
    #[must_use]
    pub fn traced(self, turn_journal: TurnJournal) -> Self {
        Self { turn_journal, ..self }
    }

    /// Returns the pipeline with these rate limits of turns.
    #[must_use]
    pub fn at_rates(self, rates: TurnRates) -> Self {
        Self { rates, ..self }
    }

    /// Returns the pipeline with these words of the last turns of its devices.
    #[must_use]
    pub fn with_recent_words(self, recent_words: RecentWords) -> Self {
        Self { recent_words, ..self }
    }

    /// Returns the registry of the connected devices.
    pub fn device_registry(&self) -> &DeviceRegistry {
        &self.device_registry
    }

    /// Creates the socket actor of a device that has just connected. When it starts, it starts the
    /// other actors of its connection.
    pub fn device(&self, connection: DeviceConnection) -> DeviceActor {
        let settings = &self.settings;
        let role = self.role_of(&connection.device_id);
        let speaking = settings.speaking.for_rate(self.ports.tts.sample_rate_hz());
        let rules = DeviceRules {
            device: settings.device.clone(),
            speaking: speaking.clone(),
            interruption: settings.interruption.clone(),
            role: Arc::clone(&role),
            max_utterance: settings.hearing.max_utterance,
            guards_echo: settings.hearing.guard_echo,
            device_registry: self.device_registry.clone(),
            admission: self.admission.clone(),
        };
        let turns = TurnFactory::new(self.process.clone());
        // A notice is no turn of the household: it must neither use up its daily limits nor push
        // its turns out of the journal and the history.
        let turns = match connection.notice {
            Some(_) => turns,
            None => {
                let client = connection.device_id.as_str();
                turns.traced(&self.turn_journal, ClientKind::Voice, client)
            }
        };
        let address = connection.slot.as_ref().and_then(Slot::limited_address);
        let rate = self.rates.of(Some(connection.device_id.as_str()), address);
        let turns = turns.in_role(role).on_firmware(connection.firmware.clone()).at_rate(rate);
        let pipeline = self.clone();
        let session_id = SessionId::random();
        let access = if connection.household {
            let tools = (self.ports.tools)(&connection.device_id, &session_id);
            HouseholdAccess { tools, people: self.ports.people.clone() }
        } else {
            HouseholdAccess { tools: Arc::new(Vec::new), people: None }
        };
        let device_turns = turns.clone();
        let device_id = connection.device_id.clone();
        let memory = connection.memory();
        let start_pipeline = Box::new(move |device: &Addr<DeviceActor>| {
            let own = pipeline.device_sources(device, memory);
            pipeline.start_pipeline(device, &device_turns, &device_id, own, access, speaking)
        });
        DeviceActor::new(connection, rules, session_id, turns, start_pipeline)
    }

    /// Returns a lookup of this device's role.
    fn role_of(&self, device_id: &DeviceId) -> CurrentRole {
        let style_of = Arc::clone(&self.ports.style);
        let device_id = device_id.clone();
        Arc::new(move || style_of(&device_id).role)
    }

    /// Starts and links the other actors of a connection, from the sink backwards: synthesis,
    /// session, recognition, voice activity detection.
    fn start_pipeline(
        &self,
        device: &Addr<DeviceActor>,
        turns: &TurnFactory,
        device_id: &DeviceId,
        own: DeviceSources,
        access: HouseholdAccess,
        speaking: SpeakingSettings,
    ) -> PipelineHandles {
        let lanes = self.settings.lanes;
        let connection = turns.connection();
        let (to_socket, playback) = mpsc::channel(lanes.playback);
        let (uplink, from_socket) = mpsc::channel(lanes.uplink + LANE_RESERVE);

        let tts = {
            let thread = self.audio.pick();
            let synthesis = self.synthesis(speaking, thread);
            let arbiter = thread.arbiter.clone();
            TtsActor::new(connection.clone(), synthesis, arbiter, to_socket).start()
        };
        let outputs = SessionOutputs {
            transcribed: device.clone().recipient(),
            nothing_heard: device.clone().recipient(),
            interrupted: device.clone().recipient(),
            speaking: tts.recipient(),
        };
        let speakers = access.people.map(|people| Arc::new(SpeakerTracker::new(people)));
        let dialogue = self.dialogue(device_id, speakers.clone());
        let turn_detection = self.turn_detection(device_id, dialogue.spoken_language());
        let rules = self.session_rules();
        let llm = Arc::clone(&self.ports.llm);
        let toolbox = self.toolbox(&own, speakers.clone(), access.tools);
        let session =
            SessionActor::new(connection.clone(), llm, toolbox, outputs, rules, dialogue).start();
        let outputs = AsrOutputs {
            recognised: session.clone().recipient(),
            speculative_transcripts: session.clone().recipient(),
            partials: device.clone().recipient(),
        };
        let asr = self.recognition(connection, outputs, speakers);
        let outputs = VadOutputs {
            started: device.clone().recipient(),
            ended: device.clone().recipient(),
            utterances: asr.recipient(),
        };
        let utterances = self.utterance_rules(turn_detection);
        VadActor::new(from_socket, outputs, turns.clone(), utterances).start();
        let tools = own.tools.clone();
        let host = self.host(device, connection, device_id, own, session.clone().recipient());
        PipelineHandles {
            uplink,
            start_turn: session.clone().recipient(),
            playback_ended: session.recipient(),
            said: host.recipient(),
            playback,
            tools,
        }
    }

    /// Creates the tool sources of a device, which store what it reports in this memory.
    fn device_sources(&self, device: &Addr<DeviceActor>, memory: PeerMemory) -> DeviceSources {
        let timeout = self.settings.tools.device_timeout;
        let things = ThingTools::new(device.clone().recipient(), memory.clone());
        let tools = DeviceTools::new(timeout, self.interner.clone(), memory);
        DeviceSources { tools: Arc::new(tools), things: Arc::new(things) }
    }

    fn session_rules(&self) -> SessionRules {
        let settings = &self.settings;
        SessionRules {
            phrases: settings.phrases.clone(),
            sentence_lane: settings.lanes.sentences,
            max_price_per_million: settings.speculation.max_price_per_million,
            interruption: settings.interruption.clone(),
            unfinished: Arc::clone(&self.unfinished_words),
        }
    }

    fn utterance_rules(&self, turn_detection: TurnDetection) -> UtteranceRules {
        let settings = &self.settings;
        UtteranceRules {
            lane: settings.lanes.utterance,
            hearing: settings.hearing.clone(),
            turn_detection,
            speculate_after: settings.speculation.speculate_after(),
        }
    }

    /// Starts the recognition of a connection's utterances.
    fn recognition(
        &self,
        connection: &CancellationToken,
        outputs: AsrOutputs,
        speakers: Option<Arc<SpeakerTracker>>,
    ) -> Addr<AsrActor> {
        let recogniser = Arc::clone(&self.ports.asr);
        let admission = self.admission.clone();
        let rules = RecognitionRules {
            speculation: self.settings.speculation.clone(),
            unfinished: Arc::clone(&self.unfinished_words),
            speakers,
        };
        AsrActor::new(connection.clone(), recogniser, admission, outputs, rules).start()
    }

    /// Returns the dependencies of synthesis on this thread.
    fn synthesis(&self, settings: SpeakingSettings, thread: &AudioThread) -> SpeechSynthesis {
        SpeechSynthesis {
            tts: Arc::clone(&self.ports.tts),
            phrases: self.settings.phrases.clone(),
            settings,
            phrase_audio: self.phrase_audio.clone(),
            failed_voices: self.failed_voices.clone(),
            admission: self.admission.clone(),
            encode_scheduler: thread.encode_scheduler.clone(),
        }
    }

    /// Creates the dialogue of a conversation, with an empty memory. Rules about people in danger know
    /// what was said in the device's connections before it.
    fn dialogue(&self, device_id: &DeviceId, speakers: Option<Arc<SpeakerTracker>>) -> Dialogue {
        let style_of = Arc::clone(&self.ports.style);
        let asks = device_id.clone();
        let style: CurrentStyle = Arc::new(move || style_of(&asks));
        Dialogue::new(self.dialogue.clone(), style, Arc::clone(&self.ports.now))
            .with_speakers(speakers)
            .with_roles(Arc::clone(&self.ports.roles))
            .with_recent_words(self.recent_words.of(device_id.as_str()))
    }

    /// Returns the turn detection of a connection.
    fn turn_detection(&self, device: &DeviceId, language: SpokenLanguage) -> TurnDetection {
        let detector = self.ports.turn_detector.clone();
        let settings = self.settings.turn_detection.clone();
        let admission = self.admission.clone();
        let learned = self.learned_pauses.clone();
        TurnDetection::new(detector, settings, admission, language, device.clone(), learned)
    }

    /// Returns all tools of a conversation.
    fn toolbox(
        &self,
        own: &DeviceSources,
        speakers: Option<Arc<SpeakerTracker>>,
        others: SourceProvider,
    ) -> Arc<Toolbox> {
        let mut own: Vec<Arc<dyn ToolSource>> = vec![own.tools.clone(), own.things.clone()];
        let mut others = others;
        if let Some(speakers) = speakers {
            others = usable_by(Arc::clone(&speakers), others, Arc::clone(&self.ports.roles));
            own.push(Arc::new(SpeakerTools::new(speakers)));
        }
        let toolbox = Toolbox::new(own, others, self.settings.tools.clone());
        let toolbox = toolbox.interner(self.interner.clone()).finishing(self.finishing.share());
        Arc::new(toolbox.with_describer(self.ports.describer.clone()))
    }

    /// Starts the host of the device's own tools.
    fn host(
        &self,
        device: &Addr<DeviceActor>,
        connection: &CancellationToken,
        device_id: &DeviceId,
        own: DeviceSources,
        session: Recipient<ToolsListed>,
    ) -> Addr<McpHostActor> {
        let settings = &self.settings.tools;
        let vision = self.ports.vision.clone().map(|vision_of| {
            let device_id = device_id.clone();
            Arc::new(move || vision_of(&device_id)) as Arc<dyn Fn() -> Vision + Send + Sync>
        });
        let user_tools = settings.user_tools;
        let introduction = settings.introduction.clone();
        let extras = Extras { vision, user_tools, introduction };
        let token = connection.clone();
        let orders = device.clone().recipient();
        let DeviceSources { tools, things } = own;
        let timeout = settings.device_timeout;
        McpHostActor::new(token, orders, session, tools, things, timeout, extras).start()
    }
}

/// Returns these sources without the ones that the role of the last speaker withholds.
fn usable_by(
    speakers: Arc<SpeakerTracker>,
    sources: SourceProvider,
    roles: RoleLookup,
) -> SourceProvider {
    Arc::new(move || {
        let role = speakers.person().and_then(|person| assigned(&person.role_id, &*roles));
        usable(sources(), role.as_deref())
    })
}

/// Tools and people of the household for a device; none if it has no access to them.
struct HouseholdAccess {
    /// Tools that are not the device's own.
    tools: SourceProvider,
    /// People with known voices.
    people: Option<People>,
}

/// Tool sources that the device itself offers.
struct DeviceSources {
    tools: Arc<DeviceTools>,
    things: Arc<ThingTools>,
}
