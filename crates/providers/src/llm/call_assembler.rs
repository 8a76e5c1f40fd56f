//! Assembles the calls of an answer from the fragments that servers send. Not for the JSON around a
//! fragment.
//!
//! A fragment belongs to the call with its id, else to that with its index, else to the last one.
//! Servers differ in each of these: they give all calls the same index or id, give each fragment a
//! different id, omit the index, or repeat names and arguments. Then it matters whether a call is
//! complete and whether a fragment has a name.

use std::sync::Arc;

use hearken_ports::vendor_fields::{ReturnedFields, VendorFields};
use hearken_ports::{OfferedTool, ToolRequest};
use hearken_proto::json::weighed;
use serde_json::{Map, Value};

use super::message_fields::{MAX_RETURNED_BYTES, size};

/// Maximum number of calls of one answer. Further ones are ignored.
pub(super) const MAX_CALLS: usize = 64;
/// Number of possible starts of arguments that are tried, from either end: a server that repeats
/// itself does so once.
const MAX_BEGINNINGS: usize = 4;
/// Maximum size of the arguments that are parsed to decide whether the next fragment belongs to a
/// call, in bytes, for all fragments of an answer: each parses those before it again.
const MAX_READ_AGAIN: usize = 4 << 20;

/// Returns the name of a tool without the template tokens that some servers leave after it.
pub(super) fn plain_name(name: &str) -> &str {
    name.split_once('<').map_or(name, |(name, _)| name)
}

/// Fragment of a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Fragment {
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Fields that the model requires in the next request.
    pub(super) vendor: Map<String, Value>,
}

/// Call that is still being written.
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: Vec<String>,
    /// Size of the arguments.
    bytes: usize,
    vendor: Map<String, Value>,
}

/// Arguments that were joined from their fragments.
struct Joined {
    text: String,
    is_object: bool,
}

/// Calls so far.
#[derive(Default)]
pub(super) struct CallAssembler {
    calls: Vec<PartialCall>,
    arguments_bytes: usize,
    vendor_bytes: usize,
    /// Number of bytes of arguments that were parsed to decide where a fragment belongs.
    read_again: usize,
    /// Model that makes the calls.
    model: Arc<str>,
    /// Tools that can be called: they show whether a name is complete.
    offered: Arc<[OfferedTool]>,
}

impl CallAssembler {
    /// Creates an assembler of this model's calls of these tools.
    pub(super) fn of(model: &Arc<str>, offered: &Arc<[OfferedTool]>) -> Self {
        Self { model: Arc::clone(model), offered: Arc::clone(offered), ..Self::default() }
    }

    /// Adds a fragment.
    pub(super) fn add(&mut self, mut fragment: Fragment) {
        let end = plain_name(&fragment.name).len();
        fragment.name.truncate(end);
        let place = self.place(&fragment).unwrap_or(self.calls.len());
        if place == self.calls.len() {
            if place >= MAX_CALLS {
                return;
            }
            let Fragment { index, .. } = fragment;
            self.calls.push(PartialCall {
                index,
                id: String::new(),
                name: String::new(),
                arguments: Vec::new(),
                bytes: 0,
                vendor: Map::new(),
            });
        }
        let names_more = self.names_more(&self.calls[place], &fragment);
        let call = &mut self.calls[place];
        if call.id.is_empty() {
            call.id = fragment.id;
        }
        if !fragment.vendor.is_empty() {
            self.vendor_bytes = self.vendor_bytes.saturating_add(size(&fragment.vendor));
            if self.vendor_bytes <= MAX_RETURNED_BYTES {
                call.vendor.extend(fragment.vendor);
            }
        }
        if call.name.is_empty() {
            call.name = fragment.name;
        } else if names_more {
            call.name.push_str(&fragment.name);
        }
        if !fragment.arguments.is_empty() {
            self.arguments_bytes += fragment.arguments.len();
            call.bytes += fragment.arguments.len();
            call.arguments.push(fragment.arguments);
        }
    }

    /// Returns the bytes of all arguments.
    pub(super) fn arguments_bytes(&self) -> usize {
        self.arguments_bytes
    }

