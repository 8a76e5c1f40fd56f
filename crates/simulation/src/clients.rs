//! Applications: each sends messages to a session, repeats them with their keys, disconnects, and
//! watches events. Not for checking the results.

use std::time::Duration;

use hearken_chat::turns::RequestOptions;
use hearken_chat::{Asker, ChatError, ChatPiece};
use hearken_ports::RequestKey;
use hearken_proto::chat::{ChatRequest, ChatResponse, Event};
use hearken_proto::ids::SessionId;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::instance::Instance;
use crate::judge::{Judge, Message, Told};
use crate::plan::Bug;

/// Time limit for every request: waits for an unreachable store, the lock, and the turn.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(150);
/// Maximum number of attempts of one message.
const MOST_ATTEMPTS: usize = 12;

/// Outcome of an attempt.
enum Outcome {
    Answered(Box<ChatResponse>),
    /// Nothing is stored.
    Refused(String),
    /// It may be stored.
    Unknown(&'static str),
    /// A repeated request whose first attempt called tools and has no answer.
    HasNoAnswer,
}

/// A client of the server.
#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) fleet: Fleet,
    pub(crate) judge: Judge,
}

impl Clients {
    /// Creates a session.
    pub(crate) async fn session(&self) -> SessionId {
        loop {
            let (_, instance) = self.fleet.pick().await;
            let wanted = json!({ "name": "n", "creator_id": "c" });
            let wanted = serde_json::from_value(wanted).expect("a valid session");
            tokio::select! {
                biased;
                () = instance.life.over() => {}
                made = instance.service.create(wanted, &Asker::Anybody) => match made {
                    Ok(session) => return session.id,
                    Err(_) => sleep(self.judge.pause(50, 2_000)).await,
                },
            }
        }
    }

    /// Tries to connect until it succeeds or has failed too often.
    pub(crate) async fn connects(&self, message: Message, mut connect: impl AsyncFnMut() -> bool) {
        for attempt in 1..=MOST_ATTEMPTS {
            if connect().await {
                return;
            }
            if attempt < MOST_ATTEMPTS {
                sleep(self.judge.pause(50, 4_000)).await;
            }
        }
        self.judge.note(&format!("{message} is not sent: there is no connection"));
    }

    /// Runs a whole conversation: one or two clients, and a watcher.
    pub(crate) async fn converse(self, conversation: u16, id: SessionId, over: CancellationToken) {
        let (ready, watched) = oneshot::channel();
        tokio::spawn(self.clone().watch(conversation, id.clone(), ready, over));
        // It ends without a result only at the end of the world.
        watched.await.unwrap_or_default();
        let second = self.judge.throw(0, 3) == 0;
        let first = self.talk(conversation, 0, &id);
        if second {
            tokio::join!(first, self.talk(conversation, 1, &id));
        } else {
            first.await;
        }
    }

    async fn talk(&self, conversation: u16, client: u16, id: &SessionId) {
        for number in 0..self.judge.throw(3, 8) {
            sleep(self.judge.pause(100, 12_000)).await;
            let number = u16::try_from(number).unwrap_or_default();
            let message = Message { conversation, client, number };
            self.say(id, message, self.judge.throw(0, 10) < 7).await;
        }
    }

    /// Sends a message until its outcome is known, or cannot be known.
    pub(crate) async fn say(&self, id: &SessionId, message: Message, keyed: bool) -> bool {
        for _ in 0..MOST_ATTEMPTS {
            match self.attempt(id, message, keyed).await {
                Outcome::Answered(answered) => {
                    self.judge.answered(message, &answered.response);
                    return true;
                }
                Outcome::HasNoAnswer => {
                    self.judge.unknown(message, "it called tools and has no answer");
                    return false;
                }
                Outcome::Refused(why) if !keyed => {
                    self.judge.refused(message, &why);
                    return false;
                }
                Outcome::Unknown(why) if !keyed => {
                    self.judge.unknown(message, why);
                    return false;
                }
                Outcome::Refused(_) | Outcome::Unknown(_) => {
                    sleep(self.judge.pause(50, 4_000)).await
                }
            }
        }
        self.judge.unknown(message, "too many attempts");
        false
    }

    async fn attempt(&self, id: &SessionId, message: Message, keyed: bool) -> Outcome {
        let (number, instance) = self.fleet.pick().await;
        self.judge.asks(message, keyed, number);
        let patience = match self.judge.throw(0, 10) {
            0..3 => self.judge.pause(100, 20_000),
            _ => ENDS_WITHIN,
        };
        let mut asking = Box::pin(self.ask(instance.clone(), id.clone(), message, keyed));
        tokio::select! {
            biased;
            () = instance.life.over() => Outcome::Unknown("the connection was lost"),
            answered = &mut asking => outcome(answered),
            () = sleep(patience) => {
                if patience == ENDS_WITHIN {
                    self.judge.wrong(format!("{message} does not end"));
                }
                self.judge.left(message);
                if self.judge.plants(Bug::SwallowedCancel) {
                    tokio::spawn(asking);
                }
                Outcome::Unknown("its client has left")
            }
        }
    }

