//! `get_current_time`: date and time in a time zone. Not for alarms.

use futures_util::future::BoxFuture;
use hearken_ports::{Tool, ToolOutput};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Map, Value, json};

use super::{BuiltinTool, output, text};

pub(super) const NAME: &str = "get_current_time";

/// Maximum length of a time zone's name, in characters; those of the IANA list are shorter.
const MAX_ZONE_CHARS: usize = 64;

/// The tool `get_current_time`.
pub(super) struct Clock {
    /// Local time zone.
    zone: TimeZone,
}

impl Clock {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { zone }
    }

    /// Returns the time zone of this name; the local one if the name is empty.
    fn zone(&self, name: &str) -> Result<TimeZone, String> {
        if name.is_empty() {
            return Ok(self.zone.clone());
        }
        TimeZone::get(name).map_err(|_| {
            let shown: String = name.chars().take(MAX_ZONE_CHARS).collect();
            format!("there is no time zone `{shown}`: use an IANA name such as Asia/Shanghai")
        })
    }
}

impl BuiltinTool for Clock {
    fn tool(&self) -> Tool {
        Tool {
            name: NAME.into(),
            description: "Get the current date, time and weekday. 获取当前日期、时间和星期。"
                .into(),
            parameters: json!({"type": "object", "properties": {"timezone": {
                "type": "string",
                "description": "IANA time zone such as Asia/Shanghai or Europe/Berlin; leave it out for the local time",
            }}}),
            finishes: false,
            destructive: false,
        }
    }

    fn call(&self, arguments: Map<String, Value>) -> BoxFuture<'static, ToolOutput> {
        let result = self.zone(text(&arguments, "timezone")).map(|zone| at(Timestamp::now(), zone));
        Box::pin(std::future::ready(output(result)))
    }
}

fn at(now: Timestamp, zone: TimeZone) -> Value {
    let now: Zoned = now.to_zoned(zone);
    json!({
        "timezone": now.time_zone().iana_name(),
        "datetime": now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "date": now.date().to_string(),
        "time": now.strftime("%H:%M:%S").to_string(),
        "weekday": now.strftime("%A").to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_zone() {
        let noon: Timestamp = "2025-02-21T12:00:00.5Z".parse().unwrap();
        let clock = Clock::new(TimeZone::get("Asia/Tokyo").unwrap());
        let result = at(noon, clock.zone("Asia/Shanghai").unwrap());
        let expected = json!({"timezone": "Asia/Shanghai", "datetime": "2025-02-21T20:00:00+08:00",
            "date": "2025-02-21", "time": "20:00:00", "weekday": "Friday"});
        assert_eq!(result, expected);
        let summer: Timestamp = "2025-07-01T22:30:00Z".parse().unwrap();
        let result = at(summer, clock.zone("Europe/Berlin").unwrap());
        assert_eq!(result["datetime"], "2025-07-02T00:30:00+02:00");
        let wrong = clock.zone("Mars/Olympus").unwrap_err();
        assert_eq!(
            wrong,
            "there is no time zone `Mars/Olympus`: use an IANA name such as Asia/Shanghai"
        );
        let local = at(noon, clock.zone("").unwrap());
        assert_eq!(
            (&local["timezone"], &local["time"]),
            (&json!("Asia/Tokyo"), &json!("21:00:00"))
        );
    }
}
