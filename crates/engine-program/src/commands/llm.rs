//! `hearken-engines llm`: the embedded language model on a loopback port. Arguments, starting,
//! stopping; its behaviour is in `hearken_engines::llm`.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use hearken_base::stop_signal::stop_requested;
use hearken_engines::llm::engine::{Engine, EngineState};
use hearken_engines::llm::http;
use hearken_engines::llm::request::RequestLimits;

use crate::llama::{self, LlamaSettings};

/// Serve the embedded language model over the OpenAI HTTP API
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hearken llm\n  \
    hearken llm --model qwen2.5-coder-1.5b --threads 4\n  \
    hearken llm --model ./my.gguf --listen 127.0.0.1:9500\n  \
    curl http://127.0.0.1:9401/v1/chat/completions \
    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'")]
pub(crate) struct Args {
    /// Address to listen on; everybody who reaches it may use the model
    #[arg(long, default_value = "127.0.0.1:9401")]
    pub(crate) listen: SocketAddr,
    /// Model: a name that `hearken models list` shows, or a GGUF file with ChatML format
    #[arg(long, default_value = "qwen2.5-coder-0.5b")]
    pub(crate) model: String,
    /// Folder with the fetched models
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
    /// Threads that generate the answer; more than there are free cores makes it many times slower
    #[arg(long, default_value = "1")]
    pub(crate) threads: NonZeroU16,
    /// Threads that read the prompt
    #[arg(long, default_value = "1")]
    pub(crate) prompt_threads: NonZeroU16,
    /// Longest conversation with its answer, in tokens
    #[arg(long, value_name = "TOKENS", default_value = "4096")]
    pub(crate) context: NonZeroU32,
    /// Maximum number of waiting requests; further ones are refused with status 429
    #[arg(long, value_name = "REQUESTS", default_value = "32")]
    pub(crate) queue: NonZeroU16,
    /// Longest answer in tokens if a request names none
    #[arg(long, value_name = "TOKENS", default_value = "256")]
    pub(crate) max_tokens: NonZeroU32,
    /// Folder in which tools that were read ahead are kept, so that a restart need not read them again
    #[arg(long, value_name = "DIR")]
    pub(crate) prompt_cache: Option<PathBuf>,
    /// Exit when standard input, a pipe held by the parent process, closes
    #[arg(long)]
    pub(crate) with_parent: bool,
}

impl Args {
    /// Returns the model file, and the model's name for clients.
    pub(crate) fn model_file(&self, models_root: &Path) -> (PathBuf, String) {
        let path = Path::new(&self.model);
        if path.components().count() > 1 || path.extension().is_some_and(|end| end == "gguf") {
            let stem = path.file_stem().unwrap_or(path.as_os_str());
            return (path.to_owned(), stem.to_string_lossy().into_owned());
        }
        let root = self.models.as_deref().unwrap_or(models_root);
        (root.join(path).join("model.gguf"), self.model.clone())
    }
}

/// Longest wait for the model to stop.
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
    // The model first: that ends the answers which the HTTP server would wait for.
    if !engine.stop(PATIENCE).await {
        tracing::warn!("the language model did not stop in time");
    }
    let ((), served) = tokio::join!(handle.stop(true), server);
    outcome.and(served.context("the HTTP server ended"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn file(arguments: &[&str]) -> (PathBuf, String) {
        let words = ["llm"].iter().chain(arguments);
        Cli::try_parse_from(words).unwrap().args.model_file(Path::new("/root-of-models"))
    }

    #[test]
    fn a_model_is_a_catalogue_name_or_a_file() {
        let named = |path: &str, name: &str| (PathBuf::from(path), name.to_owned());
        let default = "/root-of-models/qwen2.5-coder-0.5b/model.gguf";
        assert_eq!(file(&[]), named(default, "qwen2.5-coder-0.5b"));
        assert_eq!(file(&["--model", "a", "--models", "m"]), named("m/a/model.gguf", "a"));
        assert_eq!(file(&["--model", "./dir/b.gguf"]), named("./dir/b.gguf", "b"));
        assert_eq!(file(&["--model", "b.gguf"]), named("b.gguf", "b"));
    }

    #[test]
    fn a_queue_or_context_of_nothing_is_refused() {
        for wrong in ["--queue=0", "--context=0", "--threads=0", "--max-tokens=0"] {
            assert!(Cli::try_parse_from(["llm", wrong]).is_err(), "{wrong}");
        }
    }
}
