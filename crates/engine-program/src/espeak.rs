//! espeak-ng as a child process, because of its licence: phonemes for the English voice,
//! and a fallback voice for Mandarin. Each call is one short-lived process.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hearken_audio::pcm;
use hearken_base::child_env;
use hearken_engines::speech::engine::{EngineError, Voice};
use hearken_engines::speech::text::clauses;
use pinyin::ToPinyin;
use tokio_util::sync::CancellationToken;

/// Deadline of one process: a clause takes espeak-ng some 20 ms; a process that exceeds this hangs.
const DEADLINE: Duration = Duration::from_secs(5);
/// Maximum output for one clause, in bytes; more than this is an error of espeak-ng.
const MOST_BYTES: u64 = 8 << 20;

/// Returns true if espeak-ng can be started.
pub(crate) fn installed() -> bool {
    run(&["--version"], "").is_ok()
}

/// Returns the phonemes of an English clause in IPA, with its punctuation.
///
/// # Errors
/// espeak-ng is missing, fails or hangs.
pub(crate) fn phonemes(clause: &str) -> Result<String, EngineError> {
    let mut ipa = String::new();
    // espeak-ng drops punctuation, which the voice needs for its intonation.
    for (words, mark) in phrases(clause) {
        let out = run(&["-q", "--ipa", "-v", "en-us", "--stdin"], &words)?;
        let spoken = String::from_utf8_lossy(&out).replace(['_', '\u{200d}'], "");
        let spoken = spoken.split_whitespace().collect::<Vec<_>>().join(" ");
        if spoken.is_empty() {
            continue;
        }
        if !ipa.is_empty() {
            ipa.push(' ');
        }
        ipa.push_str(&without_language_marks(&spoken));
        ipa.push(mark);
    }
    Ok(ipa)
}

/// Splits a clause into phrases, each with the punctuation mark after it. Marks within numbers and
/// words are not separated from them.
fn phrases(clause: &str) -> Vec<(String, char)> {
    let mut found = Vec::new();
    let mut words = String::new();
    let mut chars = clause.chars().peekable();
    while let Some(c) = chars.next() {
        let mark = match c {
            ',' | '，' | '、' | ';' | '；' | ':' | '：' | '—' => Some(','),
            '!' | '！' => Some('!'),
            '?' | '？' => Some('?'),
            '。' | '…' => Some('.'),
            _ => None,
        };
        let inner = c.is_ascii() && chars.peek().is_some_and(|n| !n.is_whitespace());
        match mark {
            Some(mark) if !inner => {
                found.push((std::mem::take(&mut words), mark));
            }
            _ => words.push(c),
        }
    }
    found.push((words, '.'));
    found.retain(|(words, _)| words.chars().any(char::is_alphanumeric));
    found
}

/// Removes the marks that espeak-ng puts around words read in another language: `(fr)…(en)`.
fn without_language_marks(ipa: &str) -> String {
    let mut out = String::with_capacity(ipa.len());
    let mut inside = false;
    for c in ipa.chars() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

/// Mandarin voice of espeak-ng, from pinyin: sounds robotic, but is fast on any machine.
pub(super) struct PinyinVoice;

impl Voice for PinyinVoice {
    fn name(&self) -> &str {
        "espeak-zh"
    }

    fn sample_rate_hz(&self) -> u32 {
        22_050
    }

    fn speak(
        &self,
        clause: &str,
        speed: f32,
        stop: &CancellationToken,
        sink: &mut dyn FnMut(&[i16]),
    ) -> Result<(), EngineError> {
        if stop.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        // espeak-ng's normal rate is 175 words per minute.
        let rate = format!("{}", (150.0 * speed).round());
        let arguments = ["-v", "cmn-latn-pinyin", "-s", &rate, "--stdout", "--stdin"];
        let wav = run(&arguments, &spelled(clause))?;
        // A WAV header of 44 bytes whose lengths are not filled in when written to a pipe.
        let data = wav.get(44..).unwrap_or_default();
        sink(&pcm::from_le_bytes(data));
        Ok(())
    }
}

/// Converts characters to syllables with tone digits. Punctuation is unchanged.
fn spelled(clause: &str) -> String {
    let mut out = String::new();
    for c in clause.chars() {
        match c.to_pinyin() {
            Some(syllable) => {
                out.push_str(&syllable.with_tone_num_end().replace('ü', "v"));
                out.push(' ');
            }
            None => out.push(match c {
                '，' | '、' | '：' => ',',
                '。' | '；' | '…' => '.',
                '！' => '!',
                '？' => '?',
                c => c,
            }),
        }
    }
    out
}

/// Runs espeak-ng on `input` and returns its standard output.
fn run(arguments: &[&str], input: &str) -> Result<Vec<u8>, EngineError> {
    let failed = |reason: String| EngineError::Failed { engine: "espeak-ng", reason };
    let mut child = Command::new("espeak-ng")
        .args(arguments)
        .env_clear()
        .envs(child_env::inherited(&["ESPEAK_DATA_PATH", "LD_LIBRARY_PATH"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => EngineError::NoEspeak,
            _ => failed(error.to_string()),
        })?;
    // The input is one clause. It is far shorter than a pipe's buffer: writing cannot block.
    let input: String = input.chars().take(4 * clauses::weight(input).min(8_000)).collect();
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(|error| failed(error.to_string()))?;
    }
    let mut stdout = child.stdout.take().ok_or_else(|| failed("no output pipe".into()))?;
    let reader = thread::spawn(move || {
        let mut out = Vec::new();
        stdout.by_ref().take(MOST_BYTES).read_to_end(&mut out).map(|_| out)
    });
    let ended = wait(&mut child);
    let out = reader.join().map_err(|_| failed("the reader panicked".into()))?;
    let out = out.map_err(|error| failed(error.to_string()))?;
    if ended { Ok(out) } else { Err(failed("it failed or took too long".into())) }
}

/// Waits for the child until the deadline, then kills it. Returns true if it succeeded.
fn wait(child: &mut Child) -> bool {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            _ => {
                let _ended = child.kill();
                let _reaped = child.wait();
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_survives_phonemes() {
        let show = |text| format!("{:?}", phrases(text));
        assert_eq!(show("Well, 3.5 is fine!"), r#"[("Well", ','), (" 3.5 is fine", '!')]"#);
        assert_eq!(show("At 3:45"), r#"[("At 3:45", '.')]"#);
        assert_eq!(without_language_marks("(fr)bɔ̃(en) deɪ"), "bɔ̃ deɪ");
    }

    #[test]
    fn characters_are_spelled_with_tones() {
        assert_eq!(spelled("你好，绿。"), "ni3 hao3 ,lv4 .");
    }
}
