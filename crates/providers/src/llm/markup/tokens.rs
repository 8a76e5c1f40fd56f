//! Special tokens that models write as text, and that servers do not remove. Not for elements, and
//! not for the headers of gpt-oss.

use super::mark::{Found, Mark, begins, thinks};

/// Maximum length of a token's name, in bytes.
const LONGEST_NAME: usize = 64;

/// Tokens with a meaning, and those without bars. Full-width letters count as plain ones.
const KNOWN: &[(&str, Mark)] = &[
    // Magistral.
    ("[THINK]", Mark::Think),
    ("[/THINK]", Mark::Thought),
    ("[THOUGHT]", Mark::Think),
    ("[/THOUGHT]", Mark::Thought),
    // Kimi.
    ("◁think▷", Mark::Think),
    ("◁/think▷", Mark::Thought),
    ("<|tool_calls_section_begin|>", Mark::Call("<|tool_calls_section_end|>")),
    ("<|tool_call_begin|>", Mark::Call("<|tool_call_end|>")),
    // Command.
    ("<|START_THINKING|>", Mark::Think),
    ("<|END_THINKING|>", Mark::Thought),
    ("<|START_ACTION|>", Mark::Call("<|END_ACTION|>")),
    ("<|START_TOOL_RESULT|>", Mark::Drop("<|END_TOOL_RESULT|>")),
    // OpenThinker, Sky-T1.
    ("<|begin_of_thought|>", Mark::Think),
    ("<|end_of_thought|>", Mark::Thought),
    ("<|begin_of_solution|>", Mark::Answer),
    // GLM: results of tools.
    ("<|observation|>", Mark::Drop("<|assistant|>")),
    // Apertus, and others with the same names.
    ("<|inner_prefix|>", Mark::Think),
    ("<|inner_suffix|>", Mark::Thought),
    ("<|tools_prefix|>", Mark::Call("<|tools_suffix|>")),
    // Gemma.
    ("<unused94>", Mark::Think),
    ("<unused95>", Mark::Thought),
    ("<|channel>", Mark::Think),
    ("<channel|>", Mark::Thought),
    ("<|tool_call>", Mark::Call("<tool_call|>")),
    ("<tool_call|>", Mark::Silent),
    ("<|tool_response>", Mark::Drop("<tool_response|>")),
    ("<start_function_call>", Mark::Call("<end_function_call>")),
    ("<end_of_turn>", Mark::Silent),
    ("<turn|>", Mark::Silent),
    // gpt-oss, around its channels.
    ("<|end|>", Mark::End),
    // LFM.
    ("<|tool_call_start|>", Mark::Call("<|tool_call_end|>")),
    // InternLM.
    ("<|action_start|>", Mark::Call("<|action_end|>")),
    // Phi, Granite.
    ("<|tool_call|>", Mark::Call("<|/tool_call|>")),
    ("<|tool_response|>", Mark::Drop("<|/tool_response|>")),
    // Mistral.
    ("[TOOL_CALLS]", Mark::Call("")),
    ("[TOOL_RESULTS]", Mark::Drop("[/TOOL_RESULTS]")),
    ("[INST]", Mark::Drop("[/INST]")),
    ("[/INST]", Mark::Silent),
    // Llama.
    ("<|python_tag|>", Mark::Call("<|eom_id|>")),
    ("<|python_start|>", Mark::Call("<|python_end|>")),
    // DeepSeek. An `invoke` may appear alone; its name belongs to the call.
    ("<|DSML|function_calls>", Mark::Call("</|DSML|function_calls>")),
    ("<|DSML|tool_calls>", Mark::Call("</|DSML|tool_calls>")),
    ("<|DSML|invoke name=", Mark::Call("</|DSML|invoke>")),
    ("<|tool▁calls▁begin|>", Mark::Call("<|tool▁calls▁end|>")),
    ("<|tool▁call▁begin|>", Mark::Call("<|tool▁call▁end|>")),
    ("<|tool▁outputs▁begin|>", Mark::Drop("<|tool▁outputs▁end|>")),
    ("<|tool▁output▁begin|>", Mark::Drop("<|tool▁output▁end|>")),
    // Ends and beginnings of messages without bars.
    ("<bos>", Mark::Silent),
    ("<eos>", Mark::Silent),
    ("<eot>", Mark::Silent),
    ("<EOT>", Mark::Silent),
    ("<pad>", Mark::Silent),
    ("<unk>", Mark::Silent),
    ("</s>", Mark::Silent),
    ("<seed:bos>", Mark::Silent),
    ("<seed:eos>", Mark::Silent),
    ("[BOS]", Mark::Silent),
    ("[EOS]", Mark::Silent),
    ("[e~[", Mark::Silent),
    // Exaone.
    ("[|endofturn|]", Mark::Silent),
    ("[|assistant|]", Mark::Silent),
    ("[|user|]", Mark::Silent),
    ("[|system|]", Mark::Silent),
];

