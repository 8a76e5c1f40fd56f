//! HTTP client code that several providers share: the client, the error kind of each status, bodies
//! of bounded length. Not for any provider's messages.

use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::stream::{StreamExt, TryStreamExt};
use hearken_base::Secret;
use hearken_ports::{ProviderError, ProviderErrorKind};
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue, InvalidHeaderValue, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::Response;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

/// Maximum size of an error body that is read, in bytes.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// Time limit for reading an error body.
const ERROR_BODY: Duration = Duration::from_secs(2);

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 3;

/// Builds an HTTP client for one base URL. The client does not follow redirects.
///
/// A loopback base is never reached through a proxy. A base with plain `http` needs no certificates
/// on the machine.
///
/// # Errors
/// TLS cannot be set up. For `https` this includes a machine without certificate authorities.
pub fn client(base: &Url, connect_timeout: Duration) -> Result<reqwest::Client, reqwest::Error> {
    builder(base, connect_timeout).redirect(reqwest::redirect::Policy::none()).build()
}

/// Returns the builder that [`client`] uses. Without its own redirect policy, it follows redirects
/// to any host.
pub fn builder(base: &Url, connect_timeout: Duration) -> reqwest::ClientBuilder {
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

/// Returns the redirect policy: redirects are followed within an origin, because some servers
/// redirect `/mcp` to `/mcp/`; never to another origin, which must not receive our headers and
/// token.
pub fn within_origin() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let same = attempt.previous().iter().all(|u| u.origin() == attempt.url().origin());
        if same && attempt.previous().len() <= MAX_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// Returns true if the URL names this machine: `localhost` or a loopback address.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Checks that an OpenAI-compatible base answers, with a request for its list of models. Some
/// servers have no such list: a server that does not know the path counts as present.
pub async fn probe(
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
    answers(provider, request).await
}

/// Checks that a server answers this request, even if it does not know the path, redirects the
/// request, or refuses it as wrong.
///
/// # Errors
/// It cannot be reached, is overloaded or failing, or refuses the key.
pub async fn answers(
    provider: &'static str,
    request: reqwest::RequestBuilder,
) -> Result<(), ProviderError> {
    let response = request.send().await.map_err(|e| transport(provider, e))?;
    let kind = kind_of(response.status());
    // A key that may not list the models (403) may still be valid for its purpose.
    let answers = matches!(kind, ProviderErrorKind::NotServed)
        || kind.is_of_the_request()
        || response.status() == StatusCode::FORBIDDEN;
    let status = response.status();
    let is_elsewhere = status.is_redirection() || status == StatusCode::NOT_IMPLEMENTED;
    if status.is_success() || is_elsewhere || (status.is_client_error() && answers) {
        return Ok(());
    }
    Err(refusal(provider, response).await)
}

/// Returns the `Authorization` header for a key.
///
/// # Errors
/// The key contains characters that a header cannot contain.
pub fn bearer(key: &Secret) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Kind of error for each status other than success. The first row that contains the status wins.
/// [`ProviderErrorKind`] decides what follows: a retry with the same provider, or a fallback to
/// another one.
const STATUSES: [(RangeInclusive<u16>, ProviderErrorKind); 23] = {
    use ProviderErrorKind::{
        BadRequest, Fault, NotServed, RateLimited, Timeout, TooLarge, Unauthorized, Unavailable,
    };
    [
        // The request itself is wrong: every provider would refuse it.
        (400..=400, BadRequest),
        (422..=422, BadRequest),
        // The credentials are unknown or have no permission. 407 comes from a proxy.
        (401..=401, Unauthorized),
        (403..=403, Unauthorized),
        (407..=407, Unauthorized),
        // Body, address or headers are longer than this provider accepts.
        (413..=414, TooLarge),
        (431..=431, TooLarge),
        (429..=429, RateLimited),
        (408..=408, Timeout),
        (504..=504, Timeout),
        // Temporary: in use, locked, too early, or closed by a proxy.
        (409..=409, Unavailable),
        (423..=423, Unavailable),
        (425..=425, Unavailable),
        (499..=499, Unavailable),
        // A dependency of the provider failed.
        (424..=424, Fault),
        // No credit (402), no such model or path (404), gone, absent, and all other client errors.
        (402..=406, NotServed),
        (410..=499, NotServed),
        // The provider has not implemented this.
        (501..=501, NotServed),
        (505..=505, NotServed),
        (502..=503, Unavailable),
        // Status of a proxy whose origin server is unreachable or overloaded.
        (520..=599, Unavailable),
        (500..=519, Fault),
        // Neither success nor failure. Redirects are not followed.
        (100..=399, ProviderErrorKind::Protocol),
    ]
};

/// Error codes that are more precise than the status, which may be 400, 403 or 429.
const CODES: [(&str, ProviderErrorKind); 17] = {
    use ProviderErrorKind::{Fault, NotServed, TooLarge, Unauthorized};
    [
        // The model wrote an invalid call this time.
        ("tool_use_failed", Fault),
        ("model_not_found", NotServed),
        ("model_not_supported", NotServed),
        ("model_not_available", NotServed),
        ("not_found_error", NotServed),
        ("insufficient_quota", NotServed),
        ("insufficient_balance", NotServed),
        ("billing_not_active", NotServed),
        ("billing_hard_limit_reached", NotServed),
        ("billing_error", NotServed),
        ("account_deactivated", NotServed),
        ("Arrearage", NotServed),
        ("invalid_api_key", Unauthorized),
        ("context_length_exceeded", TooLarge),
        ("context_window_exceeded", TooLarge),
        ("string_above_max_length", TooLarge),
        ("request_too_large", TooLarge),
    ]
};

/// Text of Anthropic's error for an unpaid account. It has status 400 and no error code.
const UNPAID: &str = "credit balance is too low";

/// Returns the kind of error for a status other than success.
pub fn kind_of(status: StatusCode) -> ProviderErrorKind {
    let row = STATUSES.iter().find(|(statuses, _)| statuses.contains(&status.as_u16()));
    row.map_or(ProviderErrorKind::Protocol, |(_, kind)| *kind)
}

/// Maximum wait that is accepted from a response. Longer ones are reduced to it.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the wait that a response requests, at most one day. Reads `retry-after-ms`, or
/// `Retry-After` as seconds (also fractions) or as a date. A time in the past gives zero.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    asked_wait(headers, Timestamp::now())
}

