//! Tests of the device's socket against a server that stops reading, on a real connection. Not for
//! the rules of the device.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hearken_proto::device::{AudioParams, ListenMode};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use crate::firmware::{Event, Firmware};
use crate::profile::Profile;
use crate::socket::{Device, Endpoint};

const PATIENCE: Duration = Duration::from_secs(20);
/// More than two sockets of this machine buffer.
const MOST_PACKETS: u64 = 40_000;
const HELLO: &str = r#"{"type":"hello","transport":"websocket"}"#;

/// Returns the number of a packet: its first eight bytes.
fn number(packet: &[u8]) -> u64 {
    u64::from_be_bytes(packet[..8].try_into().unwrap())
}

fn packet(number: u64) -> Bytes {
    let mut packet = vec![0; 1_200];
    packet[..8].copy_from_slice(&number.to_be_bytes());
    packet.into()
}

#[tokio::test]
async fn a_server_that_stops_reading_loses_only_the_oldest_packets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let (read_on, reads) = oneshot::channel::<u64>();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = accept_async(stream).await.unwrap();
        socket.send(Message::text(HELLO)).await.unwrap();
        let last = reads.await.unwrap();
        let mut numbers = Vec::new();
        while numbers.last() != Some(&last) {
            if let Message::Binary(packet) = socket.next().await.unwrap().unwrap() {
                numbers.push(number(&packet));
            }
        }
        numbers
    });
    let endpoint = Endpoint {
        url,
        device_id: "02:00:00:00:00:01".into(),
        client_id: "c".into(),
        token: None,
        framing: 1,
    };
    let uplink = AudioParams::default();
    let firmware = Firmware::new(Profile::default(), ListenMode::Auto, 1, &uplink);
    let mut device = Device::new(endpoint, firmware);
    device.handle(Event::Button).await.unwrap();
    let until = Instant::now() + PATIENCE;
    device.run_until(until, |_, firmware| firmware.microphone_open()).await.unwrap();
    let mut last = 0;
    while device.report().packets().unsent < 10 && last < MOST_PACKETS {
        for _ in 0..500 {
            device.handle(Event::Microphone(packet(last))).await.unwrap();
            last += 1;
        }
    }
    let unsent = device.report().packets().unsent;
    assert!(unsent >= 10, "the socket took {last} packets");
    read_on.send(last - 1).unwrap();
    let reading = async {
        // The device must run for its queue to be sent.
        let live = device.run_until(Instant::now() + PATIENCE, |_, _| false);
        tokio::select! { numbers = server => numbers.unwrap(), _ = live => Vec::new() }
    };
    let numbers = timeout(PATIENCE, reading).await.expect("the queue is sent");
    assert_eq!(numbers.len() as u64 + unsent as u64, last);
    assert!(numbers.is_sorted());
    let newest: Vec<_> = numbers.iter().rev().take(40).copied().collect();
    assert_eq!(newest, (last - 40..last).rev().collect::<Vec<_>>(), "the newest 40 were queued");
}
