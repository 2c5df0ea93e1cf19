"""etcd on one disk with a dd and a backup, with iopace and without: docs/rivals.md has the table.

    etcd.py [short] [--disks A,B] [--mixes A,B] [--rows A,B] [--seconds N] [--members N]
            [--rate N] [--format table|json] [--page FILE] [--from FILE ...]

A cluster of MEMBERS members of etcd on loopback, all of their directories on one disk, is asked for
RATE puts of 1 KiB a second. Beside it run, as the mix says, a `dd` that writes through the page
cache (1 GiB and an fdatasync, again and again), and a backup: `tar` of a tree that is not cached.
Rows `kernel...`: ext4 on a loop device of the emulated disk under that scheduler of the kernel, or
a plain directory of this machine's disk (`own`: where TMPDIR lies, under the scheduler that it has;
`kernel-bfq` and such exchange it while they run). Rows `iopace-mount...`: such a directory under
`iopace mount` with no option but the disk. `...-ionice`: dd and tar are started with `ionice -c3`.

What counts comes within one window of SECONDS: time of an fsync of the log as etcd counts it
(etcd_disk_wal_fsync_duration_seconds, whose buckets double from 1 ms on), elections
(etcd_server_leader_changes_seen_total), puts, and what dd and tar have moved. `short`: some three
minutes, and a verdict on each figure. `--from` joins what `--format json` has printed. Root only;
Ctrl-C leaves nothing behind. IOPACE_BIN is the program.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import etcd_members
import rivals_page
from figures import figure
from rivals_cgroups import Failed
from rivals_commits import SIZE_BLOCKS
from rivals_loads import wait_for
from rivals_stands import (DISKS, IOPACE, MIB, OWN, PATIENCE, Row, Side, apart, chosen_scheduler,
                           end, own_queue, run, stand)
from rivals_words import ms, number

WARMUP = 5.0
FLASH = ["own", "ssd-sata", "ssd-nvme"]
MIXES = {"alone": [], "dd": ["dd"], "backup": ["tar"], "both": ["dd", "tar"]}
ROWS = {row.name: row for row in (
    Row("kernel", "kernel", None),
    Row("kernel-ionice", "kernel", None, True, True),
    Row("kernel-none", "kernel", "none"),
    Row("kernel-mq-deadline", "kernel", "mq-deadline"),
    Row("kernel-mq-deadline-ionice", "kernel", "mq-deadline", True, True),
    Row("kernel-bfq", "kernel", "bfq"),
    Row("kernel-bfq-ionice", "kernel", "bfq", True, True),
    Row("iopace-mount", "mount", None, False),
    Row("iopace-mount-ionice", "mount", None, False, True),
)}
# Without being asked for: the machine's own disk keeps its scheduler.
OWN_ROWS = ["kernel", "kernel-ionice", "iopace-mount", "iopace-mount-ionice"]
EMULATED_ROWS = ["kernel-none", "kernel-mq-deadline", "kernel-bfq", "iopace-mount",
                 "iopace-mount-ionice"]
# What dd writes over and over, and what tar reads: emulated disks and their pages are in memory.
DD_MIB, TREE_FILES, FILE_MIB = 1024, 512, 2
BOUND_MS = 10.0
BEGIN, END = "<!-- etcd -->", "<!-- /etcd -->"


def say(text):
    print(f"etcd: {text}", file=sys.stderr, flush=True)


def drop(paths):
    """Has the kernel forget what it holds of these files, if it is on the disk."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def make_tree(at):
    """What the backup reads; zeros do for tar, holes would not."""
    block = bytes(MIB)
    for one in range(TREE_FILES):
        folder = os.path.join(at, f"d{one // 32:02}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"f{one}"), "wb") as file:
            for _ in range(FILE_MIB):
                file.write(block)
            os.fsync(file.fileno())


class Bulk(threading.Thread):
    """A program that is started again whenever it has ended. It moves what comes through its pipe, or
    a file of `size` bytes each time."""

    def __init__(self, place, command, size=None, before=lambda: None):
        super().__init__(daemon=True)
        self.place, self.command, self.size, self.before = place, command, size, before
        self.done, self.process, self.failed = [(time.time(), 0)], None, None
        self.lock, self.is_over = threading.Lock(), threading.Event()

    def run(self):
        while not self.is_over.is_set() and self.failed is None:
            try:
                self.once()
            except (OSError, subprocess.SubprocessError) as error:
                self.failed = str(error)

    def once(self):
        self.before()
        with self.lock:
            if self.is_over.is_set():
                return
            process = self.process = self.place.start(
                self.place.big, self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                cwd=self.place.folder)
        with process.stdout:
            while data := process.stdout.read(MIB):
                self.add(len(data))
        with self.lock:
            status, self.process = process.wait(), None
        self.add(self.size or 0)
        if status != 0 and not self.is_over.is_set():
            self.failed = f"{self.command[0]}: status {status}"

    def add(self, count):
        self.done.append((time.time(), self.done[-1][1] + count))

    def rate(self, begin, finish):
        """Bytes a second, from the last that was complete before the window to the last in it: with
        a file that takes some seconds there are few of these."""
        (at, before), (last, after) = ([one for one in self.done if one[0] <= when][-1]
                                       for when in (begin, finish))
        return (after - before) / max(last - at, finish - begin if after == before else 0.0)

    def close(self):
        with self.lock:
            self.is_over.set()
            if self.process:
                self.process.send_signal(signal.SIGTERM)
        self.join(2 * PATIENCE)


class Place:
    """The directory of a cell: what is made there, and the programs in it."""

    def __init__(self, cell, stand_, folder):
        self.cell, self.stand, self.folder = cell, stand_, folder
        self.big, self.at, self.ext4 = Side("big", "bulk"), None, None
        self.tree = None

    def open(self):
        if self.stand.row.kind == "mount":
            self.at = self.stand.path
            # Below the mount: made at no cost, and on the emulated disk not cached.
            self.tree = os.path.join(self.stand.store, "tree")
        elif self.stand.is_own():
            self.at = os.path.join(self.folder, "plain")
            os.mkdir(self.at)
        else:
            self.at = self.ext4 = os.path.join(self.folder, "ext4")
            os.mkdir(self.at)
            run("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=64", "-E",
                "lazy_itable_init=1,lazy_journal_init=1,nodiscard", self.stand.device,
                str(SIZE_BLOCKS))
            run("mount", self.stand.device, self.at)
        if "tar" in MIXES[self.cell["mix"]]:
            self.tree = self.tree or os.path.join(self.at, "tree")
            make_tree(self.tree)
            self.forget()

    def start(self, side, command, **more):
        return self.stand.start(side, command, **more)

    def forget(self):
        """Nothing of the tree is cached: neither below a mount nor above it."""
        below = [os.path.join(at, name) for at, _, names in os.walk(self.tree) for name in names]
        drop(below)
        if self.stand.row.kind == "mount":
            drop(path.replace(self.stand.store, self.at, 1) for path in below)

    def bulk(self, what):
        if what == "tar":
            command = ["tar", "cf", "-", "-C", self.at, "tree"]
            return Bulk(self, command, before=self.forget)
        command = ["dd", "if=/dev/zero", f"of={self.at}/bulk", "bs=1M", f"count={DD_MIB}",
                   "conv=fdatasync"]
        return Bulk(self, command, DD_MIB * MIB)

    def close(self):
        if self.ext4 and os.path.ismount(self.ext4):
            run("umount", self.ext4)


def row_of(cell):
    """The row; of the machine's own disk with the scheduler that it has, unless one is named."""
    row = ROWS[cell["row"]]
    if row.kind == "kernel" and row.scheduler is None:
        row = row._replace(scheduler=chosen_scheduler(own_queue(os.environ[OWN])))
    return row


def perform(cell, chosen, folder):
    """One cell: its figures."""
    disk, programs = DISKS[cell["disk"]], []
    sides = [Side("etcd", "etcd"), Side("big", "bulk")]
    with stand(row_of(cell), disk, sides, folder) as stand_:
        place = Place(cell, stand_, folder)
        try:
            place.open()
            data = os.path.join(place.at, "members")
            os.mkdir(data)
            members = etcd_members.Members(place, sides[0], data, chosen.members)
            programs.append(members)
            wait_for(members.are_ready, "etcd", 4 * PATIENCE)
            puts = etcd_members.Putter(place, sides[0], members.ports, chosen.rate)
            programs.append(puts)
            wait_for(puts.has_begun, "the program that puts")
            bulks = {what: place.bulk(what) for what in MIXES[cell["mix"]]}
            programs += bulks.values()
            for bulk in bulks.values():
                bulk.start()
            return measure(stand_, members, puts, bulks, cell["seconds"])
        finally:
            for program in reversed(programs):
                program.close()
            place.close()


def measure(stand_, members, puts, bulks, seconds):
    """What comes within the window."""
    # SLEEP: until caches and dirty memory are as full as they get.
    time.sleep(WARMUP)
    begin, before = time.time(), members.metrics()
    # SLEEP: the window; all programs run meanwhile.
    time.sleep(max(0.0, begin + seconds - time.time()))
    finish, after = time.time(), members.metrics()
    for name, bulk in bulks.items():
        if bulk.failed:
            raise Failed(f"{name}: {bulk.failed}")
    rates = {f"{name}_mb_s": bulk.rate(begin, finish) / 1e6 for name, bulk in bulks.items()}
    return {"scheduler": stand_.said(), **etcd_members.figures(before, after),
            **puts.figures((begin, finish)), **rates}


def run_cell(cell, chosen):
    """A cell in a folder of its own, with its figures or why there are none."""
    with tempfile.TemporaryDirectory(prefix="iopace-etcd-") as folder:
        apart(folder)
        os.environ[OWN] = os.path.join(folder, "own")
        with open(os.environ[OWN], "wb"):
            pass
        try:
            found = perform(cell, chosen, folder)
        except (Failed, OSError, subprocess.SubprocessError) as error:
            found = {"failed": " ".join(str(error).split())[:300]}
    found = {**cell, **found}
    say(f"{cell['disk']}, {cell['row']}, {cell['mix']}: " + (found.get("failed") or in_short(found)))
    return found


def in_short(cell):
    moved = "".join(f", {what} {cell[f'{what}_mb_s']:.0f} MB/s" for what in MIXES[cell["mix"]])
    return (f"fsync p50 {ms(cell['fsync_p50_ms'])}, p99 {ms(cell['fsync_p99_ms'])} ms, "
            f"{cell['elections']:.0f} elections, {cell['puts_s']:.1f} puts/s{moved}")


def plan(chosen):
    cells = []
    for disk in chosen.disks:
        rows = chosen.rows or (OWN_ROWS if disk == "own" else EMULATED_ROWS)
        for mix in chosen.mixes:
            # Alone there is nobody for whom ionice could matter, and one scheduler of the kernel
            # is as good as another.
            alone = [rows[0]] + [row for row in rows[1:] if row == "iopace-mount"]
            cells += [{"disk": disk, "row": row, "mix": mix, "seconds": chosen.seconds}
                      for row in (alone if mix == "alone" else rows)]
    return cells


def table(report):
    lines = ["| disk | row | beside | fsync p50 ms | p99 ms | of the slowest member | longest ms, below "
             "| elections | puts/s | put p99 ms | dd MB/s | tar MB/s |",
             "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for cell in report["cells"]:
        if "failed" in cell:
            continue
        beside = {"alone": "nobody", "both": "dd and backup"}.get(cell["mix"], cell["mix"])
        cells = [cell["disk"], cell["row"], beside, ms(cell["fsync_p50_ms"]), ms(cell["fsync_p99_ms"])]
        cells += [ms(cell["worst_member_p99_ms"]), ms(cell["fsync_longest_ms"])]
        cells += [number(cell["elections"], 0), number(cell["puts_s"], 1), ms(cell["put_p99_ms"])]
        cells += [number(cell[f"{what}_mb_s"], 0) if f"{what}_mb_s" in cell else "" for what in ("dd", "tar")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [""]


def text(report):
    """The tables, one of each length of the window, with what they depend on."""
    lines = [f"Measured {report['date']} on {report['machine']} (load when it began: "
             f"{report['load_before']:.1f}), {report['version']}, {report['etcd']}: "
             f"{report['members']} members, {report['rate']:.0f} puts a second asked for.", ""]
    for seconds in dict.fromkeys(cell["seconds"] for cell in report["cells"]):
        cells = [cell for cell in report["cells"] if cell["seconds"] == seconds]
        lines += [f"Windows of {seconds:.0f} s:", ""] + table({"cells": cells})
    failed = [cell for cell in report["cells"] if "failed" in cell]
    lines += [f"- not measured: {cell['disk']}, {cell['row']}, {cell['mix']}: {cell['failed']}"
              for cell in failed]
    return "\n".join(lines)


def write(path, report):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    before, rest = page.split(BEGIN)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + text(report).rstrip() + "\n" + END + rest.split(END)[1])
    say(f"{path} has the table; see: git diff {path}")


def verdicts(report):
    """The short form: what is asked of etcd through a mount, beside the run without iopace."""
    for cell in report["cells"]:
        if "failed" in cell or cell["row"] != "iopace-mount" or cell["mix"] == "alone":
            continue
        without = next((other for other in report["cells"] if other["row"].startswith("kernel")
                        and (other["disk"], other["mix"]) == (cell["disk"], cell["mix"])
                        and "failed" not in other), None)
        beside = f"; without iopace {ms(without['fsync_p99_ms'])} ms" if without else ""
        name = f"etcd beside dd and a backup, {cell['disk']}"
        figure(f"{name}: fsync p99", f"{ms(cell['fsync_p99_ms'])} ms{beside}",
               f"{BOUND_MS:.0f} ms", (cell["fsync_p99_ms"] or 0.0) <= BOUND_MS)
        figure(f"{name}: elections", f"{cell['elections']:.0f}", "none", cell["elections"] == 0)


def joined(files):
    """Reports of several runs as one, in the order of the plan's disks."""
    reports = []
    for path in files:
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    whole = reports[0]
    cells = {(cell["disk"], cell["row"], cell["mix"], cell["seconds"]): cell
             for report in reports for cell in report["cells"]}
    whole["cells"] = sorted(cells.values(), key=lambda cell: (
        cell["seconds"], FLASH.index(cell["disk"]), list(MIXES).index(cell["mix"]),
        list(ROWS).index(cell["row"])))
    return whole


def arguments():
    parser = argparse.ArgumentParser(description="etcd beside a dd and a backup")
    words = lambda text: text.split(",")
    parser.add_argument("short", nargs="?", choices=["short"], help="some three minutes")
    parser.add_argument("--disks", type=words, help=f"of {', '.join(FLASH)} [default: all]")
    parser.add_argument("--mixes", type=words, help=f"of {', '.join(MIXES)} [default: alone,both]")
    parser.add_argument("--rows", type=words, help=f"of {', '.join(ROWS)}")
    parser.add_argument("--seconds", type=float, help="the window that counts [default: 60; short: 20]")
    parser.add_argument("--members", type=int, default=3, help="of the cluster [default: 3]")
    parser.add_argument("--rate", type=float, default=50.0, help="puts a second [default: 50]")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--page", help="write the table into this page")
    parser.add_argument("--from", dest="files", nargs="+", help="what `--format json` printed, in place of runs")
    chosen = parser.parse_args()
    chosen.disks = chosen.disks or (FLASH[:2] if chosen.short else FLASH)
    chosen.mixes = chosen.mixes or (["both"] if chosen.short else ["alone", "both"])
    chosen.seconds = chosen.seconds or (20.0 if chosen.short else 60.0)
    for name, known in {"disks": FLASH, "mixes": MIXES, "rows": ROWS}.items():
        for value in getattr(chosen, name) or []:
            if value not in known:
                parser.error(f"--{name}: there is no {value}; there are {', '.join(known)}")
    return chosen


def measure_all(chosen):
    cells, load = plan(chosen), os.getloadavg()[0]
    if chosen.short and not chosen.rows:
        # One scheduler of the kernel is enough to see what iopace is beside.
        cells = [cell for cell in cells if cell["row"] in ("kernel", "kernel-mq-deadline", "iopace-mount")]
    version = lambda *command: run(*command).splitlines()[0].strip()
    say(f"{len(cells)} runs, some {len(cells) * (chosen.seconds + WARMUP + 8) / 60:.0f} minutes")
    return {"date": time.strftime("%Y-%m-%d"), "machine": rivals_page.machine(), "load_before": load,
            "version": version(IOPACE, "--version"), "etcd": version("etcd", "--version"),
            "members": chosen.members, "rate": chosen.rate,
            "cells": [run_cell(cell, chosen) for cell in cells]}


def main():
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if chosen.files:
        report = joined(chosen.files)
    elif os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        say("skipped: loop devices and mounts need root and /dev/fuse")
        sys.exit(0)
    else:
        report = measure_all(chosen)
    print(json.dumps(report, indent=1) if chosen.format == "json" else text(report))
    if chosen.page:
        write(chosen.page, report)
    if chosen.short:
        verdicts(report)
    if any("failed" in cell for cell in report["cells"]):
        sys.exit(1)


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)
