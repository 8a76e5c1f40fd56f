//! The lane on which one utterance's sound goes to the recogniser. What was read goes back to be
//! filled anew, so that a long utterance needs no more memory than a short one. Not for what is in
//! the sound.

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Read pieces that wait to be filled anew; beyond, they are freed.
const SPARE: usize = 4;

/// A lane that holds so many pieces.
pub fn lane(bound: usize) -> (PieceSender, PieceReceiver) {
    let (pieces, filled) = mpsc::channel(bound);
    let (read, spare) = mpsc::channel(SPARE);
    (PieceSender { pieces, spare }, PieceReceiver { filled, read, piece: Vec::new() })
}

/// Where the sound goes in; dropped when the person has finished.
#[derive(Debug)]
pub struct PieceSender {
    pieces: mpsc::Sender<Vec<i16>>,
    spare: mpsc::Receiver<Vec<i16>>,
}

impl PieceSender {
    /// Sends a copy of this sound. False where the lane is full and it is lost to whom reads; that
    /// nobody reads any more is no trouble.
    pub fn send(&mut self, sound: &[i16]) -> bool {
        let mut piece = self.spare.try_recv().unwrap_or_default();
        piece.clear();
        piece.extend_from_slice(sound);
        !matches!(self.pieces.try_send(piece), Err(TrySendError::Full(_)))
    }
}

/// Where the sound comes out.
#[derive(Debug)]
pub struct PieceReceiver {
    filled: mpsc::Receiver<Vec<i16>>,
    read: mpsc::Sender<Vec<i16>>,
    piece: Vec<i16>,
}

impl PieceReceiver {
    /// The next piece; none where the person has finished.
    pub async fn recv(&mut self) -> Option<&[i16]> {
        if self.piece.capacity() > 0 {
            // Where there are spare ones enough, or nobody fills them any more, it is freed.
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
        let (mut sender, mut receiver) = lane(2);
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
        let (mut sender, receiver) = lane(2);
        drop(receiver);
        assert!(sender.send(&[1]) && sender.send(&[1]) && sender.send(&[1]));
    }
}
