//! Plays a sequence against a system of chat sessions, and compares replies and observed state with
//! the references after each event. Not for the references, nor for the systems.

use hearken_proto::ids::SessionId;

use super::known::{Known, Reply, Seen, line};
use super::ports::Steps;
use super::{Ask, Happens, SESSIONS, Trouble};

/// A system of chat sessions, as far as sequences need it.
pub(super) trait System {
    /// Waits until no turn is running.
    async fn is_idle(&self) -> Result<(), String>;

    /// Creates a session with an unhurt hero.
    async fn make(&mut self) -> SessionId;

    /// The session is no longer used.
    fn leave(&mut self, id: &SessionId);

    /// Another client hurts the hero.
    fn hurt(&self, id: &SessionId);

    /// Sends a request and waits for its reply; `snapshot` is the id of the snapshot to restore.
    async fn ask(&self, id: &SessionId, ask: Ask, snapshot: &str) -> Reply;

    /// Sends a request and leaves after this many steps and polls. Returns the reply if it came before.
    async fn ask_and_leave(
        &self,
        id: &SessionId,
        ask: Ask,
        snapshot: &str,
        steps: usize,
        polls: usize,
    ) -> Option<Reply>;

    /// Purges deleted sessions, and meanwhile restores `restored`, if any.
    async fn purge(
        &mut self,
        undeletable: Option<&SessionId>,
        restored: Option<&SessionId>,
    ) -> Option<Reply>;

    /// Whether a watcher that has missed the last events receives exactly those.
    async fn resumes(&self, id: &SessionId, missed: usize) -> bool;

    /// The current state of the session.
    async fn look(&mut self, id: &SessionId) -> Seen;

    /// The steps of its turns.
    fn steps(&self) -> &Steps;

    /// Sets the failure of the following requests.
    fn set(&self, trouble: Trouble) {
        self.steps().set(trouble);
    }

    /// The first prompt since then.
    fn asked(&self) -> Option<Vec<String>> {
        let prompt = self.steps().first_prompt()?;
        Some(prompt.iter().map(|message| line(message.role, &message.content)).collect())
    }
}

/// A session and all references that fit it.
struct PlayedSession {
    id: SessionId,
    may: Vec<Known>,
}

/// Plays a sequence in new sessions.
pub(super) async fn play(system: &mut impl System, events: &[Happens]) -> Result<(), String> {
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(PlayedSession { id: system.make().await, may: vec![Known::new()] });
    }
    let mut outcome = Ok(());
    for (n, event) in events.iter().enumerate() {
        outcome = happen(system, &mut sessions, *event).await;
        if let Err(why) = &mut outcome {
            *why = format!("event {n}, {event:?}: {why}");
            break;
        }
    }
    system.set(Trouble::None);
    system.is_idle().await?;
    for played in sessions {
        system.leave(&played.id);
    }
    outcome
}

async fn happen(
    system: &mut impl System,
    sessions: &mut [PlayedSession],
    event: Happens,
) -> Result<(), String> {
    system.set(Trouble::None);
    match event {
        Happens::Asked(session, ask, trouble) => {
            asked(system, &mut sessions[session], ask, trouble).await
        }
        Happens::Left { session, ask, trouble, steps, polls } => {
            left(system, &mut sessions[session], ask, trouble, steps, polls).await
        }
        Happens::Both(session, one, other) => {
            both(system, &mut sessions[session], one, other).await
        }
        Happens::Elsewhere(session) => {
            let played = &mut sessions[session];
            if system.look(&played.id).await.world.is_none() {
                return Ok(());
            }
            system.hurt(&played.id);
            played.may.iter_mut().for_each(Known::hurt_elsewhere);
            played.look(system, true).await
        }
        Happens::Purged(undeletable) => {
            system.purge(undeletable.map(|n| &sessions[n].id), None).await;
            for (n, played) in sessions.iter_mut().enumerate() {
                played.may =
                    played.may.iter().map(|k| k.after_purging(undeletable == Some(n))).collect();
                played.look(system, true).await?;
            }
            Ok(())
        }
        Happens::PurgedWhileRestored(session) => {
            let reply = system.purge(None, Some(&sessions[session].id)).await;
            let reply = reply.expect("it was restored, or not");
            for (n, played) in sessions.iter_mut().enumerate() {
                played.purged((n == session).then_some(&reply));
                played.look(system, true).await.map_err(|why| format!("{reply:?}: {why}"))?;
            }
            Ok(())
        }
        Happens::WatcherReturns(session, missed) => {
            let complete = system.resumes(&sessions[session].id, missed).await;
            complete.then_some(()).ok_or_else(|| "the watcher missed something".into())
        }
        Happens::Made(session) => {
            system.leave(&sessions[session].id);
            sessions[session] = PlayedSession { id: system.make().await, may: vec![Known::new()] };
            sessions[session].look(system, true).await
        }
    }
}

