//! Echo of one device: decodes the packets sent to the device and passes them to [`EchoCanceller`],
//! which removes the echo, and to [`EchoGuard`], which distinguishes it from voice. Not for how
//! they do that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::echo_canceller::EchoCanceller;
use super::echo_guard::EchoGuard;
use super::opus::{Decoder, MAX_PACKET_MS, OpusError};
use super::voice_detector::SAMPLE_RATE_HZ;

/// Maximum number of queued packets: more than a device is sent ahead.
const WAITING: usize = 32;

/// Queue of packets that were sent to a device and that its echo handling has not read yet. Clones
/// share the queue.
#[derive(Debug, Clone, Default)]
pub struct SentPackets(Arc<Mutex<VecDeque<(u32, Bytes)>>>);

/// Equal if they share one queue, so belong to the same device.
impl PartialEq for SentPackets {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SentPackets {}

impl SentPackets {
    /// Adds a packet with its stamp. If the queue is full, the oldest packet is dropped.
    pub fn push(&self, stamp: u32, opus: Bytes) {
        let mut packets = self.packets();
        if packets.len() >= WAITING {
            packets.pop_front();
        }
        packets.push_back((stamp, opus));
    }

    fn pop(&self) -> Option<(u32, Bytes)> {
        self.packets().pop_front()
    }

    fn packets(&self) -> MutexGuard<'_, VecDeque<(u32, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Echo handling of one device. Allocates nothing until something is sent to the device.
#[derive(Debug)]
pub struct Echo {
    sent: SentPackets,
    cancels: bool,
    at_work: Option<Box<AtWork>>,
}

struct AtWork {
    decoder: Decoder,
    samples: Vec<i16>,
    canceller: Option<EchoCanceller>,
    guard: EchoGuard,
}

impl Echo {
    /// Creates the echo handling for these packets. With `cancels`, the device reports which
    /// packets it has played, and the echo is removed.
    pub fn new(sent: SentPackets, cancels: bool) -> Self {
        Self { sent, cancels, at_work: None }
    }

    /// Processes the samples of one microphone packet and removes the echo. `played` is the stamp
    /// that came with the packet, 0 for none.
    pub fn hear(&mut self, played: u32, sound: &mut [i16]) {
        while let Some((stamp, opus)) = self.sent.pop() {
            if self.at_work.is_none() {
                let made = AtWork::new(self.cancels);
                let warn = |error: &_| {
                    tracing::warn!(%error, "cannot listen to what is sent to a device");
                };
                self.at_work = made.inspect_err(warn).ok().map(Box::new);
            }
            if let Some(at_work) = &mut self.at_work {
                at_work.play(stamp, &opus);
            }
        }
        let Some(at_work) = &mut self.at_work else { return };
        // The guard needs the original level: after cancellation, the residue no longer shows how
        // loud the echo was.
        at_work.guard.hear(sound);
        if let Some(canceller) = &mut at_work.canceller {
            canceller.cancel(played, sound);
        }
    }

    /// Returns true if the next frame may be nothing but echo.
    pub fn explains_next(&mut self) -> bool {
        self.at_work.as_mut().is_some_and(|at_work| at_work.guard.explains_next())
    }

    /// Discards the results of frames that were not asked for yet.
    pub fn forget(&mut self) {
        if let Some(at_work) = &mut self.at_work {
            at_work.guard.forget();
        }
    }
}

impl AtWork {
    fn new(cancels: bool) -> Result<Self, OpusError> {
        Ok(Self {
            decoder: Decoder::new(SAMPLE_RATE_HZ)?,
            samples: Vec::with_capacity(SAMPLE_RATE_HZ as usize / 1_000 * MAX_PACKET_MS),
            canceller: cancels.then(EchoCanceller::new),
            guard: EchoGuard::new(cancels),
        })
    }

    /// Processes a packet that was sent.
    fn play(&mut self, stamp: u32, opus: &[u8]) {
        self.samples.clear();
        // A packet that does not decode is silent, as in the device.
        self.decoder.decode(opus, &mut self.samples).unwrap_or_default();
        self.guard.play(&self.samples);
        if let Some(canceller) = &mut self.canceller {
            canceller.play(stamp, &self.samples);
        }
    }
}

impl std::fmt::Debug for AtWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { canceller, guard, .. } = self;
        f.debug_struct("AtWork")
            .field("canceller", canceller)
            .field("guard", guard)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::opus::Encoder;
    use crate::sound;
    use crate::voice_detector::FRAME_SAMPLES;

    #[test]
    fn sound_is_unchanged_until_something_is_sent() {
        let mut echo = Echo::new(SentPackets::default(), true);
        let sound = sound::decoded(&sound::voice_in(200, 16_000, 60));
        let mut heard = sound.clone();
        echo.hear(7, &mut heard);
        assert!(heard == sound && !echo.explains_next() && echo.at_work.is_none());
    }

    #[test]
    fn the_canceller_exists_only_if_configured() {
        for cancels in [true, false] {
            let sent = SentPackets::default();
            let mut echo = Echo::new(sent.clone(), cancels);
            let mut encoder = Encoder::new(SAMPLE_RATE_HZ, 24_000, 0).unwrap();
            sent.push(1, encoder.encode(&[100; 3 * FRAME_SAMPLES]).unwrap());
            echo.hear(0, &mut [0; FRAME_SAMPLES]);
            let at_work = echo.at_work.as_ref().unwrap();
            assert_eq!(at_work.canceller.is_some(), cancels);
        }
    }

    proptest! {
        #[test]
        fn any_packets_and_stamps_are_handled(
            steps in proptest::collection::vec((0_usize..3, 0_u32..40, proptest::collection::vec(any::<u8>(), 0..20), 0_usize..1_000), 0..60),
        ) {
            let sent = SentPackets::default();
            let mut echo = Echo::new(sent.clone(), true);
            for (sends, stamp, opus, length) in steps {
                for _ in 0..sends * 20 {
                    sent.push(stamp, opus.clone().into());
                    prop_assert!(sent.packets().len() <= WAITING);
                }
                let mut sound = vec![i16::try_from(stamp * 800).unwrap(); length];
                echo.hear(stamp, &mut sound);
                prop_assert_eq!(sound.len(), length);
                if stamp % 2 == 0 {
                    echo.explains_next();
                }
            }
        }
    }
}
