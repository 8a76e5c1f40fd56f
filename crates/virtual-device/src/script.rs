//! What a person does with a device, taken from a recording, and the doing of it in real time.
//! Not for the device's own rules: it decides itself what its microphone and button send.

use std::time::Duration;

use bytes::Bytes;
use hearken_actors::audio::opus::Encoder;
use hearken_proto::device::{AudioParams, ListenMode, Uplink};
use hearken_proto::recording::{Content, Recording};
use tokio::time::Instant;

use super::firmware::{Event, Firmware, State};
use super::profile::Profile;
use super::report::Report;
use super::socket::{Device, SocketError};
use super::sound::{PACKET, UPLINK_RATE_HZ};

/// After the last `tts stop`, time for what is still on its way.
const AFTERMATH: Duration = Duration::from_millis(300);

/// How long a person waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// For the hello, and then for an answer to begin.
    pub answer: Duration,
    /// For the end of an answer that has begun, from when its question ended.
    pub reply: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(180), reply: Duration::from_secs(300) }
    }
}

/// Who uses which device how.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Who decides when speech ends.
    pub mode: ListenMode,
    /// Version of the binary framing.
    pub framing: u32,
    /// Shape of the audio from the microphone.
    pub uplink: AudioParams,
    /// The device's firmware.
    pub profile: Profile,
    /// How long the person waits.
    pub limits: TimeLimits,
    steps: Vec<Step>,
    /// Number of `tts stop` messages after which nobody waits for more.
    answers: usize,
    /// When the person has finished speaking, on the recording's clock.
    speech_end: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
struct Step {
    at: Duration,
    /// Number of `tts stop` messages that came before this in the recording: a person who waited
    /// for the answer then waits for it now, however long it takes.
    answers_before: usize,
    action: Action,
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    /// The person opens a conversation: by wake word, or by pushing to talk.
    Begin,
    WakeWord(String),
    Release,
    Interrupt,
    Speak(Bytes),
    /// Sound from before the microphone was opened.
    PreWake(Bytes),
    /// A frame that no person's deed explains, sent as it stands.
    Raw(String),
}

impl Script {
    /// What the person of the recording did. `mode` replaces the recording's own.
    pub fn new(recording: &Recording, mode: Option<ListenMode>) -> Self {
        let header = &recording.header;
        let recorded = recording.frames.iter().find_map(|frame| match uplink(&frame.content) {
            Some(Uplink::ListenStart { mode }) => Some(mode),
            _ => None,
        });
        let profile = header.firmware.as_deref().and_then(Profile::named).unwrap_or_default();
        let mut script = Self {
            mode: mode.or(recorded).unwrap_or_default(),
            framing: header.framing,
            uplink: header.uplink.clone(),
            profile,
            limits: TimeLimits::default(),
            steps: Vec::new(),
            answers: 1,
            speech_end: header.speech_end_s.and_then(|s| Duration::try_from_secs_f64(s).ok()),
        };
        let mut answers_before = 0;
        let mut listening = false;
        for frame in &recording.frames {
            if is_down(&frame.content, "tts", Some("stop")) {
                answers_before += 1;
            }
            if let Some(action) = action(&frame.content, &mut listening) {
                script.steps.push(Step { at: frame.at, answers_before, action });
            }
        }
        // A session recorded at a server holds all its answers: after the last of them the device
        // went on listening to an empty room.
        let whole = recording.frames.iter().any(|f| is_down(&f.content, "hello", None));
        let last = script.steps.last().map_or(0, |s| s.answers_before);
        script.answers = if whole { answers_before.max(1) } else { last + 1 };
        script.let_go_in_manual_mode();
        script
    }

    /// A recording of another mode, played in manual mode, lacks the release of the button.
    fn let_go_in_manual_mode(&mut self) {
        let released = self.steps.iter().any(|s| s.action == Action::Release);
        if self.mode == ListenMode::Manual
            && !released
            && let Some(last) = self.steps.last()
        {
            let (at, answers_before) = (last.at, last.answers_before);
            self.steps.push(Step { at, answers_before, action: Action::Release });
        }
    }

