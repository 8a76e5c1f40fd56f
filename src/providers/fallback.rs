//! Several language models, in order: where one fails before its first words, the next is asked.
//! One that failed is passed over for a while. Not for asking the same one again, which is
//! [`super::retry`]'s.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use hearken_actors::meters;
use hearken_actors::ports::{Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind};

use super::circuit::Circuit;

/// Language models, the first that answers.
pub struct Fallback {
    models: Arc<[Model]>,
}

struct Model {
    llm: Arc<dyn Llm>,
    circuit: Circuit,
}

type Reply = BoxStream<'static, Result<LlmDelta, ProviderError>>;

impl Fallback {
    /// These models, asked in this order; there is at least one.
    pub fn new(models: Vec<Arc<dyn Llm>>) -> Self {
        let models =
            models.into_iter().map(|llm| Model { llm, circuit: Circuit::default() }).collect();
        Self { models }
    }
}

impl Llm for Fallback {
    fn reply(&self, prompt: Prompt) -> Reply {
        let waiting = Stage::Waiting(Arc::clone(&self.models), prompt);
        try_unfold(waiting, |stage| async move {
            let (first, reply) = match stage {
                Stage::Waiting(models, prompt) => first(&models, prompt).await?,
                Stage::Begun(mut reply) => (reply.next().await.transpose()?, reply),
            };
            Ok(first.map(|delta| (delta, Stage::Begun(reply))))
        })
        .boxed()
    }

    /// By the first only: the others are seldom asked.
    fn read_ahead(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        match self.models.first() {
            Some(model) => model.llm.read_ahead(opening),
            None => Box::pin(std::future::ready(())),
        }
    }
}

enum Stage {
    Waiting(Arc<[Model]>, Prompt),
    Begun(Reply),
}

