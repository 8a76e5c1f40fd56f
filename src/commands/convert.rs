//! `hearken convert`: recordings from and to WAV and Ogg Opus. Only arguments and headers; reading
//! and writing are in [`hearken_virtual_device::recording`].

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use hearken_proto::recording::{Expect, Header};
use hearken_virtual_device::recording::{FileKind, Recording};
use hearken_virtual_device::sound::{self, Side};

/// Turns speech into a recorded session, or a session into speech.
#[derive(Debug, Clone, clap::Args)]
pub struct ConvertArgs {
    /// A recording (.jsonl), a WAV file (.wav) or an Ogg Opus file (.ogg, .opus).
    pub input: PathBuf,
    /// What to write, of another kind.
    pub output: PathBuf,
    /// Which side of a recording to take.
    #[arg(long, value_enum, default_value = "up")]
    pub side: Side,
    /// Header: one line on what it is.
    #[arg(long)]
    pub title: Option<String>,
    /// Header: what the person says; a replay must recognise it.
    #[arg(long)]
    pub transcript: Option<String>,
    /// Header: most errors allowed in the transcript (0.2 = 20 %).
    #[arg(long, requires = "transcript")]
    pub max_error: Option<f64>,
    /// Header: language of the speech, `zh` or `en`.
    #[arg(long)]
    pub language: Option<String>,
    /// Header: who speaks.
    #[arg(long)]
    pub speaker: Option<String>,
    /// Header: where the speech comes from.
    #[arg(long)]
    pub origin: Option<String>,
    /// Header: licence of the speech.
    #[arg(long)]
    pub licence: Option<String>,
    /// Header: anything else.
    #[arg(long)]
    pub notes: Option<String>,
    /// Header: when the speech ends, in seconds from the start of the sound; found by loudness
    /// where not given.
    #[arg(long)]
    pub speech_end: Option<f64>,
    /// Header: a replay must bring a reply, in the right order of messages, of which this part
    /// is read back by recognition.
    #[arg(long)]
    pub readback: Option<f64>,
}

/// Converts one file.
///
/// # Errors
/// A file cannot be read or written, or holds nothing that could be converted.
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
