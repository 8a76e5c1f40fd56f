//! `hearken load`: many virtual devices at once against a server, and what the wire showed. Not for
//! what the devices do, which is in [`crate::load`].

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::endpoint::Wanted;
use crate::commands::convert::read_recording;
use crate::emulator::profile::Profile;
use crate::emulator::socket::Endpoint;
use crate::emulator::sound::{Side, Sound, UPLINK_RATE_HZ, read_wav, side_of};
use crate::load::{self, Crowd, Figures, Spread};
use crate::shutdown::told_to_stop;

/// Loads a server with many virtual devices, and shows times, packets and errors.
///
/// Each talking device says what the recording says, in real time, hears the answer out, pauses
/// and goes on. Against a server that asks for tokens each device gets its own as firmware does,
/// from the OTA address.
///
/// Examples:
///   hearken load fixtures/audio/en_amiable.jsonl --devices 20 --for 60
///   hearken load speech.wav --devices 1000 --talking 100 --ramp 30 --pid $(pidof hearken)
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct LoadArgs {
    /// What people say: a recording (.jsonl), or a WAV file.
    pub file: PathBuf,
    /// The server's device endpoint [default: ws://127.0.0.1:9400/xiaozhi/v1/].
    #[arg(long)]
    pub url: Option<String>,
    /// Devices that connect.
    #[arg(long, default_value_t = 10)]
    pub devices: usize,
    /// How many of them talk; the others stay connected and silent [default: all].
    #[arg(long)]
    pub talking: Option<usize>,
    /// The devices come evenly over this many seconds.
    #[arg(long, default_value_t = 5)]
    pub ramp: u64,
    /// Go on for this many seconds after the last has come.
    #[arg(long = "for", default_value_t = 60)]
    pub length: u64,
    /// Seconds from an answer's end to the next words.
    #[arg(long, default_value_t = 1)]
    pub pause: u64,
    /// Version of the binary framing: 1, 2 or 3.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
    pub framing: u32,
    /// Bearer token of all devices, instead of one each from the OTA address.
    #[arg(long)]
    pub token: Option<String>,
    /// The server's process on this machine: its CPU time and memory are shown.
    #[arg(long)]
    pub pid: Option<u32>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Loads the server and prints what was measured. Exit status 0: every turn was answered and no
/// packet was lost; 1: some were not; 2: it could not run, and the reason went to stderr.
///
/// # Errors
/// Only where stdout or stderr cannot be written.
pub async fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    let measured = match measure(&args).await {
        Ok(measured) => measured,
        Err(error) => {
            writeln!(std::io::stderr(), "load: {error:#}")?;
            return Ok(ExitCode::from(2));
        }
    };
    if args.json {
        super::print(&serde_json::to_string(&measured)?)?;
    } else {
        super::print(&table(&measured))?;
    }
    let Figures { errors, packets, turns, .. } = &measured.figures;
    let talks = args.talking != Some(0);
    let well = errors.is_empty() && packets.lost.is_empty() && (*turns > 0 || !talks);
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

#[derive(Debug, Serialize)]
struct Measured {
    figures: Figures,
    server: Option<Usage>,
}

/// What a process has used.
#[derive(Debug, Clone, Copy, Serialize)]
struct Usage {
    cpu_s: f64,
    resident_mib: f64,
}

async fn measure(args: &LoadArgs) -> anyhow::Result<Measured> {
    if args.devices == 0 {
        bail!("--devices must be 1 or more");
    }
    let speech = speech(args)?;
    let silence = vec![0; usize::try_from(UPLINK_RATE_HZ / 1_000 * 60).unwrap_or(960)];
    let silence = Sound { samples: silence, rate_hz: UPLINK_RATE_HZ }.packets()?;
    let crowd = Crowd {
        endpoints: endpoints(args).await?,
        talking: args.talking.unwrap_or(args.devices),
        ramp: Duration::from_secs(args.ramp),
        speech: speech.packets()?.into(),
        silence: silence.into_iter().next().context("no packet of silence")?,
        pause: Duration::from_secs(args.pause),
        profile: Profile::default(),
    };
    let before = args.pid.map(usage).transpose()?;
    let end = CancellationToken::new();
    let deadline = Duration::from_secs(args.ramp + args.length);
    let stopping = end.clone().drop_guard();
    let running = load::run(crowd, end.clone(), progress);
    let timer = async {
        tokio::select! {
            () = tokio::time::sleep(deadline) => {}
            _ = told_to_stop(false) => {}
        }
        drop(stopping);
    };
    let (figures, ()) = tokio::join!(running, timer);
    let server = match (before, args.pid.map(usage).transpose()?) {
        (Some(before), Some(after)) => {
            Some(Usage { cpu_s: after.cpu_s - before.cpu_s, resident_mib: after.resident_mib })
        }
        _ => None,
    };
    Ok(Measured { figures, server })
}

/// What is said, without the silence after it.
fn speech(args: &LoadArgs) -> anyhow::Result<Sound> {
    let wav = args.file.extension().is_some_and(|x| x.eq_ignore_ascii_case("wav"));
    let sound =
        if wav { read_wav(&args.file)? } else { side_of(&read_recording(&args.file)?, Side::Up)? };
    let mut sound = sound.at_rate(UPLINK_RATE_HZ)?;
    let end = sound.speech_end().as_secs_f64() * f64::from(UPLINK_RATE_HZ);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a length of sound in samples"
    )]
    sound.samples.truncate(end as usize);
    Ok(sound)
}

