//! OpenAI's speech API: `POST {base}/audio/speech` with `response_format: pcm`, streamed. Not for
//! its other formats, although some servers answer with WAV.
//!
//! - The PCM is s16le mono without a header. Its rate is in the content type, or not sent (24 kHz
//!   at OpenAI).
//! - Pieces of the body end anywhere, also between the two bytes of a sample.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use hearken_outbound::{SettingError, http};
use hearken_ports::{Line, Pcm, ProviderError, ProviderErrorKind, Tts};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::SAMPLE_RATES_HZ;
use super::sound::{SampleFormat, Sound};
use crate::service_health::Probe;
use crate::settings::{TtsSettings, ms};
use crate::vendor_models::tts_model;

const PROVIDER: &str = "openai-tts";

/// Voice for settings without one: the field is required.
const DEFAULT_VOICE: &str = "alloy";

/// Synthesiser at an OpenAI-compatible base URL.
#[derive(Debug)]
pub struct OpenAiTts {
    call: Arc<Call>,
}

/// Data of each request.
#[derive(Debug)]
struct Call {
    client: reqwest::Client,
    /// Base URL without a slash at its end.
    base: String,
    settings: TtsSettings,
}

impl OpenAiTts {
    /// Creates a client of `base` without connecting yet.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub fn new(base: &Url, settings: TtsSettings) -> Result<Self, SettingError> {
        let client = http::client(base, ms(settings.connect_timeout_ms))
            .map_err(|e| SettingError::client("tts.url", e))?;
        let base = base.as_str().trim_end_matches('/').to_owned();
        Ok(Self { call: Arc::new(Call { client, base, settings }) })
    }
}

impl Tts for OpenAiTts {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let order = Stage::Ordered(self.call.clone(), line);
        try_unfold(order, |stage| async move {
            let mut answer = match stage {
                Stage::Ordered(call, line) => Box::new(SpeechStream::begin(call, &line).await?),
                Stage::Answering(answer) => answer,
            };
            match answer.next().await? {
                Some(pcm) => Ok(Some((pcm, Stage::Answering(answer)))),
                None => Ok(None),
            }
        })
        .boxed()
    }
}

impl Probe for OpenAiTts {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        let Call { client, base, settings } = &*self.call;
        let within = ms(settings.connect_timeout_ms);
        http::probe(PROVIDER, client, base, &settings.api_key, within).boxed()
    }
}

enum Stage {
    Ordered(Arc<Call>, Line),
    Answering(Box<SpeechStream>),
}

/// Response body that is being read. Dropping it closes the request.
struct SpeechStream {
    response: Response,
    call: Arc<Call>,
    first_by: Instant,
    total_by: Instant,
    begun: bool,
    /// None after the end of the body.
    sound: Option<Sound>,
    ready: VecDeque<Pcm>,
}

impl SpeechStream {
    async fn begin(call: Arc<Call>, line: &Line) -> Result<Self, ProviderError> {
        let settings = &call.settings;
        let start = Instant::now();
        let total_by = start + ms(settings.timeout_ms);
        let first_by = total_by.min(start + ms(settings.first_audio_timeout_ms));
        let voices = [&*line.voice, &*settings.voice, DEFAULT_VOICE];
        let voice = voices.into_iter().find(|voice| !voice.is_empty());
        let mut order = json!({
            "model": tts_model(settings),
            "input": &*line.text,
            "voice": voice,
            "response_format": "pcm",
        });
        if settings.speed != 1.0 {
            order["speed"] = json!(settings.speed);
        }
        let url = format!("{}/audio/speech", call.base);
        let mut request = call.client.post(url).json(&order);
        if !settings.api_key.is_empty() {
            request = request.bearer_auth(settings.api_key.expose());
        }
        let response = timeout_at(first_by, request.send())
            .await
            .map_err(|_| http::timed_out(PROVIDER, "no audio within its deadline"))?
            .map_err(|e| http::transport(PROVIDER, e))?;
        if !response.status().is_success() {
            return Err(http::refusal(PROVIDER, response).await);
        }
        let kind = content_type(&response);
        let sound = Sound::new(raw_format(&kind, settings.http_sample_rate_hz));
        let sound = if may_be_samples(&kind) { sound } else { sound.only_wav(media_type(&kind)) };
        let ready = VecDeque::new();
        Ok(Self { response, call, first_by, total_by, begun: false, sound: Some(sound), ready })
    }

    async fn next(&mut self) -> Result<Option<Pcm>, ProviderError> {
        let settings = &self.call.settings;
        loop {
            if let Some(pcm) = self.ready.pop_front() {
                self.begun = true;
                return Ok(Some(pcm));
            }
            let Some(sound) = &mut self.sound else {
                return if self.begun {
                    Ok(None)
                } else {
                    Err(violated("the answer contains no audio"))
                };
            };
            let (by, missing) = if self.begun {
                (Instant::now() + ms(settings.idle_timeout_ms), "the audio stalled")
            } else {
                (self.first_by, "no audio within its deadline")
            };
            let piece = timeout_at(by.min(self.total_by), self.response.chunk())
                .await
                .map_err(|_| http::timed_out(PROVIDER, missing))?
                .map_err(|e| http::transport(PROVIDER, e))?;
            let made = match &piece {
                Some(piece) => sound.take(piece),
                None => sound.finish(),
            };
            self.ready.extend(made.map_err(violated)?);
            if piece.is_none() {
                self.sound = None;
            }
        }
    }
}