/// The first piece of the first model that has one, and the reply behind it.
async fn first(
    models: &[Model],
    prompt: Prompt,
) -> Result<(Option<LlmDelta>, Reply), ProviderError> {
    let mut failed = None;
    for passed_over_too in [false, true] {
        for (place, Model { llm, circuit }) in models.iter().enumerate() {
            // Only when its turn has come: the one trial after a pause is not for nothing.
            if !passed_over_too && !circuit.enter() {
                continue;
            }
            let mut reply = llm.reply(prompt.clone());
            let error = match reply.next().await.transpose() {
                Ok(delta) => {
                    circuit.worked();
                    if place > 0 {
                        meters::llm_fell_back(place);
                    }
                    return Ok((delta, reply));
                }
                Err(error) => error,
            };
            // The request itself is wrong: another would refuse it too.
            if error.kind == ProviderErrorKind::BadRequest {
                circuit.worked();
                return Err(error);
            }
            circuit.failed(error.retry_after);
            tracing::warn!(place, %error, "a language model failed");
            failed = Some(error);
        }
        // Where all were passed over, it is still better to ask than to say no.
        if failed.is_some() {
            break;
        }
    }
    Err(failed.unwrap_or_else(|| ProviderError::new("llm", ProviderErrorKind::Unavailable)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::circuit::PASSED_OVER;
    use futures_util::stream;
    use hearken_actors::ports::ProviderErrorKind::{BadRequest, RateLimited, Unavailable};
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::time::Duration;

    type Answers = VecDeque<Vec<Result<&'static str, ProviderError>>>;

    /// Gives its answers one after the other, then the last for ever.
    struct Scripted {
        answers: Mutex<Answers>,
        asked: Mutex<usize>,
    }

    impl Llm for Scripted {
        fn reply(&self, _: Prompt) -> Reply {
            *self.asked.lock().unwrap() += 1;
            let answer = self.answers.lock().unwrap().pop_front().expect("an answer is scripted");
            let delta = |text: &str| LlmDelta::Text(text.to_owned());
            stream::iter(answer.into_iter().map(move |item| item.map(delta))).boxed()
        }
    }

    fn model(answers: Vec<Vec<Result<&'static str, ProviderError>>>) -> Arc<Scripted> {
        Arc::new(Scripted { answers: Mutex::new(answers.into()), asked: Mutex::default() })
    }

    fn fails(kind: ProviderErrorKind) -> Vec<Result<&'static str, ProviderError>> {
        vec![Err(ProviderError::new("scripted", kind))]
    }

    fn says(text: &'static str) -> Vec<Result<&'static str, ProviderError>> {
        vec![Ok(text)]
    }

    async fn ask(models: &Fallback) -> String {
        let reply = models.reply(Prompt::default());
        let told = reply.map(|item| match item {
            Ok(LlmDelta::Text(text)) => text,
            Ok(other) => panic!("{other:?}"),
            Err(error) => error.kind.to_string(),
        });
        told.collect::<Vec<_>>().await.join(",")
    }

    fn asked(model: &Scripted) -> usize {
        *model.asked.lock().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_answers_where_one_failed_and_it_is_tried_again_later() {
        let one = model(vec![fails(Unavailable), fails(Unavailable), says("one"), says("one")]);
        let two = model((0..4).map(|_| says("two")).collect());
        let models = Fallback::new(vec![one.clone(), two.clone()]);
        assert_eq!(ask(&models).await, "two");
        assert_eq!(ask(&models).await, "two");
        assert_eq!(asked(&one), 1, "it is passed over");
        tokio::time::advance(PASSED_OVER).await;
        assert_eq!(ask(&models).await, "two");
        assert_eq!(asked(&one), 2, "one request tries it");
        assert_eq!(ask(&models).await, "two");
        tokio::time::advance(PASSED_OVER).await;
        assert_eq!(ask(&models).await, "one");
        assert_eq!(ask(&models).await, "one");
        assert_eq!((asked(&one), asked(&two)), (4, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn only_one_request_tries_what_failed() {
        let one = model(vec![fails(Unavailable), says("one")]);
        let two = model((0..2).map(|_| says("two")).collect());
        let models = Fallback::new(vec![one.clone(), two]);
        ask(&models).await;
        tokio::time::advance(PASSED_OVER).await;
        // A reply is asked for when it is polled: this one holds the trial.
        assert!(models.models[0].circuit.enter());
        assert_eq!(ask(&models).await, "two");
        assert_eq!(asked(&one), 1);
        // A trial that came to nothing does not close the way for ever.
        tokio::time::advance(PASSED_OVER).await;
        assert_eq!(ask(&models).await, "one");
    }

    #[tokio::test(start_paused = true)]
    async fn one_whose_turn_does_not_come_keeps_its_trial() {
        let one = model(vec![fails(Unavailable), says("one"), fails(Unavailable)]);
        let two = model(vec![fails(Unavailable), says("two")]);
        let models = Fallback::new(vec![one, two]);
        assert_eq!(ask(&models).await, "unavailable");
        tokio::time::advance(PASSED_OVER).await;
        assert_eq!(ask(&models).await, "one");
        assert_eq!(ask(&models).await, "two");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_request_and_a_broken_answer_are_not_given_to_the_next() {
        let broken = vec![Ok("half"), Err(ProviderError::new("scripted", Unavailable))];
        let one = model(vec![fails(BadRequest), broken, says("one")]);
        let two = model(vec![]);
        let models = Fallback::new(vec![one, two.clone()]);
        assert_eq!(ask(&models).await, "request refused");
        assert_eq!(ask(&models).await, "half,unavailable");
        assert_eq!(ask(&models).await, "one");
        assert_eq!(asked(&two), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_fail_all_are_asked_and_the_last_error_is_told() {
        let one = model(vec![fails(Unavailable), fails(Unavailable)]);
        let two = model(vec![fails(RateLimited), says("two")]);
        let models = Fallback::new(vec![one.clone(), two.clone()]);
        assert_eq!(ask(&models).await, "rate limited");
        assert_eq!(ask(&models).await, "two", "even where both are passed over");
        assert_eq!((asked(&one), asked(&two)), (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_that_one_asks_for_is_kept() {
        let limited = ProviderError::new("scripted", RateLimited);
        let limited = limited.retry_after(Some(Duration::from_secs(100)));
        let one = model(vec![vec![Err(limited)], says("one")]);
        let two = model((0..2).map(|_| says("two")).collect());
        let models = Fallback::new(vec![one, two]);
        ask(&models).await;
        tokio::time::advance(Duration::from_secs(99)).await;
        assert_eq!(ask(&models).await, "two");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ask(&models).await, "one");
    }
}
