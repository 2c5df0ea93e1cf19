"""iopace beside what the kernel has: the same programs over the same emulated disk.

    rivals.py [short] [--disks A,B] [--parts A,B] [--mixes A,B] [--rows A,B] [--seconds N]
              [--at-once N] [--format table|json] [--page FILE]

Each cell of the tables is a run of its own, with a disk of its own: a big and a small program are
started, warm up, and what completes within one window of SECONDS of wall-clock time counts, for both
the same. A program that completes nothing has 0. Rows `kernel-*` are a loop device under a
scheduler of the kernel, whose requests go straight to the disk (`iopace attach` without policies);
rows `iopace-*` are iopace with its defaults but for what their names say. `iopace` has no option.
Shares are of what the same program does alone under `kernel-none`.

Disks with a head wait more than they compute: AT_ONCE (the number of processors) cells of theirs
run side by side. `--page` writes the tables of the disks that were measured between the markers of
the page, and plots beside it. Root only; Ctrl-C leaves nothing behind. IOPACE_BIN is the program.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import rivals_commits
import rivals_fairness
import rivals_page
from rivals_cgroups import Failed, put, remove_cgroups
from rivals_loads import MIXES, Gate, compete
from rivals_stands import (DISKS, IOPACE, OWN, ROWS, Side, apart, chosen_scheduler, detach,
                           own_queue, stand)

WARMUP = 2.0
OVERHEAD = 1.5  # seconds to start and end the programs and daemons of a run
PARTS = ["mixes", "commits", "priority", "weights", "groups", "bursts"]
PRIORITY = ["kernel-none", "kernel-mq-deadline-ionice", "kernel-bfq-ionice", "iopace-idle"]
SHORT = {"disks": ["hdd-sata-250g-ncq", "ssd-sata"], "seconds": 5.0,
         "parts": PARTS[:2], "mixes": ["sequential-write", "random-64", "programs-64"],
         "rows": ["kernel-none", "kernel-bfq", "iopace", "iopace-groups"]}
LONG = {"disks": [disk for disk in DISKS if disk != "own"], "seconds": 6.0, "parts": PARTS, "mixes": MIXES,
        "rows": ["kernel-none", "kernel-mq-deadline", "kernel-kyber", "kernel-bfq", "iopace",
                 "iopace-groups", "iopace-fair", "iopace-rr"]}
# The light program is put beside these only.
LIGHT_BESIDE = ["random-64"]


def say(text):
    print(f"rivals: {text}", file=sys.stderr, flush=True)


def cell(part, disk, row, mix, sides, seconds):
    return {"part": part, "disk": disk, "row": row, "mix": mix, "seconds": seconds,
            "sides_asked": [list(side) for side in sides]}


def plan(chosen):
    """All cells, those of a disk together."""
    cells = []
    for disk in chosen.disks:
        if "mixes" in chosen.parts:
            cells += mixes(disk, chosen)
        if "priority" in chosen.parts:
            cells += priority(disk, chosen)
        if "commits" in chosen.parts:
            cells += rivals_commits.cells(disk, chosen.is_short, chosen.seconds, cell)
        cells += rivals_fairness.cells(disk, chosen, cell)
    # Several parts ask for the same run of a program alone.
    return [one for place, one in enumerate(cells) if one not in cells[:place]]


def mixes(disk, chosen):
    light = [mix for mix in chosen.mixes if mix in LIGHT_BESIDE]
    light = [] if chosen.is_short else light
    alone = [Side("small", "small")] + [Side("big", mix) for mix in chosen.mixes]
    alone += [Side("small", "light")] if light else []
    made = [cell("alone", disk, "kernel-none", side.load, [side], chosen.seconds) for side in alone]
    for mix in chosen.mixes:
        for load in ["small"] + (["light"] if mix in light else []):
            sides = [Side("small", load), Side("big", mix)]
            made += [cell("mixes", disk, row, mix, sides, chosen.seconds) for row in chosen.rows]
    return made


def priority(disk, chosen):
    """The big program is of the idle class: what the small one gains, and what is left of the disk."""
    mix, made = rivals_fairness.BESIDE, []
    if disk in rivals_fairness.disks(chosen):
        for side in (Side("small", "small"), Side("big", mix)):
            made.append(cell("alone", disk, "kernel-none", side.load, [side], chosen.seconds))
        sides = [Side("small", "small"), Side("big", mix)]
        made += [cell("mixes", disk, row, mix, sides, chosen.seconds) for row in PRIORITY]
    return made


def run_cell(one):
    """A cell, in a process of its own: its figures, or why there are none, to standard output."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    apart(os.getcwd())
    row, disk = ROWS[one["row"]], DISKS[one["disk"]]
    sides = [Side(*side) for side in one["sides_asked"]]
    try:
        if one["part"] == "commits":
            found = rivals_commits.compete(row, disk, sides, os.getcwd(), WARMUP, one["seconds"])
        else:
            found = compete(row, disk, sides, os.getcwd(), WARMUP, one["seconds"])
    except (Failed, OSError, subprocess.SubprocessError) as error:
        found = {"failed": " ".join(str(error).split())[:200]}
    print(json.dumps(found))


