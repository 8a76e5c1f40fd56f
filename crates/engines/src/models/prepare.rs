//! Converts fetched inputs to a model's files with the Python programs built into the binary. They
//! run in a virtual environment of pinned versions, created once under the model folder. Not for
//! fetching the inputs, nor for checking the outputs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::error::ModelError;
use super::hash::hex;
use super::program::{self, Run};

const INSTALL_DEADLINE: Duration = Duration::from_secs(30 * 60);
const PREPARE_DEADLINE: Duration = Duration::from_secs(30 * 60);
const VENV_REMEDY: &str = "on Debian install python3 and python3-venv";
const PIP_REMEDY: &str = "check that pip reaches its registry, then fetch again";
/// Marker file of a completely installed environment.
const READY: &str = ".ready";

/// Returns the text of a prepare program by its file name.
pub(super) fn program(name: &str) -> Option<&'static str> {
    match name {
        "cam_plus_plus.py" => Some(include_str!("cam_plus_plus.py")),
        "kokoro.py" => Some(include_str!("kokoro.py")),
        "piper.py" => Some(include_str!("piper.py")),
        "smart_turn.py" => Some(include_str!("smart_turn.py")),
        "whisper.py" => Some(include_str!("whisper.py")),
        _ => None,
    }
}

/// Requirements of the prepare programs, with all of their dependencies, in pip's format with
/// hashes. `scripts/lock` generates it.
const REQUIREMENTS: &str = include_str!("requirements.txt");

/// Runs a prepare program over `inputs`. It writes its files to `output`, which is emptied first.
pub(super) async fn run(
    root: &Path,
    name: &str,
    work: &Path,
    inputs: &Path,
    output: &Path,
) -> Result<(), ModelError> {
    let text = program(name)
        .ok_or_else(|| ModelError::Catalogue(format!("no prepare program is called {name}")))?;
    let interpreter = environment(root).await?;
    let script = work.join(name);
    std::fs::write(&script, text).map_err(ModelError::at(&script))?;
    remove_folder(output)?;
    std::fs::create_dir_all(output).map_err(ModelError::at(output))?;
    let mut command = program::command(interpreter);
    command.arg(&script).arg(inputs).arg(output).current_dir(work);
    command.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
    let run = Run {
        what: &format!("converting with {name}"),
        remedy: "fetch again; if it fails again, report it with this message",
        deadline: PREPARE_DEADLINE,
        watch: None,
    };
    run.run(command, |_| {}).await.map(drop)
}

/// Removes a folder if it exists.
pub(super) fn remove_folder(folder: &Path) -> Result<(), ModelError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ModelError::at(folder)(error))
        }
        _ => Ok(()),
    }
}

/// Returns the interpreter of an environment that has exactly the pinned requirements. Creates the
/// environment if it does not exist.
async fn environment(root: &Path) -> Result<PathBuf, ModelError> {
    let mut command = program::command("python3");
    command.args(["-c", "import sys; print(sys.version, sys.executable)"]);
    let version = install("looking for Python", VENV_REMEDY).run(command, |_| {}).await?;
    let digest = hex(&Sha256::digest(format!("{version}{REQUIREMENTS}")));
    let folder = root.join(".python").join(&digest[..16]);
    let interpreter = folder.join("bin/python");
    if folder.join(READY).exists() {
        return Ok(interpreter);
    }
    remove_folder(&folder)?;
    let mut command = program::command("python3");
    command.args(["-m", "venv"]).arg(&folder);
    install("making a Python environment", VENV_REMEDY).run(command, |_| {}).await?;
    let requirements = folder.join("requirements.txt");
    std::fs::write(&requirements, REQUIREMENTS).map_err(ModelError::at(&requirements))?;
    let mut command = program::command(&interpreter);
    command.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        "--only-binary=:all:",
    ]);
    command.args(["--disable-pip-version-check", "--require-hashes", "-r"]).arg(&requirements);
    install("installing the converters' requirements", PIP_REMEDY).run(command, |_| {}).await?;
    let ready = folder.join(READY);
    std::fs::write(&ready, "").map_err(ModelError::at(&ready))?;
    Ok(interpreter)
}

fn install<'a>(what: &'a str, remedy: &'a str) -> Run<'a> {
    Run { what, remedy, deadline: INSTALL_DEADLINE, watch: None }
}
