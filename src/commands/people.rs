//! `hearken people`: lists, enrols, renames and deletes people whose voices are known, through a server's REST API.
//! Not for decisions, which the server takes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hearken_base::output::one_line;
use hearken_dialogue::people::{MOST_SENTENCES, SENTENCES};
use reqwest::Method;
use serde_json::{Value, json};

use super::server::{Server, ServerArgs};
use crate::config::EnvVars;
use crate::http::wav;

/// List, enrol, rename and delete the people whose voices a server knows
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hearken people\n  \
    hearken people enrol Ann one.wav two.wav three.wav\n  \
    hearken people rename 01234567-89ab-4cde-8f01-23456789abcd Anna\n  \
    hearken people forget 01234567-89ab-4cde-8f01-23456789abcd   (memories; the voice stays known)\n  \
    hearken people delete 01234567-89ab-4cde-8f01-23456789abcd   (voice, name and memories)")]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List all people [default]
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Enrol a person by recordings of their voice
    #[command(after_help = "Example:\n  hearken people enrol Ann one.wav two.wav three.wav")]
    Enrol {
        /// Name
        name: String,
        /// WAV files of a sentence each: 16-bit PCM, mono or stereo, 8 to 48 kHz, at most 30 s; 3 to 10
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Rename a person
    Rename {
        /// Id of the person
        id: String,
        /// Name
        name: String,
    },
    /// Forget all that is remembered of a person; their voice stays known
    Forget {
        /// Id of the person
        id: String,
    },
    /// Delete a person with all that is known of them
    Delete {
        /// Id of the person
        id: String,
    },
}

/// Sends one request to the server and prints the result.
///
/// # Errors
/// Fails with the reason if a file cannot be used, or the server cannot be reached or refuses the request.
pub async fn run(args: Args, env: &dyn EnvVars) -> anyhow::Result<()> {
    let server = Server::new(&args.server, env)?;
    let path = |parts: &[&str]| -> Vec<String> {
        ["api", "persons"].iter().chain(parts).map(|part| (*part).to_owned()).collect()
    };
    let done = match args.command.unwrap_or(Command::List { json: false }) {
        Command::List { json } => {
            let mut answer = server.ask(Method::GET, &path(&[]), None).await?;
            let all = answer["persons"].as_array_mut().map(std::mem::take).unwrap_or_default();
            if json { serde_json::to_string_pretty(&all)? } else { table(&all) }
        }
        Command::Enrol { name, files } => {
            let body = json!({"name": name, "recordings": recordings(&files)?});
            let answer = server.ask(Method::POST, &path(&[]), Some(body)).await;
            let answer =
                answer.with_context(|| format!("cannot enrol {name} ({})", named(&files)))?;
            format!("enrolled {}", answer["id"].as_str().unwrap_or_default())
        }
        Command::Rename { id, name } => {
            let body = json!({"name": name});
            server.ask(Method::PATCH, &path(&[&id]), Some(body)).await?;
            format!("renamed {id}")
        }
        Command::Forget { id } => {
            server.ask(Method::DELETE, &path(&[&id, "memories"]), None).await?;
            format!("forgot what was remembered of {id}")
        }
        Command::Delete { id } => {
            server.ask(Method::DELETE, &path(&[&id]), None).await?;
            format!("deleted {id}")
        }
    };
    super::print(&done)
}

/// Reads and checks the files. Returns them as base64.
fn recordings(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    if !(SENTENCES..=MOST_SENTENCES).contains(&files.len()) {
        bail!("give {SENTENCES} to {MOST_SENTENCES} recordings, of a sentence each");
    }
    files.iter().map(|file| recording(file)).collect()
}

fn recording(file: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    wav::read(&bytes).with_context(|| format!("cannot use {}", file.display()))?;
    Ok(STANDARD.encode(bytes))
}

/// Returns the files with the numbers by which a server calls them.
fn named(files: &[PathBuf]) -> String {
    let named = files.iter().enumerate().map(|(n, file)| format!("{}: {}", n + 1, file.display()));
    named.collect::<Vec<_>>().join(", ")
}

/// Renders the people as a table; names come last, because they may be wide.
fn table(people: &[Value]) -> String {
    if people.is_empty() {
        return "nobody yet".into();
    }
    let line = |id: &str, recordings: &str, facts: &str, name: &str| {
        format!("{id:36}  {recordings:>10}  {facts:>5}  {name}")
    };
    let mut lines = vec![line("PERSON", "RECORDINGS", "FACTS", "NAME")];
    for person in people {
        let text = |key: &str| one_line(person[key].as_str().unwrap_or("-"));
        let facts = person["facts"].as_array().map_or(0, Vec::len).to_string();
        lines.push(line(&text("id"), &person["recordings"].to_string(), &facts, &text("name")));
    }
    lines.join("\n")
}
