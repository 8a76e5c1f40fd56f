//! Audio files: conversion between WAV files and recordings. Not for Ogg, which is in
//! [`super::ogg`].

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use hearken_audio::files::{other_file_format, with_size};
use hearken_audio::opus::{Decoder, Encoder};
use hearken_audio::resample::Resampler;
use hearken_proto::recording::{Content, Frame, Header, Recording};
use serde_json::json;

use super::dtx::Dtx;
use super::report::Report;

/// Sample rate of the audio from devices, in Hz.
pub const UPLINK_RATE_HZ: u32 = 16_000;
/// Packet length of the audio from devices.
pub const PACKET: Duration = Duration::from_millis(60);
/// Bitrate of the uplink, in bits per second. Firmware's encoder runs at complexity 0.
const BITRATE_BPS: i32 = 24_000;
const COMPLEXITY: u8 = 0;
/// Time from the hello to the first `listen start` in a recording made from speech.
pub const LISTEN_AFTER: Duration = Duration::from_millis(100);
/// Level of silence, as a fraction of the loudest 20 ms.
const SILENCE_BELOW_PEAK: f64 = 0.1;
/// Longest silence in a WAV file of the reply; longer ones are shortened to it.
const LONGEST_GAP: Duration = Duration::from_secs(2);

/// Mono samples with their rate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sound {
    /// 16-bit samples.
    pub samples: Vec<i16>,
    /// Samples per second.
    pub rate_hz: u32,
}

/// One side of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// The person at the device.
    Up,
    /// The server's reply.
    Down,
}

/// Reads a WAV file of any rate, depth and number of channels, mixed to mono.
///
/// # Errors
/// Fails if the file cannot be read, is not a WAV file, or contains no audio.
pub fn read_wav(path: &Path) -> anyhow::Result<Sound> {
    let name = path.display();
    let file = std::fs::read(path).with_context(|| format!("cannot read {name} as a WAV file"))?;
    if let Some(format) = other_file_format(&file) {
        bail!("{name} is {format}, not WAV: convert it, as by `ffmpeg -i FILE out.wav`");
    }
    let mut reader = hound::WavReader::new(Cursor::new(with_size(&file)))
        .with_context(|| format!("cannot read {name} as a WAV file"))?;
    let spec = reader.spec();
    let channels = usize::from(spec.channels.max(1));
    let interleaved: Vec<f32> = match spec.sample_format {
        hound::SampleFormat::Float => reader.samples::<f32>().collect::<Result<_, _>>(),
        hound::SampleFormat::Int => {
            let full = (1_i64 << (spec.bits_per_sample - 1)) as f32;
            reader.samples::<i32>().map(|s| s.map(|s| s as f32 / full)).collect()
        }
    }
    .with_context(|| format!("{name} is cut off or damaged"))?;
    let mono = interleaved.chunks_exact(channels).map(|frame| {
        let mean = frame.iter().sum::<f32>() / channels as f32;
        (mean * 32_767.0).round().clamp(-32_768.0, 32_767.0) as i16
    });
    let sound = Sound { samples: mono.collect(), rate_hz: spec.sample_rate };
    if sound.samples.is_empty() {
        bail!("{name} holds no sound");
    }
    Ok(sound)
}

/// Writes a 16-bit mono WAV file.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_wav(path: &Path, sound: &Sound) -> anyhow::Result<()> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: sound.rate_hz,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let write = || -> Result<(), hound::Error> {
        let mut writer = hound::WavWriter::create(path, spec)?;
        for sample in &sound.samples {
            writer.write_sample(*sample)?;
        }
        writer.finalize()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

impl Sound {
    /// Returns the audio at another sample rate.
    ///
    /// # Errors
    /// Fails if one of the rates is 0 or cannot be converted.
    pub fn at_rate(&self, rate_hz: u32) -> anyhow::Result<Self> {
        let mut samples = Vec::new();
        let mut resampler = Resampler::new(self.rate_hz, rate_hz)?;
        resampler.process(&self.samples, &mut samples);
        resampler.finish(&mut samples);
        Ok(Self { samples, rate_hz })
    }

    /// Returns packets of 60 ms, as a device would send them; the last one is padded with silence.
    ///
    /// # Errors
    /// Fails if the audio cannot be resampled or encoded.
    pub fn packets(&self) -> anyhow::Result<Vec<Bytes>> {
        self.encoded(|opus, _| opus)
    }

    /// Returns the same packets, with those of silence reduced to one byte or none (DTX).
    ///
    /// # Errors
    /// Fails if the audio cannot be resampled or encoded.
    pub fn packets_with_dtx(&self) -> anyhow::Result<Vec<Bytes>> {
        let mut dtx = Dtx::default();
        self.encoded(|opus, frame| dtx.packet(opus, frame))
    }

    fn encoded(&self, mut shape: impl FnMut(Bytes, &[i16]) -> Bytes) -> anyhow::Result<Vec<Bytes>> {
        let sound = self.at_rate(UPLINK_RATE_HZ)?;
        let mut encoder = Encoder::new(UPLINK_RATE_HZ, BITRATE_BPS, COMPLEXITY)?;
        let length = samples_in(PACKET, UPLINK_RATE_HZ);
        let mut packets = Vec::new();
        for chunk in sound.samples.chunks(length) {
            let mut frame = chunk.to_vec();
            frame.resize(length, 0);
            packets.push(shape(encoder.encode(&frame)?, &frame));
        }
        Ok(packets)
    }

