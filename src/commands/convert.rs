//! `hearken convert`: recordings from and to WAV and Ogg Opus, told apart by the file's ending.
//! Not for streaming a recording to a server, which is `replay`.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use hearken_proto::device::AudioParams;
use hearken_proto::recording::{Content, Expect, Header, Recording};
use hearken_virtual_device::ogg::OggOpus;
use hearken_virtual_device::packet_length;
use hearken_virtual_device::sound::{self, PACKET, Side};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Recording,
    Wav,
    Ogg,
}

impl Kind {
    fn of(path: &Path) -> anyhow::Result<Self> {
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "jsonl" => Ok(Self::Recording),
            "wav" => Ok(Self::Wav),
            "ogg" | "opus" => Ok(Self::Ogg),
            _ => bail!(
                "{}: use a file name that ends in .jsonl, .wav, .ogg or .opus",
                path.display()
            ),
        }
    }
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
    let (from, to) = (Kind::of(&args.input)?, Kind::of(&args.output)?);
    let mut recording = match from {
        Kind::Recording => read_recording(&args.input)?,
        Kind::Wav => sound::read_wav(&args.input)?.to_recording(Header::default())?,
        Kind::Ogg => read_ogg(&args.input)?,
    };
    args.describe(&mut recording.header);
    match to {
        Kind::Recording => write(&args.output, recording.render().as_bytes()),
        Kind::Wav => sound::write_wav(&args.output, &sound::side_of(&recording, args.side)?),
        Kind::Ogg => write(&args.output, &to_ogg(&recording, args.side).render()?),
    }
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

/// Reads a recording from a file.
///
/// # Errors
/// The file cannot be read, or a line of it; names both.
pub fn read_recording(path: &Path) -> anyhow::Result<Recording> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Recording::parse(&text).with_context(|| format!("{name} is no recording"))
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

const COMMENTS: [&str; 5] = ["TITLE", "LANGUAGE", "ARTIST", "LICENSE", "DESCRIPTION"];

fn fields(header: &mut Header) -> [&mut Option<String>; 5] {
    [
        &mut header.title,
        &mut header.language,
        &mut header.speaker,
        &mut header.licence,
        &mut header.origin,
    ]
}

fn read_ogg(path: &Path) -> anyhow::Result<Recording> {
    let name = path.display();
    let file = fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
    let ogg =
        OggOpus::parse(BufReader::new(file)).with_context(|| format!("cannot read {name}"))?;
    let length = ogg.packet_length().with_context(|| format!("{name} holds no audio"))?;
    let frame_duration = u32::try_from(length.as_millis()).unwrap_or(60);
    let mut header = Header {
        uplink: AudioParams::opus(sound::UPLINK_RATE_HZ, frame_duration),
        ..Header::default()
    };
    for (field, comment) in fields(&mut header).into_iter().zip(COMMENTS) {
        *field = ogg.comments.iter().find(|(n, _)| n == comment).map(|(_, v)| v.clone());
    }
    let timed = ogg.packets.into_iter().map(|opus| {
        let length = packet_length(&opus).unwrap_or(PACKET);
        (opus, length)
    });
    let mut recording = sound::recording_of(header, timed);
    let end = sound::side_of(&recording, Side::Up)?.speech_end() + sound::LISTEN_AFTER;
    recording.header.speech_end_s = Some((end.as_secs_f64() * 1_000.0).round() / 1_000.0);
    Ok(recording)
}

fn to_ogg(recording: &Recording, side: Side) -> OggOpus {
    let mut header = recording.header.clone();
    let input_rate_hz = match side {
        Side::Up => header.uplink.sample_rate,
        Side::Down => header.downlink.sample_rate,
    };
    let comments = COMMENTS
        .into_iter()
        .zip(fields(&mut header))
        .filter_map(|(name, value)| Some((name.to_owned(), value.take()?)))
        .collect();
    let packets = recording.frames.iter().filter_map(|frame| match (&frame.content, side) {
        (Content::UpAudio(opus), Side::Up) | (Content::DownAudio(opus), Side::Down) => {
            Some(opus.clone())
        }
        _ => None,
    });
    OggOpus { input_rate_hz, comments, packets: packets.collect() }
}
