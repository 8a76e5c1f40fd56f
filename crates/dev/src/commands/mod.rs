//! One file per subcommand: arguments, calling one thing, printing. No behaviour.

pub(crate) mod load;
pub(crate) mod mock_services;
pub(crate) mod state_server;