    /// Returns true if there is no call.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the calls, and removes them. No two have the same id. `message` has the fields of
    /// their message that the model requires in the next request.
    pub(super) fn take(&mut self, message: &Arc<Map<String, Value>>) -> Vec<ToolRequest> {
        self.arguments_bytes = 0;
        let mut requests: Vec<ToolRequest> = Vec::new();
        for (number, call) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            let arguments = arguments_of(&call.arguments);
            let vendor = VendorFields::new(ReturnedFields {
                model: Arc::clone(&self.model),
                id: call.id.clone(),
                call: call.vendor,
                message: Arc::clone(message),
            });
            let mut id = call.id;
            if !id.is_empty() && requests.iter().any(|request| request.id == id) {
                id = format!("{id}_{number}");
            }
            let name = call.name;
            requests.push(ToolRequest { id, name, arguments, vendor, ..ToolRequest::default() });
        }
        requests
    }

    /// Returns the place of the call that a fragment belongs to; none if it starts another one.
    fn place(&mut self, fragment: &Fragment) -> Option<usize> {
        let of_index =
            fragment.index.and_then(|_| self.calls.iter().rposition(|c| c.index == fragment.index));
        let has_id = !fragment.id.is_empty();
        let of_id = self.calls.iter().rposition(|call| has_id && call.id == fragment.id);
        if let Some(place) = of_id {
            let call = &self.calls[place];
            let is_renumbered =
                fragment.index.is_some() && call.index.is_some() && fragment.index != call.index;
            if !is_renumbered {
                return Some(place);
            }
            // One id at two indexes: two calls, or one whose index increases with each fragment.
            return of_index.or_else(|| (!self.ends_before(place, fragment)).then_some(place));
        }
        let place = match of_index {
            Some(place) => place,
            None if fragment.index.is_some()
                && !(fragment.name.is_empty() && fragment.id.is_empty()) =>
            {
                return None;
            }
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[place];
        if self.names_more(call, fragment) {
            return Some(place);
        }
        let has_other_id = has_id && !call.id.is_empty();
        let has_its_name = call.name == fragment.name;
        let goes_on = match (fragment.name.is_empty(), has_other_id) {
            (true, _) => true,
            (false, true) => has_its_name && self.lacks(place, fragment),
            (false, false) => !self.ends_before(place, fragment),
        };
        goes_on.then_some(place)
    }

    /// Returns true if a fragment has the next part of the name of a call without arguments so far.
    /// Two names of tools are two calls.
    fn names_more(&self, call: &PartialCall, fragment: &Fragment) -> bool {
        if call.name.is_empty() || fragment.name.is_empty() || !call.arguments.is_empty() {
            return false;
        }
        let is_offered = |name: &str| self.offered.iter().any(|tool| tool.name == name);
        if is_offered(&call.name) && is_offered(&fragment.name) {
            return false;
        }
        let name = format!("{}{}", call.name, fragment.name);
        self.offered.iter().any(|tool| tool.name.starts_with(&name))
    }

    /// Returns true if a fragment, without an id that differs, starts another call than the one at
    /// this place.
    fn ends_before(&mut self, place: usize, fragment: &Fragment) -> bool {
        let call = &self.calls[place];
        if fragment.name.is_empty() || call.name.is_empty() {
            return false;
        }
        if call.name != fragment.name {
            return true;
        }
        // The arguments so far are parsed only if they may end here.
        let begins = fragment.arguments.trim_start().starts_with('{');
        // Some servers send an empty object first, others the whole arguments last.
        begins
            && self.arguments_so_far(place).is_some_and(|so_far| {
                so_far.is_object && so_far.text != "{}" && so_far.text != fragment.arguments
            })
    }

    /// Returns true if the arguments at this place are incomplete, and the fragment continues them
    /// or only starts them.
    fn lacks(&mut self, place: usize, fragment: &Fragment) -> bool {
        let more = fragment.arguments.trim_start();
        if self.calls[place].arguments.is_empty() {
            return more.starts_with('{') && !is_object(more);
        }
        let goes_on = !more.is_empty() && !more.starts_with('{');
        goes_on
            && self
                .arguments_so_far(place)
                .is_none_or(|so_far| !so_far.text.is_empty() && !so_far.is_object)
    }

    /// Joins the arguments of the call at this place. `None` once [`MAX_READ_AGAIN`] bytes were
    /// parsed.
    fn arguments_so_far(&mut self, place: usize) -> Option<Joined> {
        let call = &self.calls[place];
        let mut left = MAX_READ_AGAIN.saturating_sub(self.read_again);
        let so_far = if call.bytes <= left { joined(&call.arguments, &mut left) } else { None };
        self.read_again = MAX_READ_AGAIN - if so_far.is_some() { left } else { 0 };
        so_far
    }
}

