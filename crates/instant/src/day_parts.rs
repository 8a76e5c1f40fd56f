//! Parts of the day that are said with an hour, and the hour that is meant. Not for reading times, see `times`.

/// Part of the day that is said with an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// The hours from midnight on, as `am` and 凌晨: twelve is midnight.
    Morning,
    /// The hours of light before noon, as 上午 and 早上: twelve is noon.
    Forenoon,
    /// Around noon, as 中午: eleven is before it, one and two are after it.
    Noon,
    /// The hours from noon on, as `pm` and 下午: twelve is noon.
    Afternoon,
    /// The last hours of the day, as `in the evening` and 傍晚: twelve is midnight.
    Dusk,
    /// From the evening to the first hours of the next day, as 今晚 and `tonight`: twelve is midnight, and five is in the evening.
    Evening,
    /// The night, as 半夜 and `at night`: five is in the morning.
    Night,
}

impl Half {
    /// Returns the hour of 0 to 23 of an hour of 0 to 24 that is said with this part of the day; `None` if it has no such hour.
    pub(crate) fn hour_of_day(self, said: i64) -> Option<i64> {
        let from = |first: i64| if said % 12 >= first { said % 12 + 12 } else { said % 12 };
        match (self, said) {
            (Self::Morning, 0..=12) => Some(said % 12),
            (Self::Forenoon, 0..=12)
            | (Self::Noon, 11..=14)
            | (Self::Afternoon, 12..=19)
            | (Self::Dusk | Self::Evening, 16..=23)
            | (Self::Night, 18..=23) => Some(said),
            (Self::Noon, 1..=2) | (Self::Afternoon | Self::Dusk, 1..=11) => Some(said + 12),
            (Self::Evening, 0..=12) => Some(from(5)),
            (Self::Night, 0..=12) => Some(from(6)),
            (Self::Dusk, 0 | 12)
            | (Self::Morning | Self::Dusk | Self::Evening | Self::Night, 24) => Some(0),
            _ => None,
        }
    }
}

/// Parts of the day in Chinese.
pub(crate) const ZH_HALVES: [(&str, Half); 31] = [
    ("今早", Half::Forenoon),
    ("今天早上", Half::Forenoon),
    ("今天上午", Half::Forenoon),
    ("今天中午", Half::Noon),
    ("今天下午", Half::Afternoon),
    ("今天傍晚", Half::Dusk),
    ("今天晚上", Half::Evening),
    ("今天凌晨", Half::Morning),
    ("今天半夜", Half::Night),
    ("今晚", Half::Evening),
    ("今夜", Half::Night),
    ("上午", Half::Forenoon),
    ("大早上", Half::Forenoon),
    ("一大早", Half::Forenoon),
    ("大清早", Half::Forenoon),
    ("一早", Half::Forenoon),
    ("早上", Half::Forenoon),
    ("早晨", Half::Forenoon),
    ("清晨", Half::Forenoon),
    ("凌晨", Half::Morning),
    ("中午", Half::Noon),
    ("正午", Half::Noon),
    ("午后", Half::Afternoon),
    ("下午", Half::Afternoon),
    ("傍晚", Half::Dusk),
    ("晚上", Half::Evening),
    ("半夜", Half::Night),
    ("午夜", Half::Night),
    ("深夜", Half::Night),
    ("夜里", Half::Night),
    ("夜晚", Half::Night),
];

/// Parts of the day in English.
pub(crate) const EN_HALVES: [(&str, Half); 20] = [
    ("in the morning", Half::Morning),
    ("in the afternoon", Half::Afternoon),
    ("in the evening", Half::Dusk),
    ("at night", Half::Night),
    ("in the night", Half::Night),
    ("this morning", Half::Morning),
    ("this afternoon", Half::Afternoon),
    ("this evening", Half::Dusk),
    ("tonight", Half::Evening),
    ("am", Half::Morning),
    ("pm", Half::Afternoon),
    ("a m", Half::Morning),
    ("p m", Half::Afternoon),
    ("in the am", Half::Morning),
    ("in the pm", Half::Afternoon),
    ("noon", Half::Noon),
    ("at noon", Half::Noon),
    ("midday", Half::Noon),
    ("midnight", Half::Night),
    ("at midnight", Half::Night),
];