    /// Returns the time at which the speech ends, detected by loudness; the length of the audio if
    /// all of it is quiet.
    pub fn speech_end(&self) -> Duration {
        let frame = samples_in(Duration::from_millis(20), self.rate_hz).max(1);
        let energy = |chunk: &[i16]| {
            let sum: f64 = chunk.iter().map(|s| f64::from(*s) * f64::from(*s)).sum();
            (sum / chunk.len() as f64).sqrt()
        };
        let loud: Vec<f64> = self.samples.chunks(frame).map(energy).collect();
        let peak = loud.iter().copied().fold(0.0, f64::max);
        let last = loud.iter().rposition(|e| *e > peak * SILENCE_BELOW_PEAK);
        let samples = last.map_or(self.samples.len(), |at| (at + 1) * frame);
        Duration::from_secs_f64(samples as f64 / f64::from(self.rate_hz.max(1)))
    }

    /// Returns a session in which a person says this to a device in auto mode.
    ///
    /// # Errors
    /// Fails if the audio cannot be resampled or encoded.
    pub fn to_recording(&self, mut header: Header) -> anyhow::Result<Recording> {
        if header.speech_end_s.is_none() {
            header.speech_end_s = Some(seconds(LISTEN_AFTER + self.speech_end()));
        }
        Ok(recording_of(header, self.packets()?.into_iter().map(|opus| (opus, PACKET))))
    }
}

/// Returns a session that sends these packets, each with its length, in auto mode.
pub fn recording_of(header: Header, packets: impl Iterator<Item = (Bytes, Duration)>) -> Recording {
    let hello = json!({
        "type": "hello", "version": header.framing, "transport": "websocket", "features": {},
        "audio_params": header.uplink,
    });
    let listen = json!({"type": "listen", "state": "start", "mode": "auto", "session_id": ""});
    let mut frames = vec![
        Frame { at: Duration::ZERO, content: Content::Up(hello) },
        Frame { at: LISTEN_AFTER, content: Content::Up(listen) },
    ];
    let mut at = LISTEN_AFTER;
    for (opus, length) in packets {
        // A packet is sent once its last sample was recorded.
        at += length;
        frames.push(Frame { at, content: Content::UpAudio(opus) });
    }
    Recording { header, frames }
}

/// Returns the audio of one side of a recording, without the silences between packets.
///
/// # Errors
/// Fails if the sample rate of this side is not supported by Opus, or if it contains no packet.
pub fn side_of(recording: &Recording, side: Side) -> anyhow::Result<Sound> {
    let params = match side {
        Side::Up => &recording.header.uplink,
        Side::Down => &recording.header.downlink,
    };
    let mut decoder = Decoder::new(params.sample_rate)?;
    let mut samples = Vec::new();
    let mut packets = 0;
    for frame in &recording.frames {
        let opus = match (&frame.content, side) {
            (Content::UpAudio(opus), Side::Up) | (Content::DownAudio(opus), Side::Down) => opus,
            _ => continue,
        };
        packets += 1;
        if let Err(e) = decoder.decode(opus, &mut samples) {
            tracing::warn!(packet = packets, "skipped a packet that does not decode: {e}");
        }
    }
    if packets == 0 {
        bail!("the recording holds no audio on that side");
    }
    Ok(Sound { samples, rate_hz: params.sample_rate })
}

/// Returns the audio that a person next to the device heard, including silences of up to two seconds.
///
/// # Errors
/// Fails if Opus does not support the rate.
pub fn heard(report: &Report, rate_hz: u32) -> anyhow::Result<Sound> {
    played(report, rate_hz, LONGEST_GAP)
}

/// Returns the audio that the device played, packet after packet, as the server sent it: a late
/// packet leaves no silence.
///
/// # Errors
/// Fails if Opus does not support the rate.
pub fn sent(report: &Report, rate_hz: u32) -> anyhow::Result<Sound> {
    played(report, rate_hz, Duration::ZERO)
}

/// Decodes the played packets, with silences between them of at most `longest_gap`.
fn played(report: &Report, rate_hz: u32, longest_gap: Duration) -> anyhow::Result<Sound> {
    let mut decoder = Decoder::new(rate_hz)?;
    let mut samples = Vec::new();
    let mut ended = None;
    for (at, opus, length) in report.heard() {
        if let Some(ended) = ended {
            let silence = at.saturating_sub(ended).min(longest_gap);
            samples.resize(samples.len() + samples_in(silence, rate_hz), 0);
        }
        if let Err(e) = decoder.decode(opus, &mut samples) {
            tracing::warn!("cannot decode a packet of the reply: {e}");
        }
        ended = Some(at + length);
    }
    Ok(Sound { samples, rate_hz })
}

fn samples_in(time: Duration, rate_hz: u32) -> usize {
    hearken_audio::pcm::samples_in(time, rate_hz)
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000.0).round() / 1_000.0
}
