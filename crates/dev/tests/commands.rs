//! `hearken-dev` as a program: what it says about arguments that cannot work. What its subcommands do
//! is tested where they serve other tests.

use std::net::TcpListener;
use std::process::Command;

/// Starts the program, and returns what it printed as an error; it has to fail.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_hearken-dev")).args(arguments).output();
    let output = output.expect("the program starts");
    assert!(!output.status.success(), "{arguments:?} has to fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_missing_recording_is_named() {
    for arguments in [["load", "missing.wav"], ["mock-services", "missing.wav"]] {
        let error = refused(&arguments);
        assert!(error.contains("missing.wav"), "{arguments:?}: {error}");
    }
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("the address of the port").to_string();
    let error = refused(&["state-server", "--listen", &address]);
    assert!(error.contains(&address), "{error}");
}
