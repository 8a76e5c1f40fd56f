//! Routes of the administrator and of accounts: login, settings, people, service tests, backup.

pub(crate) mod accounts;
pub(crate) mod admin;
pub(crate) mod backup;
pub(crate) mod password;
pub(crate) mod people;
pub(crate) mod service_calls;
pub(crate) mod services;
