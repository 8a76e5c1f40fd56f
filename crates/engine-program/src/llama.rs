//! The language model, run by llama.cpp. The only file that uses llama.cpp; queues and HTTP are
//! elsewhere.
//!
//! Prompts stay in the model's cache between requests. Of a new prompt, only the part after the
//! longest common prefix is read. A conversation that continues, and any other with the same system
//! message and tools, starts from there. Prompts with tools and prompts without tools have separate
//! cache sequences. Neither replaces the other's prefix. Prefetched tools are also stored in files:
//! they are read from there after a restart, and after the tools of another device.

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use hearken_engines::llm::chatml::{self, Segment};
use hearken_engines::llm::generation::{
    Emit, Finish, FinishReason, Generation, Generator, LlmError, Piece, Sampling,
};
use hearken_engines::llm::grammar;
use hearken_engines::llm::prompt_cache::{PromptCache, common};
use hearken_engines::llm::two_pass::TwoPass;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

/// Version of the format of stored states.
const LLAMA_CPP: &str = "llama-cpp-2 0.1.160";
/// Number of prompts that stay in the cache: one without tools, one with tools.
const STRANDS: NonZeroU32 = NonZeroU32::new(2).expect("two is not zero");
/// Prompt tokens read at once; the request can be cancelled between two such batches.
const STRETCH: usize = 64;
/// Minimum number of tokens for which storing a prompt, or reading it from its file, is worthwhile.
const WORTH_KEEPING: usize = 256;
/// Window, in tokens, in which repeated words are penalised, and the penalty; 1.0 is no penalty.
const REPEAT_WINDOW: i32 = 64;
const REPEAT_PENALTY: f32 = 1.05;
/// Penalty on repeated phrases over the whole answer ("DRY": multiplier, base, number of tokens
/// that may be repeated freely). Without it, small models repeat themselves.
const PHRASE_PENALTY: (f32, f32, i32) = (0.8, 1.75, 4);
const PHRASE_WINDOW: i32 = 1024;
/// Texts at which the search for repeated phrases restarts.
const PHRASE_BREAKS: [&str; 4] = ["\n", ":", "\"", "*"];
/// Top-k: number of candidate tokens; published for Qwen2.5 in its `generation_config.json`.
const TOP_K: i32 = 20;

/// Settings of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LlamaSettings {
    /// Model file: GGUF, whose chat format is ChatML.
    pub(crate) model: PathBuf,
    /// Maximum length of a conversation including its answer, in tokens.
    pub(crate) context_tokens: NonZeroU32,
    /// Threads that generate the answer. More threads than free cores make it many times slower.
    pub(crate) threads: i32,
    /// Threads that read the prompt.
    pub(crate) prompt_threads: i32,
    /// Folder of stored prompts; `None` disables it.
    pub(crate) prompt_cache: Option<PathBuf>,
}

/// Loads a model, passes it to `use_it`, and frees it when that returns.
pub(crate) fn run(
    settings: &LlamaSettings,
    use_it: &mut dyn FnMut(&mut dyn Generator),
) -> Result<(), LlmError> {
    let mut backend = LlamaBackend::init().map_err(load_error)?;
    backend.void_logs();
    if !settings.model.is_file() {
        return Err(LlmError::Load(missing(&settings.model)));
    }
    let model = LlamaModel::load_from_file(&backend, &settings.model, &LlamaModelParams::default())
        .map_err(|error| load_error(format!("{}: {error}", settings.model.display())))?;
    let params = LlamaContextParams::default()
        .with_n_ctx(Some(settings.context_tokens.saturating_mul(STRANDS)))
        .with_n_seq_max(STRANDS.get())
        // Each sequence has its own half, and is not slowed down by the contents of the other.
        .with_kv_unified(false)
        .with_n_batch(STRETCH as u32)
        .with_n_ubatch(STRETCH as u32)
        .with_n_threads(settings.threads)
        .with_n_threads_batch(settings.prompt_threads);
    let context = model.new_context(&backend, params).map_err(load_error)?;
    let limit = (context.n_ctx() / STRANDS) as usize;
    let batch = LlamaBatch::new(STRETCH, 1);
    tracing::info!(model = %settings.model.display(), context_tokens = limit, "language model loaded");
    let strands = [Vec::new(), Vec::new()];
    let kept = settings.prompt_cache.as_deref().and_then(|folder| open_cache(folder, settings));
    use_it(&mut TwoPass(Llama { model: &model, context, batch, strands, on: 0, limit, kept }));
    Ok(())
}

