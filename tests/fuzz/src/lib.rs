//! Fuzz targets. Each passes arbitrary bytes to one reader of external data and checks the
//! properties that must hold for any input. Targets for public interfaces are here; those for
//! private ones are in their crate, behind its feature `fuzzing`. `scripts/fuzz` generates inputs;
//! the stored inputs in `fixtures/fuzz` are replayed as tests.

pub mod targets;

/// A target: its name, which is also that of its input folders, and the function that runs one input.
pub type Target = (&'static str, fn(&[u8]));

// One program has all targets: one program per target would link the whole server each time. Decision 0047.
macro_rules! targets {
    ($($name:ident: $run:path,)+) => {
        /// All targets in alphabetical order.
        pub const TARGETS: &[Target] = &[$((stringify!($name), $run)),+];

        #[cfg(test)]
        mod tests {
            use super::*;

            $(
                #[test]
                fn $name() {
                    replay(stringify!($name), $run);
                }
            )+

            #[test]
            fn targets_and_input_folders_match() {
                check_names();
            }
        }
    };
}

#[cfg(not(feature = "server"))]
targets! {
    audio: targets::audio::run,
}

#[cfg(feature = "server")]
targets! {
    anthropic_stream: hearken_providers::llm::fuzzing::anthropic_stream,
    audio: targets::audio::run,
    chat_bodies: targets::chat_bodies::run,
    config: targets::config::run,
    device_answers: hearken_actors::device_tools::fuzzing::device_answers,
    device_socket: targets::device_socket::run,
    funasr_answers: hearken_providers::asr::fuzzing::funasr_answers,
    inbound_frames: hearken_socket::fuzzing::inbound_frames,
    json: targets::json::run,
    jsonrpc: targets::jsonrpc::run,
    litemcp: targets::litemcp::run,
    litemcp_answers: hearken_tool_sources::fuzzing::litemcp_answers,
    litemcp_stdio: hearken_tool_sources::fuzzing::litemcp_stdio,
    litemcp_tools: hearken_tool_sources::fuzzing::litemcp_tools,
    llm_request: targets::llm_request::run,
    museum_bodies: hearken_museum::fuzzing::museum_bodies,
    openai_stream: hearken_providers::llm::fuzzing::openai_stream,
    ota_report: hearken::http::fuzzing::ota_report,
    packet_v1_v2_v3: targets::packet_v1_v2_v3::run,
    recording: targets::recording::run,
    restore: targets::restore::run,
    schema: targets::schema::run,
    speakable: targets::speakable::run,
    speech_frames: targets::speech_frames::run,
    speech_text: targets::speech_text::run,
    state_answers: hearken_providers::state::fuzzing::state_answers,
    text_gateway: targets::text_gateway::run,
    tool_frames: hearken_tool_sources::fuzzing::tool_frames,
    tool_results: hearken_tool_sources::fuzzing::tool_results,
    uplink_text: targets::uplink_text::run,
    vision_form: hearken::http::fuzzing::vision_form,
}

/// The target of this name.
///
/// # Errors
/// The name is unknown; the message lists the known ones.
pub fn target(name: &str) -> Result<fn(&[u8]), String> {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, run)| *run).ok_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        format!("there is no target `{name}`; there are {}", known.join(", "))
    })
}

/// The folder with the stored inputs of every target.
#[cfg(test)]
fn kept() -> std::path::PathBuf {
    // Cargo runs a test in the folder of its package.
    std::path::PathBuf::from("../../fixtures/fuzz")
}

/// Replays the stored inputs of a target. On failure, the name printed last is that of the failing input.
#[cfg(test)]
fn replay(name: &str, run: fn(&[u8])) {
    let folder = kept().join(name);
    let inputs = std::fs::read_dir(&folder);
    let inputs: Vec<_> = inputs.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).collect();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    run(b"");
    for input in inputs {
        let file = input.unwrap().path();
        println!("{}", file.display());
        run(&std::fs::read(&file).unwrap());
    }
}

#[cfg(test)]
fn check_names() {
    for (name, _) in TARGETS {
        assert!(target(name).is_ok());
    }
    assert!(target("x").unwrap_err().contains("no target `x`; there are "));
    for folder in std::fs::read_dir(kept()).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(cfg!(not(feature = "server")) || target(&name).is_ok(), "{name} is no target");
    }
}
