//! Upload of the camera's picture as firmware does it: a chunked multipart POST, built with the
//! boundary and the order of firmware's `esp32_camera.cc`. Not for the time of taking a picture.

use std::convert::Infallible;

use super::events::Upload;
use super::mcp::UPLOAD_TIMEOUT;

const BOUNDARY: &str = "----ESP32_CAMERA_BOUNDARY";
/// Maximum length of a response, in bytes; firmware reads as much as its memory allows.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Sends a picture and returns the body of the response.
///
/// # Errors
/// Fails, with the texts of firmware, if the address cannot be reached or the status is not 200.
pub async fn upload(upload: Upload, device_id: &str, client_id: &str) -> Result<String, String> {
    let sent = tokio::time::timeout(UPLOAD_TIMEOUT, send(upload, device_id, client_id)).await;
    sent.unwrap_or_else(|_| Err("Failed to upload photo".into()))
}

async fn send(upload: Upload, device_id: &str, client_id: &str) -> Result<String, String> {
    let unreachable = |error: reqwest::Error| {
        tracing::warn!("cannot send the picture: {error}");
        "Failed to connect to explain URL".to_owned()
    };
    let Upload { url, token, question } = upload;
    let request = super::boot::client(&url).map_err(unreachable)?.post(&url);
    let request = request
        .header("Device-Id", device_id)
        .header("Client-Id", client_id)
        .header("Content-Type", format!("multipart/form-data; boundary={BOUNDARY}"));
    let request = match token.filter(|token| !token.is_empty()) {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    // A stream has no length, so it is sent in chunks, one for each part.
    let chunks = parts(&question).map(Ok::<_, Infallible>);
    let body = reqwest::Body::wrap_stream(tokio_stream::iter(chunks));
    let mut answer = request.body(body).send().await.map_err(unreachable)?;
    if answer.status().as_u16() != 200 {
        return Err("Failed to upload photo".into());
    }
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
        text.extend_from_slice(&chunk);
        if text.len() > MAX_ANSWER_BYTES {
            return Err("Failed to upload photo".into());
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn parts(question: &str) -> [Vec<u8>; 4] {
    let field = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"question\"\r\n\r\n{question}\r\n"
    );
    let file = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; \
         filename=\"camera.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n"
    );
    let end = format!("\r\n--{BOUNDARY}--\r\n");
    [field.into_bytes(), file.into_bytes(), picture(), end.into_bytes()]
}

/// Returns a JPEG file of 8 by 8 grey pixels.
fn picture() -> Vec<u8> {
    let mut jpeg = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    jpeg.extend([1; 64]);
    jpeg.extend([0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0]);
    // Two Huffman tables of one code each: no difference, and the end of the block.
    for class in [0x00, 0x10] {
        jpeg.extend([0xff, 0xc4, 0, 20, class, 1]);
        jpeg.extend([0; 16]);
    }
    jpeg.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x3f, 0xff, 0xd9]);
    jpeg
}
