"""What the sides do, as fio jobs, and what of it counts: completions within one window of
wall-clock time that is the same for all sides. rivals.py has the overview."""

import glob
import os
import signal
import subprocess
import time

from rivals_cgroups import Failed
from rivals_stands import PATIENCE, end, stand

# Region: which quarter of the disk.
LOADS = {
    "small": {"rw": "randread", "bs": "16k", "iodepth": 1, "region": 2},
    "light": {"rw": "randread", "bs": "16k", "iodepth": 1, "region": 2, "thinktime": 100_000},
    "sequential-read": {"rw": "read", "bs": "128k", "iodepth": 1},
    "sequential-write": {"rw": "write", "bs": "128k", "iodepth": 4},
    "random-64": {"rw": "randread", "bs": "16k", "iodepth": 64},
    "programs-64": {"rw": "randread", "bs": "16k", "iodepth": 1, "numjobs": 64},
    "random-write": {"rw": "randwrite", "bs": "16k", "iodepth": 32},
    "bulk-read": {"rw": "read", "bs": "512k", "iodepth": 4},
    "bulk-write": {"rw": "write", "bs": "512k", "iodepth": 4},
    "bulk-mixed": {"rw": "rw", "bs": "512k", "iodepth": 16},
    "random-4": {"rw": "randread", "bs": "16k", "iodepth": 4},
    "large-4": {"rw": "randread", "bs": "128k", "iodepth": 4},
    "write-4": {"rw": "randwrite", "bs": "16k", "iodepth": 4},
}

# The big programs that the small one is put beside.
MIXES = ["sequential-read", "sequential-write", "random-64", "programs-64", "random-write"]


def options_of(load):
    """The options of fio of a load; `burst-N`: N requests as those of the small one, then a pause."""
    name, _, count = load.partition("-")
    if name == "burst":
        return LOADS["small"] | {"thinktime": 500_000, "thinktime_blocks": int(count)}
    return LOADS[load]


def job(place, side, more):
    """The job file of a side at a stand; `more` options take the place of the load's."""
    load = side.load
    options = {"region": 0, "numjobs": 1} | options_of(load) | more
    offset, length = place.part(options.pop("region"))
    if "write" in options["rw"]:
        length = min(length, place.WRITTEN)
    text = f"[{load}]\n{place.fio(side)}offset={offset}\nsize={length}\n"
    text += "\n".join(f"{name}={value}" for name, value in options.items())
    # `exec_prerun` notes that a job is ready and waits until all may begin (`Gate`).
    return text + f"""
time_based
runtime=600
thread=1
norandommap
randrepeat=1
random_generator=tausworthe64
write_lat_log={load}
log_unix_epoch=1
disable_slat=1
disable_clat=1
exec_prerun=echo | tee -a {load}.ready; : <{place.folder}/{Gate.NAME}
"""


class Gate:
    """Programs wait before it, at no cost, until all are ready: a FIFO that they open to read. Who
    closes it has opened it, so that nobody waits for ever."""

    NAME = "gate"

    def __init__(self, folder):
        self.path, self.file = os.path.join(folder, self.NAME), None
        if not os.path.exists(self.path):
            os.mkfifo(self.path)

    def open(self):
        if self.file is None:
            self.file = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    def close(self):
        self.open()
        os.close(self.file)


