//! REST API of service tests. Not for the tests themselves, nor for the states of services.

use actix_web::{HttpResponse, web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hearken_base::ms::in_ms;
use hearken_ports::role::MAX_NAME_CHARS;
use hearken_proto::fault::Fault;
use hearken_proto::json;
use hearken_providers::TurnService;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::history::sound::wav_file;
use crate::http::extract::Operator;
use crate::http::fault::{Faults, RouteResult, refusal};
use crate::http::request_identity::body;
use crate::http::wav;
use crate::service_tests::{ServiceTest, ServiceTests, Sound};

/// Maximum length of a text to speak, in characters.
const MAX_TEXT_CHARS: usize = 1_000;
/// Maximum size of a request, in bytes: the largest recording, in base64.
const MAX_BYTES: usize = 9 << 20;

/// Request to test a service.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Test {
    /// Service to test.
    service: TurnService,
    /// For `asr`: WAV file in base64, 16-bit PCM, mono or stereo, 8 to 48 kHz, at most 30 s. If
    /// omitted, synthesised speech is recognised.
    recording: Option<String>,
    /// For `tts`: text to speak, at most 1,000 characters. If omitted, a fixed sentence.
    #[schema(max_length = 1_000)]
    text: Option<String>,
    /// For `tts`: name of the voice, at most 200 characters; empty for the configured one.
    #[serde(default)]
    #[schema(max_length = 200)]
    voice: String,
}

/// Result of a service test.
#[derive(Serialize, ToSchema)]
struct Tested {
    /// Tested service.
    service: TurnService,
    /// True if the test succeeded.
    ok: bool,
    /// Time to the first sound or word, in milliseconds; null if there was none.
    #[schema(required)]
    first_ms: Option<u64>,
    /// Total duration, in milliseconds.
    total_ms: u64,
    /// Transcript, answer or spoken text; null if the test failed.
    #[schema(required)]
    text: Option<String>,
    /// Synthesised speech, a WAV file in base64; null for other services.
    #[schema(required)]
    audio: Option<String>,
    /// Reason of the failure; null if the test succeeded.
    #[schema(required)]
    error: Option<String>,
}

/// Parses a request.
fn read(body: &[u8]) -> Result<ServiceTest, String> {
    let asked = json::read::<Test>(body).map_err(|error| error.about("the body"))?;
    let Test { service, recording, text, voice } = asked;
    if text.as_ref().is_some_and(|text| text.chars().count() > MAX_TEXT_CHARS) {
        return Err(format!("`text` has at most {MAX_TEXT_CHARS} characters"));
    }
    if voice.chars().count() > MAX_NAME_CHARS {
        return Err(format!("`voice` has at most {MAX_NAME_CHARS} characters"));
    }
    let recording = recording.as_deref().map(sound_of).transpose()?;
    Ok(match service {
        TurnService::Asr => ServiceTest::Asr(recording),
        TurnService::Llm => ServiceTest::Llm,
        TurnService::Tts => {
            ServiceTest::Tts { text: text.filter(|text| !text.trim().is_empty()), voice }
        }
    })
}

/// Returns the samples of a recording, at 16 kHz.
fn sound_of(recording: &str) -> Result<Vec<i16>, String> {
    let unusable = |about: &str| format!("`recording` cannot be used: {about}");
    let file = STANDARD.decode(recording.trim_ascii()).map_err(|_| unusable("it is not base64"))?;
    wav::read(&file).map_err(|error| unusable(&error.to_string()))
}

fn encoded(sound: &Sound) -> String {
    STANDARD.encode(wav_file(&sound.samples, sound.rate_hz))
}

/// Tests one service of spoken turns and measures its latency; one test runs at a time.
///
/// A failing service is not an error of the request: the status is 200, `ok` is false, and `error`
/// contains the reason.
#[utoipa::path(post, path = "/api/services/test", tag = "server", request_body = Test,
    responses((status = 200, body = Tested), Faults))]
pub(crate) async fn test(
    _: Operator,
    payload: web::Payload,
    tests: web::Data<ServiceTests>,
) -> RouteResult {
    let bytes = body(payload, MAX_BYTES).await?;
    let read = web::block(move || read(&bytes)).await;
    let read = read.map_err(|_| refusal(Fault::GoingAway, "the server is stopping"))?;
    let test = read.map_err(|about| refusal(Fault::BadRequest, &about))?;
    let service = test.service();
    let tested = tests.run(test).await;
    let tested =
        tested.map_err(|_| refusal(Fault::Busy, "another test is running: try again later"))?;
    let total_ms = in_ms(tested.total);
    let (found, error) = match tested.outcome {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error)),
    };
    Ok(HttpResponse::Ok().json(Tested {
        service,
        ok: error.is_none(),
        first_ms: found.as_ref().and_then(|found| found.first).map(in_ms),
        total_ms,
        audio: found.as_ref().and_then(|found| found.sound.as_ref()).map(encoded),
        text: found.map(|found| found.text),
        error,
    }))
}
