//! What firmware versions do differently, as data. Not for what they all do alike, which is in
//! [`super::firmware`].
//!
//! Read in the tagged sources of 78/xiaozhi-esp32 (`main/application.cc`,
//! `main/audio/audio_service.cc`, `main/protocols/`). A version between two rows does as the older
//! one, unless it is the version that a field's doc names. Not known for any version: how much
//! memory is left for long messages, and how long a reboot takes; both are guessed the same for all.

/// How people's tools are offered to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    /// Not at all.
    None,
    /// `iot` descriptors, states and commands: all there was up to 1.6.2, a choice of the build up
    /// to 1.7.7, gone in 1.8.0.
    Iot,
    /// MCP over the socket: a choice of the build from 1.6.6 on, the only way since 1.8.0.
    Mcp,
}

/// Which packet of the microphone is lost when the send queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drops {
    /// The one that has waited longest (from 2.4.0 on).
    Oldest,
    /// The one just heard: the encoder, and with it the microphone, waits (up to 2.3.0).
    Newest,
}

/// Behaviour of one firmware version (78/xiaozhi-esp32).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The version, or `newest` for the development branch.
    pub name: &'static str,
    /// Packets that wait for the decoder; a further one is dropped in silence. Counted in
    /// packets, however long they are. Without a limit up to 1.5.9.
    pub decode_queue_packets: usize,
    /// Packets of the microphone that wait for the socket. Up to 1.7.7 they waited in the main
    /// loop's own list, without a limit that its sources tell; counted here like later ones.
    pub send_queue_packets: usize,
    /// What is lost when that queue is full.
    pub send_queue_drops: Drops,
    /// Audio is taken in any state, played in idle and thrown away while listening (up to 1.6.6);
    /// later it is taken only while speaking.
    pub takes_audio_always: bool,
    /// An interruption silences the loudspeaker at once (up to 1.7.7); later what waits is played
    /// until `tts stop`.
    pub abort_silences: bool,
    /// After `tts stop` in auto mode the rest is played before `listen start` (from 2.2 on);
    /// earlier it is thrown away.
    pub plays_out_before_listening: bool,
    /// A wake word while speaking goes to listening by itself (from 2.2.4 on), also while
    /// listening where the build says so; earlier it only says `abort`.
    pub wake_listens_at_once: bool,
    /// A wake word in idle over an open socket is lost (2.2.0 to 2.3.0, mended in 2.4.0).
    pub wake_lost_on_open_socket: bool,
    /// Wake word and button always open a new socket from idle (up to 1.6.6).
    pub new_socket_each_time: bool,
    /// A `tts` message without `state` crashes the device (up to 2.3.0).
    pub crashes_without_tts_state: bool,
    /// The hello has `features` (from 1.6.6 on).
    pub features_in_hello: bool,
    /// The server's session id is read and copied into each message (from 1.6.6 on).
    pub copies_session_id: bool,
    /// Newest version of the binary framing: 1 up to 1.6.0.
    pub newest_framing: u32,
    /// `system` and `alert` are understood (from 1.6.0 on).
    pub knows_system: bool,
    /// `custom` can be built in (from 1.8.0 on).
    pub knows_custom: bool,
    /// How tools are offered.
    pub tools: Tools,
    /// Tools for people are listed on request, with `withUserTools` (from 2.0.0 on).
    pub user_tools: bool,
}

const V1_5_5: Profile = Profile {
    name: "1.5.5",
    decode_queue_packets: usize::MAX,
    send_queue_packets: 40,
    send_queue_drops: Drops::Newest,
    takes_audio_always: true,
    abort_silences: true,
    plays_out_before_listening: false,
    wake_listens_at_once: false,
    wake_lost_on_open_socket: false,
    new_socket_each_time: true,
    crashes_without_tts_state: true,
    features_in_hello: false,
    copies_session_id: false,
    newest_framing: 1,
    knows_system: false,
    knows_custom: false,
    tools: Tools::Iot,
    user_tools: false,
};
const V1_6_0: Profile =
    Profile { name: "1.6.0", decode_queue_packets: 5, knows_system: true, ..V1_5_5 };
const V1_6_2: Profile =
    Profile { name: "1.6.2", decode_queue_packets: 10, newest_framing: 3, ..V1_6_0 };
const V1_6_6: Profile = Profile {
    name: "1.6.6",
    decode_queue_packets: 40,
    features_in_hello: true,
    copies_session_id: true,
    ..V1_6_2
};
const V1_7_6: Profile =
    Profile { name: "1.7.6", takes_audio_always: false, new_socket_each_time: false, ..V1_6_6 };
const V1_8_0: Profile = Profile {
    name: "1.8.0",
    abort_silences: false,
    knows_custom: true,
    tools: Tools::Mcp,
    ..V1_7_6
};
const V2_0_0: Profile = Profile { name: "2.0.0", user_tools: true, ..V1_8_0 };
const V2_1_0: Profile = Profile { name: "2.1.0", ..V2_0_0 };
const V2_2_2: Profile = Profile {
    name: "2.2.2",
    plays_out_before_listening: true,
    wake_lost_on_open_socket: true,
    ..V2_1_0
};
const V2_2_6: Profile = Profile { name: "2.2.6", wake_listens_at_once: true, ..V2_2_2 };
const V2_3_0: Profile = Profile { name: "2.3.0", ..V2_2_6 };
const V2_4_2: Profile = Profile {
    name: "2.4.2",
    wake_lost_on_open_socket: false,
    crashes_without_tts_state: false,
    send_queue_drops: Drops::Oldest,
    ..V2_3_0
};
const NEWEST: Profile = Profile { name: "newest", decode_queue_packets: 20, ..V2_4_2 };

/// Known versions, oldest first.
pub const PROFILES: [Profile; 13] = [
    V1_5_5, V1_6_0, V1_6_2, V1_6_6, V1_7_6, V1_8_0, V2_0_0, V2_1_0, V2_2_2, V2_2_6, V2_3_0, V2_4_2,
    NEWEST,
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
        V2_4_2
    }
}

/// Choices made when firmware is built, whatever its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The server cancels echo: announced in the hello, and packets of the microphone carry the
    /// time stamped on what was being played (framing 2).
    pub server_aec: bool,
    /// The wake word is heard while listening too (`CONFIG_WAKE_WORD_DETECTION_IN_LISTENING`),
    /// where the version can do so at all. Firmware's own default is no; ours is yes, since
    /// servers find that harder.
    pub wakes_while_listening: bool,
    /// `custom` messages are shown (`CONFIG_RECEIVE_CUSTOM_MESSAGE`), where the version knows them.
    pub custom_messages: bool,
    /// The hello tells of a font and of `glyph_push` (after 2.4.2); pushed glyphs are ignored.
    pub glyph_push: bool,
    /// Tools are offered in this way instead of the profile's.
    pub tools: Option<Tools>,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            server_aec: false,
            wakes_while_listening: true,
            custom_messages: true,
            glyph_push: false,
            tools: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found_by_name() {
        for (name, packets) in [
            ("1.5.5", usize::MAX),
            ("1.6.0", 5),
            ("1.6.2", 10),
            ("1.6.6", 40),
            ("2.0.0", 40),
            ("2.4.2", 40),
            ("newest", 20),
        ] {
            assert_eq!(Profile::named(name).map(|p| p.decode_queue_packets), Some(packets));
        }
        assert_eq!(Profile::named("0.1"), None);
        assert_eq!(Profile::default().name, "2.4.2");
        assert!(Profile::names().starts_with("1.5.5, 1.6.0"));
    }
}
