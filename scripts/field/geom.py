"""dd and cvs on one disk: the table of the FreeBSD GEOM schedulers (2009)."""

import os
import random
import time

from harness import (DISK, MIB, Dd, Mount, Table, files_below, gap, run, say, sparse, start, stop,
                     tree)

TOOLS = ("cvs", "dd")
# The scheduler alone, as in the source; the last with pacing and the window of the defaults.
SCHEDULERS = ("none", "fifo", "rr", "rr, rate, latency")

# dd in MB/s and how cvs was, from the README of geom_sched (Fabio Checconi, Luigi Rizzo, 2009).
SOURCE = {
    ("dd read", "none"): "72, -",
    ("dd read", "rr"): "72, -",
    ("dd read + cvs", "none"): "6, ok",
    ("dd read + cvs", "rr"): "30, ok",
    ("dd write", "none"): "55, -",
    ("dd write", "rr"): "55, -",
    ("dd write + cvs", "none"): "55, very slow",
    ("dd write + cvs", "rr"): "14, ok",
}

# What dd does. The source read the raw disk, which has no read-ahead: one read after the other.
DD = {
    "dd read": ["if={big}", "of=/dev/null", "iflag=direct"],
    "dd read, cached": ["if={big}", "of=/dev/null"],
    "dd write": ["if=/dev/zero", "of={out}"],
}


def repository(store, files):
    """A cvs repository and a copy of it that is checked out."""
    root, work = os.path.join(store, "cvsroot"), os.path.join(store, "work")
    staging = os.path.join(store, "staging")
    environment = os.environ | {"CVSROOT": root, "LOGNAME": "field", "USER": "field"}
    tree(staging, files, (2000, 12000))
    run(["cvs", "-Q", "init"], env=environment)
    words = ["import", "-m", "all", "module", "vendor", "start"]
    run(["cvs", "-Q", *words], cwd=staging, env=environment)
    os.makedirs(work)
    run(["cvs", "-Q", "checkout", "module"], cwd=work, env=environment)
    run(["rm", "-rf", staging])


def update(mount, seconds):
    """Files per second that cvs update looks at; every folder is 20 of them."""
    module = os.path.join(mount.path, "work", "module")
    root = os.path.join(mount.path, "cvsroot")
    log = os.path.join(mount.folder, "cvs.log")
    environment = os.environ | {"LOGNAME": "field", "USER": "field"}
    with open(log, "w") as out:
        more = {"cwd": module, "stdout": out, "stderr": out, "env": environment}
        cvs = start(["cvs", "-d", root, "update"], **more)
    end = cvs.began + seconds
    while time.monotonic() < end and cvs.poll() is None:
        time.sleep(0.02)
    took = time.monotonic() - cvs.began
    is_done = cvs.poll() is not None
    stop(cvs)
    with open(log) as text:
        folders = sum("Updating d" in line for line in text)
    folders -= 0 if is_done or folders == 0 else 1
    return folders * 20 / took


def once(folder, scheduler, mix, seconds):
    """MB/s of dd and files per second of cvs, side by side on a disk with cold caches."""
    words = ["--emulate", DISK, "--cache", "64MiB"]
    if "rate" not in scheduler:
        words += ["--pace", "none", "--window-policy", "fixed"]
    # Without a scheduler the driver of the disk has an elevator.
    words += ["--sched", "elevator" if scheduler == "none" else scheduler.split(",")[0]]
    store = os.path.join(folder, "store")
    big, out = os.path.join(store, "big"), os.path.join(store, "out")
    with Mount(folder, *words) as mount:
        here = lambda path: path.replace(store, mount.path)
        # A used disk: the files of the tree in any order, the large file far from them.
        order = files_below(os.path.join(store, "cvsroot"))
        order += files_below(os.path.join(store, "work"))
        random.Random(7).shuffle(order)
        mount.settle(here(path) for path in order if os.path.getsize(path) > 0)
        mount.settle(here(path) for path in gap(store, 30))
        mount.settle([here(big)])
        kind, dd = mix.removesuffix(" + cvs"), None
        if kind in DD:
            dd = Dd("bs=128k", *(word.format(big=here(big), out=here(out)) for word in DD[kind]))
            time.sleep(1)
        if mix.endswith("cvs"):
            files = update(mount, seconds)
        else:
            files = None
            time.sleep(seconds)
        rate = dd.rate() if dd else None
    if os.path.exists(out):
        os.remove(out)
    return rate, files


def geom(folder, short):
    seconds = 3 if short else 5
    store = os.path.join(folder, "store")
    os.makedirs(store)
    files = 300 if short else 800
    say(f"cvs: a repository of {files} files, and a copy checked out")
    repository(store, files)
    sparse(os.path.join(store, "big"), 16 * 1024 * MIB)
    table = Table(
        "dd and cvs update on one disk (GEOM schedulers, 2009)",
        "mix", "scheduler", "source: dd MB/s, cvs", "dd MB/s", "cvs files/s", "cvs, of alone",
    )
    mixes = ["cvs"] + [kind + more for kind in DD for more in ("", " + cvs")]
    mixes.remove("dd read, cached")
    if short:
        mixes = ["dd read + cvs"]
    found = {}
    for mix in mixes:
        for scheduler in SCHEDULERS:
            # fifo differs from none only where both wait in one queue.
            if scheduler == "fifo" and (short or mix != "dd read + cvs"):
                continue
            if "rate" in scheduler and mix != "dd write + cvs":
                continue
            say(f"{mix}, {scheduler}")
            rate, files = found[mix, scheduler] = once(folder, scheduler, mix, seconds)
            cells = ["-" if rate is None else f"{rate:.1f}", "-", "-"]
            if files is not None:
                alone = found.get(("cvs", "none"), (None, None))[1]
                cells[1:] = [f"{files:.0f}", f"{files / alone:.2f}" if alone else "-"]
            table.row(mix, scheduler, SOURCE.get((mix, scheduler), "-"), *cells)
    if short:
        before, after = (found["dd read + cvs", name] for name in ("none", "rr"))
        table.hold(after[0] > 1.2 * before[0], f"rr: dd {after[0]:.1f}, none: {before[0]:.1f} MB/s")
        table.hold(after[1] > 0.2 * before[1], f"rr: cvs {after[1]:.0f}, none: {before[1]:.0f}/s")
    return table
