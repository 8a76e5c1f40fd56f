//! Tests of the JSON reader: its error messages, and its agreement with `serde_json`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
struct Game {
    name: String,
    #[serde(default)]
    open: bool,
    #[serde(default)]
    players: Vec<Player>,
    most: Option<u8>,
    odds: Option<f64>,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    about: Map<String, Value>,
    place: Option<Box<Game>>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Player {
    name: String,
}

#[derive(Debug, PartialEq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Chess,
    Go,
}

fn game(text: impl AsRef<[u8]>) -> Result<Game, String> {
    read(text.as_ref()).map_err(|error| error.about("the body"))
}

fn refused(text: impl AsRef<[u8]>) -> String {
    game(text).unwrap_err()
}

#[test]
fn every_mistake_is_reported_with_its_field() {
    let long = "x".repeat(50);
    for (text, expected) in [
        ("", "the body is empty, but must be a JSON object"),
        (" \n", "the body is empty, but must be a JSON object"),
        ("[]", "the body must be a JSON object, not an array"),
        (r#"["x"]"#, "the body must be a JSON object, not an array"),
        ("null", "the body must be a JSON object, not null"),
        ("7", "the body must be a JSON object, not a number"),
        (r#""x""#, "the body must be a JSON object, not text"),
        ("{}", "`name` is missing"),
        (r#"{"name":null}"#, "`name` is missing"),
        (r#"{"name":"a","name":"b"}"#, "`name` stands twice"),
        (r#"{"name":"a","n\u0061me":"b"}"#, "`name` stands twice"),
        (r#"{"name":"a","about":{"x":[1,{"y":1,"y":1}]}}"#, "`about.x[1].y` stands twice"),
        (r#"{"name":1}"#, "`name` must be text, not a number"),
        (r#"{"name":["a"]}"#, "`name` must be text, not an array"),
        (r#"{"name":"a","open":1}"#, "`open` must be true or false, not a number"),
        (r#"{"name":"a","players":{}}"#, "`players` must be an array, not an object"),
        (r#"{"name":"a","players":[["b"]]}"#, "`players[0]` must be an object, not an array"),
        (r#"{"name":"a","players":[null]}"#, "`players[0]` must be an object, not null"),
        (
            r#"{"name":"a","players":[{"name":"b"},{"name":"c"},{"name":3}]}"#,
            "`players[2].name` must be text, not a number",
        ),
        (
            r#"{"name":"a","place":{"name":"b","place":[]}}"#,
            "`place.place` must be an object, not an array",
        ),
        (r#"{"name":"a","place":{}}"#, "`place.name` is missing"),
        (r#"{"name":"a","kind":"poker"}"#, "`kind` must be `chess` or `go`, not `poker`"),
        (r#"{"name":"a","kind":{"go":1}}"#, "`kind` must be text, not an object"),
        (r#"{"name":"a","about":[]}"#, "`about` must be an object, not an array"),
        (r#"{"name":"a","most":256}"#, "`most` must be a whole number from 0 to 255, not 256"),
        (r#"{"name":"a","most":-1}"#, "`most` must be a whole number from 0 to 255, not -1"),
        (r#"{"name":"a","most":1.5}"#, "`most` must be a whole number from 0 to 255, not 1.5"),
        (r#"{"name":"a","most":"5"}"#, "`most` must be a whole number from 0 to 255, not text"),
        (r#"{"name":"a","odds":"5"}"#, "`odds` must be a number, not text"),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
    let message = refused(format!(r#"{{"{long}":1,"{long}":1}}"#));
    assert_eq!(message, format!("`{}…` stands twice", &long[..MAX_SHOWN_CHARS]));
    let message = refused(r#"{"a\u0000b":1,"a\u0000b":1}"#);
    assert_eq!(message, "`a\u{fffd}b` stands twice");
    for text in ["{", r#"{"name":"a"} x"#, r#"{"name":"a"}{}"#, "{,}", r#"{"name":"\ud800"}"#] {
        assert!(refused(text).starts_with("the body is not JSON: "), "{text}");
    }
    for bytes in [&b"\xff{}"[..], b"{\"name\":\"\xe4\"}", b"\x1f\x8b\x08\x00", b"\xff\xfe{\0}\0"] {
        assert_eq!(refused(bytes), "the body is no UTF-8 text, or is compressed");
    }
}

#[test]
fn null_is_absent_in_every_struct_and_stays_in_free_form() {
    let text = r#"{"name":"a","open":null,"players":null,"most":null,"odds":null,"kind":null,
        "about":{"x":null},"place":{"name":"b","players":null,"about":null}}"#;
    let game = game(text).unwrap();
    assert_eq!(
        (game.open, &game.players[..], game.most, game.kind),
        (false, &[][..], None, Kind::Chess)
    );
    assert_eq!(Value::Object(game.about), json!({"x": null}));
    assert_eq!(game.place.unwrap().about, Map::new());
}

#[test]
fn an_optional_body_may_be_absent() {
    let of = |text: &str| read_optional::<Player>(text.as_bytes());
    for text in ["", " \r\n", "null", " null "] {
        assert_eq!(of(text), Ok(None), "{text:?}");
    }
    assert_eq!(of(r#"{"name":"a"}"#), Ok(Some(Player { name: "a".into() })));
    assert!(of("[]").is_err() && of("{}").is_err());
}

#[test]
fn a_byte_order_mark_and_whole_floats_are_read() {
    let read = game("\u{feff}{\"name\":\"a\",\"most\":5.0}").unwrap();
    assert_eq!(read.most, Some(5));
    assert_eq!(game(r#"{"name":"a","most":2e2}"#).unwrap().most, Some(200));
    assert!(refused("\u{feff}\u{feff}{}").starts_with("the body is not JSON"));
}

#[test]
fn deep_nesting_is_refused_without_a_deep_stack() {
    let nested = |levels: usize| {
        format!(r#"{{"name":"a","x":{}{}}}"#, "[".repeat(levels - 1), "]".repeat(levels - 1))
    };
    assert!(game(nested(127)).is_ok());
    assert_eq!(refused(nested(128)), "the body is nested deeper than 127 levels");
    assert_eq!(refused("[".repeat(1 << 12)), "the body is nested deeper than 127 levels");
    assert_eq!(refused(r#"{"a":"#.repeat(1 << 12)), "the body is nested deeper than 127 levels");
    // The path in an error message is bounded.
    let deep = format!("{}\"b\":1,\"b\":1{}", r#"{"a":"#.repeat(100) + "{", "}".repeat(101));
    assert_eq!(refused(&deep), "`a.a.a.a.a.a.a.a…` stands twice");
}

#[test]
fn the_type_is_removed_from_a_message() {
    let mut fields = object(br#"{"type":"ping","more":1}"#).unwrap();
    assert_eq!(take_text(&mut fields, "type").unwrap(), "ping");
    assert_eq!(take_text(&mut fields, "type").unwrap_err().to_string(), "`type` is missing");
    let message = take_text(&mut fields, "more").unwrap_err().to_string();
    assert_eq!(message, "`more` must be text, not a number");
}

pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Generates values similar to those of a [`Game`].
fn near() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        any_json(),
        "[a-z]{0,3}".prop_map(Value::from),
        any::<u8>().prop_map(Value::from)
    ];
    const NAMES: &[&str] =
        &["name", "open", "players", "most", "odds", "kind", "about", "place", "other"];
    prop::collection::btree_map(prop::sample::select(NAMES), value, 0..6)
        .prop_map(|fields| fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

proptest! {
    #[test]
    fn any_object_is_parsed_as_serde_json_parses_it(fields in prop::collection::btree_map(".{0,6}", any_json(), 0..6)) {
        let value = Value::Object(fields.into_iter().collect());
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(object(text.as_bytes()).map(Value::Object), serde_json::from_str(&text).map_err(|_| JsonError::new("no")));
            let typed: BTreeMap<String, Value> = read(text.as_bytes()).unwrap();
            prop_assert_eq!(Ok(typed), serde_json::from_str(&text).map_err(|_| ()));
        }
    }

    /// Checks that `serde_json` parses the same from every accepted text, without its nulls. Each
    /// refused text is also refused by `serde_json`, or this reader is stricter on purpose.
    #[test]
    fn a_type_is_parsed_as_serde_json_parses_it(value in near()) {
        let mut bare = value.clone();
        if let Some(fields) = bare.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let theirs = serde_json::from_str::<Game>(&bare.to_string());
        match game(value.to_string()) {
            Ok(game) => if let Ok(theirs) = theirs {
                prop_assert_eq!(game, theirs);
            },
            Err(message) => if theirs.is_ok() {
                prop_assert!(message.contains("an object, not") || message.contains("is missing"), "{}", message);
            },
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), text in "[\\[\\]{}\":,a-c0-9.e\\\\u -]{0,60}") {
        for bytes in [&bytes[..], text.as_bytes()] {
            match read::<Game>(bytes) {
                Ok(_) => prop_assert!(serde_json::from_slice::<Value>(bytes).is_ok_and(|v| v.is_object())),
                Err(error) => prop_assert!(error.to_string().chars().count() < 600),
            }
        }
    }

    #[test]
    fn a_duplicate_name_is_always_found(name in ".{0,6}", value in any_json(), others in prop::collection::btree_map("[a-z]{7}", any_json(), 0..5)) {
        let mut fields: Vec<String> = others.iter().map(|(k, v)| format!("{}:{v}", json!(k))).collect();
        fields.insert(0, format!("{}:{value}", json!(name)));
        fields.push(format!("{}:1", json!(name)));
        let inner = format!("{{{}}}", fields.join(","));
        for text in [inner.clone(), format!("{{\"a\":[1,{inner}]}}")] {
            let error = object(text.as_bytes()).unwrap_err();
            prop_assert_eq!(error.what(), "stands twice");
            prop_assert_eq!(error.path().last(), Some(&Step::Field(name.clone())));
            prop_assert!(error.is_json());
        }
    }
}
