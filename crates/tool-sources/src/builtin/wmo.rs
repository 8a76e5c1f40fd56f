//! The WMO's weather codes in words, as used by Open-Meteo. Not for other tables of codes.

/// Codes with their words in English and Chinese: <https://open-meteo.com/en/docs>, "WMO Weather
/// interpretation codes".
const WORDS: [(u64, &str, &str); 28] = [
    (0, "Clear", "晴"),
    (1, "Mostly clear", "大部晴朗"),
    (2, "Partly cloudy", "多云"),
    (3, "Overcast", "阴"),
    (45, "Fog", "雾"),
    (48, "Freezing fog", "冻雾"),
    (51, "Light drizzle", "小毛毛雨"),
    (53, "Drizzle", "毛毛雨"),
    (55, "Heavy drizzle", "密集毛毛雨"),
    (56, "Light freezing drizzle", "轻微冻毛毛雨"),
    (57, "Freezing drizzle", "冻毛毛雨"),
    (61, "Light rain", "小雨"),
    (63, "Rain", "中雨"),
    (65, "Heavy rain", "大雨"),
    (66, "Light freezing rain", "小冻雨"),
    (67, "Freezing rain", "冻雨"),
    (71, "Light snow", "小雪"),
    (73, "Snow", "中雪"),
    (75, "Heavy snow", "大雪"),
    (77, "Snow grains", "米雪"),
    (80, "Light showers", "小阵雨"),
    (81, "Showers", "阵雨"),
    (82, "Violent showers", "强阵雨"),
    (85, "Light snow showers", "小阵雪"),
    (86, "Heavy snow showers", "强阵雪"),
    (95, "Thunderstorm", "雷阵雨"),
    (96, "Thunderstorm with light hail", "雷阵雨伴小冰雹"),
    (99, "Thunderstorm with heavy hail", "雷阵雨伴大冰雹"),
];

/// Returns the words of a code in English and Chinese; `None` if it is not in the table.
pub(super) fn words(code: u64) -> Option<(&'static str, &'static str)> {
    WORDS.iter().find(|(c, ..)| *c == code).map(|(_, en, zh)| (*en, *zh))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_unknown_ones_have_no_words() {
        assert!(WORDS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(words(61), Some(("Light rain", "小雨")));
        assert_eq!(words(4), None);
    }
}
