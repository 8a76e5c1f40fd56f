//! Script of a person's actions, derived from a recording, and its execution in real time. Not for
//! the device's own rules, which decide the messages of its microphone and button.

use std::time::Duration;

use bytes::Bytes;
use hearken_audio::opus::Encoder;
use hearken_proto::device::{AudioParams, ListenMode, Uplink};
use hearken_proto::recording::{Content, Recording};
use tokio::time::Instant;

use super::firmware::{DeviceState, Event, Firmware};
use super::profile::Profile;
use super::report::Report;
use super::socket::{Device, SocketError};
use super::sound::{PACKET, UPLINK_RATE_HZ};

/// Time after the last `tts stop` in which data in transit is still received.
const AFTERMATH: Duration = Duration::from_millis(300);

/// Time limits of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// Time limit for the hello, and then for the start of an answer.
    pub answer: Duration,
    /// Time limit for the end of an answer that has started, from the end of its question.
    pub reply: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(180), reply: Duration::from_secs(300) }
    }
}

/// Script of a person's actions, with the device.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Side that decides when speech ends.
    pub mode: ListenMode,
    /// Version of the binary framing.
    pub framing: u32,
    /// Format of the microphone's audio.
    pub uplink: AudioParams,
    /// Firmware of the device.
    pub profile: Profile,
    /// Time limits of the person.
    pub limits: TimeLimits,
    steps: Vec<Step>,
    /// Number of `tts stop` messages after which the script ends.
    answers: usize,
    /// End of the person's speech, on the recording's clock.
    speech_end: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
struct Step {
    at: Duration,
    /// Number of `tts stop` messages before this step in the recording: a person who waited for the
    /// answer then waits for it now, whatever its duration.
    answers_before: usize,
    action: Action,
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    /// The person starts a conversation, by wake word or by push-to-talk.
    Begin,
    WakeWord(String),
    Release,
    Interrupt,
    Speak(Bytes),
    /// Audio from before the microphone was opened.
    PreWake(Bytes),
    /// A frame that no action of a person explains; sent unchanged.
    Raw(String),
}

impl Script {
    /// Derives the script from a recording. `mode` replaces the recording's own.
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
        // A session recorded at a server contains all its answers: after the last one the device
        // went on listening to an empty room.
        let whole = recording.frames.iter().any(|f| is_down(&f.content, "hello", None));
        let last = script.steps.last().map_or(0, |s| s.answers_before);
        script.answers = if whole { answers_before.max(1) } else { last + 1 };
        script.let_go_in_manual_mode();
        script
    }

    /// Adds the release of the button, which a recording of another mode lacks if it is played in
    /// manual mode.
    fn let_go_in_manual_mode(&mut self) {
        let released = self.steps.iter().any(|s| s.action == Action::Release);
        if self.mode == ListenMode::Manual
            && !released
            && let Some(last) = self.steps.last()
        {
            let at = last.at;
            let answers_before = last.answers_before;
            self.steps.push(Step { at, answers_before, action: Action::Release });
        }
    }

    /// Creates the device of the script.
    pub fn firmware(&self) -> Firmware {
        Firmware::new(self.profile.clone(), self.mode, self.framing, &self.uplink)
    }

    /// Performs all steps, `speed` times as fast as recorded, then waits for the answer and its
    /// end.
    ///
    /// # Errors
    /// Fails if the device cannot connect.
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
                Action::Release => device.handle(Event::TalkReleased).await?,
                Action::Interrupt => interrupt(device).await?,
                Action::Speak(opus) => device.handle(Event::Microphone(opus.clone())).await?,
                // An idle device stores it for the wake word.
                Action::PreWake(opus) if device.firmware().state() == DeviceState::Idle => {
                    device.handle(Event::Microphone(opus.clone())).await?;
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

    /// Waits until the step is due, and for the answers that preceded it in the recording.
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
        device.run_until(clock.when(step.at), |_, _| false).await
    }

    fn mark_speech_end(&self, device: &mut Device, at: Duration) {
        if device.report().speech_end.is_none() && self.speech_end.is_some_and(|end| at >= end) {
            device.mark_speech_end();
        }
    }

    /// Starts the conversation and waits for the microphone, as people wait for the screen.
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
            // In auto and realtime mode, firmware listens again by itself.
            (_, true, DeviceState::Listening) if word.is_none() => return Ok(()),
            _ => Event::Wake { word },
        };
        device.handle(event).await?;
        let patience = Instant::now() + self.limits.answer;
        let ready = |_: &Report, firmware: &Firmware| {
            firmware.microphone_open() || firmware.state() == DeviceState::Idle
        };
        device.run_until(patience, ready).await
    }

    /// Waits for the answer to the last words, and until no more audio can arrive.
    async fn hear_out(&self, device: &mut Device) -> Result<(), SocketError> {
        self.wait_for_answers(device, self.answers).await?;
        let begin = Instant::now();
        // The device plays its remaining audio, and receives late packets.
        let quiet = Instant::now() + AFTERMATH;
        device.run_until(quiet, |_, _| false).await?;
        while device.firmware().due().is_some() && begin.elapsed() < self.limits.reply {
            device.run_until(Instant::now() + PACKET, |_, _| false).await?;
        }
        Ok(())
    }

    /// Waits for this total number of answers. Sends silence meanwhile if the microphone is open.
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
            device.run_until(next, |report, _| answers(report) >= wanted).await?;
            device.handle(Event::Microphone(silence.clone())).await?;
        }
        Ok(())
    }
}

