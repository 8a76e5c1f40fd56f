//! `hearken password`: chooses the administrator's password in the store, or removes it. Not for log-ins.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use hearken_ports::store::{AuditEntry, SettingsStore as _};
use hearken_store::SqlStore;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::admin::password::{HASH, RULE, hash, is_acceptable};
use crate::admin::sessions::USERNAME;
use crate::config::{self, EnvVars};

/// Choose the password that opens the console
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The password is read from standard input and stored as a hash in the store of \
    `store.url`, else hearken.db in the data folder. It holds at once, also for servers that run; all \
    sessions end. It is not needed to know the former one: whoever may read the store may do this.\n\nExamples:\n  \
    hearken password                     asks for it\n  \
    hearken password < new-password.txt  its first line\n  \
    hearken password --remove            the admin token logs in again"
)]
pub struct Args {
    /// Remove the password
    #[arg(long)]
    pub remove: bool,
    /// Configuration file [default: config.toml here, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Stores the password, or removes it.
///
/// # Errors
/// The password is too short or too long, `admin.password` is configured, or the store fails.
pub async fn run(args: &Args, env: &dyn EnvVars) -> anyhow::Result<()> {
    let config = super::configuration(args.config.as_deref(), env)?;
    if !config.admin.password.is_empty() {
        bail!("`admin.password` is configured and comes first: change it there, or remove it");
    }
    let kept = if args.remove { None } else { Some(Value::String(read_hash()?)) };
    let what = if args.remove { "password removed" } else { "password changed" };
    let folder = config::env::data_dir(&config.server.data_dir, env);
    let store = SqlStore::patient(config.store.url.expose(), &folder)?;
    let at = Timestamp::now();
    let details = json!({"from": "hearken password"});
    let who = USERNAME.to_owned();
    let what = what.to_owned();
    let entry = AuditEntry { number: 0, at, who, what: what.clone(), details };
    let changed = store.change(&[(HASH.to_owned(), kept)], &entry).await;
    store.shut().await;
    changed.context("the password is not changed")?;
    let with = if args.remove { "the admin token" } else { "the password" };
    super::print(&format!("{what}: log in as `{USERNAME}` with {with}"))
}

/// Reads a password from standard input, and returns its hash.
fn read_hash() -> anyhow::Result<String> {
    let mut line = String::new();
    if io::stdin().is_terminal() {
        // What is typed is not shown.
        line = rpassword::prompt_password("New password: ").context("the terminal")?;
        if rpassword::prompt_password("Again: ").context("the terminal")? != line {
            bail!("the two passwords differ: nothing is changed");
        }
    } else {
        io::stdin().lock().read_line(&mut line).context("standard input")?;
    }
    let password = line.trim_end_matches(['\r', '\n']);
    if !is_acceptable(password) {
        bail!(RULE);
    }
    hash(password).map_err(anyhow::Error::msg)
}
