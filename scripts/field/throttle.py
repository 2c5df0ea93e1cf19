"""Fifty dd and one rsync over a slow link: the test of the rate-based dirty throttling (2011)."""

import os
import statistics
import subprocess
import time

from harness import DISK, MIB, Failed, Mount, Table, remove, say, start, stop

TOOLS = ("rsync", "pv", "dd")

# 100 Mbit/s, as Ethernet had it; the source does not name its link.
LINK = 12_500_000

# The scheduler is the same in both: the source changes pacing alone.
# Name, arguments of the mount; bytes/s, pauses and spread of the source (vanilla, and the series).
CASES = [
    ("threshold", ["--pace", "threshold", "--window-policy", "fixed", "--sched", "elevator"],
     "545 099 B/s", "0 to 3 s", "2.26, 15 of 23"),
    ("rate", ["--sched", "elevator"], "891 015 B/s", "60 to 70 ms", "0.15, 0 of 23"),
]


def link(folder):
    """A remote shell that is a pipe with a rate to this machine."""
    path = os.path.join(folder, "link")
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nshift\npv -q -L {LINK} | "$@"\n')
    os.chmod(path, 0o755)
    return path


def received(folder):
    """Bytes of the file that rsync is writing, under whatever name."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(folder))
    except FileNotFoundError:
        return 0


def once(folder, words, writers, settle, seconds):
    """Bytes of rsync in each second, p99 and longest pause of a writer in ms, all dd in MB/s."""
    store = os.path.join(folder, "store")
    remove(store)
    with Mount(folder, "--emulate", DISK, "--cache", "1GiB", *words) as mount:
        got = os.path.join(mount.path, "got")
        os.makedirs(got)
        dds = [
            start(["dd", "if=/dev/zero", f"of={mount.path}/dd{number}", "bs=64k"],
                  stderr=subprocess.DEVNULL)
            for number in range(writers)
        ]
        # Sizes are read in the directory below: to look must not wait.
        below = os.path.join(store, "got")
        shell = ["-e", link(folder), "--whole-file", "--inplace", "source", "here:" + got + "/"]
        log = os.path.join(folder, "rsync.log")
        with open(log, "w") as out:
            rsync = start(["rsync", *shell], cwd=folder, stderr=out)
        time.sleep(settle)
        before, at, steps = received(below), time.monotonic(), []
        for number in range(seconds):
            time.sleep(max(at + number + 1 - time.monotonic(), 0))
            now = received(below)
            steps.append(now - before)
            before = now
        if rsync.poll() not in (None, 0):
            with open(log) as text:
                raise Failed(f"rsync: status {rsync.returncode}: {text.read().strip()}")
        paths = [os.path.join(store, f"dd{number}") for number in range(writers)]
        total = sum(os.path.getsize(path) for path in paths)
        took = time.monotonic() - dds[0].began
        pauses = mount.pauses()
        for process in [rsync, *dds]:
            process.terminate()
        for process in [rsync, *dds]:
            stop(process)
    remove(store)
    return steps, pauses, total / took / 1e6


def throttle(folder, short):
    writers, settle, seconds = (10, 1, 3) if short else (50, 5, 15)
    with open(os.path.join(folder, "source"), "wb") as file:
        for _ in range(64 if short else 512):
            file.write(os.urandom(MIB))
    table = Table(
        f"{writers} dd and one rsync over a link (dirty throttling, 2011)",
        "pacing", "source: rsync", "rsync", "source: pauses", "pause p99, longest",
        "source: variation, empty seconds", "variation, empty seconds", "all dd MB/s",
    )
    found = {}
    for name, words, rate, pauses, spread in CASES:
        say(f"rsync beside {writers} dd, {name}")
        steps, (p99, longest), total = found[name] = once(folder, words, writers, settle, seconds)
        mean = statistics.mean(steps)
        variation = statistics.pstdev(steps) / mean if mean else 0
        empty = sum(step < 1000 for step in steps)
        table.row(
            name, rate, f"{mean:.0f} B/s", pauses, f"{p99:.0f} ms, {longest:.0f} ms",
            spread, f"{variation:.2f}, {empty} of {len(steps)}", f"{total:.1f}",
        )
    before, after = (sum(found[name][0]) for name in ("threshold", "rate"))
    table.hold(after > 0, "rsync got nothing")
    table.hold(after > 0.5 * before, f"rate: {after} bytes of rsync, threshold: {before}")
    return table
