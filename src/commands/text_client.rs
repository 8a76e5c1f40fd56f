//! `hearken text-client`: a conversation with an LLM gateway in a terminal, or of a few messages given as
//! arguments. Not for the gateway's rules, and it knows its wire by the document only.

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
/// Longest wait for the answer to anything but a question.
const PROMPT_ANSWER: Duration = Duration::from_secs(10);
/// Exit status when a message was answered by an error.
const REFUSED: u8 = 1;
/// Exit status after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;
const HELP: &str = "/new        begin a new session
/end        end this session
/resume ID  go on with a session
/session    show the session's id
/tools      show the tools of this terminal
/quit       leave, as Ctrl-D does; Ctrl-C cancels an answer";

/// Chat with an LLM gateway in the terminal
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hearken text-client\n  \
    hearken text-client --tools demo --message '我的电量还剩多少？' --message '把音量调到50'\n  \
    hearken text-client ws://192.168.1.20:9400 --session 3f2a...\n  \
    echo 'What time is it?' | hearken text-client --json | jq .type\n  \
    rlwrap hearken text-client                      (arrow keys bring back earlier lines)\n\n\
    In the conversation:\n  /new /end /resume ID /session /tools /help /quit\n\n\
    Exit status: 0 all answered, 1 an error was answered, 2 no conversation possible, \
    130 after Ctrl-C")]
pub struct Args {
    /// The gateway's address
    #[arg(value_name = "URL", default_value = URL)]
    url: String,
    /// Shown to a gateway that lets in only those who have it
    #[arg(long, env = "HEARKEN__GATEWAY__TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Let the model know what was said before [default]
    #[arg(long, overrides_with = "no_context")]
    context: bool,
    /// Answer each message for itself
    #[arg(long)]
    no_context: bool,
    /// Show an answer while it is made; Ctrl-C cancels it [default]
    #[arg(long, overrides_with = "no_stream")]
    stream: bool,
    /// Show whole answers only
    #[arg(long)]
    no_stream: bool,
    /// Register tools of this terminal
    #[arg(long, value_enum, value_name = "SET")]
    tools: Option<Tools>,
    /// Say this and leave; may be given more than once
    #[arg(long = "message", short, value_name = "TEXT")]
    messages: Vec<String>,
    /// Print the frames received, one a line, and nothing else
    #[arg(long)]
    json: bool,
}

/// Which tools this terminal has.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Tools {
    /// `get_battery` and `set_volume` of a device that is made up
    Demo,
}

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Refused,
    /// The person wants to leave.
    Left,
}

/// What a person typed.
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

/// Talks until the person leaves, or the messages given are answered.
///
/// # Errors
/// The gateway cannot be reached, goes away, or refuses the session or the tools.
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
    /// Connects, and sets up what the arguments ask for.
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
            bail!("{} refuses us", args.url);
        }
        let configure = json!({
            "type": "configure", "enable_context": !args.no_context, "stream": chat.streams,
        });
        chat.gateway.send(&configure).await?;
        if let Some(id) = &args.session {
            chat.gateway.send(&resume(id)).await?;
            if !chat.answered("status").await? {
                bail!("cannot go on with session {id}: leave out --session to begin a new one");
            }
        }
        if let Some(toolset) = &chat.toolset {
            chat.gateway.send(&toolset.registration()).await?;
            if !chat.answered("tools_registered").await? {
                bail!("the gateway takes none of our tools");
            }
        }
        Ok(chat)
    }

    /// Shows messages until one of this type, or an error; whether it was no error.
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
            format!("no `{kind}` came within {seconds} s: is it an LLM gateway?")
        })?
    }

    /// Says each message; stops where the person wants to leave.
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

    /// Says what comes from standard input, and does what it orders.
    async fn talk(&mut self) -> anyhow::Result<ExitCode> {
        let at_terminal = std::io::stdin().is_terminal();
        if at_terminal {
            self.screen.note("say something, or /help")?;
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

    /// What the terminal does without the model.
    async fn obey(&mut self, order: Typed<'_>) -> anyhow::Result<()> {
        let wish = match order {
            Typed::New => json!({ "type": "start_session" }),
            Typed::End => json!({ "type": "end_session" }),
            Typed::Resume(id) if !id.is_empty() => resume(id),
            other => return self.tell(&other),
        };
        self.gateway.send(&wish).await?;
        // An error is shown already, and all goes on as before.
        self.answered("status").await.map(|_| ())
    }

    /// What is known here.
    fn tell(&self, order: &Typed<'_>) -> anyhow::Result<()> {
        match order {
            Typed::Resume(_) => self.screen.note("which one? /resume ID"),
            Typed::Session => self.screen.note(&self.session),
            Typed::Tools => match &self.toolset {
                Some(toolset) => self.screen.note(&toolset.shown()),
                None => self.screen.note("none: start with --tools demo"),
            },
            Typed::Help => self.screen.note(HELP),
            Typed::Unknown(order) => self.screen.note(&format!("no such order: {order} (/help)")),
            _ => Ok(()),
        }
    }

    /// Says one thing, and shows what comes until its end.
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
                        self.screen.note("only streamed answers can be cancelled; again to leave")?;
                    }
                }
            }
        }
    }

    /// Shows one message, does what it asks for, and tells whether it ends what was said.
    async fn take(&mut self, text: &str) -> anyhow::Result<(Value, Option<End>)> {
        let message: Value = serde_json::from_str(text).context("the server sent no JSON")?;
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

/// The lines of standard input.
fn lines() -> mpsc::Receiver<std::io::Result<String>> {
    let (give, take) = mpsc::channel(1);
    // A read of a terminal cannot be broken off: this ends with the input, or with the process.
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
    fn orders_begin_with_a_slash() {
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
