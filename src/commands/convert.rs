//! `hearken convert`: recordings from and to WAV and Ogg Opus. Only arguments and headers; reading
//! and writing are in [`hearken_virtual_device::recording`].

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use hearken_proto::recording::{Expect, Header};
use hearken_virtual_device::recording::{FileKind, Recording};
use hearken_virtual_device::sound::{self, Side};

/// Converts speech to a recorded session, or a session to speech.
#[derive(Debug, Clone, clap::Args)]
pub struct ConvertArgs {
    /// A recording (.jsonl), a WAV file (.wav) or an Ogg Opus file (.ogg, .opus).
    pub input: PathBuf,
    /// File to write, of another kind.
    pub output: PathBuf,
    /// Side of a recording.
    #[arg(long, value_enum, default_value = "up")]
    pub side: Side,
    /// Header: description in one line.
    #[arg(long)]
    pub title: Option<String>,
    /// Header: words of the person; a replay must recognise them.
    #[arg(long)]
    pub transcript: Option<String>,
    /// Header: highest error rate of the transcript (0.2 = 20 %).
    #[arg(long, requires = "transcript")]
    pub max_error: Option<f64>,
    /// Header: language of the speech, `zh` or `en`.
    #[arg(long)]
    pub language: Option<String>,
    /// Header: speaker.
    #[arg(long)]
    pub speaker: Option<String>,
    /// Header: origin of the speech.
    #[arg(long)]
    pub origin: Option<String>,
    /// Header: licence of the speech.
    #[arg(long)]
    pub licence: Option<String>,
    /// Header: further notes.
    #[arg(long)]
    pub notes: Option<String>,
    /// Header: end of the speech, in seconds from the start of the audio; detected by loudness by
    /// default.
    #[arg(long)]
    pub speech_end: Option<f64>,
    /// Header: a replay must produce a reply, with messages in the right order, of which
    /// recognition reads back this fraction.
    #[arg(long)]
    pub readback: Option<f64>,
}

/// Converts one file.
///
/// # Errors
/// Fails if a file cannot be read or written, or contains nothing to convert.
pub async fn run(args: ConvertArgs) -> anyhow::Result<ExitCode> {
    tokio::task::spawn_blocking(move || convert(&args)).await??;
    Ok(ExitCode::SUCCESS)
}

fn convert(args: &ConvertArgs) -> anyhow::Result<()> {
    for path in [&args.input, &args.output] {
        if FileKind::of(path).is_none() {
            bail!("{}: use a file name that ends in .jsonl, .wav, .ogg or .opus", path.display());
        }
    }
    let mut recording = Recording::load(&args.input)?;
    args.describe(recording.header_mut());
    recording.save(&args.output, args.side)
}

impl ConvertArgs {
    fn describe(&self, header: &mut Header) {
        let set = |field: &mut Option<String>, given: &Option<String>| {
            if given.is_some() {
                field.clone_from(given);
            }
        };
        set(&mut header.title, &self.title);
        set(&mut header.language, &self.language);
        set(&mut header.speaker, &self.speaker);
        set(&mut header.origin, &self.origin);
        set(&mut header.licence, &self.licence);
        set(&mut header.notes, &self.notes);
        if let Some(end) = self.speech_end {
            header.speech_end_s = Some(end + sound::LISTEN_AFTER.as_secs_f64());
        }
        if self.transcript.is_some() || self.readback.is_some() {
            let expect = header.expect.get_or_insert_with(Expect::default);
            set(&mut expect.transcript, &self.transcript);
            expect.max_error = self.max_error.or(expect.max_error);
            if self.readback.is_some() {
                expect.readback = self.readback;
                expect.reply = Some(true);
                expect.order =
                    ["hello", "stt", "tts start", "tts sentence_start", "audio", "tts stop"]
                        .map(String::from)
                        .to_vec();
            }
        }
    }
}
