//! `hearken text-client`: a conversation with a text gateway in a terminal, or with messages given
//! as arguments. Not for the gateway's rules: it only implements the documented protocol.

mod screen;
mod socket;
mod toolset;

use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::screen::{Screen, word};
use self::socket::Gateway;
use self::toolset::Toolset;

const URL: &str = "ws://127.0.0.1:9400";
/// Maximum wait for an answer, except to a text.
const PROMPT_ANSWER: Duration = Duration::from_secs(10);
/// Exit status if a message was answered with an error.
const REFUSED: u8 = 1;
/// Exit status after Ctrl-C, as in shells.
const INTERRUPTED: u8 = 130;
const HELP: &str = "/new        start a new session
/end        end this session
/resume ID  resume a session
/session    show the session's id
/tools      show the tools of this terminal
/quit       exit, like Ctrl-D; Ctrl-C cancels an answer";

/// Chat with a text gateway in the terminal
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hearken text-client\n  \
    hearken text-client --tools demo --message '我的电量还剩多少？' --message '把音量调到50'\n  \
    hearken text-client ws://192.168.1.20:9400 --session 3f2a...\n  \
    echo 'What time is it?' | hearken text-client --json | jq .type\n  \
    rlwrap hearken text-client                      (arrow keys bring back earlier lines)\n\n\
    In the conversation:\n  /new /end /resume ID /session /tools /help /quit\n\n\
    Exit status: 0 all answered, 1 an answer was an error, 2 no conversation possible, \
    130 after Ctrl-C")]
pub struct Args {
    /// Address of the gateway
    #[arg(value_name = "URL", default_value = URL)]
    url: String,
    /// Token for a gateway that requires one
    #[arg(long, env = "HEARKEN__GATEWAY__TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Resume this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Include earlier messages in prompts [default]
    #[arg(long, overrides_with = "no_context")]
    context: bool,
    /// Answer each message separately
    #[arg(long)]
    no_context: bool,
    /// Show an answer while it is generated; Ctrl-C cancels it [default]
    #[arg(long, overrides_with = "no_stream")]
    stream: bool,
    /// Show whole answers only
    #[arg(long)]
    no_stream: bool,
    /// Register tools of this terminal
    #[arg(long, value_enum, value_name = "SET")]
    tools: Option<Tools>,
    /// Send this and exit; may be given more than once
    #[arg(long = "message", short, value_name = "TEXT")]
    messages: Vec<String>,
    /// Print the received frames, one per line, and nothing else
    #[arg(long)]
    json: bool,
}

/// Set of tools of this terminal.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Tools {
    /// `get_battery` and `set_volume` of a fictitious device
    Demo,
}

/// Outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Refused,
    /// The user wants to exit.
    Left,
}

