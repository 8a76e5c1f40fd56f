//! `hearken serve`: the voice server, with the engines that its configuration needs.

use std::path::PathBuf;

use hearken_base::stop_signal::on_signal;
use hearken_base::wall_clock;
use tokio_util::sync::CancellationToken;

use crate::config::{self, EnvVars};
use crate::{app, engines, service_manager, telemetry};

/// Run the voice server, with the engines that its configuration needs.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  hearken serve\n  hearken serve --config /etc/hearken/config.toml\n  \
    LLM_BASE_URL=https://api.example.com/v1 LLM_API_KEY=sk-... hearken serve\n  \
    hearken serve --record sessions/\n  hearken serve --tls self-signed"
)]
pub struct Args {
    /// Configuration file [default: config.toml here, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Record every session into this folder
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Serve HTTPS too, with a certificate that the server makes: at port 9443, or `tls.port`
    #[arg(long, value_name = "KIND")]
    pub tls: Option<TlsKind>,
    /// Print the whole configuration with secrets masked, and exit
    #[arg(long)]
    pub check_config: bool,
}

/// Certificate for HTTPS.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum TlsKind {
    /// Made and signed by the server itself, and kept in the data folder
    SelfSigned,
}

/// Serves until a signal.
///
/// # Errors
/// Fails if the configuration, which [`app::verify`] checks completely, a model, the store's version or an address cannot be used.
pub async fn run(args: Args, env: &dyn EnvVars) -> anyhow::Result<()> {
    let mut config = super::configuration(args.config.as_deref(), env)?;
    if let Some(dir) = args.record {
        config.server.record_dir = dir;
    }
    if let Some(TlsKind::SelfSigned) = args.tls {
        config.tls.self_signed = true;
    }
    if args.check_config {
        return super::print(&config::masked(&config)?);
    }
    telemetry::start(&config.log, config.time_zone())?;
    config.server.data_dir = config::env::data_dir(&config.server.data_dir, env);
    app::verify(&config)?;
    let models = config::env::models_dir(&config.embedded.models_dir, env);
    let engines = engines::needed(&config, &models)?;
    wall_clock::begin();
    service_manager::starting(Box::pin(app::upgrade_store(&config))).await?;
    let process = CancellationToken::new();
    let running = app::start(&config, engines, process.clone())?;
    tracing::info!(address = %running.address, "listening for devices at /xiaozhi/v1/");
    let told = service_manager::tell(running.liveness(), process.clone());
    // The first question does not wait for the rules.
    let prepared = tokio::task::spawn_blocking(move || app::prepare_rules(&config));
    let (served, signalled, (), _) = tokio::join!(
        async {
            let served = running.serve().await;
            process.cancel();
            served
        },
        on_signal(process.clone()),
        told,
        prepared,
    );
    served?;
    Ok(signalled?)
}
