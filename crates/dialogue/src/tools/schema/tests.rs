//! Tests of schemas: ordinary ones, and the most expensive untrusted ones.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn checked(parameters: &Value, arguments: &Value) -> Result<(), ToolError> {
    Schema::of_server_tool(parameters).check(parameters, arguments.as_object().unwrap())
}

fn refused(schema: &Value) -> String {
    Schema::of_object(schema).err().unwrap_or_else(|| "accepted".into())
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// Returns a schema of `parts` definitions, each of which refers twice to the next.
fn doubling(parts: usize) -> Value {
    let mut definitions = Map::new();
    for n in 0..parts {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    definitions.insert(format!("d{parts}"), json!({"type": "number"}));
    json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
}

#[test]
fn mistakes_are_reported_and_an_invalid_schema_accepts_everything() {
    let number = json!({"properties": {"a": {"type": "number"}}, "required": ["b"]});
    assert_eq!(checked(&number, &json!({"a": 1, "b": null})), Ok(()));
    let told = checked(&number, &json!({"a": "x"})).unwrap_err().to_string();
    assert!(told.contains("/a: \"x\" is not of type \"number\""), "{told}");
    assert!(told.contains("; \"b\" is a required property") || told.contains("property; /a"));
    assert_eq!(checked(&json!({"type": 7}), &json!({"a": 1})), Ok(()));
    let long = checked(&number, &json!({"a": "x".repeat(10_000), "b": 1})).unwrap_err();
    assert!(long.to_string().len() < 400, "a mistake quotes a whole argument");
}

#[test]
fn no_arguments_are_refused_if_a_tool_requires_some_whatever_its_schema() {
    let usable = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let invalid = json!({"type": 7});
    let remote = json!({"type": "object", "properties": {"x": {"$ref": "https://example.com/s"}}});
    for schema in [usable, invalid, remote] {
        let with = |required: Value| {
            let mut schema = schema.clone();
            schema["required"] = required;
            schema
        };
        for (schema, arguments, is_right) in [
            (schema.clone(), json!({}), true),
            (with(json!([])), json!({}), true),
            (with(json!(["text"])), json!({}), false),
            (with(json!(["text"])), json!({"text": "a"}), true),
        ] {
            let outcome = checked(&schema, &arguments);
            assert_eq!(outcome.is_ok(), is_right, "{schema}: {arguments}");
            let told = outcome.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(told.contains("\"text\" is a required property"), !is_right, "{told}");
        }
    }
}

#[test]
fn schemas_in_use_are_accepted() {
    let tree = json!({"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"id": {"type": "string", "pattern": "^[a-z]{1,64}$"},
            "when": {"type": "string", "format": "date-time"},
            "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["id"], "additionalProperties": false});
    assert_eq!(refused(&tree), "accepted");
    let nested = json!({"id": "a", "children": [{"id": "b", "children": []}]});
    assert_eq!(checked(&tree, &nested), Ok(()));
    assert!(checked(&tree, &json!({"id": "a", "children": [{"id": 1}]})).is_err());
    // A property may have the name of a keyword.
    let names = json!({"id": {"type": "string"}, "$id": {"type": "string"},
        "pattern": {"type": "string"}, "$ref": {"type": "string"}});
    assert_eq!(refused(&object(&names)), "accepted");
}

#[test]
fn each_exceeded_limit_is_reported() {
    let deep = (0..60).fold(json!({}), |inner, _| json!({"items": inner}));
    let many: Map<String, Value> = (0..5_000).map(|n| (format!("p{n}"), json!(true))).collect();
    let patterns: Vec<_> = (0..17).map(|n| json!({"pattern": format!("a{n}")})).collect();
    for (schema, part) in [
        (object(&json!({"x": deep})), "has more than 48 levels"),
        (object(&json!(many)), "has more than 4096 values"),
        (object(&json!({"x": {"description": "x".repeat(70_000)}})), "is longer than 65536 bytes"),
        (object(&json!({"x": {"anyOf": patterns}})), "has more than 16 patterns"),
        (object(&json!({"x": {"pattern": "x".repeat(513)}})), "pattern is longer than 512 bytes"),
        (object(&json!({"x": {"$ref": "https://example.com/s"}})), "`$ref` must be `#` or begin"),
        (object(&json!({"x": {"$ref": "#/%70roperties/x"}})), "`$ref` must be `#` or begin"),
        (object(&json!({"x": {"$id": "other"}})), "`$id` is not supported here"),
    ] {
        let told = refused(&schema);
        assert!(told.starts_with("`parameters` is too complex: "), "{told}");
        assert!(told.contains(part), "{told}");
        // As the schema of a tool's own server, it accepts everything.
        assert_eq!(checked(&schema, &json!({"x": 1})), Ok(()));
    }
}

#[test]
fn a_pattern_that_compiles_to_gigabytes_is_refused() {
    for pattern in ["(?:a{1,1000}){1,1000}", "\\p{L}{2000}", "((\\w{100}){100}){100}"] {
        let told = refused(&object(&json!({"x": {"pattern": pattern}})));
        assert!(told.starts_with("`parameters` is not a JSON Schema: "), "{pattern}: {told}");
    }
    let backtracking = object(&json!({"x": {"pattern": "^(?=(a+)+b)(a|aa)+$"}}));
    let _mistakes = checked(&backtracking, &json!({"x": "a".repeat(10_000)}));
}

#[test]
fn references_that_double_the_work_are_refused_before_a_check() {
    assert_eq!(checked(&doubling(8), &json!({"x": 1})), Ok(()));
    assert!(checked(&doubling(8), &json!({"x": "1"})).is_err());
    for parts in [16, 29, 40, 90] {
        let told = checked(&doubling(parts), &json!({"x": 1})).unwrap_err().to_string();
        assert!(told.contains("they take too long to check"), "{told}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_is_refused() {
    let circles = [
        json!({"type": "object", "$ref": "#"}),
        json!({"type": "object", "allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"type": "object", "$ref": "#/$defs/a",
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    ];
    for circle in circles {
        assert_ne!(refused(&circle), "accepted", "{circle}");
    }
    let later = object(&json!({"x": {"$ref": "#/properties/x"}}));
    assert!(checked(&later, &json!({"x": 1})).is_err());
}

#[tokio::test]
async fn work_of_different_addresses_is_serialised() {
    let (begun, wait_for) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel();
    let first = tokio::spawn(off_worker("a", move |_| {
        begun.send(()).unwrap();
        ended.recv().unwrap();
    }));
    tokio::task::spawn_blocking(move || wait_for.recv().unwrap()).await.unwrap();
    tokio::time::pause();
    let waited = tokio::time::advance(MAX_WAIT + Duration::from_millis(1));
    let (refused, ()) = tokio::join!(off_worker("b", |_| ()), waited);
    assert_eq!(refused, Err(Busy));
    tokio::time::resume();
    end.send(()).unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(off_worker("a", |_| 7).await, Ok(7));
}

/// Generates any JSON value with the words of a schema.
fn schema_like() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "#",
        "#/x",
        "#/allOf/0",
        "object",
        "string",
        "a+",
        "(a+)+$",
        "a{100}",
        "date",
        "x",
    ]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-5..200_i64).prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "$ref",
        "allOf",
        "anyOf",
        "not",
        "pattern",
        "x",
        "$defs",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "uniqueItems",
        "minLength",
        "enum",
        "contains",
        "if",
        "then",
        "prefixItems",
        "dependentSchemas",
        "const",
        "propertyNames",
        "required",
        "format",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_and_any_arguments_end_soon(schema in schema_like(), arguments in schema_like()) {
        let mut schema = schema;
        if let Some(fields) = schema.as_object_mut() {
            fields.insert("type".into(), "object".into());
        }
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let began = Instant::now();
        let _mistakes = Schema::of_server_tool(&schema).check(&schema, &arguments);
        let _mistakes = Schema::of_object(&schema).map(|checks| checks.check(&schema, &arguments));
        // Far more than a busy machine takes; without limits, it would be hours.
        prop_assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
