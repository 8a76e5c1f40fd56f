//! The adapters under test. Not for the faults.

use std::collections::BTreeSet;

use hearken::config::Config;
use hearken_providers::LlmProvider;
use hearken_test_support::fault_proxy::rows::{Expected, Wire};
use hearken_test_support::vendors::{
    AnthropicMessages, Behaviour, FunAsr, ListenAiAsr, ListenAiTts, OpenAiChat, OpenAiSpeech,
    OpenAiTranscriptions, Stub,
};

use crate::support::app::{HEARD, REPLY, Vendors};

/// A client of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adapter {
    ListenAiAsr,
    FunAsr,
    OpenAiAsr,
    OpenAiLlm,
    AnthropicLlm,
    ListenAiTts,
    OpenAiTts,
}

impl Adapter {
    pub(super) fn wire(self) -> Wire {
        match self {
            Self::ListenAiAsr | Self::FunAsr | Self::ListenAiTts => Wire::Socket,
            Self::OpenAiAsr | Self::OpenAiLlm | Self::AnthropicLlm | Self::OpenAiTts => Wire::Http,
        }
    }

    /// Its own vendor, and the default ones for the other services.
    pub(super) async fn vendors(self) -> Vendors {
        let normal = Behaviour::Normal;
        let asr = match self {
            Self::FunAsr => FunAsr::start(normal, HEARD).await,
            Self::OpenAiAsr => OpenAiTranscriptions::start(normal, HEARD).await,
            _ => ListenAiAsr::start(normal, HEARD).await,
        };
        let llm = match self {
            Self::AnthropicLlm => AnthropicMessages::start(normal, &REPLY.join(" ")).await,
            _ => OpenAiChat::start(normal, &REPLY.join(" ")).await,
        };
        let tts = match self {
            Self::OpenAiTts => OpenAiSpeech::start(normal).await,
            _ => ListenAiTts::start(normal).await,
        };
        Vendors::of(asr, llm, tts)
    }

    /// The vendor of this adapter.
    pub(super) fn stub(self, vendors: &Vendors) -> &Stub {
        match self {
            Self::ListenAiAsr | Self::FunAsr | Self::OpenAiAsr => &vendors.asr,
            Self::OpenAiLlm | Self::AnthropicLlm => &vendors.llm,
            Self::ListenAiTts | Self::OpenAiTts => &vendors.tts,
        }
    }

    /// Its port, as metrics name it.
    pub(super) fn port(self) -> &'static str {
        match self {
            Self::ListenAiAsr | Self::FunAsr | Self::OpenAiAsr => "asr",
            Self::OpenAiLlm | Self::AnthropicLlm => "llm",
            Self::ListenAiTts | Self::OpenAiTts => "tts",
        }
    }

    /// Points the server to the service at this address.
    pub(super) fn point(self, config: &mut Config, url: String) {
        match self {
            Self::ListenAiAsr | Self::FunAsr | Self::OpenAiAsr => config.asr.url = url,
            Self::OpenAiLlm => config.llm.base_url = url,
            Self::AnthropicLlm => {
                (config.llm.base_url, config.llm.provider) = (url, LlmProvider::Anthropic);
            }
            Self::ListenAiTts | Self::OpenAiTts => config.tts.url = url,
        }
    }

    /// Number of response bytes after which the answer has started: after the handshake, and for a
    /// synthesiser within the sound.
    pub(super) fn in_the_midst(self) -> usize {
        match self {
            Self::ListenAiTts | Self::OpenAiTts => 3_000,
            // The whole answer is short.
            Self::OpenAiAsr => 125,
            _ => 200,
        }
    }

    /// The outcome if the service was never reachable. A synthesiser then has no fixed phrases either.
    pub(super) fn never_there(self) -> Expected {
        match self {
            Self::ListenAiTts | Self::OpenAiTts => Expected::Silence,
            _ => Expected::Failed,
        }
    }
}

/// Wrappers in these folders that call no service themselves.
const AROUND: [&str; 5] = ["ByName", "CachedTts", "CountingLlm", "LimitedLlm", "PricedLlm"];

#[test]
fn every_adapter_is_tested() {
    let mut found = BTreeSet::new();
    for (folder, port) in
        [("asr", "impl Asr for "), ("llm", "impl Llm for "), ("tts", "impl Tts for ")]
    {
        let folder = hearken_test_support::repository().join("crates/providers/src").join(folder);
        for file in std::fs::read_dir(folder).unwrap() {
            // A folder contains tests and no adapter.
            let source = std::fs::read_to_string(file.unwrap().path()).unwrap_or_default();
            let names =
                source.lines().filter_map(|line| line.strip_prefix(port)?.strip_suffix(" {"));
            found.extend(names.map(str::to_owned));
        }
    }
    let known = super::ALL.iter().map(|adapter| format!("{adapter:?}"));
    let known = known.chain(AROUND.map(str::to_owned)).collect();
    assert_eq!(found, known, "each adapter has a line in `gauntlet!`");
}
