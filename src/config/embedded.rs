//! Section `[embedded]`. Not for starting the engines.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[embedded]`: embedded engines, each a child process. An engine is started only if one
/// of the URLs of `[asr]`, `[tts]` and `[llm]` points at its address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddedConfig {
    /// False to never start an engine.
    pub enabled: bool,
    /// Address of the embedded recogniser.
    pub asr_listen: SocketAddr,
    /// Address of its test page.
    pub asr_page: SocketAddr,
    /// Address of the embedded synthesiser.
    pub tts_listen: SocketAddr,
    /// Address of its test page.
    pub tts_page: SocketAddr,
    /// Address of the embedded language model.
    pub llm_listen: SocketAddr,
    /// Embedded language model: a name of the catalogue, or a GGUF file.
    pub llm_model: String,
    /// True to offer tools to the embedded model. It prefetches them, which takes about 10 s of one
    /// core for six tools.
    pub llm_tools: bool,
    /// Folder of the models; empty for `HEARKEN_MODELS`, else `hearken/models` in the user's cache
    /// folder.
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
