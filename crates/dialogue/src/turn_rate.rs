//! Rates of turns, and of what takes time without being one: of each device, and of all clients at
//! one external address. Checked before any service is called. Not for the number of concurrent
//! turns, nor for daily limits.

use std::sync::Arc;
use std::time::Duration;

use hearken_base::pace::Pace;

use crate::admission::AdmissionSettings;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
/// Turns of people in danger that a device, and all clients at an address, may start per minute
/// beyond their rates.
const URGENT_PER_MINUTE: u32 = 6;
/// Requests per second, beyond the rates of turns, that are carried out for a device and for all
/// clients at an address: more than people write, and cheap for the server.
const REQUESTS_PER_SECOND: u32 = 20;

/// Rates of all clients of a server; by default only turns of people in danger and requests beyond
/// the rates of turns have one. Clones share them.
#[derive(Debug, Clone)]
pub struct TurnRates {
    minute: Option<Pace>,
    hour: Option<Pace>,
    address: Option<Pace>,
    /// Turns of people in danger, by device.
    urgent: Pace,
    /// The same by address.
    urgent_of_address: Pace,
    /// Requests beyond the rates of turns, by device.
    requests: Pace,
    /// The same by address.
    requests_of_address: Pace,
}

impl Default for TurnRates {
    fn default() -> Self {
        let urgent = || Pace::new(URGENT_PER_MINUTE, MINUTE);
        let requests = || Pace::new(REQUESTS_PER_SECOND, SECOND);
        Self {
            minute: None,
            hour: None,
            address: None,
            urgent: urgent(),
            urgent_of_address: urgent(),
            requests: requests(),
            requests_of_address: requests(),
        }
    }
}

/// Rate of one client's turns.
#[derive(Debug, Clone)]
pub struct TurnRate {
    rates: TurnRates,
    /// Id of a device; `None` for a client that is limited by address only.
    device: Option<Arc<str>>,
    /// Address of the client, if it is limited.
    address: Option<Arc<str>>,
}

impl TurnRates {
    /// Creates the rates of these settings.
    pub fn new(settings: &AdmissionSettings) -> Self {
        let rate = |count: u32, time| (count > 0).then(|| Pace::new(count, time));
        Self {
            minute: rate(settings.turns_per_minute, MINUTE),
            hour: rate(settings.turns_per_hour, HOUR),
            address: rate(settings.turns_per_address, MINUTE),
            ..Self::default()
        }
    }

    /// Returns the rate of a client: of its device and of its address, if given.
    pub fn of(&self, device: Option<&str>, address: Option<&str>) -> TurnRate {
        let rates = self.clone();
        TurnRate { rates, device: device.map(Arc::from), address: address.map(Arc::from) }
    }
}

impl TurnRate {
    /// Counts a turn.
    ///
    /// # Errors
    /// Returns the time after which the next turn may start, if turns come too fast.
    pub fn take(&self) -> Result<(), Duration> {
        self.count(self.device.as_deref(), self.address.as_deref())
    }

    /// Counts an utterance whose words are not known yet, in the rate of its address only: noise
    /// must not use up the turns of a device.
    ///
    /// # Errors
    /// See [`TurnRate::take`].
    pub fn take_utterance(&self) -> Result<(), Duration> {
        self.count(None, self.address.as_deref())
    }

    /// Counts the words of an utterance that was counted before.
    ///
    /// # Errors
    /// See [`TurnRate::take`].
    pub fn take_words(&self) -> Result<(), Duration> {
        self.count(self.device.as_deref(), None)
    }

    /// Counts a turn of a person in danger, which the other limits do not refuse. Returns false if
    /// too many such turns came: a client may fake them.
    pub fn take_urgent(&self) -> bool {
        let TurnRates { urgent, urgent_of_address, .. } = &self.rates;
        let limits = [
            (Some(urgent), self.device.as_deref(), "urgent turns of a device"),
            (Some(urgent_of_address), self.address.as_deref(), "urgent turns of an address"),
        ];
        count(limits).is_ok()
    }

