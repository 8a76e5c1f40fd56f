//! Forwards bytes between client and service, with faults on the way back. Not for connections that
//! never reach the service.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::{Event, Fault, Shared, reset};

/// Maximum size of a forwarded piece, in bytes.
const PIECE_BYTES: usize = 4_096;
/// Number of duplicated bytes.
const TWICE_BYTES: usize = 64;

/// Forwards everything until either side ends.
pub(super) async fn relay(client: TcpStream, shared: &Shared, fault: &Fault) {
    let Ok(service) = TcpStream::connect(shared.service).await else { return };
    service.set_nodelay(true).ok();
    let (mut from_client, to_client) = client.into_split();
    let (from_service, mut to_service) = service.into_split();
    let up = async {
        tokio::io::copy(&mut from_client, &mut to_service).await.ok();
        to_service.shutdown().await.ok();
        // The client may have closed only its sending side.
        std::future::pending::<()>().await;
    };
    let down = Down { from_service, to_client, shared, passed: 0 };
    tokio::select! {
        () = down.run(fault) => {}
        () = up => {}
    }
}

struct Down<'a> {
    from_service: OwnedReadHalf,
    to_client: OwnedWriteHalf,
    shared: &'a Shared,
    passed: usize,
}

impl Down<'_> {
    async fn run(mut self, fault: &Fault) {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(length @ 1..) = self.from_service.read(&mut piece).await {
            if self.pass(&mut piece[..length], fault).await.is_none() {
                return;
            }
        }
        self.to_client.shutdown().await.ok();
    }

    async fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.passed += bytes.len();
        self.to_client.write_all(bytes).await.ok()
    }

    /// Forwards a piece; `None` if nothing more is to be forwarded.
    async fn pass(&mut self, piece: &mut [u8], fault: &Fault) -> Option<()> {
        match *fault {
            Fault::Latency(time) => tokio::time::sleep(time).await,
            Fault::Jitter(most) => {
                let ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..=ms))).await;
            }
            Fault::Bandwidth(bytes_per_s) => {
                let passed = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                tokio::time::sleep(Duration::from_secs(1) * passed / bytes_per_s).await;
            }
            Fault::Drip(every) => {
                for byte in piece {
                    self.write(&[*byte]).await?;
                    tokio::time::sleep(every).await;
                }
                return Some(());
            }
            Fault::At(at, event) if (self.passed..self.passed + piece.len()).contains(&at) => {
                let (before, after) = piece.split_at_mut(at - self.passed);
                self.write(before).await?;
                self.shared.hit.fetch_add(1, Ordering::SeqCst);
                return self.event(after, event).await;
            }
            _ => {}
        }
        self.write(piece).await
    }

    /// Triggers an event before these bytes.
    async fn event(&mut self, rest: &mut [u8], event: Event) -> Option<()> {
        match event {
            Event::Reset => {
                reset(self.to_client.as_ref());
                return None;
            }
            Event::Truncate => {
                self.to_client.shutdown().await.ok();
                return None;
            }
            Event::Stall => std::future::pending().await,
            Event::Pause(time) => tokio::time::sleep(time).await,
            Event::Corrupt => rest[0] ^= 0xFF,
            Event::Duplicate => {
                let twice = &rest[..rest.len().min(TWICE_BYTES)];
                self.to_client.write_all(twice).await.ok()?;
            }
            Event::Flood => {
                let zeros = vec![0; 64 << 10];
                loop {
                    self.to_client.write_all(&zeros).await.ok()?;
                }
            }
        }
        self.write(rest).await
    }
}
