//! What a turn has written so far, for faces that show text: the words of each round on a line of
//! its own. Not for where it shows.

use super::turn::Said;

/// What stands between the words before a call and those after it.
const BETWEEN: &str = "\n";

/// The words of a turn.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Since the last call.
    part: String,
    /// All words so far.
    pub(crate) content: String,
    /// Each part, once it is complete.
    pub(crate) said: Vec<Said>,
}

impl Parts {
    /// Adds some more words, and gives them as they stand behind those before them; none where
    /// there are none.
    pub(crate) fn add(&mut self, text: &str) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        let begins = self.part.is_empty() && !self.content.is_empty();
        let piece = if begins { format!("{BETWEEN}{text}") } else { text.to_owned() };
        self.content.push_str(&piece);
        self.part.push_str(text);
        Some(piece)
    }

    /// The words so far are complete: calls follow, or nothing more.
    pub(crate) fn end_part(&mut self) {
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
    fn parts_stand_on_lines_of_their_own() {
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
