//! Port of the vision model: describes pictures in words for language models that accept no
//! pictures.

use futures_util::future::BoxFuture;

use super::{ProviderError, Usage};

/// Picture for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// MIME type, for example `image/jpeg`.
    pub mime_type: String,
    /// Base64 data as received.
    pub base64: String,
}

/// Answer of a vision model.
#[derive(Debug)]
pub struct Described {
    /// The words, or the reason that there are none.
    pub words: Result<String, ProviderError>,
    /// Usage, reported or estimated; zero if the model has not answered.
    pub usage: Usage,
}

impl From<ProviderError> for Described {
    /// Creates the answer of a model that could not be asked.
    fn from(error: ProviderError) -> Self {
        Self { words: Err(error), usage: Usage::default() }
    }
}

/// Describer of pictures.
pub trait ImageDescriber: Send + Sync {
    /// Answers a question about a picture, within a deadline of its own. Dropping the future
    /// cancels the request.
    fn describe(&self, question: &str, picture: Picture) -> BoxFuture<'static, Described>;
}
