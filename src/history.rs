//! History of conversations: stores ended turns, deletes those beyond the limits of age and number,
//! and those that users delete. Not for its routes, nor for its SQL.

pub mod recording;
pub mod sound;
pub mod trial;

use std::sync::Arc;
use std::time::Duration;

use hearken_base::reloadable::Reloadable;
use hearken_base::wall_clock;
use hearken_dialogue::recent_words::RecentWords;
use hearken_dialogue::turn_trace::{TracedSound, TracedTurn, TurnJournal};
use hearken_ports::store::{HistoryPart, HistoryStore, HistoryTurn, MOST_DELETED, StoreError};
use hearken_providers::CallLog;
use jiff::{SignedDuration, Timestamp};
use metrics::{counter, describe_counter};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::config::HistoryConfig;
use crate::turn_json::Timing;

/// Counter of turns that were lost because the store was down or too slow.
pub const LOST: &str = "hearken_history_lost_total";
/// Maximum number of turns waiting to be stored.
const WAITING: usize = 256;
/// Wait before the next attempt to store a turn.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Maximum time spent retrying to store a turn.
const TRIED_FOR: Duration = Duration::from_secs(30);
/// Polling interval for deletions by other instances.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// Maximum difference between the clocks of instances.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(10);
/// Maximum length of the id of a turn, a device or a session.
const MAX_NAME_BYTES: usize = 256;
/// Interval at which the limits of age, number and size are enforced.
const TRIM_EVERY: Duration = Duration::from_mins(10);

/// History of this server. Clones share it.
#[derive(Clone)]
pub struct History {
    store: Arc<dyn HistoryStore>,
    settings: Reloadable<HistoryConfig>,
    journal: TurnJournal,
    calls: CallLog,
    /// Words of the last turns of devices, for rules about people in danger.
    recent_words: RecentWords,
    /// Turns waiting to be stored.
    turns: Arc<Mutex<mpsc::Receiver<(TracedTurn, TracedSound)>>>,
}

impl History {
    /// Creates the history of this journal's turns. Deleted turns are also removed from the journal
    /// and from the call log.
    pub fn new(
        store: Arc<dyn HistoryStore>,
        settings: HistoryConfig,
        journal: TurnJournal,
        calls: CallLog,
    ) -> Self {
        describe_counter!(LOST, "turns that could not be stored in the history");
        counter!(LOST).increment(0);
        journal.set_keep(settings.keep);
        let (ended, turns) = mpsc::channel(WAITING);
        journal.keep_history(ended);
        let turns = Arc::new(Mutex::new(turns));
        let settings = Reloadable::new(settings);
        let recent_words = RecentWords::default();
        Self { store, settings, journal, calls, recent_words, turns }
    }

    /// Sets the words of the last turns of devices, from which deleted ones are also removed.
    #[must_use]
    pub fn with_recent_words(self, recent_words: RecentWords) -> Self {
        Self { recent_words, ..self }
    }

