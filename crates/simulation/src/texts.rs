//! Text clients: each uses its session over a socket of the real actor, disconnects, cancels, and
//! resumes at another instance. Not for checking the results.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use hearken_base::slots::Slots;
use hearken_socket::testkit::Received;
use hearken_text_gateway::text_client::TextClientActor;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::clients::{Clients, ENDS_WITHIN};
use crate::connection::{Connection, Lost};
use crate::judge::Message;

/// Interval at which a client that waits for another polls whether it may start.
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// The session of a conversation, shared by its clients.
#[derive(Default)]
pub(crate) struct Shared {
    id: Option<String>,
    /// A turn is stored in it: from now on it must exist.
    is_stored: bool,
    /// The client that created it has finished.
    is_over: bool,
}

/// The sessions of all conversations are shared by their clients and the final check.
pub(crate) type Session = Rc<RefCell<Shared>>;

/// Actions of an impatient client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Impatience {
    Stays,
    Leaves,
    Cancels,
}

/// A text client.
pub(crate) struct TextClient {
    clients: Clients,
    session: Session,
    connection: Option<Connection>,
    /// Answers are streamed, and may be cancelled.
    streams: bool,
}

/// Runs a whole conversation: one or two clients.
pub(crate) async fn converse(clients: Clients, conversation: u16, session: Session) {
    let first = talk(clients.clone(), conversation, 0, Rc::clone(&session));
    if clients.judge.throw(0, 3) > 0 {
        return first.await;
    }
    let first = async {
        first.await;
        session.borrow_mut().is_over = true;
    };
    let second = async {
        while !session.borrow().is_stored {
            if session.borrow().is_over {
                return;
            }
            sleep(LOOKS_EVERY).await;
        }
        talk(clients.clone(), conversation, 1, Rc::clone(&session)).await;
    };
    tokio::join!(first, second);
}

async fn talk(clients: Clients, conversation: u16, client: u16, session: Session) {
    let judge = clients.judge.clone();
    let mut talking = TextClient::new(clients, session);
    for number in 0..judge.throw(3, 8) {
        sleep(judge.pause(100, 12_000)).await;
        if judge.throw(0, 4) == 0 {
            talking.connection = None;
        }
        let number = u16::try_from(number).unwrap_or_default();
        talking.say(Message { conversation, client, number }).await;
    }
}

/// Whether an error reports a failed service or tool.
fn is_apology(error: &Value) -> bool {
    let code = error["code"].as_str().unwrap_or_default();
    matches!(code, "LLM_ERROR" | "TIMEOUT" | "INTERNAL_ERROR") || code.starts_with("TOOL_")
}

/// The id of a stored session.
pub(crate) fn stored_id(session: &Session) -> Option<String> {
    let session = session.borrow();
    session.id.clone().filter(|_| session.is_stored)
}

impl TextClient {
    pub(crate) fn new(clients: Clients, session: Session) -> Self {
        Self { clients, session, connection: None, streams: false }
    }

    /// Sends a message once. Returns true if it was answered and stored.
    pub(crate) async fn say(&mut self, message: Message) -> bool {
        let judge = self.clients.judge.clone();
        let Some(connection) = self.connected(message).await else { return false };
        judge.asks(message, false, connection.number);
        connection.send(&json!({"type": "text_input", "text": message.text()}));
        let mut impatience = match judge.throw(0, 8) {
            _ if message.is_last() => Impatience::Stays,
            0 if self.streams => Impatience::Cancels,
            0 | 1 => Impatience::Leaves,
            _ => Impatience::Stays,
        };
        let mut patience = Box::pin(sleep(judge.pause(100, 20_000)));
        let mut streamed = String::new();
        loop {
            let told = tokio::select! {
                biased;
                told = self.next() => told,
                () = &mut patience, if impatience != Impatience::Stays => {
                    judge.left(message);
                    if impatience == Impatience::Leaves {
                        self.connection = None;
                        judge.unknown(message, "its client has disconnected");
                        return false;
                    }
                    if let Some(connection) = &self.connection {
                        connection.send(&json!({"type": "cancel"}));
                    }
                    impatience = Impatience::Stays;
                    continue;
                }
            };
            let Some(told) = told else {
                judge.unknown(message, "the connection was lost");
                return false;
            };
            if let Some(is_stored) = self.told(message, &told, &mut streamed) {
                return is_stored;
            }
        }
    }

