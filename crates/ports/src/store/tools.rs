//! Storage of tool servers that were added at run time, of the tokens of tool clients, and of the
//! tool settings of devices: the ports and their types. Not for connections to them.

use async_trait::async_trait;
use hearken_base::Secret;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;

use super::{Device, RoleStore, StoreError};

/// Maximum number of stored tokens of tool clients.
pub const MAX_TOOL_TOKENS: u32 = 1_000;

/// Tool server as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptServer {
    /// Name of the server.
    pub name: String,
    /// Settings as JSON, which may contain secrets; `None` for a server from the configuration.
    pub settings: Option<Secret>,
    /// True if the server is switched on.
    pub enabled: bool,
}

/// Pin of a tool's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPin {
    /// Agent of the tool client; empty for a tool server.
    pub agent: String,
    /// Name of the source.
    pub source: String,
    /// Name of the tool at its source.
    pub tool: String,
    /// Hash of the definition, in hexadecimal.
    pub hash: String,
}

/// Token of a tool client: its holder and its validity. The token itself is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolToken {
    /// Serial of the token.
    pub serial: String,
    /// Agent whose tool client has it; empty if a command made it.
    pub agent: String,
    /// Name given by people; empty for none.
    pub name: String,
    /// Time of creation, to the millisecond; `None` if a command made it.
    pub made: Option<Timestamp>,
    /// User who made it; empty if a command made it.
    pub made_by: String,
    /// Time of revocation, to the millisecond; `None` while the token is valid.
    pub revoked: Option<Timestamp>,
}

/// Storage of the tokens of tool clients. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait ToolTokenStore: Send + Sync {
    /// Returns all tokens that were made over the API or are revoked, newest first.
    async fn tool_tokens(&self) -> Result<Vec<ToolToken>, StoreError>;

    /// Returns the serials of all revoked tokens.
    async fn revoked_tool_tokens(&self) -> Result<Vec<String>, StoreError>;

    /// Stores a token that is not revoked. Returns false if the maximum of [`MAX_TOOL_TOKENS`] is
    /// reached.
    async fn add_tool_token(&self, token: &ToolToken) -> Result<bool, StoreError>;

    /// Permanently revokes the token with this serial, even one that was not stored. Returns false
    /// if there are [`MAX_TOOL_TOKENS`] others.
    async fn revoke_tool_token(&self, serial: &str, now: Timestamp) -> Result<bool, StoreError>;
}

/// Storage of tool servers, of tokens of tool clients, and of roles. Every call ends within seconds, with an error if the
/// store is down.
#[async_trait]
pub trait ToolStore: RoleStore + ToolTokenStore {
    /// Returns all servers, ordered by name.
    async fn tool_servers(&self) -> Result<Vec<KeptServer>, StoreError>;

    /// Stores a server that was added, in place of the switch of one from the configuration. Returns
    /// false if there is an added one of this name, which stays.
    async fn add_tool_server(&self, server: &KeptServer) -> Result<bool, StoreError>;

    /// Switches an added server on or off. Returns false if there is none of this name.
    async fn switch_tool_server(&self, name: &str, enabled: bool) -> Result<bool, StoreError>;

    /// Switches a server from the configuration on or off, in place of an added one of its name.
    async fn switch_configured_server(&self, name: &str, enabled: bool) -> Result<(), StoreError>;

    /// Deletes a server. Returns false if there is none with this name.
    async fn forget_tool_server(&self, name: &str) -> Result<bool, StoreError>;

    /// Returns all pins of definitions.
    async fn tool_pins(&self) -> Result<Vec<KeptPin>, StoreError>;

    /// Stores these pins, except those of tools that have one.
    async fn add_tool_pins(&self, pins: &[KeptPin]) -> Result<(), StoreError>;

    /// Stores these pins, replacing those of the same tools.
    async fn set_tool_pins(&self, pins: &[KeptPin]) -> Result<(), StoreError>;

    /// Deletes the pins of this tool server.
    async fn forget_tool_pins(&self, server: &str) -> Result<(), StoreError>;

    /// Switches off these tool sources for the device; `None` if there is no such device.
    async fn set_tools_off(
        &self,
        id: &DeviceId,
        off: &[String],
    ) -> Result<Option<Device>, StoreError>;

    /// Sets the agent whose tool clients the device uses; `None` if there is no such device.
    async fn set_agent(&self, id: &DeviceId, agent: &str) -> Result<Option<Device>, StoreError>;

    /// Sets the system prompt of the device; empty for the deployment's own. `None` if there is no
    /// such device.
    async fn set_system_prompt(
        &self,
        id: &DeviceId,
        prompt: &str,
    ) -> Result<Option<Device>, StoreError>;

    /// Returns the devices with an agent, tools, a system prompt or a role of their own.
    async fn devices_with_overrides(&self) -> Result<Vec<Device>, StoreError>;
}
