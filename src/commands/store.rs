//! `hearken store`: upgrades, checks, backs up and restores the store. Only arguments, files and
//! terminal output; the store does the work.

use std::fs;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use hearken_base::private_files;
use hearken_store::{RowCounts, SqlStore};
use jiff::Timestamp;

use crate::config::{self, EnvVars};

/// Interval of progress lines on a terminal, and on other outputs.
const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(5);

const EXAMPLES: &str =
    "The store is the one of `store.url` (DATABASE_URL), else hearken.db in the \
data folder. All of this may be done while servers run.

Examples:
  hearken store check                            does all fit together?
  hearken store backup hearken.backup            everything, as it is at this moment
  hearken store backup - | gzip > hearken.gz     the same to standard output
  hearken store restore hearken.backup           into an empty store
  hearken store restore --replace hearken.backup in place of what the store holds
  hearken store backup - | DATABASE_URL=postgres://hearken@db/hearken hearken store restore -
                                                 moves everything from SQLite to PostgreSQL";

/// Upgrade, check, back up and restore the store
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
    /// Create the tables, or upgrade those of an earlier version; servers do so automatically
    Migrate,
    /// Check the consistency of the stored data; the exit status is 1 if there are faults
    Check,
    /// Write everything to a file that only its owner may read: it contains keys
    Backup {
        /// File, which is replaced when the backup is complete; - is standard output
        file: PathBuf,
    },
    /// Restore a backup into the store, all of it or nothing
    Restore {
        /// File; - is standard input
        file: PathBuf,
        /// Delete the content of the store first
        #[arg(long)]
        replace: bool,
    },
}

/// Executes the command on the configured store.
///
/// # Errors
/// Fails with the reason if the store or the file cannot be used.
pub async fn run(args: Args, env: &dyn EnvVars) -> anyhow::Result<ExitCode> {
    let config = super::configuration(args.config.as_deref(), env)?;
    let folder = config::env::data_dir(&config.server.data_dir, env);
    let store = SqlStore::patient(config.store.url.expose(), &folder)?;
    let done = match args.action {
        Action::Migrate => migrate(&store).await,
        Action::Check => check(&store).await,
        Action::Backup { file } => back_up(&store, &file).await,
        Action::Restore { file, replace } => restore(&store, &file, replace).await,
    };
    store.shut().await;
    done
}

async fn migrate(store: &SqlStore) -> anyhow::Result<ExitCode> {
    let before = store.version().await?;
    let now = store.bring_up_to_date().await?;
    let told = match before {
        Some(before) if before == now => format!("the store is up to date: version {now}"),
        Some(before) => format!("upgraded from version {before} to {now}"),
        None => format!("created the tables: version {now}"),
    };
    super::print(&told)?;
    Ok(ExitCode::SUCCESS)
}

async fn check(store: &SqlStore) -> anyhow::Result<ExitCode> {
    let mut display = Display::new();
    let checked = store.check(&mut |table, rows| display.show(table, rows)).await;
    display.end();
    let report = checked?;
    for fault in &report.faults {
        super::print(fault)?;
    }
    if report.untold > 0 {
        super::print(&format!("and {} more faults", report.untold))?;
    }
    if report.is_good() {
        super::print(&format!("no faults found: {}", render(&report.rows)))?;
        return Ok(ExitCode::SUCCESS);
    }
    super::print("restore a backup, or repair these rows by hand")?;
    Ok(ExitCode::FAILURE)
}

async fn back_up(store: &SqlStore, file: &Path) -> anyhow::Result<ExitCode> {
    let mut display = Display::new();
    let mut progress = |table: &str, rows: u64| display.show(table, rows);
    let now = Timestamp::now();
    let counts = if file == Path::new("-") {
        let mut out = BufWriter::new(io::stdout());
        store.back_up(&mut out, now, &mut progress).await
    } else {
        let fresh = Fresh::beside(file)?;
        let mut out = BufWriter::new(&fresh.open);
        let counts = store.back_up(&mut out, now, &mut progress).await;
        drop(out);
        if counts.is_ok() {
            fresh.becomes(file).with_context(|| format!("cannot write {}", file.display()))?;
        }
        counts
    };
    display.end();
    let counts = counts.with_context(|| named(file))?;
    super::note(&format!("backed up {}", render(&counts)))?;
    Ok(ExitCode::SUCCESS)
}

async fn restore(store: &SqlStore, file: &Path, replace: bool) -> anyhow::Result<ExitCode> {
    let input: Box<dyn io::Read + Send> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        let opened = fs::File::open(file);
        Box::new(opened.with_context(|| format!("cannot read {}", file.display()))?)
    };
    let mut display = Display::new();
    let mut progress = |table: &str, rows: u64| display.show(table, rows);
    let restored = store.restore(&mut BufReader::new(input), replace, &mut progress).await;
    display.end();
    let counts = restored.with_context(|| named(file))?;
    super::note(&format!("restored {}", render(&counts)))?;
    if replace {
        super::note(
            "restart every server that uses this store: until then it works on with what it had read before",
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn named(file: &Path) -> String {
    if file == Path::new("-") { "the backup".into() } else { file.display().to_string() }
}

/// Renders the numbers of rows for people.
fn render(counts: &RowCounts) -> String {
    let some = counts.iter().filter(|(_, rows)| **rows > 0);
    let told: Vec<String> = some.map(|(table, rows)| format!("{rows} {table}")).collect();
    if told.is_empty() { "nothing, the store is empty".into() } else { told.join(", ") }
}

/// Temporary file that only its owner may read, in the folder of its final place; deleted unless it
/// is moved there.
struct Fresh {
    path: PathBuf,
    open: fs::File,
}

impl Fresh {
    fn beside(file: &Path) -> anyhow::Result<Self> {
        let Some(name) = file.file_name() else { bail!("{} is not a file name", file.display()) };
        let mut fresh = name.to_owned();
        fresh.push(format!(".{}.part", std::process::id()));
        let path = file.with_file_name(fresh);
        let open = private_files::create_new(&path);
        let open = open.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, open })
    }

    /// Moves it to its final place, once it is on disk.
    fn becomes(&self, file: &Path) -> io::Result<()> {
        self.open.sync_all()?;
        fs::rename(&self.path, file)?;
        let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
        fs::File::open(folder.unwrap_or(".".as_ref()))?.sync_all()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // Nothing where it has become the other.
        fs::remove_file(&self.path).ok();
    }
}

/// Progress on standard error: one line rewritten on a terminal, else a line every few seconds.
struct Display {
    terminal: bool,
    written: Instant,
    open: bool,
}

impl Display {
    fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), written: Instant::now(), open: false }
    }

    fn show(&mut self, table: &str, rows: u64) {
        let pause = if self.terminal { ON_TERMINAL } else { ELSEWHERE };
        if self.written.elapsed() < pause {
            return;
        }
        self.written = Instant::now();
        self.open = self.terminal;
        let line = if self.terminal {
            format!("\r\x1b[K{table}: {rows}")
        } else {
            format!("{table}: {rows}\n")
        };
        self.write(&line);
    }

    /// Clears the line that is rewritten.
    fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            self.write("\r\x1b[K");
        }
    }

    /// Writes to standard error; a closed terminal does not stop the work.
    fn write(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
    }
}
