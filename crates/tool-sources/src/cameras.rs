//! Tells devices where their cameras send pictures. Not for describing pictures.

use std::sync::{Arc, OnceLock};

use hearken_actors::tools::{Vision as Way, VisionLookup};

use super::signed_tokens::VisionTokens;

/// Tells devices where their cameras send pictures; clones share it.
#[derive(Clone)]
pub struct Cameras {
    tokens: VisionTokens,
    url: Arc<OnceLock<String>>,
}

impl Cameras {
    /// Tells nobody anything until the address is known.
    pub fn new(tokens: VisionTokens) -> Self {
        Self { tokens, url: Arc::default() }
    }

    /// The address, once it is known; a second one is not taken.
    pub fn are_at(&self, url: String) {
        if self.url.set(url).is_err() {
            tracing::debug!("the address for pictures is known already");
        }
    }

    /// What tells each device's conversation the address and a bearer token, which is made anew
    /// and good for an hour.
    pub fn lookup(&self) -> VisionLookup {
        let cameras = self.clone();
        Arc::new(move |device_id| Way {
            url: cameras.url.get().cloned().unwrap_or_default(),
            token: cameras.tokens.mint(device_id.as_str()),
        })
    }
}
