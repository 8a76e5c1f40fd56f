//! Fuzz target: bodies of museum clients. Behind the feature `fuzzing`; never in a server.

use std::time::{Duration, Instant};

use hearken_proto::ids::SessionId;
use hearken_proto::json::{self, weight};
use hearken_proto::museum::{MAX_INPUT_CHARS, MAX_METADATA_BYTES, ParseRequest, Register};
use serde_json::{Value, json};

use super::functions::{Functions, MAX_BYTES, MAX_FUNCTIONS};

/// Any body is parsed or refused, with all its mistakes; parsed values respect their limits, and
/// functions survive a round trip through the store.
///
/// # Panics
/// Panics if any of this is violated.
pub fn museum_bodies(bytes: &[u8]) {
    let Ok(body) = json::object(bytes).map(Value::Object) else { return };
    match ParseRequest::read(&body) {
        Ok(request) => {
            let input = &request.user_input;
            assert!(!input.is_empty() && input.trim() == input);
            assert!(input.chars().count() <= MAX_INPUT_CHARS);
            assert_eq!(ParseRequest::read(&json!(request)), Ok(request));
        }
        Err(mistakes) => assert!(!mistakes.is_empty() && mistakes.len() <= 4),
    }
    let register = match Register::read(&body) {
        Ok(register) => register,
        Err(mistakes) => return assert!(!mistakes.is_empty() && mistakes.len() <= 4),
    };
    assert!(json!(register.client_metadata).to_string().len() <= MAX_METADATA_BYTES);
    let until = Instant::now() + Duration::from_secs(60);
    match Functions::read(&register.functions, until) {
        Ok(functions) => {
            assert!(functions.offered.len() <= MAX_FUNCTIONS);
            let stored = functions.to_stored();
            // Functions without properties get an empty object.
            assert!(stored.iter().map(weight).sum::<usize>() <= MAX_BYTES + 400 * MAX_FUNCTIONS);
            assert_eq!(
                Functions::from_stored(&stored, &SessionId::random()).offered,
                functions.offered
            );
            let again = Functions::read(&stored, until);
            assert!(again.is_ok_and(|again| again.offered == functions.offered));
        }
        Err(mistakes) => assert!(!mistakes.is_empty() && mistakes.len() <= MAX_FUNCTIONS),
    }
}
