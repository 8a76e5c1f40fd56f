//! Fuzz targets: requests of devices. Behind the feature `fuzzing`; never in a server.

use actix_web::HttpRequest;
use actix_web::test::TestRequest;
use bytes::Bytes;
use futures_util::FutureExt as _;

use crate::http::devices::ota::{self, MAX_REPORT_CHARS};
use crate::http::devices::vision::{self, MAX_QUESTION_BYTES};
use crate::http::request_identity::{Caller, MAX_ID_CHARS, bearer, reached_at};

/// Splits an input into headers, one per line until an empty line, and a body.
fn request(bytes: &[u8]) -> (HttpRequest, &[u8]) {
    let mut request = TestRequest::default();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = &rest[..end];
        let after = &rest[end + 1..];
        rest = after;
        if line.is_empty() {
            break;
        }
        let Ok(line) = std::str::from_utf8(line) else { continue };
        match line.split_once(':') {
            Some((name, value)) => {
                use actix_web::http::header::{HeaderName, HeaderValue};
                let name = HeaderName::try_from(name.trim());
                let value = HeaderValue::try_from(value.trim());
                if let (Ok(name), Ok(value)) = (name, value) {
                    request = request.insert_header((name, value));
                }
            }
            None => {
                if let Ok(uri) = actix_web::http::Uri::try_from(line) {
                    request = request.uri(&uri.to_string());
                }
            }
        }
    }
    (request.to_http_request(), rest)
}

/// Parses a device's report: whatever it contains, the texts are bounded and have no control
/// characters, and the address at which the device reached the server is valid.
///
/// # Panics
/// Panics otherwise.
pub fn ota_report(bytes: &[u8]) {
    let (request, body) = request(bytes);
    for trust_proxy in [false, true] {
        if let Ok(url) = reached_at(&request, trust_proxy) {
            assert!(matches!(url.scheme(), "http" | "https") && url.has_host());
            assert!(url.path() == "/" && url.query().is_none() && url.username().is_empty());
        }
    }
    let token = bearer(&request);
    assert!(token == token.trim() && !token.contains(char::is_control));
    let Ok(caller) = Caller::from_request(&request) else { return };
    let report = ota::report(&request, &caller, body);
    let id = report.device_id.as_str();
    assert!(!id.is_empty() && !id.contains('|') && id == id.to_lowercase());
    for (text, most) in [
        // A character in lower case may become up to three.
        (id, 3 * MAX_ID_CHARS),
        (report.client_id.expose(), MAX_ID_CHARS),
        (&report.board, MAX_REPORT_CHARS),
        (&report.chip, MAX_REPORT_CHARS),
        (&report.serial_number, MAX_REPORT_CHARS),
        (&report.firmware_version, MAX_REPORT_CHARS),
    ] {
        assert!(text.chars().count() <= most && !text.contains(char::is_control), "{text:?}");
    }
}

/// Parses a form with a picture and a question: the picture is a part of the body, and the question
/// is bounded; a valid form is parsed to its original contents.
///
/// # Panics
/// Panics otherwise.
pub fn vision_form(bytes: &[u8]) {
    let (request, body) = request(bytes);
    let read = vision::parts(&request, Bytes::copy_from_slice(body)).now_or_never();
    if let Ok(picture) = read.expect("the body is there") {
        assert!(!picture.question.is_empty());
        assert!(picture.question.len() as u64 <= 3 * MAX_QUESTION_BYTES);
        assert!(picture.mime_type.starts_with("image/"));
        assert!(body.windows(picture.bytes.len()).any(|window| window == picture.bytes));
    }
    let boundary = "----ESP32_CAMERA_BOUNDARY";
    if body.is_empty() || body.windows(boundary.len()).any(|w| w == boundary.as_bytes()) {
        return;
    }
    let kind = format!("multipart/form-data; boundary={boundary}");
    let sent = TestRequest::default().insert_header(("content-type", kind)).to_http_request();
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"question\"\r\n\r\nWhat?\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"camera.jpg\"\r\n\
         Content-Type: image/jpeg\r\n\r\n"
    );
    let form = [head.as_bytes(), body, format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
    let read = vision::parts(&sent, form.into()).now_or_never().expect("the body is there");
    let picture = read.unwrap_or_else(|_| panic!("a form of ours is refused"));
    assert_eq!((&*picture.question, &*picture.mime_type), ("What?", "image/jpeg"));
    assert_eq!(picture.bytes, body);
}
