//! `hearken token`: prints a token for a device. Not for granting access, which the OTA response
//! does.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use jiff::{SignedDuration, Timestamp};

use crate::config::{self, EnvVars};
use crate::http;

/// Print a token for a device, as in the OTA response
#[derive(Debug, clap::Args)]
#[command(after_help = "The token is made with the server's secret: `auth.secret`, else the file \
    `secret` in the data folder. A device that connects from outside the private networks must also be \
    bound (`devices.admit`): POST /api/devices/ID/tokens and the console bind the device for which they \
    make a token.\n\nExamples:\n  \
    hearken token --device-id aa:bb:cc:dd:ee:ff --client-id 5f0c1c2e-0000-4000-8000-000000000001\n  \
    hearken token --device-id browser --client-id test --days 1")]
pub struct Args {
    /// Id of the device: its MAC address, in upper or lower case
    #[arg(long, value_name = "ID")]
    pub device_id: String,
    /// Id of the client: the UUID that the device sends as Client-Id
    #[arg(long, value_name = "ID", default_value = "")]
    pub client_id: String,
    /// Validity in days, at most `auth.token_days` [default: that number]
    #[arg(long, value_name = "N")]
    pub days: Option<u32>,
    /// Configuration file [default: config.toml here, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Prints one token.
///
/// # Errors
/// Fails if the configuration or the secret cannot be read, or an id cannot be signed.
pub fn run(args: &Args, env: &dyn EnvVars) -> anyhow::Result<()> {
    let config = super::configuration(args.config.as_deref(), env)?;
    let folder = config::env::data_dir(&config.server.data_dir, env);
    let most = config.auth.token_days;
    let days = args.days.unwrap_or(most);
    if !(1..=most).contains(&days) {
        bail!("--days must be 1 to {most}: `auth.token_days` limits every token");
    }
    // A token says when it was made; one that shall end sooner was made earlier.
    let earlier = SignedDuration::from_hours(24 * i64::from(most - days));
    let made = Timestamp::now().checked_sub(earlier).context("--days")?;
    let tokens = http::tokens(&config.auth, &folder)?;
    let token = tokens.mint(args.device_id.trim(), args.client_id.trim(), made);
    super::print(&token.context("--device-id must not hold `|`")?)
}
