//! A turn: one thing said to us and everything done to answer it. Not for doing it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearken_proto::device::Emotion;
use hearken_proto::ids::TurnId;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::admission::{Admission, TurnPermit};
use crate::ports::{ProviderError, ToolError, ToolRequest};

/// One turn's identity and the means to end it. Travels in every message; a stage whose turn is
/// no longer live does nothing, so what is late dies where it is.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Counted from 1 within a connection.
    pub id: TurnId,
    /// Ends the hearing of the words, and with it the reply.
    words: CancellationToken,
    /// Ends the reply.
    reply: CancellationToken,
    /// What the turn's voice tells.
    spoken: Arc<watch::Sender<Option<Spoken>>>,
    /// Its place among the turns that run, once it has one, until it is over.
    place: Arc<Mutex<Option<TurnPermit>>>,
}

/// How far a turn's voice has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoken {
    /// Sentences whose sound has all been sent; `usize::MAX` where no more will be.
    pub sentences: usize,
    /// When the last of them began to play.
    pub began: Instant,
    /// When all that was sent will have been played.
    pub quiet_from: Instant,
}

impl Turn {
    /// A live turn that ends when its connection does.
    pub fn new(id: TurnId, connection: &CancellationToken) -> Self {
        let words = connection.child_token();
        let (spoken, place) = (Arc::default(), Arc::default());
        Self { id, reply: words.child_token(), words, spoken, place }
    }

    /// The turn is to be answered: neither cut nor continued by another.
    pub fn is_live(&self) -> bool {
        !self.reply.is_cancelled()
    }

    /// The words of the turn count, though another turn will answer them.
    pub fn is_continued(&self) -> bool {
        self.reply.is_cancelled() && !self.words.is_cancelled()
    }

    /// Resolves when the turn is not to be answered any more; at once if so.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.reply.cancelled()
    }

    /// Resolves when not even the words of the turn are wanted any more; at once if so.
    pub fn forgotten(&self) -> WaitForCancellationFuture<'_> {
        self.words.cancelled()
    }

    /// What the turn's voice tells of itself, as it goes on; nothing where the face has no voice.
    pub fn spoken(&self) -> watch::Receiver<Option<Spoken>> {
        self.spoken.subscribe()
    }

    /// The voice tells how far it has come.
    pub fn speaks(&self, spoken: Spoken) {
        self.spoken.send_replace(Some(spoken));
    }

    /// Takes a place among the turns that run; false where there is none, and it is not to be
    /// answered.
    pub fn enters(&self, admission: &Admission) -> bool {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            *place = admission.enter();
        }
        place.is_some()
    }

    fn yield_to_newer(&self) {
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Ends the turn everywhere. Being cut is an ending, not an error.
    pub fn cut(&self) {
        self.words.cancel();
        self.yield_to_newer();
    }

    /// Ends the reply, because the person goes on speaking; the words are still heard and will be
    /// answered together with the next.
    pub fn continued(&self) {
        self.reply.cancel();
        self.yield_to_newer();
    }
}

/// What a turn answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnInput {
    /// Words of a person, recognised or typed.
    Words(String),
    /// Words understood before and not answered: the person seemed to go on speaking, and then
    /// said nothing more.
    Resumed(String),
    /// A wake word: greeted with a fixed phrase, without asking the model. Who goes on speaking
    /// within the grace is not greeted but heard.
    Wake {
        /// As the device reports it.
        word: String,
        /// From the wake word to the greeting.
        grace: Duration,
    },
    /// Nothing: a text is spoken that somebody else wrote, in any form.
    Say(String),
    /// Silence for so long that the connection is about to be closed.
    Farewell,
    /// Speech that could not be recognised: an apology is spoken.
    Unrecognised,
    /// Words for which there is no time: a phrase says so.
    Busy,
}

/// A speakable unit of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// Plain words, no Markdown, no emoji.
    pub text: String,
}

/// What a turn produces, in order. Each face renders the same stream in its own way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEvent {
    /// The face to show; at most one, before the first sentence.
    Emotion(Emotion),
    /// Something to say.
    Sentence(Sentence),
}

/// Where a turn's events go: bounded, so that a slow listener slows the model down.
pub type TurnSink = mpsc::Sender<TurnEvent>;

/// How a turn ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// Everything was said.
    Completed,
    /// Somebody cut it.
    Interrupted,
    /// There was no time for it, as the person was told.
    Refused,
    /// A stage failed; the apology has been said or shown.
    Failed(TurnError),
}

/// The stage that failed, and why.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The recogniser.
    #[error("recognition failed")]
    Recognition,
    /// The language model.
    #[error("the language model failed")]
    Llm(#[source] ProviderError),
    /// The model answered nothing that can be spoken.
    #[error("the language model gave no words")]
    NoWords,
    /// The model wanted more rounds of calls than it may have.
    #[error("the model does not stop calling tools")]
    TooManyRounds,
    /// A tool, where its failure ends the turn and is not the model's to deal with.
    #[error("the tool `{tool}` failed")]
    Tool {
        /// Its name at its source.
        tool: String,
        /// What happened.
        #[source]
        error: ToolError,
    },
}

/// What a turn leaves behind.
#[derive(Debug)]
pub struct TurnRecord {
    /// The person's words, where there were any.
    pub user: Option<String>,
    /// Every sentence handed to the face, in order; apologies and other fixed phrases are not
    /// among those remembered.
    pub said: Vec<Said>,
    /// The tools that were called for it, in order.
    pub rounds: Vec<ToolRound>,
    /// How it ended.
    pub end: TurnEnd,
}

impl TurnRecord {
    /// The model understood what it was asked, and refused it.
    pub fn is_refused(&self) -> bool {
        matches!(&self.end, TurnEnd::Failed(TurnError::Llm(error)) if error.kind.is_of_the_request())
    }
}

/// Calls of tools that the model asked for at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRound {
    /// Sentences of the turn that had been handed to the face before.
    pub after: usize,
    /// The calls.
    pub calls: Vec<ToolRequest>,
    /// What the model was told of each.
    pub results: Vec<String>,
}

/// A sentence that was handed to the face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its words.
    pub text: String,
    /// It belongs to the dialogue; false for apologies and greetings.
    pub remembered: bool,
}