/// Opens the folder of stored prompts. Without it, the model reads all prompts itself.
fn open_cache(folder: &Path, settings: &LlamaSettings) -> Option<PromptCache> {
    let opened = file_state(&settings.model).and_then(|(bytes, modified)| {
        let model = format!(
            "{}, {bytes} bytes of {modified}, {} tokens, {LLAMA_CPP}",
            settings.model.display(),
            settings.context_tokens
        );
        PromptCache::open(folder, &model)
    });
    let warn = |error: &io::Error| {
        tracing::warn!(%error, folder = %folder.display(), "cannot persist prompts");
    };
    opened.inspect_err(warn).ok()
}

/// Returns the size of a file, and the time of its last change, in seconds since 1970.
fn file_state(file: &Path) -> io::Result<(u64, u64)> {
    let known = std::fs::metadata(file)?;
    let modified = known.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((known.len(), modified.as_secs()))
}

fn missing(path: &Path) -> String {
    format!("{}: there is no such file: run `hearken models fetch`", path.display())
}

fn load_error(error: impl ToString) -> LlmError {
    LlmError::Load(error.to_string())
}

fn engine_error(error: impl ToString) -> LlmError {
    LlmError::Engine(error.to_string())
}

struct Llama<'m> {
    model: &'m LlamaModel,
    context: LlamaContext<'m>,
    batch: LlamaBatch<'m>,
    /// Tokens in the cache, in order: of the last prompt without tools, and of the last prompt with
    /// tools.
    strands: [Vec<LlamaToken>; STRANDS.get() as usize],
    /// Index of the sequence in use.
    on: usize,
    limit: usize,
    kept: Option<PromptCache>,
}

impl Generator for Llama<'_> {
    fn generate(&mut self, request: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError> {
        let outcome = self.answer(request, emit);
        if outcome.is_err() {
            // The contents of the cache after a failed decode are unknown.
            self.context.clear_kv_cache();
            self.strands.iter_mut().for_each(Vec::clear);
        }
        outcome
    }
}

