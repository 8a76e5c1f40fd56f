//! Manifests of recorded turns: one JSON object per line with the recording, the start and end of
//! its speech, and its pauses. Reading the audio is in [`speech`](crate::speech).
//!
//! Two forms are supported. Ours has `file`, `language`, `speech_start`, `speech_end`, `ends_turn`
//! and `pauses`, with all times in seconds, and optionally `speaker`. That of
//! [eot-bench](https://github.com/livekit/eot-bench) has `audio` (here the path of a file),
//! `language` and `silence_spans`; the last span is the end of the turn. Paths are relative to the
//! manifest.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// Span of time in a recording.
pub type Stretch = std::ops::Range<Duration>;

/// One recorded turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Recording: Ogg Opus or WAV.
    pub file: PathBuf,
    /// Name of the speaker, if the manifest has it.
    pub speaker: Option<String>,
    /// Group for counting: the language, and whether a pause was spliced in.
    pub group: String,
    /// From the start of the first word to the end of the last.
    pub speech: Stretch,
    /// True if the turn is over at the end of the speech.
    pub ends_turn: bool,
    /// Silences inside the turn, which must not be answered.
    pub pauses: Vec<Stretch>,
    /// Spliced-in pause; if there is one, the other pauses do not count.
    pub spliced: Option<Stretch>,
}

/// Content of a manifest.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Recordings with marked speech.
    pub samples: Vec<Sample>,
    /// Number of recordings without marks.
    pub unmarked: usize,
}

#[derive(Deserialize)]
struct Line {
    #[serde(alias = "audio")]
    file: PathBuf,
    speaker: Option<String>,
    language: String,
    speech_start: Option<f64>,
    speech_end: Option<f64>,
    #[serde(default)]
    ends_turn: bool,
    #[serde(default)]
    pauses: Vec<(f64, f64)>,
    silence_spans: Option<Vec<Span>>,
    #[serde(default)]
    spliced: bool,
}

#[derive(Deserialize)]
struct Span {
    start: f64,
    end: f64,
}

/// Reads a manifest.
///
/// # Errors
/// Fails if the file cannot be read or a line is invalid; the message names it.
pub fn read(path: &Path) -> anyhow::Result<Manifest> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the manifest {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut manifest = Manifest::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let sample = serde_json::from_str::<Line>(line)
            .map_err(anyhow::Error::from)
            .and_then(|line| line.sample(folder))
            .with_context(|| format!("{}, line {}", path.display(), number + 1))?;
        match sample {
            Some(sample) => manifest.samples.push(sample),
            None => manifest.unmarked += 1,
        }
    }
    Ok(manifest)
}

impl Line {
    /// Returns the sample, or `None` if its speech is not marked.
    fn sample(self, folder: &Path) -> anyhow::Result<Option<Sample>> {
        let (start, end, ends_turn, pauses) = match (self.silence_spans, self.speech_end) {
            (Some(spans), _) => {
                let Some((last, pauses)) = spans.split_last() else { return Ok(None) };
                let pauses = pauses.iter().map(|s| (s.start, s.end)).collect();
                (self.speech_start.unwrap_or_default(), last.start, true, pauses)
            }
            (None, Some(end)) => {
                (self.speech_start.unwrap_or_default(), end, self.ends_turn, self.pauses)
            }
            (None, None) => return Ok(None),
        };
        let speech = stretch(start, end).context("speech_start and speech_end")?;
        let pauses = pauses.into_iter().map(|(a, b)| stretch(a, b)).collect::<Result<Vec<_>, _>>();
        let pauses = pauses.context("pauses")?;
        let in_order = pauses.windows(2).all(|p| p[0].end <= p[1].start);
        let inside = pauses.iter().all(|p| speech.start <= p.start && p.end <= speech.end);
        if !(in_order && inside) {
            bail!("pauses: must be inside the speech, in chronological order");
        }
        let group = if self.spliced { format!("{} spliced", self.language) } else { self.language };
        let file = folder.join(self.file);
        let speaker = self.speaker;
        Ok(Some(Sample { file, speaker, group, speech, ends_turn, pauses, spliced: None }))
    }
}

fn stretch(start: f64, end: f64) -> anyhow::Result<Stretch> {
    let time = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).with_context(|| {
            format!("{seconds} is not a time in seconds from the start of the file")
        })
    };
    let start = time(start)?;
    let end = time(end)?;
    if start >= end {
        bail!("{start:?} to {end:?} is not a span of time");
    }
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Manifest, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut manifest = read(&path).map_err(|e| format!("{e:#}"))?;
        for sample in &mut manifest.samples {
            sample.file = sample.file.strip_prefix(folder.path()).unwrap().to_owned();
        }
        Ok(manifest)
    }

    fn ms(range: std::ops::Range<u64>) -> Stretch {
        Duration::from_millis(range.start)..Duration::from_millis(range.end)
    }

    #[test]
    fn both_forms_are_read() {
        let ours = r#"{"file":"a.opus","speaker":"Ann","language":"zh","speech_start":0.5,"speech_end":2,"ends_turn":true,"pauses":[[1,1.25]],"text":"x"}"#;
        let theirs = r#"{"id":"7","language":"en","audio":"b.wav","silence_spans":[{"start":1,"end":1.25},{"start":2,"end":4}]}"#;
        let unmarked = r#"{"file":"c.opus","language":"zh","state":"wait"}"#;
        let manifest = read_text(&[ours, "", theirs, unmarked].join("\n")).unwrap();
        assert_eq!(manifest.unmarked, 1);
        let [zh, en] = &manifest.samples[..] else { panic!("{manifest:?}") };
        let pauses = vec![ms(1_000..1_250)];
        assert_eq!(
            *zh,
            Sample {
                file: "a.opus".into(),
                speaker: Some("Ann".into()),
                group: "zh".into(),
                speech: ms(500..2_000),
                ends_turn: true,
                pauses: pauses.clone(),
                spliced: None,
            }
        );
        assert_eq!((&en.file, &en.speech), (&PathBuf::from("b.wav"), &ms(0..2_000)));
        assert_eq!((en.ends_turn, &en.pauses), (true, &pauses));
    }

    #[test]
    fn errors_name_the_line_and_the_fault() {
        for (line, why) in [
            ("{", "line 2"),
            (r#"{"file":"a","language":"zh","speech_start":2,"speech_end":1}"#, "speech_end"),
            (r#"{"file":"a","language":"zh","speech_end":-1}"#, "-1 is not a time"),
            (r#"{"file":"a","language":"zh","speech_end":2,"pauses":[[1,3]]}"#, "inside"),
            (
                r#"{"file":"a","language":"zh","speech_end":9,"pauses":[[3,4],[1,2]]}"#,
                "chronological order",
            ),
        ] {
            let error = read_text(&format!("\n{line}")).unwrap_err();
            assert!(error.contains(why) && error.contains("line 2"), "{line}: {error}");
        }
    }
}
