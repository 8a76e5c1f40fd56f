//! `get_weather`: a city's current weather, or the forecast for a day, from Open-Meteo. Values that
//! the service does not provide are omitted, never invented. Not for warnings.

use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{Tool, ToolOutput};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::location::{Locator, Place};
use super::settings::{BuiltinError, BuiltinSettings};
use super::web::JsonClient;
use super::{BuiltinTool, days, name_of, output, text, wmo};

pub(super) const NAME: &str = "get_weather";

/// Maximum length of a city's name, in characters.
const MAX_CITY_CHARS: usize = 80;
/// Requested values of the current weather.
const CURRENT: &str =
    "temperature_2m,apparent_temperature,relative_humidity_2m,weather_code,wind_speed_10m";
/// Requested values of a day.
const DAILY: &str = "weather_code,temperature_2m_mean,temperature_2m_max,temperature_2m_min,\
                     relative_humidity_2m_mean,precipitation_probability_max";

/// The tool `get_weather`.
#[derive(Clone)]
pub(super) struct Weather {
    forecast: JsonClient,
    geocoding: JsonClient,
    locator: Locator,
    timeout: Duration,
    /// Time zone that is used if that of a place is unknown.
    zone: TimeZone,
}

impl Weather {
    /// Creates the tool. It asks `locator` if a question names no city.
    pub(super) fn new(
        settings: &BuiltinSettings,
        locator: Locator,
        zone: TimeZone,
    ) -> Result<Self, BuiltinError> {
        Ok(Self {
            forecast: JsonClient::new("weather", "weather_url", &settings.weather_url)?,
            geocoding: JsonClient::new("geocoding", "geocoding_url", &settings.geocoding_url)?,
            locator,
            timeout: Duration::from_millis(settings.timeout_ms),
            zone,
        })
    }

    async fn forecast(&self, city: &str, date: &str) -> Result<Value, String> {
        let by = Instant::now() + self.timeout;
        let place = match city {
            "" => self.locator.locate(by).await.map_err(|e| format!("{e}; name a city"))?,
            city => self.find(city, by).await?,
        };
        let zone = TimeZone::get(&place.zone).unwrap_or_else(|_| self.zone.clone());
        let today = Timestamp::now().to_zoned(zone).date();
        let day = days::day(date, today)?;
        let latitude = place.latitude.to_string();
        let longitude = place.longitude.to_string();
        let day_text = day.to_string();
        let mut query = vec![
            ("latitude", latitude.as_str()),
            ("longitude", &longitude),
            ("timezone", if place.zone.is_empty() { "auto" } else { &place.zone }),
            ("start_date", &day_text),
            ("end_date", &day_text),
            ("daily", DAILY),
        ];
        if day == today {
            query.push(("current", CURRENT));
        }
        let answer = self.forecast.get_json(&query, by).await?;
        shown(&place, day, &answer)
    }

    /// Returns the place of this name. Chinese names are also tried without the 市 that people add.
    async fn find(&self, city: &str, by: Instant) -> Result<Place, String> {
        let city: String = city.chars().take(MAX_CITY_CHARS).collect();
        let chinese = city.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
        let language = if chinese { "zh" } else { "en" };
        let short = city.strip_suffix('市').filter(|rest| rest.chars().count() > 1);
        for name in [Some(city.as_str()), short].into_iter().flatten() {
            let query =
                [("name", name), ("count", "1"), ("language", language), ("format", "json")];
            if let Some(place) = found(&self.geocoding.get_json(&query, by).await?)? {
                return Ok(place);
            }
        }
        Err(format!("there is no city `{city}` that the weather is known of"))
    }
}

impl BuiltinTool for Weather {
    fn tool(&self) -> Tool {
        Tool {
            name: NAME.into(),
            description: "Get the weather of a city, now or for a day up to two weeks ahead. \
                获取城市的天气信息。"
                .into(),
            parameters: json!({"type": "object", "properties": {
                "city": {
                    "type": "string",
                    "description": "Name of the city (城市名称); leave it out for the place where the speaker is",
                },
                "date": {
                    "type": "string",
                    "description": "today, tomorrow, 今天, 明天, 后天 or YYYY-MM-DD (日期); leave it out for now",
                },
            }}),
            finishes: false,
            destructive: false,
        }
    }

    fn call(&self, arguments: Map<String, Value>) -> BoxFuture<'static, ToolOutput> {
        let weather = self.clone();
        Box::pin(async move {
            let result = weather.forecast(text(&arguments, "city"), text(&arguments, "date"));
            output(result.await)
        })
    }
}

/// Parses the first result of Open-Meteo's geocoding, which has no `results` if nothing was found:
/// <https://open-meteo.com/en/docs/geocoding-api>.
fn found(answer: &Value) -> Result<Option<Place>, String> {
    let unreadable = || "the geocoding service gave an answer that cannot be read".to_owned();
    if !answer.is_object() {
        return Err(unreadable());
    }
    let first = &answer["results"][0];
    if first.is_null() {
        return Ok(None);
    }
    let latitude = first["latitude"].as_f64();
    let longitude = first["longitude"].as_f64();
    match (latitude, longitude) {
        (Some(latitude), Some(longitude)) => Ok(Some(Place {
            name: name_of(&first["name"]),
            region: name_of(&first["admin1"]),
            country: name_of(&first["country"]),
            latitude,
            longitude,
            zone: name_of(&first["timezone"]),
        })),
        _ => Err(unreadable()),
    }
}

/// Renders the forecast for the model, in degrees Celsius, per cent and km/h, the default units of
/// Open-Meteo.
fn shown(place: &Place, day: Date, answer: &Value) -> Result<Value, String> {
    let now = &answer["current"];
    let daily = &answer["daily"];
    if daily["time"][0].as_str() != Some(&day.to_string()) {
        return Err("the weather service gave an answer that cannot be read".into());
    }
    let of_day = |name: &str| daily[name][0].as_f64();
    let of_now = |name: &str| now[name].as_f64();
    let Some(temperature) = of_now("temperature_2m").or_else(|| of_day("temperature_2m_mean"))
    else {
        return Err(format!("the weather service knows no weather of {} for {day}", place.name));
    };
    let code = now["weather_code"].as_u64().or_else(|| daily["weather_code"][0].as_u64());
    let words = code.and_then(wmo::words);
    let humidity = of_now("relative_humidity_2m").or_else(|| of_day("relative_humidity_2m_mean"));
    let result = json!({
        "city": place.name,
        "region": place.region,
        "country": place.country,
        "date": day.to_string(),
        "temperature": temperature,
        "condition": words.map(|w| w.0),
        "condition_zh": words.map(|w| w.1),
        "humidity": humidity,
        "feels_like": of_now("apparent_temperature"),
        "wind_kmh": of_now("wind_speed_10m"),
        "temperature_max": of_day("temperature_2m_max"),
        "temperature_min": of_day("temperature_2m_min"),
        "rain_probability": of_day("precipitation_probability_max"),
    });
    let Value::Object(mut result) = result else { return Ok(result) };
    result.retain(|_, value| !value.is_null() && value.as_str() != Some(""));
    Ok(Value::Object(result))
}
