//! Tokens of tool clients that are created and revoked at run time: they are stored, and a revoked
//! one ends its connections. Not for the format of tokens.

use std::collections::HashSet;

use hearken_ports::store::{StoreError, ToolToken};
use jiff::Timestamp;

use super::Registry;

impl Registry {
    /// Returns the tokens that were created over the API or are revoked, newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn tool_tokens(&self) -> Result<Vec<ToolToken>, StoreError> {
        self.0.store.tool_tokens().await
    }

    /// Stores a new token. Returns false if there are too many.
    ///
    /// # Errors
    /// The store failed.
    pub async fn add_tool_token(&self, token: &ToolToken) -> Result<bool, StoreError> {
        self.0.store.add_tool_token(token).await
    }

    /// Permanently revokes the token with this serial, and ends its connections. Returns false if
    /// there are too many.
    ///
    /// # Errors
    /// The store failed.
    pub async fn revoke_tool_token(
        &self,
        serial: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let _one_at_a_time = self.0.changing.lock().await;
        let was_revoked = self.0.store.revoke_tool_token(serial, now).await?;
        self.take_revoked_tokens().await?;
        Ok(was_revoked)
    }

    /// Applies the revoked tokens of the store.
    pub(super) async fn take_revoked_tokens(&self) -> Result<(), StoreError> {
        let revoked: HashSet<String> =
            self.0.store.revoked_tool_tokens().await?.into_iter().collect();
        self.0.sources.endpoint().revoke(revoked);
        Ok(())
    }
}
