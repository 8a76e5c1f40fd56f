//! Camera instructions for devices: address and token for uploading pictures. Not for describing
//! pictures.

use std::sync::{Arc, OnceLock};

use hearken_dialogue::tools::{Vision, VisionLookup};

use super::signed_tokens::VisionTokens;

/// Camera instructions for devices; clones share them.
#[derive(Clone)]
pub struct Cameras {
    tokens: VisionTokens,
    url: Arc<OnceLock<String>>,
}

impl Cameras {
    /// Creates an instance without an address; until it is set, no device receives instructions.
    pub fn new(tokens: VisionTokens) -> Self {
        Self { tokens, url: Arc::default() }
    }

    /// Sets the address. Further calls are ignored.
    pub fn set_address(&self, url: String) {
        if self.url.set(url).is_err() {
            tracing::debug!("the address for pictures is already set");
        }
    }

    /// Returns a lookup of the address and a bearer token for each device's conversation. Each call
    /// creates a new token, which is valid for an hour.
    pub fn lookup(&self) -> VisionLookup {
        let cameras = self.clone();
        Arc::new(move |device_id| Vision {
            url: cameras.url.get().cloned().unwrap_or_default(),
            token: cameras.tokens.mint(device_id.as_str()),
        })
    }
}
