//! A proxy between the server and a service that injects one fault at a time: slow, silent, cut,
//! changed or replaced responses. Works below HTTP and WebSocket, so that the service itself is the
//! usual stub. Not for the expected reaction of the server.
//!
//! ```text
//! let proxy = FaultProxy::before(&stub.url()).await;
//! connect_to(proxy.url());
//! proxy.set(Fault::At(300, Event::Reset));
//! proxy.set(Fault::None);
//! ```

mod answers;
mod relay;
pub mod rows;
mod tls;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use url::Url;

use crate::eventually;

pub use answers::{Answer, retry_after, status};
pub use tls::{SecurePostgres, Tls, authority_pem};

/// Fault of connections.
#[derive(Debug, Clone)]
pub enum Fault {
    /// No fault: all bytes are forwarded.
    None,
    /// Connections are accepted and reset before anything is read.
    Reset,
    /// There is no listener, as if the service process had ended.
    Gone,
    /// Connections are accepted, but nothing is forwarded or answered.
    HalfOpen,
    /// Open connections go silent, as if a cable had been pulled; new ones work.
    Frozen,
    /// Each piece of a response is delayed by this time.
    Latency(Duration),
    /// Each piece of a response is delayed by a random time up to this one.
    Jitter(Duration),
    /// Responses are limited to this many bytes a second.
    Bandwidth(u32),
    /// Responses are sent byte by byte, at this interval.
    Drip(Duration),
    /// An event after this many response bytes on a connection.
    At(usize, Event),
    /// This response replaces that of the service.
    Answers(Answer),
    /// At most this many connections are open; further ones are reset.
    ConnectionLimit(usize),
    /// The TLS handshake fails.
    Tls(Tls),
}

/// An event during a response.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The connection is reset.
    Reset,
    /// The connection is closed properly, but too early.
    Truncate,
    /// Nothing more is sent, and the connection stays open.
    Stall,
    /// Nothing is sent for this long, then the rest.
    Pause(Duration),
    /// One byte is changed.
    Corrupt,
    /// The next bytes are sent twice.
    Duplicate,
    /// Endless zeros are sent.
    Flood,
}

/// A running proxy; stops when dropped.
pub struct FaultProxy {
    url: Url,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    service: SocketAddr,
    /// True if clients send a request before the TLS handshake, as those of PostgreSQL do.
    asks_for_tls: bool,
    fault: watch::Sender<Fault>,
    open: AtomicUsize,
    hit: AtomicUsize,
    /// Held by the connections since the last [`FaultProxy::set_and_end`].
    era: Mutex<Arc<()>>,
}

/// Counts a connection while it is open.
struct Open {
    shared: Arc<Shared>,
    _era: Arc<()>,
}

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        let era = Arc::clone(&shared.era.lock().unwrap());
        Self { shared: Arc::clone(shared), _era: era }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FaultProxy {
    /// Starts a proxy for the service at this URL.
    pub async fn before(service: &str) -> Self {
        let mut url = Url::parse(service).unwrap();
        let host = url.host_str().unwrap();
        let port = url.port().unwrap();
        let service = tokio::net::lookup_host((host, port)).await.unwrap().next().unwrap();
        // Reserved, so that no other process gets the port while the service is gone.
        let address = SocketAddr::from(([127, 0, 0, 1], crate::free_port()));
        let listener = TcpListener::bind(address).await.unwrap();
        url.set_port(Some(address.port())).unwrap();
        let shared = Arc::new(Shared {
            service,
            asks_for_tls: url.scheme().starts_with("postgres"),
            fault: watch::Sender::new(Fault::None),
            open: AtomicUsize::new(0),
            hit: AtomicUsize::new(0),
            era: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { url, shared, task }
    }

    /// Its URL, in the form of the service's.
    pub fn url(&self) -> String {
        let url = self.url.as_str();
        if self.url.path() == "/" { url.trim_end_matches('/').to_owned() } else { url.to_owned() }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.url.port().unwrap()
    }

    /// Injects this fault from now on, and ends the open connections, or freezes them.
    pub fn set(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// The same; returns once the connections that were open have ended, or at once if they are frozen.
    pub async fn set_and_end(&self, fault: Fault) {
        if matches!(fault, Fault::Frozen) {
            return self.set(fault);
        }
        let ending = std::mem::take(&mut *self.shared.era.lock().unwrap());
        self.set(fault);
        let ended = async || (Arc::strong_count(&ending) == 1).then_some(());
        eventually("the end of former connections", ended).await;
    }

    /// Waits until no connection is open.
    pub async fn until_closed(&self) {
        eventually("the end of every connection", async || (self.open() == 0).then_some(())).await;
    }

    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Number of affected connections so far.
    pub fn hit(&self) -> usize {
        self.shared.hit.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut relays = JoinSet::new();
    let mut faults = shared.fault.subscribe();
    let address = listener.local_addr().unwrap();
    let mut listener = Some(listener);
    loop {
        let gone = matches!(*faults.borrow_and_update(), Fault::Gone);
        if gone || listener.is_none() {
            // The address is free for a new listener only once the old one is closed.
            drop(listener.take());
            if !gone {
                listener = Some(TcpListener::bind(address).await.unwrap());
            }
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok((client, _)) = accepted => {
                let shared = Arc::clone(&shared);
                relays.spawn(async move { serve(client, &shared).await });
            }
            Some(_) = relays.join_next() => {}
            Ok(()) = faults.changed() => {}
        }
    }
}

/// Serves one connection until it ends or the fault changes.
async fn serve(client: TcpStream, shared: &Arc<Shared>) {
    let mut faults = shared.fault.subscribe();
    let fault = faults.borrow_and_update().clone();
    let _open = Open::new(shared);
    client.set_nodelay(true).ok();
    let mut hurting = pin!(hurt(client, fault, shared));
    tokio::select! {
        () = &mut hurting => return,
        _ = faults.changed() => {}
    }
    if matches!(*faults.borrow_and_update(), Fault::Frozen) {
        shared.hit.fetch_add(1, Ordering::SeqCst);
        faults.changed().await.ok();
    }
}

async fn hurt(mut client: TcpStream, fault: Fault, shared: &Shared) {
    if !matches!(fault, Fault::None | Fault::Frozen | Fault::At(..)) {
        shared.hit.fetch_add(1, Ordering::SeqCst);
    }
    match fault {
        Fault::Reset | Fault::Gone => reset(&client),
        Fault::ConnectionLimit(most) if shared.open.load(Ordering::SeqCst) > most => reset(&client),
        Fault::HalfOpen => std::future::pending().await,
        Fault::Answers(answer) => answers::give(&mut client, &answer).await,
        Fault::Tls(how) => tls::fail_handshake(client, how, shared.asks_for_tls).await,
        fault => relay::relay(client, shared, &fault).await,
    }
}

/// Makes the connection end with a reset when it is dropped.
fn reset(connection: &TcpStream) {
    connection.set_zero_linger().ok();
}