    /// A device as the script wants it.
    pub fn firmware(&self) -> Firmware {
        Firmware::new(self.profile.clone(), self.mode, self.framing, &self.uplink)
    }

    /// MarkEffect it all, `speed` times as fast as recorded, then waits for the answer and its end.
    ///
    /// # Errors
    /// The device cannot connect.
    pub async fn perform(&self, device: &mut Device, speed: f64) -> Result<(), SocketError> {
        let mut clock = Clock { origin: Instant::now(), speed };
        let mut begun = false;
        for step in &self.steps {
            self.keep_up(device, &mut clock, step).await?;
            self.mark_speech_end(device, step.at);
            match &step.action {
                Action::Begin | Action::WakeWord(_) => {
                    self.begin(device, &step.action, begun).await?;
                    begun = true;
                    clock.catch_up(step.at);
                }
                Action::Release => device.happen(Event::TalkReleased).await?,
                Action::Interrupt => interrupt(device).await?,
                Action::Speak(opus) => device.happen(Event::Microphone(opus.clone())).await?,
                // A device in idle keeps it for the wake word.
                Action::PreWake(opus) if device.firmware().state() == State::Idle => {
                    device.happen(Event::Microphone(opus.clone())).await?;
                }
                Action::PreWake(opus) => device.send_raw_audio(opus.clone()).await?,
                Action::Raw(text) => device.send_raw(text.clone()).await?,
            }
        }
        if device.report().speech_end.is_none() {
            device.mark_speech_end();
        }
        self.hear_out(device).await
    }

    /// Waits until the step is due, and for the answers that it followed in the recording.
    async fn keep_up(
        &self,
        device: &mut Device,
        clock: &mut Clock,
        step: &Step,
    ) -> Result<(), SocketError> {
        if answers(device.report()) < step.answers_before {
            self.wait_for_answers(device, step.answers_before).await?;
            clock.catch_up(step.at);
        }
        device.live_until(clock.when(step.at), |_, _| false).await
    }

    fn mark_speech_end(&self, device: &mut Device, at: Duration) {
        if device.report().speech_end.is_none() && self.speech_end.is_some_and(|end| at >= end) {
            device.mark_speech_end();
        }
    }

    /// Opens the conversation and waits for the microphone, as people wait for the screen.
    async fn begin(
        &self,
        device: &mut Device,
        action: &Action,
        begun: bool,
    ) -> Result<(), SocketError> {
        let word = match action {
            Action::WakeWord(word) => Some(word.clone()),
            _ => None,
        };
        let event = match (self.mode, begun, device.firmware().state()) {
            (ListenMode::Manual, ..) => Event::TalkPressed,
            // Firmware of auto and realtime mode listens again by itself.
            (_, true, State::Listening) if word.is_none() => return Ok(()),
            _ => Event::Wake { word },
        };
        device.happen(event).await?;
        let patience = Instant::now() + self.limits.answer;
        let ready = |_: &Report, firmware: &Firmware| {
            firmware.microphone_open() || firmware.state() == State::Idle
        };
        device.live_until(patience, ready).await
    }

    /// Waits for the answer to the last words, and until nothing more can be heard.
    async fn hear_out(&self, device: &mut Device) -> Result<(), SocketError> {
        self.wait_for_answers(device, self.answers).await?;
        let begin = Instant::now();
        // The device plays what it still has, and hears what comes too late.
        let quiet = Instant::now() + AFTERMATH;
        device.live_until(quiet, |_, _| false).await?;
        while device.firmware().due().is_some() && begin.elapsed() < self.limits.reply {
            device.live_until(Instant::now() + PACKET, |_, _| false).await?;
        }
        Ok(())
    }

    /// Waits for this many answers in all. An open microphone goes on hearing the room meanwhile.
    async fn wait_for_answers(
        &self,
        device: &mut Device,
        wanted: usize,
    ) -> Result<(), SocketError> {
        let silence = silence();
        let begin = Instant::now();
        let mut next = begin;
        while answers(device.report()) < wanted && device.is_connected() {
            let begun = has_begun(device.report(), wanted);
            let limit = if begun { self.limits.reply } else { self.limits.answer };
            if begin.elapsed() >= limit {
                return Ok(());
            }
            next += PACKET;
            device.live_until(next, |report, _| answers(report) >= wanted).await?;
            device.happen(Event::Microphone(silence.clone())).await?;
        }
        Ok(())
    }
}

