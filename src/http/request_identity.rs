//! Identity in a request: ids, tokens and addresses in headers or, from clients that cannot set
//! headers, in the query. Not for checking them.

use std::time::Duration;

use actix_web::{HttpRequest, web};
use hearken_base::Secret;
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use hearken_proto::json;
use serde::de::DeserializeOwned;
use url::Url;

use crate::auth::same;
use crate::http::fault::{Refusal, refusal};

/// Maximum length of a device's id, in characters; a MAC address has 17.
pub(crate) const MAX_ID_CHARS: usize = 64;
/// Ids that no path names: clients and proxies drop `.` and `..`, and `bind` is a route beside the
/// devices. A device with such an id could be neither shown nor deleted.
pub(crate) const UNNAMED: [&str; 3] = [".", "..", "bind"];
/// Maximum length of a token, in characters; ours have 54.
const MAX_TOKEN_CHARS: usize = 512;
/// Maximum wait for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a header, else the query parameter of the same name, without control characters, and cut
/// to the maximum length of an id.
pub(crate) fn given(request: &HttpRequest, name: &str) -> Option<String> {
    tidy(&raw(request, name)?, MAX_ID_CHARS)
}

fn raw(request: &HttpRequest, name: &str) -> Option<String> {
    let header = request.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    header.or_else(|| query(request, name))
}

/// Returns a query parameter; names are case-insensitive.
pub(crate) fn query(request: &HttpRequest, name: &str) -> Option<String> {
    url::form_urlencoded::parse(request.query_string().as_bytes())
        .find(|(k, _)| k.eq_ignore_ascii_case(name))
        .map(|(_, v)| v.into_owned())
}

/// Cleans up a text from an untrusted client for storage; `None` if nothing is left.
pub(crate) fn tidy(text: &str, max_chars: usize) -> Option<String> {
    // Words on separate lines or in separate columns stay separate.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = words.chars().filter(|c| !c.is_control()).take(max_chars).collect();
    (!text.is_empty()).then_some(text)
}

/// Calling device: id in lower case, and client id; empty if there is none. A caller who knows both
/// can request the device's token.
pub(crate) struct Caller {
    pub(crate) device_id: DeviceId,
    pub(crate) client_id: Secret,
}

impl Caller {
    /// Reads both ids.
    ///
    /// # Errors
    /// The device id is missing, cannot be signed, or cannot be in a path.
    pub(crate) fn from_request(request: &HttpRequest) -> Result<Self, Refusal> {
        let Some(device_id) = given(request, "device-id") else {
            return Err(refusal(Fault::BadRequest, "the header Device-Id is missing"));
        };
        if device_id.contains('|') {
            return Err(refusal(Fault::BadRequest, "a Device-Id must not contain `|`"));
        }
        let device_id = DeviceId::new(device_id.to_lowercase());
        check_named(&device_id)?;
        Ok(Self { device_id, client_id: client_of(request) })
    }
}

/// Checks that a path can name the device.
///
/// # Errors
/// It cannot.
pub(crate) fn check_named(device_id: &DeviceId) -> Result<(), Refusal> {
    if UNNAMED.contains(&device_id.as_str()) {
        let about = format!("a Device-Id must not be one of {}", UNNAMED.join(" "));
        return Err(refusal(Fault::BadRequest, &about));
    }
    Ok(())
}

/// Returns the client id; empty if there is none.
pub(crate) fn client_of(request: &HttpRequest) -> Secret {
    Secret::new(given(request, "client-id").unwrap_or_default())
}

/// Returns the bearer token: from `Authorization`, with or without its scheme, or from the query
/// parameter of that name. Empty if there is none.
pub(crate) fn bearer(request: &HttpRequest) -> String {
    bearer_in(request, "authorization")
}

