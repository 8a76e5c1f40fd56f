//! State of the services behind a port, according to their last requests and probes.

use serde::Serialize;

use super::ProviderErrorKind;

/// State of the services behind a port, and the last failure of a service that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceHealth {
    /// Combined state.
    pub state: ServiceState,
    /// Last failure of a service that is down.
    pub failure: Option<ProviderErrorKind>,
    /// True if a probe can show that a failed service works again; otherwise, only a request can.
    pub probe_decides: bool,
}

impl ServiceHealth {
    /// Combines the health of several services, of which one is enough.
    pub fn of(services: impl IntoIterator<Item = Self>) -> Self {
        let all: Vec<Self> = services.into_iter().collect();
        Self {
            state: ServiceState::of(all.iter().map(|one| one.state)),
            failure: all.iter().find_map(|one| one.failure),
            probe_decides: all.iter().any(|one| one.probe_decides),
        }
    }
}

/// State of the services behind a port. A service without a request or probe so far counts as
/// working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceState {
    /// All of them work.
    #[default]
    Ready,
    /// Some failed, others work.
    Degraded,
    /// All of them failed.
    Down,
}

impl ServiceState {
    /// Combines the states of several services, of which one is enough.
    pub fn of(services: impl IntoIterator<Item = Self>) -> Self {
        let states: Vec<Self> = services.into_iter().collect();
        match () {
            () if states.iter().all(|state| *state == Self::Ready) => Self::Ready,
            () if states.iter().all(|state| *state == Self::Down) => Self::Down,
            () => Self::Degraded,
        }
    }
}

impl From<bool> for ServiceState {
    /// Converts "it works" to a state.
    fn from(works: bool) -> Self {
        if works { Self::Ready } else { Self::Down }
    }
}

#[cfg(test)]
mod tests {
    use super::ServiceState::{self, Degraded, Down, Ready};

    #[test]
    fn one_service_that_works_is_enough() {
        for (services, state) in [
            (vec![], Ready),
            (vec![Ready, Ready], Ready),
            (vec![Down, Down], Down),
            (vec![Down, Ready], Degraded),
            (vec![Degraded], Degraded),
        ] {
            assert_eq!(ServiceState::of(services.clone()), state, "{services:?}");
        }
    }
}