/// Returns the content type of a response, in lower case, with its parameters; empty if it has none.
fn content_type(response: &Response) -> String {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().to_ascii_lowercase()
}

/// Substrings of content types and their parameters that name formats other than PCM.
const OTHER_FORMATS: [&str; 45] = [
    "3gp", "aac", "ac3", "adpcm", "adts", "aif", "alac", "amr", "asf", "basic", "caf", "dsd",
    "dts", "dvi4", "f32", "f64", "flac", "float", "g71", "g72", "gsm", "ilbc", "latm", "law",
    "m4a", "m4b", "matroska", "midi", "mp2", "mp3", "mp4", "ogg", "opus", "pcma", "pcmu", "s16be",
    "s24", "s32", "silk", "speex", "u8", "vorbis", "wavpack", "webm", "wma",
];
/// Whole names of such formats that are also parts of other words.
const SHORT_NAMES: [&str; 6] = ["ape", "au", "l8", "l20", "l24", "tta"];

/// Reports whether samples without a header may have this content type. Servers label them in many
/// ways: as PCM, as bytes, as unspecified audio, or not at all. Gateways also label any audio as
/// MPEG, and real MPEG is detected by its frames. With any other name, only a WAV file is
/// recognised.
fn may_be_samples(kind: &str) -> bool {
    let (media, subtype) = media_type(kind).split_once('/').unwrap_or_default();
    let is_other = |name: &str| {
        let bare = name.trim_start_matches("x-").trim_start_matches("vnd.");
        SHORT_NAMES.contains(&bare) || OTHER_FORMATS.iter().any(|other| bare.contains(other))
    };
    let may_be = media.is_empty()
        || media == "audio"
        || subtype.contains("octet-stream")
        || subtype.contains("pcm");
    let names = ["encoding", "format", "codec", "codecs", "sampleformat"];
    let bits = ["bits", "bitdepth", "bitspersample", "samplesize"];
    may_be
        && !is_other(subtype)
        && !parameters(kind).any(|(name, value)| {
            (names.contains(&&*name) && is_other(value))
                || (bits.contains(&&*name) && value != "16")
        })
}

/// Returns the content type without its parameters.
fn media_type(kind: &str) -> &str {
    kind.split([';', ',']).next().unwrap_or_default().trim()
}

/// Returns the parameters of a content type, with names without hyphens: servers write `sample_rate`,
/// `sample-rate` and `sampleRate`.
fn parameters(kind: &str) -> impl Iterator<Item = (String, &str)> {
    kind.split([';', ',']).skip(1).filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        Some((name.trim().replace(['-', '_'], ""), value.trim().trim_matches('"')))
    })
}

/// Returns the format of samples without a header: from the content type, such as
/// `audio/L16;rate=16000`, or the agreed one.
fn raw_format(kind: &str, agreed_hz: u32) -> SampleFormat {
    let parameter = |names: [&str; 2]| {
        let mut named = parameters(kind).filter(|(name, _)| names.contains(&&**name));
        named.next().and_then(|(_, value)| value.trim_end_matches("hz").trim().parse::<u32>().ok())
    };
    let told =
        parameter(["rate", "samplerate"]).filter(|rate_hz| SAMPLE_RATES_HZ.contains(rate_hz));
    let stereo = parameter(["channels", "channel"]) == Some(2);
    SampleFormat { rate_hz: told.unwrap_or(agreed_hz), stereo }
}

fn violated(what: impl Into<hearken_ports::BoxError>) -> ProviderError {
    ProviderError::because(PROVIDER, ProviderErrorKind::Protocol, what)
}

#[cfg(test)]
mod tests {
    use hearken_test_support::scripted_server::{ScriptedServer, answer};

    use super::*;
    use crate::tts::sound::tests::{file, mp3};

    /// Returns all pieces of the sound of an answer with this body.
    async fn heard(kind: &str, body: &[u8]) -> Vec<Result<Pcm, ProviderError>> {
        let kind = format!("content-type: {kind}\r\n");
        let server = ScriptedServer::start([answer(200, &kind, body)]).await;
        let url = Url::parse(&server.url("http", "/v1")).unwrap();
        let tts = OpenAiTts::new(&url, TtsSettings::default()).unwrap();
        tts.speak(Line::new("a")).collect().await
    }