fn asked_wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let told = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let milliseconds = told("retry-after-ms").and_then(number).map(|ms| ms / 1_000.0);
    let seconds = milliseconds.or_else(|| {
        let told = told(RETRY_AFTER.as_str())?;
        number(told).or_else(|| {
            let then = rfc2822::parse(told).ok()?.timestamp();
            Some(then.duration_since(now).as_secs_f64())
        })
    })?;
    Some(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_RETRY_AFTER.as_secs_f64())))
}

/// Converts an error of the HTTP client.
pub fn transport(provider: &'static str, error: reqwest::Error) -> ProviderError {
    let kind = if error.is_timeout() {
        ProviderErrorKind::Timeout
    } else if error.is_builder() {
        ProviderErrorKind::BadRequest
    } else {
        ProviderErrorKind::Unavailable
    };
    ProviderError::because(provider, kind, error.without_url())
}

/// Failed request: a response with an error status, or no response at all.
pub struct Refusal {
    /// Status of the response, if there was one.
    pub status: Option<StatusCode>,
    /// Content of the error body.
    pub told: RefusalBody,
    /// Error for the caller.
    pub error: ProviderError,
}

impl From<ProviderError> for Refusal {
    fn from(error: ProviderError) -> Self {
        Self { status: None, told: RefusalBody::default(), error }
    }
}

/// Content of an error body. It may repeat the words of the user: no part of it is logged.
#[derive(Default)]
pub struct RefusalBody {
    /// `error.code`, if it is a string.
    pub code: Option<String>,
    /// Name of the wrong field, if the service names it in a separate field.
    pub param: Option<String>,
    /// Whole body as text.
    pub text: String,
}

impl RefusalBody {
    fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body).into_owned();
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let field = |key: &str| {
            let value = body.get("error").and_then(|error| error.get(key)).or(body.get(key));
            value.and_then(|v| v.as_str()).filter(|v| !v.is_empty()).map(str::to_owned)
        };
        Self { code: field("code"), param: field("param"), text }
    }
}

/// Reads a response with an error status into an error. Of the body, only the service's error code
/// goes into the error message: the rest may repeat the words of the user.
pub async fn refusal(provider: &'static str, response: Response) -> ProviderError {
    refusal_of(provider, response).await.error
}

/// Reads a response with an error status into an error and the content of its body.
pub async fn refusal_of(provider: &'static str, response: Response) -> Refusal {
    let status = response.status();
    let wait = retry_after(response.headers());
    let by = Instant::now() + ERROR_BODY;
    let body = body(provider, response, MAX_ERROR_BYTES, by).await.unwrap_or_default();
    let word = error_code(&body);
    let told = RefusalBody::read(&body);
    let why = match &word {
        Some(code) => format!("status {status}, code {code}"),
        None => format!("status {status}"),
    };
    let kind = kind_told(status, word.as_deref(), &told.text);
    let error = ProviderError::because(provider, kind, why).retry_after(wait);
    Refusal { status: Some(status), told, error }
}

