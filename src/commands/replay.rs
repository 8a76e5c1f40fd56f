//! `hearken replay`: sends recorded speech to a server as a device would, and prints the result.
//! Only arguments and printing; the replay itself is in [`hearken_virtual_device`].

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use hearken_proto::device::ListenMode;
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::summary::Failure;
use hearken_virtual_device::{EndpointOptions, Expectations, Recording, Session, sound};

/// Exit status when an expectation did not hold.
const FAILED: u8 = 1;
/// Exit status when the replay could not run.
const COULD_NOT_RUN: u8 = 2;

/// Sends recorded speech to a server as a device would, and shows the result.
#[derive(Debug, Clone, clap::Args)]
pub struct ReplayArgs {
    /// A recording (.jsonl), or a WAV or Ogg Opus file of a person speaking.
    pub file: PathBuf,
    /// Device endpoint of the server [default: as --ota says, else
    /// ws://127.0.0.1:9400/xiaozhi/v1/].
    #[arg(long)]
    pub url: Option<String>,
    /// Boot at this OTA address first, as firmware does, and connect as it says. Without it, the
    /// endpoint's own host is asked for a token, at /xiaozhi/ota/, if it answers there.
    #[arg(long)]
    pub ota: Option<String>,
    /// Send the speech this many times as fast as recorded.
    #[arg(long, default_value_t = 1.0)]
    pub speed: f64,
    /// Write the audio that a person would hear to this WAV file.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Check the expectations of the recording, or at least that there is an answer; exit status 1
    /// if not.
    #[arg(long)]
    pub expect: bool,
    /// Use the device in this mode instead of the recording's: auto, manual or realtime.
    #[arg(long)]
    pub mode: Option<ListenMode>,
    /// Use this firmware: 1.5.5, 1.6.0, 1.6.2, 1.6.6, 1.7.6, 1.8.0, 2.0.0, 2.1.0, 2.2.2, 2.2.6,
    /// 2.3.0, 2.4.2 or newest.
    #[arg(long, value_parser = profile)]
    pub firmware: Option<Profile>,
    /// Use this version of the binary framing (1, 2, 3) instead of the recording's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=3))]
    pub framing: Option<u32>,
    /// Connect with this Device-Id instead of the recording's.
    #[arg(long)]
    pub device_id: Option<String>,
    /// Connect with this Client-Id (a UUID) instead of the recording's; recordings of a server have
    /// none. A device that this server knows gets a token only with its own.
    #[arg(long)]
    pub client_id: Option<String>,
    /// Bearer token; none is requested from an OTA address.
    #[arg(long)]
    pub token: Option<String>,
    /// Transcribe the reply with the recognition service at this address (ws://127.0.0.1:9200).
    #[arg(long)]
    pub asr_url: Option<String>,
    /// Print one JSON object instead of the timeline, also if the replay could not run;
    /// docs/replay-json.md describes its fields.
    #[arg(long)]
    pub json: bool,
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::named(name).ok_or_else(|| format!("use one of {}", Profile::names()))
}

/// Replays one file and prints the timeline. Exit status 0: the expectations hold (or none was
/// checked); 1: some do not; 2: it could not run, with the reason on standard error.
///
/// # Errors
/// Fails only if stdout or stderr cannot be written.
pub async fn run(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    let session = match replay(&args).await {
        Ok(session) => session,
        Err(reason) => {
            if args.json {
                super::print(&serde_json::to_string(&Failure::new(format!("{reason:#}")))?)?;
            }
            writeln!(std::io::stderr(), "replay: {reason:#}")?;
            return Ok(ExitCode::from(COULD_NOT_RUN));
        }
    };
    let checked = args.expect.then(|| session.check(&Expectations::new()));
    let summary = session.summary(checked.unwrap_or_default());
    if args.json {
        super::print(&serde_json::to_string(&summary)?)?;
    } else {
        super::print(&format!("{}{}", session.timeline(), summary.text()))?;
    }
    Ok(if summary.held { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

async fn replay(args: &ReplayArgs) -> anyhow::Result<Session> {
    let file = args.file.clone();
    let recording = tokio::task::spawn_blocking(move || Recording::load(file)).await??;
    let mut replay = recording.replay_to(EndpointOptions {
        url: args.url.clone(),
        ota: args.ota.clone(),
        token: args.token.clone(),
        device_id: args.device_id.clone(),
        client_id: args.client_id.clone(),
    });
    replay = replay.speed(args.speed);
    if let Some(mode) = args.mode {
        replay = replay.mode(mode);
    }
    if let Some(profile) = &args.firmware {
        replay = replay.profile(profile.clone());
    }
    if let Some(framing) = args.framing {
        replay = replay.framing(framing);
    }
    if let Some(recogniser) = &args.asr_url {
        replay = replay.read_back(recogniser);
    }
    let session = replay.await?;
    if let Some(path) = &args.out {
        sound::write_wav(path, session.heard())?;
    }
    Ok(session)
}
