#!/usr/bin/env python3
"""Lets a checkout go on with what another one, or an earlier one at the same place, has built.

  scripts/shared_builds.py adopt LAST   before a build, after one in the checkout LAST: gives files the times that the same
                                        contents had when they were built
  scripts/shared_builds.py note         after it: writes down contents and times

Cargo takes a file for unchanged if it is not newer than what was built of it, and a new checkout has new files only. So a
file whose contents were built gets its time of then; any other file that has none newer gets the present time. Folder of
builds and checkout are those of `share_builds` in scripts/lib.sh, which calls this. Ours are built again where it is not
known what was built.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

TARGET = pathlib.Path("target")
NOTES = TARGET / "sources.json"


def files_of(folder):
    """Returns hash and time of each file of a checkout, by path; none if git knows no checkout there."""
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
    """Returns when cargo began to compile anything last."""
    begun = TARGET.glob("*/.fingerprint/*/invoked.timestamp")
    return max((file.stat().st_mtime_ns for file in begun), default=0)


def built_files(last):
    """Returns the files as they were built; none if that is not known."""
    here = os.getcwd()
    if NOTES.exists():
        notes = json.loads(NOTES.read_text())
        if notes["at_ns"] > last_build_ns() and notes["checkout"] == last:
            return notes["files"]
    # Somebody compiled after the notes were made. The checkout itself still says what; this one needs no telling.
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
        case ["adopt", *last]:
            # Status 1: nobody knows what was built.
            sys.exit(0 if adopt(last[0] if last else "") else 1)
        case _:
            sys.exit(__doc__)


main()
