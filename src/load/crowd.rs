//! The crowd: devices that connect one after the other, some of which talk, again and again. Not
//! for measuring.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::{AudioParams, ListenMode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::figures::{Figures, Meter, Shared};
use crate::emulator::clock::Drift;
use crate::emulator::events::{Event, State};
use crate::emulator::firmware::Firmware;
use crate::emulator::profile::Profile;
use crate::emulator::socket::{Device, Endpoint, SocketError};

/// From the wake word to the open microphone, and from the end of speech to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Packets of a microphone come this often.
const PACKET: Duration = Duration::from_millis(60);
/// Wait before a device that was refused tries again.
const AGAIN: Duration = Duration::from_secs(1);

/// Who comes and what they do.
#[derive(Debug, Clone)]
pub struct Crowd {
    /// Where each device connects, and as whom; their number is the number of devices.
    pub endpoints: Vec<Endpoint>,
    /// How many of them talk; the others stay connected.
    pub talking: usize,
    /// The devices come evenly over this time.
    pub ramp: Duration,
    /// What each person says, in packets of 60 ms.
    pub speech: Arc<[Bytes]>,
    /// Sent while the person waits: what an open microphone hears in a quiet room.
    pub silence: Bytes,
    /// From the end of an answer to the next words.
    pub pause: Duration,
    /// The devices' firmware.
    pub profile: Profile,
}

/// Lets the crowd come and talk until the token ends it, and tells what was measured; `look` sees
/// the figures every two seconds.
pub async fn run(crowd: Crowd, end: CancellationToken, look: impl Fn(&Figures)) -> Figures {
    let shared = Shared::default();
    let crowd = Arc::new(crowd);
    let mut people = JoinSet::new();
    let each = crowd.ramp / u32::try_from(crowd.endpoints.len().max(1)).unwrap_or(u32::MAX);
    for number in 0..crowd.endpoints.len() {
        let wait = each * u32::try_from(number).unwrap_or(u32::MAX);
        let (crowd, shared, end) = (Arc::clone(&crowd), shared.clone(), end.clone());
        people.spawn(async move {
            let life = live(&crowd, number, wait, &shared);
            end.run_until_cancelled(life).await;
        });
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(2));
    loop {
        tokio::select! {
            _ = ticks.tick() => look(&shared.lock()),
            person = people.join_next() => match person {
                Some(Err(error)) if error.is_panic() => shared.error("a virtual device panicked"),
                Some(_) => {}
                None => break,
            },
        }
    }
    shared.lock().clone()
}

/// One device, until it is dropped. A lost connection is made anew.
async fn live(crowd: &Crowd, number: usize, wait: Duration, shared: &Shared) {
    sleep(wait).await;
    let endpoint = &crowd.endpoints[number];
    let uplink = AudioParams::default();
    let profile = crowd.profile.clone();
    let firmware = Firmware::new(profile, ListenMode::Auto, endpoint.framing, &uplink);
    let meter = Meter::new(shared.clone());
    let mut device = Device::watched(endpoint.clone(), firmware, meter, Drift::default());
    let talks = number < crowd.talking;
    loop {
        let lived = if talks { talk(crowd, &mut device).await } else { stay(&mut device).await };
        match lived {
            Ok(true) if talks => shared.lock().turns += 1,
            Ok(false) if talks => shared.error("no answer within 60 s"),
            Ok(_) => {}
            Err(error) => {
                shared.error(&short(&error));
                sleep(AGAIN).await;
            }
        }
    }
}

/// Connects where that is needed. False where the microphone did not open in time.
async fn open(device: &mut Device<Meter>) -> Result<bool, SocketError> {
    if !device.firmware().microphone_open() {
        if device.firmware().state() == State::Idle {
            device.happen(Event::Wake { word: None }).await?;
        }
        let deadline = Instant::now() + PATIENCE;
        device.live_until(deadline, |_, firmware| firmware.microphone_open()).await?;
    }
    Ok(device.firmware().microphone_open())
}

/// One turn: the person speaks and hears the answer out. False where none came.
async fn talk(crowd: &Crowd, device: &mut Device<Meter>) -> Result<bool, SocketError> {
    if !open(device).await? {
        return Ok(false);
    }
    let answers = device.report().answers;
    let mut due = Instant::now();
    for packet in &*crowd.speech {
        due += PACKET;
        device.live_until(due, |_, _| false).await?;
        device.happen(Event::Microphone(packet.clone())).await?;
    }
    let now = device.now();
    device.watcher_mut().speech_ended(now);
    let deadline = Instant::now() + PATIENCE;
    while device.report().answers == answers && device.is_connected() && Instant::now() < deadline {
        due += PACKET;
        let listening = device.firmware().microphone_open();
        let until = if listening { due } else { deadline };
        device.live_until(until, move |meter, _| meter.answers > answers).await?;
        if listening {
            device.happen(Event::Microphone(crowd.silence.clone())).await?;
        }
    }
    let answered = device.report().answers > answers;
    // Firmware plays on for a moment and only then listens again.
    let rest = Instant::now() + crowd.pause;
    let resting = device.live_until(rest, |_, _| false);
    timeout_at(rest + PATIENCE, resting).await.unwrap_or(Ok(()))?;
    Ok(answered)
}

/// Stays connected and says nothing.
async fn stay(device: &mut Device<Meter>) -> Result<bool, SocketError> {
    let open = open(device).await?;
    let for_long = Instant::now() + Duration::from_secs(86_400);
    device.live_until(for_long, |_, firmware| firmware.state() == State::Idle).await?;
    Ok(open)
}

/// An error without its address, so that equal ones are counted together.
fn short(error: &SocketError) -> String {
    match error {
        SocketError::Address { .. } => "an address that cannot be used".into(),
        SocketError::Refused { reason, .. } => format!("not reached: {reason}"),
        SocketError::Status { status, .. } => format!("refused with HTTP status {status}"),
        SocketError::Handshake { reason, .. } => format!("no WebSocket: {reason}"),
    }
}
