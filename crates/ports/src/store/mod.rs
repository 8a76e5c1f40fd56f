//! Ports of the store, and their types. Not for the ports of sessions and people, whose errors
//! carry less detail: they are beside this folder.

mod devices;
mod error;
mod history;
mod museum;
mod roles;
mod settings;
mod tools;
mod usage;

pub use devices::{
    Activation, ClientRule, CodeRequest, Device, DevicePage, DeviceReport, DeviceStore, MAX_CODES,
    MAX_CODES_PER_ADDRESS, MAX_REVOCATIONS, MAX_STRANGERS, TokenHolder,
};
pub use error::{StoreError, StoreErrorKind};
pub use history::{
    HistoryClient, HistoryFilter, HistoryPart, HistoryStore, HistorySummary, HistoryTurn,
    MOST_DELETED, Side, SoundPlace, TurnSound,
};
pub use museum::{ListedMuseumSession, MuseumSession, MuseumStore};
pub use roles::{MAX_ROLE_VERSIONS, MAX_ROLES, Role, RoleOutcome, RoleStore};
pub use settings::{AuditEntry, MAX_AUDIT_ENTRIES, SettingsStore};
pub use tools::{KeptPin, KeptServer, MAX_TOOL_TOKENS, ToolStore, ToolToken, ToolTokenStore};
pub use usage::{UsageGroup, UsageStore};
