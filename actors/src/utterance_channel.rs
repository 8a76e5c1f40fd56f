//! Bounded channel that carries the audio of one utterance to the recogniser. Buffers that were
//! read go back to the sender to be filled again, so that a long utterance needs no more memory
//! than a short one. Not for the content of the audio.

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Most buffers that wait to be filled again; more are freed.
const SPARE: usize = 4;

/// Creates a channel that holds up to `bound` pieces of audio.
pub fn channel(bound: usize) -> (AudioSender, AudioReceiver) {
    let (pieces, filled) = mpsc::channel(bound);
    let (read, spare) = mpsc::channel(SPARE);
    (AudioSender { pieces, spare }, AudioReceiver { filled, read, piece: Vec::new() })
}

/// Sending half; dropped when the person has finished.
#[derive(Debug)]
pub struct AudioSender {
    pieces: mpsc::Sender<Vec<i16>>,
    spare: mpsc::Receiver<Vec<i16>>,
}

impl AudioSender {
    /// Sends a copy of the samples. Returns false if the channel is full, and the samples are lost.
    /// A receiver that is gone is no error.
    pub fn send(&mut self, sound: &[i16]) -> bool {
        let mut piece = self.spare.try_recv().unwrap_or_default();
        piece.clear();
        piece.extend_from_slice(sound);
        !matches!(self.pieces.try_send(piece), Err(TrySendError::Full(_)))
    }
}

/// Receiving half.
#[derive(Debug)]
pub struct AudioReceiver {
    filled: mpsc::Receiver<Vec<i16>>,
    read: mpsc::Sender<Vec<i16>>,
    piece: Vec<i16>,
}

impl AudioReceiver {
    /// Returns the next piece of audio, or `None` when the person has finished.
    pub async fn recv(&mut self) -> Option<&[i16]> {
        if self.piece.capacity() > 0 {
            // The buffer is freed if enough spare ones wait, or if the sender is gone.
            self.read.try_send(std::mem::take(&mut self.piece)).unwrap_or_default();
        }
        self.piece = self.filled.recv().await?;
        Some(&self.piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_come_out_in_order_and_their_memory_is_used_again() {
        let (mut sender, mut receiver) = channel(2);
        assert!(sender.send(&[1; 9]) && sender.send(&[2; 9]));
        assert!(!sender.send(&[3]), "the lane is full");
        let first = receiver.recv().await.unwrap();
        assert_eq!(first, [1; 9]);
        let place = first.as_ptr();
        assert_eq!(receiver.recv().await.unwrap(), [2; 9]);
        assert!(sender.send(&[4; 5]));
        drop(sender);
        let last = receiver.recv().await.unwrap();
        assert_eq!((last, last.as_ptr()), (&[4; 5][..], place));
        assert_eq!(receiver.recv().await, None);
    }

    #[tokio::test]
    async fn a_recogniser_that_gave_up_is_no_trouble() {
        let (mut sender, receiver) = channel(2);
        drop(receiver);
        assert!(sender.send(&[1]) && sender.send(&[1]) && sender.send(&[1]));
    }
}
