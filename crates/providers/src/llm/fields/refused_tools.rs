//! Tools that some servers or models refuse: what a refusal says about them, and which are omitted
//! from later requests. Not for other fields of a request.
//!
//! - A refusal is about one tool if it has the tool's place in the request, such as `tools[3]` or
//!   `tools.3`, or the name of exactly one tool. A name that may be an ordinary word counts only in
//!   quotes, beside the word tool or function.
//! - A refusal is about all tools if a sentence says that they are not supported.
//! - A refusal about a quota, a key or the context's length is ignored here, unless it has a place.
//! - A tool is identified by its whole definition: with a changed one it is offered again.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hearken_outbound::http::{Refusal, kind_of_code};
use hearken_proto::json::weighed;
use serde_json::Value;
use tokio::time::Instant;

/// Time for which a refusal is remembered.
const KNOWN_FOR: Duration = Duration::from_hours(1);

/// Maximum number of repeats of one request without a refused tool.
const MOST_REPEATS: u8 = 3;

/// Maximum number of remembered tools per model.
const MOST_TOOLS: usize = 256;

/// Names of the list of tools in paths. In the second form, Gemini counts the functions within its
/// only tool.
const LISTS: [&str; 3] = ["function_declarations", "functionDeclarations", "tools"];

/// Separators between the name of a list and an index.
const BEFORE_INDEX: [&str; 9] = ["[", ".", "/", " -> ", "->", "', ", "\", ", "',", "\","];

/// Maximum number of words between the tools and the statement about them.
const NEAR: usize = 6;

/// Words of refusals that are about something else.
const OTHER_WORDS: [&str; 17] = [
    "tool_use_failed",
    "failed_generation",
    "quota",
    "quotas",
    "credit",
    "credits",
    "balance",
    "billing",
    "tokens",
    "api_key",
    "apikey",
    "timeout",
    "overloaded",
    "temporarily",
    "余额不足",
    "欠费",
    "密钥",
];

/// Pairs of words of refusals that are about something else.
const OTHER_PAIRS: [(&str, &str); 10] = [
    // The model's output was invalid this time, not the offered tools.
    ("call", "validation"),
    ("call", "failed"),
    ("api", "key"),
    ("context", "length"),
    ("context", "window"),
    ("context", "size"),
    ("rate", "limit"),
    ("rate", "limits"),
    ("timed", "out"),
    ("try", "again"),
];

/// Statement of a refusal about the tools of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Complaint {
    /// It has the place of this tool.
    Place(usize),
    /// It has the name of this tool.
    Name(usize),
    /// No tools are supported.
    All,
}

impl Complaint {
    /// Reads a refusal of a request.
    pub(super) fn of(refusal: &Refusal, order: &Value) -> Option<Self> {
        let tools = order.get("tools")?.as_array().filter(|tools| !tools.is_empty())?;
        let told = &refusal.told;
        let may_be_one = match refusal.status?.as_u16() {
            400 | 422 | 500 => true,
            404 | 501 => false,
            _ => return None,
        };
        let text = texts(&told.text);
        if may_be_one {
            let of_param = told.param.as_deref().and_then(|param| place(param, tools.len()));
            if let Some(place) = of_param.or_else(|| place(&text, tools.len())) {
                return Some(Self::Place(place));
            }
        }
        let lower = text.to_lowercase();
        if told.code.as_deref().and_then(kind_of_code).is_some() || is_about_another(&lower) {
            return None;
        }
        let of_name = named(&text, tools).filter(|_| may_be_one).map(Self::Name);
        of_name.or_else(|| says_unsupported(&lower).then_some(Self::All))
    }
}

/// Tools that one model refuses.
#[derive(Default)]
pub(super) struct RefusedTools(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Time at which the model turned out to support no tools.
    all: Option<Instant>,
    /// Hashes of the definitions of refused tools, each with the time of its refusal.
    definitions: BTreeMap<u64, Instant>,
}

impl Known {
    /// Forgets old refusals: the model or its server may have changed, or a refusal was misread.
    fn forget_old(&mut self) {
        self.all = self.all.filter(|since| since.elapsed() < KNOWN_FOR);
        self.definitions.retain(|_, since| since.elapsed() < KNOWN_FOR);
    }
}

/// Part omitted from a request.
enum LeftOut {
    Tool { name: String, definition: u64 },
    All,
}

/// Tools that were omitted from the repeats of one request.
#[derive(Default)]
pub(super) struct Trial {
    repeats: u8,
    /// The last omission and its reason. It is learnt if it turns out to be right.
    last: Option<(LeftOut, String)>,
}

