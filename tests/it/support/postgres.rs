//! A separate PostgreSQL for a test, which may be stopped, killed and started again. Tests that
//! share one use `places` of `crates/test-support`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use hearken_test_support::{PATIENCE, eventually, free_port};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Programs of the newest installed PostgreSQL.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|v| v.path()).max_by_key(|path| number(path))?;
    let programs = newest.join("bin");
    programs.join("initdb").exists().then_some(programs)
}

/// A separate PostgreSQL that the test may stop.
pub(crate) struct Postgres {
    programs: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

impl Postgres {
    /// `None` if PostgreSQL is not installed.
    pub(crate) async fn start() -> Option<Self> {
        let Some(programs) = postgres_programs() else {
            eprintln!("skipped: no PostgreSQL, see scripts/services");
            return None;
        };
        // Must be readable for its user: PostgreSQL refuses to run as root.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut postgres = Self { programs, folder, port: free_port(), process: None };
        if rustix::process::geteuid().is_root() {
            let mut chown = Command::new("chown");
            let owned = chown.arg("postgres").arg(postgres.folder.path()).status().await;
            assert!(owned.unwrap().success());
        }
        let mut made = postgres.program("initdb");
        made.args(["--username=hearken", "--auth=trust", "--encoding=UTF8", "--no-sync"]);
        let made = made.arg("-D").arg(postgres.data()).output().await.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        postgres.run().await;
        Some(postgres)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                "--pdeathsig=KILL",
            ]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    /// Starts it, also after it was stopped or killed.
    pub(crate) async fn run(&mut self) {
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        command.stderr(Stdio::null());
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        let running = async {
            let mut process = command.spawn().unwrap();
            while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                ticks.tick().await;
                // It does not start while a process of a killed one still runs.
                if process.try_wait().unwrap().is_some() {
                    process = command.spawn().unwrap();
                }
            }
            process
        };
        let running = tokio::time::timeout(PATIENCE, running).await;
        self.process = Some(running.expect("PostgreSQL listens"));
    }

    /// Does what `kill -9` of its main process does. A process with a query completes it first and
    /// may still store something; all processes have ended when this returns.
    pub(crate) async fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        let id = process.id().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        process.kill().await.unwrap();
        eventually("its other processes end", || async {
            children.split_whitespace().all(has_ended).then_some(())
        })
        .await;
    }

    /// Stops it at once: its connections break.
    pub(crate) async fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        let id = process.id().unwrap().to_string();
        let told = Command::new("kill").args(["-INT", &id]).status().await.unwrap();
        assert!(told.success());
        process.wait().await.unwrap();
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("postgres://hearken@127.0.0.1:{}/postgres", self.port)
    }
}

fn has_ended(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |status| status.lines().any(|line| line.starts_with("State:\tZ")))
}
