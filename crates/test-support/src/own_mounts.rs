//! Runs a test again in a process with its own mounts: for a small disk, or a system file with
//! other content. Not for the test itself.

use std::process::{Command, Output, Stdio};

/// Time limit of such a process, in seconds.
const WITHIN: &str = "60";
/// Exit status of a process that could not be prepared.
const NOT_PREPARED: i32 = 77;

/// The command that makes this address the only name service, and makes `/etc/hosts` writable for
/// the test. Lookups time out after five seconds, which is longer than any caller waits.
pub fn only_name_service(address: &str) -> String {
    format!(
        "mount -t tmpfs none /mnt && echo '127.0.0.1 localhost' > /mnt/hosts \
         && printf 'nameserver {address}\\noptions timeout:5 attempts:1\\n' > /mnt/resolv.conf \
         && mount --bind /mnt/hosts /etc/hosts \
         && mount --bind /mnt/resolv.conf /etc/resolv.conf"
    )
}

/// Runs the ignored test of this name in a separate process, after this shell command and with
/// these variables. Returns its output; `None`, with the reason printed, if the machine permits no
/// mounts.
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
