//! Ties the lifetime of an actor to the token of its connection. Without it, actors that hold each
//! other's addresses would never end.

use actix::fut::{ActorFutureExt as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, Context};
use tokio_util::sync::CancellationToken;

/// Stops the actor when the token is cancelled. To be called first in every `started`.
pub(crate) fn stop_with<A>(token: &CancellationToken, ctx: &mut Context<A>)
where
    A: Actor<Context = Context<A>>,
{
    let ended = wrap_future::<_, A>(token.clone().cancelled_owned());
    ctx.spawn(ended.map(|(), _, ctx| ctx.stop()));
}
