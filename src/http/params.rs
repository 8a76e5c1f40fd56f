//! Query parameters of REST requests, with one rule for all: a missing parameter has its default,
//! and a present one must be valid; blank is never valid. Also short texts of their bodies. Not for
//! ids and tokens, which clients may also send in the query.

use std::collections::HashSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use actix_web::HttpRequest;
use hearken_proto::fault::Fault;

use crate::http::fault::{Refusal, refusal};
use crate::http::request_identity::{query, tidy};

/// Checks that the query has only these parameters, each at most once: an ignored parameter must
/// not widen a deletion.
///
/// # Errors
/// [`Fault::BadRequest`], with the name of the parameter.
pub(crate) fn only(request: &HttpRequest, names: &[&str]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for (name, _) in url::form_urlencoded::parse(request.query_string().as_bytes()) {
        let name = name.to_lowercase();
        // A credential may be in the query.
        if name == "authorization" {
            continue;
        }
        if !names.contains(&name.as_str()) {
            let about = format!("`{name}` cannot be used here: give {}", names.join(" or "));
            return Err(refusal(Fault::BadRequest, &about));
        }
        if !seen.insert(name) {
            return Err(refusal(Fault::BadRequest, "a parameter is given twice"));
        }
    }
    Ok(())
}

/// Returns a text, trimmed; `None` if the parameter is missing.
///
/// # Errors
/// The given fault, if the text is blank.
pub(crate) fn text(
    request: &HttpRequest,
    name: &str,
    fault: Fault,
) -> Result<Option<String>, Refusal> {
    let Some(given) = query(request, name) else { return Ok(None) };
    let given = given.trim();
    if given.is_empty() {
        return Err(refusal(fault, &format!("`{name}` is blank: omit it, or give a value")));
    }
    Ok(Some(given.to_owned()))
}

/// Returns an integer within its limits; `None` if the parameter is missing.
///
/// # Errors
/// The given fault, if it is not such a number.
pub(crate) fn number<T>(
    request: &HttpRequest,
    name: &str,
    within: RangeInclusive<T>,
    fault: Fault,
) -> Result<Option<T>, Refusal>
where
    T: FromStr + PartialOrd + Display,
{
    let Some(text) = text(request, name, fault)? else { return Ok(None) };
    let number = text.parse().ok().filter(|n| within.contains(n));
    let about =
        || format!("`{name}` is a whole number from {} to {}", within.start(), within.end());
    number.map(Some).ok_or_else(|| refusal(fault, &about()))
}

/// Returns the trimmed text; refuses it if it is empty or too long.
pub(crate) fn text_of(text: &str, max_chars: usize, about: &str) -> Result<String, Refusal> {
    let fits = text.chars().count() <= max_chars;
    let text = tidy(text, max_chars).filter(|_| fits);
    text.ok_or_else(|| refusal(Fault::BadRequest, about))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_present_parameter_is_valid_or_refused() {
        let asked =
            |query: &str| TestRequest::with_uri(&format!("/api/sessions{query}")).to_http_request();
        let read = |query: &str| text(&asked(query), "user_id", Fault::InvalidRequest).ok();
        assert_eq!(read(""), Some(None));
        assert_eq!(read("?other="), Some(None));
        assert_eq!(read("?user_id=%20ann%20lee%20"), Some(Some("ann lee".into())));
        for blank in ["?user_id=", "?user_id", "?user_id=%20%09", "?limit=1&USER_ID="] {
            assert_eq!(read(blank), None, "{blank}");
        }
        let counted = |query: &str| number(&asked(query), "limit", 1..=200, Fault::BadRequest).ok();
        assert_eq!((counted(""), counted("?limit=200")), (Some(None), Some(Some(200))));
        for wrong in ["?limit=", "?limit=0", "?limit=201", "?limit=x", "?limit=1.5", "?limit=-1"] {
            assert_eq!(counted(wrong), None, "{wrong}");
        }
    }
}
