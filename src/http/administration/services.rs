//! REST API of tests of the services of a turn. Not for the tests themselves, nor for the states of services.

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

/// Longest text that is spoken.
const MAX_TEXT_CHARS: usize = 1_000;
/// Largest request, in bytes: the largest recording, in base64.
const MAX_BYTES: usize = 9 << 20;

/// Body of the request to test a service.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Test {
    service: TurnService,
    /// For the recogniser: a WAV file in base64, 16-bit PCM, at most 30 s. Without it, what the synthesiser speaks.
    recording: Option<String>,
    /// For the synthesiser: what it speaks, at most 1,000 characters. Without it, a sentence of ours.
    #[schema(max_length = 1_000)]
    text: Option<String>,
    /// For the synthesiser: name of its voice; empty for the configured one.
    #[serde(default)]
    #[schema(max_length = 200)]
    voice: String,
}

/// What a test has found.
#[derive(Serialize, ToSchema)]
struct Tested {
    service: TurnService,
    ok: bool,
    /// Time to the first sound or word.
    #[schema(required)]
    first_ms: Option<u64>,
    /// Time of all.
    total_ms: u64,
    /// What was heard, written or spoken.
    #[schema(required)]
    text: Option<String>,
    /// What was spoken: a WAV file in base64.
    #[schema(required)]
    audio: Option<String>,
    /// What failed.
    #[schema(required)]
    error: Option<String>,
}

/// Reads a request.
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

/// Returns the sound of a recording at 16 kHz.
fn sound_of(recording: &str) -> Result<Vec<i16>, String> {
    let unusable = |about: &str| format!("`recording` cannot be used: {about}");
    let file = STANDARD.decode(recording.trim_ascii()).map_err(|_| unusable("it is no base64"))?;
    wav::read(&file).map_err(|error| unusable(&error.to_string()))
}

fn encoded(sound: &Sound) -> String {
    STANDARD.encode(wav_file(&sound.samples, sound.rate_hz))
}

/// Tests a service of spoken turns and measures it, one at a time (`POST /api/services/test`). A service that fails is no error
/// of the request: `ok` is false then, and `error` says why.
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
        tested.map_err(|_| refusal(Fault::Busy, "another test runs: wait until it has ended"))?;
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