/// Tokens before the role of a message.
const STARTS: [&str; 6] = [
    "<|im_start|>",
    "<|start|>",
    "<|start_header_id|>",
    "<|start_of_role|>",
    "<|turn>",
    "<start_of_turn>",
];
const ROLES: [&str; 7] =
    ["assistant", "model", "user", "system", "developer", "tool", "observation"];

/// Returns the token with a meaning at the beginning of the text.
pub(super) fn known(text: &str) -> Found {
    let mut more = false;
    for (token, mark) in KNOWN {
        match begins(text, token) {
            Found::Yes(_, len) => return Found::Yes(*mark, len),
            Found::More => more = true,
            Found::No => {}
        }
    }
    if more { Found::More } else { Found::No }
}

/// Returns any other token at the beginning of the text. `end`: there is no more text.
pub(super) fn any(text: &str, end: bool) -> Found {
    let mut more = false;
    for start in STARTS {
        match begins(text, start) {
            Found::Yes(_, len) => return with_role(text, len, end),
            Found::More => more = true,
            Found::No => {}
        }
    }
    match barred(text, end) {
        Found::No if more && !end => Found::More,
        found => found,
    }
}

/// Returns the token of this length at the beginning of the text, with the role after it. A word
/// that continues as a sentence is not a role.
fn with_role(text: &str, len: usize, end: bool) -> Found {
    let rest = &text[len..];
    for role in ROLES {
        match begins(rest, role) {
            Found::More if !end => return Found::More,
            Found::Yes(_, role_len) => match rest[role_len..].chars().next() {
                None if !end => return Found::More,
                None | Some('\n' | '\r' | '<' | '＜') => {
                    return Found::Yes(Mark::Silent, len + role_len);
                }
                Some(_) => {}
            },
            _ => {}
        }
    }
    Found::Yes(Mark::Silent, len)
}

/// Reads `<|name|>`, also if the end of the text truncates it.
fn barred(text: &str, end: bool) -> Found {
    let open = match begins(text, "<|") {
        Found::Yes(_, open) => open,
        Found::More if !end => return Found::More,
        _ => return Found::No,
    };
    let rest = &text[open..];
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-▁./:".contains(c);
    let behind = rest.trim_start_matches(is_name);
    let name = &rest[..rest.len() - behind.len()];
    if name.len() > LONGEST_NAME || (name.is_empty() && !behind.is_empty()) {
        return Found::No;
    }
    match begins(behind, "|>") {
        Found::Yes(..) if name.is_empty() => Found::No,
        Found::Yes(_, close) => {
            let name = name.to_ascii_lowercase();
            let mark = match name.strip_prefix('/') {
                Some(name) if thinks(name) => Mark::Thought,
                None if thinks(&name) => Mark::Think,
                _ => Mark::Silent,
            };
            Found::Yes(mark, open + name.len() + close)
        }
        Found::More if !end => Found::More,
        Found::More if !name.is_empty() => Found::Yes(Mark::Silent, text.len()),
        _ => Found::No,
    }
}
