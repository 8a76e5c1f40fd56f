//! Text that a turn has written so far, for outputs that show text. The words of each round are on
//! their own lines. Not for showing the text.

use super::turn::Said;

/// Separator between the words before a call and those after it.
const BETWEEN: &str = "\n";

/// Words of a turn.
#[derive(Debug, Default)]
pub struct Parts {
    /// Words since the last call.
    part: String,
    /// All words so far.
    pub content: String,
    /// Completed parts.
    pub said: Vec<Said>,
}

impl Parts {
    /// Adds words and returns them with the separator that must precede them. Returns `None` if
    /// there is nothing to add.
    pub fn add(&mut self, text: &str) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        let begins = self.part.is_empty() && !self.content.is_empty();
        let piece = if begins { format!("{BETWEEN}{text}") } else { text.to_owned() };
        self.content.push_str(&piece);
        self.part.push_str(text);
        Some(piece)
    }

    /// Completes the current part: calls follow, or the end.
    pub fn end_part(&mut self) {
        let text = std::mem::take(&mut self.part).trim().to_owned();
        if !text.is_empty() {
            self.said.push(Said { text, remembered: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_on_separate_lines() {
        let mut parts = Parts::default();
        assert_eq!(parts.add(""), None);
        let pieces = ["I look", " it up. "].map(|text| parts.add(text));
        parts.end_part();
        parts.end_part();
        let last = parts.add("It is five.");
        parts.end_part();
        assert_eq!(pieces.map(Option::unwrap), ["I look", " it up. "]);
        assert_eq!(last.unwrap(), "\nIt is five.");
        assert_eq!(parts.content, "I look it up. \nIt is five.");
        let said: Vec<&str> = parts.said.iter().map(|said| said.text.as_str()).collect();
        assert_eq!(said, ["I look it up.", "It is five."]);
    }
}