impl Llama<'_> {
    fn answer(&mut self, request: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError> {
        self.on = usize::from(!request.tools.is_empty());
        // The answer gets at most half of the context, the prompt at least the other half.
        let most = (request.max_tokens as usize).min(self.limit / 2);
        let room = self.limit - most;
        let fitted = chatml::fit(&request.messages, &request.tools, room, |segments| {
            self.tokens(segments).len()
        })?;
        if fitted.dropped > 0 {
            tracing::info!(dropped = fitted.dropped, "removed old messages from a long prompt");
        }
        let prompt = self.tokens(&fitted.segments);
        self.restore(&prompt);
        let cached = self.keep_common(&prompt)?;
        let mut finish = Finish {
            reason: FinishReason::Cut,
            prompt_tokens: prompt.len() as u32,
            cached_tokens: cached as u32,
            completion_tokens: 0,
        };
        for stretch in prompt[cached..].chunks(STRETCH) {
            if emit(Piece::Reading).is_break() {
                return Ok(finish);
            }
            self.decode(stretch)?;
        }
        if is_prefetch(request) {
            self.keep_on_disk();
        }
        let mut picker = Picker::new(self.model, request)?;
        loop {
            if finish.completion_tokens as usize >= most {
                finish.reason = FinishReason::Length;
                return Ok(finish);
            }
            let token = picker.pick(&self.context, self.batch.n_tokens() - 1)?;
            if self.model.vocab().is_eog(token) {
                finish.reason = FinishReason::Stop;
                return Ok(finish);
            }
            finish.completion_tokens += 1;
            let bytes = self.model.vocab().token_to_piece(token, true, None);
            if emit(Piece::Bytes(&bytes)).is_break() {
                return Ok(finish);
            }
            self.decode(&[token])?;
        }
    }

    /// Tokenizes the segments. Only marks become control tokens: `<|im_end|>` in a user's text
    /// stays plain text.
    fn tokens(&self, segments: &[Segment]) -> Vec<LlamaToken> {
        let vocab = self.model.vocab();
        let tokens = segments.iter().flat_map(|segment| match segment {
            Segment::Mark(mark) => vocab.tokenize(mark.as_bytes(), false, true),
            Segment::Text(text) => vocab.tokenize(text.as_bytes(), false, false),
        });
        tokens.collect()
    }

    /// Reads a stored prompt from its file, if that saves the model much of its reading.
    fn restore(&mut self, prompt: &[LlamaToken]) {
        let least = common(&self.strands[self.on], prompt) + WORTH_KEEPING;
        let Some(kept) = self.kept.as_mut().filter(|_| least <= prompt.len()) else { return };
        let Some((common, name)) = kept.longest(&numbers(prompt)) else { return };
        if common < least {
            return;
        }
        let loaded =
            kept.state(&name).map_err(|error| error.to_string()).and_then(|(file, tokens)| {
                let room = self.limit;
                let loaded = self.context.state_seq_load_file(file, self.on as i32, room);
                let (loaded, _) = loaded.map_err(|error| error.to_string())?;
                if numbers(&loaded) == tokens { Ok(loaded) } else { Err("of other tokens".into()) }
            });
        match loaded {
            Ok(tokens) => {
                tracing::debug!(tokens = tokens.len(), common, "a prompt was read from its file");
                self.strands[self.on] = tokens;
                if let Err(error) = kept.loaded(&name) {
                    tracing::warn!(%error, "cannot persist a prompt");
                }
            }
            Err(error) => {
                tracing::warn!(error, "cannot read a stored prompt; the model reads it again");
                kept.remove(&name);
                // The content of the sequence is unknown now: `keep_common` clears it.
                self.strands[self.on].clear();
            }
        }
    }

    /// Stores the prompt that was just read in a file.
    fn keep_on_disk(&mut self) {
        let read = &self.strands[self.on];
        let Some(kept) = self.kept.as_mut().filter(|_| read.len() >= WORTH_KEEPING) else { return };
        let context = &self.context;
        let sequence = self.on as i32;
        let save = |file: &Path| {
            let saved = context.state_seq_save_file(file, sequence, read);
            saved.map(drop).map_err(io::Error::other)
        };
        match kept.keep(&numbers(read), save) {
            Ok(true) => tracing::debug!(tokens = read.len(), "stored a prompt in a file"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "cannot persist a prompt"),
        }
    }

    /// Removes everything after the common prefix with this prompt from the cache. The last token
    /// is always read again, because the answer starts from its result.
    fn keep_common(&mut self, prompt: &[LlamaToken]) -> Result<usize, LlmError> {
        let read = &mut self.strands[self.on];
        let keep = common(read, prompt).min(prompt.len().saturating_sub(1));
        let sequence = Some(self.on as u32);
        let removed = self.context.clear_kv_cache_seq(sequence, Some(keep as u32), None);
        if removed.map_err(engine_error)? {
            read.truncate(keep);
            return Ok(keep);
        }
        // Removing a whole sequence never fails.
        self.context.clear_kv_cache_seq(sequence, None, None).map_err(engine_error)?;
        read.clear();
        Ok(0)
    }

    fn decode(&mut self, tokens: &[LlamaToken]) -> Result<(), LlmError> {
        let read = &mut self.strands[self.on];
        self.batch.clear();
        for (index, token) in tokens.iter().enumerate() {
            let position = (read.len() + index) as i32;
            let last = index + 1 == tokens.len();
            self.batch.add(*token, position, &[self.on as i32], last).map_err(engine_error)?;
        }
        self.context.decode(&mut self.batch).map_err(engine_error)?;
        read.extend_from_slice(tokens);
        Ok(())
    }
}