impl RefusedTools {
    /// Removes from a request all tools that are known to be refused.
    pub(super) fn leave_out(&self, order: &mut Value) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.forget_old();
        if known.all.is_some() {
            remove_all(order);
        } else if !known.definitions.is_empty() {
            if let Some(tools) = order.get_mut("tools").and_then(Value::as_array_mut) {
                tools.retain(|tool| !known.definitions.contains_key(&definition(tool)));
            }
            remove_empty(order);
        }
    }

    fn learn(&self, left_out: LeftOut, why: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match left_out {
            LeftOut::All => {
                if known.all.replace(Instant::now()).is_none() {
                    tracing::warn!(why, "the language model supports no tools; leaving them out");
                }
            }
            LeftOut::Tool { name, definition } => {
                if known.definitions.len() >= MOST_TOOLS {
                    known.definitions.clear();
                }
                if known.definitions.insert(definition, Instant::now()).is_none() {
                    let tool = name.as_str();
                    tracing::warn!(
                        tool,
                        why,
                        "the language model refuses this tool; leaving it out"
                    );
                }
            }
        }
    }
}

impl Trial {
    /// Removes the tools that a refusal is about. Returns false if the request was repeated often
    /// enough.
    pub(super) fn leave_out(
        &mut self,
        known: &RefusedTools,
        order: &mut Value,
        complaint: Complaint,
        refusal: &Refusal,
    ) -> bool {
        // Another complaint follows, so the last omission removed the cause of the previous one.
        self.answered(known);
        if self.repeats >= MOST_REPEATS {
            return false;
        }
        self.repeats += 1;
        let left_out = match complaint {
            Complaint::Place(place) | Complaint::Name(place) => remove(order, place),
            Complaint::All => {
                remove_all(order);
                Some(LeftOut::All)
            }
        };
        // The text of a refusal may repeat the user's words; its status and code do not.
        self.last = left_out.map(|left_out| (left_out, refusal.error.to_string()));
        self.last.is_some()
    }

    /// Returns true if the request was repeated without a tool.
    pub(super) fn has_repeated(&self) -> bool {
        self.repeats > 0
    }

    /// Records that the request without these tools was not refused for the same reason.
    pub(super) fn answered(&mut self, known: &RefusedTools) {
        if let Some((left_out, why)) = self.last.take() {
            known.learn(left_out, &why);
        }
    }
}

fn remove(order: &mut Value, place: usize) -> Option<LeftOut> {
    let tools = order.get_mut("tools")?.as_array_mut()?;
    let tool = (place < tools.len()).then(|| tools.remove(place))?;
    remove_empty(order);
    Some(LeftOut::Tool { name: name_of(&tool).to_owned(), definition: definition(&tool) })
}

/// Servers refuse an empty list of tools.
fn remove_empty(order: &mut Value) {
    if order.get("tools").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        remove_all(order);
    }
}

fn remove_all(order: &mut Value) {
    if let Some(fields) = order.as_object_mut() {
        fields.remove("tools");
        fields.remove("tool_choice");
    }
}

