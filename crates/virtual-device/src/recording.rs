//! Files of recorded sessions: JSON lines, WAV and Ogg Opus, distinguished by the file extension.
//! Not for the format of the JSON lines, which is in [`hearken_proto::recording`], nor for playing
//! them to a server, which is in [`super::replay`].

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context as _, bail};
use hearken_audio::files::other_file_format;
use hearken_proto::device::AudioParams;
use hearken_proto::recording::{self as format, Content, Header};

use super::ogg::{OggOpus, PRE_SKIP};
use super::packet_length;
use super::sound::{self, PACKET, Side, Sound};

/// Reason why a file could not be read as a recording, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct LoadError {
    /// Path of the file.
    pub path: PathBuf,
    /// Line in the file, from 1; `None` if the whole file is invalid.
    pub line: Option<usize>,
    /// Description of the error, with the name of the field if it is in one.
    pub reason: String,
}

/// Content of a file, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A session as JSON lines (`.jsonl`).
    Session,
    /// Speech (`.wav`).
    Wav,
    /// Speech as Opus packets (`.ogg`, `.opus`).
    Ogg,
}

impl FileKind {
    /// Returns the kind of a file by its extension, in upper or lower case; `None` for any other
    /// extension.
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "jsonl" => Some(Self::Session),
            "wav" => Some(Self::Wav),
            "ogg" | "opus" => Some(Self::Ogg),
            _ => None,
        }
    }
}

/// Recorded session of a person at a device, which can be replayed to a server.
///
/// Created by `hearken serve --record DIR`, by `hearken convert` from speech, or by [`Self::load`]
/// directly from a WAV or Ogg Opus file: then a person says the content of the file to a device in
/// auto mode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    session: format::Recording,
    /// Name of its file, for messages.
    name: String,
}

impl Recording {
    /// Reads a session (JSON lines), or speech from a WAV (`.wav`) or Ogg Opus file (`.ogg`,
    /// `.opus`). Blocks while it reads the disk.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if its content does not match its extension; the error
    /// names the file, and the line of a session.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let fault = |line, reason: String| LoadError { path: path.to_owned(), line, reason };
        let read = |made: anyhow::Result<format::Recording>| {
            made.map_err(|reason| fault(None, format!("{reason:#}")))
        };
        let session = match FileKind::of(path) {
            Some(FileKind::Wav) => {
                let sound = sound::read_wav(path).and_then(|s| s.to_recording(Header::default()));
                read(sound)?
            }
            Some(FileKind::Ogg) => read(from_ogg(path))?,
            Some(FileKind::Session) | None => {
                let unread =
                    |e: &dyn fmt::Display| fault(None, format!("cannot read the recording: {e}"));
                let bytes = fs::read(path).map_err(|e| unread(&e))?;
                if let Some(format) = other_file_format(&bytes) {
                    let reason = format!(
                        "it is {format}, not a recording: convert it into WAV, as by `ffmpeg -i FILE out.wav`"
                    );
                    return Err(fault(None, reason));
                }
                let text = String::from_utf8(bytes).map_err(|e| unread(&e.utf8_error()))?;
                format::Recording::parse(&text).map_err(|e| {
                    let field = e.field.map(|f| format!("field `{f}`: ")).unwrap_or_default();
                    fault(Some(e.line), format!("{field}{}", e.reason))
                })?
            }
        };
        Ok(Self { session, name: path.display().to_string() })
    }

    /// Creates a recording from a session in memory; `name` is used in messages.
    pub fn new(name: impl Into<String>, session: format::Recording) -> Self {
        Self { session, name: name.into() }
    }

    /// Creates a recording in which a person says this, at any sample rate, to a device in auto
    /// mode.
    ///
    /// # Errors
    /// Fails if the audio cannot be resampled or encoded.
    pub fn of_speech(sound: &Sound) -> anyhow::Result<Self> {
        Ok(Self::new("speech", sound.to_recording(Header::default())?))
    }

    /// Returns the name of its file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the header: metadata, and the expectations of a replay.
    pub fn header(&self) -> &Header {
        &self.session.header
    }

    /// Returns the header for changes.
    pub fn header_mut(&mut self) -> &mut Header {
        &mut self.session.header
    }

    /// Returns the session with its frames.
    pub fn session(&self) -> &format::Recording {
        &self.session
    }

    /// Returns the audio of one side, without the silences between packets.
    ///
    /// # Errors
    /// Fails if Opus does not support the sample rate of this side, or if it contains no packet.
    pub fn sound(&self, side: Side) -> anyhow::Result<Sound> {
        sound::side_of(&self.session, side)
    }

    /// Writes the whole session (`.jsonl`), or the audio of one side as WAV (`.wav`) or Ogg Opus
    /// (`.ogg`, `.opus`). Blocks while it writes to the disk.
    ///
    /// # Errors
    /// Fails if the name has another extension, the side contains no audio, or the file cannot be
    /// written.
    pub fn save(&self, path: impl AsRef<Path>, side: Side) -> anyhow::Result<()> {
        let path = path.as_ref();
        let bytes = match FileKind::of(path) {
            Some(FileKind::Session) => self.session.render().into_bytes(),
            Some(FileKind::Wav) => return sound::write_wav(path, &self.sound(side)?),
            Some(FileKind::Ogg) => to_ogg(&self.session, side).render()?,
            None => bail!(
                "{}: use a file name that ends in .jsonl, .wav, .ogg or .opus",
                path.display()
            ),
        };
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Comments of an Ogg Opus file for the corresponding fields of a header.
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

fn from_ogg(path: &Path) -> anyhow::Result<format::Recording> {
    let file = fs::File::open(path).context("cannot read the file")?;
    let ogg = OggOpus::parse(BufReader::new(file))?;
    let length = ogg.packet_length().context("it holds no audio")?;
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
    let end: Duration = sound::side_of(&recording, Side::Up)?.speech_end() + sound::LISTEN_AFTER;
    recording.header.speech_end_s = Some((end.as_secs_f64() * 1_000.0).round() / 1_000.0);
    Ok(recording)
}

fn to_ogg(recording: &format::Recording, side: Side) -> OggOpus {
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
    OggOpus { input_rate_hz, pre_skip: PRE_SKIP, comments, packets: packets.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the error of loading a file with this text, without its folder.
    fn refused(text: &str) -> String {
        let folder = std::env::temp_dir().join(format!("hearken-{:016x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("session.jsonl");
        fs::write(&path, text).unwrap();
        let told = Recording::load(&path).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        told.strip_prefix(&format!("{}/", folder.display())).unwrap().to_owned()
    }

    #[test]
    fn an_error_names_file_and_line() {
        let head = r#"{"format":"hearken-recording","version":1}"#;
        assert_eq!(
            refused(&format!("{head}\n{{\"t\":0,\"up\":{{}}}}\n{{\"t\":\"x\",\"up\":{{}}}}\n")),
            "session.jsonl:3: field `t`: must be a number of seconds"
        );
        assert_eq!(refused("{}\n"), "session.jsonl:1: field `format`: must be `hearken-recording`");
        let missing = Recording::load("nowhere.jsonl").unwrap_err();
        assert!(missing.to_string().starts_with("nowhere.jsonl: cannot read"), "{missing}");
        let missing = Recording::load("nowhere.WAV").unwrap_err();
        assert_eq!(missing.line, None);
        assert!(missing.to_string().contains("as a WAV file"), "{missing}");
    }
}
