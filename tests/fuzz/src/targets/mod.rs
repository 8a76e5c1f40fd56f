//! Targets for public interfaces, one per file.

pub mod audio;

macro_rules! of_the_server {
    ($($name:ident,)+) => {
        $(#[cfg(feature = "server")]
        pub mod $name;)+
    };
}

of_the_server! {
    chat_bodies, config, device_socket, json, jsonrpc, litemcp, llm_request,
    packet_v1_v2_v3, recording, restore, schema, speakable, speech_frames, speech_text, text_gateway,
    uplink_text,
}
