//! `hearken replay`: streams recorded speech to a server as a device would, and tells what came
//! back. Not for the device's rules, which are in [`hearken_virtual_device`].

mod readback;
mod timeline;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use hearken_proto::device::{AudioParams, ListenMode};
use hearken_proto::recording::{Header, Recording};
use hearken_virtual_device::firmware::Fact;
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::report::Report;
use hearken_virtual_device::script::Script;
use hearken_virtual_device::socket::Device;
use hearken_virtual_device::text_similarity::agreement;
use hearken_virtual_device::{expectations, sound};

use self::timeline::Outcome;
use crate::commands::convert::read_recording;
use crate::commands::endpoint::Wanted;

/// Exit status when an expectation did not hold.
const FAILED: u8 = 1;
/// Exit status when the replay could not run.
const COULD_NOT_RUN: u8 = 2;

/// Streams recorded speech to a server as a device would, and shows what comes back.
#[derive(Debug, Clone, clap::Args)]
pub struct ReplayArgs {
    /// A recording (.jsonl), or a WAV file of a person speaking.
    pub file: PathBuf,
    /// The server's device endpoint [default: as --ota says, else
    /// ws://127.0.0.1:9400/xiaozhi/v1/].
    #[arg(long)]
    pub url: Option<String>,
    /// Boot at this OTA address first, as firmware does, and connect as it says. Without it the
    /// endpoint's own host is asked for a token, at /xiaozhi/ota/, if it answers there.
    #[arg(long)]
    pub ota: Option<String>,
    /// Speak this many times as fast as recorded.
    #[arg(long, default_value_t = 1.0)]
    pub speed: f64,
    /// Write what a person would hear to this WAV file.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Check what the recording expects, or at least that an answer comes; exit status 1 if not.
    #[arg(long)]
    pub expect: bool,
    /// Use the device in this mode instead of the recording's: auto, manual or realtime.
    #[arg(long, value_parser = mode)]
    pub mode: Option<ListenMode>,
    /// Behave as this firmware: 1.5.5, 1.6.0, 1.6.2, 1.6.6, 1.7.6, 1.8.0, 2.0.0, 2.1.0, 2.2.2,
    /// 2.2.6, 2.3.0, 2.4.2 or newest.
    #[arg(long, value_parser = profile)]
    pub firmware: Option<Profile>,
    /// Use this version of the binary framing (1, 2, 3) instead of the recording's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=3))]
    pub framing: Option<u32>,
    /// Connect with this Device-Id instead of the recording's.
    #[arg(long)]
    pub device_id: Option<String>,
    /// Bearer token; no OTA address is asked for one.
    #[arg(long)]
    pub token: Option<String>,
    /// Read the reply back through the recognition service at this address
    /// (ws://127.0.0.1:9200).
    #[arg(long)]
    pub asr_url: Option<String>,
    /// Print one JSON object instead of the timeline.
    #[arg(long)]
    pub json: bool,
}

fn mode(text: &str) -> Result<ListenMode, String> {
    [ListenMode::Auto, ListenMode::Manual, ListenMode::Realtime]
        .into_iter()
        .find(|m| m.as_str() == text)
        .ok_or_else(|| "use auto, manual or realtime".into())
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::named(name).ok_or_else(|| format!("use one of {}", Profile::names()))
}

