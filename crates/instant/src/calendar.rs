//! Dates of days that a person names, and of holidays. Not for reading words, see `times`.

use hearken_base::language::Language;
use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};
use serde::Deserialize;

use crate::length::Length;
use crate::normalise::words_of;

/// Which week a weekday is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Week {
    /// The next such day, today included.
    Nearest,
    This,
    Next,
    Last,
}

/// Day as it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Day {
    /// Number of days from today.
    Near(i64),
    After(Length),
    Before(Length),
    Weekday {
        day: i8,
        week: Week,
    },
    Date {
        year: Option<i16>,
        month: i8,
        day: i8,
    },
    /// Place in the list of holidays.
    Holiday(usize),
    /// The same, for the holiday of this year, be it over or not.
    HolidayThisYear(usize),
}

/// Holiday of the file of names.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Holiday {
    zh: Vec<String>,
    en: Vec<String>,
    /// Day of each year, as `MM-DD`.
    date: Option<String>,
    /// Dates of the years that are known, as `YYYY-MM-DD`.
    #[serde(default)]
    dates: Vec<Date>,
    /// Days after the dates.
    #[serde(default)]
    offset: i64,
    /// Days after Easter Sunday.
    easter: Option<i64>,
    #[serde(skip)]
    words: Vec<Vec<String>>,
}

impl Holiday {
    /// Returns the dates of the years that are known, in order; none if the others follow from the year.
    fn known(&self) -> impl Iterator<Item = Date> {
        self.dates.iter().filter_map(move |date| date.checked_add(self.offset.days()).ok())
    }

    fn in_year(&self, year: i16) -> Option<Date> {
        if !self.dates.is_empty() {
            return self.known().find(|date| date.year() == year);
        }
        if let Some(days) = self.easter {
            return easter(year)?.checked_add(days.days()).ok();
        }
        let (month, day) = self.date.as_deref()?.split_once('-')?;
        Date::new(year, month.parse().ok()?, day.parse().ok()?).ok()
    }
}

/// The holidays that are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holidays(Vec<Holiday>);

impl Holidays {
    pub(crate) fn new(mut holidays: Vec<Holiday>) -> Self {
        for holiday in &mut holidays {
            let names = holiday.zh.iter().chain(&holiday.en);
            holiday.words = names.map(|name| words_of(name).words).collect();
        }
        Self(holidays)
    }

    /// Returns the length and the day of the holiday at the beginning of `words`.
    pub(crate) fn read(&self, words: &[String], language: Language) -> Option<(usize, Day)> {
        let this_year = match language {
            Language::Chinese => words
                .iter()
                .take(4)
                .zip(["今", "年", "的"])
                .take_while(|pair| *pair.0 == pair.1)
                .count(),
            Language::English => 0,
        };
        let skipped = if this_year >= 2 { this_year } else { 0 };
        let words = words.get(skipped..).unwrap_or_default();
        let names = self
            .0
            .iter()
            .enumerate()
            .flat_map(|(at, holiday)| holiday.words.iter().map(move |name| (name, at)));
        let found = names.filter(|(name, _)| {
            words.get(..name.len()).is_some_and(|start| start == name.as_slice())
        });
        let (name, at) = found.max_by_key(|(name, _)| name.len())?;
        let length = name.len() + skipped;
        if language == Language::English
            && words.get(length..length + 2).is_some_and(|end| end == ["this", "year"])
        {
            return Some((length + 2, Day::HolidayThisYear(at)));
        }
        let day = if skipped > 0 { Day::HolidayThisYear(at) } else { Day::Holiday(at) };
        Some((length, day))
    }

    /// Returns the name of a holiday.
    pub(crate) fn name(&self, at: usize, language: Language) -> Option<&str> {
        let holiday = self.0.get(at)?;
        let names = if language == Language::Chinese { &holiday.zh } else { &holiday.en };
        names
            .first()
            .or_else(|| holiday.en.first())
            .or_else(|| holiday.zh.first())
            .map(String::as_str)
    }

