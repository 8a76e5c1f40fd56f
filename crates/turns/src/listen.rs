//! Audio samples: conversations that demonstrate turn-taking, as audio in real time with a
//! timeline. Measurements are elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use hearken_actors::settings::PipelineSettings;
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use crate::acted::timeline::{Capture, Timeline};
use crate::acted::{self, Scene, Seen, Sound};
use crate::interruptions::sounds::{levelled, piece, samples_in, voiced};
use crate::interruptions::{self, Judgement, Kind, PERSON, Voices, judge, spoken};
use crate::manifest::{Sample, Stretch};
use crate::run::Conditions;
use crate::speech;

/// Maximum number of conversations that are tried until one demonstrates the situation.
const TRIES: u64 = 40;
/// Audible pauses in mid-sentence.
const PAUSE: std::ops::Range<Duration> = Duration::from_millis(350)..Duration::from_millis(1_500);
/// Longest question with a pause.
const QUESTION: Duration = Duration::from_secs(8);
/// Longest time to an answer that counts as quick.
const QUICK: Duration = Duration::from_millis(900);
/// Time for the canceller to adapt to the room.
const LEARNED: Duration = Duration::from_secs(6);

/// Situation that a conversation demonstrates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// The user pauses in mid-sentence, and is not cut off.
    Pause,
    /// The user finishes, and is answered quickly.
    QuickAnswer,
    /// The user says "mm-hmm" over the reply, which pauses and resumes.
    Backchannel,
    /// A sound without words is heard over the reply, which pauses and resumes.
    Resume,
    /// The user says something over the reply, which ends, and is answered.
    Interruption,
    /// The device hears its own reply, which continues until the user speaks over it.
    Echo,
}

impl Situation {
    /// All situations.
    pub const ALL: [Self; 6] = [
        Self::Pause,
        Self::QuickAnswer,
        Self::Backchannel,
        Self::Resume,
        Self::Interruption,
        Self::Echo,
    ];

    /// Returns the name, as in file names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause-in-mid-sentence",
            Self::QuickAnswer => "quick-answer",
            Self::Backchannel => "backchannel",
            Self::Resume => "resume",
            Self::Interruption => "true-interruption",
            Self::Echo => "echo",
        }
    }

    /// Reports whether a conversation demonstrates the situation.
    fn is_shown(self, seen: &Seen, found: &Judgement) -> bool {
        let answered = seen.played.first().map(|played| played.at);
        match self {
            Self::Pause => answered.is_some_and(|at| at > seen.asked.end),
            Self::QuickAnswer => answered.is_some_and(|at| at < seen.asked.end + QUICK),
            Self::Backchannel | Self::Resume => !found.ended && !found.pauses.is_empty(),
            Self::Interruption => found.ended && found.answered,
            Self::Echo => found.ended && found.answered && found.broken == 0 && !found.early,
        }
    }
}

/// Question with a pause.
struct Paused {
    sound: Vec<i16>,
    pause: Stretch,
}

/// A sample in a file.
#[derive(Debug)]
pub struct Written {
    /// Audio file, next to its timeline.
    pub file: PathBuf,
    /// True if it demonstrates its situation.
    pub shown: bool,
    /// Summary of the conversation.
    pub found: String,
}

/// Writes a sample of each situation in each language of a manifest to a folder, with these server settings.
///
/// # Errors
/// Fails if a recording cannot be read, there are too few, or a file cannot be written; the message names it.
pub fn write(
    samples: &[Sample],
    folder: &Path,
    settings: &PipelineSettings,
    conditions: &Conditions,
) -> anyhow::Result<Vec<Written>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut written = Vec::new();
    for (language, voices) in &interruptions::read(samples)? {
        let paused = paused(samples.iter().filter(|sample| sample.group == *language))?;
        for situation in Situation::ALL {
            if situation == Situation::Pause && paused.is_empty() {
                continue;
            }
            let mut settings = settings.clone();
            settings.dialogue.language = spoken(language);
            let shown = show(situation, voices, &paused, &settings, conditions)?;
            written.push(shown.write(folder, &format!("{language}-{}", situation.name()))?);
        }
    }
    Ok(written)
}

/// Reads the questions with an audible pause.
fn paused<'a>(samples: impl Iterator<Item = &'a Sample>) -> anyhow::Result<Vec<Paused>> {
    let mut all = Vec::new();
    for Sample { file, speech, pauses, .. } in samples {
        let heard = pauses.iter().find(|pause| PAUSE.contains(&(pause.end - pause.start)));
        let Some(pause) = heard.filter(|_| speech.end - speech.start <= QUESTION) else { continue };
        let sound = speech::read(file)?;
        let at = |time| samples_in(time).min(sound.len());
        let sound = levelled(&sound[at(speech.start)..at(speech.end)], PERSON);
        all.push(Paused { sound, pause: pause.start - speech.start..pause.end - speech.start });
        if all.len() as u64 >= TRIES {
            break;
        }
    }
    Ok(all)
}

/// A simulated conversation.
struct Shown {
    seen: Seen,
    found: Judgement,
    timeline: Timeline,
    shown: bool,
}