/// Returns the bearer token of another header, or of the query parameter of its name.
pub(crate) fn bearer_in(request: &HttpRequest, name: &str) -> String {
    let text = raw(request, name).and_then(|t| tidy(&t, MAX_TOKEN_CHARS));
    let text = text.unwrap_or_default();
    match text.split_once(char::is_whitespace) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim().to_owned(),
        _ if text.eq_ignore_ascii_case("bearer") => String::new(),
        _ => text,
    }
}

/// Returns the session id in the header `session-id`, or `session_id`, as some clients write it.
pub(crate) fn session_of(request: &HttpRequest) -> Option<String> {
    let header = |name: &str| request.headers().get(name)?.to_str().ok();
    tidy(header("session-id").or_else(|| header("session_id"))?, MAX_ID_CHARS)
}

/// Returns true if the request has this token, in `Authorization` or as the query's `token`; an
/// empty token admits every client.
pub(crate) fn shows(request: &HttpRequest, token: &Secret) -> bool {
    let shown = [bearer(request), query(request, "token").unwrap_or_default()];
    token.is_empty() || shown.iter().any(|shown| same(shown, token.expose()))
}

/// Returns the address at which the caller reached the server, as an `http:` or `https:` URL without a path.
///
/// The firmware's `Host` has no port (78/esp-ml307, `src/web_socket.cc`): the server's own port is
/// used then. Behind a trusted proxy its headers take precedence, and a `Host` without a port is
/// the proxy's own.
///
/// # Errors
/// `Host` is not a valid host.
pub(crate) fn reached_at(request: &HttpRequest, trust_proxy: bool) -> Result<Url, Refusal> {
    let header = |name: &str| {
        let value = request.headers().get(name)?.to_str().ok()?;
        // In a chain of proxies, the outermost comes first.
        let first = value.split(',').next()?.trim();
        (!first.is_empty()).then(|| first.to_owned())
    };
    let forwarded = |name: &str| if trust_proxy { header(name) } else { None };
    let ours = request.app_config().local_addr();
    let proto = forwarded("x-forwarded-proto");
    let secure = match proto.as_deref() {
        Some(proto) => proto == "https",
        None => request.app_config().secure(),
    };
    let scheme = if secure { "https" } else { "http" };
    let named = forwarded("x-forwarded-host");
    let port = forwarded("x-forwarded-port").and_then(|p| p.parse::<u16>().ok());
    let proxied = proto.is_some() || named.is_some() || port.is_some();
    let host = named.or_else(|| header("host")).unwrap_or_else(|| ours.to_string());
    let wrong = || refusal(Fault::BadRequest, "the header Host is not a valid host");
    let mut url = Url::parse(&format!("{scheme}://{host}/")).map_err(|_| wrong())?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !bare || !url.username().is_empty() || url.password().is_some() {
        return Err(wrong());
    }
    let says_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = match port {
        Some(port) if !says_port => Some(port),
        None if !says_port && !proxied => Some(ours.port()),
        _ => url.port(),
    };
    url.set_port(port).map_err(|()| wrong())?;
    Ok(url)
}

/// Reads a body of at most `max_bytes` bytes.
///
/// # Errors
/// The body is larger, does not arrive in time, or is incomplete.
pub(crate) async fn body(payload: web::Payload, max_bytes: usize) -> Result<web::Bytes, Refusal> {
    let reading = payload.to_bytes_limited(max_bytes);
    let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, reading).await else {
        return Err(refusal(Fault::Idle, "the body did not arrive in time"));
    };
    match read {
        Err(_) => {
            let about = format!("the body must not exceed {max_bytes} bytes");
            Err(refusal(Fault::TooLarge, &about))
        }
        Ok(Err(_)) => Err(refusal(Fault::BadRequest, "the body is incomplete")),
        Ok(Ok(bytes)) => Ok(bytes),
    }
}

/// Reads and parses a small JSON body.
///
/// # Errors
/// The body is not JSON, or lacks required fields; the message names the error. The rules of
/// parsing are documented in [`hearken_proto::json`].
pub(crate) async fn json<T: DeserializeOwned>(payload: web::Payload) -> Result<T, Refusal> {
    json_or(payload, Fault::BadRequest).await
}

