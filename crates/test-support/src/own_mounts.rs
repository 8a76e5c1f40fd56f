//! A test that runs once more in a process whose mounts are its own: for a disk that is small, or a
//! file of the system that says something else. Not for what the test does there.

use std::process::{Command, Output, Stdio};

/// Longest time of such a process, in seconds.
const WITHIN: &str = "60";
/// Exit status of a process that could not be prepared.
const NOT_PREPARED: i32 = 77;

/// Returns the command that makes this address the only name service, and lets the test write
/// `/etc/hosts`. Names wait there for five seconds, longer than whoever asks.
pub fn only_name_service(address: &str) -> String {
    format!(
        "mount -t tmpfs none /mnt && echo '127.0.0.1 localhost' > /mnt/hosts \
         && printf 'nameserver {address}\\noptions timeout:5 attempts:1\\n' > /mnt/resolv.conf \
         && mount --bind /mnt/hosts /etc/hosts \
         && mount --bind /mnt/resolv.conf /etc/resolv.conf"
    )
}

/// Runs the ignored test of this name in a process of its own, after this command of a shell, with
/// these variables. Returns what it printed; none where the machine allows no mounts, and says so.
pub async fn run(prepare: &str, test: &str, variables: &[(&str, &str)]) -> Option<Output> {
    let script = format!("{prepare} || exit {NOT_PREPARED}; exec \"$0\" \"$@\"");
    let mut process = Command::new("timeout");
    process
        .args([WITHIN, "unshare", "--mount", "--propagation", "private", "sh", "-c"])
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    let running = tokio::task::spawn_blocking(move || process.output());
    let output = match running.await.unwrap() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped {test}: no program `timeout`: {error}");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let not_begun = ["timeout: ", "unshare: "].into_iter().any(|who| said.starts_with(who));
    if not_begun || output.status.code() == Some(NOT_PREPARED) {
        eprintln!("skipped {test}: this machine allows no mounts: {said}");
        return None;
    }
    eprint!("{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{test}: {}\n{printed}{said}", output.status);
    assert!(printed.contains("1 passed"), "there is no such test: {printed}");
    Some(output)
}
