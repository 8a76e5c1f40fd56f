//! Routes of clients other than devices: text clients, museum clients, tool clients, LiteMCP, the web console.

pub(crate) mod console;
pub(crate) mod litemcp;
pub(crate) mod mcp_endpoint;
pub(crate) mod museum;
pub(crate) mod text_gateway;