    /// Returns the next date of a holiday from `today` on; `None` if it is not known.
    fn next(&self, at: usize, today: Date) -> Option<Date> {
        let holiday = self.0.get(at)?;
        if holiday.dates.is_empty() {
            return holiday
                .in_year(today.year())
                .filter(|date| *date >= today)
                .or_else(|| holiday.in_year(today.year() + 1));
        }
        let next = holiday.known().find(|date| *date >= today);
        // A day before the first known year is not after the holiday of its own year.
        next.filter(|date| date.since(today).is_ok_and(|span| span.get_days() < 400))
    }

    /// Returns the last date of a holiday before `today`; `None` if it is not known.
    fn last(&self, at: usize, today: Date) -> Option<Date> {
        let holiday = self.0.get(at)?;
        if holiday.dates.is_empty() {
            return holiday
                .in_year(today.year())
                .filter(|date| *date < today)
                .or_else(|| holiday.in_year(today.year() - 1));
        }
        let last = holiday.known().take_while(|date| *date < today).last();
        last.filter(|date| today.since(*date).is_ok_and(|span| span.get_days() < 400))
    }

    /// Returns the date of a holiday in a year; `None` if it is not known.
    fn in_year(&self, at: usize, year: i16) -> Option<Date> {
        self.0.get(at)?.in_year(year)
    }
}

/// Returns Easter Sunday of a year of the Gregorian calendar.
fn easter(year: i16) -> Option<Date> {
    let year_number = i64::from(year);
    let golden = year_number % 19;
    let century = year_number / 100;
    let epact =
        (19 * golden + century - century / 4 - (century - (century + 8) / 25 + 1) / 3 + 15) % 30;
    let weekday =
        (32 + 2 * (century % 4) + 2 * (year_number % 100 / 4) - epact - year_number % 100 % 4) % 7;
    let shift = (golden + 11 * epact + 22 * weekday) / 451;
    let days = epact + weekday - 7 * shift + 114;
    Date::new(year, i8::try_from(days / 31).ok()?, i8::try_from(days % 31 + 1).ok()?).ok()
}

/// Adds a length to a date; `None` if it has parts of days.
fn after(date: Date, length: Length, sign: i64) -> Option<Date> {
    if length.seconds != 0 {
        return None;
    }
    let span =
        Span::new().try_months(sign * length.months).ok()?.try_days(sign * length.days).ok()?;
    date.checked_add(span).ok()
}

/// Returns the date of a day, counted from `today`.
pub(crate) fn date_of(day: Day, today: Date, holidays: &Holidays) -> Option<Date> {
    match day {
        Day::Near(days) => today.checked_add(days.days()).ok(),
        Day::After(length) => after(today, length, 1),
        Day::Before(length) => after(today, length, -1),
        Day::Holiday(at) => holidays.next(at, today),
        Day::HolidayThisYear(at) => holidays.in_year(at, today.year()),
        Day::Date { year: Some(year), month, day } => Date::new(year, month, day).ok(),
        Day::Date { year: None, month, day } => {
            // The 29th of February may be some years ahead.
            (0..9)
                .filter_map(|years| Date::new(today.year() + years, month, day).ok())
                .find(|date| *date >= today)
        }
        Day::Weekday { day, week } => {
            let monday = today
                .checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days())
                .ok()?;
            let days = i64::from(day) - 1;
            let weeks = match week {
                Week::Nearest => i64::from(monday.checked_add(days.days()).ok()? < today),
                Week::This => 0,
                Week::Next => 1,
                Week::Last => -1,
            };
            monday.checked_add((days + 7 * weeks).days()).ok()
        }
    }
}

/// Returns the date of a day that is over: of a holiday, of a date without its year and of a weekday without its week the
/// last one before `today`.
pub(crate) fn last_date_of(day: Day, today: Date, holidays: &Holidays) -> Option<Date> {
    match day {
        Day::Holiday(at) => holidays.last(at, today),
        Day::Date { year: None, month, day } => (0..9)
            .filter_map(|years| Date::new(today.year() - years, month, day).ok())
            .find(|date| *date < today),
        Day::Weekday { day, week: Week::Nearest } => {
            let date = date_of(Day::Weekday { day, week: Week::This }, today, holidays)?;
            if date < today { Some(date) } else { date.checked_sub(7.days()).ok() }
        }
        _ => date_of(day, today, holidays),
    }
}

