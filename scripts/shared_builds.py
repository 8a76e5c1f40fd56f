#!/usr/bin/env python3
"""Reuses the builds of another checkout, or of an earlier one in the same folder.

  scripts/shared_builds.py adopt LAST   before a build, after one in the checkout LAST: restores the modification times of
                                        files whose contents are already built
  scripts/shared_builds.py note         after a build: records contents and modification times

Cargo treats a file as unchanged if it is not newer than its build output, but all files of a new checkout are new. A file
whose contents were built gets its former time; any other file gets the current time, unless it is newer than all builds.
Called by `share_builds` in scripts/lib.sh, which determines the build folder and the checkout. If it is unknown what was
built, our crates are built again.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

TARGET = pathlib.Path("target")
NOTES = TARGET / "sources.json"
# Time after which the state of an incremental build is removed.
UNUSED_FOR_S = 12 * 3600


def files_of(folder):
    """Returns hash and modification time of each file of a checkout, by path; None if the folder is not a git checkout."""
    listing = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, capture_output=True)
    if listed.returncode:
        return None
    files = {}
    for name in listed.stdout.decode().split("\0"):
        path = pathlib.Path(folder, name)
        if name and path.is_file() and not path.is_symlink():
            files[name] = [hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns]
    return files


def last_build_ns():
    """Returns when cargo last started to compile a crate."""
    begun = TARGET.glob("*/.fingerprint/*/invoked.timestamp")
    return max((file.stat().st_mtime_ns for file in begun), default=0)


def built_files(last):
    """Returns the files that were built; None if unknown."""
    here = os.getcwd()
    if NOTES.exists():
        notes = json.loads(NOTES.read_text())
        if notes["at_ns"] > last_build_ns() and notes["checkout"] == last:
            return notes["files"]
    # The notes are older than the last build: read the files of the last checkout, unless it is this one.
    return files_of(last) if last and last != here and os.path.isdir(last) else None


def adopt(last):
    built, files = built_files(last), files_of(".")
    if built is None or files is None:
        return last == os.getcwd()
    now = time.time_ns()
    newest = max((time_ns for _, time_ns in built.values()), default=0)
    newest = max(newest, last_build_ns())
    for name, (content, time_ns) in files.items():
        if built.get(name, [None])[0] == content:
            wanted = built[name][1]
        else:
            wanted = time_ns if time_ns > newest else now
        if wanted != time_ns:
            os.utime(name, ns=(wanted, wanted))
    return True


def forget_old_states():
    """Removes states of incremental builds that no recent build has used: cargo removes none, and each changed feature adds some."""
    for state in TARGET.glob("*/incremental/*"):
        if time.time() - state.stat().st_mtime > UNUSED_FOR_S:
            shutil.rmtree(state, ignore_errors=True)


def note():
    files = files_of(".")
    if files is None:
        NOTES.unlink(missing_ok=True)
        return
    notes = {"checkout": os.getcwd(), "files": files}
    NOTES.write_text(json.dumps({"at_ns": time.time_ns(), **notes}))


def main():
    match sys.argv[1:]:
        case ["note"]:
            note()
            forget_old_states()
        case ["adopt", *last]:
            # Status 1: unknown what was built.
            sys.exit(0 if adopt(last[0] if last else "") else 1)
        case _:
            sys.exit(__doc__)


main()
