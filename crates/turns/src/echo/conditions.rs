//! Conditions under which echo is measured: what is worse than usual with the device, its network or its loudspeaker. Not
//! for carrying them out.

use anyhow::bail;

/// What is worse than usual.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// Its name in the table.
    pub name: &'static str,
    /// How much faster or slower the clock of the microphone runs than that of the loudspeaker, in millionths. Half of the
    /// devices are faster.
    pub drift_ppm: f64,
    /// Times a minute that the device runs out of packets for 60 to 120 ms, because the network held them back. From then
    /// on it plays all later by so much.
    pub jumps: usize,
    /// One stamp in so many is lost; with 0, none is.
    pub lost_in: u32,
    /// Times a minute that all stamps of 1 to 3 s are lost.
    pub stretches: usize,
    /// How much louder than usual the loudspeaker is driven, and distorts.
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

/// Returns the condition of this name.
///
/// # Errors
/// Fails if there is none.
pub fn named(name: &str) -> anyhow::Result<Condition> {
    let Some(condition) = CONDITIONS.iter().find(|condition| condition.name == name) else {
        let names: Vec<&str> = CONDITIONS.iter().map(|condition| condition.name).collect();
        bail!("no condition {name}: use {}", names.join(", "));
    };
    Ok(*condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_names_of_their_own() {
        for condition in CONDITIONS {
            assert_eq!(named(condition.name).unwrap(), condition);
        }
        let error = named("silent").unwrap_err().to_string();
        assert!(error.contains("plain, exact, drift"), "{error}");
    }
}
