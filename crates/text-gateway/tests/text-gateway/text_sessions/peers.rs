//! The clients of a sequence: they follow its steps, read their messages, and compare them with the
//! oracle. Not for the required properties, which are in the oracle.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use actix_http::ws::Message;
use futures_util::FutureExt as _;
use hearken_base::slots::Slots;
use hearken_socket::testkit::{MemorySocket, Received};
use hearken_text_gateway::text_client::TextClientActor;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::oracle::{Life, Oracle, Outcome};
use super::world::{IDLE, Instances, SHORT_IDLE};
use super::{PEERS, Result, Step, Whose};
use crate::ms;

/// One client.
#[derive(Default)]
struct Peer {
    socket: Option<(MemorySocket, Instant)>,
    instance: usize,
    /// The session of its connection, as last announced.
    own: String,
    /// Requests in progress, in order; `start_session` and `end_session` have no words.
    asked: VecDeque<(usize, Asked)>,
    /// Announced calls: id, request, and whether they were answered.
    calls: Vec<(String, usize, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Text,
    Start,
    End,
}

/// A sequence in progress.
pub(super) struct Play {
    instances: Instances,
    oracle: Oracle,
    peers: [Peer; PEERS],
    /// Sessions in the order of their announcement.
    told: Vec<String>,
    process: CancellationToken,
}

impl Play {
    pub(super) async fn of(instances: usize, steps: &[Step]) {
        let mut play = Self {
            instances: Instances::start(instances),
            oracle: Oracle::new(instances),
            peers: Default::default(),
            told: Vec::new(),
            process: CancellationToken::new(),
        };
        for peer in 0..PEERS {
            play.connect(peer).await;
        }
        for step in steps {
            play.step(*step).await;
        }
        play.finish().await;
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Say(peer, whose, kind) => self.say(peer, whose, kind),
            Step::Start(peer, whose) => {
                let id = self.named(whose);
                let mut message = json!({"type": "start_session"});
                if let Some(id) = &id {
                    message["session_id"] = json!(id);
                }
                self.ask(peer, Asked::Start, String::new(), id, message);
            }
            Step::End(peer) => {
                let named =
                    |(request, _): &(usize, _)| self.oracle.requests[*request].named.clone();
                let mut all: Vec<String> =
                    self.peers[peer].asked.iter().filter_map(named).collect();
                all.push(self.peers[peer].own.clone());
                all.iter().for_each(|id| self.oracle.may_end(id));
                self.ask(peer, Asked::End, String::new(), None, json!({"type": "end_session"}));
            }
            Step::Cancel(peer) => self.send(peer, &json!({"type": "cancel"})),
            Step::Register(peer) => self.register(peer),
            Step::Answer(peer, result) => self.answer(peer, result),
            Step::Leave(peer) => self.leave(peer),
            Step::Connect(peer) if self.peers[peer].socket.is_none() => self.connect(peer).await,
            Step::Connect(_) => {}
            Step::Sweep(instance) => {
                let services = &self.instances.services;
                // Even if the store is down, memory is swept.
                services[instance % services.len()].sessions.sweep().await.unwrap_or_default();
            }
            Step::ShortIdle(short) => {
                let idle = if short { SHORT_IDLE } else { IDLE };
                self.oracle.idles(idle);
                for service in &self.instances.services {
                    service.sessions.idle().set(idle);
                }
            }
            Step::StoreFails(fails) => {
                self.instances.store.fails.store(fails, Ordering::Relaxed);
                self.instances.store.has_failed.fetch_or(fails, Ordering::Relaxed);
                self.oracle.store(fails);
            }
            Step::Wait(time) => {
                // Checked often enough to observe uses in time.
                for _ in 0..time / 10_000 {
                    tokio::time::sleep(ms(10_000)).await;
                    self.hear();
                }
                tokio::time::sleep(ms(time % 10_000)).await;
            }
        }
        if !matches!(step, Step::Wait(0)) {
            tokio::time::sleep(ms(1)).await;
        }
        self.hear();
    }

    async fn connect(&mut self, peer: usize) {
        let instance = peer % self.instances.services.len();
        let slot = Slots::new(1, 1).take(None).unwrap();
        let service = self.instances.services[instance].clone();
        let actor = TextClientActor::new(service, Some(slot), self.process.clone());
        let socket = (MemorySocket::open(actor, true), Instant::now());
        self.peers[peer] = Peer { socket: Some(socket), instance, ..Peer::default() };
        self.send(peer, &json!({"type": "configure", "enable_context": true, "stream": true}));
        self.register(peer);
        while self.peers[peer].own.is_empty() {
            tokio::time::sleep(ms(1)).await;
            self.hear();
        }
    }

    fn send(&mut self, peer: usize, message: &Value) {
        if let Some((socket, _)) = &self.peers[peer].socket {
            socket.send(Message::Text(message.to_string().into()));
        }
    }