    /// Counts a request beyond the rates of turns, of a client that can wait. Returns the time
    /// before it is carried out. None is refused: if each connection has one at a time, a client
    /// waits for at most one of each other connection of its address.
    pub fn take_request(&self) -> Duration {
        let wait = |address| self.rates.requests_of_address.take(address, 1);
        self.address.as_deref().map(wait).unwrap_or_default()
    }

    /// Counts a request beyond the rates of turns, of a client that cannot wait. Returns false if
    /// it is not carried out.
    pub fn try_request(&self) -> bool {
        let TurnRates { requests, requests_of_address, .. } = &self.rates;
        let limits = [
            (Some(requests), self.device.as_deref(), "requests of a device"),
            (Some(requests_of_address), self.address.as_deref(), "requests of an address"),
        ];
        count(limits).is_ok()
    }

    fn count(&self, device: Option<&str>, at: Option<&str>) -> Result<(), Duration> {
        let TurnRates { minute, hour, address, .. } = &self.rates;
        count([
            (minute.as_ref(), device, "turns_per_minute"),
            (hour.as_ref(), device, "turns_per_hour"),
            (address.as_ref(), at, "turns_per_address"),
        ])
    }
}

/// A limit, the client that it counts, and its name in the log.
type Limit<'a> = (Option<&'a Pace>, Option<&'a str>, &'a str);

