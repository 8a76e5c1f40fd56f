//! Bounded channel that carries the audio of one utterance to the recogniser, and its pauses.
//! Buffers that were read return to the sender and are filled again, so that a long utterance needs
//! no more memory than a short one. Not for the content of the audio.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Maximum number of spare buffers; further ones are freed.
const SPARE: usize = 4;

/// Creates a channel that holds up to `bound` pieces of audio.
pub fn channel(bound: usize) -> (AudioSender, AudioReceiver) {
    let (pieces, filled) = mpsc::channel(bound);
    let (read, spare) = mpsc::channel(SPARE);
    let unfinished = Unfinished::default();
    let sender =
        AudioSender { pieces, spare, resumed: Arc::default(), unfinished: unfinished.clone() };
    (sender, AudioReceiver { filled, read, piece: Vec::new(), unfinished })
}

/// Sending half; dropped when the person has finished.
#[derive(Debug)]
pub struct AudioSender {
    pieces: mpsc::Sender<Item>,
    spare: mpsc::Receiver<Vec<i16>>,
    /// Number of pauses that are over.
    resumed: Arc<AtomicU32>,
    unfinished: Unfinished,
}

/// Flag that the recogniser sets while the words so far are unfinished, so that more will be said.
#[derive(Debug, Clone, Default)]
pub struct Unfinished(Arc<AtomicBool>);

impl Unfinished {
    /// Sets whether the words so far are unfinished.
    pub fn set(&self, unfinished: bool) {
        self.0.store(unfinished, Ordering::Release);
    }
}

#[derive(Debug)]
enum Item {
    Sound(Vec<i16>),
    Pause(Pause),
}

impl AudioSender {
    /// Sends a copy of the samples. Returns false if the channel is full, and the samples are lost.
    /// A receiver that is gone is not an error.
    pub fn send(&mut self, sound: &[i16]) -> bool {
        let mut piece = self.spare.try_recv().unwrap_or_default();
        piece.clear();
        piece.extend_from_slice(sound);
        !matches!(self.pieces.try_send(Item::Sound(piece)), Err(TrySendError::Full(_)))
    }

    /// Reports that the person pauses after the audio that was sent, and may have finished. Not
    /// sent if the channel is full: the receiver is then behind anyway.
    pub fn pause(&self) {
        let resumed = Arc::clone(&self.resumed);
        let over = self.resumed.load(Ordering::Acquire);
        self.pieces.try_send(Item::Pause(Pause { resumed, over })).unwrap_or_default();
    }

    /// Returns true if the words that the recogniser knows are unfinished.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished.0.load(Ordering::Acquire)
    }

    /// Ends the pause: the audio that follows has voice again.
    pub fn resume(&self) {
        self.unfinished.set(false);
        self.resumed.fetch_add(1, Ordering::Release);
    }
}

/// Receiving half.
#[derive(Debug)]
pub struct AudioReceiver {
    filled: mpsc::Receiver<Item>,
    read: mpsc::Sender<Vec<i16>>,
    piece: Vec<i16>,
    unfinished: Unfinished,
}

/// Item from the channel.
#[derive(Debug)]
pub enum Piece<'a> {
    /// More audio.
    Sound(&'a [i16]),
    /// The person pauses after the audio until now.
    Pause(Pause),
}

/// A pause of the person who speaks.
#[derive(Debug)]
pub struct Pause {
    resumed: Arc<AtomicU32>,
    /// Number of pauses that were over when this one started.
    over: u32,
}

impl Pause {
    /// Returns true if the person has not gone on since.
    pub fn lasts(&self) -> bool {
        self.resumed.load(Ordering::Acquire) == self.over
    }
}

impl AudioReceiver {
    /// Returns the flag for unfinished words.
    pub fn unfinished(&self) -> Unfinished {
        self.unfinished.clone()
    }

    /// Returns the next item, or `None` when the person has finished. Cancel safe: nothing is lost
    /// if the future is dropped.
    pub async fn recv(&mut self) -> Option<Piece<'_>> {
        if self.piece.capacity() > 0 {
            // The buffer is freed if enough spare ones wait, or if the sender is gone.
            self.read.try_send(std::mem::take(&mut self.piece)).unwrap_or_default();
        }
        match self.filled.recv().await? {
            Item::Sound(piece) => {
                self.piece = piece;
                Some(Piece::Sound(&self.piece))
            }
            Item::Pause(pause) => Some(Piece::Pause(pause)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_arrive_in_order_and_their_memory_is_reused() {
        let (mut sender, mut receiver) = channel(2);
        assert!(sender.send(&[1; 9]) && sender.send(&[2; 9]));
        assert!(!sender.send(&[3]), "the channel is full");
        let Some(Piece::Sound(first)) = receiver.recv().await else { panic!("no sound") };
        assert_eq!(first, [1; 9]);
        let place = first.as_ptr();
        let Some(Piece::Sound(second)) = receiver.recv().await else { panic!("no sound") };
        assert_eq!(second, [2; 9]);
        assert!(sender.send(&[4; 5]));
        drop(sender);
        let Some(Piece::Sound(last)) = receiver.recv().await else { panic!("no sound") };
        assert_eq!((last, last.as_ptr()), (&[4; 5][..], place));
        assert!(receiver.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_pause_lasts_until_the_voice_returns() {
        let (mut sender, mut receiver) = channel(3);
        sender.pause();
        assert!(sender.send(&[0]));
        sender.pause();
        assert!(!sender.send(&[0]), "pauses take slots like sound");
        sender.pause();
        let Some(Piece::Pause(first)) = receiver.recv().await else { panic!("no pause") };
        assert!(matches!(receiver.recv().await, Some(Piece::Sound([0]))));
        let Some(Piece::Pause(same)) = receiver.recv().await else { panic!("no pause") };
        assert!(first.lasts() && same.lasts());
        sender.resume();
        sender.pause();
        drop(sender);
        let Some(Piece::Pause(second)) = receiver.recv().await else { panic!("no pause") };
        assert_eq!([first.lasts(), same.lasts(), second.lasts()], [false, false, true]);
        assert!(receiver.recv().await.is_none(), "a pause that did not fit is not received");
    }

    #[tokio::test]
    async fn unfinished_words_are_reported_until_the_person_goes_on() {
        let (sender, receiver) = channel(1);
        assert!(!sender.is_unfinished());
        receiver.unfinished().set(true);
        assert!(sender.is_unfinished());
        sender.resume();
        assert!(!sender.is_unfinished());
    }

    #[tokio::test]
    async fn a_recogniser_that_gave_up_causes_no_error() {
        let (mut sender, receiver) = channel(2);
        drop(receiver);
        assert!(sender.send(&[1]) && sender.send(&[1]) && sender.send(&[1]));
    }
}
