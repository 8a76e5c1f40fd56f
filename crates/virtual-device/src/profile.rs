//! Differences between firmware versions, as data. Not for their common behaviour, which is in
//! [`super::firmware`].
//!
//! Source: the tags of 78/xiaozhi-esp32 (`main/application.cc`, `main/audio/audio_service.cc`,
//! Source: the tags of 78/xiaozhi-esp32 (`main/application.cc`, `main/audio/audio_service.cc`,
//! `main/protocols/`). A version between two rows behaves like the older one, unless the doc of a
//! field names that version. Unknown for all versions: the memory that is left for long messages,
//! and the duration of a reboot; both are guesses, the same for all versions.

/// Default `Device-Id`: a locally administered address, which no real device has.
pub const DEVICE_ID: &str = "02:00:00:00:00:01";
/// Default `Client-Id`.
pub const CLIENT_ID: &str = "00000000-0000-4000-8000-000000000001";

/// Protocol by which a device offers its tools to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    /// Offers none.
    None,
    /// `iot` descriptors, states and commands: the only way up to 1.6.2, a build option up to
    /// 1.7.7, removed in 1.8.0.
    Iot,
    /// MCP over the socket: a build option from 1.6.6 on, the only way since 1.8.0.
    Mcp,
}

/// Microphone packet that is dropped when the send queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropPolicy {
    /// The oldest one (from 2.4.0 on).
    Oldest,
    /// The newest one: the encoder, and with it the microphone, waits (up to 2.3.0).
    Newest,
}

/// Behaviour of one firmware version (78/xiaozhi-esp32).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Version, or `newest` for the development branch.
    pub name: &'static str,
    /// Capacity of the decode queue, in packets of any length; further packets are dropped
    /// silently. Unlimited up to 1.5.9.
    pub decode_queue_packets: usize,
    /// Capacity of the send queue, in packets. Up to 1.7.7 packets waited in the list of the main
    /// loop, without a documented limit; modelled like later versions here.
    pub send_queue_packets: usize,
    /// Packet that is dropped when that queue is full.
    pub send_queue_drops: DropPolicy,
    /// Set if audio is accepted in any state, played in idle and discarded while listening (up to
    /// 1.6.6); later it is accepted only while speaking.
    pub takes_audio_always: bool,
    /// Set if an interruption stops playback at once (up to 1.7.7); later the queued audio is
    /// played until `tts stop`.
    pub abort_silences: bool,
    /// Set if, after `tts stop` in auto mode, the rest is played before `listen start` (from 2.2
    /// on); earlier it is discarded.
    pub plays_out_before_listening: bool,
    /// Set if a wake word while speaking starts listening at once (from 2.2.4 on), also while
    /// listening if the build supports that; earlier it only sends `abort`.
    pub wake_listens_at_once: bool,
    /// Set if a wake word in idle is lost while the socket is open (2.2.0 to 2.3.0, fixed in
    /// 2.4.0).
    pub wake_lost_on_open_socket: bool,
    /// Set if wake word and button always open a new socket from idle (up to 1.6.6).
    pub new_socket_each_time: bool,
    /// Set if a `tts` message without `state` crashes the device (up to 2.3.0).
    pub crashes_without_tts_state: bool,
    /// Set if the hello contains `features` (from 1.6.6 on).
    pub features_in_hello: bool,
    /// Set if the server's session id is copied into each message (from 1.6.6 on).
    pub copies_session_id: bool,
    /// Newest supported version of the binary framing: 1 up to 1.6.0.
    pub newest_framing: u32,
    /// Set if `system` and `alert` are supported (from 1.6.0 on).
    pub knows_system: bool,
    /// Set if `custom` is a build option (from 1.8.0 on).
    pub knows_custom: bool,
    /// Protocol by which tools are offered.
    pub tools: Tools,
    /// Set if user tools are listed on request, with `withUserTools` (from 2.0.0 on).
    pub user_tools: bool,
}

const V1_5_5: Profile = Profile {
    name: "1.5.5",
    decode_queue_packets: usize::MAX,
    send_queue_packets: 40,
    send_queue_drops: DropPolicy::Newest,
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
    send_queue_drops: DropPolicy::Oldest,
    ..V2_3_0
};
const NEWEST: Profile = Profile { name: "newest", decode_queue_packets: 20, ..V2_4_2 };

/// Known versions, oldest first.
pub const PROFILES: [Profile; 13] = [
    V1_5_5, V1_6_0, V1_6_2, V1_6_6, V1_7_6, V1_8_0, V2_0_0, V2_1_0, V2_2_2, V2_2_6, V2_3_0, V2_4_2,
    NEWEST,
];

impl Profile {
    /// Returns the profile of this name.
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|p| p.name == name)
    }

    /// Returns all names, for messages: `1.6.0, 1.6.2, ...`.
    pub fn names() -> String {
        PROFILES.map(|p| p.name).join(", ")
    }
}

impl Default for Profile {
    /// Returns the latest release.
    fn default() -> Self {
        V2_4_2
    }
}

/// Build options of firmware, independent of its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Set if the server cancels echo: the hello announces it, and microphone packets contain the
    /// timestamp of the audio that was being played (framing 2).
    pub server_aec: bool,
    /// Set if the wake word is detected while listening too
    /// (`CONFIG_WAKE_WORD_DETECTION_IN_LISTENING`), if the version supports it. Off by default in
    /// firmware and on by default here, because it is harder for servers.
    pub wakes_while_listening: bool,
    /// Set if `custom` messages are shown (`CONFIG_RECEIVE_CUSTOM_MESSAGE`), if the version
    /// supports them.
    pub custom_messages: bool,
    /// Set if the hello announces a font and `glyph_push` (after 2.4.2); pushed glyphs are ignored.
    pub glyph_push: bool,
    /// Protocol by which tools are offered, in place of the profile's.
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
