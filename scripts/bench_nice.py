"""`iopace nice` beside what the kernel has: a copy and a database that commits, on one disk.

    bench_nice.py [short] [--disk NAME] [--mixes A,B] [--seconds N] [--format text|json]

A row is a run of its own on a disk of its own: SQLite commits (synchronous=full) while fio reads or
writes in bulk, and what completes within one window of SECONDS of wall-clock time counts, for both
the same. `alone` is each of the two by itself; `plain` has nobody favoured; the others have the
copy started with `ionice -c3` or `iopace nice`, under a scheduler of the kernel or, in a mount, of
iopace. Rows run one after the other. The disk is emulated, or `own`, a file on the machine's own
disk (TMPDIR). Root only; Ctrl-C leaves nothing behind. IOPACE_BIN is the program.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys

import rivals
from figures import figure
from rivals_commits import OWN_MIXES
from rivals_stands import DISKS, Side

# What a row is called here, and its stand.
ALONE = {"alone": "kernel-none", "alone, mount": "iopace-mount"}
ROWS = {"plain": "kernel-none", "plain, mount": "iopace-mount",
        "ionice -c3, bfq": "kernel-bfq-ionice",
        "ionice -c3, mq-deadline": "kernel-mq-deadline-ionice",
        "iopace nice, bfq": "kernel-bfq-nice",
        "iopace nice, mq-deadline": "kernel-mq-deadline-nice",
        "iopace nice, mount": "iopace-mount-nice"}
KERNEL = ["ionice -c3, bfq", "ionice -c3, mq-deadline"]


def plan(disk, mixes, seconds):
    """Cells of rivals.py, by row and mix; the copy alone is one of them."""
    commits = Side("commits", "commits")
    cells = {(name, None): rivals.cell("commits", disk, row, "alone", [commits], seconds)
             for name, row in ALONE.items()}
    for mix in mixes:
        big = Side("big", mix)
        cells["copy", mix] = rivals.cell("commits", disk, "kernel-none", mix, [big], seconds)
        for name, row in ROWS.items():
            cells[name, mix] = rivals.cell("commits", disk, row, mix, [commits, big], seconds)
    return cells


def ratio(value, whole):
    return value / whole if whole else None


def report(cells, found):
    """A line for each row: what it committed and copied, and of what it does alone."""
    by_cell = dict(zip(cells, found))
    alone = side(by_cell["alone", None], "commits").get("ops_s")
    rows = []
    for (name, mix), one in by_cell.items():
        commits, big = side(one, "commits"), side(one, "big")
        whole = side(by_cell["copy", mix], "big").get("mb_s") if mix else None
        rows.append({"row": name, "copy": mix, "failed": one.get("failed"),
                     "commits_s": commits.get("ops_s"), "p99_ms": commits.get("p99_ms"),
                     "commits_of_alone": ratio(commits.get("ops_s", 0), alone) if commits else None,
                     "copy_mb_s": big.get("mb_s"),
                     "copy_of_alone": ratio(big.get("mb_s", 0), whole) if big else None})
    return rows


def side(one, name):
    return one.get("sides", {}).get(name, {})


def text(rows):
    columns = ["copy", "row", "commits/s", "of alone", "p99 ms", "copy MB/s", "of alone"]
    keys = ["commits_s", "commits_of_alone", "p99_ms", "copy_mb_s", "copy_of_alone"]
    shown = lambda value: "-" if value is None else f"{value:.2f}"
    lines = [columns] + [[row["copy"] or "none", row["row"]] + (
        [row["failed"]] if row["failed"] else [shown(row[key]) for key in keys]) for row in rows]
    widths = [max(len(line[at]) for line in lines if at < len(line) and at < 2) if at < 2 else 10
              for at in range(len(columns))]
    place = lambda at, cell: cell.ljust(widths[at]) if at < 2 else cell.rjust(widths[at])
    return "\n".join("  ".join(place(at, cell) for at, cell in enumerate(line)).rstrip()
                     for line in lines)


def say_figures(rows):
    """In a mount the database keeps as much as with the better of the kernel's two, or more."""
    for mix in dict.fromkeys(row["copy"] for row in rows if row["copy"]):
        of = {row["row"]: row["commits_s"] for row in rows if row["copy"] == mix}
        best = max((of[name] or 0 for name in KERNEL), default=0)
        ours = of["iopace nice, mount"] or 0
        figure(f"commits beside a copy by iopace nice in a mount, {mix}", f"{ours:.1f}/s",
               f">= {best:.1f}/s, the better of ionice -c3 with bfq and mq-deadline", ours >= best)


def arguments():
    parser = argparse.ArgumentParser(description="iopace nice beside ionice")
    parser.add_argument("short", nargs="?", choices=["short"], help="one mix")
    parser.add_argument("--disk", choices=list(DISKS), default="hdd-sata-250g-ncq")
    parser.add_argument("--mixes", type=lambda words: words.split(","))
    parser.add_argument("--seconds", type=float, default=20.0, help="the window that counts")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    chosen = parser.parse_args()
    mixes = OWN_MIXES[:1] if chosen.short else OWN_MIXES[:2]
    chosen.mixes = chosen.mixes or mixes
    for mix in chosen.mixes:
        if mix not in OWN_MIXES:
            parser.error(f"--mixes: there is no {mix}; there are {', '.join(OWN_MIXES)}")
    return chosen


def main():
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse") or not shutil.which("fio"):
        print("skipped: it needs fio, and root and /dev/fuse for loop devices, cgroups and mounts")
        return
    cells = plan(chosen.disk, chosen.mixes, chosen.seconds)
    with rivals.OwnFile() if chosen.disk == "own" else contextlib.nullcontext():
        # One at a time, so that they end in their order.
        found = rivals.run_all(list(cells.values()), 1)
    rows = report(cells, found)
    if chosen.format == "json":
        print(json.dumps({"disk": chosen.disk, "seconds": chosen.seconds, "rows": rows,
                          "machine": rivals.rivals_page.machine()}, indent=1))
    else:
        print(text(rows))
        say_figures(rows)
    if any(row["failed"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