class Running:
    """A cell that runs: it has a folder, and may take so long."""

    LONGEST = 300

    def __init__(self, one):
        own = os.environ.get(OWN)
        place = os.path.dirname(own) if own else None
        self.cell, self.folder = one, tempfile.TemporaryDirectory(prefix="iopace-rivals-", dir=place)
        self.out = open(os.path.join(self.folder.name, "out"), "w+", encoding="utf-8")
        command = [sys.executable, os.path.realpath(__file__), "--cell", json.dumps(one)]
        self.process = subprocess.Popen(command, cwd=self.folder.name, stdout=self.out,
                                        start_new_session=True)
        self.until = time.monotonic() + self.LONGEST

    def is_over(self):
        if time.monotonic() > self.until:
            self.process.terminate()
            self.until += self.LONGEST
        return self.process.poll() is not None

    def result(self):
        """The cell with its figures; clears away what is left, however it ended."""
        self.process.wait()
        self.out.seek(0)
        lines = self.out.read().splitlines()
        self.out.close()
        loop = os.path.join(self.folder.name, "loop")
        if os.path.exists(loop):
            apart(self.folder.name)
            with open(loop, encoding="ascii") as file:
                detach(file.read())
        Gate(self.folder.name).close()
        remove_cgroups(self.process.pid)
        self.folder.cleanup()
        try:
            found = json.loads(lines[-1])
        except (IndexError, ValueError):
            found = {"failed": f"the run ended with status {self.process.returncode}"}
        return {**self.cell, **found}


def run_all(cells, at_once):
    """Runs them in order, some side by side; gives what was found."""
    begin, found, running, waiting = time.monotonic(), [], [], list(cells)
    try:
        while waiting or running:
            has_head = bool(waiting) and DISKS[waiting[0]["disk"]].has_head
            most = at_once if has_head else 1
            if waiting and len(running) < most and same_kind(running, waiting[0]):
                running.append(Running(waiting.pop(0)))
                continue
            for one in [one for one in running if one.is_over()]:
                running.remove(one)
                found.append(one.result())
                progress(found, cells, begin)
            # SLEEP: between two looks at the runs.
            time.sleep(0.05)
    finally:
        for one in running:
            one.process.terminate()
        for one in running:
            one.result()
    return found


def same_kind(running, one):
    """Cells of flash have the machine for themselves."""
    return all(DISKS[other.cell["disk"]].has_head == DISKS[one["disk"]].has_head
               for other in running)


def progress(found, cells, begin):
    last, spent = found[-1], time.monotonic() - begin
    text = last.get("failed") or rivals_page.short(last)
    left = spent / len(found) * (len(cells) - len(found)) / 60
    say(f"{len(found)} of {len(cells)}, {last['disk']} {last['mix']} {last['row']}: {text}; "
        f"some {left:.0f} minutes left")


def defaults(disk):
    """What a daemon without any option has on this disk."""
    with tempfile.TemporaryDirectory(prefix="iopace-rivals-") as folder:
        apart(folder)
        with stand(ROWS["iopace"], DISKS[disk], [], folder) as place:
            return place.said()