/// Joins the fragments of arguments. Some servers start with `{}`, send the whole again at the end,
/// or the whole so far each time: if all fragments together are not an object, those from a later
/// start on are tried.
pub(super) fn arguments_of(fragments: &[String]) -> String {
    let mut unlimited = usize::MAX;
    joined(fragments, &mut unlimited).map_or_else(|| fragments.concat(), |joined| joined.text)
}

/// Joins the fragments as [`arguments_of`] does. Parses at most `left` bytes, and subtracts those
/// that it has parsed; `None` if they do not suffice.
fn joined(fragments: &[String], left: &mut usize) -> Option<Joined> {
    let mut is_whole = |text: &str| {
        *left = left.checked_sub(text.len())?;
        Some(is_object(text))
    };
    let whole = fragments.concat();
    let is_object = is_whole(&whole)?;
    if is_object || whole.trim().is_empty() {
        return Some(Joined { text: whole, is_object });
    }
    let fragments = match fragments {
        [first, rest @ ..] if first.trim() == "{}" => rest,
        all => all,
    };
    let begins = |place: &usize| fragments[*place].trim_start().starts_with('{');
    let beginnings: Vec<usize> = (1..fragments.len()).filter(begins).collect();
    let first = beginnings.iter().take(MAX_BEGINNINGS);
    let last =
        beginnings.iter().skip(MAX_BEGINNINGS.max(beginnings.len().saturating_sub(MAX_BEGINNINGS)));
    let places: Vec<usize> = first.chain(last).copied().collect();
    let behind =
        std::iter::once(0).chain(places.iter().copied()).map(|place| fragments[place..].concat());
    let ahead = places.iter().rev().map(|place| fragments[..*place].concat());
    for part in behind.chain(ahead) {
        if is_whole(&part)? {
            return Some(Joined { text: part, is_object: true });
        }
    }
    Some(Joined { text: whole, is_object: false })
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && weighed::<Map<String, Value>>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fragment(index: Option<u64>, id: &str, name: &str, arguments: &str) -> Fragment {
        Fragment {
            index,
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            ..Fragment::default()
        }
    }

    fn assembled(fragments: &[Fragment]) -> Vec<String> {
        let mut assembler = CallAssembler::default();
        fragments.iter().for_each(|fragment| assembler.add(fragment.clone()));
        let calls = assembler.take(&Arc::default()).into_iter();
        calls.map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect()
    }

    /// Name of the case, its fragments, and the expected calls.
    type Row<'a> = (&'a str, &'a [Fragment], &'a [&'a str]);

    fn are_understood(rows: &[Row<'_>]) {
        for (what, fragments, calls) in rows {
            assert_eq!(assembled(fragments), *calls, "{what}");
        }
    }

    #[test]
    fn one_call_is_assembled_however_it_is_split() {
        let zero = Some(0);
        are_understood(&[
            (
                "a new id in each fragment, and an empty name",
                &[
                    fragment(zero, "1", "f", ""),
                    fragment(zero, "2", "", "{\"x\":"),
                    fragment(zero, "3", "", "1}"),
                ],
                &["1 f {\"x\":1}"],
            ),
            (
                "the same without an index",
                &[fragment(None, "1", "f", "{"), fragment(None, "2", "", "}")],
                &["1 f {}"],
            ),
            (
                "an object first",
                &[
                    fragment(zero, "1", "f", "{}"),
                    fragment(zero, "", "", "{\"x\":"),
                    fragment(zero, "", "", "1}"),
                ],
                &["1 f {\"x\":1}"],
            ),
            (
                "the whole again",
                &[
                    fragment(zero, "1", "f", "{\"x\":"),
                    fragment(zero, "1", "f", "1}"),
                    fragment(zero, "1", "f", "{\"x\":1}"),
                ],
                &["1 f {\"x\":1}"],
            ),
            (
                "the whole so far each time",
                &[
                    fragment(zero, "1", "f", "{\"x\""),
                    fragment(zero, "1", "f", "{\"x\":1"),
                    fragment(zero, "1", "f", "{\"x\":1}"),
                ],
                &["1 f {\"x\":1}"],
            ),
        ]);
    }

    #[test]
    fn several_calls_are_separated_whatever_their_ids_and_indexes() {
        let zero = Some(0);
        let one = Some(1);
        are_understood(&[
            (
                "two without ids at one index",
                &[fragment(zero, "", "f", ""), fragment(zero, "", "g", "")],
                &[" f ", " g "],
            ),
            (
                "the same with arguments",
                &[fragment(zero, "", "f", "{\"x\":1}"), fragment(zero, "", "f", "{\"x\":2}")],
                &[" f {\"x\":1}", " f {\"x\":2}"],
            ),
            (
                "one sent twice",
                &[fragment(zero, "", "f", "{\"x\":1}"), fragment(zero, "", "f", "{\"x\":1}")],
                &[" f {\"x\":1}"],
            ),
            (
                "one id at two indexes",
                &[
                    fragment(zero, "1", "f", "{\"x\":1}"),
                    fragment(one, "1", "f", "{\"x\":"),
                    fragment(one, "1", "", "2}"),
                ],
                &["1 f {\"x\":1}", "1_1 f {\"x\":2}"],
            ),
            (
                "one whose index increases",
                &[fragment(zero, "1", "f", "{\"x\":"), fragment(one, "1", "", "1}")],
                &["1 f {\"x\":1}"],
            ),
            (
                "a separate index for each fragment",
                &[fragment(zero, "1", "f", "{\"x\":"), fragment(one, "", "", "1}")],
                &["1 f {\"x\":1}"],
            ),
            (
                "the name and another id in each",
                &[fragment(zero, "1", "f", "{\"x\":"), fragment(zero, "2", "f", "1}")],
                &["1 f {\"x\":1}"],
            ),
            (
                "the same, first without arguments",
                &[
                    fragment(zero, "1", "f", ""),
                    fragment(zero, "2", "f", "{\"x\":"),
                    fragment(zero, "1", "f", "1"),
                    fragment(zero, "3", "f", "}"),
                ],
                &["1 f {\"x\":1}"],
            ),
            (
                "the same tool without and with arguments",
                &[fragment(zero, "1", "f", ""), fragment(zero, "2", "f", "{\"x\":1}")],
                &["1 f ", "2 f {\"x\":1}"],
            ),
        ]);
    }

    #[test]
    fn a_split_name_is_joined_if_a_tool_has_it() {
        let zero = Some(0);
        let calls = |names: &[&str], fragments: &[Fragment]| -> Vec<String> {
            let tool = |name: &&str| OfferedTool {
                name: (*name).to_owned(),
                description: String::new(),
                parameters: Value::Null,
            };
            let mut assembler =
                CallAssembler::of(&Arc::from("m"), &names.iter().map(tool).collect());
            fragments.iter().for_each(|fragment| assembler.add(fragment.clone()));
            let calls = assembler.take(&Arc::default()).into_iter();
            calls.map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect()
        };
        let two = [fragment(zero, "1", "set_", ""), fragment(zero, "", "level", "{}")];
        let three = [
            fragment(None, "1", "se", ""),
            fragment(None, "2", "t_l", ""),
            fragment(None, "1", "evel", "{}"),
        ];
        for fragments in [&two[..], &three] {
            assert_eq!(calls(&["set_level", "level"], fragments), ["1 set_level {}"]);
        }
        let others = [fragment(zero, "", "set", ""), fragment(zero, "", "_level", "{}")];
        assert_eq!(calls(&["set", "set_level"], &others), [" set_level {}"]);
        // Two tools are two calls, although a third tool has both names joined.
        let whole = [fragment(zero, "", "set", ""), fragment(zero, "", "level", "{}")];
        assert_eq!(calls(&["set", "level", "setlevel"], &whole), [" set ", " level {}"]);
        assert_eq!(calls(&["other"], &two), ["1 set_ ", " level {}"]);
        // Template tokens are not part of a name.
        let marked = [
            fragment(zero, "1", "set_level<|channel|>commentary", ""),
            fragment(zero, "", "<|constrain|>json", "{}"),
        ];
        assert_eq!(calls(&["set_level"], &marked), ["1 set_level {}"]);
    }

    #[test]
    fn nested_objects_are_not_repeats() {
        let nested = [
            fragment(Some(0), "1", "f", "{\"a\":"),
            fragment(Some(0), "", "", "{\"a\":1}"),
            fragment(Some(0), "", "", "}"),
        ];
        assert_eq!(assembled(&nested), ["1 f {\"a\":{\"a\":1}}"]);
    }

    #[test]
    fn long_arguments_are_not_parsed_again_for_each_of_many_fragments() {
        let start = format!("{{\"x\":\"{}", "a".repeat(60_000));
        for (id, more) in [("2", "b"), ("", "{b")] {
            let mut assembler = CallAssembler::default();
            assembler.add(fragment(None, "1", "f", &start));
            for _ in 0..500 {
                assembler.add(fragment(None, id, "f", more));
            }
            assembler.add(fragment(None, "", "", "\"}"));
            assert_eq!(assembler.read_again, MAX_READ_AGAIN, "{more}");
            let calls = assembler.take(&Arc::default());
            let whole = format!("{start}{}\"}}", more.repeat(500));
            assert_eq!(calls.len(), 1, "{more}");
            assert!(calls[0].arguments == whole, "{more}: {} bytes", calls[0].arguments.len());
        }
    }

    /// Habits of a server when it writes a call.
    #[derive(Debug, Clone)]
    struct Habits {
        has_index: bool,
        repeats_id: bool,
        repeats_name: bool,
        begins_with_an_object: bool,
        ends_with_the_whole: bool,
    }

    fn habits() -> impl Strategy<Value = Habits> {
        any::<[bool; 5]>().prop_map(
            |[has_index, repeats_id, repeats_name, begins_with_an_object, ends_with_the_whole]| {
                Habits {
                    has_index,
                    repeats_id,
                    repeats_name,
                    begins_with_an_object,
                    ends_with_the_whole,
                }
            },
        )
    }

    /// Returns the fragments of a call whose arguments are split at these places.
    fn cut(
        number: u64,
        name: &str,
        arguments: &str,
        cuts: &[prop::sample::Index],
        habits: &Habits,
    ) -> Vec<Fragment> {
        let mut places: Vec<usize> =
            cuts.iter().map(|cut| cut.index(arguments.len() + 1)).collect();
        places.retain(|place| arguments.is_char_boundary(*place));
        places.extend([0, arguments.len()]);
        places.sort_unstable();
        let mut parts: Vec<&str> =
            places.windows(2).map(|ends| &arguments[ends[0]..ends[1]]).collect();
        if habits.begins_with_an_object {
            parts.insert(0, "{}");
        }
        if habits.ends_with_the_whole {
            parts.push(arguments);
        }
        let id = format!("call_{number}");
        let index = habits.has_index.then_some(number);
        let fragments = parts.iter().enumerate().map(|(n, part)| {
            let told = |text: &str, repeats| {
                if n == 0 || repeats { text.to_owned() } else { String::new() }
            };
            Fragment {
                index,
                id: told(&id, habits.repeats_id),
                name: told(name, habits.repeats_name),
                arguments: (*part).to_owned(),
                ..Fragment::default()
            }
        });
        fragments.collect()
    }

    proptest! {
        #[test]
        fn calls_are_the_same_however_they_are_split_and_repeated(
            calls in prop::collection::vec(
                ("[a-z]{1,6}", "[a-z]{0,6}", 0..1_000_u32, prop::collection::vec(any::<prop::sample::Index>(), 0..5)), 1..4),
            habits in habits(),
        ) {
            let mut fragments = Vec::new();
            let mut expected = Vec::new();
            for (number, (name, key, value, cuts)) in (0..).zip(&calls) {
                let arguments = serde_json::json!({ key: { "nested": value }, "text": "} {\"" }).to_string();
                fragments.extend(cut(number, name, &arguments, cuts, &habits));
                expected.push(format!("call_{number} {name} {arguments}"));
            }
            prop_assert_eq!(assembled(&fragments), expected);
        }

        #[test]
        fn no_fragments_cause_a_panic(
            fragments in prop::collection::vec((prop::option::of(0..3_u64), "[ab]?", "[fg]?", "[{}\":x1]{0,4}"), 0..100),
        ) {
            let all: Vec<Fragment> = fragments.iter().map(|(i, id, name, a)| fragment(*i, id, name, a)).collect();
            let calls = assembled(&all);
            prop_assert!(calls.len() <= MAX_CALLS);
        }
    }
}