/// One endpoint a device, each with an address that is nobody's.
async fn endpoints(args: &LoadArgs) -> anyhow::Result<Vec<Endpoint>> {
    let mut endpoints = Vec::with_capacity(args.devices);
    for number in 1..=u32::try_from(args.devices).context("--devices is too large")? {
        let [a, b, c, d] = number.to_be_bytes();
        let wanted = Wanted {
            url: args.url.clone(),
            token: args.token.clone(),
            device_id: format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
            client_id: format!("00000000-0000-4000-8000-{number:012x}"),
            framing: args.framing,
            version: Profile::default().name.to_owned(),
            ota: None,
        };
        endpoints.push(wanted.endpoint().await?);
    }
    Ok(endpoints)
}

fn progress(figures: &Figures) {
    let lost: usize = figures.packets.lost.values().sum();
    let errors: usize = figures.errors.values().sum();
    let line = format!(
        "{} connected, {} turns, {} packets heard, {} late, {lost} lost, {errors} errors\n",
        figures.connected, figures.turns, figures.packets.played, figures.packets.late
    );
    // Progress that nobody can see is no reason to stop.
    std::io::stderr().write_all(line.as_bytes()).ok();
}

fn table(measured: &Measured) -> String {
    let Measured { figures, server } = measured;
    let spread = |name: &str, spread: &Spread| {
        let ms = |part| spread.ms(part).map_or("-".into(), |ms| format!("{ms:.0}"));
        format!("{name:<24} {:>8} {:>8} {:>8}\n", ms(0.5), ms(0.9), ms(0.99))
    };
    let mut out =
        format!("{:<24} {:>8} {:>8} {:>8}\n", "from the end of speech", "p50", "p90", "p99");
    out += &spread("to the transcript, ms", &figures.transcript);
    out += &spread("to tts start, ms", &figures.tts_start);
    out += &spread("to the first audio, ms", &figures.first_audio);
    let packets = &figures.packets;
    out += &format!(
        "\nturns {}, connections closed by the server {}\npackets sent {}, received {}, played {}\n",
        figures.turns, figures.closed, packets.sent, packets.received, packets.played
    );
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let part = 100.0 * figures.late_at_wire as f64 / figures.paced.max(1) as f64;
    out += &format!(
        "over 5 ms late after the one before {} of {} ({part:.2} %), gaps heard {}\n",
        figures.late_at_wire, figures.paced, packets.late
    );
    for (why, count) in &packets.lost {
        out += &format!("lost, {why}: {count}\n");
    }
    for (what, count) in &figures.errors {
        out += &format!("error, {what}: {count}\n");
    }
    if let Some(Usage { cpu_s, resident_mib }) = server {
        out += &format!("the server used {cpu_s:.1} s of CPU and holds {resident_mib:.0} MiB\n");
    }
    out
}

/// CPU time and memory of a process, from Linux's `/proc` (man 5 proc).
fn usage(pid: u32) -> anyhow::Result<Usage> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let path = format!("/proc/{pid}");
    let read = |name: &str| {
        std::fs::read_to_string(format!("{path}/{name}"))
            .with_context(|| format!("--pid {pid}: no such process"))
    };
    let stat = read("stat")?;
    // The name, in brackets, may hold spaces; user and system time are the 14th and 15th field.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum();
    let status = read("status")?;
    let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    Ok(Usage { cpu_s: ticks / TICKS_PER_SECOND, resident_mib: kib.unwrap_or(0.0) / 1_024.0 })
}