def arguments():
    parser = argparse.ArgumentParser(description="iopace beside the kernel's schedulers")
    words = lambda text: text.split(",")
    parser.add_argument("short", nargs="?", choices=["short"], help="some eight minutes")
    parser.add_argument("--disks", type=words, help=f"of {', '.join(DISKS)}")
    parser.add_argument("--parts", type=words, help=f"of {', '.join(PARTS)}")
    parser.add_argument("--mixes", type=words, help=f"of {', '.join(MIXES)}")
    parser.add_argument("--rows", type=words, help=f"of {', '.join(ROWS)}")
    parser.add_argument("--groups", type=lambda text: [int(word) for word in text.split(",")],
                        help="how many groups, 2 to 256 [default: 2,16,64]")
    parser.add_argument("--seconds", type=float, help="the window that counts, of each cell")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="cells of disks with a head")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--page", help="write the tables into this page, and plots beside it")
    parser.add_argument("--from", dest="file", help="what `--format json` printed, in place of runs")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    chosen.is_short = chosen.short is not None
    for name, value in (SHORT if chosen.is_short else LONG).items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, value)
    known = {"disks": DISKS, "parts": PARTS, "mixes": MIXES, "rows": ROWS}
    for name, all_of_them in known.items():
        for value in getattr(chosen, name):
            if value not in all_of_them:
                parser.error(f"--{name}: there is no {value}; there are {', '.join(all_of_them)}")
    if "iopace" not in chosen.rows:
        chosen.rows.append("iopace")
    return chosen


class OwnFile:
    """The file that stands for the machine's own disk (TMPDIR says where), and the scheduler of the
    kernel that the disk below has: both are as before when it is over."""

    SIZE = 2 << 30

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="iopace-rivals-")
        path = os.path.join(self.folder.name, "own")
        self.queue = own_queue(self.folder.name)
        self.before = chosen_scheduler(self.queue)
        with open(path, "wb") as file:
            for _ in range(self.SIZE >> 20):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        os.environ[OWN] = path

    def __exit__(self, *_):
        if chosen_scheduler(self.queue) != self.before:
            put(f"{self.queue}/scheduler", self.before)
        self.folder.cleanup()


def measure(chosen):
    begin, said = time.monotonic(), {disk: defaults(disk) for disk in chosen.disks}
    cells = []
    for one in plan(chosen):
        default = said[one["disk"]].split(",")[0]
        # What is inserted without being asked for needs no row under its name.
        if one["row"] != f"iopace-{default}" or "iopace-groups" not in chosen.rows:
            cells.append(one)
    for disk, text in said.items():
        say(f"{disk}: without options iopace has scheduler {text}")
    alone = sum(WARMUP + one["seconds"] + OVERHEAD for one in cells)
    side_by_side = sum(WARMUP + one["seconds"] + OVERHEAD for one in cells
                       if DISKS[one["disk"]].has_head) * (1 - 1 / max(chosen.at_once, 1))
    say(f"{len(cells)} runs, some {(alone - side_by_side) / 60:.0f} minutes")
    load = os.getloadavg()[0]
    found = run_all(cells, max(chosen.at_once, 1))
    took = (time.monotonic() - begin) / 60
    say(f"{len(found)} runs, {took:.1f} minutes")
    return {"machine": rivals_page.machine(), "load_before": load, "minutes": took,
            "date": time.strftime("%Y-%m-%d"), "defaults": said, "seconds": chosen.seconds,
            "version": subprocess.run([IOPACE, "--version"], capture_output=True, text=True,
                                      check=False).stdout.strip(), "cells": found}


def main():
    chosen = arguments()
    if chosen.cell:
        return run_cell(json.loads(chosen.cell))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if chosen.file:
        with open(chosen.file, encoding="utf-8") as file:
            report = json.load(file)
    elif os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        say("skipped: loop devices, cgroups and mounts need root and /dev/fuse")
        sys.exit(77)
    else:
        with OwnFile() if "own" in chosen.disks else contextlib.nullcontext():
            report = measure(chosen)
    if chosen.format == "json":
        print(json.dumps(report, indent=1))
    else:
        print(rivals_page.text(report))
    if chosen.page:
        rivals_page.write(chosen.page, report)
        say(f"{chosen.page} has the tables; see: git diff {chosen.page}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
