//! Plays a sequence against the desk, and compares what is told and seen with the references after
//! each event. Not for what they hold.

use hearken_proto::ids::SessionId;

use super::desk::Desk;
use super::known::{Known, Reply, Seen};
use super::{Ask, Happens, SESSIONS, Trouble};

/// A session, and everything that may rightly be so of it.
struct Seat {
    id: SessionId,
    may: Vec<Known>,
}

/// Plays a sequence in sessions of its own.
pub(super) async fn play(desk: &mut Desk, events: &[Happens]) -> Result<(), String> {
    let mut seats = Vec::new();
    for _ in 0..SESSIONS {
        seats.push(Seat { id: desk.make().await, may: vec![Known::new()] });
    }
    let mut outcome = Ok(());
    for (n, event) in events.iter().enumerate() {
        outcome = happen(desk, &mut seats, *event).await;
        if let Err(why) = &mut outcome {
            *why = format!("event {n}, {event:?}: {why}");
            break;
        }
    }
    desk.set(Trouble::None);
    desk.is_idle().await?;
    for seat in seats {
        desk.leave(&seat.id);
    }
    outcome
}

async fn happen(desk: &mut Desk, seats: &mut [Seat], event: Happens) -> Result<(), String> {
    desk.set(Trouble::None);
    match event {
        Happens::Asked(session, ask, trouble) => {
            asked(desk, &mut seats[session], ask, trouble).await
        }
        Happens::Left { session, ask, trouble, steps, polls } => {
            left(desk, &mut seats[session], (ask, trouble), (steps, polls)).await
        }
        Happens::Both(session, one, other) => both(desk, &mut seats[session], one, other).await,
        Happens::Elsewhere(session) => {
            let seat = &mut seats[session];
            if desk.look(&seat.id).await.world.is_none() {
                return Ok(());
            }
            desk.hurt(&seat.id);
            seat.may.iter_mut().for_each(Known::hurt_elsewhere);
            seat.look(desk, true).await
        }
        Happens::Purged(undeletable) => {
            desk.purge(undeletable.map(|n| &seats[n].id), None).await;
            for (n, seat) in seats.iter_mut().enumerate() {
                seat.may =
                    seat.may.iter().map(|k| k.after_purging(undeletable == Some(n))).collect();
                seat.look(desk, true).await?;
            }
            Ok(())
        }
        Happens::PurgedWhileRestored(session) => {
            let reply = desk.purge(None, Some(&seats[session].id)).await;
            let reply = reply.expect("it was restored, or not");
            for (n, seat) in seats.iter_mut().enumerate() {
                seat.purged((n == session).then_some(&reply));
                seat.look(desk, true).await.map_err(|why| format!("{reply:?}: {why}"))?;
            }
            Ok(())
        }
        Happens::WatcherReturns(session, missed) => {
            let complete = desk.resumes(&seats[session].id, missed).await;
            complete.then_some(()).ok_or_else(|| "the watcher missed something".into())
        }
        Happens::Made(session) => {
            desk.leave(&seats[session].id);
            seats[session] = Seat { id: desk.make().await, may: vec![Known::new()] };
            seats[session].look(desk, true).await
        }
    }
}

async fn asked(desk: &mut Desk, seat: &mut Seat, ask: Ask, trouble: Trouble) -> Result<(), String> {
    let (ask, trouble) = (seat.meant(ask), ask.meets(trouble));
    desk.set(trouble);
    let reply = desk.ask(&seat.id, ask, &seat.snapshot(ask)).await;
    if let (Ask::Chat { said, .. }, Some(prompt)) = (ask, desk.asked()) {
        seat.keep(|known| known.asked(&prompt, said).map(|()| vec![known.clone()]))?;
    }
    desk.set(Trouble::None);
    desk.is_idle().await?;
    seat.told(&reply, |known| known.after(ask, trouble, &reply))?;
    seat.look(desk, true).await.map_err(|why| format!("told {reply:?}, {why}"))
}

async fn left(
    desk: &mut Desk,
    seat: &mut Seat,
    (ask, trouble): (Ask, Trouble),
    steps: (usize, usize),
) -> Result<(), String> {
    let (ask, trouble) = (seat.meant(ask), ask.meets(trouble));
    desk.set(trouble);
    let reply = desk.ask_and_leave(&seat.id, ask, &seat.snapshot(ask), steps).await;
    desk.is_idle().await?;
    desk.set(Trouble::None);
    match &reply {
        Some(reply) => seat.told(reply, |known| known.after(ask, trouble, reply))?,
        None => {
            let may = seat.may.iter().flat_map(|known| known.after_leaving(ask, trouble));
            seat.may = may.collect();
        }
    }
    seat.look(desk, true).await
}

async fn both(desk: &mut Desk, seat: &mut Seat, one: Ask, other: Ask) -> Result<(), String> {
    let (one, other) = (seat.meant(one), seat.meant(other));
    let (to_one, to_other) = (seat.snapshot(one), seat.snapshot(other));
    let (first, second) =
        tokio::join!(desk.ask(&seat.id, one, &to_one), desk.ask(&seat.id, other, &to_other));
    desk.is_idle().await?;
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
    let may: Vec<Known> = seat.may.iter().flat_map(orders).collect();
    if may.is_empty() {
        return Err(format!("told {first:?} and {second:?}, in no order of {:?}", seat.may));
    }
    seat.may = may;
    let looked = seat.look(desk, false).await;
    looked.map_err(|why| format!("told {first:?} and {second:?}, {why}"))
}

impl Seat {
    fn meant(&self, ask: Ask) -> Ask {
        self.may.first().map_or(ask, |known| known.meant(ask))
    }

    /// The snapshot that a request is about; one that is not there where there is none.
    fn snapshot(&self, ask: Ask) -> String {
        let Ask::GoBack(n) = ask else { return String::new() };
        let known = self.may.first().and_then(|known| known.snapshot(n));
        known.unwrap_or("0193a3c0-0000-7000-8000-000000000001").to_owned()
    }

    /// Only what this leaves is still right.
    fn keep(&mut self, left: impl Fn(&Known) -> Result<Vec<Known>, String>) -> Result<(), String> {
        let (mut may, mut faults) = (Vec::new(), Vec::new());
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
            may if may.is_empty() => Err(format!("told {reply:?}, which is wrong for {known:?}")),
            may => Ok(may),
        })
    }

    /// What may be after a purge during which it was restored, with this answer.
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

    async fn look(&mut self, desk: &mut Desk, in_order: bool) -> Result<(), String> {
        let seen: Seen = desk.look(&self.id).await;
        let outcome = self.keep(|known| Ok(vec![known.clone().looked(&seen, in_order)?]));
        outcome.map_err(|wanted| format!("seen {seen:?}, but wanted: {wanted}"))
    }
}
