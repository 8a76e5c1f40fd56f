//! The replies of the language model to the gateway's clients, and how client programs are run. Not
//! for assertions.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::support::app::Vendors;

/// Time limit of a program: interpreters start slowly on a busy machine.
const RUNS_WITHIN: Duration = Duration::from_secs(100);
/// Maximum number of echoed characters.
const ECHO_CHARS: usize = 60;

/// Vendors whose model calls the clients' tools for the matching requests and echoes other messages.
pub(super) async fn vendors() -> Vendors {
    super::answering(said).await
}

fn said(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    match &*asked {
        "我的电量还剩多少？" => "call get_battery {}".into(),
        "把音量调到50" => r#"call set_volume {"volume": 50}"#.into(),
        "打开客厅的灯" => r#"call device_light_turn_on {"room": "客厅"}"#.into(),
        "讲一个很长的故事" => "从前有座山，山里有座庙。".repeat(60),
        "说得漂亮一点" => "**好的**，★今天😀是个*好日子*，出去走走吧。".into(),
        other => {
            let echo: String = other.chars().take(ECHO_CHARS).collect();
            format!("你说的是：{echo}")
        }
    }
}

/// A program of this folder.
pub(super) fn program(name: &str) -> PathBuf {
    hearken_test_support::repository().join("tests/it/text_gateway/clients").join(name)
}

/// Runs a program and returns its output; panics with the output if it fails.
pub(super) async fn output_of(
    interpreter: impl AsRef<OsStr>,
    arguments: &[&dyn AsRef<OsStr>],
) -> String {
    let child = Command::new(interpreter)
        .args(arguments.iter().map(|argument| argument.as_ref()))
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(RUNS_WITHIN, child).await.expect("it ends").unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let out = text(&output.stdout);
    let err = text(&output.stderr);
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out
}