    /// Sends a message to one instance; a third of the clients stream the answer.
    fn ask(
        &self,
        instance: Instance,
        id: SessionId,
        message: Message,
        keyed: bool,
    ) -> impl Future<Output = Result<ChatResponse, ChatError>> + Send + use<> {
        let text = message.text();
        let key = keyed.then(|| RequestKey { name: text.clone(), hash: text.clone() });
        let stream = self.judge.throw(0, 3) == 0;
        let request = json!({ "message": text, "stream": stream });
        let request: ChatRequest = serde_json::from_value(request).expect("a message");
        let judge = self.judge.clone();
        async move {
            if !stream {
                let options = RequestOptions { key, ..RequestOptions::default() };
                return instance.service.chat(&id, &request, options).await;
            }
            let (out, pieces) = mpsc::channel(2);
            let options = RequestOptions { key, out: Some(out), ..RequestOptions::default() };
            let reading = read(pieces, judge.clone());
            let (answered, streamed) =
                tokio::join!(instance.service.chat(&id, &request, options), reading);
            if let Ok(answered) = &answered
                && !streamed.is_empty()
                && streamed.trim() != answered.response.trim()
            {
                judge.wrong(format!("{message} was streamed as {streamed:?}: {answered:?}"));
            }
            answered
        }
    }

    /// Watches the events of a conversation, at one instance after the other.
    async fn watch(
        self,
        conversation: u16,
        id: SessionId,
        ready: oneshot::Sender<()>,
        over: CancellationToken,
    ) {
        let mut ready = Some(ready);
        let mut last = None::<String>;
        let watching = async {
            loop {
                let (number, instance) = self.fleet.pick().await;
                self.judge.note(&format!("{conversation} is watched at {number}"));
                let starting =
                    timeout(ENDS_WITHIN, instance.service.events.watch(&id, last.as_deref()));
                let watch = tokio::select! {
                    biased;
                    () = instance.life.over() => continue,
                    watch = starting => watch,
                };
                let Ok(watch) = watch else {
                    self.judge.wrong(format!("a watch of {conversation} does not start"));
                    continue;
                };
                let Ok(mut watch) = watch else { continue };
                let knows_last = last.is_some() || ready.is_some();
                if !watch.complete || !knows_last {
                    self.judge.gap(conversation);
                }
                if let Some(ready) = ready.take() {
                    // The receiver is there until the world ends.
                    ready.send(()).unwrap_or_default();
                }
                for event in watch.missed.drain(..) {
                    let known = if watch.complete { Told::New } else { Told::Maybe };
                    self.told(conversation, &event, known);
                    last = Some(event.id);
                }
                // A watcher that knows no event yet cannot resume.
                let stays = sleep(self.judge.pause(1_000, 120_000));
                tokio::pin!(stays);
                loop {
                    let event = tokio::select! {
                        biased;
                        () = instance.life.over() => break,
                        event = watch.events.recv() => event,
                        () = &mut stays, if last.is_some() => break,
                    };
                    let Some(event) = event else { break };
                    let alone = instance.is_alone();
                    self.told(conversation, &event, if alone { Told::Alone } else { Told::New });
                    last = Some(event.id);
                }
            }
        };
        over.run_until_cancelled(watching).await;
    }

    fn told(&self, conversation: u16, event: &Event, told: Told) {
        let data = event.data.parse().unwrap_or_default();
        let about = data.get("message").and_then(|text| Message::in_text(text.as_str()?));
        if about.is_some_and(|message| message.conversation != conversation) {
            self.judge.wrong(format!("the watcher of {conversation} received one of {about:?}"));
        }
        self.judge.told(conversation, &event.id, about, told);
    }
}

/// Reads a streamed answer, sometimes slowly.
async fn read(mut pieces: mpsc::Receiver<ChatPiece>, judge: Judge) -> String {
    let mut text = String::new();
    while let Some(piece) = pieces.recv().await {
        if let ChatPiece::Delta(words) = piece {
            text.push_str(&words);
        }
        if judge.throw(0, 10) == 0 {
            sleep(judge.pause(1, 2_000)).await;
        }
    }
    text
}

fn outcome(answered: Result<ChatResponse, ChatError>) -> Outcome {
    match answered {
        Ok(answered) => Outcome::Answered(Box::new(answered)),
        Err(ChatError::Store(_)) => Outcome::Unknown("the store failed"),
        Err(ChatError::Status(why)) if why.contains("called tools") => Outcome::HasNoAnswer,
        Err(error) => Outcome::Refused(error.to_string()),
    }
}
