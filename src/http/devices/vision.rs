//! Route to which devices' cameras upload pictures with a question (78/xiaozhi-esp32,
//! `main/boards/common/esp32_camera.cc`): multipart, the field `question` and then `file`. The
//! conversation's model gets the response's body unchanged. Not for describing pictures.

use std::time::Duration;

use actix_web::http::header::CONTENT_TYPE;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures_util::stream;
use hearken_dialogue::turn_trace::ClientKind;
use hearken_dialogue::usage::UsageAccount;
use hearken_proto::fault::Fault;
use hearken_providers::{Vision, VisionError};
use hearken_tool_sources::TokenReadError;
use jiff::Timestamp;
use multer::{Constraints, Multipart, SizeLimit};
use serde_json::json;

use crate::http::AccessControl;
use crate::http::fault::{Refusal, RouteResult, refusal};
use crate::http::middleware::{address_of, slot_of, too_often};
use crate::http::request_identity::{Caller, bearer};
use crate::http::tools::tools_api::ToolsApi;
use crate::usage::DailyUsage;

/// Maximum size of a request, in bytes.
const MAX_BYTES: usize = 10 << 20;
/// Maximum number of fields of a form, of which two are used.
const MAX_FIELDS: usize = 16;
/// Maximum length of a question, in bytes.
pub(crate) const MAX_QUESTION_BYTES: u64 = 4 << 10;
/// Maximum time for the upload of a picture.
const BODY_WITHIN: Duration = Duration::from_secs(20);
/// Question for a device that sends none.
const NO_QUESTION: &str = "What is in this picture?";

/// Answers a question about a picture (`POST /vision/explain`).
///
/// Errors after a valid request are reported with status 200: with any other status, firmware
/// passes only "failed" to the model.
pub(crate) async fn explain(
    request: HttpRequest,
    payload: web::Payload,
    api: web::Data<ToolsApi>,
    access: web::Data<AccessControl>,
    usage: web::Data<DailyUsage>,
) -> RouteResult {
    // Before the device's token is checked: the device may be deleted at any time after that.
    let began = Timestamp::now();
    let caller = Caller::from_request(&request)?;
    let refused = |error: TokenReadError| refusal(Fault::Unauthorized, &error.to_string());
    let made = api.cameras.check(&bearer(&request), caller.device_id.as_str()).map_err(refused)?;
    if access.has_revoked(&caller.device_id, made).await {
        return Err(refused(TokenReadError::Revoked));
    }
    let address = address_of(&request);
    let counted = api.picture_rates.admit(caller.device_id.as_str(), &address);
    counted.map_err(too_often)?;
    let full = |full| refusal(Fault::Busy, &format!("pictures at once: {full}"));
    let _slot = slot_of(&request, &api.pictures).map_err(full)?;
    let body = read(payload).await?;
    let picture = parts(&request, body).await?;
    let role = api.sources.styles()(&caller.device_id).role;
    let kind = ClientKind::Voice.name();
    let device = caller.device_id.as_str();
    let account = UsageAccount::new(usage.meter().clone(), kind, device, role, began);
    let answer = match describe(&api.vision, &picture, &account).await {
        Ok(words) => json!({"success": true, "response": words}),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "cannot describe a picture");
            json!({"success": false, "message": error.to_string()})
        }
    };
    Ok(HttpResponse::Ok().json(answer))
}

/// Describes a picture for a client, unless a daily limit is reached.
async fn describe(
    vision: &Vision,
    picture: &Picture,
    account: &UsageAccount,
) -> Result<String, VisionError> {
    account.check()?;
    let Picture { question, mime_type, bytes } = picture;
    let described = vision.describe(question, mime_type, bytes).await?;
    account.count(&described.usage);
    Ok(described.words?)
}

/// Upload of a device.
pub(crate) struct Picture {
    pub(crate) question: String,
    pub(crate) mime_type: String,
    pub(crate) bytes: Bytes,
}

async fn read(payload: web::Payload) -> Result<Bytes, Refusal> {
    let reading = payload.to_bytes_limited(MAX_BYTES);
    match tokio::time::timeout(BODY_WITHIN, reading).await {
        Err(_) => Err(refusal(Fault::Idle, "the picture did not arrive in time")),
        Ok(Err(_)) => Err(refusal(Fault::TooLarge, "a picture has at most 10 MiB")),
        Ok(Ok(Err(_))) => Err(refusal(Fault::BadRequest, "the picture is incomplete")),
        Ok(Ok(Ok(bytes))) => Ok(bytes),
    }
}

pub(crate) async fn parts(request: &HttpRequest, body: Bytes) -> Result<Picture, Refusal> {
    let wrong = |about: &str| refusal(Fault::BadRequest, about);
    let kind = request.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let boundary = multer::parse_boundary(kind.unwrap_or_default())
        .map_err(|_| wrong("a picture must be sent as multipart/form-data"))?;
    let limits = SizeLimit::new().for_field("question", MAX_QUESTION_BYTES);
    let whole = stream::iter([Ok::<_, std::convert::Infallible>(body)]);
    let constraints = Constraints::new().size_limit(limits);
    let mut form = Multipart::with_constraints(whole, boundary, constraints);
    let mut question = String::new();
    let mut file = None;
    let mut fields = 0;
    let unreadable = |_| wrong("the form cannot be read");
    while let Some(field) = form.next_field().await.map_err(unreadable)? {
        fields += 1;
        if fields > MAX_FIELDS {
            return Err(wrong(&format!("a form has at most {MAX_FIELDS} fields")));
        }
        match field.name() {
            Some("question") => question = field.text().await.map_err(unreadable)?,
            Some("file") => {
                let image = field.content_type().filter(|m| m.type_() == "image");
                let mime_type = image.map_or_else(|| "image/jpeg".into(), ToString::to_string);
                file = Some((mime_type, field.bytes().await.map_err(unreadable)?));
            }
            _ => {}
        }
    }
    let Some((mime_type, bytes)) = file.filter(|(_, bytes)| !bytes.is_empty()) else {
        return Err(wrong("there is no picture: the field `file` is missing or empty"));
    };
    let question = match question.trim() {
        "" => NO_QUESTION.to_owned(),
        asked => asked.to_owned(),
    };
    Ok(Picture { question, mime_type, bytes })
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[tokio::test]
    async fn a_form_has_a_maximum_number_of_fields() {
        let kind = (CONTENT_TYPE, "multipart/form-data; boundary=b");
        let request = TestRequest::default().insert_header(kind).to_http_request();
        let file = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n";
        let other = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n";
        for (others, is_read) in
            [(0, true), (MAX_FIELDS - 1, true), (MAX_FIELDS, false), (100_000, false)]
        {
            let body = format!("{}{file}--b--\r\n", other.repeat(others));
            let read = parts(&request, body.into()).await;
            assert_eq!(read.is_ok(), is_read, "{others} further fields");
        }
    }
}
