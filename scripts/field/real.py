"""A database, git, cp and a backup side by side: commits with and without iopace."""

import os
import sqlite3
import subprocess
import sys
import time

from harness import (DISK, MIB, Failed, Mount, Table, files_below, percentile, remove, run, say,
                     start, stop, tree)

TOOLS = ("git", "cp", "tar", "ionice")


def commits(path, seconds):
    """Small transactions, each durable, some 20 ms apart; ms each took."""
    database = sqlite3.connect(path, isolation_level=None, timeout=60)
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=full")
    database.execute("create table if not exists t (id integer primary key, text)")
    end, took = time.monotonic() + seconds, []
    while time.monotonic() < end:
        began = time.monotonic()
        database.execute("insert into t (text) values (?)", ("x" * 200,))
        took.append((time.monotonic() - began) * 1000)
        time.sleep(0.02)
    return took


def client(path, seconds):
    """The database in a process of its own; `took` waits for it."""
    return start([sys.executable, __file__, path, str(seconds)], stdout=subprocess.PIPE)


def took(process):
    out, _ = process.communicate()
    stop(process)
    if process.returncode != 0:
        raise Failed("the database failed")
    return [float(line) for line in out.split()]


def loop(script, *words, prefix=()):
    """A shell that does it again and again; ended with all it started."""
    return start([*prefix, "sh", "-c", f"while {script}; do :; done", "sh", *words],
                 stderr=subprocess.DEVNULL)


def prepare(store, size):
    os.makedirs(store)
    work = os.path.join(store, "work")
    tree(work, 2000 if size > 256 * MIB else 300, (2000, 40000))
    git = ["git", "-c", "user.name=field", "-c", "user.email=field@localhost", "-C", work]
    run([*git, "init", "-q"])
    run([*git, "add", "."])
    run([*git, "commit", "-q", "-m", "all"])
    with open(os.path.join(store, "large"), "wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))


def measure(path, store, seconds, prefix):
    """Commits alone and beside cp and tar, ms each; git status beside these, s."""
    base = os.path.join(path, "base")
    alone = took(client(base, min(seconds, 3)))
    # tar knows /dev/null and reads nothing then.
    batch = [
        loop('cp --reflink=never "$1" "$2"', f"{path}/large", f"{path}/copy", prefix=prefix),
        loop('tar cf - -C "$1" work large | cat >/dev/null', path, prefix=prefix),
    ]
    time.sleep(1)
    beside = took(client(base, seconds))
    status = "-" if seconds < 5 else read_all(path, store, 3 * seconds)
    for process in batch:
        stop(process)
    for name in ("copy", "base", "base-wal", "base-shm"):
        if os.path.exists(os.path.join(store, name)):
            os.remove(os.path.join(store, name))
    return alone, beside, status


def read_all(path, store, limit):
    """Seconds of a `git status` that reads every file, as after a copy of the tree."""
    for file in files_below(os.path.join(store, "work")):
        if "/.git/" not in file:
            os.utime(file)
    began = time.monotonic()
    git = start(["git", "-C", os.path.join(path, "work"), "status"])
    try:
        git.wait(limit)
        return f"{time.monotonic() - began:.1f}"
    except subprocess.TimeoutExpired:
        return f"over {limit}"
    finally:
        stop(git)


OFF = ["--pace", "none", "--window-policy", "fixed", "--sched", "elevator"]
IDLE = ("ionice", "-c3")


def cells(alone, beside):
    return [f"{percentile(alone, 0.5):.1f}", f"{percentile(alone, 0.99):.1f}",
            f"{percentile(beside, 0.5):.1f}", f"{percentile(beside, 0.99):.1f}",
            f"{max(beside):.0f}", len(beside)]


HEADER = ("iopace", "alone: p50 ms", "p99", "beside: p50 ms", "p99", "longest", "commits",
          "git status s")


def emulated(folder, short):
    seconds = 2 if short else 7
    store = os.path.join(folder, "store")
    say("a tree, a database and a large file")
    prepare(store, (64 if short else 512) * MIB)
    table = Table("Commits beside cp and tar, on the emulated disk", *HEADER)
    cases = [("policies off", OFF, ()), ("defaults", [], ()),
             ("defaults, batch with `ionice -c3`", [], IDLE)]
    found = {}
    for name, words, prefix in cases[:2] if short else cases:
        say(f"commits, {name}")
        with Mount(folder, "--emulate", DISK, "--cache", "64MiB", *words) as mount:
            alone, beside, status = measure(mount.path, store, seconds, prefix)
        found[name] = percentile(alone, 0.5)
        table.row(name, *cells(alone, beside), status)
    before, after = (found[case[0]] for case in cases[:2])
    table.hold(after < 5 * before + 50, f"a commit alone: {after:.0f} ms, {before:.0f} without")
    return table


def plain(folder, short):
    seconds = 3 if short else 6
    store = os.path.join(folder, "store")
    say("a tree, a database and a large file")
    prepare(store, (64 if short else 512) * MIB)
    table = Table("Commits beside cp and tar, on a directory of this machine", *HEADER)
    cases = [("none: the plain directory", None, ()), ("`mount`", [], ()),
             ("`mount --sched fifo`", ["--sched", "fifo"], ()),
             ("`mount`, batch with `ionice -c3`", [], IDLE)]
    for name, words, prefix in cases[:2] if short else cases:
        say(f"commits, {name}")
        run(["sync", "-f", store])
        if words is None:
            alone, beside, status = measure(store, store, seconds, prefix)
        else:
            with Mount(folder, *words) as mount:
                alone, beside, status = measure(mount.path, store, seconds, prefix)
        table.row(name, *cells(alone, beside), status)
        table.hold(len(beside) > 0, f"no commit, {name}")
    return table


if __name__ == "__main__":
    for one in commits(sys.argv[1], float(sys.argv[2])):
        print(f"{one:.3f}")
