//! Arguments of `hearken-engines llm`. Not for starting it, which needs the native model.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};

/// Serve the embedded language model over the OpenAI HTTP API
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hearken llm\n  \
    hearken llm --model qwen2.5-coder-1.5b --threads 4\n  \
    hearken llm --model ./my.gguf --listen 127.0.0.1:9500\n  \
    curl http://127.0.0.1:9401/v1/chat/completions \
    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'")]
pub struct Args {
    /// Address to listen on; every client that reaches it may use the model
    #[arg(long, default_value = "127.0.0.1:9401")]
    pub listen: SocketAddr,
    /// Model: a name that `hearken models list` shows, or a GGUF file with ChatML format
    #[arg(long, default_value = "qwen2.5-coder-0.5b")]
    pub model: String,
    /// Folder with the fetched models
    #[arg(long, value_name = "DIR")]
    pub models: Option<PathBuf>,
    /// Threads that generate the answer; more than the free cores make it many times slower
    #[arg(long, default_value = "1")]
    pub threads: NonZeroU16,
    /// Threads that read the prompt
    #[arg(long, default_value = "1")]
    pub prompt_threads: NonZeroU16,
    /// Maximum length of a conversation with its answer, in tokens
    #[arg(long, value_name = "TOKENS", default_value = "4096")]
    pub context: NonZeroU32,
    /// Maximum number of waiting requests; further ones are refused with status 429
    #[arg(long, value_name = "REQUESTS", default_value = "32")]
    pub queue: NonZeroU16,
    /// Maximum length of an answer in tokens if a request sets none
    #[arg(long, value_name = "TOKENS", default_value = "256")]
    pub max_tokens: NonZeroU32,
    /// Folder for prefetched tools, so that a restart need not read them again
    #[arg(long, value_name = "DIR")]
    pub prompt_cache: Option<PathBuf>,
    /// Exit when standard input, a pipe held by the parent process, closes
    #[arg(long)]
    pub with_parent: bool,
}

impl Args {
    /// Returns the model file, and the model's name for clients.
    pub fn model_file(&self, models_root: &Path) -> (PathBuf, String) {
        let path = Path::new(&self.model);
        if path.components().count() > 1 || path.extension().is_some_and(|end| end == "gguf") {
            let stem = path.file_stem().unwrap_or(path.as_os_str());
            return (path.to_owned(), stem.to_string_lossy().into_owned());
        }
        let root = self.models.as_deref().unwrap_or(models_root);
        (root.join(path).join("model.gguf"), self.model.clone())
    }
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
    fn a_queue_or_context_of_zero_is_refused() {
        for wrong in ["--queue=0", "--context=0", "--threads=0", "--max-tokens=0"] {
            assert!(Cli::try_parse_from(["llm", wrong]).is_err(), "{wrong}");
        }
    }
}
