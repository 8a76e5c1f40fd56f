//! Converts pictures in tool results to text with a vision model, for a language model that accepts
//! no pictures. Not for choosing the vision model.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hearken_base::pace::Pace;
use hearken_ports::{ImageDescriber, Picture, ToolContent, ToolOutput};
use tokio::time::{Instant, timeout_at};

use super::outcome::{described, not_described};
use crate::usage::UsageAccount;

/// Maximum number of described pictures in one answer. Further pictures become notes.
const MAX_PICTURES: usize = 4;

/// Maximum size of a described picture, in base64 bytes (6 MB of image data).
const MAX_BASE64_BYTES: usize = 8 << 20;

/// Maximum number of described pictures of one source in one conversation, per minute.
const PICTURES_PER_MINUTE: u32 = 20;

/// Returns the rate limit of the described pictures of one conversation, by their source.
pub(super) fn pace() -> Pace {
    Pace::new(PICTURES_PER_MINUTE, Duration::from_secs(60))
}

/// Describer of the pictures of one source.
pub(super) struct SourceDescriber {
    pub(super) describer: Arc<dyn ImageDescriber>,
    pub(super) pace: Pace,
    /// Account of the client; `None` if nothing is counted.
    pub(super) account: Option<UsageAccount>,
    pub(super) source: String,
}

/// Replaces the pictures of a tool result by descriptions, by the deadline `until`. A picture
/// without a description becomes a note with the reason.
pub(super) async fn describe_pictures(
    output: ToolOutput,
    describer: &SourceDescriber,
    asked: &str,
    until: Instant,
) -> ToolOutput {
    let question = match asked.trim() {
        "" => "Describe this picture for somebody who cannot see it.".to_owned(),
        asked => format!(
            "Describe this picture for somebody who cannot see it, and who has asked: {asked}"
        ),
    };
    let mut room = MAX_PICTURES;
    let parts = output.content.into_iter().map(|part| {
        let picture = match part {
            ToolContent::Image { mime_type, base64 } if room > 0 => {
                room -= 1;
                Ok(Picture { mime_type, base64 })
            }
            other => Err(other),
        };
        let question = &question;
        async move {
            match picture {
                Ok(picture) => {
                    ToolContent::Text(describe_picture(describer, question, picture, until).await)
                }
                Err(other) => other,
            }
        }
    });
    ToolOutput { content: join_all(parts).await, failed: output.failed }
}

