//! Text messages of the device, built as firmware does: strings are inserted unescaped, so a wake
//! word with quotes makes a message that is not JSON. Not for the time of sending.

use hearken_proto::device::{AudioParams, ListenMode};

use super::profile::{Build, Profile, Tools};

/// Returns the first message of the device.
pub(super) fn hello(
    profile: &Profile,
    build: &Build,
    tools: Tools,
    framing: u32,
    audio: &AudioParams,
) -> String {
    let AudioParams { format, sample_rate, channels, frame_duration } = audio;
    let mut features = Vec::new();
    if build.server_aec {
        features.push("\"aec\":true");
    }
    if tools == Tools::Mcp {
        features.push("\"mcp\":true");
    }
    let mut font = "";
    if build.glyph_push {
        features.push("\"glyph_push\":true");
        font = r#""text_font":{"bundle":"noto","charset":"basic","size":14,"bpp":1},"#;
    }
    let features = if profile.features_in_hello {
        format!("\"features\":{{{}}},", features.join(","))
    } else {
        String::new()
    };
    format!(
        "{{\"type\":\"hello\",\"version\":{framing},{features}{font}\"transport\":\"websocket\",\
         \"audio_params\":{{\"format\":\"{format}\",\"sample_rate\":{sample_rate},\
         \"channels\":{channels},\"frame_duration\":{frame_duration}}}}}"
    )
}

/// Returns the notice that the microphone opens.
pub(super) fn listen_start(session_id: &str, mode: ListenMode) -> String {
    let mode = mode.as_str();
    message(session_id, &format!(r#""type":"listen","state":"start","mode":"{mode}""#))
}

/// Returns the notice that the push-to-talk button was released.
pub(super) fn listen_stop(session_id: &str) -> String {
    message(session_id, r#""type":"listen","state":"stop""#)
}

/// Returns the notice that the wake word was detected.
pub(super) fn listen_detect(session_id: &str, word: &str) -> String {
    message(session_id, &format!(r#""type":"listen","state":"detect","text":"{word}""#))
}

/// Returns the notice that the person interrupts, by wake word or by button.
pub(super) fn abort(session_id: &str, by_wake_word: bool) -> String {
    let reason = if by_wake_word { r#","reason":"wake_word_detected""# } else { "" };
    message(session_id, &format!(r#""type":"abort"{reason}"#))
}

/// Returns an answer of the MCP server.
pub(super) fn mcp(session_id: &str, payload: &str) -> String {
    message(session_id, &format!(r#""type":"mcp","payload":{payload}"#))
}

fn message(session_id: &str, rest: &str) -> String {
    format!(r#"{{"session_id":"{session_id}",{rest}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_match_their_versions() {
        let hello = |name: &str, build: Build, tools| {
            let profile = Profile::named(name).unwrap();
            hello(&profile, &build, tools, 1, &AudioParams::default())
        };
        let audio = r#""transport":"websocket","audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}"#;
        let plain = Build::default();
        for (text, features) in [
            (hello("1.5.5", plain.clone(), Tools::Iot), ""),
            (hello("1.7.6", plain.clone(), Tools::Iot), r#""features":{},"#),
            (hello("2.4.2", plain, Tools::Mcp), r#""features":{"mcp":true},"#),
            (
                hello("2.4.2", Build { server_aec: true, ..Build::default() }, Tools::Mcp),
                r#""features":{"aec":true,"mcp":true},"#,
            ),
        ] {
            assert_eq!(text, format!(r#"{{"type":"hello","version":1,{features}{audio}"#));
        }
        let fonts = Build { glyph_push: true, ..Build::default() };
        let json: serde_json::Value =
            serde_json::from_str(&hello("newest", fonts, Tools::Mcp)).unwrap();
        assert_eq!(json["features"]["glyph_push"], true);
        assert_eq!(json["text_font"]["size"], 14);
    }

    #[test]
    fn strings_are_inserted_unescaped() {
        assert_eq!(
            listen_detect("s", "say \"hi\""),
            r#"{"session_id":"s","type":"listen","state":"detect","text":"say "hi""}"#
        );
        assert_eq!(abort("", false), r#"{"session_id":"","type":"abort"}"#);
        assert_eq!(
            abort("s", true),
            r#"{"session_id":"s","type":"abort","reason":"wake_word_detected"}"#
        );
        assert_eq!(
            listen_start("s", ListenMode::Realtime),
            r#"{"session_id":"s","type":"listen","state":"start","mode":"realtime"}"#
        );
        assert_eq!(listen_stop("s"), r#"{"session_id":"s","type":"listen","state":"stop"}"#);
    }
}