/// Counts a turn against these limits. A turn that one of them refuses counts against none.
fn count<const N: usize>(limits: [Limit<'_>; N]) -> Result<(), Duration> {
    let of_client =
        limits.into_iter().filter_map(|(pace, client, key)| Some((pace?, client?, key)));
    for (pace, client, key) in of_client.clone() {
        let wait = pace.wait(client);
        if !wait.is_zero() {
            tracing::info!(limit = key, ?wait, "refused a turn: turns come too fast");
            return Err(wait);
        }
    }
    for (pace, client, _) in of_client {
        pace.take(client, 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hearken_proto::ids::TurnId;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::admission::Admission;
    use crate::turn::Turn;

    fn begun(rate: &TurnRate, turns: usize) -> usize {
        (0..turns).filter(|_| rate.take().is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn turns_of_a_device_and_of_an_address_are_limited() {
        let settings = AdmissionSettings {
            turns_per_minute: 20,
            turns_per_hour: 50,
            turns_per_address: 30,
            ..AdmissionSettings::default()
        };
        let rates = TurnRates::new(&settings);
        let at_home = rates.of(Some("a"), None);
        assert_eq!(begun(&at_home, 100), 20);
        tokio::time::advance(MINUTE).await;
        assert_eq!(begun(&at_home, 100), 20);
        tokio::time::advance(MINUTE).await;
        assert_eq!(begun(&at_home, 100), 11, "the hour allows 50, and another in 72 s");
        let outside = [rates.of(Some("b"), Some("x")), rates.of(Some("c"), Some("x"))];
        assert_eq!(outside.map(|rate| begun(&rate, 100)), [20, 10]);
        let text_client = rates.of(None, Some("y"));
        assert_eq!(begun(&text_client, 100), 30);
        assert_eq!(begun(&rates.of(None, None), 1_000), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_counts_once_even_if_pauses_return_its_permit() {
        let settings = AdmissionSettings { turns_per_minute: 2, ..AdmissionSettings::default() };
        let rate = TurnRates::new(&settings).of(Some("a"), None);
        let admission = Admission::new(settings);
        let connection = CancellationToken::new();
        for number in 0..4 {
            let turn = Turn::new(TurnId(number), &connection).at_rate(Some(rate.clone()));
            for _ in 0..9 {
                let speculation = turn.speculate();
                assert_eq!(speculation.acquire_permit(&admission), number < 2, "{number}");
                turn.release_permit();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_utterance_counts_for_its_address_and_only_its_words_for_the_device() {
        let settings = AdmissionSettings {
            turns_per_minute: 2,
            turns_per_address: 5,
            ..AdmissionSettings::default()
        };
        let rate = TurnRates::new(&settings).of(Some("a"), Some("x"));
        let admission = Admission::new(settings);
        let connection = CancellationToken::new();
        let turn = |id| Turn::new(TurnId(id), &connection).at_rate(Some(rate.clone()));
        let noise = [turn(0), turn(1), turn(2)];
        for turn in &noise {
            // A permit that was returned in a pause is taken again.
            for _ in 0..2 {
                assert!(turn.admit_utterance(&admission) && !turn.is_too_fast());
                turn.release_permit();
            }
        }
        let words = [turn(3), turn(4)];
        for turn in &words {
            assert!(turn.admit_utterance(&admission));
            assert_eq!([turn.take_rate(), turn.take_rate()], [Ok(()), Ok(())]);
        }
        // The address has used up its five utterances, and the device its two turns.
        let refused = turn(5);
        assert!(!refused.admit_utterance(&admission) && refused.is_too_fast());
        tokio::time::advance(MINUTE / 5).await;
        let noise = turn(6);
        assert!(noise.admit_utterance(&admission), "the address may send another one");
        assert!(noise.take_rate().is_err() && noise.is_too_fast());
    }

    #[tokio::test(start_paused = true)]
    async fn turns_of_people_in_danger_have_a_rate_of_their_own() {
        let few = AdmissionSettings {
            turns_per_minute: 1,
            turns_per_address: 1,
            ..AdmissionSettings::default()
        };
        let urgent = |rate: &TurnRate| (0..100).filter(|_| rate.take_urgent()).count();
        for rates in [TurnRates::new(&few), TurnRates::default()] {
            let at_home = rates.of(Some("a"), None);
            begun(&at_home, 100);
            assert_eq!(urgent(&at_home), 6);
            assert_eq!(urgent(&at_home), 0);
            // Other ids of the same address do not multiply it.
            let outside = ["b", "c", "d"].map(|device| rates.of(Some(device), Some("x")));
            assert_eq!(outside.map(|rate| urgent(&rate)), [6, 0, 0]);
            tokio::time::advance(MINUTE).await;
            assert_eq!(urgent(&at_home), 6);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_rates_of_turns_wait_and_none_is_refused() {
        let rates = TurnRates::default();
        let many = rates.of(None, Some("x"));
        let waits: Vec<_> = (0..70).map(|_| many.take_request()).collect();
        let at_once = waits.iter().filter(|wait| wait.is_zero()).count();
        assert_eq!(at_once, 20);
        assert!(waits.is_sorted(), "in the order in which they came: {waits:?}");
        // Fifty connections of the address, each with one request, delay the next one by seconds.
        let next = rates.of(None, Some("x")).take_request();
        assert_eq!(next, SECOND * 51 / 20);
        for other in [rates.of(None, Some("y")), rates.of(None, None)] {
            assert_eq!(other.take_request(), Duration::ZERO);
        }
        // A device does not wait, and its own requests count apart from those of others at home.
        assert!(!rates.of(Some("a"), Some("x")).try_request());
        let at_home = ["a", "b"].map(|device| rates.of(Some(device), None));
        let carried_out = |rate: &TurnRate| (0..100).filter(|_| rate.try_request()).count();
        assert_eq!(at_home.each_ref().map(carried_out), [20, 20]);
        tokio::time::advance(SECOND).await;
        assert_eq!(at_home.each_ref().map(carried_out), [20, 20]);
    }

    #[tokio::test(start_paused = true)]
    async fn zero_is_no_limit() {
        let none = AdmissionSettings {
            turns_per_minute: 0,
            turns_per_hour: 0,
            turns_per_address: 0,
            ..AdmissionSettings::default()
        };
        assert_eq!(begun(&TurnRates::new(&none).of(Some("a"), Some("x")), 1_000), 1_000);
    }
}
