//! Paths that the middleware must know, too, and their comparison with that of a request: always as
//! the router does it, since a path may be written in several ways. Not for the other paths, which
//! are in the route table.

use actix_web::HttpRequest;

/// Path of the API documentation.
pub(crate) const DOCS: &str = "/api/docs";
/// Path of the OpenAPI description.
pub(crate) const OPENAPI: &str = "/api/openapi.json";
/// Path of a LiteMCP tool.
pub(crate) const LITEMCP: &str = "/litemcp/{tool}";
/// Path to which devices send pictures.
pub const VISION: &str = "/vision/explain";

/// Returns the path of a request as the router compares it: percent-decoded, except `/`, `%` and `+`.
pub(crate) fn routed(request: &HttpRequest) -> &str {
    request.match_info().as_str()
}

/// Returns true for the pages of the API documentation.
pub(crate) fn is_docs(request: &HttpRequest) -> bool {
    routed(request).strip_prefix(DOCS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the rest of a raw path after this prefix, whose characters may be percent-encoded as the
/// router decodes them. The rest stays as it is written.
pub(crate) fn rest_after<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let mut rest = path;
    for wanted in prefix.chars() {
        rest = match rest.strip_prefix(wanted) {
            Some(rest) => rest,
            // An encoded slash separates no segments.
            None if wanted == '/' => return None,
            None => {
                let encoded = rest.strip_prefix('%')?;
                let digits =
                    encoded.get(..2).filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()))?;
                let byte = u8::from_str_radix(digits, 16).ok()?;
                encoded.get(2..).filter(|_| char::from(byte) == wanted)?
            }
        };
    }
    Some(rest)
}

#[cfg(test)]
pub(crate) mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    /// A path in other ways of writing that the router takes for the same: one character after the
    /// other is percent-encoded, then all.
    pub(in crate::http) fn ways_to_write(path: &str) -> Vec<String> {
        let encoded = |places: &dyn Fn(usize) -> bool, lower: bool| {
            let chars = path.chars().enumerate().map(|(place, c)| match c {
                '/' | '%' | '+' => c.to_string(),
                c if !places(place) => c.to_string(),
                c if lower => format!("%{:02x}", u32::from(c)),
                c => format!("%{:02X}", u32::from(c)),
            });
            chars.collect::<String>()
        };
        let mut all: Vec<String> =
            (0..path.len()).map(|one| encoded(&|place| place == one, one % 2 == 0)).collect();
        all.push(encoded(&|_| true, true));
        all.retain(|way| way != path);
        all
    }

    #[test]
    fn pages_of_the_documentation_are_known_however_they_are_written() {
        let is = |path: &str| is_docs(&TestRequest::with_uri(path).to_http_request());
        for path in ["/api/docs", "/api/docs/", "/api/docs/index.html"] {
            assert!(is(path), "{path}");
            for way in ways_to_write(path) {
                assert!(is(&way), "{way}");
            }
        }
        for path in ["/api/docsx", "/api/doc", "/api%2Fdocs/", "/api/doc%2573/", "/docs/api/docs/"]
        {
            assert!(!is(path), "{path}");
        }
    }

    #[test]
    fn a_prefix_is_found_however_it_is_written_and_the_rest_stays() {
        assert_eq!(rest_after("/api/v1/%61?", "/api/v1"), Some("/%61?"));
        for way in ways_to_write("/api/v1") {
            assert_eq!(rest_after(&format!("{way}/%61"), "/api/v1"), Some("/%61"), "{way}");
            assert_eq!(rest_after(&way, "/api/v1"), Some(""), "{way}");
        }
        for path in [
            "",
            "/",
            "/api",
            "/api%2Fv1",
            "/api/v2",
            "/api/v%",
            "/api/v%3",
            "/api/v%+1",
            "/api/v%\u{e9}",
        ] {
            assert_eq!(rest_after(path, "/api/v1"), None, "{path}");
        }
    }
}
