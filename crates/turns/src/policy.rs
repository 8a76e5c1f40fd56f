//! Policies to score: settings of the server, as configuration keys with one or more values. Their
//! effect is elsewhere.

use anyhow::{Context as _, bail};
use hearken_actors::interruption::InterruptionSettings;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::speculation::SpeculationSettings;
use hearken_actors::turn_detection::TurnDetectionSettings;
use hearken_audio::{HearingSettings, SpeakingSettings};
use serde::Deserialize;

/// Silence windows of the baseline, in ms: only silence ends a turn.
const BASELINE: &str =
    "turn_detection.model='', hearing.silence_ms=200|300|400|500|600|700|800|1000|1200|1600";

/// One policy: a point of a curve.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Curve; policies that differ in one swept value share it.
    pub curve: String,
    /// Settings that differ from the defaults.
    pub name: String,
    /// Settings of the server.
    pub settings: PipelineSettings,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    hearing: HearingSettings,
    turn_detection: TurnDetectionSettings,
    speculation: SpeculationSettings,
    interruption: InterruptionSettings,
    speaking: SpeakingSettings,
}

/// Returns the baseline: silence alone, with several windows.
///
/// # Errors
/// Fails only if the settings were renamed, which a test covers.
pub fn baseline() -> anyhow::Result<Vec<Policy>> {
    let named = |policy| Policy { curve: "silence alone".into(), ..policy };
    Ok(parse(BASELINE)?.into_iter().map(named).collect())
}

/// Parses policies: `key=value` of the configuration, separated by commas. Values separated by `|`
/// produce one policy each. An empty text is the default policy.
///
/// # Errors
/// Fails if a key is unknown or a value has another type; the message names it.
pub fn parse(text: &str) -> anyhow::Result<Vec<Policy>> {
    let mut points: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((key, values)) = part.split_once('=') else {
            bail!("--policy {text}: {part} is not of the form section.key=value");
        };
        let with = |value| points.iter().map(move |p| [p.as_slice(), &[(key, value)]].concat());
        points = values.split('|').flat_map(with).collect();
    }
    let policy = |point: Vec<(&str, &str)>| {
        let assigned = point.iter().map(|(key, value)| format!("{key}={value}"));
        let name = assigned.collect::<Vec<_>>().join(", ");
        let settings = settings(&point).with_context(|| format!("--policy {text}"))?;
        let name = if name.is_empty() { "the defaults".into() } else { name };
        let curve = if text.is_empty() { name.clone() } else { text.to_owned() };
        Ok(Policy { curve, name, settings })
    };
    points.into_iter().map(policy).collect()
}

fn settings(point: &[(&str, &str)]) -> anyhow::Result<PipelineSettings> {
    let lines = point.iter().map(|(key, value)| format!("{key} = {value}\n"));
    let keys: Keys = toml::from_str(&lines.collect::<String>())
        .map_err(|e| anyhow::anyhow!("{}", e.message()))?;
    let Keys { hearing, turn_detection, speculation, interruption, speaking } = keys;
    let others = PipelineSettings::default();
    Ok(PipelineSettings { hearing, turn_detection, speculation, interruption, speaking, ..others })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silences(policies: &[Policy]) -> Vec<u128> {
        policies.iter().map(|p| p.settings.hearing.silence.as_millis()).collect()
    }

    #[test]
    fn each_value_produces_a_policy() {
        assert_eq!(silences(&baseline().unwrap())[..3], [200, 300, 400]);
        let some = parse("hearing.silence_ms=500|900, hearing.aggressiveness=3").unwrap();
        assert_eq!(silences(&some), [500, 900]);
        assert_eq!(some[1].name, "hearing.silence_ms=900, hearing.aggressiveness=3");
        assert!(some.iter().all(|p| p.settings.hearing.aggressiveness == 3));
        assert_eq!(silences(&parse("").unwrap()), [700]);
    }

    #[test]
    fn errors_name_the_invalid_part() {
        for (text, why) in [
            ("hearing.silence=5", "unknown field `silence`"),
            ("hearing.silence_ms=soon", "hearing.silence_ms=soon"),
            ("silence", "section.key=value"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
