//! Ids of calls in a request: a model gets its own ids back, other ids have a form that every
//! vendor accepts. Not for the ids that a conversation uses.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use hearken_ports::ToolRequest;
use hearken_ports::vendor_fields::ReturnedFields;

/// Length of an id that every vendor accepts. Mistral accepts only letters and digits, and only
/// this length; Anthropic accepts letters, digits, `_` and `-`.
const LENGTH: usize = 9;

const CHARACTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Ids of the calls of one request, in the order of its messages.
#[derive(Default)]
pub(super) struct CallIds {
    used: HashSet<String>,
    /// Sent id of the last call with this id in the conversation.
    sent: HashMap<String, String>,
}

impl CallIds {
    /// Returns the id of a call, distinct in the request. `own` has the id that the model itself
    /// wrote: some models are trained to read their own form, and some gateways store data in it.
    pub(super) fn of_call(&mut self, call: &ToolRequest, own: Option<&ReturnedFields>) -> String {
        let own = own.map(|own| own.id.clone()).filter(|id| !id.is_empty());
        let others = (0..).map(|attempt| plain(&call.id, attempt));
        let mut free = own.into_iter().chain(others).filter(|id| !self.used.contains(id));
        let id = free.next().unwrap_or_default();
        self.used.insert(id.clone());
        self.sent.insert(call.id.clone(), id.clone());
        id
    }

    /// Returns the id of the call that a result answers.
    pub(super) fn of_result(&self, answers: &str) -> String {
        self.sent.get(answers).cloned().unwrap_or_else(|| plain(answers, 0))
    }
}

/// Returns an id that every vendor accepts. Later attempts return others.
pub(super) fn plain(id: &str, attempt: u32) -> String {
    if attempt == 0 && id.len() == LENGTH && id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    // The same in each request, so that the model's cache of the prompt stays valid.
    let mut hasher = DefaultHasher::new();
    (id, attempt).hash(&mut hasher);
    let mut rest = hasher.finish();
    let mut next = || {
        let index = usize::try_from(rest % 62).unwrap_or_default();
        rest /= 62;
        char::from(CHARACTERS[index])
    };
    (0..LENGTH).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn call(id: &str) -> ToolRequest {
        ToolRequest { id: id.into(), name: "f".into(), ..ToolRequest::default() }
    }

    #[test]
    fn ids_have_nine_letters_and_digits_and_are_distinct() {
        let given = ["D681PevKs", "call_1", "rule_1", "functions.f:0", "", "D681PevKs", "call_1"];
        let mut ids = CallIds::default();
        let sent = given.map(|id| {
            let sent = ids.of_call(&call(id), None);
            assert_eq!(ids.of_result(id), sent, "the result of {id} has the id of its call");
            sent
        });
        for id in &sent {
            let legal = id.len() == LENGTH && id.bytes().all(|b| b.is_ascii_alphanumeric());
            assert!(legal, "{id}");
        }
        assert_eq!(sent.iter().collect::<HashSet<_>>().len(), given.len(), "{sent:?}");
        assert_eq!(sent[0], given[0], "an id that fits is unchanged");
        let again = CallIds::default().of_call(&call("call_1"), None);
        assert_eq!(again, sent[1], "an id is the same in each request");
    }

    #[test]
    fn a_model_gets_its_own_ids_back_once_per_request() {
        let own = |id: &str| ReturnedFields {
            model: Arc::from("m"),
            id: id.into(),
            ..ReturnedFields::default()
        };
        let mut ids = CallIds::default();
        let own = own("functions.f:0");
        assert_eq!(ids.of_call(&call("functions.f:0"), Some(&own)), "functions.f:0");
        assert_eq!(ids.of_result("functions.f:0"), "functions.f:0");
        assert_eq!(ids.of_call(&call("call_2"), Some(&own)).len(), LENGTH);
    }
}