/// Returns the date of a holiday, or of a date without its year, in a year; `None` for other days.
pub(crate) fn date_in_year(day: Day, year: i16, holidays: &Holidays) -> Option<Date> {
    match day {
        Day::Holiday(at) => holidays.in_year(at, year),
        Day::Date { year: None, month, day } => Date::new(year, month, day).ok(),
        _ => None,
    }
}

/// Returns the days from one date to another.
pub(crate) fn days_between(from: Date, to: Date) -> Option<i64> {
    from.until(to).ok().map(|span| i64::from(span.get_days()))
}

/// Returns the name of a weekday.
pub(crate) fn weekday_name(weekday: Weekday, language: Language) -> &'static str {
    let zh = language == Language::Chinese;
    match weekday {
        Weekday::Monday => {
            if zh {
                "星期一"
            } else {
                "Monday"
            }
        }
        Weekday::Tuesday => {
            if zh {
                "星期二"
            } else {
                "Tuesday"
            }
        }
        Weekday::Wednesday => {
            if zh {
                "星期三"
            } else {
                "Wednesday"
            }
        }
        Weekday::Thursday => {
            if zh {
                "星期四"
            } else {
                "Thursday"
            }
        }
        Weekday::Friday => {
            if zh {
                "星期五"
            } else {
                "Friday"
            }
        }
        Weekday::Saturday => {
            if zh {
                "星期六"
            } else {
                "Saturday"
            }
        }
        Weekday::Sunday => {
            if zh {
                "星期日"
            } else {
                "Sunday"
            }
        }
    }
}

/// Returns the English name of a month of 1 to 12.
pub(crate) fn month_name(month: i8) -> &'static str {
    const NAMES: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    usize::try_from(month - 1).ok().and_then(|at| NAMES.get(at)).copied().unwrap_or("January")
}

/// Returns the English ordinal of a day of the month, such as `21st`.
pub(crate) fn ordinal(day: i8) -> String {
    let suffix = match (day % 10, day / 10) {
        (_, 1) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{day}{suffix}")
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    const SUNDAY: Date = date(2026, 11, 29);

    #[test]
    fn dates_are_counted_from_today() {
        let none = Holidays::default();
        let of = |day| date_of(day, SUNDAY, &none);
        assert_eq!(of(Day::Near(2)), Some(date(2026, 12, 1)));
        assert_eq!(of(Day::Weekday { day: 5, week: Week::Nearest }), Some(date(2026, 12, 4)));
        assert_eq!(of(Day::Weekday { day: 7, week: Week::Nearest }), Some(SUNDAY));
        assert_eq!(of(Day::Weekday { day: 1, week: Week::Next }), Some(date(2026, 11, 30)));
        assert_eq!(of(Day::Date { year: None, month: 2, day: 29 }), Some(date(2028, 2, 29)));
        assert_eq!(of(Day::Date { year: None, month: 2, day: 30 }), None);
        assert_eq!(
            of(Day::After(Length { months: 1, days: 0, seconds: 0 })),
            Some(date(2026, 12, 29))
        );
        let last = |day| last_date_of(day, SUNDAY, &none);
        let of_month = |month, day| Day::Date { year: None, month, day };
        assert_eq!(last(of_month(11, 28)), Some(date(2026, 11, 28)));
        assert_eq!(last(of_month(11, 29)), Some(date(2025, 11, 29)));
        assert_eq!(last(of_month(2, 29)), Some(date(2024, 2, 29)));
        assert_eq!(last(Day::Weekday { day: 7, week: Week::Nearest }), Some(date(2026, 11, 22)));
        assert_eq!(last(Day::Weekday { day: 1, week: Week::Nearest }), Some(date(2026, 11, 23)));
        assert_eq!(last(Day::Near(-1)), Some(date(2026, 11, 28)));
        assert_eq!(date_in_year(of_month(2, 29), 2025, &none), None);
        assert_eq!(easter(2027), Some(date(2027, 3, 28)));
        assert_eq!(easter(2024), Some(date(2024, 3, 31)));
    }
}
