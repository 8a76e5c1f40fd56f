//! Names of this server, and origins whose pages may send requests. Both are checked before every
//! route. Not for the identity of a client.
//!
//! A web page can make a browser send requests to any address, including those of the visitor's own
//! network. The browser names the page in `Origin`. A page whose own name is made to resolve to
//! this server ("DNS rebinding") is of the same origin, so the name itself, in `Host`, must be one
//! of this server's.

use std::collections::HashSet;
use std::net::IpAddr;

use actix_web::HttpRequest;
use actix_web::http::header;
use hearken_outbound::http::is_loopback;
use url::Url;

/// Domains of local networks, in which this machine may have its name (RFC 6762, RFC 8375).
const LOCAL_DOMAINS: [&str; 6] = ["", ".local", ".lan", ".home", ".internal", ".home.arpa"];
/// Wildcard in a list of names or origins.
const ANY: &str = "*";

/// Names of this server, and the allowed origins.
pub(super) struct OriginRules {
    /// Names in lower case, without a port.
    names: HashSet<String>,
    /// Origins in lower case, without a trailing slash.
    origins: Vec<String>,
}

/// Reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OriginError {
    /// `Host` contains a name that is not this server's.
    #[error("`{0}` is not a known name of this server: add it to `http.host_names`")]
    Host(String),
    /// `Origin` is another site.
    #[error("the request comes from a page of another site: see `http.cors_origins`")]
    Origin,
}

impl OriginRules {
    /// Creates the rules from configured names and origins. The host of an origin is a name of this
    /// server too, as is this machine's host name.
    pub(super) fn new(names: &[String], origins: &[String]) -> Self {
        let origins: Vec<String> =
            origins.iter().map(|o| o.trim_end_matches('/').to_ascii_lowercase()).collect();
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_string_lossy().to_ascii_lowercase();
        let first = machine.split('.').next().unwrap_or_default();
        let mut known: HashSet<String> = names.iter().map(|name| bare(name)).collect();
        known.extend(origins.iter().filter_map(|o| Some(Url::parse(o).ok()?.host_str()?.into())));
        known.extend(LOCAL_DOMAINS.iter().map(|domain| format!("{first}{domain}")));
        known.insert(machine);
        known.remove("");
        Self { names: known, origins }
    }

    /// Returns the allowed origins.
    pub(super) fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Checks `Host` and `Origin` of a request. Programs other than browsers send no `Origin`.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub(super) fn check(&self, request: &HttpRequest) -> Result<(), OriginError> {
        let text = |name| request.headers().get(name).map(|v| v.to_str().unwrap_or_default());
        let own = text(header::HOST).or_else(|| request.uri().authority().map(|a| a.as_str()));
        let own = own.map(bare);
        if let Some(own) = &own
            && !self.is_ours(own)
        {
            return Err(OriginError::Host(own.chars().take(100).collect()));
        }
        // Every request is checked, not only those with side effects: a WebSocket is opened with GET. Decision 0044.
        match text(header::ORIGIN) {
            Some(origin) if !self.lets_in(origin, own.as_deref()) => Err(OriginError::Origin),
            _ => Ok(()),
        }
    }

    /// Returns true for a name of this server, and for any numeric address, which cannot be rebound.
    fn is_ours(&self, host: &str) -> bool {
        is_address(host)
            || is_localhost(host)
            || [host, ANY].iter().any(|name| self.names.contains(*name))
    }

    /// Returns true if pages of this origin may send requests to this server under this name:
    /// allowed origins, pages of this server and of this machine, and files.
    fn lets_in(&self, origin: &str, own: Option<&str>) -> bool {
        let listed = |known: &String| known == ANY || origin.eq_ignore_ascii_case(known);
        if self.origins.iter().any(listed) {
            return true;
        }
        let Ok(url) = Url::parse(origin) else { return false };
        if url.scheme() == "file" || is_loopback(&url) {
            return true;
        }
        url.host_str().is_some_and(|host| {
            is_localhost(host) || self.names.contains(host) || own == Some(host)
        })
    }
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Returns a host in lower case, without its port and without a trailing dot.
fn bare(host: &str) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && is_whole(name) => name,
        _ => host,
    };
    name.trim().trim_end_matches('.').to_ascii_lowercase()
}

/// Returns true if the text is a complete host: in an IPv6 address, the last colon may be part of it.
fn is_whole(name: &str) -> bool {
    !name.contains(':') || name.ends_with(']')
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn rules() -> OriginRules {
        let names = ["Voice.Example:9400".to_owned()];
        OriginRules::new(&names, &["https://museum.example/".to_owned()])
    }

    fn checked(rules: &OriginRules, host: &str, origin: &str) -> Result<(), OriginError> {
        let mut request = TestRequest::default().insert_header(("host", host));
        if !origin.is_empty() {
            request = request.insert_header(("origin", origin));
        }
        rules.check(&request.to_http_request())
    }

    #[test]
    fn a_request_must_name_this_server() {
        let rules = rules();
        let machine = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        for host in [
            "127.0.0.1",
            "127.0.0.1:9400",
            "203.0.113.9:9400",
            "[::1]:9400",
            "[fe80::1]",
            "localhost:9400",
            "LOCALHOST",
            "a.localhost",
            "voice.example",
            "voice.example.:80",
            "museum.example",
            &machine,
            &format!("{}.local:9400", machine.split('.').next().unwrap()),
        ] {
            assert_eq!(checked(&rules, host, ""), Ok(()), "{host}");
        }
        for host in
            ["rebind.evil", "rebind.evil:9400", "localhost.evil", "127.0.0.1.evil", "", "x y"]
        {
            assert!(matches!(checked(&rules, host, ""), Err(OriginError::Host(_))), "{host}");
        }
        assert_eq!(rules.check(&TestRequest::default().to_http_request()), Ok(()));
        let any = OriginRules::new(&["*".into()], &[]);
        assert_eq!(checked(&any, "rebind.evil", ""), Ok(()));
        let same = checked(&any, "rebind.evil", "https://other.evil");
        assert_eq!(same, Err(OriginError::Origin));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let rules = rules();
        let own = "192.168.1.2:9400";
        for origin in [
            "http://192.168.1.2:9400",
            "http://192.168.1.2:8006",
            "http://localhost:8006",
            "http://127.0.0.1:3000",
            "http://[::1]:3000",
            "https://voice.example",
            "https://museum.example",
            "HTTPS://MUSEUM.EXAMPLE",
            "file://",
        ] {
            assert_eq!(checked(&rules, own, origin), Ok(()), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "http://192.168.1.3",
            "http://203.0.113.9",
            "http://localhost.evil",
            "null",
            "x",
        ] {
            assert_eq!(checked(&rules, own, origin), Err(OriginError::Origin), "{origin}");
        }
        let all = OriginRules::new(&[], &["*".into()]);
        assert_eq!(checked(&all, own, "https://evil.example"), Ok(()));
        assert_eq!(checked(&all, own, "null"), Ok(()));
    }
}