/// Reports whether a request only prefetches tools: it contains nothing of a conversation, so it
/// may be stored.
fn is_prefetch(request: &Generation) -> bool {
    request.gives_way && request.messages.is_empty() && !request.tools.is_empty()
}

fn numbers(tokens: &[LlamaToken]) -> Vec<i32> {
    tokens.iter().map(|token| token.0).collect()
}

/// Sampler of the next token.
struct Picker {
    sampler: LlamaSampler,
    grammar: Option<LlamaSampler>,
}

impl Picker {
    fn new(model: &LlamaModel, request: &Generation) -> Result<Self, LlmError> {
        let grammar = match grammar::for_request(request) {
            None => None,
            Some(text) => Some(
                LlamaSampler::grammar(model, &text, "root")
                    .map_err(|error| LlmError::Engine(format!("the tools' grammar: {error}")))?,
            ),
        };
        Ok(Self { sampler: sampler(model, &request.sampling), grammar })
    }

    /// Picks the next token. Applying the grammar to the whole vocabulary is expensive, and the
    /// model mostly obeys it anyway. For that reason only the picked token is tested; all tokens
    /// are filtered only when it is forbidden.
    fn pick(&mut self, context: &LlamaContext<'_>, index: i32) -> Result<LlamaToken, LlmError> {
        let mut token = self.likely(context, index, false)?;
        if let Some(grammar) = &mut self.grammar {
            let one = LlamaTokenDataArray::new(vec![LlamaTokenData::new(token, 1.0, 0.0)], false);
            let allowed = one.with_sampler(grammar).data[0].logit().is_finite();
            if !allowed {
                token = self.likely(context, index, true)?;
            }
        }
        self.sampler.accept(token);
        if let Some(grammar) = &mut self.grammar {
            grammar.accept(token);
        }
        Ok(token)
    }

    fn likely(
        &mut self,
        context: &LlamaContext<'_>,
        index: i32,
        by_grammar: bool,
    ) -> Result<LlamaToken, LlmError> {
        let mut candidates = context.token_data_array_ith(index);
        if let Some(grammar) = self.grammar.as_mut().filter(|_| by_grammar) {
            candidates.apply_sampler(grammar);
            // Even the most likely token may be forbidden; then nothing can follow.
            candidates.data.retain(|candidate| candidate.logit().is_finite());
        }
        if candidates.data.is_empty() {
            return Err(LlmError::Engine("the tools' grammar allows no word here".into()));
        }
        candidates.apply_sampler(&mut self.sampler);
        candidates.selected_token().ok_or_else(|| engine_error("no word was picked"))
    }
}

fn sampler(model: &LlamaModel, sampling: &Sampling) -> LlamaSampler {
    let penalties = LlamaSampler::penalties(
        model.n_vocab(),
        REPEAT_WINDOW,
        REPEAT_PENALTY,
        sampling.frequency_penalty,
        sampling.presence_penalty,
    );
    let (multiplier, base, free) = PHRASE_PENALTY;
    let phrases = LlamaSampler::dry(model, multiplier, base, free, PHRASE_WINDOW, PHRASE_BREAKS);
    if sampling.temperature <= 0.0 {
        return LlamaSampler::chain_simple([penalties, phrases, LlamaSampler::greedy()]);
    }
    let seed = sampling.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u128() as u32);
    LlamaSampler::chain_simple([
        penalties,
        phrases,
        LlamaSampler::top_k(TOP_K),
        LlamaSampler::top_p(sampling.top_p, 1),
        LlamaSampler::temp(sampling.temperature),
        LlamaSampler::dist(seed),
    ])
}
