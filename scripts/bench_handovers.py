#!/usr/bin/env python3
"""Copies and hand-overs of the NBD path: the calls and switches of a request, counted.

    scripts/bench_handovers.py [--old BINARY] [--new BINARY] [--rounds N] [--only WORD]...

Root only, with perf and fio. A row is a fixed amount of work of fio's nbd engine over a Unix socket,
with each build in turn. All numbers are per request and of the daemon alone: the median of the
rounds. A wake-up is one that a thread of the daemon makes, of the client's or of another of its
own. How many requests come together, and so most of these, depends on how fast the client is: only
numbers of builds that took turns can be compared. TMPDIR says on which file system.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile

from bench_pairs import Build, NbdRow, sync


def calls(*names):
    return [f"syscalls:sys_enter_{name}" for name in names]


# A column, and the events that it adds up.
COLUMNS = {
    "receive": calls("recvfrom"),
    "send": calls("sendmsg", "sendto", "sendfile64"),
    "file": calls("cachestat", "preadv2", "pread64", "pwritev2", "pwrite64"),
    "io_uring": calls("io_uring_enter"),
    "futex": calls("futex"),
    "eventfd": calls("write"),
    "yield": calls("sched_yield"),
    "all calls": ["raw_syscalls:sys_enter"],
    "switches": ["context-switches"],
    "client woken": ['sched:sched_waking comm == "fio"'],
    "own thread woken": ['sched:sched_waking comm ~ "nbd-*" || comm == "ring" || comm == "reaper"'],
}


def rows():
    for connections in 1, 4:
        yield NbdRow("page cache", "randread", 4096, 1, 8000, connections)
        yield NbdRow("page cache", "randread", 4096, 32, 40000, connections)
        yield NbdRow("page cache", "randwrite", 4096, 32, 10000, connections)
        yield NbdRow("direct", "randread", 4096, 1, 4000, connections)
        yield NbdRow("direct", "randread", 4096, 32, 20000, connections)
        yield NbdRow("direct", "randwrite", 4096, 32, 20000, connections)
    # More than a connection may have open.
    yield NbdRow("direct", "randread", 4096, 1024, 20000)


def measure(row, builds, folder, rounds):
    """Of each build, the numbers of every round."""
    events = [event for column in COLUMNS.values() for event in column]
    daemons = {build.name: row.serve(build, folder) for build in builds}
    found = {build.name: [] for build in builds}
    try:
        for daemon, build in ((daemons[build.name], build) for build in builds):
            row.run(daemon, build)  # the page cache is warm
        for turn in range(rounds):
            for build in builds if turn % 2 else builds[::-1]:
                sync(folder)
                daemon = daemons[build.name]
                counts = daemon.counted(lambda: row.run(daemon, build), events)
                if None in counts:
                    raise SystemExit("bench: perf cannot count all events")
                counts = iter(counts)
                numbers = [sum(next(counts) for _ in column) for column in COLUMNS.values()]
                used = daemon.cpu()
                wall = row.run(daemon, build)
                numbers += [1e6 * (daemon.cpu() - used), 1e6 * wall]
                found[build.name].append([number / row.operations for number in numbers])
    finally:
        for daemon in daemons.values():
            daemon.end()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", help="a build to compare with")
    parser.add_argument("--new", default=os.environ.get("IOPACE_BIN", "target/release/iopace"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", help="rows whose name has this in it")
    given = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench: hand-overs are counted as root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended"))
    builds = [Build("new", given.new)] + ([Build("old", given.old)] if given.old else [])
    heads = ["load", "build", *COLUMNS, "processor µs", "µs"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    with tempfile.TemporaryDirectory(prefix="iopace-handovers-") as folder:
        for row in rows():
            if given.only and not any(word in row.name for word in given.only):
                continue
            found = measure(row, builds, folder, given.rounds)
            for build in reversed(builds):
                medians = [statistics.median(of) for of in zip(*found[build.name])]
                cells = [row.name.removeprefix("NBD, "), {"old": "before"}.get(build.name, "now")]
                print(f"| {' | '.join(cells + [f'{one:.2f}' for one in medians])} |", flush=True)


if __name__ == "__main__":
    main()