class Client:
    """fio as one side. It begins when the gate of the folder is open."""

    def __init__(self, place, side, **more):
        self.side, self.folder = side, os.path.join(place.folder, f"fio-{side.name}")
        os.mkdir(self.folder)
        with open(os.path.join(self.folder, "job.fio"), "w", encoding="ascii") as file:
            file.write(job(place, side, more))
        self.said = open(os.path.join(self.folder, "said"), "w+", encoding="utf-8")
        command = ["fio", "job.fio", "--output-format=terse", "--output=report"]
        self.process = place.start(side, command, cwd=self.folder, stdout=self.said,
                                   stderr=subprocess.STDOUT)

    def is_ready(self):
        if self.process.poll() is not None:
            raise Failed(f"fio of {self.side.name}: {self.words()}")
        note = os.path.join(self.folder, f"{self.side.load}.ready")
        jobs = options_of(self.side.load).get("numjobs", 1)
        return os.path.exists(note) and os.path.getsize(note) >= jobs

    def words(self):
        self.said.seek(0)
        return self.said.read().strip()[-300:]

    def tell(self):
        """After SIGINT fio waits for what is under way, and writes its logs."""
        self.process.send_signal(signal.SIGINT)

    def finish(self):
        try:
            status = self.process.wait(2 * PATIENCE)
        except subprocess.TimeoutExpired:
            status = end(self.process)
        if status not in (0, 128):
            raise Failed(f"fio of {self.side.name}: status {status}: {self.words()}")

    def completions(self, window):
        """(ms since 1970, ns, bytes) of each request that was done in the window, in order."""
        begin, finish = (int(1000 * at) for at in window)
        found = []
        for path in glob.glob(os.path.join(self.folder, "*_lat.*.log")):
            with open(path, "rb") as lines:
                for line in lines:
                    at, took, _, size = line.split(b",", 4)[:4]
                    if begin <= int(at) < finish:
                        found.append((int(at), int(took), int(size)))
        return sorted(found)

    def close(self):
        if self.process.poll() is None:
            # It may be started by another one, and has a group of its own.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.said.close()


def wait_for(is_so, what, patience=PATIENCE):
    until = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > until:
            raise Failed(f"{what} has not begun after {patience} s")
        # SLEEP: between two looks at what others have noted.
        time.sleep(0.02)


def take_window(warmup, seconds):
    """Waits until the window is over; its bounds on the clock of the wall."""
    begin = time.time() + warmup
    # SLEEP: the load runs meanwhile; what completes in the window is counted.
    time.sleep(warmup + seconds + 0.05)
    return begin, begin + seconds


def percentile(values, permille):
    """Of a sorted list; None if there is nothing."""
    return values[min(len(values) * permille // 1000, len(values) - 1)] if values else None


def figures(found, seconds):
    """Rates and latencies of what was done in a window of so many seconds; nothing is a zero."""
    latencies = sorted(took for _, took, _ in found)
    return {
        "count": len(found),
        "ops_s": len(found) / seconds,
        "mb_s": sum(size for _, _, size in found) / seconds / 1e6,
        "p50_ms": (percentile(latencies, 500) or 0) / 1e6 if latencies else None,
        "p99_ms": (percentile(latencies, 990) or 0) / 1e6 if latencies else None,
    }


def compete(row, disk, sides, folder, warmup, seconds):
    """All sides at once; figures by side, and what schedules."""
    clients, gate = [], Gate(folder)
    with stand(row, disk, sides, folder) as place:
        try:
            said = place.said()
            for side in sides:
                clients.append(Client(place, side))
            wait_for(lambda: all(client.is_ready() for client in clients), "fio",
                     PATIENCE + len(clients))
            gate.open()
            window = take_window(warmup, seconds)
            for client in clients:
                client.tell()
            for client in clients:
                client.finish()
            done = {client.side.name: client.completions(window) for client in clients}
        finally:
            gate.close()
            for client in clients:
                client.close()
    found = {name: figures(one, seconds) for name, one in done.items()}
    for side in sides:
        if side.load.startswith("burst-"):
            found[side.name] |= responses(done[side.name])
    return {"scheduler": said, "sides": found}


def responses(found):
    """Of each burst: how long its first request took; and the mean of all requests. A burst begins
    where nothing was asked for during most of the pause."""
    first, before = [], None
    for at, took, _ in found:
        if before is None or at - took / 1e6 - before > 400:
            first.append(took / 1e6)
        before = at
    first.sort()
    mean = sum(took for _, took, _ in found) / len(found) / 1e6 if found else None
    return {"bursts": len(first), "first_p50_ms": percentile(first, 500),
            "first_max_ms": percentile(first, 999), "mean_ms": mean}
