//! Notifications of the program to systemd, over a datagram socket. Not for the reactions of systemd.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::app::Vendors;
use crate::support::process::ServerProcess;

/// The next notification of the server.
fn next(socket: &UnixDatagram) -> String {
    let mut word = [0; 256];
    let length = socket.recv(&mut word).expect("a notification");
    String::from_utf8(word[..length].to_vec()).unwrap().trim().to_owned()
}

#[tokio::test]
async fn systemd_is_notified_of_start_watchdog_and_end() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let env = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "3000000")];
    let server = ServerProcess::start(&vendors, &env).await;
    // Before the store is upgraded, which may take longer than the manager allows for a start.
    let first = next(&socket);
    assert!(first.starts_with("EXTEND_TIMEOUT_USEC="), "{first}");
    let ready = loop {
        let word = next(&socket);
        if !word.starts_with("EXTEND_TIMEOUT_USEC=") {
            break word;
        }
    };
    assert_eq!(ready, "READY=1");
    for _ in 0..3 {
        assert_eq!(next(&socket), "WATCHDOG=1");
    }
    let pid = Pid::from_raw(server.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let last = loop {
        let word = next(&socket);
        if word != "WATCHDOG=1" {
            break word;
        }
    };
    assert_eq!(last, "STOPPING=1");
}
