//! Token count of a prompt, and removal of older exchanges above the budget. Not for the content of
//! messages.

use hearken_ports::{ChatMessage, OfferedTool, Prompt, Role};
use serde_json::json;

/// Tokens of a message in addition to its text (OpenAI's own estimate: 3 per message, 1 for its
/// role).
const EACH_MESSAGE: usize = 4;

/// Returns the number of tokens of a text in OpenAI's `o200k_base` encoding of newer models. Other
/// models count differently, especially Chinese. Allow for that when setting the budget.
pub(super) fn tokens(text: &str) -> usize {
    bpe_openai::o200k_base().count(text)
}

fn of_message(message: &ChatMessage) -> usize {
    let calls = message.calls.iter().map(|c| tokens(&c.name) + tokens(&c.arguments));
    EACH_MESSAGE + tokens(&message.content) + calls.sum::<usize>()
}

fn of_tool(tool: &OfferedTool) -> usize {
    let shown = json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters
    });
    EACH_MESSAGE + tokens(&shown.to_string())
}

/// Returns the number of tokens of a whole prompt.
fn of_prompt(prompt: &Prompt) -> usize {
    let messages: usize = prompt.messages.iter().map(of_message).sum();
    messages + prompt.tools.iter().map(of_tool).sum::<usize>()
}

/// Removes the oldest exchanges until the prompt fits or only the last exchange remains. An
/// exchange is a person's words with all answers to them. The system message stays. Returns the
/// number of remaining tokens.
pub(super) fn fit(prompt: &mut Prompt, budget: usize) -> usize {
    let mut left = of_prompt(prompt);
    let is_user = |m: &ChatMessage| m.role == Role::User;
    while left > budget {
        let begin = prompt.messages.iter().position(is_user);
        let Some(begin) = begin else { break };
        let next = prompt.messages[begin + 1..].iter().position(is_user);
        // The last exchange is the one to be answered.
        let Some(next) = next else { break };
        let gone = prompt.messages.drain(begin..=begin + next);
        left -= gone.map(|m| of_message(&m)).sum::<usize>();
    }
    left
}

/// Drops the messages before the first question. For messages that were read from the middle of a
/// dialogue.
pub(super) fn whole_exchanges(mut messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let first = messages.iter().position(|m| m.role == Role::User).unwrap_or(messages.len());
    messages.drain(..first);
    messages
}

#[cfg(test)]
mod tests {
    use hearken_ports::ToolRequest;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_match_the_real_tokenizer() {
        assert_eq!((tokens("hello world"), tokens("")), (2, 0));
        let chinese = "我要攻击那个哥布林";
        assert!((2..chinese.chars().count()).contains(&tokens(chinese)), "{}", tokens(chinese));
    }

    fn prompt(exchanges: &[(usize, usize)]) -> Prompt {
        let mut messages = vec![ChatMessage::new(Role::System, "be kind")];
        for (n, (rounds, words)) in exchanges.iter().enumerate() {
            messages.push(ChatMessage::new(Role::User, "word ".repeat(*words)));
            for round in 0..*rounds {
                let id = format!("{n}-{round}");
                let name = "roll".into();
                let arguments = "{}".into();
                let call =
                    ToolRequest { id: id.clone(), name, arguments, ..ToolRequest::default() };
                messages.push(ChatMessage::calling("", vec![call]));
                messages.push(ChatMessage::result(id, "17"));
            }
            messages.push(ChatMessage::new(Role::Assistant, "done"));
        }
        Prompt { messages, ..Prompt::default() }
    }

    #[test]
    fn the_oldest_exchanges_are_removed_first_and_the_last_stays() {
        let mut p = prompt(&[(1, 100), (0, 100), (2, 100)]);
        fit(&mut p, 330);
        assert_eq!(p.messages.iter().filter(|m| m.role == Role::User).count(), 2);
        assert_eq!(p.messages[0].role, Role::System);
        fit(&mut p, 1);
        assert_eq!(p.messages.len(), 1 + 1 + 4 + 1, "the exchange to be answered stays whole");
    }

    proptest! {
        #[test]
        fn calls_and_results_are_never_separated(
            exchanges in proptest::collection::vec((0_usize..4, 1_usize..60), 1..8),
            budget in 0_usize..600,
        ) {
            let mut p = prompt(&exchanges);
            let before = p.messages.clone();
            prop_assert_eq!(fit(&mut p, budget), of_prompt(&p));
            prop_assert!(before.ends_with(&p.messages[1..]), "removed only from the front");
            prop_assert!(p.messages[1].role == Role::User);
            prop_assert!(of_prompt(&p) <= budget || p.messages.iter().filter(|m| m.role == Role::User).count() == 1);
        }
    }
}
