//! Port of the vision model: describes pictures in words for language models that accept no
//! pictures.

use futures_util::future::BoxFuture;

use super::ProviderError;

/// Picture for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// MIME type, for example `image/jpeg`.
    pub mime_type: String,
    /// Base64 data as received.
    pub base64: String,
}

/// Describer of pictures.
pub trait ImageDescriber: Send + Sync {
    /// Answers a question about a picture, within a deadline of its own. Dropping the future
    /// cancels the request.
    fn describe(
        &self,
        question: &str,
        picture: Picture,
    ) -> BoxFuture<'static, Result<String, ProviderError>>;
}