fn definition(tool: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    tool.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns the name of a tool in either API's form.
fn name_of(tool: &Value) -> &str {
    tool["function"]["name"].as_str().or_else(|| tool["name"].as_str()).unwrap_or_default()
}

/// Returns the texts of an error body, and a list of names and numbers as a path: `body.tools.3`.
fn texts(body: &str) -> String {
    let Ok(value) = weighed::<Value>(body) else { return body.to_owned() };
    let mut texts = String::new();
    add_texts(&value, &mut texts);
    texts
}

fn add_texts(value: &Value, texts: &mut String) {
    match value {
        Value::String(text) => texts.push_str(text),
        Value::Number(number) => texts.push_str(&number.to_string()),
        Value::Array(all) => {
            for (place, item) in all.iter().enumerate() {
                if place > 0 {
                    texts.push(if item.is_object() { ' ' } else { '.' });
                }
                add_texts(item, texts);
            }
        }
        Value::Object(fields) => {
            // A field of this name repeats the request.
            for (name, field) in fields.iter().filter(|(name, _)| *name != "input") {
                // Output of the model is represented by its field name alone.
                if name == "failed_generation" {
                    texts.push_str(name);
                } else {
                    add_texts(field, texts);
                }
                texts.push(' ');
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Returns the place of a tool that a text contains, given the number of tools.
fn place(text: &str, tools: usize) -> Option<usize> {
    let of_list = |list: &&str| {
        let mut places = text
            .match_indices(*list)
            .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        places.find_map(|(at, _)| index(&text[at + list.len()..]))
    };
    LISTS.iter().find_map(of_list).filter(|place| *place < tools)
}

/// Returns the index that follows the name of a list.
fn index(behind: &str) -> Option<usize> {
    let digits = BEFORE_INDEX.iter().find_map(|sign| behind.strip_prefix(*sign))?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, behind) = digits.split_at(end);
    let ends = !behind.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    digits.parse().ok().filter(|_| ends)
}

/// Returns the place of the tool whose name a text contains; none if it contains several.
fn named(text: &str, tools: &[Value]) -> Option<usize> {
    let names = tools.iter().enumerate().map(|(place, tool)| (name_of(tool), place));
    let names: BTreeMap<&str, usize> = names.collect();
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut found = None;
    let mut from = 0;
    while let Some(at) = text[from..].find(is_part) {
        let (before, rest) = text.split_at(from + at);
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        from = before.len() + end;
        let Some(place) = names.get(word) else { continue };
        if is_identifier(word) || is_quoted_tool(before, behind) {
            if found.is_some_and(|known| known != *place) {
                return None;
            }
            found = Some(*place);
        }
    }
    found
}

/// Returns true if a name is not an ordinary word.
fn is_identifier(name: &str) -> bool {
    let mut pairs = name.chars().zip(name.chars().skip(1));
    name.contains(|c: char| c == '_' || c == '-' || c.is_ascii_digit())
        || pairs.any(|(one, next)| one.is_lowercase() && next.is_uppercase())
}

/// Returns true if a word between these texts is in quotes, and is called a tool.
fn is_quoted_tool(before: &str, behind: &str) -> bool {
    let quotes = ['"', '\'', '`', '“', '”', '‘', '’', '«', '»', '「', '」'];
    let (Some(before), Some(behind)) = (before.strip_suffix(quotes), behind.strip_prefix(quotes))
    else {
        return false;
    };
    let is_tool = |word: &str| {
        ["tool", "tools", "function", "functions"]
            .iter()
            .any(|tool| word.eq_ignore_ascii_case(tool))
    };
    let is_gap = |c: char| !c.is_alphanumeric();
    let mut last = before.rsplit(is_gap).filter(|word| !word.is_empty()).take(2);
    let next = behind.strip_prefix(' ').and_then(|behind| behind.split(is_gap).next());
    last.any(is_tool) || next.is_some_and(is_tool)
}

/// Returns the words of a text.
fn words(text: &str) -> Vec<&str> {
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    text.split(is_end).filter(|word| !word.is_empty()).collect()
}

/// Returns true if a text in lower case is about something other than the request's fields.
fn is_about_another(text: &str) -> bool {
    let words = words(text);
    let mut pairs = words.iter().zip(words.iter().skip(1));
    words.iter().any(|word| OTHER_WORDS.contains(word))
        || pairs.any(|(one, next)| OTHER_PAIRS.contains(&(*one, *next)))
}

/// Returns true if a sentence of a text in lower case says that tools are not supported.
fn says_unsupported(text: &str) -> bool {
    let text = text.replace("n't", " not").replace("n’t", " not");
    text.split(['.', ';', '!', '\n', '。', '；', '！']).any(|sentence| {
        let words = words(sentence);
        let mut tools = (0..words.len()).filter(|place| means_tools(&words, *place));
        if sentence.contains("不支持") {
            let names = ["工具", "函数调用"];
            return names.iter().any(|name| sentence.contains(name)) || tools.next().is_some();
        }
        // A command-line option of the server.
        let is_option = sentence.contains("requires --") || sentence.contains("require --");
        tools.any(|place| {
            let end = words.len().min(place + NEAR + 1);
            is_option || are_refused(&words[place.saturating_sub(NEAR)..end])
        })
    })
}

/// Returns true if a word means tools in general, and neither a single tool nor a property of
/// tools.
fn means_tools(words: &[&str], place: usize) -> bool {
    let at = |place: usize| words.get(place).copied().unwrap_or_default();
    let uses = ["use", "usage", "using", "calling", "call", "calls", "choice", "support"];
    let is_parallel = place.checked_sub(1).is_some_and(|before| at(before) == "parallel");
    match at(place) {
        "tools" | "functions" | "tool_calling" | "function_calling" => true,
        "tool" | "function" => uses.contains(&at(place + 1)) && !is_parallel,
        _ => false,
    }
}

/// Returns true if these words around the tools say that a server does not support them. Too many
/// tools are a different complaint.
fn are_refused(words: &[&str]) -> bool {
    let any = |known: &[&str]| words.iter().any(|word| known.contains(word));
    if any(&["more", "most", "many", "maximum", "limit", "exceeds"]) {
        return false;
    }
    let verbs = ["support", "enabl", "avail", "allow", "permit", "implement", "accept", "recogni"];
    let is_verb = |word: &&str| *word == "used" || verbs.iter().any(|verb| word.starts_with(*verb));
    let is_denied = |(place, word): (usize, &&str)| {
        let mut behind = words.iter().skip(place + 1).take(4);
        ["not", "no", "cannot"].contains(word) && behind.any(is_verb)
    };
    let is_extra = |(one, next): (&&str, &&str)| {
        *one == "extra" && ["inputs", "fields", "parameters"].contains(next)
    };
    any(&["unsupported", "unrecognized", "unrecognised", "disabled"])
        || words.iter().enumerate().any(is_denied)
        || words.iter().zip(words.iter().skip(1)).any(is_extra)
}

#[cfg(test)]
mod tests;
