//! Tests of the grammars with a small GBNF matcher: which texts they must accept and refuse. There
//! is no model here.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::llm::generation::{Message, Sampling};
use serde_json::Map;

/// GBNF grammar with a matcher.
struct Gbnf {
    rules: BTreeMap<String, Vec<Vec<Item>>>,
}

struct Item {
    what: What,
    least: usize,
    most: usize,
}

enum What {
    Literal(Vec<char>),
    Class { not: bool, ranges: Vec<(char, char)> },
    Rule(String),
    Group(Vec<Vec<Item>>),
}

impl Gbnf {
    fn read(text: &str) -> Result<Self, String> {
        let mut rules = BTreeMap::new();
        for line in text.lines() {
            let (name, body) = line.split_once(" ::= ").ok_or(format!("no rule: {line}"))?;
            let signs: Vec<char> = body.chars().collect();
            let mut at = 0;
            let alternatives = read_alternatives(&signs, &mut at)?;
            if at != signs.len() {
                return Err(format!("rest of {line} from {at}"));
            }
            if rules.insert(name.to_owned(), alternatives).is_some() {
                return Err(format!("{name} twice"));
            }
        }
        let grammar = Self { rules };
        let all = grammar.rules.values().flatten();
        grammar.check_references(all)?;
        Ok(grammar)
    }

    fn check_references<'a>(
        &self,
        sequences: impl Iterator<Item = &'a Vec<Item>>,
    ) -> Result<(), String> {
        for item in sequences.flatten() {
            match &item.what {
                What::Rule(name) if !self.rules.contains_key(name) => {
                    return Err(format!("no rule {name}"));
                }
                What::Group(inner) => self.check_references(inner.iter())?,
                _ => {}
            }
        }
        Ok(())
    }

    fn accepts(&self, text: &str) -> bool {
        let signs: Vec<char> = text.chars().collect();
        self.ends(&self.rules["root"], &signs, 0).contains(&signs.len())
    }

    fn ends(&self, alternatives: &[Vec<Item>], text: &[char], from: usize) -> BTreeSet<usize> {
        let mut ends = BTreeSet::new();
        for sequence in alternatives {
            let mut here = BTreeSet::from([from]);
            for item in sequence {
                let mut seen = if item.least == 0 { here.clone() } else { BTreeSet::new() };
                let mut front = here;
                for round in 1..=item.most {
                    front = front.iter().flat_map(|&at| self.step(&item.what, text, at)).collect();
                    if round >= item.least {
                        let before = seen.len();
                        seen.extend(&front);
                        if seen.len() == before {
                            break;
                        }
                    }
                }
                here = seen;
            }
            ends.extend(here);
        }
        ends
    }

    fn step(&self, what: &What, text: &[char], at: usize) -> BTreeSet<usize> {
        match what {
            What::Literal(literal) if text[at..].starts_with(literal) => {
                [at + literal.len()].into()
            }
            What::Literal(_) => BTreeSet::new(),
            What::Class { not, ranges } => {
                let inside =
                    |c: &char| ranges.iter().any(|(low, high)| (low..=high).contains(&c)) != *not;
                text.get(at).filter(|c| inside(c)).map(|_| at + 1).into_iter().collect()
            }
            What::Rule(name) => self.ends(&self.rules[name], text, at),
            What::Group(inner) => self.ends(inner, text, at),
        }
    }
}

fn read_alternatives(signs: &[char], at: &mut usize) -> Result<Vec<Vec<Item>>, String> {
    let mut all = vec![Vec::new()];
    loop {
        while signs.get(*at) == Some(&' ') {
            *at += 1;
        }
        match signs.get(*at) {
            None | Some(')') => return Ok(all),
            Some('|') => {
                *at += 1;
                all.push(Vec::new());
            }
            Some(_) => {
                let what = read_item(signs, at)?;
                let (least, most) = read_count(signs, at)?;
                all.last_mut().unwrap().push(Item { what, least, most });
            }
        }
    }
}

