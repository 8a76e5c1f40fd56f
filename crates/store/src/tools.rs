//! The tool servers that were added at run time, and what was chosen for devices' conversations:
//! the port and its types. Not for connecting to any.

use async_trait::async_trait;
use hearken_base::Secret;
use hearken_proto::ids::DeviceId;

use super::{Device, StoreError};

/// A tool server as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptServer {
    /// Its name.
    pub name: String,
    /// Its settings as JSON, which may hold secrets; none for one that stands in the
    /// configuration.
    pub settings: Option<Secret>,
    /// It is switched on.
    pub enabled: bool,
}

/// Where tool servers are kept. Every call ends within seconds, with an error where the store is
/// down.
#[async_trait]
pub trait ToolStore: Send + Sync {
    /// All of them, in the order of their names.
    async fn tool_servers(&self) -> Result<Vec<KeptServer>, StoreError>;

    /// Keeps a server in place of one with the same name.
    async fn keep_tool_server(&self, server: &KeptServer) -> Result<(), StoreError>;

    /// Forgets a server. False where there is none of this name.
    async fn forget_tool_server(&self, name: &str) -> Result<bool, StoreError>;

    /// The device goes without these sources of tools. None where there is no such device.
    async fn set_tools_off(
        &self,
        id: &DeviceId,
        off: &[String],
    ) -> Result<Option<Device>, StoreError>;

    /// The device has the tool clients of this agent. None where there is no such device.
    async fn set_agent(&self, id: &DeviceId, agent: &str) -> Result<Option<Device>, StoreError>;

    /// The model is told this of how to behave with the device; empty for the deployment's own
    /// instructions. None where there is no such device.
    async fn set_system_prompt(
        &self,
        id: &DeviceId,
        prompt: &str,
    ) -> Result<Option<Device>, StoreError>;

    /// The devices for which somebody chose their agent, tools or instructions.
    async fn choosers(&self) -> Result<Vec<Device>, StoreError>;
}
