//! What firmware versions do differently, as data. Not for what they all do alike, which is in
//! [`super::firmware`].

/// Behaviour of one firmware version (78/xiaozhi-esp32).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The version, or `newest` for the development branch.
    pub name: &'static str,
    /// Packets that wait for the decoder; a further one is dropped in silence. Counted in
    /// packets, however long they are.
    pub decode_queue_packets: usize,
    /// `tts stop` throws away what has not been played (up to 2.0); later versions play it out.
    pub stop_cuts_tail: bool,
    /// A `tts` message without `state` crashes the device (up to 2.2).
    pub crashes_without_tts_state: bool,
}

/// Known versions, oldest first.
pub const PROFILES: [Profile; 5] = [
    Profile {
        name: "1.6.0",
        decode_queue_packets: 5,
        stop_cuts_tail: true,
        crashes_without_tts_state: true,
    },
    Profile {
        name: "1.6.2",
        decode_queue_packets: 10,
        stop_cuts_tail: true,
        crashes_without_tts_state: true,
    },
    Profile {
        name: "2.0.0",
        decode_queue_packets: 40,
        stop_cuts_tail: true,
        crashes_without_tts_state: true,
    },
    Profile {
        name: "2.4.2",
        decode_queue_packets: 40,
        stop_cuts_tail: false,
        crashes_without_tts_state: false,
    },
    Profile {
        name: "newest",
        decode_queue_packets: 20,
        stop_cuts_tail: false,
        crashes_without_tts_state: false,
    },
];

impl Profile {
    /// The profile of this name.
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|p| p.name == name)
    }

    /// All names, for messages: `1.6.0, 1.6.2, ...`.
    pub fn names() -> String {
        PROFILES.map(|p| p.name).join(", ")
    }
}

impl Default for Profile {
    /// The last release.
    fn default() -> Self {
        let [.., release, _] = PROFILES;
        release
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found_by_name() {
        for (name, packets) in
            [("1.6.0", 5), ("1.6.2", 10), ("2.0.0", 40), ("2.4.2", 40), ("newest", 20)]
        {
            assert_eq!(Profile::named(name).map(|p| p.decode_queue_packets), Some(packets));
        }
        assert_eq!(Profile::named("0.1"), None);
        assert_eq!(Profile::default().name, "2.4.2");
    }
}
