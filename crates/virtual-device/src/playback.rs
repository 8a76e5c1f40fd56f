//! Decode queue and loudspeaker of the device: decides when each packet is played, or that it is
//! dropped. Pure: time is an argument. Not for states and messages, which are in
//! [`super::firmware`].

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::AudioPacket;

use super::events::{Fact, Loss, Note};

/// Number of queued timestamps of played packets above which firmware sends none.
const TIMESTAMPS: usize = 3;
/// Maximum number of stored timestamps; firmware has no limit.
const MOST_TIMESTAMPS: usize = 64;

/// Decode queue with the packet that is being played.
#[derive(Debug)]
pub(super) struct Playback {
    capacity: usize,
    queue: VecDeque<QueuedPacket>,
    current: Option<Current>,
    /// Time at which the queue ran empty while more packets were expected.
    starved_at: Option<Duration>,
    /// Longest packet that the decoder accepts.
    longest: Duration,
    /// Timestamps of played packets, for microphone packets.
    played: VecDeque<u32>,
}

#[derive(Debug)]
struct QueuedPacket {
    opus: Bytes,
    timestamp_ms: u32,
    length: Duration,
}

#[derive(Debug)]
struct Current {
    until: Duration,
    timestamp_ms: u32,
}

impl Playback {
    pub(super) fn new(capacity: usize, longest: Duration) -> Self {
        Self {
            capacity,
            queue: VecDeque::new(),
            current: None,
            starved_at: None,
            longest,
            played: VecDeque::new(),
        }
    }

    /// Sets the longest packet, as announced by a new hello.
    pub(super) fn set_longest(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// Advances playback to `now`.
    pub(super) fn advance(&mut self, now: Duration, notes: &mut Vec<Note>) {
        while let Some(current) = &self.current {
            let until = current.until;
            if until > now {
                return;
            }
            if current.timestamp_ms > 0 && self.played.len() < MOST_TIMESTAMPS {
                self.played.push_back(current.timestamp_ms);
            }
            self.current = None;
            if !self.start_next(until, notes) {
                self.starved_at = Some(until);
                notes.push(Note { at: until, fact: Fact::PlaybackEmpty });
            }
        }
    }

    /// Queues a packet that arrived while the device speaks.
    pub(super) fn push(&mut self, now: Duration, packet: AudioPacket, notes: &mut Vec<Note>) {
        let AudioPacket { opus, timestamp_ms } = packet;
        let length = packet_length(&opus).unwrap_or(self.longest);
        if length > self.longest {
            notes.push(Note { at: now, fact: Fact::PacketLost(Loss::TooLong) });
        } else if self.queue.len() >= self.capacity {
            notes.push(Note { at: now, fact: Fact::PacketLost(Loss::QueueFull) });
        } else {
            self.queue.push_back(QueuedPacket { opus, timestamp_ms, length });
            if self.current.is_none() {
                if let Some(since) = self.starved_at.take()
                    && now > since
                {
                    let fact = Fact::Gap { length: now - since };
                    notes.push(Note { at: now, fact });
                }
                self.start_next(now, notes);
            }
        }
    }

    fn start_next(&mut self, at: Duration, notes: &mut Vec<Note>) -> bool {
        let Some(QueuedPacket { opus, timestamp_ms, length }) = self.queue.pop_front() else {
            return false;
        };
        self.current = Some(Current { until: at + length, timestamp_ms });
        notes.push(Note { at, fact: Fact::PacketPlayed { opus, length } });
        true
    }

    /// Drops the queued packets and the one being played, and notes the loss of each.
    pub(super) fn clear(&mut self, now: Duration, loss: Loss, notes: &mut Vec<Note>) {
        for _ in self.queue.drain(..) {
            notes.push(Note { at: now, fact: Fact::PacketLost(loss) });
        }
        if let Some(Current { until, .. }) = self.current.take()
            && until > now
        {
            notes.push(Note { at: now, fact: Fact::PacketCut { unplayed: until - now, loss } });
        }
        self.starved_at = None;
        self.played.clear();
    }

    /// Returns the timestamp for a microphone packet: that of a packet played before, or 0.
    pub(super) fn next_timestamp(&mut self) -> u32 {
        let few = self.played.len() <= TIMESTAMPS;
        self.played.pop_front().filter(|_| few).unwrap_or(0)
    }

    /// Ends the detection of gaps, because the server has announced the end of its speech.
    pub(super) fn expect_no_more(&mut self) {
        self.starved_at = None;
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.queue.is_empty()
    }

    /// Returns the time at which the packet being played ends.
    pub(super) fn due(&self) -> Option<Duration> {
        self.current.as_ref().map(|c| c.until)
    }
}

/// Returns the playback time of an Opus packet, by its first byte (RFC 6716, section 3.1); `None`
/// if it is empty or cut short.
pub fn packet_length(opus: &[u8]) -> Option<Duration> {
    let toc = *opus.first()?;
    let config = toc >> 3;
    let frame_us: u64 = match config {
        0..=11 => [10_000, 20_000, 40_000, 60_000][usize::from(config % 4)],
        12..=15 => [10_000, 20_000][usize::from(config % 2)],
        _ => [2_500, 5_000, 10_000, 20_000][usize::from(config % 4)],
    };
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u64::from(opus.get(1)? & 0x3f),
    };
    Some(Duration::from_micros(frame_us * frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_lengths_follow_the_first_byte() {
        let ms = Duration::from_millis;
        // SILK 60 ms, SILK 20 ms, CELT 20 ms, hybrid 10 ms x 2, three SILK frames of 20 ms.
        for (packet, length) in [
            (&[3 << 3][..], ms(60)),
            (&[9 << 3], ms(20)),
            (&[31 << 3], ms(20)),
            (&[(12 << 3) | 1], ms(20)),
            (&[(1 << 3) | 3, 3], ms(60)),
        ] {
            assert_eq!(packet_length(packet), Some(length), "{packet:?}");
        }
        assert_eq!(packet_length(&[]), None);
        assert_eq!(packet_length(&[3]), None);
    }
}
