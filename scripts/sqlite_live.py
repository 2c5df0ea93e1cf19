#!/usr/bin/env python3
"""Mounts and unmounts a directory under a live SQLite database: `sqlite_live.py [ROUNDS]`, as root.

Each round takes one of: mounted over itself or elsewhere; rollback journal or write-ahead log. A
writer below keeps the mount from being made, one above keeps it from being ended, each is named;
with the writer gone both go through. No acknowledged commit may be lost, and the database is checked
after each step. Status 77: it cannot run here. IOPACE_BIN names the binary.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

WAIT = 120  # seconds; what takes longer hangs
IOPACE = os.environ.get("IOPACE_BIN", "target/debug/iopace")


def iopace(*words):
    command = [IOPACE, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)


def write(path, acknowledged):
    """Commits row after row until it is told to end; what was committed is noted beside."""
    end = []
    signal.signal(signal.SIGTERM, lambda *_: end.append(1))
    database = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
    note = os.open(acknowledged, os.O_WRONLY)
    number = database.execute("SELECT coalesce(max(n), 0) FROM t").fetchone()[0]
    while not end:
        number += 1
        database.execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 500))
        os.pwrite(note, b"%12d" % number, 0)
        if number % 50 == 0:  # pages move, so that a lost write is seen
            database.execute("UPDATE t SET x = x || 'y' WHERE n % 7 = 0 AND n > ?", (number - 50,))
    database.close()


class Writer:
    def __init__(self, place, acknowledged):
        before = read(acknowledged)
        command = [sys.executable, __file__, "--write", os.path.join(place, "db"), acknowledged]
        self.process = subprocess.Popen(command)
        self.acknowledged = acknowledged
        self.wait_for(lambda: read(acknowledged) > before)

    def wait_for(self, is_so):
        while not is_so():
            if self.process.poll() is not None:
                raise SystemExit(f"the writer ended with {self.process.returncode}")
            # SLEEP: between two looks at what the writer has noted.
            time.sleep(0.01)

    def more(self):
        """Waits for two more commits."""
        before = read(self.acknowledged)
        self.wait_for(lambda: read(self.acknowledged) > before + 1)

    def end(self):
        self.process.terminate()
        status = self.process.wait(WAIT)
        assert status == 0, f"the writer ended with {status}"


def read(acknowledged):
    with open(acknowledged, encoding="ascii") as file:
        return int(file.read() or 0)


def check(place, acknowledged):
    database = sqlite3.connect(os.path.join(place, "db"), timeout=WAIT)
    said = database.execute("PRAGMA integrity_check").fetchall()
    assert said == [("ok",)], said
    count, last = database.execute("SELECT count(*), coalesce(max(n), 0) FROM t").fetchone()
    assert count == last >= read(acknowledged), (count, last, read(acknowledged))
    database.close()


def refused(ran, writer):
    assert ran.returncode == 1, ran
    assert f"(pid {writer.process.pid}: file open for writing" in ran.stderr, ran


def round_(folder, mode, elsewhere):
    below, view = os.path.join(folder, "below"), os.path.join(folder, "view")
    at = view if elsewhere else below
    acknowledged = os.path.join(folder, "acknowledged")
    words = [below, view] if elsewhere else [below]
    for name in os.listdir(below):
        os.unlink(os.path.join(below, name))
    with open(acknowledged, "w", encoding="ascii"):
        pass
    database = sqlite3.connect(os.path.join(below, "db"))
    database.execute(f"PRAGMA journal_mode={mode}")
    database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)")
    database.commit()
    database.close()
    # A writer below: no mount. It is waited for, and ends while that goes on.
    writer = Writer(below, acknowledged)
    refused(iopace("mount", *words), writer)
    assert not os.path.ismount(at)
    writer.more()
    waiting = subprocess.Popen([IOPACE, "mount", "--wait", *words], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    line = waiting.stderr.readline()
    assert f"(pid {writer.process.pid}: " in line, line
    writer.end()
    waiting.communicate(timeout=WAIT)
    assert waiting.returncode == 0, waiting.returncode
    assert os.path.ismount(at)
    check(at, acknowledged)
    # A writer above: no unmount.
    writer = Writer(at, acknowledged)
    refused(iopace("unmount", at), writer)
    assert os.path.ismount(at)
    writer.more()
    writer.end()
    check(at, acknowledged)
    ran = iopace("unmount", at)
    assert ran.returncode == 0, ran
    check(below, acknowledged)
    return read(acknowledged)


def main():
    if sys.argv[1:2] == ["--write"]:
        return write(*sys.argv[2:])
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: mounting needs root and /dev/fuse")
        sys.exit(77)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    committed = 0
    with tempfile.TemporaryDirectory(prefix="iopace-sqlite-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        below, view = os.path.join(folder, "below"), os.path.join(folder, "view")
        os.mkdir(below)
        os.mkdir(view)
        try:
            for number in range(rounds):
                mode = ("delete", "wal")[number % 2]
                committed += round_(folder, mode, elsewhere=number % 4 >= 2)
        finally:
            for path in (below, view):
                if os.path.ismount(path):
                    iopace("unmount", "--force", path)
    print(f"{rounds} rounds, {committed} commits acknowledged, none lost, no database damaged")


if __name__ == "__main__":
    main()
