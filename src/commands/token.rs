//! `hearken token`: prints a token for a device. Not for granting access, which the OTA response
//! does.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use hearken_ports::store::{DeviceStore as _, TokenHolder};
use hearken_proto::ids::DeviceId;
use hearken_store::SqlStore;
use jiff::{SignedDuration, Timestamp};

use crate::auth::next_token_at;
use crate::config::{self, Config, EnvVars};
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
/// Fails if the configuration or the secret cannot be read, an id cannot be signed, or the token
/// would count as revoked.
pub async fn run(args: &Args, env: &dyn EnvVars) -> anyhow::Result<()> {
    let config = super::configuration(args.config.as_deref(), env)?;
    let folder = config::env::data_dir(&config.server.data_dir, env);
    let most = config.auth.token_days;
    let days = args.days.unwrap_or(most);
    if !(1..=most).contains(&days) {
        bail!("--days must be 1 to {most}: `auth.token_days` limits every token");
    }
    // A token says when it was made; one that shall end sooner was made earlier.
    let earlier = SignedDuration::from_hours(24 * i64::from(most - days));
    let wanted = Timestamp::now().checked_sub(earlier).context("--days")?;
    let device_id = args.device_id.trim();
    let made = next_token_at(revoked_until(&config, &folder, device_id).await?, wanted);
    if made > wanted && days < most {
        bail!(
            "the device's tokens were revoked less than {} days ago, and a token of {days} days would \
             count as one of them: leave --days out, and revoke the token when it shall end",
            most - days
        );
    }
    let tokens = http::tokens(&config.auth, &folder)?;
    let token = tokens.mint(device_id, args.client_id.trim(), made);
    super::print(&token.context("--device-id must not hold `|`")?)
}

/// Returns the time up to which the device's tokens are revoked. If the store cannot be read, notes
/// that and returns none.
async fn revoked_until(
    config: &Config,
    folder: &Path,
    device_id: &str,
) -> anyhow::Result<Option<Timestamp>> {
    match holder(config, folder, device_id).await {
        Ok(holder) => Ok(holder.revoked_until),
        Err(error) => {
            super::note(&format!(
                "hearken: cannot check whether the device's tokens were revoked: {error:#}"
            ))?;
            Ok(None)
        }
    }
}

async fn holder(config: &Config, folder: &Path, device_id: &str) -> anyhow::Result<TokenHolder> {
    let store = SqlStore::patient(config.store.url.expose(), folder)?;
    let found = match store.version().await {
        Ok(Some(_)) => store.token_holder(&DeviceId::new(device_id.to_lowercase())).await,
        Ok(None) => Ok(TokenHolder::default()),
        Err(error) => Err(error),
    };
    store.shut().await;
    Ok(found?)
}
