#!/usr/bin/env python3
"""Programs on both sides of a mount write one SQLite database: `sqlite_sides.py [ROUNDS]`, as root.

Each round takes one of: mounted elsewhere, or over itself below a live writer (`--while-written`);
write-ahead log or rollback journal; first there below or above; the first one ends, or is killed.
With a write-ahead log the second side gets nothing until the first one is gone, and the log of the
daemon names file and process. With a rollback journal both sides commit. No acknowledged commit may
be lost, and the database is checked from both sides. Status 77: it cannot run here. IOPACE_BIN names
the binary.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from sqlite_live import WAIT, iopace

PAUSE = 0.002  # seconds between two commits, and as long again as the one before has taken
ENOUGH = 5  # commits of each side


def write(path, name, note):
    """Commits row after row until it is told to end; the last number is noted for each."""
    end, number, note = [], 0, os.open(note, os.O_WRONLY)
    signal.signal(signal.SIGTERM, lambda *_: end.append(1))
    database = None
    while not end:
        began = time.monotonic()
        try:
            if database is None:
                database = sqlite3.connect(path, timeout=1, isolation_level=None)
            database.execute("INSERT INTO t VALUES (?, ?, ?)", (name, number + 1, "x" * 500))
            number += 1
            os.pwrite(note, b"%12d" % number, 0)
            if number % 20 == 0:  # pages move, so that a lost write is seen
                database.execute("UPDATE t SET x = x || 'y' WHERE n % 7 = 0")
        except sqlite3.OperationalError as error:
            said = str(error)
            if said not in ("database is locked", "locking protocol"):
                raise
            if said == "locking protocol":
                database.close()
                database = None
        # SLEEP: the other side has its turn. SQLite asks for a lock from time to time and finds it
        # free by chance: whoever commits without a pause, on a busy machine, keeps others waiting.
        time.sleep(PAUSE + time.monotonic() - began)
    if database is not None:
        database.close()


class Writer:
    def __init__(self, folder, place, name):
        self.name, self.note = name, os.path.join(folder, "note-" + name)
        self.path = os.path.join(place, "db")
        with open(self.note, "w", encoding="ascii"):
            pass
        command = [sys.executable, __file__, "--write", self.path, name, self.note]
        self.process = subprocess.Popen(command)

    def count(self):
        with open(self.note, encoding="ascii") as file:
            return int(file.read() or 0)

    def wait_for(self, what, is_so):
        until = time.monotonic() + WAIT
        while not is_so():
            assert self.process.poll() is None, f"{self.name} ended: {self.process.returncode}"
            assert time.monotonic() < until, f"{self.name} waits for ever: {what}"
            # SLEEP: between two looks at what is waited for.
            time.sleep(0.01)

    def more(self, count=ENOUGH):
        """Waits for that many more commits."""
        before = self.count()
        self.wait_for("a commit", lambda: self.count() >= before + count)

    def has_open(self, suffix):
        folder = f"/proc/{self.process.pid}/fd"
        links = []
        for fd in os.listdir(folder):
            try:
                links.append(os.readlink(os.path.join(folder, fd)))
            except FileNotFoundError:
                pass  # closed meanwhile
        return any(link.endswith(suffix) for link in links)

    def end(self, how):
        self.process.send_signal(how)
        status = self.process.wait(WAIT)
        assert status in (0, -how), f"{self.name} ended with {status}"


def check(place, writers):
    database = sqlite3.connect(os.path.join(place, "db"), timeout=WAIT, isolation_level=None)
    said = database.execute("PRAGMA integrity_check").fetchall()
    assert said == [("ok",)], said
    for writer in writers:
        ask = "SELECT count(*), coalesce(max(n), 0) FROM t WHERE name = ?"
        count, last = database.execute(ask, (writer.name,)).fetchone()
        # A writer that was killed may have committed one more than it has noted.
        assert writer.count() <= count == last <= writer.count() + 1, (writer.name, count, last)
    database.close()


def one_at_a_time(writers, start, log, is_above_second, how):
    """The second side waits for the first one to be gone."""
    first = writers[0]
    first.more()
    second = start("second")
    if is_above_second:
        expected = f"(pid {first.process.pid}) uses it past the mount"

        def is_refused():
            with open(log, encoding="utf-8") as file:
                return any("/db-shm" in line and expected in line for line in file)

        second.wait_for("its refusal in the log", is_refused)
    else:
        # It closes its index after each refusal; the log stays open while it tries.
        second.wait_for("its log open", lambda: second.has_open("/db-wal"))
    first.more()
    assert second.count() == 0, "both sides commit"
    first.end(how)
    second.more()
    third = start("third")  # another one of the same side
    third.more()
    second.more()


def both_at_a_time(writers, start, how):
    first = writers[0]
    second = start("second")
    second.more()
    first.more()
    second.more()
    first.end(how)
    second.more()


def round_(folder, number):
    mode = ("wal", "delete")[number % 2]
    elsewhere, is_below_first = number % 8 < 6, number % 4 < 2 or number % 8 >= 6
    how = (signal.SIGTERM, signal.SIGKILL)[number // 8 % 2]
    below, view = os.path.join(folder, "below"), os.path.join(folder, "view")
    log = os.path.join(folder, "log")
    at = view if elsewhere else below
    for name in os.listdir(below):
        os.unlink(os.path.join(below, name))
    database = sqlite3.connect(os.path.join(below, "db"))
    database.execute(f"PRAGMA journal_mode={mode}")
    database.execute("CREATE TABLE t (name TEXT, n INTEGER, x TEXT, PRIMARY KEY (name, n))")
    database.commit()
    database.close()
    writers = []

    def start(name):
        is_above = (name == "first") != is_below_first
        writers.append(Writer(folder, at if is_above else below, name))
        return writers[-1]

    try:
        if elsewhere:
            # Nobody writes yet. But a process that cannot be looked at in time counts as a writer.
            ran = iopace("mount", below, view, "--while-written", "--log", log)
        else:
            start("first").more()
            ran = iopace("mount", below, "--while-written", "--log", log)
        assert ran.returncode == 0, ran
        if elsewhere:
            start("first").more()
        if mode == "wal":
            one_at_a_time(writers, start, log, is_below_first, how)
        else:
            both_at_a_time(writers, start, how)
        last = writers[-1]
        if is_below_first:
            ran = iopace("unmount", at)
            assert ran.returncode == 1 and f"(pid {last.process.pid}: " in ran.stderr, ran
            last.more(1)
        check(os.path.dirname(last.path), [])
        for writer in writers[1:]:
            writer.end(signal.SIGTERM)
        check(at, writers)
        check(below, writers)
        ran = iopace("unmount", at)
        assert ran.returncode == 0, ran
        check(below, writers)
        return sum(writer.count() for writer in writers)
    finally:
        for writer in writers:
            if writer.process.poll() is None:
                writer.process.kill()
                writer.process.wait()


def main():
    if sys.argv[1:2] == ["--write"]:
        return write(*sys.argv[2:])
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: mounting needs root and /dev/fuse")
        sys.exit(77)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    committed = 0
    with tempfile.TemporaryDirectory(prefix="iopace-sides-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        below, view = os.path.join(folder, "below"), os.path.join(folder, "view")
        os.mkdir(below)
        os.mkdir(view)
        try:
            for number in range(rounds):
                try:
                    committed += round_(folder, number)
                except BaseException:
                    print(f"round {number}")
                    raise
        finally:
            for path in (below, view):
                if os.path.ismount(path):
                    iopace("unmount", "--force", path)
    print(f"{rounds} rounds, {committed} commits acknowledged, none lost, no database damaged")


if __name__ == "__main__":
    main()
