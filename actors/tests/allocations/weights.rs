//! Limits in bytes, compared with the memory that is actually used: the limits apply to an
//! estimate, and a peer chooses the data that is estimated. Not for refusals.

use allocation_counter::measure;
use hearken_dialogue::tools::schema::Schema;
use hearken_ports::{ChatMessage, Role, ToolRequest};
use hearken_proto::json::weight;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns the created value, and the bytes that it retains.
fn kept<T>(make: impl FnOnce() -> T) -> (T, u64) {
    let mut made = None;
    let mut make = Some(make);
    let spent = measure(|| made = make.take().map(|make| make()));
    (made.unwrap(), u64::try_from(spent.bytes_current).unwrap())
}

/// A JSON value as an attacker would write it: numbers of any length, many small values.
fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        "[1-9][0-9]{0,200}".prop_map(|digits| serde_json::from_str(&digits).unwrap()),
    ];
    let text = prop_oneof!["[a-z]{0,8}", "\\PC{0,100}"].prop_map(Value::from);
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, text];
    leaf.prop_recursive(6, 512, 40, |inner| {
        let fields = vec(("[a-z]{0,12}", inner.clone()), 0..40);
        prop_oneof![
            vec(inner, 0..40).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A regular expression that is large when compiled, or refused for that.
fn pattern() -> impl Strategy<Value = String> {
    let class = prop::sample::select(vec![
        r"\w",
        r"\p{L}",
        r"[^a]",
        r"\d",
        "(a|bc|\u{e9})",
        r"(?:\p{Greek}|\s)",
        r"(?=\w)x",
        ".",
    ]);
    let part = (class, 1..24_u32, prop::bool::ANY).prop_map(|(class, times, most)| match most {
        true => format!("{class}{{0,{times}}}"),
        false => format!("{class}{{{times}}}"),
    });
    vec(part, 1..4).prop_map(|parts| parts.concat())
}

/// A schema that exhausts all limits, or nearly.
fn large_schema() -> impl Strategy<Value = Value> {
    (vec(pattern(), 0..=16), 0..700_usize, 0..40_usize, 0..300_usize).prop_map(
        |(patterns, values, depth, references)| {
            let mut properties: serde_json::Map<String, Value> = (0..references)
                .map(|n| (format!("r{n}"), json!({"$ref": "#/properties/values"})))
                .collect();
            for (n, pattern) in patterns.into_iter().enumerate() {
                properties.insert(format!("p{n}"), json!({"pattern": pattern}));
            }
            let values: Vec<_> = (0..values).collect();
            properties.insert("values".to_owned(), json!({"enum": values}));
            let nested =
                (0..depth).fold(json!({"type": "string"}), |inner, _| json!({"items": inner}));
            properties.insert("nested".to_owned(), nested);
            json!({"type": "object", "properties": properties})
        },
    )
}

/// Maximum memory while a schema within the limits is compiled, in bytes.
const MOST_COMPILING: u64 = 4 << 20;
const MOST_COMPILED: u64 = 4 << 20;

proptest! {
    #[test]
    fn a_value_takes_at_most_what_it_weighs(value in value()) {
        let text = value.to_string();
        let (value, bytes) = kept(|| serde_json::from_str::<Value>(&text).unwrap());
        let taken = size_of::<Value>() + usize::try_from(bytes).unwrap();
        prop_assert!(taken <= weight(&value), "{taken} bytes, weighs {}: {text}", weight(&value));
    }

    #[test]
    fn a_message_takes_at_most_its_estimated_size(
        content in "\\PC{0,300}",
        calls in vec(("[a-z0-9-]{0,40}", "[a-z_]{0,64}", "\\PC{0,300}"), 0..20),
    ) {
        let mut message = ChatMessage::new(Role::Assistant, content);
        let call = |(id, name, arguments)| ToolRequest { id, name, arguments, ..ToolRequest::default() };
        message.calls = calls.into_iter().map(call).collect();
        let (message, bytes) = kept(|| message.clone());
        let taken = size_of::<ChatMessage>() + usize::try_from(bytes).unwrap();
        prop_assert!(taken <= message.size_bytes(), "{taken} bytes, {}", message.size_bytes());
    }

    #[test]
    fn a_schema_within_the_limits_is_compiled_in_bounded_memory(schema in large_schema()) {
        let mut compiled = None;
        let spent = measure(|| compiled = Some(Schema::of_object(&schema)));
        prop_assert!(spent.bytes_max <= MOST_COMPILING, "{} bytes: {schema}", spent.bytes_max);
        let kept = u64::try_from(spent.bytes_current).unwrap();
        prop_assert!(kept <= MOST_COMPILED, "{kept} bytes: {schema}");
    }
}
