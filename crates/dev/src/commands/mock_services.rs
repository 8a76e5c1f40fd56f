//! `hearken-dev mock-services`: mocks of the recogniser, the language model and the synthesiser, to
//! measure a server alone. Only arguments and signals; the mocks are in [`hearken_mock_services`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_base::output;
use hearken_base::stop_signal::on_signal;
use hearken_mock_services::{Delay, MockServices, Reply};
use hearken_virtual_device::recording::{FileKind, Recording};
use hearken_virtual_device::sound::{Side, Sound, read_wav};
use tokio_util::sync::CancellationToken;

/// Sample rate of the mock synthesiser, in Hz, as of most voices.
const VOICE_RATE_HZ: u32 = 24_000;

/// Serves mocks of the three upstream services, to measure a server alone.
///
/// The recogniser returns a different transcript each time, the model answers in numbered
/// sentences, and each of those sounds like the file. Delays are drawn from log-normal
/// distributions; equal seeds give equal delays.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  hearken-dev mock-services fixtures/audio/en_sorrow_with_pauses.jsonl\n  \
    hearken-dev mock-services speech.wav --asr-ms 150 --llm-ms 300 --tts-ms 80 --spread 0.5 --seed 7\n  \
    HEARKEN__EMBEDDED__ENABLED=false LLM_BASE_URL=http://127.0.0.1:9401/v1 hearken serve"
)]
pub(crate) struct Args {
    /// Audio of every sentence: a recording (.jsonl, its person), or a WAV file
    pub(crate) file: PathBuf,
    /// Address of the recogniser
    #[arg(long, default_value = "127.0.0.1:9200")]
    pub(crate) asr: SocketAddr,
    /// Address of the synthesiser
    #[arg(long, default_value = "127.0.0.1:9300")]
    pub(crate) tts: SocketAddr,
    /// Address of the language model
    #[arg(long, default_value = "127.0.0.1:9401")]
    pub(crate) llm: SocketAddr,
    /// Median delay from the end of an utterance to its transcript
    #[arg(long, default_value_t = 0)]
    pub(crate) asr_ms: u64,
    /// Median delay from a question to the first word
    #[arg(long, default_value_t = 0)]
    pub(crate) llm_ms: u64,
    /// Median delay from a sentence to its first audio
    #[arg(long, default_value_t = 0)]
    pub(crate) tts_ms: u64,
    /// Standard deviation of the logarithm of all these delays; 0 makes them equal
    #[arg(long, default_value_t = 0.0)]
    pub(crate) spread: f64,
    /// Seed of these delays
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Time from one word of the model to the next.
    #[arg(long, default_value_t = 0)]
    pub(crate) word_ms: u64,
    /// Number of sentences in an answer
    #[arg(long, default_value_t = 2)]
    pub(crate) sentences: usize,
    /// Length of a sentence; the file is truncated or repeated to it
    #[arg(long, default_value_t = 1_900)]
    pub(crate) sentence_ms: u64,
    /// Seconds of speech that the synthesiser produces per second; 0 produces all at once
    #[arg(long, default_value_t = 0.0)]
    pub(crate) speed: f64,
    /// Tool that the model calls, without arguments, before it answers
    #[arg(long)]
    pub(crate) call: Option<String>,
}

/// Serves until SIGTERM or Ctrl-C.
///
/// # Errors
/// Fails if the file cannot be read, or an address is in use.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let delay = |ms, salt: u64| {
        Delay::new(Duration::from_millis(ms), args.spread, args.seed.wrapping_add(salt))
    };
    let services = MockServices {
        asr: args.asr,
        tts: args.tts,
        llm: args.llm,
        asr_delay: delay(args.asr_ms, 0),
        llm_delay: delay(args.llm_ms, 1 << 32),
        tts_delay: delay(args.tts_ms, 2 << 32),
        tts_speed: args.speed,
        sound: sentence(&args.file, Duration::from_millis(args.sentence_ms))?,
        reply: Reply {
            sentences: args.sentences,
            word_every: Duration::from_millis(args.word_ms),
            calls: args.call,
        },
    };
    let stop = CancellationToken::new();
    let told = |at: hearken_mock_services::Addresses| {
        output::note(&format!(
            "mock services listen: ASR_URL=ws://{} TTS_URL=ws://{} LLM_BASE_URL=http://{}/v1",
            at.asr, at.tts, at.llm
        ))
        .ok();
    };
    let serving = hearken_mock_services::serve(services, stop.clone(), told);
    let (served, signalled) = tokio::join!(
        async {
            let served = serving.await;
            stop.cancel();
            served
        },
        on_signal(stop.clone()),
    );
    served
        .context("cannot start the mock services: another program may use their addresses; set --asr, --tts, --llm")?;
    Ok(signalled?)
}

/// Returns the file's speech, truncated or repeated to this length.
fn sentence(file: &Path, length: Duration) -> anyhow::Result<Sound> {
    let sound = speech(file)?.at_rate(VOICE_RATE_HZ)?;
    if sound.samples.is_empty() || length.is_zero() {
        bail!(
            "{}: the sound of a sentence is empty: use a file with sound, and --sentence-ms above 0",
            file.display()
        );
    }
    let wanted = hearken_audio::pcm::samples_in(length, VOICE_RATE_HZ);
    let samples = sound.samples.into_iter().cycle().take(wanted).collect();
    Ok(Sound { samples, rate_hz: VOICE_RATE_HZ })
}

/// Reads the person's speech in a recording, or the audio of a WAV or Ogg Opus file.
pub(crate) fn speech(file: &Path) -> anyhow::Result<Sound> {
    match FileKind::of(file) {
        // Read directly, not through the codec.
        Some(FileKind::Wav) => read_wav(file),
        _ => Recording::load(file)?.sound(Side::Up),
    }
}
