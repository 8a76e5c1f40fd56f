//! Runs one turn: asks the model, cuts its answer into sentences as it comes, and hands them on.
//! Knows nothing of sound or sockets; borrows nothing that lives longer than the turn.

use futures_util::StreamExt as _;
use hearken_proto::device::Emotion;

use super::sentence::SentenceSplitter;
use super::speakable::Speakable;
use super::turn::{Said, Sentence, Turn, TurnEnd, TurnError, TurnEvent, TurnRecord, TurnSink};
use crate::ports::{Llm, LlmDelta, Prompt};

/// Asks the model and hands its answer on, sentence by sentence, to `out`. Where the model fails,
/// the apology is handed on instead of what is missing. Ends early when the turn is cut or nobody
/// listens any more.
pub async fn run_turn(
    turn: &Turn,
    words: String,
    prompt: Prompt,
    llm: &dyn Llm,
    apology: &str,
    out: &TurnSink,
) -> TurnRecord {
    let mut reply = Reply { turn, out, said: Vec::new() };
    let end = match converse(&mut reply, prompt, llm).await {
        Ok(()) if reply.said.is_empty() && turn.is_live() => Err(TurnError::NoWords),
        other => other,
    };
    let end = match end {
        _ if !turn.is_live() => TurnEnd::Interrupted,
        Ok(()) => TurnEnd::Completed,
        Err(error) => {
            reply.say(apology.to_owned(), false).await;
            TurnEnd::Failed(error)
        }
    };
    TurnRecord { user: Some(words), said: reply.said, end }
}

/// Hands on one fixed phrase.
pub async fn say_phrase(
    turn: &Turn,
    phrase: &str,
    error: Option<TurnError>,
    out: &TurnSink,
) -> TurnRecord {
    let mut reply = Reply { turn, out, said: Vec::new() };
    reply.say(phrase.to_owned(), false).await;
    let end = match error {
        _ if !turn.is_live() => TurnEnd::Interrupted,
        None => TurnEnd::Completed,
        Some(error) => TurnEnd::Failed(error),
    };
    TurnRecord { user: None, said: reply.said, end }
}

async fn converse(reply: &mut Reply<'_>, prompt: Prompt, llm: &dyn Llm) -> Result<(), TurnError> {
    let mut deltas = llm.reply(prompt);
    let mut splitter = SentenceSplitter::default();
    let mut speakable = Speakable::default();
    let mut face = Face::default();
    loop {
        let delta = tokio::select! {
            biased;
            () = reply.turn.cancelled() => return Ok(()),
            delta = deltas.next() => delta,
        };
        let sentences = match delta {
            Some(Ok(LlmDelta::Text(text))) => {
                face.look(&text);
                splitter.push(&text)
            }
            Some(Ok(LlmDelta::Finished { .. })) | None => break,
            Some(Err(error)) => {
                reply.hand_on(splitter.finish(), &mut speakable, &mut face).await;
                return Err(TurnError::Llm(error));
            }
        };
        if !reply.hand_on(sentences, &mut speakable, &mut face).await {
            return Ok(());
        }
    }
    reply.hand_on(splitter.finish(), &mut speakable, &mut face).await;
    Ok(())
}

struct Reply<'a> {
    turn: &'a Turn,
    out: &'a TurnSink,
    said: Vec<Said>,
}

impl Reply<'_> {
    /// Hands on what is speakable of these sentences. False where nobody listens any more.
    async fn hand_on(
        &mut self,
        sentences: impl IntoIterator<Item = String>,
        speakable: &mut Speakable,
        face: &mut Face,
    ) -> bool {
        for sentence in sentences {
            let Some(text) = speakable.clean(&sentence) else { continue };
            if let Some(emotion) = face.take()
                && !self.send(TurnEvent::Emotion(emotion)).await
            {
                return false;
            }
            if !self.say(text, true).await {
                return false;
            }
        }
        true
    }

    async fn say(&mut self, text: String, remembered: bool) -> bool {
        let sent = self.send(TurnEvent::Sentence(Sentence { text: text.clone() })).await;
        if sent {
            self.said.push(Said { text, remembered });
        }
        sent
    }

    async fn send(&self, event: TurnEvent) -> bool {
        tokio::select! {
            biased;
            () = self.turn.cancelled() => false,
            sent = self.out.send(event) => sent.is_ok(),
        }
    }
}

/// Chooses the face: the first emoji that the model writes before its first sentence ends.
#[derive(Default)]
struct Face {
    seen: Option<Emotion>,
    taken: bool,
}

impl Face {
    fn look(&mut self, text: &str) {
        if self.seen.is_none() && !self.taken {
            self.seen = text.chars().find_map(Emotion::from_emoji);
        }
    }

    /// The face, once.
    fn take(&mut self) -> Option<Emotion> {
        let first = !std::mem::replace(&mut self.taken, true);
        first.then(|| self.seen.unwrap_or_default())
    }
}