fn read_item(signs: &[char], at: &mut usize) -> Result<What, String> {
    let first = signs[*at];
    *at += 1;
    match first {
        '"' => {
            let mut literal = Vec::new();
            while signs.get(*at) != Some(&'"') {
                literal.push(read_sign(signs, at)?);
            }
            *at += 1;
            Ok(What::Literal(literal))
        }
        '[' => {
            let not = signs.get(*at) == Some(&'^');
            *at += usize::from(not);
            let mut ranges = Vec::new();
            while signs.get(*at) != Some(&']') {
                let low = read_sign(signs, at)?;
                let is_range = signs.get(*at) == Some(&'-') && signs.get(*at + 1) != Some(&']');
                *at += usize::from(is_range);
                ranges.push((low, if is_range { read_sign(signs, at)? } else { low }));
            }
            *at += 1;
            Ok(What::Class { not, ranges })
        }
        '(' => {
            let inner = read_alternatives(signs, at)?;
            if signs.get(*at) != Some(&')') {
                return Err("group without end".into());
            }
            *at += 1;
            Ok(What::Group(inner))
        }
        c if c.is_ascii_alphanumeric() => {
            *at -= 1;
            let start = *at;
            while signs.get(*at).is_some_and(|c| c.is_ascii_alphanumeric() || *c == '-') {
                *at += 1;
            }
            Ok(What::Rule(signs[start..*at].iter().collect()))
        }
        c => Err(format!("{c} at {at}")),
    }
}

fn read_sign(signs: &[char], at: &mut usize) -> Result<char, String> {
    let sign = *signs.get(*at).ok_or("end inside a literal")?;
    *at += 1;
    if sign != '\\' {
        return Ok(sign);
    }
    let escape = *signs.get(*at).ok_or("end after a backslash")?;
    *at += 1;
    let digits = match escape {
        'n' => return Ok('\n'),
        'r' => return Ok('\r'),
        't' => return Ok('\t'),
        '"' | '\\' | '[' | ']' | '-' => return Ok(escape),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Err(format!("unknown escape {other}")),
    };
    let code: String = signs.get(*at..*at + digits).ok_or("short escape")?.iter().collect();
    *at += digits;
    let code = u32::from_str_radix(&code, 16).map_err(|e| e.to_string())?;
    char::from_u32(code).ok_or("no such character".into())
}

fn read_count(signs: &[char], at: &mut usize) -> Result<(usize, usize), String> {
    let count = match signs.get(*at) {
        Some('?') => (0, 1),
        Some('*') => (0, usize::MAX),
        Some('{') => {
            let end = signs[*at..].iter().position(|c| *c == '}').ok_or("count without end")?;
            let inside: String = signs[*at + 1..*at + end].iter().collect();
            *at += end;
            let number = |s: &str| s.parse().map_err(|_| format!("no number: {s}"));
            match inside.split_once(',') {
                Some((least, most)) => (number(least)?, number(most)?),
                None => (number(&inside)?, number(&inside)?),
            }
        }
        _ => return Ok((1, 1)),
    };
    *at += 1;
    Ok(count)
}

fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.into(), description: String::new(), parameters }
}

fn volume() -> Tool {
    let volume = json!({ "type": "integer", "minimum": 0, "maximum": 100 });
    let properties = json!({ "volume": volume });
    tool(
        "set_volume",
        json!({ "type": "object", "properties": properties, "required": ["volume"] }),
    )
}

fn grammar(tools: &[Tool], choice: &ToolChoice) -> Gbnf {
    Gbnf::read(&for_tools(tools, choice).unwrap()).unwrap()
}

