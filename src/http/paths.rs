//! Paths that the middleware must know, too. Not for the other paths, which are in the route table.

/// Path of the API documentation.
pub(crate) const DOCS: &str = "/api/docs";
/// Path of the OpenAPI description.
pub(crate) const OPENAPI: &str = "/api/openapi.json";
/// Path of a LiteMCP tool.
pub(crate) const LITEMCP: &str = "/litemcp/{tool}";
/// Path to which devices send pictures.
pub const VISION: &str = "/vision/explain";