/// Tries conversations until one demonstrates the situation, and returns that or the last one.
fn show(
    situation: Situation,
    voices: &Voices,
    paused: &[Paused],
    settings: &PipelineSettings,
    conditions: &Conditions,
) -> anyhow::Result<Shown> {
    let mut last = None;
    for seed in 0..TRIES {
        let pause = paused.get(seed as usize % paused.len().max(1));
        let scene = scene(situation, voices, pause, seed, conditions);
        let capture = Capture::default();
        let detector = conditions.detector.clone();
        let seen = capture.during(|| acted::play(&scene, settings.clone(), detector));
        let found = judge(&scene, &seen);
        let shown = situation.is_shown(&seen, &found);
        let pause = pause.filter(|_| situation == Situation::Pause).map(|p| &p.pause);
        let timeline = capture.timeline(&scene, &seen, pause);
        last = Some(Shown { seen, found, timeline, shown });
        if shown {
            break;
        }
    }
    last.context("no conversation was tried")
}

fn scene(
    situation: Situation,
    voices: &Voices,
    pause: Option<&Paused>,
    seed: u64,
    conditions: &Conditions,
) -> Scene {
    let kind = match situation {
        Situation::Backchannel => Kind::Backchannel,
        Situation::Echo => Kind::OverEcho,
        _ => Kind::Words,
    };
    let mut scene = interruptions::scene(voices, kind, seed, conditions);
    scene.keeps_sound = true;
    match situation {
        Situation::Pause | Situation::QuickAnswer => {
            scene.over = None;
            scene.reply.truncate(2);
            if let Some(paused) = pause.filter(|_| situation == Situation::Pause) {
                scene.question = voiced(paused.sound.clone(), scene.question.words);
            }
        }
        Situation::Resume => {
            let mut chance = fastrand::Rng::with_seed(seed);
            scene.over = scene.over.map(|(after, Sound { samples, .. })| {
                let mumble = piece(&samples, Duration::from_millis(700), &mut chance);
                (after, voiced(levelled(&mumble, PERSON), ""))
            });
        }
        Situation::Echo => {
            scene.over = scene.over.map(|(after, sound)| (after.max(LEARNED), sound));
        }
        Situation::Backchannel | Situation::Interruption => {}
    }
    scene
}

impl Shown {
    /// Writes the audio and the timeline.
    fn write(&self, folder: &Path, name: &str) -> anyhow::Result<Written> {
        let file = folder.join(format!("{name}.wav"));
        let [person, device] = [&self.seen.recorded, &self.seen.sound];
        write_stereo(&file, person, device)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let keep = |ending: &str, text: String| {
            let file = folder.join(format!("{name}.{ending}"));
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
        };
        keep("txt", self.timeline.text())?;
        keep("json", serde_json::to_string_pretty(&self.timeline.events)?)?;
        Ok(Written { file, shown: self.shown, found: self.found() })
    }

    /// Returns a summary of the conversation.
    fn found(&self) -> String {
        let Judgement { gaps, again, heard_twice, unheard, .. } = &self.found;
        let ms = |time: Duration| time.as_millis();
        let first = self.seen.played.first().map(|played| played.at);
        let waited = first.map(|at| ms(at.saturating_sub(self.seen.asked.end)));
        let waited = waited.map_or("no reply".into(), |ms| format!("first sound after {ms} ms"));
        let silent = self.found.to_silence_heard.map(|time| {
            let step = self.step_at(self.seen.over.as_ref().map_or(time, |over| over.start + time));
            format!("; silent {} ms after the voice, with a step of {step}", ms(time))
        });
        let pauses = self.found.pauses.iter().map(|pause| format!("; paused {} ms", ms(*pause)));
        format!(
            "{waited}{}{}; {again} whole sentences repeated, {} ms played twice, {} ms lost, {gaps} gaps in sentences",
            silent.unwrap_or_default(),
            pauses.collect::<String>(),
            ms(*heard_twice),
            ms(*unheard),
        )
    }

    /// Returns how far from zero the audio breaks off, in percent of its largest step between
    /// adjacent samples.
    fn step_at(&self, at: Duration) -> String {
        let sound = &self.seen.sound;
        let step = |pair: &[i16]| i32::from(pair[1]).abs_diff(i32::from(pair[0]));
        let largest = sound.windows(2).map(step).max().unwrap_or(1).max(1);
        let last = samples_in(at).checked_sub(1).and_then(|n| sound.get(n)).copied();
        format!("{} % of the largest", u32::from(last.unwrap_or(0).unsigned_abs()) * 100 / largest)
    }
}

/// Writes 16-bit stereo; the shorter side is padded with silence.
fn write_stereo(file: &Path, left: &[i16], right: &[i16]) -> Result<(), hound::Error> {
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: UPLINK_RATE_HZ,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(file, spec)?;
    for n in 0..left.len().max(right.len()) {
        for side in [left, right] {
            writer.write_sample(side.get(n).copied().unwrap_or_default())?;
        }
    }
    writer.finalize()
}

#[cfg(test)]
mod tests;
