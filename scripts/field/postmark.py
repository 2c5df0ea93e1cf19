"""Postmark's reading with a dd beside it: the test of the NetBSD congestion control (2006)."""

import os
import select
import subprocess
import time

from harness import DISK, Dd, Failed, Mount, Table, remove, say, start, stop

TOOLS = ("postmark", "dd")

# Files, reads, and pages of the modelled machine: less than the files, so that reads come to the
# disk.
SIZES, SIZES_SHORT = (1000, 3000, "16MiB"), (300, 2000, "5MiB")

# Name, pacing once it reads, arguments of the mount, whether a dd writes, the source's figure.
# `deadline` stands for a kernel whose disk queue does not starve anybody: C-LOOK alone serves a
# writer in sequence for ever.
FIXED, LATENCY = ["--window-policy", "fixed"], ["--window-policy", "latency"]
C_LOOK = ["--sched", "elevator"]
CASES = [
    ("alone", "none", [*FIXED, *C_LOOK], False, "1.00"),
    ("none, C-LOOK", "none", [*FIXED, *C_LOOK], True, "-"),
    ("none, deadline", "none", [*FIXED, "--sched", "deadline"], True, "0.58"),
    ("counting, deadline", "counting", [*FIXED, "--sched", "deadline"], True,
     "below none in over 90 % of some 50 cases"),
    ("rate, latency, C-LOOK", "rate", [*LATENCY, *C_LOOK], True, "-"),
    ("rate, latency, deadline", "rate", [*LATENCY, "--sched", "deadline"], True, "-"),
    ("rate, latency, fair", "rate", [*LATENCY, "--sched", "fair"], True, "-"),
]
SHORT = ("none, deadline", "rate, latency, fair")

# Bytes of a file, at random between these: a read of the table is one whole file.
FILE_SIZES = (32768, 65536)
MEAN_SIZE = sum(FILE_SIZES) / 2

# Seconds that do not count.
SETTLE = 2

SETTINGS = """
set location {location}
set size {least} {most}
set number {files}
set transactions {transactions}
set bias create -1
set bias read 10
set buffering false
set read 4096
set seed 42
run
quit
"""


def read_until(stream, text, word, end):
    """What the program prints, until it says a word, ends, or the time is over."""
    while word not in text:
        left = end - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            break
        more = os.read(stream.fileno(), 4096)
        if not more:
            break
        text += more
    return text


def bytes_read(process):
    """What a program has read by its calls so far."""
    with open(f"/proc/{process.pid}/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("rchar"))


def once(folder, pace, words, sizes, has_writer, limit):
    """Reads of whole files per second and MB/s of the dd, if there is one."""
    files, transactions, cache = sizes
    remove(os.path.join(folder, "store"))
    with Mount(folder, "--emulate", DISK, "--cache", cache, "--pace", "none", *words) as mount:
        settings = os.path.join(folder, "settings")
        with open(settings, "w") as file:
            least, most = FILE_SIZES
            file.write(SETTINGS.format(location=mount.path, files=files, transactions=transactions,
                                       least=least, most=most))
        command = ["stdbuf", "-o0", "postmark", settings]
        process = start(command, cwd=folder, stdout=subprocess.PIPE)
        text = read_until(process.stdout, b"", b"Performing transactions", process.began + 60)
        if b"Performing transactions" not in text:
            raise Failed(f"postmark: {text.decode().strip()}")
        # From here on it reads, as in the source: the dd is started now.
        mount.iopace("pace", "configure", "-a", pace)
        writes = ["if=/dev/zero", f"of={mount.path}/out", "bs=1M", "count=10000"]
        dd = Dd(*writes) if has_writer else None
        # SLEEP: the files that it has just made are still being written back, at its cost.
        time.sleep(SETTLE)
        began, before = time.monotonic(), bytes_read(process)
        read_until(process.stdout, text, b"Done\nDeleting", began + limit)
        seconds = time.monotonic() - began
        reads = (bytes_read(process) - before) / MEAN_SIZE
        rate = dd.rate() if dd else None
        stop(process)
    remove(os.path.join(folder, "store"))
    return reads / seconds, rate


def postmark(folder, short):
    sizes, limit = (SIZES_SHORT, 5) if short else (SIZES, 8)
    table = Table(
        "Postmark's reads beside a dd (congestion control, 2006)",
        "control", "dd beside it", "source: reads, of alone",
        "reads/s", "of alone", "dd MB/s",
    )
    found = {}
    for name, pace, words, has_writer, source in CASES:
        if short and name not in SHORT:
            continue
        say(f"postmark, {name}")
        found[name] = once(folder, pace, words, sizes, has_writer, limit)
        reads, rate = found[name]
        table.row(
            name, "yes" if has_writer else "no", source, f"{reads:.1f}",
            f"{reads / found['alone'][0]:.2f}" if "alone" in found else "-",
            f"{rate:.1f}" if rate else "-",
        )
    before, after = (found[name][0] for name in SHORT)
    table.hold(after > before, f"reads {after:.1f}/s with pacing, {before:.1f} without")
    return table