    /// Its connection; `None` after many failed attempts.
    async fn connected(&mut self, message: Message) -> Option<&Connection> {
        let clients = self.clients.clone();
        if self.connection.is_none() {
            clients.connects(message, async || self.connect().await).await;
        }
        self.connection.as_ref()
    }

    /// Processes a message of the server. If it ends the turn, returns whether the answer is stored.
    fn told(&self, message: Message, told: &Value, streamed: &mut String) -> Option<bool> {
        let judge = &self.clients.judge;
        let content = told["content"].as_str().unwrap_or_default();
        match told["type"].as_str().unwrap_or_default() {
            "llm_delta" => streamed.push_str(content),
            "status" if told["status"] == "connected" => {
                let mut session = self.session.borrow_mut();
                if session.is_stored {
                    judge.wrong(format!("{message} is in another session: {told}"));
                }
                session.id = told["data"]["session_id"].as_str().map(str::to_owned);
            }
            "status" | "tool_call" => {}
            "llm_response" if told["cancelled"] == true => {
                judge.unknown(message, "it was cancelled");
                return Some(false);
            }
            "llm_response" => {
                if !streamed.is_empty() && streamed.trim() != content.trim() {
                    judge.wrong(format!("{message} was streamed as {streamed:?}: {content:?}"));
                }
                if told["stored"] == false {
                    judge.unstored(message, content);
                    return Some(false);
                }
                judge.answered(message, content);
                self.session.borrow_mut().is_stored = true;
                return Some(true);
            }
            "error" if is_apology(told) => {
                judge.unknown(message, told["code"].as_str().unwrap_or_default());
                return Some(false);
            }
            _ => {
                judge.wrong(format!("{message} was answered with {told}"));
                return Some(false);
            }
        }
        None
    }

    /// The next message of the server; `None` if the connection is lost.
    async fn next(&mut self) -> Option<Value> {
        let connection = self.connection.as_mut()?;
        match connection.next(Instant::now() + ENDS_WITHIN).await {
            Ok(Some(Received::Text(message))) => return Some(message),
            Ok(_) => self.clients.judge.wrong("a text client receives an unknown message"),
            Err(Lost) => {}
        }
        self.connection = None;
        None
    }

    /// Connects to an instance and resumes the session. Returns whether it exists.
    async fn connect(&mut self) -> bool {
        let (number, instance) = self.clients.fleet.pick().await;
        let slot = Slots::new(1, 1).take(None).ok();
        let actor = TextClientActor::new(instance.texts.clone(), slot, instance.process.clone());
        let connection = Connection::open(number, instance, actor);
        self.streams = self.clients.judge.throw(0, 2) == 0;
        connection.send(&json!({"type": "configure", "stream": self.streams}));
        self.connection = Some(connection);
        let Some(own) = self.next().await else { return false };
        let Some(own) = own["data"]["session_id"].as_str().map(str::to_owned) else {
            self.clients.judge.wrong(format!("a text client is greeted with {own}"));
            return false;
        };
        let wanted = self.session.borrow().id.clone();
        let Some(wanted) = wanted else {
            self.session.borrow_mut().id = Some(own);
            return true;
        };
        if let Some(connection) = &self.connection {
            connection.send(&json!({"type": "start_session", "session_id": wanted}));
        }
        let Some(told) = self.next().await else { return false };
        let judge = &self.clients.judge;
        match (told["status"].as_str(), told["code"].as_str()) {
            (Some("connected"), _) if told["data"]["session_id"] == wanted.as_str() => return true,
            (_, Some("SESSION_ERROR")) => {
                // A session that was never stored is gone with its instance.
                let mut session = self.session.borrow_mut();
                if session.is_stored {
                    judge.wrong(format!("the session {wanted} is lost: {told}"));
                }
                session.id = Some(own);
                return true;
            }
            (_, Some("INTERNAL_ERROR")) => {}
            _ => judge.wrong(format!("a text client starts {wanted}: {told}")),
        }
        self.connection = None;
        false
    }
}
