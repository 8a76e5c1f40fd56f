//! Third-party programs that the tests communicate with, and how they are started. Not for assertions.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::variable;

/// Peak memory of this process so far, in bytes; each test runs in its own process.
pub fn peak_memory_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// Timeout for a peer: interpreters start slowly on a busy machine.
pub const PEER_WITHIN: Duration = Duration::from_secs(90);

/// Location of the installed peers.
pub struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// `None`, with the reason printed, if they are not installed.
    pub fn installed() -> Option<Self> {
        let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
        let folder = cache.unwrap_or_default().join("hearken/peers");
        if folder.join(".state").exists() {
            return Some(Self { folder });
        }
        eprintln!("skipped: no peers in {}, run scripts/peers", folder.display());
        None
    }

    /// As [`Peers::installed`], if the conformance suite is installed too.
    pub fn with_conformance() -> Option<Self> {
        Self::with("@modelcontextprotocol/conformance")
    }

    /// As [`Peers::installed`], if this Node package is installed too.
    pub fn with(package: &str) -> Option<Self> {
        let peers = Self::installed()?;
        if peers.packages().join("node_modules").join(package).exists() {
            return Some(peers);
        }
        eprintln!("skipped: no {package} in {}, run scripts/peers", peers.folder.display());
        None
    }

    /// The folder with the Node packages in its `node_modules`.
    pub fn packages(&self) -> PathBuf {
        self.folder.join("node")
    }

    /// The Node among the packages, newer than that of the machine.
    pub fn node(&self) -> PathBuf {
        self.packages().join("node_modules/.bin/node")
    }

    /// A program of the Python packages.
    pub fn python(&self, program: &str) -> String {
        self.folder.join("python/bin").join(program).to_str().unwrap().to_owned()
    }

    /// A program among the checkers.
    pub fn checker(&self, program: &str) -> PathBuf {
        self.folder.join("checks/bin").join(program)
    }

    /// `server.py` with these arguments.
    pub fn pages(&self, arguments: &[&str]) -> (String, Vec<String>) {
        (self.python("python"), script("server.py", arguments))
    }

    /// `legacy.py` with these arguments.
    pub fn legacy(&self, arguments: &[&str]) -> (String, Vec<String>) {
        let python = self.folder.join("old-python/bin/python");
        (python.to_str().unwrap().to_owned(), script("legacy.py", arguments))
    }

    /// The reference server of the protocol's authors, over `stdio` or `streamableHttp`.
    pub fn everything(&self, transport: &str) -> (String, Vec<String>) {
        let script = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let script = self.folder.join(script).to_str().unwrap().to_owned();
        ("node".into(), vec![script, transport.into()])
    }
}

/// A function that gives the program and arguments of a test server: [`Peers::pages`] or [`Peers::legacy`].
pub type Program = fn(&Peers, &[&str]) -> (String, Vec<String>);

/// A script of `crates/test-support/peers` with these arguments; Python writes no bytecode next to it.
fn script(name: &str, arguments: &[&str]) -> Vec<String> {
    let script = crate::repository().join("crates/test-support/peers").join(name);
    let mut all = vec!["-B".to_owned(), script.to_str().unwrap().to_owned()];
    all.extend(arguments.iter().map(|a| (*a).to_owned()));
    all
}

/// A peer that listens on a port; killed when dropped.
pub struct Listening {
    /// Its port on 127.0.0.1.
    pub port: u16,
    child: Child,
}

impl Listening {
    /// Starts the program on this port, which it gets as its last argument and as `PORT`.
    pub fn start(told: (String, Vec<String>), port: u16) -> Self {
        let (program, arguments) = told;
        let child = Command::new(program)
            .args(arguments)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { port, child }
    }

    /// Starts a test server that lists this many tools per page.
    pub fn paged(peers: &Peers, program: Program, pages: &str, port: u16) -> Self {
        Self::start(program(peers, &["--pages", pages, "--port", &port.to_string()]), port)
    }

    /// Waits until it listens, so that a slow start causes no failure.
    pub async fn up(&self) {
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        let waiting = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                ticks.tick().await;
            }
        };
        tokio::time::timeout(PEER_WITHIN, waiting).await.expect("the peer listens");
    }

    /// Its MCP URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may be dead already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
