//! One household, drawn from a seed: its board, settings and network. Not for its events.

use std::fmt;
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_audio::SpeakingSettings;
use hearken_proto::device::ListenMode;
use hearken_virtual_device::dice::Dice;
use hearken_virtual_device::firmware::LOOP_TURN;
use hearken_virtual_device::profile::{PROFILES, Profile};

use super::vendors::LONGEST_REPLY;

/// Timers of tokio run in steps of a millisecond, on both sides.
const ROUNDING: Duration = Duration::from_millis(2);
const MODES: [ListenMode; 3] = [ListenMode::Auto, ListenMode::Manual, ListenMode::Realtime];

/// Number of consecutive seeds that cover every firmware in every mode.
pub(crate) const COMBINATIONS: u64 = (PROFILES.len() * MODES.len()) as u64;

/// A defect of the server, to show that it would be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Eight packets are sent ahead.
    Lead,
    /// `tts stop` is sent at the end of the audio.
    StopMargin,
    /// Audio is sent together with `tts start`.
    StartGuard,
    /// Speech starts with the first audio.
    Prebuffer,
}

impl Broken {
    pub(crate) const ALL: [Self; 4] =
        [Self::Lead, Self::StopMargin, Self::StartGuard, Self::Prebuffer];

    /// Returns the defect with this name on the command line.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|b| b.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lead => "lead",
            Self::StopMargin => "stop-margin",
            Self::StartGuard => "start-guard",
            Self::Prebuffer => "prebuffer",
        }
    }

    fn apply(self, speaking: &mut SpeakingSettings) {
        match self {
            Self::Lead => speaking.lead_packets = 8,
            Self::StopMargin => speaking.stop_margin = Duration::ZERO,
            Self::StartGuard => speaking.start_guard = Duration::ZERO,
            Self::Prebuffer => speaking.prebuffer = Duration::ZERO,
        }
    }
}

/// One household.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) profile: Profile,
    pub(crate) mode: ListenMode,
    pub(crate) framing: u32,
    pub(crate) drift_ppm: i32,
    pub(crate) uplink_packet: Duration,
    pub(crate) wakes_while_listening: bool,
    /// Minimum network latency.
    pub(crate) base: Duration,
    /// Maximum additional latency.
    pub(crate) jitter: Duration,
    pub(crate) settings: PipelineSettings,
    /// Duration of the simulation.
    pub(crate) length: Duration,
    /// Random numbers of all its events.
    pub(crate) dice: Dice,
}

impl Plan {
    /// The household of this seed.
    pub(crate) fn of(seed: u64, length: Duration, broken: Option<Broken>) -> Self {
        let mut dice = Dice::new(seed);
        let place = usize::try_from(seed % COMBINATIONS).unwrap();
        let profile = PROFILES[place % PROFILES.len()].clone();
        let drift_ppm = i32::try_from(dice.between(0, 400)).unwrap() - 200;
        let mut settings = PipelineSettings::default();
        settings.device.no_voice_timeout = dice.ms(15_000, 120_000);
        let speaking = &mut settings.speaking;
        let packet = dice.pick(&[60, 60, 60, 60, 60, 60, 40, 20]);
        speaking.packet = Duration::from_millis(packet);
        // Cheap audio, as its quality does not matter here.
        (speaking.sample_rate_hz, speaking.complexity, speaking.bitrate_bps) = (8_000, 0, 6_000);
        let bound = jitter_bound(&profile, speaking, drift_ppm);
        let jitter = dice.between(0, u64::try_from(bound.as_millis()).unwrap());
        if let Some(broken) = broken {
            broken.apply(speaking);
        }
        let framing = u32::try_from(dice.between(1, 3)).unwrap();
        let uplink_ms = dice.pick(&[60, 60, 60, 60, 40, 20]);
        Self {
            seed,
            mode: MODES[place / PROFILES.len()],
            framing,
            drift_ppm,
            uplink_packet: Duration::from_millis(uplink_ms),
            wakes_while_listening: dice.chance(500),
            base: dice.ms(5, 40),
            jitter: Duration::from_millis(jitter),
            settings,
            length,
            profile,
            dice,
        }
    }
}

/// Maximum difference between the longest and the shortest latency of messages before a board must
/// lose audio, even with a server that follows its settings:
///
/// - a packet is sent `lead - 1` packets before its playback, less the clock drift during the
///   longest reply: if later, playback runs empty;
/// - audio is sent `start_guard` after `tts start`, which may be the slower of the two, and needs a
///   turn of the main loop;
/// - `tts stop` is sent `stop_margin` after the end of playback by the server's clock;
/// - if the first packet had the longest latency and later ones the shortest, the queue must hold
///   as many more packets as were played in the difference.
pub(crate) fn jitter_bound(profile: &Profile, speaking: &SpeakingSettings, ppm: i32) -> Duration {
    let parted = LONGEST_REPLY * ppm.unsigned_abs() / 1_000_000 + ROUNDING;
    let packet = speaking.packet;
    let dry = (packet * (speaking.lead_packets - 1)).saturating_sub(parted);
    let start = speaking.start_guard.saturating_sub(LOOP_TURN + ROUNDING);
    let tail = speaking.stop_margin.saturating_sub(parted);
    // The packet being played is not in the queue.
    let places = u32::try_from(profile.decode_queue_packets).unwrap_or(1_000).min(1_000) + 1;
    let full = (packet * places.saturating_sub(speaking.lead_packets)).saturating_sub(parted);
    dry.min(start).min(tail).min(full)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speaking = &self.settings.speaking;
        write!(
            f,
            "seed {}: firmware {}, {}, framing {}, {:+} ppm, uplink {:?}, downlink {:?}, network \
             {:?} to {:?}, closes after {:?}",
            self.seed,
            self.profile.name,
            self.mode.as_str(),
            self.framing.min(self.profile.newest_framing),
            self.drift_ppm,
            self.uplink_packet,
            speaking.packet,
            self.base,
            self.base + self.jitter,
            self.settings.device.no_voice_timeout,
        )
    }
}
