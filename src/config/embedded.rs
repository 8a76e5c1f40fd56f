//! Section `[embedded]`. Not for starting the engines.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[embedded]`: engines that run beside the server, each as a child process. An engine is
/// started only where one of the URLs of `[asr]`, `[tts]` and `[llm]` points at the address that it
/// would listen on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddedConfig {
    /// False never starts an engine.
    pub enabled: bool,
    /// Where the embedded recogniser listens.
    pub asr_listen: SocketAddr,
    /// Its try-it page.
    pub asr_page: SocketAddr,
    /// Where the embedded synthesiser listens.
    pub tts_listen: SocketAddr,
    /// Its try-it page.
    pub tts_page: SocketAddr,
    /// Where the embedded language model listens.
    pub llm_listen: SocketAddr,
    /// The embedded language model: a name of the catalogue, or a GGUF file.
    pub llm_model: String,
    /// The embedded model is offered tools. It reads them ahead, about 10 s of one core for six.
    pub llm_tools: bool,
    /// Folder of the models; empty means `HEARKEN_MODELS`, else `hearken/models` in the user's
    /// cache folder.
    pub models_dir: PathBuf,
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            enabled: true,
            asr_listen: local(9200),
            asr_page: local(9201),
            tts_listen: local(9300),
            tts_page: local(9301),
            llm_listen: local(9401),
            llm_model: "qwen2.5-coder-0.5b".into(),
            llm_tools: true,
            models_dir: PathBuf::new(),
        }
    }
}
