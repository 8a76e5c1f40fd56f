//! How many tokens a prompt has, and which of the older exchanges must be left out. Not for what
//! is said.

use serde_json::json;

use crate::ports::{ChatMessage, OfferedTool, Prompt, Role};

/// Tokens of a message beside its text (OpenAI's own reckoning: 3 a message, 1 for its role).
const EACH_MESSAGE: usize = 4;

/// Tokens of a text, as OpenAI's newer models count them (`o200k_base`). Other models count
/// differently, Chinese most of all; the budget is to be set with that in mind.
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

/// Tokens of a whole prompt.
fn of_prompt(prompt: &Prompt) -> usize {
    let messages: usize = prompt.messages.iter().map(of_message).sum();
    messages + prompt.tools.iter().map(of_tool).sum::<usize>()
}

/// Leaves out the oldest exchanges, each a person's words with everything that answered them,
/// until the prompt fits or only the last is left. The system's message stays. Tells how many
/// tokens are left.
pub(super) fn fit(prompt: &mut Prompt, budget: usize) -> usize {
    let mut left = of_prompt(prompt);
    let is_user = |m: &ChatMessage| m.role == Role::User;
    while left > budget {
        let begin = prompt.messages.iter().position(is_user);
        let Some(begin) = begin else { break };
        let next = prompt.messages[begin + 1..].iter().position(is_user);
        // The last exchange is what is answered now.
        let Some(next) = next else { break };
        let gone = prompt.messages.drain(begin..=begin + next);
        left -= gone.map(|m| of_message(&m)).sum::<usize>();
    }
    left
}

/// Of messages that were read from the middle of a dialogue, those from the first question on.
pub(super) fn whole_exchanges(mut messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let first = messages.iter().position(|m| m.role == Role::User).unwrap_or(messages.len());
    messages.drain(..first);
    messages
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ports::ToolRequest;

    #[test]
    fn tokens_are_those_of_the_real_tokenizer() {
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
                let (name, arguments) = ("roll".into(), "{}".into());
                let call = ToolRequest { id: id.clone(), name, arguments };
                messages.push(ChatMessage::calling("", vec![call]));
                messages.push(ChatMessage::result(id, "17"));
            }
            messages.push(ChatMessage::new(Role::Assistant, "done"));
        }
        Prompt { messages, ..Prompt::default() }
    }

    #[test]
    fn the_oldest_exchanges_go_first_and_the_last_stays() {
        let mut p = prompt(&[(1, 100), (0, 100), (2, 100)]);
        fit(&mut p, 330);
        assert_eq!(p.messages.iter().filter(|m| m.role == Role::User).count(), 2);
        assert_eq!(p.messages[0].role, Role::System);
        fit(&mut p, 1);
        assert_eq!(p.messages.len(), 1 + 1 + 4 + 1, "what is answered now stays whole");
    }

    proptest! {
        #[test]
        fn calls_and_results_are_never_parted(
            exchanges in proptest::collection::vec((0_usize..4, 1_usize..60), 1..8),
            budget in 0_usize..600,
        ) {
            let mut p = prompt(&exchanges);
            let before = p.messages.clone();
            prop_assert_eq!(fit(&mut p, budget), of_prompt(&p));
            prop_assert!(before.ends_with(&p.messages[1..]), "only from the front");
            prop_assert!(p.messages[1].role == Role::User);
            prop_assert!(of_prompt(&p) <= budget || p.messages.iter().filter(|m| m.role == Role::User).count() == 1);
        }
    }
}