async fn asked(
    system: &mut impl System,
    played: &mut PlayedSession,
    ask: Ask,
    trouble: Trouble,
) -> Result<(), String> {
    let trouble = ask.meets(trouble);
    let ask = played.meant(ask);
    system.set(trouble);
    let reply = system.ask(&played.id, ask, &played.snapshot(ask)).await;
    if let (Ask::Chat { said, .. }, Some(prompt)) = (ask, system.asked()) {
        played.keep(|known| known.asked(&prompt, said).map(|()| vec![known.clone()]))?;
    }
    system.set(Trouble::None);
    system.is_idle().await?;
    played.told(&reply, |known| known.after(ask, trouble, &reply))?;
    played.look(system, true).await.map_err(|why| format!("reply {reply:?}, {why}"))
}

async fn left(
    system: &mut impl System,
    played: &mut PlayedSession,
    ask: Ask,
    trouble: Trouble,
    steps: usize,
    polls: usize,
) -> Result<(), String> {
    let trouble = ask.meets(trouble);
    let ask = played.meant(ask);
    system.set(trouble);
    let snapshot = played.snapshot(ask);
    let reply = system.ask_and_leave(&played.id, ask, &snapshot, steps, polls).await;
    system.is_idle().await?;
    system.set(Trouble::None);
    match &reply {
        Some(reply) => played.told(reply, |known| known.after(ask, trouble, reply))?,
        None => {
            let may = played.may.iter().flat_map(|known| known.after_leaving(ask, trouble));
            played.may = may.collect();
        }
    }
    played.look(system, true).await
}

async fn both(
    system: &mut impl System,
    played: &mut PlayedSession,
    one: Ask,
    other: Ask,
) -> Result<(), String> {
    let one = played.meant(one);
    let other = played.meant(other);
    let to_one = played.snapshot(one);
    let to_other = played.snapshot(other);
    let (first, second) = tokio::join!(
        system.ask(&played.id, one, &to_one),
        system.ask(&played.id, other, &to_other)
    );
    system.is_idle().await?;
    let none = Trouble::None;
    let orders = |known: &Known| {
        let mut may = Vec::new();
        for ((a, told_a), (b, told_b)) in
            [((one, &first), (other, &second)), ((other, &second), (one, &first))]
        {
            for then in known.after(a, none, told_a) {
                may.extend(then.after(b, none, told_b));
            }
        }
        may
    };
    let may: Vec<Known> = played.may.iter().flat_map(orders).collect();
    if may.is_empty() {
        return Err(format!("replies {first:?} and {second:?} fit no order of {:?}", played.may));
    }
    played.may = may;
    let looked = played.look(system, false).await;
    looked.map_err(|why| format!("replies {first:?} and {second:?}, {why}"))
}

impl PlayedSession {
    fn meant(&self, ask: Ask) -> Ask {
        self.may.first().map_or(ask, |known| known.meant(ask))
    }

    /// The id of the snapshot of a request; an unknown id if there is none.
    fn snapshot(&self, ask: Ask) -> String {
        let Ask::GoBack(n) = ask else { return String::new() };
        let known = self.may.first().and_then(|known| known.snapshot(n));
        known.unwrap_or("0193a3c0-0000-7000-8000-000000000001").to_owned()
    }

    /// Retains the references that `left` accepts.
    fn keep(&mut self, left: impl Fn(&Known) -> Result<Vec<Known>, String>) -> Result<(), String> {
        let mut may = Vec::new();
        let mut faults = Vec::new();
        for known in &self.may {
            match left(known) {
                Ok(known) => may.extend(known),
                Err(why) => faults.push(why),
            }
        }
        if may.is_empty() {
            return Err(faults.join("; or: "));
        }
        may.dedup();
        self.may = may;
        Ok(())
    }

    fn told(&mut self, reply: &Reply, after: impl Fn(&Known) -> Vec<Known>) -> Result<(), String> {
        self.keep(|known| match after(known) {
            may if may.is_empty() => Err(format!("reply {reply:?} is wrong for {known:?}")),
            may => Ok(may),
        })
    }

    /// The references after a purge, during which the session was restored with this reply.
    fn purged(&mut self, restored: Option<&Reply>) {
        let after = |known: &Known| {
            let purged = known.after_purging(false);
            let Some(reply) = restored else { return vec![purged] };
            let mut may = purged.after(Ask::Restore, Trouble::None, reply);
            may.extend(known.after(Ask::Restore, Trouble::None, reply));
            may
        };
        self.may = self.may.iter().flat_map(after).collect();
    }

    async fn look(&mut self, system: &mut impl System, in_order: bool) -> Result<(), String> {
        let seen: Seen = system.look(&self.id).await;
        let outcome = self.keep(|known| Ok(vec![known.clone().looked(&seen, in_order)?]));
        outcome.map_err(|wanted| format!("seen {seen:?}, but wanted: {wanted}"))
    }
}
