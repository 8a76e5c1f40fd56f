//! `hearken-dev load`: connects many virtual devices to a server, and prints measurements. Not for the
//! behaviour of the devices, which is in [`crate::load`].

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use hearken_base::output;
use hearken_base::stop_signal::stop_requested;
use hearken_dev::load::{Distribution, Figures, LoadPlan, Measured};
use hearken_dialogue::Phrases;
use hearken_proto::device::ListenMode;

use super::mock_services::speech as speech_of;

/// Loads a server with many virtual devices, and shows times, packets, errors and resource usage.
///
/// Each talking device plays the recording in real time, waits for the end of the answer, pauses
/// and repeats. If the server requires tokens, each device requests its own from the OTA address,
/// as firmware does. The phrases of this server that mean "busy" are recognised.
///
/// Examples:
///   hearken-dev load fixtures/audio/en_amiable.jsonl --devices 20 --for 60
///   hearken-dev load speech.wav --devices 500 --talking 50 --ramp 30 --pid $(pgrep -f 'hearken serve')
///   hearken-dev load speech.wav --devices 300 --mode manual --words-ms 1600 --json > run.json
///   hearken-dev load speech.wav --devices 50 --interrupting 10 --listening 20 --talking 20
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LoadArgs {
    /// Speech to play: a recording (.jsonl), or a WAV file.
    pub(crate) file: PathBuf,
    /// Device endpoint of the server [default: ws://127.0.0.1:9400/xiaozhi/v1/].
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// Number of devices.
    #[arg(long, default_value_t = 10)]
    pub(crate) devices: usize,
    /// Number of devices that talk and wait for the end of the answer [default: all without another
    /// role].
    #[arg(long)]
    pub(crate) talking: Option<usize>,
    /// Number of devices that talk and interrupt every answer.
    #[arg(long, default_value_t = 0)]
    pub(crate) interrupting: usize,
    /// Number of devices with an open microphone while no user talks to them. The others stay
    /// connected and silent.
    #[arg(long, default_value_t = 0)]
    pub(crate) listening: usize,
    /// Side that decides when a user has finished: auto (the server), manual (the button),
    /// realtime.
    #[arg(long, default_value = "auto")]
    pub(crate) mode: ListenMode,
    /// Truncate or repeat the speech to this length.
    #[arg(long)]
    pub(crate) words_ms: Option<u64>,
    /// Connect the devices evenly over this number of seconds.
    #[arg(long, default_value_t = 5)]
    pub(crate) ramp: u64,
    /// Continue for this number of seconds after the last device has connected.
    #[arg(long = "for", default_value_t = 60)]
    pub(crate) length: u64,
    /// Mean pause from the end of an answer to the next speech, in milliseconds: exponentially
    /// distributed, at most five times as long.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) pause_ms: u64,
    /// Version of the binary framing: 1, 2 or 3.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
    pub(crate) framing: u32,
    /// Number of the first device, from which its address is derived: servers may remember devices.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub(crate) first: u32,
    /// Number of tools that each device offers besides those of its firmware.
    #[arg(long, default_value_t = 0)]
    pub(crate) tools: usize,
    /// Bearer token of all devices, instead of separate ones from the OTA address.
    #[arg(long)]
    pub(crate) token: Option<String>,
    /// Process id of the server on this machine: its CPU time and memory are shown.
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Loads the server and prints the measurements. Exit status 0: all devices were connected, every
/// turn was answered and no packet was lost; 1: otherwise; 2: it could not run, with the reason on
/// standard error.
///
/// # Errors
/// Fails only if stdout or stderr cannot be written.
pub(crate) async fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    let (plan, measured) = match measure(&args).await {
        Ok(measured) => measured,
        Err(error) => {
            writeln!(std::io::stderr(), "load: {error:#}")?;
            return Ok(ExitCode::from(2));
        }
    };
    if args.json {
        output::print(&serde_json::to_string(&measured)?)?;
    } else {
        output::print(&table(&measured))?;
    }
    let talk = plan.talkers() + plan.interrupting > 0;
    let well = measured.is_successful(plan.devices, talk);
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn measure(args: &LoadArgs) -> anyhow::Result<(LoadPlan, Measured)> {
    let plan = LoadPlan {
        speech: speech_of(&args.file)?,
        words: args.words_ms.map(Duration::from_millis),
        url: args.url.clone(),
        token: args.token.clone(),
        devices: args.devices,
        talking: args.talking,
        interrupting: args.interrupting,
        listening: args.listening,
        mode: args.mode,
        ramp: Duration::from_secs(args.ramp),
        length: Duration::from_secs(args.length),
        pause: Duration::from_millis(args.pause_ms),
        framing: args.framing,
        first: args.first,
        tools: args.tools,
        busy_words: Phrases::default().busy.all(),
    };
    let stop = async { drop(stop_requested(false).await) };
    let measured = plan.measure(args.pid, stop, progress).await?;
    Ok((plan, measured))
}

fn progress(figures: &Figures) {
    let lost: usize = figures.packets.lost.values().sum();
    let errors: usize = figures.errors.values().sum();
    let line = format!(
        "{} connected, {} turns, {} stalled, {} busy, {} packets heard, {lost} lost, {errors} errors\n",
        figures.connected, figures.turns, figures.stalled, figures.busy, figures.packets.played
    );
    // A closed terminal does not stop the run.
    std::io::stderr().write_all(line.as_bytes()).ok();
}

fn table(measured: &Measured) -> String {
    let figures = &measured.figures;
    let mut out = times(figures);
    let packets = &figures.packets;
    out += &format!(
        "\ndevices connected at the end {}, connections closed by the server {}\nturns {}, \
         interrupted {}, stalled {}, busy {}, answered too early {}, left unanswered {}, tool \
         calls {}\npackets sent {}, received {}, played {}, of these cut {}\n",
        figures.connected,
        figures.closed,
        figures.turns,
        figures.interrupted,
        figures.stalled,
        figures.busy,
        figures.early,
        figures.unanswered,
        figures.tool_calls,
        packets.sent,
        packets.received,
        packets.played,
        packets.cut
    );
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let part = 100.0 * figures.late_at_wire as f64 / figures.paced.max(1) as f64;
    out += &format!(
        "over 5 ms late after the one before {} of {} ({part:.3} %), gaps heard {}\n",
        figures.late_at_wire, figures.paced, packets.late
    );
    for (why, count) in &packets.lost {
        out += &format!("lost, {why}: {count}\n");
    }
    for (what, count) in &figures.errors {
        out += &format!("error, {what}: {count}\n");
    }
    if let Some(used) = &measured.server {
        let turn = used.cpu_ms_per_turn.map(|ms| format!(", {ms:.1} ms for each turn"));
        out += &format!(
            "the server used {:.3} cores{}; it holds {:.1} MiB, {:.1} KiB more for each device than \
             before the first came\n",
            used.cores,
            turn.unwrap_or_default(),
            used.resident_mib,
            used.kib_per_device,
        );
        if let Some(kib) = used.kib_per_device_hour {
            out += &format!("that grew by {kib:.1} KiB for each device in an hour\n");
        }
    }
    if let Some(used) = &measured.load {
        out += &format!("this program used {:.3} cores\n", used.cores);
    }
    if measured.overloaded {
        out += "this program woke up late itself, so times and lateness above are partly its own: it \
                is the bottleneck, or this machine is. Use fewer devices, or another machine.\n";
    }
    out
}

fn times(figures: &Figures) -> String {
    let mut out = format!(
        "{:<28} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "", "count", "p50", "p90", "p99", "p99.9", "max"
    );
    let mut row = |name: &str, spread: &Distribution| {
        if spread.count() == 0 {
            return;
        }
        let ms = |part| spread.ms(part).map_or("-".into(), |ms| format!("{ms:.1}"));
        let [p50, p90, p99, p999, max] = [0.5, 0.9, 0.99, 0.999, 1.0].map(ms);
        let count = spread.count();
        out += &format!("{name:<28} {count:>8} {p50:>9} {p90:>9} {p99:>9} {p999:>9} {max:>9}\n");
    };
    row("speech end to stt, ms", &figures.transcript);
    row("speech end to tts start, ms", &figures.tts_start);
    row("speech end to audio, ms", &figures.first_audio);
    row("speech end to busy, ms", &figures.busy_told);
    row("connecting to 503, ms", &figures.refused);
    row("interruption to stop, ms", &figures.stop);
    row("packets late by, ms", &figures.lateness);
    row("this program late by, ms", &figures.own_lateness);
    out
}