    #[tokio::test]
    async fn a_wav_file_is_decoded_with_any_content_type() {
        let speech: Vec<i16> = (0..8_000).map(|n| n * 4 - 16_000).collect();
        let wav = file(1, 16_000, 16_000, b"LIST\x04\0\0\0abcd", &speech);
        for kind in ["audio/pcm", "audio/wav", "audio/x-wav", "audio/mpeg", "application/x"] {
            let pieces: Vec<Pcm> =
                heard(kind, &wav).await.into_iter().collect::<Result<_, _>>().unwrap();
            let own_rate = pieces.iter().all(|pcm| pcm.sample_rate_hz == 16_000);
            assert!(own_rate, "{kind}: not at the rate of the WAV file");
            let played: Vec<i16> = pieces.iter().flat_map(|pcm| pcm.samples.to_vec()).collect();
            assert!(played == speech, "{kind}: {} samples of {}", played.len(), speech.len());
        }
    }

    #[tokio::test]
    async fn samples_have_the_rate_of_the_content_type() {
        for (kind, rate_hz, samples) in [
            ("audio/pcm", 24_000, 400),
            ("audio/L16;rate=16000", 16_000, 400),
            ("audio/pcm; rate=8000; channels=2", 8_000, 200),
            ("audio/pcm; rate=\"16000\"", 16_000, 400),
            ("audio/pcm; rate=1", 24_000, 400),
            ("audio/pcm;sample_rate=16000", 16_000, 400),
            ("audio/pcm; sample-rate=16000", 16_000, 400),
            ("audio/pcm; sampleRate=16000", 16_000, 400),
            ("audio/pcm;rate=16000Hz", 16_000, 400),
            ("audio/x-raw, format=S16LE, rate=16000, channels=1", 16_000, 400),
            ("audio/L16;codec=pcm;bits=16;bitrate=256", 24_000, 400),
            ("application/octet-stream", 24_000, 400),
            ("audio/wav", 24_000, 400),
            ("audio/mpeg", 24_000, 400),
            ("", 24_000, 400),
        ] {
            let pieces: Vec<Pcm> =
                heard(kind, &[0; 800]).await.into_iter().map(Result::unwrap).collect();
            let whole: usize = pieces.iter().map(|pcm| pcm.samples.len()).sum();
            assert_eq!((pieces[0].sample_rate_hz, whole), (rate_hz, samples), "{kind}");
        }
    }

    #[tokio::test]
    async fn data_other_than_sound_are_never_played() {
        for (kind, body) in [
            ("application/json; charset=utf-8", b"{}".as_slice()),
            ("audio/pcm", b"{\"error\":{\"message\":\"no such voice\"}}"),
            ("", b"<html><body>502 Bad Gateway</body></html>"),
            ("audio/webm", b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81"),
            ("audio/pcm", b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81"),
            ("audio/mpeg", "服务暂时不可用，请稍后再试。".as_bytes()),
            ("audio/opus", &[7; 900]),
            ("application/hal+json", &[7; 900]),
        ] {
            let pieces = heard(kind, body).await;
            assert!(
                matches!(&pieces[..], [Err(error)] if error.kind == ProviderErrorKind::Protocol),
                "{kind}: {pieces:?}"
            );
        }
    }

    #[test]
    fn samples_are_refused_if_their_content_type_names_another_format() {
        for kind in [
            "",
            "audio/pcm",
            "audio/x-pcm;bit-depth=16",
            "audio/l16; rate=16000",
            "audio/raw",
            "audio/x-raw, format=s16le",
            "audio/wav",
            "audio/mpeg",
            "audio/vnd.wave; codec=1",
            "audio/*",
            "application/octet-stream",
            "binary/octet-stream",
            "application/pcm",
        ] {
            assert!(may_be_samples(kind), "{kind}");
        }
        for kind in [
            "audio/opus",
            "audio/ogg; codecs=opus",
            "audio/vorbis",
            "audio/x-flac",
            "audio/mp3",
            "audio/x-m4a",
            "audio/mp4a-latm",
            "audio/basic",
            "audio/x-mulaw;rate=8000",
            "audio/pcmu",
            "audio/x-alaw-basic",
            "audio/l8",
            "audio/l24;rate=24000",
            "audio/x-f32le",
            "audio/pcm;encoding=float;bits=32;rate=24000",
            "audio/pcm;bits=8",
            "audio/x-ms-wma",
            "audio/x-au",
            "image/png",
            "video/mp2t",
            "multipart/mixed; boundary=x",
            "text/event-stream",
            "application/pdf",
            "application/json",
            "application/msgpack",
        ] {
            assert!(!may_be_samples(kind), "{kind}");
        }
    }

    #[tokio::test]
    async fn an_mp3_file_is_refused_before_any_of_it_is_played() {
        let tagged =
            [b"ID3\x04\0\0\0\0\0\x0aTSSE\0\0\0\0\0\0".to_vec(), mp3(0xfb, 0x90, 417)].concat();
        for kind in ["audio/pcm", "audio/mpeg", "application/x"] {
            for body in [&mp3(0xfb, 0x90, 417), &mp3(0xf3, 0x84, 192), &tagged] {
                let mut pieces = heard(kind, body).await;
                assert_eq!(pieces.len(), 1, "{kind}: one error, and no audio");
                let error = pieces.remove(0).unwrap_err();
                assert_eq!(error.kind, ProviderErrorKind::Protocol);
                let told = error.to_string();
                assert!(told.contains("MP3, not PCM: set the voice service to `pcm`"), "{told}");
            }
        }
    }
}
