//! The eyes' port: a model that tells in words what a picture shows, for models that cannot see.

use futures_util::future::BoxFuture;

use super::ProviderError;

/// A picture on its way to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// For example `image/jpeg`.
    pub mime_type: String,
    /// In base64, as it came.
    pub base64: String,
}

/// Looks at pictures.
pub trait ImageDescriber: Send + Sync {
    /// Answers a question about a picture, within a deadline of its own. Dropping the future ends
    /// the request.
    fn describe(
        &self,
        question: &str,
        picture: Picture,
    ) -> BoxFuture<'static, Result<String, ProviderError>>;
}