/// Streams one file and prints the timeline. Exit status 0: the expectations held (or none were
/// asked for); 1: some did not; 2: it could not run, and the reason went to stderr.
///
/// # Errors
/// Only where stdout or stderr cannot be written.
pub async fn run(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    match replay(&args).await {
        Ok((report, outcome)) => {
            let mut out = std::io::stdout().lock();
            if args.json {
                writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
            } else {
                write!(out, "{}{}", timeline::lines(&report), outcome.summary())?;
            }
            let held = outcome.verdicts.iter().all(|v| v.held);
            Ok(if held { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
        }
        Err(e) => {
            writeln!(std::io::stderr(), "replay: {e:#}")?;
            Ok(ExitCode::from(COULD_NOT_RUN))
        }
    }
}

/// Where the device of the recording connects, as the command line has it.
fn wanted(args: &ReplayArgs, header: &Header, profile: &Profile) -> Wanted {
    let or = |given: &Option<String>, fallback: &str| {
        given.clone().unwrap_or_else(|| fallback.to_owned())
    };
    let device_id = args.device_id.clone().or_else(|| header.device_id.clone());
    Wanted {
        url: args.url.clone(),
        ota: args.ota.clone(),
        token: args.token.clone(),
        // A locally administered address, so that it is nobody's.
        device_id: or(&device_id, "02:00:00:00:00:01"),
        client_id: or(&header.client_id, "00000000-0000-4000-8000-000000000001"),
        framing: header.framing,
        version: profile.name.to_owned(),
    }
}

async fn replay(args: &ReplayArgs) -> anyhow::Result<(Report, Outcome)> {
    if !(args.speed.is_finite() && args.speed > 0.0) {
        bail!("--speed must be above 0");
    }
    let file = args.clone();
    let recording = tokio::task::spawn_blocking(move || load(&file)).await??;
    let script = Script::new(&recording, args.mode);
    let endpoint = wanted(args, &recording.header, &script.profile).endpoint().await?;
    let url = endpoint.url.clone();
    let mut device = Device::new(endpoint, script.firmware());
    script.perform(&mut device, args.speed).await?;
    let report = device.into_report();
    if report.facts().any(|(_, fact)| *fact == Fact::HelloMissing) {
        bail!("{url} never said hello: is it a xiaozhi device endpoint?");
    }
    let rate_hz = downlink(&report).sample_rate;
    let heard = sound::heard(&report, rate_hz)?;
    if let Some(path) = &args.out {
        sound::write_wav(path, &heard)?;
    }
    let (reply, read) = match &args.asr_url {
        Some(url) if !heard.samples.is_empty() => {
            (report.reply(), Some(readback::read_back(url, &heard).await?))
        }
        _ => (report.reply(), None),
    };
    let part = read.as_deref().map(|read| agreement(&reply, read));
    let verdicts = if args.expect {
        let mut expect = recording.header.expect.clone().unwrap_or_default();
        expect.reply = expect.reply.or(Some(true));
        expectations::judge(&expect, &report, part)
    } else {
        Vec::new()
    };
    let gaps: Duration = report.gaps().map(|(_, length)| length).sum();
    let outcome = Outcome {
        transcript: report.transcript(),
        reply,
        readback: read,
        agreement: part,
        stages: report.stages(),
        packets: report.packets(),
        interruptions: report.interruptions(),
        tools: report.calls().map(|call| call.name.clone()).collect(),
        offences: report.facts().filter_map(|(_, fact)| offence(fact)).collect(),
        gaps_ms: u64::try_from(gaps.as_millis()).unwrap_or(u64::MAX),
        verdicts,
    };
    Ok((report, outcome))
}

fn offence(fact: &Fact) -> Option<&'static str> {
    match fact {
        Fact::Offence(what) => Some(what),
        _ => None,
    }
}

fn load(args: &ReplayArgs) -> anyhow::Result<Recording> {
    let wav = args.file.extension().is_some_and(|e| e.eq_ignore_ascii_case("wav"));
    let mut recording = if wav {
        sound::read_wav(&args.file)?.to_recording(Header::default())?
    } else {
        read_recording(&args.file)?
    };
    let header = &mut recording.header;
    if let Some(profile) = &args.firmware {
        header.firmware = Some(profile.name.into());
    }
    header.framing = args.framing.unwrap_or(header.framing);
    Ok(recording)
}

/// The shape of the downlink audio as the last hello announced it.
fn downlink(report: &Report) -> AudioParams {
    let hello = report.facts().filter_map(|(_, fact)| match fact {
        Fact::Hello(audio) => Some(audio.clone()),
        _ => None,
    });
    hello.last().unwrap_or_else(|| AudioParams::opus(24_000, 60))
}