/// Returns true if the grammar accepts a call of `f` with these arguments when `f` has these
/// parameters.
fn takes(parameters: &Value, arguments: &str) -> bool {
    let text = format!(r#"{{"name": "f", "arguments": {arguments}}}"#);
    grammar(&[tool("f", parameters.clone())], &ToolChoice::Required).accepts(&text)
}

#[test]
fn text_or_a_call_but_nothing_between() {
    let auto = grammar(&[volume()], &ToolChoice::Auto);
    assert!(auto.accepts("Hello, 你好! 1 + 1 = 2."));
    assert!(auto.accepts(
        "<tool_call>\n{\"name\": \"set_volume\", \"arguments\": {\"volume\": 40}}\n</tool_call>"
    ));
    assert!(auto.accepts("```json\n{\"name\":\"set_volume\",\"arguments\":{\"volume\":0}}\n```"));
    assert!(auto.accepts(
        "{\n  \"name\": \"set_volume\",\n  \"arguments\": {\n    \"volume\": 100\n  }\n}"
    ));
    for wrong in [
        "",
        "<b>",
        "{}",
        "`ls`",
        "Sure: <tool_call>",
        "{\"name\": \"set_volume\", \"arguments\": {\"volume\": 101}}",
        "{\"name\": \"set_volume\", \"arguments\": {\"volume\": \"40\"}}",
        "{\"name\": \"set_volume\", \"arguments\": {}}",
        "{\"name\": \"reboot\", \"arguments\": {}}",
        "{\"name\": \"set_volume\", \"arguments\": {\"volume\": 40}} and more",
    ] {
        assert!(!auto.accepts(wrong), "{wrong}");
    }
}

#[test]
fn the_choice_decides_between_text_and_calls() {
    let call = |name: &str| format!(r#"{{"name": "{name}", "arguments": {{}}}}"#);
    let empty = || json!({ "type": "object", "properties": {} });
    let tools = [tool("a", empty()), tool("b.c", empty())];
    let cases = [
        (ToolChoice::Auto, true, true, true),
        (ToolChoice::None, true, false, false),
        (ToolChoice::Required, false, true, true),
        (ToolChoice::Named("b.c".into()), false, false, true),
    ];
    for (choice, text, first, second) in cases {
        let grammar = grammar(&tools, &choice);
        let seen = ["Hello", &call("a"), &call("b.c")].map(|text| grammar.accepts(text));
        assert_eq!(seen, [text, first, second], "{choice:?}");
    }
    assert_eq!(for_tools(&[], &ToolChoice::Auto), None);
    assert_eq!(for_tools(&tools, &ToolChoice::Free), None);
    let forbidden = grammar(&[], &ToolChoice::None);
    assert_eq!([forbidden.accepts("Hello"), forbidden.accepts(&call("a"))], [true, false]);
}

#[test]
fn after_a_result_only_text_is_allowed_unless_a_call_is_required() {
    let message = |role| Message { role, content: String::new(), tool_calls: Vec::new() };
    let mut request = Generation {
        messages: vec![message(Role::User)],
        tools: vec![volume()],
        tool_choice: ToolChoice::Auto,
        sampling: Sampling::default(),
        max_tokens: 8,
        stop: Vec::new(),
        gives_way: false,
    };
    let accepted = |request: &Generation| {
        let grammar = Gbnf::read(&for_request(request).unwrap()).unwrap();
        let call = r#"{"name": "set_volume", "arguments": {"volume": 4}}"#;
        ["Yes", call].map(|text| grammar.accepts(text))
    };
    assert_eq!(accepted(&request), [true, true]);
    request.messages.push(message(Role::Tool));
    assert_eq!(accepted(&request), [true, false]);
    request.tool_choice = ToolChoice::Required;
    assert_eq!(accepted(&request), [false, true]);
    request.tool_choice = ToolChoice::Auto;
    request.messages.push(message(Role::User));
    assert_eq!(accepted(&request), [true, true]);
}

#[test]
fn arguments_follow_their_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": { "type": "string" },
            "days": { "type": "integer", "minimum": 1 },
            "unit": { "enum": ["c", "f", 5, null] },
            "loud": { "type": "boolean" },
            "gain": { "type": "number" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "more": { "type": "object", "properties": { "x": { "type": "integer" } } },
        },
        "required": ["city"],
    });
    for right in [
        r#"{"city": "Berlin"}"#,
        r#"{"city": "北京 \"x\" \u00e9\n"}"#,
        r#"{"city": "x", "days": 3}"#,
        r#"{"city":"x","gain":-1.5e3,"loud":true}"#,
        r#"{"city": "x", "tags": [], "unit": "f"}"#,
        r#"{"city": "x", "tags": ["a", "b"], "unit": null}"#,
        r#"{"city": "x", "more": {"any": [1, {"y": null}]}}"#,
    ] {
        assert!(serde_json::from_str::<Value>(right).is_ok(), "{right}");
        assert!(takes(&schema, right), "{right}");
    }
    for wrong in [
        r#"{}"#,
        r#"{"days": 3}"#,
        r#"{"city": 5}"#,
        r#"{"city": "x",}"#,
        r#"{"city": "x", "days": -3}"#,
        r#"{"city": "x", "days": 03}"#,
        r#"{"city": "x", "unit": "k"}"#,
        r#"{"city": "x", "loud": "true"}"#,
        r#"{"city": "x", "tags": [1]}"#,
        r#"{"city": "x", "else": 1}"#,
        "{\"city\": \"line\nbreak\"}",
    ] {
        assert!(!takes(&schema, wrong), "{wrong}");
    }
}

