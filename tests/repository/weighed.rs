//! JSON of peers and external services is weighed before it is parsed: only the files listed here
//! parse JSON without `hearken_proto::json`, each for the reason stated. Not for programs other
//! than the server.

use super::tidy::{complain, product_sources};

/// Folders of the code that receives JSON of peers and services.
const FOLDERS: [&str; 11] = [
    "actors/src",
    "crates/chat/src",
    "crates/dialogue/src",
    "crates/museum/src",
    "crates/outbound/src",
    "crates/providers/src",
    "crates/socket/src",
    "crates/text-gateway/src",
    "crates/tool-sources/src",
    "proto/src",
    "src/http",
];
const PARSERS: [&str; 4] = [
    "serde_json::from_str",
    "serde_json::from_slice",
    "serde_json::from_reader",
    "serde_json::Deserializer",
];
/// Files that parse JSON themselves, and why the parsed values cannot be heavy.
const EXEMPT: [(&str, &str); 25] = [
    ("actors/src/device_tools/link.rs", "values of a frame that was weighed"),
    ("actors/src/device_tools/repair.rs", "weighs the text itself"),
    ("crates/chat/src/turns.rs", "text that this server has stored"),
    ("crates/museum/src/answers.rs", "text that an instance of this server has cached"),
    ("crates/outbound/src/http.rs", "at most 16 KiB, which weigh 2 MiB"),
    ("crates/providers/src/call_log.rs", "checks the syntax without storing values"),
    ("crates/providers/src/llm/markup/bare_json.rs", "at most 8 KiB of text"),
    ("crates/providers/src/llm/markup/heads.rs", "at most 8 KiB of text"),
    ("crates/providers/src/llm/markup/literal.rs", "one word"),
    ("crates/providers/src/llm/markup/objects.rs", "part of at most 64 KiB of text"),
    ("crates/providers/src/llm/markup/written_calls.rs", "part of at most 64 KiB of text"),
    ("crates/text-gateway/src/sessions.rs", "text that this server has stored"),
    ("crates/text-gateway/src/text_output.rs", "text that this server has written"),
    ("crates/tool-sources/src/jsonrpc_repair.rs", "outline, or values that were weighed"),
    ("crates/tool-sources/src/jsonrpc_repair/results.rs", "weighs the text itself"),
    ("crates/tool-sources/src/jsonrpc_repair/text.rs", "weighs the text itself"),
    ("crates/tool-sources/src/litemcp/arguments.rs", "weighs the text itself"),
    ("crates/tool-sources/src/registry.rs", "settings that this server has stored"),
    ("proto/src/chat/event.rs", "an event that this server has written"),
    ("proto/src/device/uplink.rs", "weighs the frame itself"),
    ("proto/src/litemcp.rs", "a text that was weighed"),
    ("proto/src/recording.rs", "a recording of the command line"),
    ("src/http/administration/people.rs", "reads the fields without a tree of values"),
    ("src/http/conversations/history.rs", "text that this server has stored"),
    ("src/http/devices/ota.rs", "reads the fields without a tree of values"),
];
/// The same for folders: the parser that weighs, and the repair of weighed frames.
const EXEMPT_FOLDERS: [&str; 2] = ["proto/src/json/", "proto/src/device/uplink/"];

/// Reports whether the product's part of a file parses JSON itself.
fn parses(text: &str) -> bool {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    PARSERS.iter().any(|parser| product.contains(parser))
}

#[test]
fn json_of_peers_and_services_is_weighed_before_it_is_parsed() {
    let sources = product_sources(&FOLDERS).into_iter();
    let mut found: Vec<String> =
        sources.filter(|(_, text)| parses(text)).map(|(file, _)| file).collect();
    found.retain(|file| !EXEMPT_FOLDERS.iter().any(|folder| file.starts_with(folder)));
    let exempt = |file: &String| EXEMPT.iter().any(|(name, _)| name == file);
    let new = found.iter().filter(|file| !exempt(file));
    let mut faults: Vec<String> = new
        .map(|file| format!("{file}: parse JSON of others with hearken_proto::json::weighed"))
        .collect();
    let gone = EXEMPT.iter().filter(|(name, _)| !found.iter().any(|file| file == name));
    faults.extend(gone.map(|(name, _)| format!("{name}: parses nothing, and needs no exemption")));
    complain(faults);
}
