//! The 21 emotions that firmware can show as faces, with their names on the wire and their emoji.
//! Not for deciding which one to show.

use utoipa::ToSchema;

/// Emotion. Names and emoji are those of the firmware's emoji collection (78/xiaozhi-esp32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, ToSchema)]
#[schema(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Emotion {
    #[default]
    Neutral,
    Happy,
    Laughing,
    Funny,
    Sad,
    Angry,
    Crying,
    Loving,
    Embarrassed,
    Surprised,
    Shocked,
    Thinking,
    Winking,
    Cool,
    Relaxed,
    Delicious,
    Kissy,
    Confident,
    Sleepy,
    Silly,
    Confused,
}

const TABLE: [(Emotion, &str, &str); 21] = [
    (Emotion::Neutral, "neutral", "😶"),
    (Emotion::Happy, "happy", "🙂"),
    (Emotion::Laughing, "laughing", "😆"),
    (Emotion::Funny, "funny", "😂"),
    (Emotion::Sad, "sad", "😔"),
    (Emotion::Angry, "angry", "😠"),
    (Emotion::Crying, "crying", "😭"),
    (Emotion::Loving, "loving", "😍"),
    (Emotion::Embarrassed, "embarrassed", "😳"),
    (Emotion::Surprised, "surprised", "😲"),
    (Emotion::Shocked, "shocked", "😱"),
    (Emotion::Thinking, "thinking", "🤔"),
    (Emotion::Winking, "winking", "😉"),
    (Emotion::Cool, "cool", "😎"),
    (Emotion::Relaxed, "relaxed", "😌"),
    (Emotion::Delicious, "delicious", "🤤"),
    (Emotion::Kissy, "kissy", "😘"),
    (Emotion::Confident, "confident", "😏"),
    (Emotion::Sleepy, "sleepy", "😴"),
    (Emotion::Silly, "silly", "😜"),
    (Emotion::Confused, "confused", "🙄"),
];

impl Emotion {
    /// Returns all emotions, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(e, ..)| *e)
    }

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        TABLE.iter().find(|(e, ..)| *e == self).map_or("neutral", |(_, name, _)| name)
    }

    /// Returns the emoji of the emotion.
    pub fn emoji(self) -> &'static str {
        TABLE.iter().find(|(e, ..)| *e == self).map_or("😶", |(.., emoji)| emoji)
    }

    /// Returns the emotion of an emoji. Common similar emoji count too (`😊` is happy).
    pub fn from_emoji(emoji: char) -> Option<Self> {
        let listed = TABLE.iter().find(|(.., e)| e.starts_with(emoji)).map(|(e, ..)| *e);
        listed.or(match emoji {
            '😊' | '😀' | '😃' | '😄' | '😁' | '☺' | '👋' | '🎉' => {
                Some(Self::Happy)
            }
            '🤣' | '😅' => Some(Self::Funny),
            '😢' | '😞' | '😟' | '☹' => Some(Self::Sad),
            '😡' | '🤬' => Some(Self::Angry),
            '🥰' | '❤' | '💕' => Some(Self::Loving),
            '😮' | '😯' => Some(Self::Surprised),
            '😋' => Some(Self::Delicious),
            '😕' | '🤷' => Some(Self::Confused),
            '💤' | '🥱' => Some(Self::Sleepy),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_emoji_go_both_ways() {
        assert_eq!(Emotion::all().count(), 21);
        for emotion in Emotion::all() {
            let emoji = emotion.emoji().chars().next().unwrap();
            assert_eq!(Emotion::from_emoji(emoji), Some(emotion), "{}", emotion.as_str());
        }
        assert_eq!(Emotion::from_emoji('x'), None);
    }

    #[test]
    fn similar_emoji_count_too() {
        for (emoji, emotion) in [
            ("😊😀😃😄😁☺👋🎉", Emotion::Happy),
            ("🤣😅", Emotion::Funny),
            ("😢😞😟☹", Emotion::Sad),
            ("😡🤬", Emotion::Angry),
            ("🥰❤💕", Emotion::Loving),
            ("😮😯", Emotion::Surprised),
            ("😋", Emotion::Delicious),
            ("😕🤷", Emotion::Confused),
            ("💤🥱", Emotion::Sleepy),
        ] {
            for emoji in emoji.chars() {
                assert_eq!(Emotion::from_emoji(emoji), Some(emotion), "{emoji}");
            }
        }
    }
}
