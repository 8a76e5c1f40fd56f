//! `hearken devices`: lists, binds, names and reaches devices through a server's REST API. Not for
//! deciding anything: the server does.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde_json::{Value, json};

use crate::config::{self, EnvVars};
use crate::http::ADMIN_TOKEN_FILE;

/// Longest wait for a server's answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Devices asked for at once.
const PAGE: &str = "500";

/// List, bind, name and reach the devices of a server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hearken devices\n  \
    hearken devices bind 123456 --name kitchen\n  \
    hearken devices rename aa:bb:cc:dd:ee:ff \"living room\"\n  \
    hearken devices say aa:bb:cc:dd:ee:ff \"Dinner is ready.\"\n  \
    hearken devices alert aa:bb:cc:dd:ee:ff --status Door --message \"Somebody rings\" --emotion surprised\n  \
    hearken devices --url https://voice.example.com --admin-token-file token.txt list")]
pub struct Args {
    /// Address of the server
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:9400")]
    pub url: String,
    /// The server's admin token [default: `auth.admin_token`, else `admin_token` in the data
    /// folder]
    #[arg(long, global = true, value_name = "TOKEN")]
    pub admin_token: Option<String>,
    /// File that holds the admin token, so that it is in nobody's list of processes
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "admin_token")]
    pub admin_token_file: Option<PathBuf>,
    /// Configuration file [default: config.toml here, where there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show all devices [default]
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Bind the device that shows this code
    Bind {
        /// Six digits
        code: String,
        /// What to call it
        #[arg(long)]
        name: Option<String>,
    },
    /// Give a device a name
    Rename {
        /// Id of the device
        id: String,
        /// What to call it
        name: String,
    },
    /// Forget a device, and end its connection
    Forget {
        /// Id of the device
        id: String,
    },
    /// Show a message on a connected device
    Alert {
        /// Id of the device
        id: String,
        /// Head line
        #[arg(long)]
        status: String,
        /// Text
        #[arg(long)]
        message: String,
        /// Face shown with it
        #[arg(long, default_value = "neutral")]
        emotion: String,
    },
    /// Send a connected device a message of your own, for firmware that takes such
    Custom {
        /// Id of the device
        id: String,
        /// A JSON object
        payload: String,
    },
    /// Have a connected device start anew
    Reboot {
        /// Id of the device
        id: String,
    },
    /// Have a connected device say something
    Say {
        /// Id of the device
        id: String,
        /// What to say
        text: String,
    },
    /// End the connection of a device
    Close {
        /// Id of the device
        id: String,
    },
    /// Tell the key that is burned into a device, which it then has to prove
    Provision {
        /// Serial number of the device
        serial_number: String,
        /// File with 64 hexadecimal digits
        key_file: PathBuf,
    },
    /// Forget the key of a device
    Unprovision {
        /// Serial number of the device
        serial_number: String,
    },
}

/// What is asked of the server, and what is printed when it agrees.
struct Request {
    method: Method,
    path: Vec<String>,
    body: Option<Value>,
    done: &'static str,
}

/// Asks the server one thing and prints what came of it.
///
/// # Errors
/// The server cannot be reached, or refuses; the message says why.
pub async fn run(args: Args, env: &dyn EnvVars) -> anyhow::Result<()> {
    let server = Server::new(&args, env)?;
    match args.command.unwrap_or(Command::List { json: false }) {
        Command::List { json } => {
            let devices = server.all().await?;
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

/// A server and the right to ask it.
struct Server {
    base: url::Url,
    token: Option<String>,
    client: reqwest::Client,
}

impl Server {
    fn new(args: &Args, env: &dyn EnvVars) -> anyhow::Result<Self> {
        let base = url::Url::parse(&args.url).ok();
        let base = base.filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(base) = base else { bail!("--url is {}: use http://HOST:PORT", args.url) };
        let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        Ok(Self { base, token: admin_token(args, env)?, client })
    }

    async fn ask(
        &self,
        method: Method,
        path: &[String],
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        self.send(method, url, body).await
    }

    async fn send(
        &self,
        method: Method,
        url: url::Url,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.with_context(|| {
            format!("no answer from {}: is the server running there? (--url)", self.base)
        })?;
        let status = answer.status();
        let text = answer.text().await.context("the answer breaks off")?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(body);
        }
        let hint = match status.as_u16() {
            401 => " (--admin-token)",
            _ => "",
        };
        match body["error"]["message"].as_str() {
            Some(message) => bail!("{message}{hint}"),
            None => bail!("{} answered {status}: is it a Hearken server? (--url)", self.base),
        }
    }

    /// Every device, page by page.
    async fn all(&self) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let mut url = self.base.clone();
            if let Ok(mut parts) = url.path_segments_mut() {
                parts.pop_if_empty().extend(["api", "devices"]);
            }
            url.query_pairs_mut().append_pair("limit", PAGE).append_pair("after", &after);
            let mut page = self.send(Method::GET, url, None).await?;
            all.extend(page["devices"].as_array_mut().map(std::mem::take).unwrap_or_default());
            match page["next"].as_str() {
                Some(next) if next > after.as_str() => after = next.to_owned(),
                _ => return Ok(all),
            }
        }
    }
}

/// The token that is given, else configured, else kept by a server of this user. None lets the
/// server say whether one is needed.
fn admin_token(args: &Args, env: &dyn EnvVars) -> anyhow::Result<Option<String>> {
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file);
        text.map(|t| t.trim().to_owned()).with_context(|| format!("cannot read {}", file.display()))
    };
    if let Some(token) = &args.admin_token {
        return Ok(Some(token.clone()));
    }
    if let Some(file) = &args.admin_token_file {
        return read(file).map(Some);
    }
    let config = super::configuration(args.config.as_deref(), env)?;
    if !config.auth.admin_token.is_empty() {
        return Ok(Some(config.auth.admin_token.expose().to_owned()));
    }
    let file = config::env::data_dir(&config.server.data_dir, env).join(ADMIN_TOKEN_FILE);
    // Where there is none, or it is somebody else's, the server tells what is missing.
    Ok(read(&file).ok())
}

/// The devices as columns.
fn table(devices: &[Value]) -> String {
    if devices.is_empty() {
        return "no devices yet".into();
    }
    let mut rows =
        vec![["DEVICE", "NAME", "BOARD", "FIRMWARE", "STATE", "LAST SEEN"].map(str::to_owned)];
    for device in devices {
        let text = |key: &str| match device[key].as_str() {
            Some("") | None => "-".to_owned(),
            Some(text) => text.to_owned(),
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
