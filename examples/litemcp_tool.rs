//! A LiteMCP tool as a program: the server starts it, requests its description, and calls it over
//! standard input and output. A message is `{version, id, type, data}` as JSON, terminated by three
//! line feeds; arguments are strings in the order of the parameters.
//!
//! ```sh
//! cargo build --example litemcp_tool
//! hearken tools add reverse --protocol litemcp -- "$PWD/target/debug/examples/litemcp_tool"
//! ```
//!
//! (requires `tools.allow_commands_over_api`), or in `config.toml`:
//!
//! ```toml
//! [[tools.servers]]
//! name = "reverse"
//! protocol = "litemcp"
//! command = "target/debug/examples/litemcp_tool"
//! ```

use std::error::Error;
use std::io::{self, BufRead as _, Write as _};

use serde_json::{Value, json};

/// Terminator of a message.
const END: &str = "\n\n\n";
/// Version of the protocol.
const VERSION: [u32; 3] = [1, 0, 0];

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    let mut input = io::stdin().lock();
    while input.read_line(&mut text)? > 0 {
        if !text.ends_with(END) {
            continue;
        }
        let asked = serde_json::from_str::<Value>(&text);
        text.clear();
        // Invalid messages, and messages that are no request to a tool, get no answer.
        let Some(answer) = asked.ok().as_ref().and_then(answer) else { continue };
        let mut output = io::stdout().lock();
        write!(output, "{answer}{END}")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(asked: &Value) -> Option<Value> {
    let id = asked.get("id")?;
    let (kind, content) = match asked["type"].as_str()? {
        "get" => ("info", tool()),
        "call" => ("result", result(&asked["data"])),
        _ => return None,
    };
    Some(json!({"version": VERSION, "id": id, "type": kind, "data": content}))
}

fn tool() -> Value {
    json!({
        "version": VERSION,
        "name": "reverse",
        "description": "Spells a text backwards.",
        "parameters": [{"name": "text", "type": "string", "description": "The text"}],
    })
}

fn result(call: &Value) -> Value {
    let text = call["arguments"][0].as_str();
    let (answer, failed) = match text {
        Some(text) => (text.chars().rev().collect(), false),
        None => ("a text is missing".to_owned(), true),
    };
    json!({
        "version": VERSION,
        "params": {"text": text.unwrap_or_default()},
        "response": {"content": [{"type": "text", "data": answer}], "error": failed},
    })
}