    /// Returns the store.
    pub fn store(&self) -> &dyn HistoryStore {
        &*self.store
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<HistoryConfig> {
        self.settings.get()
    }

    /// Replaces the settings: for turns that end from now on, and for stored turns at the next trim.
    pub fn change(&self, settings: HistoryConfig) {
        self.journal.set_keep(settings.keep);
        self.settings.set(settings);
    }

    /// Stores turns as they end, until the server ends.
    pub async fn run(self, process: CancellationToken) {
        let mut turns = self.turns.lock().await;
        while let Some(Some((turn, sound))) = process.run_until_cancelled(turns.recv()).await {
            self.keep(turn, sound, &process).await;
        }
    }

    /// Stores the turns that are still waiting after all connections have ended.
    pub async fn store_rest(&self, process: &CancellationToken) {
        let mut turns = self.turns.lock().await;
        while let Ok((turn, sound)) = turns.try_recv() {
            self.keep(turn, sound, process).await;
        }
    }

    /// Stores a turn; retries for a while if the store fails, unless the server ends.
    async fn keep(&self, turn: TracedTurn, sound: TracedSound, process: &CancellationToken) {
        let timing = serde_json::to_string(&Timing::from(&turn)).unwrap_or_default();
        let kept = HistoryTurn {
            number: 0,
            turn_id: turn.id.to_string(),
            kind: turn.kind.name().into(),
            client: turn.client,
            began: turn.began,
            outcome: turn.outcome.map(|outcome| outcome.name()).unwrap_or_default().into(),
            heard: turn.heard.unwrap_or_default(),
            said: turn.said.unwrap_or_default(),
            timing,
            sounds: Vec::new(),
        };
        let sounds = tokio::task::spawn_blocking(move || sound::encode(&sound)).await;
        let sounds = sounds.unwrap_or_default();
        let since = Instant::now();
        loop {
            match self.store.add_turn(&kept, &sounds).await {
                Ok(()) => return,
                Err(_) if since.elapsed() < TRIED_FOR && !process.is_cancelled() => {
                    process.run_until_cancelled(sleep(AGAIN_AFTER)).await;
                }
                Err(error) => {
                    counter!(LOST).increment(1);
                    tracing::warn!(%error, "a turn is not in the history: the store fails");
                    return;
                }
            }
        }
    }

    /// Deletes this part permanently. Returns the number of deleted turns.
    ///
    /// # Errors
    /// The store failed. Some of the turns may be deleted.
    pub async fn delete(&self, part: &HistoryPart) -> Result<u64, StoreError> {
        // A name that no turn or client can have is not passed on to the other instances.
        if let HistoryPart::Turn(name) | HistoryPart::Client(name) = part
            && name.len() > MAX_NAME_BYTES
        {
            return Ok(0);
        }
        let client = self.client_of(part).await?;
        self.forget_words(part, client.as_deref(), Timestamp::MAX);
        let in_journal = self.journal.forget(|turn| is_of(turn, part));
        let mut deleted = 0;
        loop {
            let more = self.store.delete_turns(part).await?;
            deleted += more;
            if more < u64::from(MOST_DELETED) {
                break;
            }
        }
        // A turn of a device that was disconnected before the deletion may have ended meanwhile.
        self.forget_words(part, client.as_deref(), Timestamp::MAX);
        // The call log does not know whose calls it holds, so all of them are deleted.
        if is_said(part) && (in_journal || deleted > 0) {
            self.calls.forget(Timestamp::now());
        }
        Ok(deleted)
    }

    /// Returns the client of the turn that is such a part, if the part is one turn.
    async fn client_of(&self, part: &HistoryPart) -> Result<Option<String>, StoreError> {
        let HistoryPart::Turn(id) = part else { return Ok(None) };
        match self.client_in_journal(part) {
            None => Ok(self.store.turn(id).await?.map(|turn| turn.client)),
            found => Ok(found),
        }
    }

    /// Returns the client of the turn that is such a part, if the part is a turn of the journal.
    fn client_in_journal(&self, part: &HistoryPart) -> Option<String> {
        let HistoryPart::Turn(_) = part else { return None };
        let turns = self.journal.last(usize::MAX);
        turns.into_iter().find(|turn| is_of(turn, part)).map(|turn| turn.client)
    }

    /// Forgets the words of a part that users have deleted, said until this date. They are known by
    /// client: with a turn, all words of its client are forgotten.
    fn forget_words(&self, part: &HistoryPart, of_turn: Option<&str>, until: Timestamp) {
        let client = match (part, of_turn) {
            (HistoryPart::All, _) => None,
            (HistoryPart::Client(client), _) => Some(client.as_str()),
            (HistoryPart::Turn(_), Some(client)) => Some(client),
            _ => return,
        };
        self.recent_words.forget(client, until);
    }

    /// Removes turns that other instances have deleted from this instance's journal. Never returns.
    pub async fn follow_deletions(self) {
        let mut seen = Timestamp::now();
        let mut ticks = interval(FOLLOW_EVERY);
        loop {
            ticks.tick().await;
            // The clocks of the instances differ slightly.
            let after = seen.saturating_sub(CLOCKS_DIFFER).unwrap_or(Timestamp::MIN);
            let Ok(deletions) = self.store.deletions_after(after).await else { continue };
            for (part, until) in deletions {
                // A clock that is ahead must not hide later deletions.
                seen = seen.max(until.min(Timestamp::now()));
                let client = self.client_in_journal(&part);
                self.forget_words(&part, client.as_deref(), until);
                self.journal.forget(|turn| turn.began <= until && is_of(turn, &part));
                self.calls.forget(until);
            }
        }
    }

    /// Enforces the limits of age, number and size periodically; a clock that jumps ahead deletes
    /// nothing. Never returns.
    pub async fn keep_trimming(self) {
        let mut ticks = interval(TRIM_EVERY);
        loop {
            ticks.tick().await;
            match self.trim(wall_clock::earliest()).await {
                Ok(0) => {}
                Ok(turns) => tracing::info!(turns, "deleted old turns of the history"),
                Err(error) => tracing::warn!(%error, "cannot delete old turns of the history"),
            }
        }
    }

    /// Enforces the limits at this earliest possible date. Returns the number of deleted turns.
    async fn trim(&self, now: Timestamp) -> Result<u64, StoreError> {
        let settings = self.settings();
        let mut deleted = 0;
        if settings.retention_days > 0 {
            let kept_for = SignedDuration::from_hours(24 * i64::from(settings.retention_days));
            let oldest = now.checked_sub(kept_for).unwrap_or(Timestamp::MIN);
            deleted += self.delete(&HistoryPart::Before(oldest)).await?;
        }
        deleted += self.delete(&HistoryPart::Surplus(settings.max_turns)).await?;
        let most_bytes = settings.max_audio_mib.saturating_mul(1 << 20);
        while self.store.trim_sounds(most_bytes).await? == u64::from(MOST_DELETED) {}
        Ok(deleted)
    }
}

/// Returns true if users delete such a part; false for parts that the limits delete.
fn is_said(part: &HistoryPart) -> bool {
    matches!(part, HistoryPart::All | HistoryPart::Client(_) | HistoryPart::Turn(_))
}

/// Returns true if a turn belongs to a part that a user has deleted.
fn is_of(turn: &TracedTurn, part: &HistoryPart) -> bool {
    match part {
        HistoryPart::All => true,
        HistoryPart::Client(client) => *client == turn.client,
        HistoryPart::Turn(id) => *id == turn.id.to_string(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