/// Interrupts by the button while the device speaks. At any other time the button would end the
/// conversation, so the message is sent as recorded.
async fn interrupt(device: &mut Device) -> Result<(), SocketError> {
    if device.firmware().state() == DeviceState::Speaking {
        return device.handle(Event::Button).await;
    }
    device.send_raw(r#"{"type":"abort"}"#.into()).await
}

/// Mapping of the recording's clock to real time.
struct Clock {
    origin: Instant,
    speed: f64,
}

impl Clock {
    fn when(&self, at: Duration) -> Instant {
        self.origin + at.div_f64(self.speed)
    }

    /// Shifts the clock after a wait: `at` is now.
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

/// Returns true for a message from the server with this type and, if given, this state.
fn is_down(content: &Content, kind: &str, state: Option<&str>) -> bool {
    let Content::Down(json) = content else { return false };
    let is = |name: &str, value: &str| json.get(name).is_some_and(|v| v == value);
    is("type", kind) && state.is_none_or(|state| is("state", state))
}

fn action(content: &Content, listening: &mut bool) -> Option<Action> {
    match content {
        Content::Up(json) => match uplink(content)? {
            // The device sends the hello itself.
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
            // Its tools also answer by themselves: a second answer could be matched to another call.
            Uplink::Mcp { .. } => None,
            _ => Some(Action::Raw(json.to_string())),
        },
        Content::UpText(text) => Some(Action::Raw(text.clone())),
        Content::UpAudio(opus) if *listening => Some(Action::Speak(opus.clone())),
        Content::UpAudio(opus) => Some(Action::PreWake(opus.clone())),
        Content::Down(_) | Content::DownText(_) | Content::DownAudio(_) => None,
    }
}

/// Returns one packet of silence. A new encoder produces a valid one.
fn silence() -> Bytes {
    let samples = hearken_audio::pcm::samples_in(PACKET, UPLINK_RATE_HZ);
    Encoder::new(UPLINK_RATE_HZ, 16_000, 0)
        .and_then(|mut encoder| encoder.encode(&vec![0; samples]))
        .expect("16 kHz and 60 ms are legal for Opus")
}

#[cfg(test)]
mod tests {
    use hearken_proto::recording::Frame;

    use super::*;

    #[test]
    fn recorded_tool_results_are_not_replayed() {
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
