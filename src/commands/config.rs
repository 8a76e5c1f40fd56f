//! `hearken config`: shows, checks and explains the configuration. Only arguments and printing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use hearken_ports::store::SettingsStore as _;
use hearken_store::SqlStore;

use crate::admin::{WithStored, stored_settings};
use crate::app::service_check::{Outcome, ServiceCheck, check_services};
use crate::config::schema::reference;
use crate::config::{self, EnvVars, Loaded, reference as book, shown};

const EXAMPLES: &str = "Examples:
  hearken config show                      every value in use, and where it comes from
  hearken config show --changed            only the values that are not the default
  hearken config show --json llm           one section, for a program
  hearken config check                     is the configuration valid?
  hearken config check --services          does each service answer, too?
  hearken config explain llm.timeout_ms    meaning, range, default and variables of a key
  hearken config explain llm               the keys of a section
  hearken config explain                   the whole reference, as Markdown";

/// Show, check and explain the configuration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// Configuration file [default: config.toml here, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print the values in use with secrets masked, and where each comes from
    Show {
        /// Key or section; without it, everything
        name: Option<String>,
        /// Leave out values that are the default
        #[arg(long)]
        changed: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the values; the exit status is 2 if one cannot be used, 1 if a service does not answer
    Check {
        /// Contact each configured service, too
        #[arg(long)]
        services: bool,
    },
    /// Print meaning, range, default and variables of a key
    Explain {
        /// Key or section; without it, the whole reference as Markdown
        name: Option<String>,
    },
}

/// Executes the command.
///
/// # Errors
/// The configuration cannot be used, or there is no such key.
pub async fn run(args: Args, env: &dyn EnvVars) -> anyhow::Result<ExitCode> {
    let file = args.config.as_deref();
    match args.action {
        Action::Show { name, changed, json } => {
            show(file, env, name.as_deref(), changed, json).await
        }
        Action::Check { services } => check(file, env, services).await,
        Action::Explain { name } => explain(name.as_deref()),
    }
}

async fn show(
    file: Option<&Path>,
    env: &dyn EnvVars,
    name: Option<&str>,
    changed: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let file = super::configuration_file(file);
    let Loaded { config, origins, .. } = super::loaded(file.as_deref(), env)?;
    let found = match stored(&config, env).await {
        Ok(found) => found,
        Err(error) => {
            super::note(&format!(
                "hearken: settings changed at run time are not shown: {error:#}"
            ))?;
            WithStored { config, paths: Vec::new(), unusable: BTreeMap::new() }
        }
    };
    for (key, reason) in &found.unusable {
        super::note(&format!(
            "hearken: `{key}`, which was changed at run time, cannot be used and does not apply: {reason}"
        ))?;
    }
    let mut all = shown::shown(&found.config, &origins, file.as_deref(), &found.paths)?;
    if let Some(name) = name {
        let known = |key: &str| key == name || key.starts_with(&format!("{name}."));
        let wanted = reference().key(name).map(config::schema::Key::name);
        all.retain(|one| known(&one.key) || wanted.as_ref() == Some(&one.key));
        if all.is_empty() {
            bail!(config::unknown_key(name));
        }
    }
    all.retain(|one| !changed || one.source != "default");
    let text = if json { serde_json::to_string_pretty(&all)? } else { shown::as_toml(&all) };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the configuration with the settings that were changed at run time.
async fn stored(config: &config::Config, env: &dyn EnvVars) -> anyhow::Result<WithStored> {
    let folder = config::env::data_dir(&config.server.data_dir, env);
    let store = SqlStore::patient(config.store.url.expose(), &folder)?;
    let settings = match store.version().await? {
        Some(_) => store.settings().await?,
        None => Vec::new(),
    };
    store.shut().await;
    Ok(stored_settings(config, settings)?)
}

async fn check(file: Option<&Path>, env: &dyn EnvVars, services: bool) -> anyhow::Result<ExitCode> {
    let file = super::configuration_file(file);
    let mut config = super::loaded(file.as_deref(), env)?.config;
    config.server.data_dir = config::env::data_dir(&config.server.data_dir, env);
    crate::app::verify(&config)?;
    let name =
        file.map_or("the environment and the defaults".to_owned(), |f| f.display().to_string());
    super::print(&format!("the configuration is valid: {name}"))?;
    if !services {
        return Ok(ExitCode::SUCCESS);
    }
    let folder = config.server.data_dir.clone();
    let mut status = ExitCode::SUCCESS;
    for ServiceCheck { key, address, took, outcome } in check_services(&config, &folder).await? {
        let found = match outcome {
            Outcome::Works => format!("works ({} ms)", took.as_millis()),
            Outcome::StartedByServer => "starts with the server".to_owned(),
            Outcome::Fails(reason) => {
                status = ExitCode::FAILURE;
                format!("FAILS: {reason}")
            }
        };
        super::print(&format!("{key:24} {address:40} {found}"))?;
    }
    Ok(status)
}

fn explain(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let text = match name {
        None => book::markdown().trim_end().to_owned(),
        Some(name) => match book::explain(name) {
            Some(text) => text,
            None => bail!(config::unknown_key(name)),
        },
    };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