#[test]
fn objects_accept_any_subset_of_optional_properties() {
    let schema = json!({ "type": "object", "properties": {
        "a": { "type": "boolean" }, "b": { "type": "boolean" }, "c": { "type": "boolean" },
    }});
    for right in [
        "{}",
        r#"{"a":true}"#,
        r#"{"b":true}"#,
        r#"{"a":true,"c":false}"#,
        r#"{"b":true,"c":true}"#,
    ] {
        assert!(takes(&schema, right), "{right}");
    }
    for wrong in
        [r#"{,"b":true}"#, r#"{"a":true,}"#, r#"{"a":true "b":true}"#, r#"{"c":true,"a":true}"#]
    {
        assert!(!takes(&schema, wrong), "{wrong}");
    }
}

#[test]
fn unsupported_schemas_accept_any_json() {
    let many: Map<String, Value> = (0..100).map(|n| (format!("p{n}"), json!({}))).collect();
    for schema in [
        json!({}),
        json!({ "properties": "x" }),
        json!({ "type": "object", "properties": { "a": {} }, "required": ["b"] }),
        json!({ "type": "object", "properties": many }),
    ] {
        assert!(takes(&schema, r#"{"b": {"c": [1, "x", null, true, -2.5]}}"#), "{schema}");
        assert!(!takes(&schema, "{\"b\": }"), "{schema}");
    }
    let odd = json!({ "type": "object", "properties": { "a": { "type": ["string", "null"] } } });
    assert!(takes(&odd, r#"{"a": null}"#));
    assert!(takes(&odd, r#"{"a": "x"}"#));
}

#[test]
fn small_ranges_are_spelt_with_shared_prefixes() {
    let text = for_tools(&[volume()], &ToolChoice::Auto).unwrap();
    let range = text.lines().find(|line| line.starts_with("r0 ")).unwrap();
    expect![[r#"r0 ::= ("0" | "1" ("0" ("0")? | [123456789])? | [23456789] ([0123456789])?)"#]]
        .assert_eq(range);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_integers_in_the_range_are_accepted(low in -120i64..120, size in 0i64..300, tried in -500i64..500) {
        let schema = json!({ "type": "object", "required": ["n"], "properties": {
            "n": { "type": "integer", "minimum": low, "maximum": low + size },
        }});
        let inside = (low..=low + size).contains(&tried);
        prop_assert_eq!(takes(&schema, &format!("{{\"n\": {tried}}}")), inside);
    }

    #[test]
    fn no_name_breaks_out_of_its_quotes(
        name in "\\PC{1,12}|[\"\\\\\n\r\t\u{0}\u{7f}]{1,6}",
        property in "\\PC{0,12}|[\"\\\\\n\u{1}|)(*]{1,6}",
        word in any::<String>(),
    ) {
        let properties = json!({ property.clone(): { "enum": [word.clone()] } });
        let mut named = tool(&name, json!({ "type": "object", "properties": properties }));
        named.description = word.clone();
        let text = for_tools(&[named], &ToolChoice::Required).unwrap();
        let grammar = Gbnf::read(&text).map_err(TestCaseError::fail)?;
        let arguments = json!({ property: word });
        let call = format!("{{\"name\": {}, \"arguments\": {arguments}}}", json!(name));
        prop_assert!(grammar.accepts(&call), "{} by\n{}", call, text);
    }

    #[test]
    fn every_schema_gives_a_valid_grammar(schema in any_json()) {
        let text = for_tools(&[tool("f", schema)], &ToolChoice::Auto).unwrap();
        prop_assert!(Gbnf::read(&text).is_ok(), "{}", text);
    }
}

/// Generates JSON that often looks like a schema.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "type",
        "properties",
        "required",
        "enum",
        "items",
        "minimum",
        "maximum",
        "object",
        "integer",
        "string",
        "array",
        "a",
        "\"",
    ]);
    let leaf = prop_oneof![
        word.clone().prop_map(|word| json!(word)),
        any::<i64>().prop_map(|number| json!(number)),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|array| json!(array)),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|pairs| { json!(pairs.into_iter().collect::<BTreeMap<_, _>>()) }),
        ]
    })
}
