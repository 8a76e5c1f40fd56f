//! The reference state server on a free loopback port. Not for its answers.

use std::sync::mpsc;
use std::thread::JoinHandle;

use actix_web::dev::ServerHandle;
use hearken_state_server::Storage;

/// A running state server; stops when dropped.
pub struct Worlds {
    /// Its URL.
    pub url: String,
    handle: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Worlds {
    /// Starts a state server with this seed for its dice.
    pub fn start(seed: u64) -> Self {
        let (started, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let listen = ([127, 0, 0, 1], 0).into();
                let (server, address) =
                    hearken_state_server::server(listen, Storage::new(Some(seed))).unwrap();
                started.send((server.handle(), address)).unwrap();
                server.await.unwrap();
            });
        });
        let (handle, address) = told.recv().expect("it starts");
        Self { url: format!("http://{address}"), handle, thread: Some(thread) }
    }
}

impl Drop for Worlds {
    fn drop(&mut self) {
        // The call itself stops the server; its future only resolves at the end.
        drop(self.handle.stop(false));
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
