//! The LiteMCP protocol as files: `fixtures/wire/litemcp/read` contains messages of peers, the
//! document's own examples first, each with its parsed form; `write` contains Hearken's messages.
//! Not for their processing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hearken_proto::litemcp::{
    Body, CallResult, Content, Envelope, Parameter, Response, Tool, ToolCall,
};
use serde_json::Value;

use super::{complete, fixtures, golden};

/// Examples of the document, which are encoded as they are parsed.
const EXAMPLES: [&str; 4] = ["get", "info", "call", "result"];

fn folder(direction: &str) -> PathBuf {
    fixtures("litemcp").join(direction)
}

/// Returns the names and texts of a folder's messages.
fn messages(direction: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder(direction)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut all: Vec<(String, String)> = paths
        .filter(|path| path.extension().is_some_and(|x| x == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

fn name_of(body: &Body) -> &'static str {
    match body {
        Body::Get => "get",
        Body::Info(_) => "info",
        Body::Call(_) => "call",
        Body::Result(_) => "result",
    }
}

fn shown(text: &str) -> String {
    let envelope = match Envelope::decode(text) {
        Ok(envelope) => envelope,
        Err(error) => return format!("no message: {error}\n"),
    };
    let ours = if envelope.version.is_ours() { "" } else { " (not ours)" };
    let head = format!("version {}{ours}, id {}, {}", envelope.version, envelope.id, envelope.kind);
    match envelope.body() {
        Ok(body) => format!("{head}: {body:#?}\n"),
        Err(error) => format!("{head}, unreadable: {error}\n"),
    }
}

#[test]
fn litemcp_messages_parse_as_their_goldens_say() {
    let mut seen = BTreeSet::new();
    for (name, text) in messages("read") {
        golden(&folder("read").join(format!("{name}.txt")), shown(&text).as_bytes());
        if let Ok(body) = Envelope::decode(&text).and_then(Envelope::body) {
            seen.insert(name_of(&body));
        }
    }
    complete(&EXAMPLES, &seen);
}

#[test]
fn examples_of_the_document_round_trip_unchanged() {
    for (name, text) in messages("read") {
        if EXAMPLES.contains(&name.as_str()) {
            let envelope = Envelope::decode(&text).unwrap();
            let id = envelope.id;
            let written: Value =
                serde_json::from_str(&envelope.body().unwrap().encode(id)).unwrap();
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(written, read, "{name}");
        }
    }
}

fn written() -> Vec<(&'static str, Body)> {
    let filled = |text: &str| Some(text.to_owned());
    let parameter = |name: &str, kind: &str| Parameter {
        name: name.into(),
        kind: kind.into(),
        description: filled("A city"),
        example: None,
    };
    let tool = Tool {
        name: "get_weather".into(),
        description: filled("Tells the weather"),
        parameters: vec![parameter("city", "string"), parameter("days", "integer")],
        ..Tool::default()
    };
    let arguments = vec!["北京 \"海淀\"\n".to_owned(), "3".into()];
    let call = ToolCall { tool: tool.name.clone(), arguments, ..ToolCall::default() };
    let result = |kind: &str, data: &str, error| CallResult {
        params: [("city".to_owned(), "北京".to_owned())].into(),
        response: Response {
            content: vec![Content { kind: kind.into(), data: data.into() }],
            error,
        },
        ..CallResult::default()
    };
    let why = "the arguments are wrong: there are 3, and the tool takes 2";
    vec![
        ("get", Body::Get),
        ("info", Body::Info(tool)),
        ("info_bare", Body::Info(Tool { name: "dance".into(), ..Tool::default() })),
        ("call", Body::Call(call)),
        ("result", Body::Result(result("text", "22 °C", false))),
        ("result_picture", Body::Result(result("image/png", "iVBORw==", false))),
        ("result_failed", Body::Result(result("text", why, true))),
    ]
}

#[test]
fn litemcp_messages_encode_as_their_goldens_say() {
    let mut seen = BTreeSet::new();
    for (name, body) in written() {
        seen.insert(name_of(&body));
        let text = body.encode(1_804_289_383) + "\n";
        golden(&folder("write").join(format!("{name}.json")), text.as_bytes());
    }
    complete(&EXAMPLES, &seen);
    let names: Vec<String> = messages("write").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), written().len(), "a golden without a message: {names:?}");
}

#[test]
fn the_readme_names_every_golden_of_litemcp() {
    let description = include_str!("../../README.md");
    for direction in ["read", "write"] {
        for (name, _) in messages(direction) {
            let named = format!("`{direction}/{name}`");
            assert!(description.contains(&named), "{named} is not in the README");
        }
    }
}