/// Reads and parses a small JSON body; an invalid one is reported as this fault.
///
/// # Errors
/// See [`json`].
pub(crate) async fn json_or<T: DeserializeOwned>(
    payload: web::Payload,
    fault: Fault,
) -> Result<T, Refusal> {
    // Maximum length of a device's instructions, with the longest encoding of each character, `\ud83d\ude00`.
    const MAX_BYTES: usize = 128 * 1024;
    let bytes = body(payload, MAX_BYTES).await?;
    json::read(&bytes).map_err(|error| refusal(fault, &error.about("the body")))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_token_is_found_wherever_clients_put_it() {
        let header = |value: &str| {
            let request = TestRequest::default().insert_header(("Authorization", value));
            bearer(&request.to_http_request())
        };
        for value in ["Bearer t.1", "bearer t.1", "BEARER   t.1", "t.1", " t.1 "] {
            assert_eq!(header(value), "t.1", "{value:?}");
        }
        assert_eq!(header("Bearer"), "");
        assert_eq!(header("Bearer "), "");
        for query in
            ["authorization=t.1", "Authorization=Bearer%20t.1", "x=1&authorization=Bearer+t.1"]
        {
            let request = TestRequest::with_uri(&format!("/?{query}")).to_http_request();
            assert_eq!(bearer(&request), "t.1", "{query}");
        }
        assert_eq!(bearer(&TestRequest::default().to_http_request()), "");
    }

    #[test]
    fn the_address_is_the_one_that_the_caller_reached() {
        let at = |headers: &[(&str, &str)], trust: bool| {
            let mut request = TestRequest::default();
            for (name, value) in headers {
                request = request.insert_header((*name, *value));
            }
            reached_at(&request.to_http_request(), trust).map(String::from).ok()
        };
        // The test server's port is 8080.
        let is = |headers: &[(&str, &str)], trust: bool, url: Option<&str>| {
            assert_eq!(at(headers, trust).as_deref(), url, "{headers:?} {trust}");
        };
        is(&[("host", "h.local")], false, Some("http://h.local:8080/"));
        is(&[("host", "h.local:80")], false, Some("http://h.local/"));
        is(&[("host", "192.168.1.2:9400")], false, Some("http://192.168.1.2:9400/"));
        is(&[("host", "[fe80::1]")], false, Some("http://[fe80::1]:8080/"));
        is(&[("host", "[fe80::1]:1")], false, Some("http://[fe80::1]:1/"));
        is(&[], false, Some("http://127.0.0.1:8080/"));
        is(&[("host", "a/b")], false, None);
        is(&[("host", "a@b")], false, None);
        is(&[("host", "a?b")], false, None);
        let forged = [("host", "h"), ("x-forwarded-host", "evil"), ("x-forwarded-proto", "https")];
        is(&forged, false, Some("http://h:8080/"));
        is(&forged, true, Some("https://evil/"));
        is(&[("host", "h"), ("x-forwarded-proto", "https")], true, Some("https://h/"));
        is(&[("host", "h"), ("x-forwarded-port", "8443")], true, Some("http://h:8443/"));
        is(&[("host", "h")], true, Some("http://h:8080/"));
        is(&[("x-forwarded-host", "a:81, b")], true, Some("http://a:81/"));
    }

    #[test]
    fn ids_that_no_path_names_are_refused() {
        let caller = |id: &str| {
            let request = TestRequest::default().insert_header(("device-id", id));
            Caller::from_request(&request.to_http_request()).map(|caller| caller.device_id)
        };
        for id in [".", "..", "bind", " BIND ", "a|b"] {
            assert!(caller(id).is_err(), "{id}");
        }
        for id in ["...", "binding", "status", "aa:bb:cc:dd:ee:ff", "a/b"] {
            assert_eq!(caller(id).unwrap().as_str(), id);
        }
    }
}
