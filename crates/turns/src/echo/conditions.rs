//! Named conditions of echo measurements: properties of the device, its network and its
//! loudspeaker. Applying them is elsewhere.

use anyhow::bail;

/// Condition of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// Name in the table.
    pub name: &'static str,
    /// Difference between the clocks of the microphone and the loudspeaker, in ppm. The microphone
    /// is faster in half of the scenes.
    pub drift_ppm: f64,
    /// Playback underruns of 60 to 120 ms per minute, caused by the network. Each delays the
    /// playback from then on by its length.
    pub jumps: usize,
    /// One in this many timestamps is lost; 0 for none.
    pub lost_in: u32,
    /// Number of intervals of 1 to 3 s per minute in which all timestamps are lost.
    pub stretches: usize,
    /// Factor by which the loudspeaker is overdriven, which distorts.
    pub drive: f64,
}

const PLAIN: Condition =
    Condition { name: "plain", drift_ppm: 0.0, jumps: 0, lost_in: 20, stretches: 0, drive: 1.0 };

const CONDITIONS: [Condition; 8] = [
    PLAIN,
    Condition { name: "exact", lost_in: 0, ..PLAIN },
    Condition { name: "drift", drift_ppm: 100.0, ..PLAIN },
    Condition { name: "jumps", jumps: 4, ..PLAIN },
    Condition { name: "lost", lost_in: 3, ..PLAIN },
    Condition { name: "stretches", stretches: 4, ..PLAIN },
    Condition { name: "loud", drive: 3.0, ..PLAIN },
    Condition { name: "all", drift_ppm: 100.0, jumps: 4, lost_in: 3, stretches: 4, drive: 2.0 },
];

/// Returns the condition with this name.
///
/// # Errors
/// Fails if no condition has this name.
pub fn named(name: &str) -> anyhow::Result<Condition> {
    let Some(condition) = CONDITIONS.iter().find(|condition| condition.name == name) else {
        let names: Vec<&str> = CONDITIONS.iter().map(|condition| condition.name).collect();
        bail!("unknown condition {name}: use {}", names.join(", "));
    };
    Ok(*condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_found_by_their_unique_names() {
        for condition in CONDITIONS {
            assert_eq!(named(condition.name).unwrap(), condition);
        }
        let error = named("silent").unwrap_err().to_string();
        assert!(error.contains("plain, exact, drift"), "{error}");
    }
}