    fn named(&self, whose: Whose) -> Option<String> {
        match whose {
            Whose::Own => None,
            Whose::Received(n) => Some(self.told[n % self.told.len()].clone()),
            Whose::Nobodys => Some("nobodys".into()),
        }
    }

    fn ask(
        &mut self,
        peer: usize,
        what: Asked,
        words: String,
        named: Option<String>,
        message: Value,
    ) {
        let asking = &self.peers[peer];
        if asking.socket.is_none() || asking.asked.len() >= 9 {
            return;
        }
        let waits = !asking.asked.is_empty();
        let instance = asking.instance;
        let own = if what == Asked::Start && named.is_none() { "" } else { &asking.own };
        let number = self.oracle.sent(words, named, own, instance, waits, Instant::now());
        self.peers[peer].asked.push_back((number, what));
        self.send(peer, &message);
    }

    fn say(&mut self, peer: usize, whose: Whose, kind: &str) {
        let words = format!("q{} {kind}", self.oracle.requests.len());
        let named = self.named(whose);
        let mut message = json!({"type": "text_input", "text": words});
        if let Some(id) = &named {
            message["session_id"] = json!(id);
        }
        self.ask(peer, Asked::Text, words, named, message);
    }

    fn register(&mut self, peer: usize) {
        let tool =
            |name| json!({"name": name, "description": "d", "parameters": {"type": "object"}});
        let tools = [tool("lamp"), tool("radio")];
        self.send(peer, &json!({"type": "register_tools", "tools": tools}));
    }

    fn answer(&mut self, number: usize, result: Result) {
        let peer = &mut self.peers[number];
        if peer.socket.is_none() {
            return;
        }
        let wanted = matches!(result, Result::First);
        let open = peer.calls.iter_mut().find(|(_, _, answered)| *answered != wanted);
        let id = match (result, open) {
            (Result::First, Some((id, _, answered))) => {
                *answered = true;
                id.clone()
            }
            (Result::Again, Some((id, _, _))) => id.clone(),
            _ => "unknown".into(),
        };
        self.send(
            number,
            &json!({"type": "tool_result", "call_id": id, "success": true, "result": 1}),
        );
    }

    fn leave(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        let Some((mut socket, _)) = peer.socket.take() else { return };
        socket.drop_connection();
        for (request, _) in std::mem::take(&mut peer.asked) {
            if self.oracle.requests[request].session.is_none() {
                self.oracle.requests[request].session = Some(peer.own.clone());
            }
            self.oracle.left(request, Instant::now());
        }
    }

    /// Reads all messages so far, in the order of time.
    fn hear(&mut self) {
        let mut heard = Vec::new();
        for (number, peer) in self.peers.iter_mut().enumerate() {
            let Some((socket, opened)) = &mut peer.socket else { continue };
            while let Some(Some(down)) = socket.next_by(Instant::now() + ms(1)).now_or_never() {
                heard.push((*opened + down.at, number, down.what));
            }
        }
        heard.sort_by_key(|(at, _, _)| *at);
        for (at, number, what) in heard {
            let name = what.name();
            let Received::Text(message) = what else { panic!("{number} received {name}") };
            self.tell(number, at, &name, &message);
        }
    }

    fn tell(&mut self, number: usize, at: Instant, name: &str, message: &Value) {
        let first = self.peers[number].asked.front().copied();
        let id = message["data"]["session_id"].as_str().unwrap_or_default();
        match (name, first) {
            ("status/connected", first) => self.connected(number, first, id, at),
            ("status/processing", Some((request, Asked::Text))) => self.begins(number, request, at),
            ("status/waiting_for_tools", Some((request, Asked::Text))) => {
                self.oracle.requests[request].waiting_for +=
                    message["data"]["pending_tools"].as_u64().unwrap();
            }
            ("tool_callback", Some((request, Asked::Text))) => {
                self.oracle.requests[request].callbacks += 1;
                let call = message["call_id"].as_str().unwrap().to_owned();
                self.peers[number].calls.push((call, request, false));
            }
            ("llm_response", Some((request, Asked::Text))) => {
                self.responds(number, request, message, at);
            }
            ("status/idle", Some((request, Asked::End))) => {
                let peer = &mut self.peers[number];
                assert_eq!(message["data"]["ended_session_id"], json!(peer.own));
                let ended = std::mem::replace(&mut peer.own, id.to_owned());
                peer.asked.pop_front();
                self.oracle.done(request, Outcome::Failed, at);
                self.oracle.sessions.get_mut(&ended).unwrap().ended.get_or_insert(at);
                self.oracle.told(id, self.peers[number].instance, at);
                self.told.push(id.to_owned());
            }
            ("error", first) => self.fails(number, first, message, at),
            ("tools_registered" | "tool_call" | "llm_delta", _) => {}
            (name, first) => panic!("{number} received {name} for the request {first:?}"),
        }
    }

