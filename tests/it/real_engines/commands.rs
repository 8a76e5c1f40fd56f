//! Commands of the server that start the program with the engines. Not for the engines themselves.

use std::process::Stdio;

use tokio::process::Command;

use super::server::{engines, path_with};
use crate::support::process::program;

#[tokio::test]
async fn the_commands_speech_and_llm_start_the_engines() {
    let Some(engines) = engines() else { return };
    for (command, option) in [("speech", "--asr-listen"), ("llm", "--prompt-cache")] {
        let shown = Command::new(program())
            .args([command, "--help"])
            .env("PATH", path_with(&engines))
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(shown.status.success() && text.contains(option), "{command}: {shown:?}");
    }
}
