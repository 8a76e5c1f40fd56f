//! What providers over HTTP share: the client, what a status means, bodies of bounded length. Not
//! for any provider's messages.

use std::time::Duration;

use futures_util::stream::{StreamExt, TryStreamExt};
use hearken_actors::ports::{ProviderError, ProviderErrorKind};
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue, InvalidHeaderValue, RETRY_AFTER};
use reqwest::Response;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

use super::secret::Secret;

/// Longest error body that is read.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// Longest wait for the body of an error.
const ERROR_BODY: Duration = Duration::from_secs(2);

/// A client for one base. A loopback base never goes through a proxy, and a plain one needs no
/// certificates on the machine.
///
/// # Errors
/// TLS cannot be set up; for `https` also when the machine has no certificate authorities.
pub(crate) fn client(
    base: &Url,
    connect_timeout: Duration,
) -> Result<reqwest::Client, reqwest::Error> {
    builder(base, connect_timeout).redirect(reqwest::redirect::Policy::none()).build()
}

/// What such a client is made from; it follows redirects to anywhere.
pub(crate) fn builder(base: &Url, connect_timeout: Duration) -> reqwest::ClientBuilder {
    crate::tls::choose_provider();
    let mut builder = reqwest::Client::builder().connect_timeout(connect_timeout).tcp_nodelay(true);
    if base.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    builder
}

fn is_loopback(base: &Url) -> bool {
    match base.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Finds out whether an OpenAI-compatible base is there by asking for its models. Not every such
/// base has a list of them: one that does not know the path is there as well.
pub(crate) async fn probe(
    provider: &'static str,
    client: &reqwest::Client,
    base: &str,
    key: &Secret,
    within: Duration,
) -> Result<(), ProviderError> {
    let mut request = client.get(format!("{base}/models")).timeout(within);
    if !key.is_empty() {
        request = request.bearer_auth(key.expose());
    }
    let response = request.send().await.map_err(|e| transport(provider, e))?;
    let kind = kind_of(response.status());
    if response.status().is_success() || kind == ProviderErrorKind::BadRequest {
        return Ok(());
    }
    Err(refusal(provider, response).await)
}

/// The `Authorization` header of a key.
///
/// # Errors
/// The key has characters that no header may have.
pub(crate) fn bearer(key: &Secret) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What a status other than success means.
pub(crate) fn kind_of(status: StatusCode) -> ProviderErrorKind {
    match status.as_u16() {
        401 | 403 => ProviderErrorKind::Unauthorized,
        429 => ProviderErrorKind::RateLimited,
        408 | 504 => ProviderErrorKind::Timeout,
        400..=499 => ProviderErrorKind::BadRequest,
        // 520 and above are proxies' words for a server behind them that is away or full.
        502 | 503 | 520..=599 => ProviderErrorKind::Unavailable,
        500..=519 => ProviderErrorKind::Fault,
        _ => ProviderErrorKind::Protocol,
    }
}

/// The wait that a `Retry-After` header asks for, in whole seconds; its form as a date is not
/// read.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// What an error of the transport means.
pub(crate) fn transport(provider: &'static str, error: reqwest::Error) -> ProviderError {
    let kind = if error.is_timeout() {
        ProviderErrorKind::Timeout
    } else if error.is_builder() {
        ProviderErrorKind::BadRequest
    } else {
        ProviderErrorKind::Unavailable
    };
    ProviderError::because(provider, kind, error.without_url())
}

/// The error of an answer whose status is no success. Of its body only the vendor's error code is
/// told, since the rest may repeat what the person said.
pub(crate) async fn refusal(provider: &'static str, response: Response) -> ProviderError {
    let status = response.status();
    let wait = retry_after(response.headers());
    let by = Instant::now() + ERROR_BODY;
    let code = match body(provider, response, MAX_ERROR_BYTES, by).await {
        Ok(bytes) => error_code(&bytes),
        Err(_) => None,
    };
    let why = match code {
        Some(code) => format!("status {status}, code {code}"),
        None => format!("status {status}"),
    };
    ProviderError::because(provider, kind_of(status), why).retry_after(wait)
}

/// `error.code`, or else `error.type`, of an OpenAI-style error body, if it is a plain word.
pub(crate) fn error_code(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    let word = |text: &&str| {
        !text.is_empty()
            && text.len() <= 64
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    ["code", "type"]
        .iter()
        .find_map(|key| error.get(key).and_then(|v| v.as_str()).filter(word))
        .map(str::to_owned)
}

/// A whole body of at most `limit` bytes, until `deadline`.
pub(crate) async fn body(
    provider: &'static str,
    mut response: Response,
    limit: usize,
    deadline: Instant,
) -> Result<Vec<u8>, ProviderError> {
    let mut whole = Vec::new();
    loop {
        let piece = timeout_at(deadline, response.chunk())
            .await
            .map_err(|_| timed_out(provider, "the answer did not end within its deadline"))?
            .map_err(|e| transport(provider, e))?;
        let Some(piece) = piece else { return Ok(whole) };
        if whole.len() + piece.len() > limit {
            let why = format!("the answer is longer than {limit} bytes");
            return Err(ProviderError::because(provider, ProviderErrorKind::Protocol, why));
        }
        whole.extend_from_slice(&piece);
    }
}

/// The response with a body that fails beyond so many bytes, for whoever reads it as it comes.
pub(crate) fn bounded(response: Response, limit: usize) -> Response {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = response.status();
    parts.headers = response.headers().clone();
    let mut left = limit;
    let body = response.bytes_stream().map_err(std::io::Error::other).map(move |piece| {
        let piece = piece?;
        left = left
            .checked_sub(piece.len())
            .ok_or_else(|| std::io::Error::other("the answer is too long"))?;
        Ok::<_, std::io::Error>(piece)
    });
    http::Response::from_parts(parts, reqwest::Body::wrap_stream(body)).into()
}

/// A deadline passed.
pub(crate) fn timed_out(provider: &'static str, what: &'static str) -> ProviderError {
    ProviderError::because(provider, ProviderErrorKind::Timeout, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_their_kinds() {
        let kinds = [401, 429, 408, 404, 502, 503, 529, 500, 501, 302]
            .map(|status| kind_of(StatusCode::from_u16(status).unwrap()).to_string());
        let told = "not authorised, rate limited, timed out, request refused, unavailable, \
                    unavailable, unavailable, failed inside, failed inside, protocol violation";
        assert_eq!(kinds.join(", "), told);
    }

    #[test]
    fn only_a_plain_code_is_told_of_an_error_body() {
        let code = |body: &str| error_code(body.as_bytes());
        assert_eq!(
            code(r#"{"error":{"message":"my secret","type":"t","code":"bad_model"}}"#),
            Some("bad_model".into())
        );
        assert_eq!(code(r#"{"error":{"type":"t","code":"you said hello"}}"#), Some("t".into()));
        assert_eq!(code(r#"{"error":"down"}"#), None);
        assert_eq!(code("<html>"), None);
    }

    #[test]
    fn waits_are_read_in_seconds() {
        let headers = |value: &str| {
            HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(value).unwrap())])
        };
        assert_eq!(retry_after(&headers("3")), Some(Duration::from_secs(3)));
        assert_eq!(retry_after(&headers("soon")), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
