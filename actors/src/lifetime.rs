//! Ties an actor's life to its connection's token, so that cycles of addresses are harmless.

use actix::fut::{ActorFutureExt as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, Context};
use tokio_util::sync::CancellationToken;

/// Stops the actor when the token is cancelled. The first line of every `started`.
pub(crate) fn stop_with<A>(token: &CancellationToken, ctx: &mut Context<A>)
where
    A: Actor<Context = Context<A>>,
{
    let ended = wrap_future::<_, A>(token.clone().cancelled_owned());
    ctx.spawn(ended.map(|(), _, ctx| ctx.stop()));
}
