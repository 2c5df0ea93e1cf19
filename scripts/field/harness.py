"""Mounts and programs of the field tests: started, measured, and surely ended."""

import ctypes
import json
import mmap
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

IOPACE = os.path.realpath(os.environ.get("IOPACE_BIN", "iopace"))
DISK = "hdd-sata-250g"
MIB = 1 << 20
RUNNING = []


class Failed(Exception):
    """What a program or the daemon said when it failed."""


def die_with_us():
    """In a child: ends when this program is gone, however that went."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def start(command, **more):
    """A program in the background, in a process group of its own."""
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | more
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_us, **more)
    process.began = time.monotonic()
    RUNNING.append(process)
    return process


def stop(process, how=signal.SIGTERM, wait=5):
    """Ends a program that we started, with all that it started."""
    for number in (how, signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(wait)
            break
        except subprocess.TimeoutExpired:
            continue
    if process in RUNNING:
        RUNNING.remove(process)
    return process.returncode


def stop_all():
    for process in reversed(list(RUNNING)):
        stop(process, wait=10)


def run(command, **more):
    """A program to its end; what it printed."""
    process = start(command, **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more))
    try:
        out, err = process.communicate()
    finally:
        stop(process)
    if process.returncode != 0:
        text = (err or out or b"").decode(errors="replace").strip()
        raise Failed(f"{command[0]}: status {process.returncode}: {text[-400:]}")
    return (out or b"").decode(errors="replace")


def missing(*tools):
    return [tool for tool in tools if shutil.which(tool) is None]


def say(text):
    """Progress, for people."""
    print(f"field: {text}", file=sys.stderr, flush=True)


class Mount:
    """`iopace mount` of the folder `store` at `mnt`; every run has a new one, with cold caches.

    `groups`: what is set for groups that its rules name.
    """

    def __init__(self, folder, *words, groups=()):
        self.folder = folder
        self.store, self.path = os.path.join(folder, "store"), os.path.join(folder, "mnt")
        os.makedirs(self.store, exist_ok=True)
        os.makedirs(self.path, exist_ok=True)
        self.words, self.groups = words, groups

    def __enter__(self):
        command = [IOPACE, "mount", self.store, self.path, "--foreground", "--name", "disk"]
        command += ["--control", "c", "--socket", "s", *self.words]
        with open(os.path.join(self.folder, "err"), "w") as err:
            self.process = start(command, cwd=self.folder, stderr=err)
        while not os.path.ismount(self.path):
            if self.process.poll() is not None or time.monotonic() > self.process.began + 30:
                stop(self.process)
                with open(os.path.join(self.folder, "err")) as err:
                    raise Failed(f"iopace mount: {err.read().strip()[-400:]}")
            time.sleep(0.02)
        for group, name, value in self.groups:
            self.iopace("group", "set", group, name, value)
        return self

    def __exit__(self, *_):
        # The second signal ends it at once: what is dirty is nobody's any more.
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            pass
        stop(self.process, wait=20)
        if os.path.ismount(self.path):
            subprocess.run(["umount", "-l", self.path], check=False)
            raise Failed("the mount was left behind")

    def iopace(self, *words):
        return run([IOPACE, *words, "--control", "c"], cwd=self.folder)

    def pauses(self):
        """p99 and longest pause of writers so far, ms."""
        status = json.loads(self.iopace("pace", "status", "--format", "json"))
        pauses = status[0]["pace"]["pauses"]
        return pauses["p99_ns"] / 1e6, pauses["max_ns"] / 1e6

    def settle(self, paths):
        """Gives files their place on the disk, in this order, past every cache."""
        with mmap.mmap(-1, 4096) as page:
            for path in paths:
                fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
                os.preadv(fd, [page], 0)
                os.close(fd)


def files_below(path):
    return [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]


def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def gap(store, count):
    """Files of 1 GiB that only take room: what is placed after them lies far away."""
    os.makedirs(os.path.join(store, "gap"), exist_ok=True)
    for number in range(count):
        sparse(os.path.join(store, "gap", f"{number:03}"), 1 << 30)
    return sorted(files_below(os.path.join(store, "gap")))


def tree(path, files, sizes, seed=1):
    """Files of some KiB of words in folders of twenty, always the same."""
    draw = random.Random(seed)
    words = [f"w{draw.randrange(10 ** 6)}" for _ in range(512)]
    for number in range(files):
        folder = os.path.join(path, f"d{number // 20:04}")
        os.makedirs(folder, exist_ok=True)
        text, size = [], draw.randrange(*sizes)
        while size > 0:
            text.append(" ".join(draw.choices(words, k=10)) + "\n")
            size -= len(text[-1])
        with open(os.path.join(folder, f"f{number}.txt"), "w") as file:
            file.write("".join(text))


class Dd:
    """A dd in the background; `rate` ends it and gives MB/s, as dd itself says."""

    def __init__(self, *words, prefix=()):
        command = [*prefix, "dd", *words]
        more = {"stderr": subprocess.PIPE, "env": os.environ | {"LC_ALL": "C"}}
        self.process = start(command, **more)

    def rate(self):
        stop(self.process, signal.SIGINT)
        text = self.process.stderr.read().decode()
        found = re.search(r"(\d+) bytes .* copied, ([0-9.e+-]+) s", text)
        if not found:
            raise Failed(f"dd: {text.strip()}")
        return int(found[1]) / float(found[2]) / 1e6


def percentile(values, part):
    values = sorted(values)
    return values[min(int(part * len(values)), len(values) - 1)]


def remove(path):
    shutil.rmtree(path, ignore_errors=True)


class Table:
    """What a test found, with the bounds that it missed."""

    def __init__(self, title, *header):
        self.title, self.header = title, header
        self.rows, self.notes, self.missed = [], [], []

    def row(self, *cells):
        self.rows.append([str(cell) for cell in cells])

    def note(self, text):
        self.notes.append(text)

    def hold(self, is_kept, text):
        """A bound of the short form."""
        if not is_kept:
            self.missed.append(text)

    def markdown(self):
        lines = [f"## {self.title}", ""]
        for cells in (self.header, ["---"] * len(self.header), *self.rows):
            lines.append("| " + " | ".join(cells) + " |")
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"

    def json(self):
        rows = [dict(zip(self.header, cells)) for cells in self.rows]
        return {"title": self.title, "rows": rows, "notes": self.notes, "missed": self.missed}