async fn describe_picture(
    describer: &SourceDescriber,
    question: &str,
    picture: Picture,
    until: Instant,
) -> String {
    let mime_type = picture.mime_type.clone();
    let bytes = picture.base64.len();
    if bytes > MAX_BASE64_BYTES {
        return not_described(&mime_type, bytes, "it is too large");
    }
    let SourceDescriber { describer, pace, account, source } = describer;
    if let Some(Err(reached)) = account.as_ref().map(UsageAccount::check) {
        return not_described(&mime_type, bytes, &format!("today's limit is reached: {reached}"));
    }
    if !pace.wait(source).is_zero() {
        let why = format!("at most {PICTURES_PER_MINUTE} of a source are described per minute");
        return not_described(&mime_type, bytes, &why);
    }
    pace.take(source, 1);
    let Ok(answer) = timeout_at(until, describer.describe(question, picture)).await else {
        return not_described(&mime_type, bytes, "the vision model took too long");
    };
    if let Some(account) = account {
        account.count(&answer.usage);
    }
    match answer.words {
        Ok(words) => described(&mime_type, bytes, &words),
        Err(error) => {
            tracing::warn!(%error, "cannot describe a picture of a tool");
            not_described(&mime_type, bytes, &format!("the vision model failed: {}", error.kind))
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use hearken_ports::{Described, ProviderError, ProviderErrorKind, Usage};
    use jiff::Timestamp;
    use jiff::civil::date;

    use super::*;
    use crate::usage::{UsageMeter, UsageSettings};

    /// Test describer: repeats the question, fails for pictures called `x`, and never ends for
    /// those called `y`.
    struct Eye;

    impl ImageDescriber for Eye {
        fn describe(&self, question: &str, picture: Picture) -> BoxFuture<'static, Described> {
            let question = question.to_owned();
            Box::pin(async move {
                match picture.base64.as_str() {
                    "x" => ProviderError::new("eye", ProviderErrorKind::Unauthorized).into(),
                    "y" => std::future::pending().await,
                    _ => Described {
                        words: Ok(question),
                        usage: Usage { prompt_tokens: 400, ..Usage::default() },
                    },
                }
            })
        }
    }

    fn image(base64: &str) -> ToolContent {
        ToolContent::Image { mime_type: "image/png".into(), base64: base64.to_owned() }
    }

    async fn with_descriptions(asked: &str, content: Vec<ToolContent>) -> Vec<ToolContent> {
        describe(&eye_of("s", &pace()), asked, content).await
    }

    fn eye_of(source: &str, pace: &Pace) -> SourceDescriber {
        let account = None;
        let pace = pace.clone();
        SourceDescriber { describer: Arc::new(Eye), pace, account, source: source.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn described_pictures_are_counted_until_a_daily_limit_is_reached() {
        let settings = UsageSettings { device_tokens: 1_000, ..UsageSettings::default() };
        let meter = UsageMeter::new(settings, || date(2026, 11, 1));
        let account = UsageAccount::new(meter.clone(), "voice", "a", None, Timestamp::now());
        let eye = SourceDescriber { account: Some(account), ..eye_of("s", &pace()) };
        // A failed description costs nothing.
        for (picture, tokens, told) in [
            ("a", 400, "described by a model"),
            ("x", 400, "the vision model failed"),
            ("a", 800, "described by a model"),
            ("a", 1_200, "described by a model"),
            ("a", 1_200, "limit is reached: nothing is left today of the tokens for this device"),
            ("y", 1_200, "today's limit is reached"),
        ] {
            let content = describe(&eye, "", vec![image(picture)]).await;
            let [ToolContent::Text(text)] = &content[..] else { panic!("{content:?}") };
            assert!(text.contains(told), "{text}");
            assert_eq!(meter.used_today().prompt_tokens, tokens, "{text}");
        }
        let rows = meter.take_unsaved().rows;
        let clients: Vec<_> =
            rows.iter().map(|(key, used)| (key.client.as_str(), used.turns)).collect();
        assert_eq!(clients, [("a", 0)], "a picture is no turn");
    }

    async fn describe(
        eye: &SourceDescriber,
        asked: &str,
        content: Vec<ToolContent>,
    ) -> Vec<ToolContent> {
        let until = Instant::now() + Duration::from_secs(30);
        describe_pictures(ToolOutput { content, failed: true }, eye, asked, until).await.content
    }

    #[tokio::test(start_paused = true)]
    async fn pictures_of_a_source_are_described_at_a_rate() {
        let shared = pace();
        let described = async |source: &str, count: usize| {
            let mut described = 0;
            for _ in 0..count {
                let told = describe(&eye_of(source, &shared), "", vec![image("a")]).await;
                let ToolContent::Text(text) = &told[0] else { panic!("{told:?}") };
                described += usize::from(text.contains("described by"));
            }
            described
        };
        assert_eq!(described("a", 50).await, 20);
        assert_eq!(described("b", 5).await, 5, "another source has its own rate");
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(described("a", 5).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn pictures_are_described_or_replaced_by_a_reason() {
        let text = |text: &str| ToolContent::Text(text.into());
        let large = "A".repeat(MAX_BASE64_BYTES + 1);
        let content = vec![text("here"), image("x"), image("y"), image(&large), image("a")];
        let expected = [
            text("here"),
            text(
                "[a picture, image/png, 0 kB, which you cannot see: the vision model failed: not authorised]",
            ),
            text(
                "[a picture, image/png, 0 kB, which you cannot see: the vision model took too long]",
            ),
            text("[a picture, image/png, 6291 kB, which you cannot see: it is too large]"),
            text(
                "[a picture, image/png, 0 kB, described by a model that sees: \
                 Describe this picture for somebody who cannot see it, and who has asked: who?]",
            ),
        ];
        assert_eq!(with_descriptions(" who? ", content).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_of_many_pictures_are_described() {
        let told = with_descriptions("", vec![image("a"); MAX_PICTURES + 2]).await;
        let words = "[a picture, image/png, 0 kB, described by a model that sees: \
                     Describe this picture for somebody who cannot see it.]";
        let mut expected = vec![ToolContent::Text(words.into()); MAX_PICTURES];
        expected.extend([image("a"), image("a")]);
        assert_eq!(told, expected);
    }
}
