//! The built-in tools with stub services that answer as Open-Meteo and ip-api.com document, and
//! with dead, slow and broken ones.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hearken_ports::{ToolCall, ToolContent, ToolSource};
use hearken_tool_sources::{Builtin, BuiltinSettings};
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

type Answers = dyn Fn(&str) -> Option<(u16, String)> + Send + Sync;

/// Stub of all services at one address, with the requests that it received.
struct World {
    base: String,
    asked: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl World {
    /// Starts a stub that answers each path with its query; `None` leaves a request unanswered.
    async fn start(
        answers: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let answers: Arc<Answers> = Arc::new(answers);
        let told = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let answers = Arc::clone(&answers);
                let told = Arc::clone(&told);
                open.spawn(async move {
                    let mut bytes = vec![0; 8_192];
                    let read = stream.read(&mut bytes).await.unwrap_or(0);
                    let head = String::from_utf8_lossy(&bytes[..read]).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    told.lock().unwrap().push(path.clone());
                    let Some((status, body)) = answers(&path) else {
                        return std::future::pending().await;
                    };
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                    );
                    // The client may be gone.
                    stream.write_all((head + &body).as_bytes()).await.ok();
                });
            }
        });
        Self { base, asked, task }
    }

    fn settings(&self) -> BuiltinSettings {
        BuiltinSettings {
            weather_url: format!("{}/forecast", self.base),
            geocoding_url: format!("{}/search", self.base),
            location_url: format!("{}/json/", self.base),
            timeout_ms: 5_000,
            ..BuiltinSettings::default()
        }
    }

    fn tools(&self) -> Builtin {
        Builtin::new(&self.settings(), &jiff::tz::TimeZone::UTC).unwrap()
    }

    /// Returns the last request to this path.
    fn asked(&self, path: &str) -> url::Url {
        let asked = self.asked.lock().unwrap();
        let last = asked.iter().rev().find(|p| p.starts_with(path)).expect("there was a request");
        format!("{}{last}", self.base).parse().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a day, as an offset from today in Shanghai.
fn day(from_today: i64) -> String {
    let today = Timestamp::now().in_tz("Asia/Shanghai").unwrap().date();
    today.checked_add(from_today.days()).unwrap().to_string()
}

fn forecast(path: &str) -> Value {
    let url: url::Url = format!("http://a{path}").parse().unwrap();
    let asked = |name: &str| url.query_pairs().find(|(k, _)| k == name).map(|(_, v)| v.to_string());
    let mut answer = json!({
        "latitude": 39.875, "longitude": 116.375, "generationtime_ms": 0.1,
        "timezone": "Asia/Shanghai", "elevation": 47.0,
        "daily_units": {"time": "iso8601", "temperature_2m_max": "°C"},
        "daily": {
            "time": [asked("start_date")], "weather_code": [61],
            "temperature_2m_mean": [18.5], "temperature_2m_max": [23.1],
            "temperature_2m_min": [14.0], "relative_humidity_2m_mean": [70],
            "precipitation_probability_max": [85],
        },
    });
    if asked("current").is_some() {
        answer["current"] = json!({
            "time": "2025-02-21T18:30", "interval": 900, "temperature_2m": 22.4,
            "apparent_temperature": 21.0, "relative_humidity_2m": 45, "weather_code": 0,
            "wind_speed_10m": 7.9,
        });
    }
    answer
}

/// Answers of Open-Meteo and ip-api.com without faults.
fn well(path: &str) -> Option<(u16, String)> {
    let body = match path.split('?').next().unwrap_or_default() {
        "/search" if path.contains("Nowhere") => json!({"generationtime_ms": 0.5}),
        // The service does not find this longer name.
        "/search" if path.contains("%E5%B8%82") => json!({"generationtime_ms": 0.5}),
        "/search" => json!({"results": [{
            "id": 1_816_670, "name": "北京", "latitude": 39.9075, "longitude": 116.39723,
            "country_code": "CN", "country": "中国", "admin1": "北京市", "timezone": "Asia/Shanghai",
        }], "generationtime_ms": 0.5}),
        "/forecast" => forecast(path),
        _ => json!({
            "status": "success", "country": "China", "regionName": "Shanghai", "city": "Shanghai",
            "lat": 31.22, "lon": 121.46, "timezone": "Asia/Shanghai",
        }),
    };
    Some((200, body.to_string()))
}

/// Returns the answer of a tool, and whether it failed.
pub(super) async fn ask(tools: &Builtin, name: &str, arguments: Value) -> (bool, String) {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let call = ToolCall { id: "1".into(), name: name.into(), arguments };
    let output = tools.call(call).await.unwrap();
    let [ToolContent::Text(text)] = &output.content[..] else { panic!("{output:?}") };
    (output.failed, text.clone())
}

pub(super) async fn told(tools: &Builtin, name: &str, arguments: Value) -> Value {
    let (failed, text) = ask(tools, name, arguments).await;
    assert!(!failed, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn the_current_weather_and_a_forecast_are_returned() {
    let world = World::start(well).await;
    let tools = world.tools();
    let now = told(&tools, "get_weather", json!({"city": "北京"})).await;
    let expected = json!({
        "city": "北京", "region": "北京市", "country": "中国", "date": day(0),
        "temperature": 22.4, "condition": "Clear", "condition_zh": "晴", "humidity": 45.0,
        "feels_like": 21.0, "wind_kmh": 7.9, "temperature_max": 23.1, "temperature_min": 14.0,
        "rain_probability": 85.0,
    });
    assert_eq!(now, expected);
    let asked = world.asked("/forecast");
    let asked: Vec<_> = asked.query_pairs().filter(|(k, _)| k != "daily").collect();
    let pair = |(k, v): &(std::borrow::Cow<str>, std::borrow::Cow<str>)| format!("{k}={v}");
    let asked: Vec<String> = asked.iter().map(pair).collect();
    let today = day(0);
    assert_eq!(asked[..3], ["latitude=39.9075", "longitude=116.39723", "timezone=Asia/Shanghai"]);
    assert_eq!(asked[3..5], [format!("start_date={today}"), format!("end_date={today}")]);
    assert!(asked[5].starts_with("current=temperature_2m,"), "{asked:?}");
    let asked = world.asked("/search");
    assert_eq!(asked.query(), Some("name=%E5%8C%97%E4%BA%AC&count=1&language=zh&format=json"));

    let later = told(&tools, "get_weather", json!({"city": "北京市", "date": "明天"})).await;
    assert_eq!(later["date"], day(1));
    assert_eq!((&later["temperature"], &later["humidity"]), (&json!(18.5), &json!(70.0)));
    assert_eq!(
        (&later["condition"], &later["condition_zh"]),
        (&json!("Light rain"), &json!("小雨"))
    );
    assert!(later.get("feels_like").is_none() && later.get("wind_kmh").is_none(), "{later}");

    let here = told(&tools, "get_weather", json!({"city": null, "date": ""})).await;
    assert_eq!((&here["city"], &here["temperature"]), (&json!("Shanghai"), &json!(22.4)));
    let (failed, why) = ask(&tools, "get_weather", json!({"city": "Nowhere"})).await;
    assert!(failed && why == "there is no city `Nowhere` that the weather is known of", "{why}");
    let far = json!({"city": "北京", "date": day(16)});
    let (failed, why) = ask(&tools, "get_weather", far).await;
    assert!(failed && why.starts_with("there are forecasts from "), "{why}");
}

#[tokio::test]
async fn place_and_time_are_returned() {
    let world = World::start(well).await;
    let tools = world.tools();
    let here = told(&tools, "get_location", json!({})).await;
    let expected = json!({"city": "Shanghai", "region": "Shanghai", "country": "China",
        "latitude": 31.22, "longitude": 121.46, "timezone": "Asia/Shanghai"});
    assert_eq!(here, expected);
    let asked = world.asked("/json/");
    let fields = "fields=status%2Cmessage%2Ccountry%2CregionName%2Ccity%2Clat%2Clon%2Ctimezone";
    assert_eq!(asked.query(), Some(fields));
    let time = told(&tools, "get_current_time", json!({"timezone": "Asia/Tokyo"})).await;
    assert!(time["datetime"].as_str().unwrap().ends_with("+09:00"), "{time}");
    let said: Timestamp = time["datetime"].as_str().unwrap().parse().unwrap();
    let off = Timestamp::now().duration_since(said);
    assert!(off.as_secs().abs() < 5, "{time}");
    let (failed, why) = ask(&tools, "get_current_time", json!({"timezone": "Mars"})).await;
    assert!(failed && why.starts_with("there is no time zone `Mars`"), "{why}");
}

#[tokio::test]
async fn a_failing_service_is_reported_and_nothing_is_invented() {
    let huge = "x".repeat(300 << 10);
    let long = format!("{{\"results\": \"{huge}\"}}");
    type Case = (&'static str, u16, String, &'static str);
    let cases: [Case; 9] = [
        (
            "/search",
            200,
            "<html>".into(),
            "the geocoding service gave an answer that cannot be read",
        ),
        ("/search", 200, "[1]".into(), "the geocoding service gave an answer that cannot be read"),
        ("/search", 200, long, "the geocoding service gave an answer that cannot be read"),
        (
            "/search",
            500,
            String::new(),
            "the geocoding service cannot be reached (internal error of the provider)",
        ),
        ("/forecast", 429, String::new(), "the weather service cannot be reached (rate limited)"),
        (
            "/forecast",
            400,
            r#"{"error": true, "reason": "no"}"#.into(),
            "the weather service refused the question",
        ),
        ("/forecast", 200, "{}".into(), "the weather service gave an answer that cannot be read"),
        (
            "/forecast",
            200,
            json!({"daily": {"time": [day(0)], "temperature_2m_mean": [null]}}).to_string(),
            "the weather service knows no weather of 北京 for ",
        ),
        ("/forecast", 302, String::new(), "the weather service gave an answer that cannot be read"),
    ];
    for (at, status, body, says) in cases {
        let world = World::start(move |path| {
            if path.starts_with(at) { Some((status, body.clone())) } else { well(path) }
        })
        .await;
        let (failed, why) = ask(&world.tools(), "get_weather", json!({"city": "北京"})).await;
        assert!(failed && why.starts_with(says), "{at} {status}: {why}");
    }
    let lost = r#"{"status": "fail", "message": "private range"}"#;
    let world = World::start(move |_| Some((200, lost.to_owned()))).await;
    let (failed, why) = ask(&world.tools(), "get_weather", json!({})).await;
    let says = "the location service does not know where this address is; name a city";
    assert!(failed && why == says, "{why}");
}

#[tokio::test]
async fn dead_and_silent_services_end_in_time() {
    let world = World::start(well).await;
    let dead = BuiltinSettings { location_url: "http://127.0.0.1:9/".into(), ..world.settings() };
    let (failed, why) =
        ask(&Builtin::new(&dead, &jiff::tz::TimeZone::UTC).unwrap(), "get_location", json!({}))
            .await;
    assert!(failed && why == "the location service cannot be reached (unavailable)", "{why}");

    let silent = World::start(|path| if path.starts_with("/search") { well(path) } else { None });
    let silent = silent.await;
    let short = BuiltinSettings { timeout_ms: 500, ..silent.settings() };
    let tools = Builtin::new(&short, &jiff::tz::TimeZone::UTC).unwrap();
    let begun = Instant::now();
    let (failed, why) = ask(&tools, "get_weather", json!({"city": "北京"})).await;
    assert!(failed && why == "the weather service cannot be reached (timed out)", "{why}");
    assert!(begun.elapsed() < tools.timeout(), "{:?}", begun.elapsed());
    assert!(begun.elapsed() >= Duration::from_millis(450));
}
