//! The program as a command. Not for servers that keep running.

use std::path::Path;

use tokio::process::Command;

/// Runs the command in this data folder; returns its exit code and output.
pub(crate) async fn hearken(data_dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    hearken_with(data_dir, &[], args).await
}

/// The same with these environment variables.
pub(crate) async fn hearken_with(
    data_dir: &Path,
    env: &[(&str, &str)],
    args: &[&str],
) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hearken"))
        .args(args)
        .env("HEARKEN__SERVER__DATA_DIR", data_dir)
        .envs(env.iter().copied())
        .current_dir(folder.path())
        .output()
        .await
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
