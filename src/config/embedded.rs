//! Section `[embedded]`. Not for starting the engines.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[embedded]`: embedded engines, each a child process. An engine is started only if one
/// of the URLs of `[asr]`, `[tts]` and `[llm]` points at its address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddedConfig {
    /// Start embedded engines. `false` never starts any.
    pub enabled: bool,
    /// Listening address of the embedded recogniser.
    pub asr_listen: SocketAddr,
    /// Listening address of the embedded recogniser's test page and health check.
    pub asr_page: SocketAddr,
    /// Listening address of the embedded synthesiser.
    pub tts_listen: SocketAddr,
    /// Listening address of the embedded synthesiser's test page and health check.
    pub tts_page: SocketAddr,
    /// Listening address of the embedded language model.
    pub llm_listen: SocketAddr,
    /// Embedded language model: a name from the catalogue (`hearken models list`) or the
    /// path of a GGUF file.
    pub llm_model: String,
    /// Offer tools to the embedded model, so that it can set a device's volume, for
    /// example. So small a model calls some tools unnecessarily and misses others. Reading
    /// six tools takes about 10 s of one core, once for all devices of a kind.
    pub llm_tools: bool,
    /// Folder of the downloaded models. Empty uses `HEARKEN_MODELS` or, if that variable is
    /// not set, `hearken/models` in the user's cache folder.
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