/// While the device speaks, by its button; at any other time the button would hang up, so the
/// message is sent as it was recorded.
async fn interrupt(device: &mut Device) -> Result<(), SocketError> {
    if device.firmware().state() == State::Speaking {
        return device.happen(Event::Button).await;
    }
    device.send_raw(r#"{"type":"abort"}"#.into()).await
}

/// Real time on the recording's clock.
struct Clock {
    origin: Instant,
    speed: f64,
}

impl Clock {
    fn when(&self, at: Duration) -> Instant {
        self.origin + at.div_f64(self.speed)
    }

    /// Time was lost in waiting: `at` is now.
    fn catch_up(&mut self, at: Duration) {
        let now = Instant::now();
        self.origin = now.checked_sub(at.div_f64(self.speed)).unwrap_or(now);
    }
}

fn answers(report: &Report) -> usize {
    report.messages("tts stop").count()
}

fn has_begun(report: &Report, wanted: usize) -> bool {
    report.messages("tts start").count() >= wanted
}

fn uplink(content: &Content) -> Option<Uplink> {
    match content {
        Content::Up(json) => Uplink::decode(&json.to_string()).ok(),
        _ => None,
    }
}

/// A message from the server of this type, and of this state where one is asked for.
fn is_down(content: &Content, kind: &str, state: Option<&str>) -> bool {
    let Content::Down(json) = content else { return false };
    let is = |name: &str, value: &str| json.get(name).is_some_and(|v| v == value);
    is("type", kind) && state.is_none_or(|state| is("state", state))
}

fn action(content: &Content, listening: &mut bool) -> Option<Action> {
    match content {
        Content::Up(json) => match uplink(content)? {
            // The device says hello by itself.
            Uplink::Hello(_) => None,
            Uplink::ListenStart { .. } => {
                *listening = true;
                Some(Action::Begin)
            }
            Uplink::ListenStop => Some(Action::Release),
            Uplink::ListenDetect { text } => {
                *listening = true;
                Some(Action::WakeWord(text))
            }
            Uplink::Abort { .. } => Some(Action::Interrupt),
            // Its tools answer by themselves, too: a second answer could stand for another call.
            Uplink::Mcp { .. } => None,
            _ => Some(Action::Raw(json.to_string())),
        },
        Content::UpText(text) => Some(Action::Raw(text.clone())),
        Content::UpAudio(opus) if *listening => Some(Action::Speak(opus.clone())),
        Content::UpAudio(opus) => Some(Action::PreWake(opus.clone())),
        Content::Down(_) | Content::DownText(_) | Content::DownAudio(_) => None,
    }
}

/// One packet of a silent room. An encoder that has never heard anything gives a valid one.
fn silence() -> Bytes {
    let samples = hearken_actors::audio::pcm::samples_in(PACKET, UPLINK_RATE_HZ);
    Encoder::new(UPLINK_RATE_HZ, 16_000, 0)
        .and_then(|mut encoder| encoder.encode(&vec![0; samples]))
        .expect("16 kHz and 60 ms are legal for Opus")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearken_proto::recording::Frame;

    #[test]
    fn what_the_recorded_tools_answered_is_not_sent_again() {
        let frame = |text: &str| Frame { at: Duration::ZERO, content: Content::up(text) };
        let recording = Recording {
            frames: vec![
                frame(r#"{"type":"listen","state":"start","mode":"auto"}"#),
                frame(r#"{"type":"mcp","payload":{"jsonrpc":"2.0","id":3,"result":{}}}"#),
                frame(r#"{"type":"goodbye"}"#),
            ],
            ..Recording::default()
        };
        let actions: Vec<_> =
            Script::new(&recording, None).steps.into_iter().map(|step| step.action).collect();
        assert_eq!(actions, [Action::Begin, Action::Raw(r#"{"type":"goodbye"}"#.into())]);
    }
}