/// Returns the kind of error for a status together with the code and the text of its body.
fn kind_told(status: StatusCode, code: Option<&str>, text: &str) -> ProviderErrorKind {
    if status.is_client_error() && text.contains(UNPAID) {
        return ProviderErrorKind::NotServed;
    }
    let known = code.and_then(kind_of_code).filter(|_| status.is_client_error());
    known.unwrap_or_else(|| kind_of(status))
}

/// Returns the kind of error for an error code, if the code is more precise than a status.
pub fn kind_of_code(code: &str) -> Option<ProviderErrorKind> {
    CODES.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind)
}

/// Returns `error.code`, or else `error.type`, of an OpenAI-style error body, if it is a plain word
/// of at most 64 characters.
pub fn error_code(body: &[u8]) -> Option<String> {
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

/// Reads a whole body of at most `limit` bytes, until `deadline`.
pub async fn body(
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

/// Returns the response with a streamed body that fails after `limit` bytes, for callers that read
/// it piece by piece.
pub fn bounded(response: Response, limit: usize) -> Response {
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

/// Builds the error for a deadline that has passed.
pub fn timed_out(provider: &'static str, what: &'static str) -> ProviderError {
    ProviderError::because(provider, ProviderErrorKind::Timeout, what)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    /// Kind of each status, and whether it is retried with the same provider.
    #[test]
    fn every_status_has_its_kind() {
        use ProviderErrorKind::{
            BadRequest, Fault, NotServed, Protocol, RateLimited, Timeout, TooLarge, Unauthorized,
            Unavailable,
        };
        for (kind, again, statuses) in [
            (BadRequest, false, &[400, 422][..]),
            (Unauthorized, false, &[401, 403, 407]),
            (NotServed, false, &[402, 404, 405, 406, 410, 411, 412, 415, 416, 418, 421, 426, 451]),
            (NotServed, false, &[501, 505]),
            (TooLarge, false, &[413, 414, 431]),
            (RateLimited, true, &[429]),
            (Timeout, true, &[408, 504]),
            (Unavailable, true, &[409, 423, 425, 499, 502, 503, 520, 524, 529]),
            (Fault, true, &[424, 500, 507, 508]),
            (Protocol, false, &[101, 302, 304, 700]),
        ] {
            for status in statuses {
                let found = kind_of(StatusCode::from_u16(*status).unwrap());
                assert_eq!((found, found.is_retryable()), (kind, again), "{status}");
            }
        }
        let all = (100..=599).filter(|status| !(200..300).contains(status));
        let failed = |status| STATUSES.iter().any(|(known, _)| known.contains(&status));
        assert!(all.clone().all(failed));
        for kept in 0..STATUSES.len() {
            let first = |s: &u16| STATUSES.iter().position(|(known, _)| known.contains(s));
            assert!(all.clone().any(|s| first(&s) == Some(kept)), "row {kept} is never reached");
        }
    }

    #[test]
    fn an_error_code_decides_the_kind_before_the_status() {
        let kind = |status: u16, code: Option<&str>, text: &str| {
            kind_told(StatusCode::from_u16(status).unwrap(), code, text)
        };
        for (code, expected) in CODES {
            assert_eq!(kind(400, Some(code), ""), expected, "{code}");
        }
        assert_eq!(kind(429, Some("insufficient_quota"), ""), ProviderErrorKind::NotServed);
        assert_eq!(
            kind(400, None, "Your credit balance is too low to"),
            ProviderErrorKind::NotServed
        );
        assert_eq!(kind(400, Some("invalid_request_error"), ""), ProviderErrorKind::BadRequest);
        assert_eq!(kind(500, Some("model_not_found"), ""), ProviderErrorKind::Fault);
    }

    #[test]
    fn only_a_plain_code_is_taken_from_an_error_body() {
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
    fn waits_are_read_in_every_form() {
        let now: Timestamp = "2015-10-21T07:28:00Z".parse().unwrap();
        let wait = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value)]);
            asked_wait(&headers, now).map(|wait| wait.as_secs_f64())
        };
        for (value, seconds) in [
            ("3", Some(3.0)),
            (" 3 ", Some(3.0)),
            ("1.5", Some(1.5)),
            ("0", Some(0.0)),
            ("-7", Some(0.0)),
            ("99999999999999999999999", Some(86_400.0)),
            ("1e300", Some(86_400.0)),
            ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30.0)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0.0)),
            ("Fri, 31 Dec 2100 23:59:59 GMT", Some(86_400.0)),
            ("soon", None),
            ("inf", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(wait("retry-after", value), seconds, "{value}");
        }
        assert_eq!(wait("retry-after-ms", "250"), Some(0.25));
        assert_eq!(asked_wait(&HeaderMap::new(), now), None);
    }
}
