//! Parser of days as users and models write them. Not for times of the day.

use jiff::ToSpan as _;
use jiff::civil::Date;

/// Length of a forecast in days, including today: <https://open-meteo.com/en/docs>.
pub(super) const AHEAD: i64 = 16;

/// Words for days, with their offset from today in days.
const WORDS: [(&str, i64); 14] = [
    ("", 0),
    ("today", 0),
    ("now", 0),
    ("tonight", 0),
    ("今天", 0),
    ("今日", 0),
    ("现在", 0),
    ("今晚", 0),
    ("tomorrow", 1),
    ("明天", 1),
    ("明日", 1),
    ("day after tomorrow", 2),
    ("后天", 2),
    ("大后天", 3),
];

/// Parses a day: a word, or `2025-02-21`; empty is today.
///
/// # Errors
/// The text is not a day, or is a day outside the forecast; the message is for the model.
pub(super) fn day(text: &str, today: Date) -> Result<Date, String> {
    let text = text.trim().to_lowercase();
    let word = WORDS.iter().find(|(word, _)| *word == text);
    let day = match word {
        Some((_, days)) => today.checked_add(days.days()).ok(),
        None => text.get(..10).unwrap_or(&text).parse().ok(),
    };
    let Some(day) = day else {
        return Err("`date` cannot be read: use today, tomorrow or a date like 2025-02-21".into());
    };
    let last = today.checked_add((AHEAD - 1).days()).unwrap_or(today);
    if day < today || day > last {
        return Err(format!("there are forecasts from {today} to {last} only, not for {day}"));
    }
    Ok(day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use proptest::prelude::*;

    const TODAY: Date = date(2025, 2, 27);

    #[test]
    fn words_and_dates_are_days() {
        for (text, expected) in [
            ("", date(2025, 2, 27)),
            (" Today ", date(2025, 2, 27)),
            ("明天", date(2025, 2, 28)),
            ("后天", date(2025, 3, 1)),
            ("2025-03-14", date(2025, 3, 14)),
            ("2025-03-14T08:00:00Z", date(2025, 3, 14)),
        ] {
            assert_eq!(day(text, TODAY), Ok(expected), "{text}");
        }
        let beyond = day("2025-03-15", TODAY).unwrap_err();
        assert_eq!(
            beyond,
            "there are forecasts from 2025-02-27 to 2025-03-14 only, not for 2025-03-15"
        );
        assert!(day("2025-02-26", TODAY).unwrap_err().contains("not for 2025-02-26"));
        assert!(day("someday", TODAY).unwrap_err().starts_with("`date` cannot be read"));
    }

    proptest! {
        #[test]
        fn every_text_is_a_day_of_the_forecast_or_an_error(text in ".{0,14}") {
            if let Ok(day) = day(&text, TODAY) {
                prop_assert!((TODAY..=date(2025, 3, 14)).contains(&day));
            }
        }
    }
}
