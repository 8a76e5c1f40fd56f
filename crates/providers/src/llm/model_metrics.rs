//! Metrics of the language model by frontend, and of fallback models. Not for durations, which are
//! in `metrics`.

use std::sync::Once;

use hearken_ports::Usage;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

const REQUESTS: &str = "hearken_llm_requests_total";
const TOKENS: &str = "hearken_llm_tokens_total";
const COST: &str = "hearken_llm_cost";
const FALLBACKS: &str = "hearken_llm_fallbacks_total";

/// Counts an answer of the language model to this frontend: `whole`, or failed.
pub(crate) fn ended(frontend: &'static str, whole: bool) {
    describe();
    let end = if whole { "answered" } else { "failed" };
    counter!(REQUESTS, "face" => frontend, "end" => end).increment(1);
}

/// Adds the tokens and the cost of an answer to this frontend; the cost is in the prices' currency.
pub(crate) fn used(frontend: &'static str, usage: &Usage, cost: f64) {
    describe();
    counter!(TOKENS, "face" => frontend, "kind" => "prompt").increment(usage.prompt_tokens);
    counter!(TOKENS, "face" => frontend, "kind" => "completion").increment(usage.completion_tokens);
    gauge!(COST, "face" => frontend).increment(cost);
}

/// Counts an answer of a fallback model at this position in the list, whose predecessors did not
/// answer.
pub(crate) fn fell_back(place: usize) {
    describe();
    counter!(FALLBACKS, "place" => place.to_string()).increment(1);
}

fn describe() {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(|| {
        describe_counter!(
            REQUESTS,
            Unit::Count,
            "answers of the language model, by frontend and outcome"
        );
        describe_counter!(
            TOKENS,
            Unit::Count,
            "tokens read and written by the language model, by frontend"
        );
        describe_gauge!(
            COST,
            Unit::Count,
            "cost of these tokens, in the currency of the configured prices"
        );
        describe_counter!(
            FALLBACKS,
            Unit::Count,
            "answers of fallback models, by position in the list"
        );
    });
}
