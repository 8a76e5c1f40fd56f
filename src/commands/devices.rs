//! `hearken devices`: lists, binds, names and controls devices through a server's REST API. Not for
//! decisions, which the server takes.

use std::path::PathBuf;

use anyhow::Context as _;
use hearken_base::output::one_line;
use reqwest::Method;
use serde_json::{Value, json};

use super::server::{Server, ServerArgs};
use crate::config::EnvVars;

/// Number of devices requested at once.
const PAGE: &str = "500";

/// List, bind, name and control the devices of a server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hearken devices\n  \
    hearken devices bind 123456 --name kitchen\n  \
    hearken devices rename aa:bb:cc:dd:ee:ff \"living room\"\n  \
    hearken devices assign aa:bb:cc:dd:ee:ff --agent kitchen\n  \
    hearken devices instruct aa:bb:cc:dd:ee:ff \"You are a cook. It is {current_time}.\"\n  \
    hearken devices say aa:bb:cc:dd:ee:ff \"Dinner is ready.\"\n  \
    hearken devices alert aa:bb:cc:dd:ee:ff --status Door --message \"Somebody rings\" --emotion surprised\n  \
    hearken devices --url https://voice.example.com --admin-token-file token.txt list")]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List all devices [default]
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Bind the device that shows this code
    Bind {
        /// Six digits
        code: String,
        /// Name
        #[arg(long)]
        name: Option<String>,
    },
    /// Name a device
    Rename {
        /// Id of the device
        id: String,
        /// Name
        name: String,
    },
    /// Assign the tool clients of an agent to a device
    Assign {
        /// Id of the device
        id: String,
        /// Agent, as in `hearken tools token --agent`
        #[arg(long, value_name = "NAME")]
        agent: String,
    },
    /// Set the model's instructions for a device, in place of the server's `dialogue.system_prompt`
    Instruct {
        /// Id of the device
        id: String,
        /// Instructions; {current_time} becomes the date and time; empty removes them
        text: String,
    },
    /// Delete a device, and close its connection
    Forget {
        /// Id of the device
        id: String,
    },
    /// Show a message on a connected device
    Alert {
        /// Id of the device
        id: String,
        /// Headline
        #[arg(long)]
        status: String,
        /// Text
        #[arg(long)]
        message: String,
        /// Emotion shown with it
        #[arg(long, default_value = "neutral")]
        emotion: String,
    },
    /// Send a custom message to a connected device, for firmware that supports it
    Custom {
        /// Id of the device
        id: String,
        /// A JSON object
        payload: String,
    },
    /// Restart a connected device
    Reboot {
        /// Id of the device
        id: String,
    },
    /// Let a connected device speak a text
    Say {
        /// Id of the device
        id: String,
        /// Text
        text: String,
    },
    /// Close the connection of a device
    Close {
        /// Id of the device
        id: String,
    },
    /// Store the key that is burned into a device, which it then has to prove
    Provision {
        /// Serial number of the device
        serial_number: String,
        /// File with 64 hexadecimal digits
        key_file: PathBuf,
    },
    /// Delete the key of a device
    Unprovision {
        /// Serial number of the device
        serial_number: String,
    },
}

/// Request to the server, and the confirmation to print.
struct Request {
    method: Method,
    path: Vec<String>,
    body: Option<Value>,
    done: &'static str,
}

/// Sends one request to the server and prints the result.
///
/// # Errors
/// Fails with the reason if the server cannot be reached or refuses the request.
pub async fn run(args: Args, env: &dyn EnvVars) -> anyhow::Result<()> {
    let server = Server::new(&args.server, env)?;
    match args.command.unwrap_or(Command::List { json: false }) {
        Command::List { json } => {
            let devices = all(&server).await?;
            let text = if json { serde_json::to_string_pretty(&devices)? } else { table(&devices) };
            super::print(&text)
        }
        command => {
            let request = request(command)?;
            let answer = server.ask(request.method, &request.path, request.body).await?;
            let name = answer["device_id"].as_str().map(|id| format!(" {id}")).unwrap_or_default();
            super::print(&format!("{}{name}", request.done))
        }
    }
}