/// Input of the user.
#[derive(Debug, PartialEq, Eq)]
enum Typed<'a> {
    Nothing,
    Say(&'a str),
    New,
    End,
    Resume(&'a str),
    Session,
    Tools,
    Help,
    Quit,
    Unknown(&'a str),
}

struct Chat {
    gateway: Gateway,
    screen: Screen,
    toolset: Option<Toolset>,
    session: String,
    streams: bool,
    interrupts: Signal,
}

/// Runs until the user exits, or the given messages are answered.
///
/// # Errors
/// Fails if the gateway cannot be reached, disconnects, or refuses the session or the tools.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut chat = Chat::open(&args).await?;
    let code = if args.messages.is_empty() {
        chat.talk().await?
    } else {
        chat.say_all(&args.messages).await?
    };
    chat.gateway.close().await;
    Ok(code)
}

impl Chat {
    /// Connects, and prepares the session, the tools and the preferences of the arguments.
    async fn open(args: &Args) -> anyhow::Result<Self> {
        let interrupts = signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?;
        let mut chat = Self {
            gateway: Gateway::connect(&args.url, args.token.as_deref()).await?,
            screen: Screen::new(args.json),
            toolset: args.tools.map(|Tools::Demo| Toolset::demo()),
            session: String::new(),
            streams: !args.no_stream,
            interrupts,
        };
        if !chat.answered("status").await? {
            bail!("{} refused the connection", args.url);
        }
        let configure = json!({
            "type": "configure", "enable_context": !args.no_context, "stream": chat.streams,
        });
        chat.gateway.send(&configure).await?;
        if let Some(id) = &args.session {
            chat.gateway.send(&resume(id)).await?;
            if !chat.answered("status").await? {
                bail!("cannot resume session {id}: omit --session to start a new one");
            }
        }
        if let Some(toolset) = &chat.toolset {
            chat.gateway.send(&toolset.registration()).await?;
            if !chat.answered("tools_registered").await? {
                bail!("the gateway refused all tools of this terminal");
            }
        }
        Ok(chat)
    }

    /// Prints messages until one of this type, or an error. Returns false after an error.
    async fn answered(&mut self, kind: &str) -> anyhow::Result<bool> {
        let waiting = async {
            loop {
                let text = self.gateway.next().await?;
                let message = self.take(&text).await?.0;
                match word(&message, "type") {
                    "error" => return Ok(false),
                    found if found == kind => return Ok(true),
                    _ => {}
                }
            }
        };
        let seconds = PROMPT_ANSWER.as_secs();
        timeout(PROMPT_ANSWER, waiting).await.with_context(|| {
            format!("no `{kind}` arrived within {seconds} s: is it a text gateway?")
        })?
    }

    /// Sends each message; stops if the user wants to exit.
    async fn say_all(&mut self, messages: &[String]) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        for message in messages {
            match self.say(message).await? {
                End::Answered => {}
                End::Refused => code = REFUSED.into(),
                End::Left => return Ok(INTERRUPTED.into()),
            }
        }
        Ok(code)
    }

    /// Sends lines from standard input, and executes commands.
    async fn talk(&mut self) -> anyhow::Result<ExitCode> {
        let at_terminal = std::io::stdin().is_terminal();
        if at_terminal {
            self.screen.note("type a message, or /help")?;
        }
        let mut typed = lines();
        let mut code = ExitCode::SUCCESS;
        loop {
            if at_terminal {
                self.screen.prompt()?;
            }
            let line = tokio::select! {
                line = typed.recv() => line,
                text = self.gateway.next() => {
                    self.take(&text?).await?;
                    continue;
                }
                _ = self.interrupts.recv() => return Ok(INTERRUPTED.into()),
            };
            let Some(line) = line else { return Ok(code) };
            let line = line.context("cannot read standard input: it must be UTF-8 text")?;
            match Typed::of(&line) {
                Typed::Quit => return Ok(code),
                Typed::Say(text) => match self.say(text).await? {
                    End::Answered => {}
                    End::Refused if at_terminal => {}
                    End::Refused => code = REFUSED.into(),
                    End::Left => return Ok(INTERRUPTED.into()),
                },
                order => self.obey(order).await?,
            }
        }
    }

    /// Executes a command.
    async fn obey(&mut self, order: Typed<'_>) -> anyhow::Result<()> {
        let order = match order {
            Typed::New => json!({ "type": "start_session" }),
            Typed::End => json!({ "type": "end_session" }),
            Typed::Resume(id) if !id.is_empty() => resume(id),
            other => return self.tell(&other),
        };
        self.gateway.send(&order).await?;
        // An error has been shown already, and the session continues.
        self.answered("status").await.map(|_| ())
    }

    /// Prints information that the terminal has.
    fn tell(&self, order: &Typed<'_>) -> anyhow::Result<()> {
        match order {
            Typed::Resume(_) => self.screen.note("usage: /resume ID"),
            Typed::Session => self.screen.note(&self.session),
            Typed::Tools => match &self.toolset {
                Some(toolset) => self.screen.note(&toolset.shown()),
                None => self.screen.note("none: start with --tools demo"),
            },
            Typed::Help => self.screen.note(HELP),
            Typed::Unknown(order) => self.screen.note(&format!("unknown command: {order} (/help)")),
            _ => Ok(()),
        }
    }

    /// Sends one text, and prints messages until its end.
    async fn say(&mut self, text: &str) -> anyhow::Result<End> {
        self.gateway.send(&json!({ "type": "text_input", "text": text })).await?;
        let mut interrupted = false;
        loop {
            tokio::select! {
                text = self.gateway.next() => {
                    if let (_, Some(end)) = self.take(&text?).await? {
                        return Ok(end);
                    }
                }
                _ = self.interrupts.recv() => {
                    if interrupted {
                        return Ok(End::Left);
                    }
                    interrupted = true;
                    if self.streams {
                        self.gateway.send(&json!({ "type": "cancel" })).await?;
                    } else {
                        self.screen.note("only streamed answers can be cancelled; repeat to exit")?;
                    }
                }
            }
        }
    }

    /// Prints one message, calls the tool that it requests, and returns the outcome if it ends the
    /// text.
    async fn take(&mut self, text: &str) -> anyhow::Result<(Value, Option<End>)> {
        let message: Value =
            serde_json::from_str(text).context("the server sent a message that is not JSON")?;
        self.screen.show(text, &message)?;
        let end = match word(&message, "type") {
            "status" => {
                if let Some(id) = message["data"]["session_id"].as_str() {
                    id.clone_into(&mut self.session);
                }
                None
            }
            "tool_callback" => {
                let result = toolset::answer(self.toolset.as_mut(), &message);
                self.screen.called(&message, &result)?;
                self.gateway.send(&result).await?;
                None
            }
            "llm_response" if message["is_final"] != false => Some(End::Answered),
            "error" => Some(End::Refused),
            _ => None,
        };
        Ok((message, end))
    }
}

impl<'a> Typed<'a> {
    fn of(line: &'a str) -> Self {
        let line = line.trim();
        let (order, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match order {
            "" => Self::Nothing,
            "/new" => Self::New,
            "/end" => Self::End,
            "/resume" => Self::Resume(rest.trim()),
            "/session" => Self::Session,
            "/tools" => Self::Tools,
            "/help" => Self::Help,
            "/quit" | "/exit" => Self::Quit,
            other if other.starts_with('/') => Self::Unknown(other),
            _ => Self::Say(line),
        }
    }
}

fn resume(id: &str) -> Value {
    json!({ "type": "start_session", "session_id": id })
}

/// Returns the lines of standard input.
fn lines() -> mpsc::Receiver<std::io::Result<String>> {
    let (give, take) = mpsc::channel(1);
    // A read of a terminal cannot be interrupted: this thread ends with the input, or with the
    // process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if give.blocking_send(line).is_err() {
                break;
            }
        }
    });
    take
}

#[cfg(test)]
mod tests {
    use super::Typed;

    #[test]
    fn commands_start_with_a_slash() {
        for (line, typed) in [
            ("  ", Typed::Nothing),
            (" hello there ", Typed::Say("hello there")),
            ("/resume  abc ", Typed::Resume("abc")),
            ("/resume", Typed::Resume("")),
            ("/quit", Typed::Quit),
            ("/dance now", Typed::Unknown("/dance")),
            ("1/2", Typed::Say("1/2")),
        ] {
            assert_eq!(Typed::of(line), typed, "{line}");
        }
    }
}
