//! `hearken-engines llm`: the embedded language model on a loopback port. Starting and stopping;
//! its arguments and its behaviour are in `hearken_engines::llm`.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use hearken_base::stop_signal::stop_requested;
pub(crate) use hearken_engines::llm::args::Args;
use hearken_engines::llm::engine::{Engine, EngineState};
use hearken_engines::llm::http;
use hearken_engines::llm::request::RequestLimits;

use crate::llama::{self, LlamaSettings};

/// Maximum wait for the model to stop.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Serves until SIGTERM, Ctrl-C, or the parent's end. Fails if the address is in use, or the
/// model cannot be loaded or crashes. `models_root` is the folder of the models if `--models`
/// is not given.
pub(crate) async fn run(args: Args, models_root: &Path) -> anyhow::Result<()> {
    let (file, name) = args.model_file(models_root);
    let listener = std::net::TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}: choose another --listen", args.listen))?;
    let address = listener.local_addr()?;
    let settings = LlamaSettings {
        model: file,
        context_tokens: args.context,
        threads: args.threads.get().into(),
        prompt_threads: args.prompt_threads.get().into(),
        prompt_cache: args.prompt_cache,
    };
    let engine =
        Engine::start(args.queue.get().into(), move |use_it| llama::run(&settings, use_it))?;
    let most_max_tokens = (args.context.get() / 2).max(1);
    let limits = RequestLimits {
        default_max_tokens: args.max_tokens.get().min(most_max_tokens),
        most_max_tokens,
    };
    let mut server = std::pin::pin!(http::server(listener, engine.queue(), &name, limits)?);
    let handle = server.handle();
    tracing::info!(%address, model = %name, "serving the language model");
    let mut state = engine.queue().watch();
    let outcome = tokio::select! {
        ended = &mut server => {
            return ended.context("the HTTP server ended");
        }
        told = stop_requested(args.with_parent) => Ok(told?),
        state = state.wait_for(|state| matches!(state, EngineState::Ended(_))) => {
            match state.as_deref() {
                Ok(EngineState::Ended(Some(error))) => Err(error.clone().into()),
                _ => Ok(()),
            }
        }
    };
    // The model first: that ends the answers that the HTTP server would wait for.
    if !engine.stop(PATIENCE).await {
        tracing::warn!("the language model did not stop in time");
    }
    let ((), served) = tokio::join!(handle.stop(true), server);
    outcome.and(served.context("the HTTP server ended"))
}
