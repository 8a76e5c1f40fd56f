//! The stream of an answer's pieces, made of what begins an answer and of what reads on in it. Not
//! for any vendor's messages.

use std::future::Future;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt as _, try_unfold};
use hearken_actors::ports::{LlmDelta, ProviderError};

/// An answer being read. Dropping it closes the request.
pub(super) trait Answering: Send + 'static {
    /// The next piece; none is asked for after [`LlmDelta::Finished`].
    fn next(&mut self) -> impl Future<Output = Result<LlmDelta, ProviderError>> + Send;
}

enum Stage<A> {
    Ordered(BoxFuture<'static, Result<A, ProviderError>>),
    Answering(A),
    Over,
}

/// The pieces of an answer that begins when the first is asked for.
pub(super) fn pieces<A: Answering>(
    begin: impl Future<Output = Result<A, ProviderError>> + Send + 'static,
) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
    try_unfold(Stage::Ordered(Box::pin(begin)), |stage| async move {
        let mut answer = match stage {
            Stage::Ordered(begin) => begin.await?,
            Stage::Answering(answer) => answer,
            Stage::Over => return Ok(None),
        };
        let delta = answer.next().await?;
        let finished = matches!(delta, LlmDelta::Finished { .. });
        Ok(Some((delta, if finished { Stage::Over } else { Stage::Answering(answer) })))
    })
    .boxed()
}
