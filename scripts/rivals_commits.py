"""Commits of SQLite (synchronous=full, delete journal) beside bulk I/O, counted in one window.

The table is made before the load begins: a first statement that is starved would move the window
behind the end of the load. rivals.py has the overview; `rivals_commits.py --write DB NOTE` is the
program that commits.
"""

import os
import sqlite3
import subprocess
import sys
import time

from rivals_loads import Client, Gate, figures, take_window, wait_for
from rivals_cgroups import Failed
from rivals_stands import PATIENCE, Side, run, stand

# The file system is this large, below the part of the disk that bulk I/O has.
SIZE_BLOCKS = 1 << 20
MIXES = ["bulk-read", "bulk-write"]
OWN_MIXES = MIXES + ["bulk-mixed"]
ROWS = ["kernel-none", "kernel-mq-deadline", "kernel-mq-deadline-ionice", "kernel-bfq",
        "kernel-bfq-ionice", "iopace-mount", "iopace-mount-ionice"]
SHORT_ROWS = ["kernel-none", "kernel-bfq", "kernel-bfq-ionice", "iopace-mount", "iopace-mount-ionice"]


def cells(disk, is_short, seconds, cell):
    """Disks with a head, and the machine's own."""
    if not disk.startswith(("hdd", "own")) or (is_short and disk == "hdd-sata-250g"):
        return []
    seconds = max(seconds, 6.0)
    commits = Side("commits", "commits")
    made = [cell("commits", disk, row, "alone", [commits], seconds)
            for row in ("kernel-none", "iopace-mount")]
    mixes = OWN_MIXES if disk == "own" else MIXES
    for mix in mixes[:1] if is_short else mixes:
        made += [cell("commits", disk, "kernel-none", f"{mix} alone", [Side("big", mix)], seconds)]
        made += [cell("commits", disk, row, mix, [commits, Side("big", mix)], seconds)
                 for row in (SHORT_ROWS if is_short else ROWS)]
    return made


def write(path, note):
    """Commits row after row; when each was done and how long it took is noted."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous=full")
    with open(note, "a", encoding="ascii", buffering=1) as notes:
        print("begun", file=notes)
        while True:
            before = time.monotonic_ns()
            database.execute("INSERT INTO t (x) VALUES (?)", ("x" * 500,))
            print(time.time_ns(), time.monotonic_ns() - before, file=notes)


class Committer:
    def __init__(self, place, side, path):
        self.side, self.note = side, os.path.join(place.folder, "commits")
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA journal_mode=delete")
        database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)")
        database.close()
        command = [sys.executable, os.path.realpath(__file__), "--write", path, self.note]
        self.process = place.start(side, command, stdout=subprocess.DEVNULL)

    def lines(self):
        if not os.path.exists(self.note):
            return []
        with open(self.note, encoding="ascii") as notes:
            return [line.split() for line in notes if line.endswith("\n")]

    def has_begun(self):
        if self.process.poll() is not None:
            raise Failed(f"the program that commits ended with {self.process.returncode}")
        return len(self.lines()) > 1

    def completions(self, window):
        begin, finish = (int(1e9 * at) for at in window)
        done = [(int(at), int(took), 500) for at, took in self.lines()[1:]]
        return [one for one in done if begin <= one[0] < finish]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(2 * PATIENCE)


def folder_of(place, folder):
    """Where the database is: ext4 on the loop device, or the mount of iopace."""
    if place.row.kind == "mount":
        return place.path
    if place.is_own():
        return folder
    at = os.path.join(folder, "ext4")
    os.mkdir(at)
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=64", "-E",
        "lazy_itable_init=1,lazy_journal_init=1,nodiscard", place.device, str(SIZE_BLOCKS))
    run("mount", place.device, at)
    return at


def compete(row, disk, sides, folder, warmup, seconds):
    """Commits, and bulk I/O if there is a big side; figures by side."""
    programs, at, gate = [], None, Gate(folder)
    with stand(row, disk, sides, folder) as place:
        try:
            said = place.said()
            if sides[0].name == "commits":
                at = folder_of(place, folder)
                programs.append(Committer(place, sides[0], os.path.join(at, "db")))
                wait_for(programs[0].has_begun, "the program that commits", 3 * PATIENCE)
            for side in sides:
                if side.name == "big":
                    programs.append(Client(place, side, region=1))
                    wait_for(programs[-1].is_ready, "fio")
            gate.open()
            window = take_window(warmup, seconds)
            for program in programs:
                if isinstance(program, Client):
                    program.tell()
                    program.finish()
            found = {one.side.name: figures(one.completions(window), seconds) for one in programs}
        finally:
            gate.close()
            for program in reversed(programs):
                program.close()
            if at and at != folder and row.kind != "mount" and os.path.ismount(at):
                run("umount", at)
    return {"scheduler": said, "sides": found}


if __name__ == "__main__" and sys.argv[1:2] == ["--write"]:
    write(*sys.argv[2:])