fn request(command: Command) -> anyhow::Result<Request> {
    let device = |id: String| vec!["api".into(), "devices".into(), id];
    let order = |id: String, order: &str, body: Value| Request {
        method: Method::POST,
        path: [device(id), vec![order.to_owned()]].concat(),
        body: Some(body),
        done: "passed on",
    };
    let key = |serial_number: String| vec!["api".into(), "provisioning".into(), serial_number];
    let asked = |method, path, body, done| Request { method, path, body, done };
    Ok(match command {
        Command::List { .. } => asked(Method::GET, device(String::new()), None, ""),
        Command::Bind { code, name } => {
            let body = json!({"code": code, "name": name});
            asked(Method::POST, device("bind".into()), Some(body), "bound")
        }
        Command::Rename { id, name } => {
            asked(Method::PATCH, device(id), Some(json!({"name": name})), "renamed")
        }
        Command::Assign { id, agent } => {
            asked(Method::PATCH, device(id), Some(json!({"agent": agent})), "assigned")
        }
        Command::Instruct { id, text } => {
            asked(Method::PATCH, device(id), Some(json!({"system_prompt": text})), "instructed")
        }
        Command::Forget { id } => asked(Method::DELETE, device(id), None, "forgotten"),
        Command::Alert { id, status, message, emotion } => {
            let body = json!({"status": status, "message": message, "emotion": emotion});
            order(id, "alert", body)
        }
        Command::Custom { id, payload } => {
            let payload: Value = serde_json::from_str(&payload)
                .context("the payload must be a JSON object, such as '{\"text\": \"hello\"}'")?;
            order(id, "custom", json!({"payload": payload}))
        }
        Command::Reboot { id } => order(id, "reboot", json!({})),
        Command::Say { id, text } => order(id, "say", json!({"text": text})),
        Command::Close { id } => order(id, "close", json!({})),
        Command::Provision { serial_number, key_file } => {
            let text = std::fs::read_to_string(&key_file)
                .with_context(|| format!("cannot read {}", key_file.display()))?;
            let body = json!({"key": text.trim()});
            asked(Method::PUT, key(serial_number), Some(body), "provisioned")
        }
        Command::Unprovision { serial_number } => {
            asked(Method::DELETE, key(serial_number), None, "key forgotten")
        }
    })
}

/// Returns every device of a server, page by page.
async fn all(server: &Server) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let query = [("limit", PAGE), ("after", after.as_str())];
        let mut page = server.get(&["api", "devices"], &query).await?;
        all.extend(page["devices"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match page["next"].as_str() {
            Some(next) if next > after.as_str() => after = next.to_owned(),
            _ => return Ok(all),
        }
    }
}

/// Renders the devices as a table.
fn table(devices: &[Value]) -> String {
    if devices.is_empty() {
        return "no devices yet".into();
    }
    let mut rows =
        vec![["DEVICE", "NAME", "BOARD", "FIRMWARE", "STATE", "LAST SEEN"].map(str::to_owned)];
    for device in devices {
        let text = |key: &str| match device[key].as_str() {
            Some("") | None => "-".to_owned(),
            Some(text) => one_line(text),
        };
        let is = |key: &str| device[key].as_bool() == Some(true);
        let state = match (is("connected"), is("bound")) {
            (true, true) => "connected, bound",
            (true, false) => "connected",
            (false, true) => "bound",
            (false, false) => "-",
        };
        let seen = text("last_seen").split('.').next().unwrap_or_default().to_owned();
        rows.push([
            text("device_id"),
            text("name"),
            text("board"),
            text("firmware_version"),
            state.to_owned(),
            seen,
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).map(|c| width(c).unwrap_or_default()).collect();
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
