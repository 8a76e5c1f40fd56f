//! `hearken mock-services`: doubles of the recogniser, the language model and the synthesiser, so that a
//! server can be measured alone. Only arguments and signals; what they do is in [`hearken_mock_services`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_mock_services::{Delay, MockServices, Reply};
use hearken_virtual_device::recording::{FileKind, Recording};
use hearken_virtual_device::sound::{Side, Sound, read_wav};
use tokio_util::sync::CancellationToken;

use crate::shutdown;

/// Rate of the synthesiser's double, as of most voices.
const VOICE_RATE_HZ: u32 = 24_000;

/// Serves doubles of the three upstream services, to measure a server alone.
///
/// The recogniser understands something else each time, the model answers in numbered sentences,
/// and each of those sounds like the file. Times are drawn from log-normal distributions; the same
/// seed draws the same.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  hearken mock-services fixtures/audio/en_sorrow_with_pauses.jsonl\n  \
    hearken mock-services speech.wav --asr-ms 150 --llm-ms 300 --tts-ms 80 --spread 0.5 --seed 7\n  \
    HEARKEN__EMBEDDED__ENABLED=false LLM_BASE_URL=http://127.0.0.1:9401/v1 hearken serve"
)]
pub struct Args {
    /// What every sentence sounds like: a recording (.jsonl, its person), or a WAV file.
    pub file: PathBuf,
    /// Where the recogniser listens.
    #[arg(long, default_value = "127.0.0.1:9200")]
    pub asr: SocketAddr,
    /// Where the synthesiser listens.
    #[arg(long, default_value = "127.0.0.1:9300")]
    pub tts: SocketAddr,
    /// Where the language model listens.
    #[arg(long, default_value = "127.0.0.1:9401")]
    pub llm: SocketAddr,
    /// Median from the end of an utterance to its transcript.
    #[arg(long, default_value_t = 0)]
    pub asr_ms: u64,
    /// Median from a question to the first word.
    #[arg(long, default_value_t = 0)]
    pub llm_ms: u64,
    /// Median from a sentence to its first sound.
    #[arg(long, default_value_t = 0)]
    pub tts_ms: u64,
    /// Deviation of the logarithm of all these times; 0 makes them all the same.
    #[arg(long, default_value_t = 0.0)]
    pub spread: f64,
    /// Seed of these times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Time from one word of the model to the next.
    #[arg(long, default_value_t = 0)]
    pub word_ms: u64,
    /// Sentences in an answer.
    #[arg(long, default_value_t = 2)]
    pub sentences: usize,
    /// How long a sentence sounds; the file is cut there, or repeated.
    #[arg(long, default_value_t = 1_900)]
    pub sentence_ms: u64,
    /// Seconds of speech that the synthesiser makes in a second; 0 makes all of it at once.
    #[arg(long, default_value_t = 0.0)]
    pub speed: f64,
    /// The model calls this tool, without arguments, before it answers.
    #[arg(long)]
    pub call: Option<String>,
}

/// Serves until SIGTERM or Ctrl-C.
///
/// # Errors
/// The file cannot be read, or an address is taken.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let delay = |ms, salt: u64| {
        Delay::new(Duration::from_millis(ms), args.spread, args.seed.wrapping_add(salt))
    };
    let doubles = MockServices {
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
        super::note(&format!(
            "doubles listen: ASR_URL=ws://{} TTS_URL=ws://{} LLM_BASE_URL=http://{}/v1",
            at.asr, at.tts, at.llm
        ))
        .ok();
    };
    let serving = hearken_mock_services::serve(doubles, stop.clone(), told);
    let (served, signalled) = tokio::join!(
        async {
            let served = serving.await;
            stop.cancel();
            served
        },
        shutdown::on_signal(stop.clone()),
    );
    served
        .context("the doubles cannot run: is something listening there? use --asr, --tts, --llm")?;
    Ok(signalled?)
}

/// The file's speech, of just this length.
fn sentence(file: &Path, length: Duration) -> anyhow::Result<Sound> {
    let sound = speech(file)?.at_rate(VOICE_RATE_HZ)?;
    if sound.samples.is_empty() || length.is_zero() {
        bail!("{}: a sentence needs some sound: see --sentence-ms", file.display());
    }
    let wanted = hearken_actors::audio::pcm::samples_in(length, VOICE_RATE_HZ);
    let samples = sound.samples.into_iter().cycle().take(wanted).collect();
    Ok(Sound { samples, rate_hz: VOICE_RATE_HZ })
}

/// What a person says in a recording, or the sound of a WAV or Ogg Opus file.
pub(super) fn speech(file: &Path) -> anyhow::Result<Sound> {
    match FileKind::of(file) {
        // As it is, not through the codec.
        Some(FileKind::Wav) => read_wav(file),
        _ => Recording::load(file)?.sound(Side::Up),
    }
}