    fn connected(&mut self, number: usize, first: Option<(usize, Asked)>, id: &str, at: Instant) {
        let instance = self.peers[number].instance;
        if let Some((request, asked)) = first {
            let asking = &mut self.oracle.requests[request];
            match asked {
                Asked::Start => {
                    let wanted = asking.named.clone();
                    assert!(wanted.is_none_or(|wanted| wanted == id), "wrong session announced");
                    assert!(asking.named.is_none() || asking.life != Life::Over, "{id} is over");
                    self.oracle.done(request, Outcome::Failed, at);
                    self.peers[number].asked.pop_front();
                }
                Asked::Text if asking.named.is_none() => {
                    let own = &self.peers[number].own;
                    asking.session = Some(id.to_owned());
                    let ended = self.oracle.may_have_ended(own);
                    let life = self.oracle.requests[request].life;
                    assert!(ended || life != Life::Live, "{own} is alive, and {id} was started");
                }
                _ => panic!("{number} received {id} for the request {asked:?}"),
            }
        }
        self.peers[number].own = id.to_owned();
        self.oracle.told(id, instance, at);
        if !self.told.iter().any(|told| told == id) {
            self.told.push(id.to_owned());
        }
    }

    /// Records that a request is executed in this session, which must be alive.
    fn begins(&mut self, number: usize, request: usize, at: Instant) {
        let peer = &self.peers[number];
        let asking = &mut self.oracle.requests[request];
        let id = asking.named.clone().unwrap_or_else(|| peer.own.clone());
        asking.session = Some(id.clone());
        // A waiting request may have protected the session from expiry.
        let unsure = asking.life == Life::Unsure;
        let ended = unsure || self.oracle.may_have_ended(&id);
        let life = self.oracle.life(&id, peer.instance, at);
        assert!(
            life != Life::Over || ended,
            "{id} is over, and {} is executed in it",
            self.oracle.requests[request].words
        );
        self.oracle.told(&id, peer.instance, at);
        self.oracle.runs(request, &id);
        self.peers[number].own = id;
    }

    fn responds(&mut self, number: usize, request: usize, message: &Value, at: Instant) {
        let asking = &self.oracle.requests[request];
        let content = message["content"].as_str().unwrap().to_owned();
        let calls = message["tool_calls"].as_array().unwrap();
        let outcome = if message["cancelled"] == true {
            let well = calls.iter().filter(|c| c["source"] == "client" && c["success"] == true);
            let given = self.peers[number].calls.iter().filter(|c| c.1 == request && c.2).count();
            assert!(well.count() <= given, "a call without a result succeeded: {message}");
            Outcome::Cancelled { content, calls: calls.len() }
        } else {
            assert_eq!(asking.waiting_for, asking.callbacks, "{}: {message}", asking.words);
            Outcome::Answered(content)
        };
        self.end(number, request, outcome, at);
    }

    fn fails(
        &mut self,
        number: usize,
        first: Option<(usize, Asked)>,
        message: &Value,
        at: Instant,
    ) {
        let code = message["code"].as_str().unwrap();
        let why = message["message"].as_str().unwrap();
        let late = why.starts_with("Invalid or expired call_id");
        if late || code == "TOOL_REGISTRATION_FAILED" {
            return;
        }
        let (request, _) =
            first.unwrap_or_else(|| panic!("{number} received {message} without a request"));
        let asking = &self.oracle.requests[request];
        let ended = |id: &String| self.oracle.may_have_ended(id);
        let kind = asking.kind();
        let right = match code {
            "SESSION_ERROR" => {
                asking.named.as_ref().is_some_and(|id| asking.life != Life::Live || ended(id))
            }
            "INTERNAL_ERROR" => self.instances.store.has_failed.load(Ordering::Relaxed),
            "LLM_ERROR" => matches!(kind, "fail" | "break" | "silent"),
            "TOOL_RESULT_TIMEOUT" => matches!(kind, "client" | "mixed"),
            _ => false,
        };
        assert!(right, "{number} received {message} for {asking:?}");
        self.end(number, request, Outcome::Failed, at);
    }

    fn end(&mut self, number: usize, request: usize, outcome: Outcome, at: Instant) {
        self.oracle.done(request, outcome, at);
        self.peers[number].asked.pop_front();
    }

    /// Waits until every request has ended, and checks the memories of all sessions.
    async fn finish(mut self) {
        for _ in 0..200 {
            if self.peers.iter().all(|peer| peer.asked.is_empty()) {
                break;
            }
            tokio::time::sleep(ms(10_000)).await;
            self.hear();
        }
        for (number, peer) in self.peers.iter().enumerate() {
            assert!(peer.asked.is_empty(), "{number} waits for {:?}", peer.asked);
        }
        tokio::time::sleep(ms(6_000)).await;
        self.oracle.check_memories(&self.instances);
        self.process.cancel();
        tokio::time::sleep(ms(1)).await;
    }
}
